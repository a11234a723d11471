"""Transfer of knowledge between granularities (TimeStress, figures 6, 9 and 10)."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from anachron.analysis.analyses.analysis import POOLED_RUN, RUN_WORDS, WRONG, Analysis, Chart, InPaper, Need
from anachron.analysis.findings import Rows
from anachron.analysis.metrics import FACT_KEYS, POOLED, RUN_KEYS, as_pooled
from anachron.analysis.plots import charts, marks, style
from anachron.analysis.plots.words import prefix_name
from anachron.analysis.statistics import wilson
from anachron.analysis.study import Study
from anachron.core.dates import GRANULARITIES

ACROSS = 4  # heat maps side by side
TITLE = 19  # letters a line above a map
SINGLE = 7  # models shown beside the pooled ones, so two lines of heat maps a format and prefix


def transfer(facts: pl.DataFrame, pool: pl.DataFrame | None = None) -> pl.DataFrame:
    """P(known at a | known at b) for the three granularities, per model and pooled over the models of ``pool``.

    pool: ``model, format, prefix`` of the runs that are pooled; by default all.

    A fact is known at a granularity when its robustness there is 1. Returns ``model, format, prefix, a, b,
    known_both, known_b, rate, low, high``; ``rate`` is null where nothing is known at b. The interval is
    Wilson's with continuity correction. Facts without matches at a or b are left out of that pair.
    """
    wide = (
        facts.filter(pl.col("granularity").is_in(list(GRANULARITIES)))
        .pivot("granularity", index=FACT_KEYS, values="robustness", maintain_order=True)
        .with_columns([pl.lit(None, pl.Float64).alias(g) for g in GRANULARITIES if g not in facts["granularity"]])
    )
    chosen = wide if pool is None else wide.join(pool, on=RUN_KEYS, how="semi", maintain_order="left")
    pooled = as_pooled(chosen)
    rows = []
    for key, group in pl.concat([wide, pooled]).group_by(RUN_KEYS, maintain_order=True):
        for b in GRANULARITIES:
            for a in GRANULARITIES:
                both = group.filter(pl.col(a).is_not_null() & (pl.col(b) == 1))
                known_b, known_both = both.height, int(both[a].sum())
                low, high = wilson(known_both, known_b, correction=True)
                cell = dict(zip(RUN_KEYS, key, strict=True)) | {"a": a, "b": b}
                cell |= {"known_both": known_both, "known_b": known_b, "rate": None, "low": None, "high": None}
                rows.append(cell | ({"rate": known_both / known_b, "low": low, "high": high} if known_b else {}))
    return pl.DataFrame(rows, infer_schema_length=None)


def transfer_of_most_robust(study: Study) -> pl.DataFrame:
    """`transfer` of every run, pooled over the most robust models."""
    return transfer(study.facts, study.most_robust)


def mean_transfer(table: pl.DataFrame) -> pl.DataFrame:
    """Mean rate off the diagonal of each model's 3 x 3 transfer (TimeStress, figure 6 and 10).

    table: from `transfer`. Columns ``model, format, prefix, rate`` (null where any of the six rates is) and
    ``lowest, highest`` of the six.
    """
    off = table.filter(pl.col("a") != pl.col("b"))
    complete = pl.col("rate").null_count() == 0
    return off.group_by(RUN_KEYS, maintain_order=True).agg(
        pl.when(complete).then(pl.col("rate").mean()).alias("rate"),
        pl.col("rate").min().alias("lowest"),
        pl.col("rate").max().alias("highest"),
    )


def draw(table: pl.DataFrame) -> "style.Figure":
    """Share of the facts known at one granularity that are known at another, with intervals, in per cent.

    Per format and prefix a 3 x 3 map of the pooled models, then of the seven models with the most known facts at
    most. Source: TimeStress, figures 6, 9 and 10.
    """
    style.check("transfer", table, "rate")
    lines: list[list[tuple[str, str, pl.DataFrame]]] = []
    for title, part in style.sections(table):
        models = _most_known(part)
        shown = [POOLED, *models[:SINGLE]] if POOLED in part["model"] else models[:SINGLE]
        few = f", {SINGLE} of {len(models)} models" if len(models) > SINGLE else ""
        maps = [(model, part.filter(pl.col("model") == model)) for model in shown]
        for first in range(0, len(maps), ACROSS):
            heads = [style.folded(f"{title}{few}", TITLE) + "\n" if first == n == 0 else "" for n in range(ACROSS)]
            lines.append([(head, *m) for head, m in zip(heads, maps[first : first + ACROSS], strict=False)])
    return _grid(lines)


def _grid(lines: Sequence[Sequence[tuple[str, str, pl.DataFrame]]]) -> "style.Figure":
    tallest = [max(marks.lines_of([name], TITLE) + head.count("\n") for head, name, _ in line) for line in lines]
    with style.sheet(style.PAGE, sum(1.65 + 0.13 * n for n in tallest), len(lines), ACROSS) as (figure, axes):
        for across, line in zip(axes, lines, strict=True):
            for panel, (head, name, part) in zip(across, line, strict=False):
                panel.set_title(head + style.folded(name, TITLE))
                _three_by_three(panel, part)
            across[0].set_ylabel("known at")
            across[0].set_xlabel("also known at")
            marks.blank(across[len(line) :])
    return figure


def _three_by_three(panel: "style.Axes", part: pl.DataFrame) -> None:
    """Rows are the granularity at which facts are known (b), columns the one at which they are too (a)."""
    rates = np.full((3, 3), np.nan)
    texts = [["\N{EN DASH}"] * 3 for _ in GRANULARITIES]
    for row in part.iter_rows(named=True):
        i, j = GRANULARITIES.index(row["b"]), GRANULARITIES.index(row["a"])
        if row["rate"] is not None:
            rates[i, j] = row["rate"]
            texts[i][j] = f"{100 * row['rate']:.0f}"
            if row["low"] is not None:
                texts[i][j] += f"\n{100 * row['low']:.0f}\N{EN DASH}{100 * row['high']:.0f}"
    marks.heat_map(panel, rates, texts)
    panel.set_xticks(range(3), GRANULARITIES)
    panel.set_yticks(range(3), GRANULARITIES)


def _most_known(part: pl.DataFrame) -> list[str]:
    """Single models by how many facts they know at the three granularities together."""
    diagonal = part.filter(pl.col("model") != POOLED, pl.col("a") == pl.col("b"))
    known = diagonal.group_by("model").agg(pl.col("known_b").sum())
    return known.sort(["known_b", "model"], descending=[True, False])["model"].to_list()


def draw_mean(table: pl.DataFrame) -> "style.Figure":
    """Mean transfer between two different granularities with each prefix, and the lowest and highest of the six.

    The pooled models first. Rows of a model without a mean are left out. Source: TimeStress, figures 6 and 10.
    """
    rows = style.check("transfer_mean", table, "rate")
    named = rows.with_columns(pl.Series("row", style.run_labels(rows, "format")))
    order = style.in_order(named["row"], [r for r in named["row"] if r.split(",")[0] == POOLED])
    prefixes = style.in_order(named["prefix"], ["none"])
    height = marks.rows_height(order, least=0.1 + 0.1 * len(prefixes)) + 0.6
    width = style.COLUMN if max(map(len, order)) <= 20 else style.PAGE
    with style.sheet(width, height) as (figure, axes):
        panel = axes[0, 0]
        marks.name_rows(panel, order)
        for number, (prefix, offset) in enumerate(zip(prefixes, marks.spread(len(prefixes)), strict=True)):
            of_prefix = named.filter(pl.col("prefix") == prefix)
            marks.dots(
                panel, [order.index(name) + offset for name in of_prefix["row"]], of_prefix["rate"], style.look(number),
                low=of_prefix["lowest"], high=of_prefix["highest"], label=prefix_name(prefix),
            )  # fmt: skip
        panel.set_xlabel("mean transfer (line: lowest to highest of six)")
        marks.in_percent(panel)
        marks.at_least(panel, 0.1, within=(0, 1.02))
        if len(prefixes) > 1:
            marks.legend(figure)
    return figure


def page_views(table: pl.DataFrame, looks: charts.Looks) -> charts.Views:
    views = []
    for key, group in charts.by_run(table):
        cells = {(row["a"], row["b"]): row for row in group.iter_rows(named=True)}
        grid = [[cells[a, b] for a in GRANULARITIES] for b in GRANULARITIES]
        rates = [["-" if c["rate"] is None else f"{c['rate']:.0%}" for c in line] for line in grid]
        inside = [
            ["-" if c["rate"] is None else f"<b>{c['rate']:.0%}</b><br>{c['low']:.0%} to {c['high']:.0%}" for c in line]
            for line in grid
        ]
        hover = [
            [[a, b, text, c["known_both"], c["known_b"]] for a, c, text in zip(GRANULARITIES, line, words, strict=True)]
            for b, line, words in zip(GRANULARITIES, grid, rates, strict=True)
        ]
        trace = {
            "type": "heatmap", "x": list(GRANULARITIES), "y": list(GRANULARITIES),
            "z": [charts.numbers(c["rate"] for c in line) for line in grid], "text": inside, "texttemplate": "%{text}",
            "customdata": hover, "zmin": 0, "zmax": 1, "colorscale": "Cividis", "colorbar": {"tickformat": ".0%"},
            "hovertemplate": "known at %{customdata[1]}, also known at %{customdata[0]}: %{customdata[2]}, "
            "%{customdata[3]:,} of %{customdata[4]:,} facts<extra></extra>",
        }  # fmt: skip
        views.append(
            charts.view(
                looks.name(key),
                [trace],
                xaxis={"type": "category", "title": {"text": "also known at"}},
                yaxis={"type": "category", "title": {"text": "known at"}, "autorange": "reversed"},
            )
        )
    pooled = [v for v, (key, _) in zip(views, charts.by_run(table), strict=True) if key[0] == POOLED]
    return pooled + [v for v in views if v not in pooled]


def mean_views(table: pl.DataFrame, looks: charts.Looks) -> charts.Views:
    known, title = table.drop_nulls("rate"), "mean of the six transfers"
    return [charts.row_a_run(known, looks, value="rate", low="lowest", high="highest", title=title)]


def _two_granularities(study: Study) -> str | None:
    count = study.facts.filter(pl.col("granularity") != "global")["granularity"].n_unique()
    return None if count > 1 else "no fact has matches at two granularities"


TWO_GRANULARITIES = Need("facts with matches at two granularities", _two_granularities)


def _transfer_finding(rows: Rows) -> str | None:
    row = next((row for row in rows if (row["a"], row["b"]) == ("day", "year")), None)
    if row is None or not row["known_b"]:
        return None
    lost = row["known_b"] - row["known_both"]
    if not lost:
        return f"Knows the day wherever it knows the year: {row['known_b']:,} of {row['known_b']:,}"
    return f"Knows the year, not the day: {lost:,} of {row['known_b']:,}"


TRANSFER = Analysis(
    name="transfer",
    group=WRONG,
    title="Share of facts known at one granularity that are also known at another",
    source="TimeStress, figures 6, 9 and 10",
    compute=lambda study: study.once(transfer_of_most_robust),
    needs=(TWO_GRANULARITIES,),
    figure=draw,
    chart=Chart(
        page_views,
        "Of the facts known (R = 1) at a row's granularity, the share also known at a column's.",
        empty="no fact is known at any granularity",
    ),
    finding=_transfer_finding,
    columns={
        **POOLED_RUN,
        "a": "granularity to which knowledge transfers",
        "b": "granularity at which the fact is known",
        "known_both": "facts known (R = 1) at both",
        "known_b": "facts known at b that have matches at a",
        "rate": "known_both / known_b; empty if nothing is known at b",
        "low": "lower end of Wilson's 95 % interval with continuity correction",
        "high": "its upper end",
    },
    paper=InPaper(
        words={**RUN_WORDS, "b": "known by", "a": "also by"},
        numbers={"known_b": "known", "known_both": "both", "rate": "both (%)"},
    ),
)

TRANSFER_MEAN = Analysis(
    name="transfer_mean",
    group=WRONG,
    title="Mean transfer between two granularities, with each prefix",
    source="TimeStress, figures 6 and 10",
    compute=lambda study: mean_transfer(study.once(transfer_of_most_robust)),
    needs=(TWO_GRANULARITIES,),
    figure=draw_mean,
    chart=Chart(
        mean_views,
        "Bars extend from the lowest to the highest of the six rates.",
        "no run knows a fact at each granularity",
    ),
    columns={
        **POOLED_RUN,
        "rate": "mean of the six rates between different granularities; empty if one of them is",
        "lowest": "lowest of the six",
        "highest": "highest of the six",
    },
    paper=InPaper(words=RUN_WORDS, numbers={"rate": "mean (%)", "lowest": "lowest (%)", "highest": "highest (%)"}),
)
