"""By how much matches are won: robustness when every match must be won by more than a margin."""

from typing import Any

import polars as pl

from anachron.analysis.analyses.analysis import LEVEL, LEVEL_WORD, RIGHT, RUN, RUN_WORDS, Analysis, Chart, InPaper
from anachron.analysis.findings import Rows, percent, widest
from anachron.analysis.metrics import FACT_KEYS, RUN_KEYS
from anachron.analysis.plots import charts, marks, style
from anachron.core.dates import GRANULARITIES

MANY = 8  # models that have a look of their own


def margins(run: pl.DataFrame) -> pl.DataFrame:
    """By how many nats each fact of a run wins its closest match: its weakest correct minus its strongest incorrect.

    Negative where a match is lost. FACT_KEYS, granularity, ``margin``; the global margin is the smallest of the three.
    """
    extremes = run.group_by([*FACT_KEYS, "granularity"], maintain_order=True).agg(
        pl.col("logp").filter(pl.col("status") == "correct").min().alias("correct"),
        pl.col("logp").filter(pl.col("status") == "incorrect").max().alias("incorrect"),
    )
    each = extremes.drop_nulls().select(
        *FACT_KEYS, "granularity", (pl.col("correct") - pl.col("incorrect")).alias("margin")
    )
    both = each.group_by(FACT_KEYS, maintain_order=True).agg(pl.len().alias("n"), pl.col("margin").min())
    together = both.filter(pl.col("n") == len(GRANULARITIES)).select(
        *FACT_KEYS, pl.lit("global").alias("granularity"), "margin"
    )
    return pl.concat([each, together])


def robust_with_margin(table: pl.DataFrame, levels: tuple[float, ...] = (0.0, 0.1, 0.5, 1.0, 2.0)) -> pl.DataFrame:
    """Share of facts whose every match is won by more than a margin (nats), at each granularity and global.

    table: from `margins`. A margin of 0 gives R. Columns RUN_KEYS, ``granularity, facts, margin, robustness``.
    """
    rows: list[dict[str, Any]] = []
    for key, group in table.group_by([*RUN_KEYS, "granularity"], maintain_order=True):
        for level in levels:
            row = dict(zip([*RUN_KEYS, "granularity"], key, strict=True)) | {"facts": group.height, "margin": level}
            rows.append(row | {"robustness": (group["margin"] > level).mean()})
    return pl.DataFrame(rows, infer_schema_length=None)


def draw(table: pl.DataFrame) -> "style.Figure":
    """R against the margin (nats) that every match of a fact has to be won by, over all granularities.

    A panel a format and prefix; the eight most robust models have a look each, the others are thin grey lines. Where no
    fact has all three granularities, the one that is there.
    """
    rows, granularity_name = style.one_granularity(style.check("margins", table, "robustness", "margin"))
    panels = style.sections(rows)
    down, columns = style.grid(len(panels))
    leaders = [_by_first(part)[:MANY] for _, part in panels]
    models = list(dict.fromkeys(model for group in leaders for model in group))
    width = style.COLUMN if columns == 1 else style.PAGE
    height = 2.2 * down + marks.legend_height([*models, "other models"], width)
    with style.sheet(width, height, down, columns, sharex=True, sharey=True) as (figure, axes):
        for panel, (title, part), leading in zip(axes.flat, panels, leaders, strict=False):
            panel.set_title(title)
            for model in [*leading, *(m for m in part["model"].unique(maintain_order=True) if m not in leading)]:
                line = part.filter(pl.col("model") == model).sort("margin")
                if model in leading:
                    look = style.look(models.index(model))
                    marks.dots(panel, line["margin"], line["robustness"], look, label=model, upright=True, joined=True)
                else:
                    panel.plot(line["margin"], line["robustness"], color=style.GREY, lw=0.5, label="other models")
            panel.locator_params(axis="x", nbins=5)
            panel.xaxis.set_tick_params(labelbottom=True)
            panel.set_xlabel("margin of every match (nats)")
        marks.blank(axes.flat[len(panels) :])
        for panel in axes[:, 0]:
            panel.set_ylabel(f"robustness R\n({granularity_name})")
            marks.in_percent(panel, "y")
        axes[0, 0].set_ylim(bottom=0)
        marks.legend(figure)
    return figure


def _by_first(part: pl.DataFrame) -> list[str]:
    """Models by R at the smallest margin, the highest first."""
    first = part.filter(pl.col("margin") == part["margin"].min())
    return first.sort(["robustness", "model"], descending=[True, False])["model"].to_list()


def page_views(table: pl.DataFrame, looks: charts.Looks) -> charts.Views:
    views = []
    for (granularity,), cell in charts.groups(table, "granularity"):
        traces = [
            looks.trace(
                key, mode="lines+markers", x=charts.numbers(group["margin"]), y=charts.numbers(group["robustness"]),
                hovertemplate="won by more than %{x} nats: %{y:.1%}",
            )
            for key, group in charts.by_run(cell)
        ]  # fmt: skip
        upright = charts.axis("share of facts", **charts.PERCENT)
        views.append(charts.view(granularity, traces, xaxis=charts.axis("margin (nats)"), yaxis=upright))
    return views


def _margins_finding(rows: Rows) -> str | None:
    level = widest(rows)["granularity"]
    kept = sorted((row["margin"], row["robustness"]) for row in rows if row["granularity"] == level)
    plain, later = next((r for m, r in kept if m == 0), None), next(((m, r) for m, r in kept if m > 0), None)
    if not plain or later is None:
        return None
    if percent(plain) == percent(later[1]):
        return f"R is {percent(plain)}, even if each match must be won by more than {later[0]:g} nats"
    return f"R is {percent(plain)}, and {percent(later[1])} if each match must be won by more than {later[0]:g} nats"


MARGINS = Analysis(
    name="margins",
    group=RIGHT,
    title="Share of facts whose every match is won by more than a margin",
    source="beyond the papers",
    compute=lambda study: robust_with_margin(study.map(margins)),
    figure=draw,
    chart=Chart(
        page_views,
        "At 0 this is R; further right, every match must be won by a larger margin.",
        "no fact wins all its matches",
    ),
    finding=_margins_finding,
    columns={
        **RUN,
        **LEVEL,
        "facts": "facts that have matches",
        "margin": "the margin, in nats",
        "robustness": "share of facts whose every match is won by more than the margin",
    },
    paper=InPaper(
        words={**RUN_WORDS, **LEVEL_WORD, "margin": "margin (nats)"},
        numbers={"facts": "facts", "robustness": "won by more (%)"},
    ),
)
