"""W and R: of every fact, and their means of each model by granularity (TimeStress, figures 2 and 12)."""

from collections.abc import Callable, Sequence

import polars as pl

from anachron.analysis.analyses.analysis import FACT, LEVEL, MEANS, RIGHT, RUN, WORDS, WRONG, Analysis, Chart, in_words
from anachron.analysis.findings import Row, Rows, percent, widest
from anachron.analysis.metrics import GLOBAL, RUN_KEYS
from anachron.analysis.plots import charts, marks, style

MANY, TOP = 8, 5  # with more models than MANY, the TOP most robust have a block of their own


def draw(table: pl.DataFrame) -> "style.Figure":
    """W and R of each model at each granularity with intervals, the most robust model first.

    One block of rows a format and prefix; where there are more than eight models, the five most robust have a block of
    their own before it. Source: TimeStress, figures 2 and 12.
    """
    rows = style.check("summary", table, *style.SCORES)
    blocks = []
    for title, part in style.sections(rows):
        models = by_robustness(part)
        if len(models) > MANY:
            blocks.append((f"{title}: the {TOP} most robust models", part, models[:TOP]))
            title = f"{title}: all models"
        blocks.append((title, part, models))
    granularities = style.in_order(rows["granularity"], list(style.GRANULARITIES))
    heights = [
        marks.rows_height(models, least=(0.09 if len(models) <= MANY else 0.07) * len(granularities))
        for _, _, models in blocks
    ]
    height = sum(heights) + 0.26 * len(blocks) + 0.65
    with style.sheet(
        style.PAGE, height, len(blocks), 2, sharex="col", sharey="row", gridspec_kw={"height_ratios": heights}
    ) as (figure, axes):
        for across, (title, part, models) in zip(axes, blocks, strict=True):
            across[0].set_title(title)
            shown = part.filter(pl.col("model").is_in(models))
            named = shown.with_columns(pl.Series("row", [models.index(model) for model in shown["model"]]))
            for panel, score in zip(across, style.SCORES, strict=True):
                marks.name_rows(panel, models)
                marks.by_granularity(panel, named, score, granularities)
            marks.reference(across[0], 0.5, label="random scorer")
        for panel, name in zip(axes[-1], style.SCORES.values(), strict=True):
            panel.set_xlabel(name)
            marks.in_percent(panel)
        axes[-1, 1].set_xlim(left=0)
        marks.legend(figure)
    return figure


def by_robustness(part: pl.DataFrame) -> list[str]:
    """Models by R over all granularities (their mean where no fact has all three), then W, then name."""
    global_rows = part.filter(pl.col("granularity") == GLOBAL)
    ranked = (
        (global_rows if global_rows.height else part).group_by("model").agg(pl.col("robustness", "win_rate").mean())
    )
    return ranked.sort(["robustness", "win_rate", "model"], descending=[True, True, False])["model"].to_list()


def page_views(table: pl.DataFrame, looks: charts.Looks) -> charts.Views:
    return [
        charts.by_granularity(
            table, looks, value=score, low=f"{score}_low", high=f"{score}_high", label=name, title=name
        )
        for score, name in charts.NAMES.items()
    ]


FACTS = Analysis(
    name="facts",
    group=WRONG,
    title="Win rate W and robustness R of every fact",
    source="TimeStress, section 3.1",
    compute=lambda study: in_words(study.facts.drop("subject"), study),
    large=True,
    shown_apart=True,
    columns={
        **RUN,
        **FACT,
        **WORDS,
        **LEVEL,
        "win_rate": "W: share of matches won, 0 to 1",
        "robustness": "R: 1 if all are won, else 0",
        "matches": "number of matches: correct times incorrect contexts",
        "ties": "matches with equal scores, which count as lost",
        "near_ties": "matches decided by no more than the run's noise; empty if the noise is unknown",
        "win_rate_half_ties": "W with ties worth one half",
        "random_robustness": "expected R of a random scorer",
    },
)


def summary_of_several(rows: Rows, name: Callable[[Sequence[str]], str]) -> str | None:
    """W of two runs, or the lowest and the highest of more, at the widest granularity that all of them have.

    name: of a run. The shares as they are; that one is surely above another is not said.
    """
    of_run = [
        {row["granularity"]: row for row in rows if key_of(row) == key} for key in dict.fromkeys(map(key_of, rows))
    ]
    shared = next((level for level in (GLOBAL, *charts.LEVELS) if all(level in own for own in of_run)), None)
    if shared is None:
        return None
    chosen = sorted((own[shared] for own in of_run), key=lambda row: row["win_rate"], reverse=True)
    first, last = ((name(key_of(row)), percent(row["win_rate"])) for row in (chosen[0], chosen[-1]))
    if len(chosen) == 2:
        return f"{first[0]} wins {first[1]} of matches, {last[0]} {last[1]}"
    return f"{len(chosen)} runs win between {last[1]} ({last[0]}) and {first[1]} ({first[0]}) of matches"


def key_of(row: Row) -> tuple[str, ...]:
    return tuple(row[name] for name in RUN_KEYS)


def _summary_finding(rows: Rows) -> str | None:
    row = widest(rows)
    robust, facts = round(row["robustness"] * row["facts"]), row["facts"]
    return f"Wins {percent(row['win_rate'])} of matches, and every match of {robust:,} of {facts:,} facts"


SUMMARY = Analysis(
    name="summary",
    group=RIGHT,
    title="Mean W and R of each model, by granularity",
    source="TimeStress, figures 2 and 12; TimeStress v1, figures 2 and 4",
    compute=lambda study: study.summary,
    figure=draw,
    chart=Chart(page_views, f"A random scorer has W 50 % and R near 0. {charts.INTERVALS}"),
    finding=_summary_finding,
    columns={
        **RUN,
        **LEVEL,
        "facts": "facts that have W and R",
        **MEANS,
        "ties": "share of matches that are ties",
        "near_ties": "share of matches that are near-ties; empty if the noise is unknown",
        "win_rate_half_ties": "mean W with ties worth one half",
        "random_win_rate": "expected W of a random scorer, 0.5",
        "random_robustness": "mean expected R of a random scorer",
    },
)
