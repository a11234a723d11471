"""R of each relation (TimeStress, figure 16)."""

from typing import Any

import polars as pl

from anachron.analysis.analyses.analysis import (
    ALL_GRANULARITIES,
    INTERVAL,
    WRONG,
    Analysis,
    Chart,
    InPaper,
    Need,
)
from anachron.analysis.findings import FEW, Rows, percent
from anachron.analysis.plots import charts, marks, style
from anachron.analysis.statistics import korn_graubard
from anachron.analysis.study import Study

HIGHEST = 10  # relations that are drawn
WIDE = 32  # letters a line of a relation


def relations(about: pl.DataFrame, global_rows: pl.DataFrame) -> pl.DataFrame:
    """Mean global W and R of each relation over all given runs of a format, the most robust first.

    Columns ``format, rank, relation, facts, win_rate, robustness, low, high`` (of R). Relations of
    one label and different ids are told apart by these. Source: TimeStress, figure 16 (its ten highest).
    """
    several = pl.col("relation_id").drop_nulls().n_unique().over("relation_label") > 1
    told_apart = pl.format("{} ({})", "relation_label", pl.col("relation_id").fill_null("no id"))
    name = pl.when(several).then(told_apart).otherwise("relation_label").alias("relation")
    named = about.filter(pl.col("relation_label").is_not_null()).select("fact_id", name)
    joined = global_rows.join(named, on="fact_id", maintain_order="left")
    rows: list[dict[str, Any]] = []
    for (form, relation), cell in joined.group_by("format", "relation", maintain_order=True):
        low, high = korn_graubard(cell["robustness"].to_numpy(), cell["subject"].to_numpy())
        row: dict[str, Any] = {"format": form, "relation": relation, "facts": cell["fact_id"].n_unique()}
        row |= {"win_rate": cell["win_rate"].mean(), "robustness": cell["robustness"].mean()}
        rows.append(row | {"low": low, "high": high})
    table = pl.DataFrame(rows, infer_schema_length=None).sort(
        "format", "robustness", "win_rate", "relation", descending=[False, True, True, False]
    )
    ranked = table.with_columns(pl.int_range(1, pl.len() + 1).over("format").alias("rank"))
    return ranked.select("format", "rank", "relation", "facts", "win_rate", "robustness", "low", "high")


def draw(table: pl.DataFrame) -> "style.Figure":
    """R of the ten relations that are highest in it, a panel a format, with intervals and the number of facts.

    Source: TimeStress, figure 16.
    """
    rows = style.check("relations", table, "robustness").filter(pl.col("rank") <= HIGHEST)
    forms = style.in_order(rows["format"], list(style.FORMATS))
    width = style.COLUMN if len(forms) == 1 else style.PAGE
    parts = [rows.filter(pl.col("format") == form).sort("rank") for form in forms]
    labels = [[f"{r} ({n:,})" for r, n in part.select("relation", "facts").iter_rows()] for part in parts]
    height = max(marks.rows_height(names, 0.2, WIDE) for names in labels) + 0.65
    with style.sheet(width, height, 1, len(forms), sharex=True) as (figure, axes):
        for panel, form, part, names in zip(axes.flat, forms, parts, labels, strict=True):
            panel.set_title(style.format_name(form))
            marks.name_rows(panel, names, WIDE)
            marks.dots(
                panel, range(part.height), part["robustness"], style.FORMATS[form], low=part["low"], high=part["high"]
            )
            marks.in_percent(panel)
            panel.set_xlabel("robustness R (number of facts)")
        axes[0, 0].set_xlim(left=0)
    return figure


def page_views(table: pl.DataFrame, looks: charts.Looks) -> charts.Views:
    views = []
    for (form,), group in charts.groups(table, "format"):
        top = group.head(HIGHEST)
        names = charts.texts(top["relation"])
        hover = charts.rows(top, "low", "high", "facts", "win_rate")
        dots = {"type": "scatter", "mode": "markers", "cliponaxis": False}
        traces: charts.Traces = [
            dots | {"name": "R", "y": names, "x": charts.numbers(top["robustness"]),
             "marker": {"color": "@0", "size": 10}, "customdata": hover, "error_x": charts.bars(top, "robustness"),
             "hovertemplate": "R %{x:.1%} (%{customdata[0]:.1%} to %{customdata[1]:.1%}), %{customdata[2]:,} facts"},
            dots | {"name": "W", "y": names, "x": charts.numbers(top["win_rate"]),
             "marker": {"color": "@1", "symbol": "diamond", "size": 10}, "hovertemplate": "W %{x:.1%}"},
        ]  # fmt: skip
        views.append(charts.view(form, traces, rows=top.height, xaxis=charts.axis("share", **charts.PERCENT),
                          yaxis={**charts.NAMED_ROWS, "ticklabelstandoff": 8}))  # fmt: skip
    return views


def _labelled(study: Study) -> str | None:
    plain = study.global_facts_without_prefix
    if not plain.height:
        return "there is no run without a prefix"
    labelled = study.about.filter(pl.col("relation_label").is_not_null())
    count = plain.join(labelled, on="fact_id", how="semi").height
    return None if count else "no fact of a run without a prefix has a relation_label and matches at all granularities"


def _relations_finding(rows: Rows) -> str | None:
    """Which relation comes first here, with its own interval; that it is surely above the others is not said."""
    kept = [row for row in rows if row["facts"] >= FEW and row["robustness"] > 0]
    if not kept:
        return None
    row = max(kept, key=lambda row: row["robustness"])
    share = f"{percent(row['robustness'])} ({percent(row['low'])} to {percent(row['high'])})"
    return (
        f"Of {len(kept)} relations with R above 0, {row['relation']} comes first here: {share}, {row['facts']:,} facts"
    )


RELATIONS = Analysis(
    name="relations",
    group=WRONG,
    title="W and R of each relation, the highest R first",
    source="TimeStress, figure 16",
    compute=lambda study: relations(study.about, study.global_facts_without_prefix),
    needs=(
        ALL_GRANULARITIES,
        Need("relation labels of facts with matches at year, month and day, in a run without a prefix", _labelled),
    ),
    figure=draw,
    chart=Chart(page_views, "The ten relations with the highest R. Relations with few facts have wide intervals."),
    finding=_relations_finding,
    columns={
        "format": "`raw` or `chat`; all models together",
        "rank": "rank by R, then W",
        "relation": "its label, with its id if two relations share the label",
        "facts": "number of facts of the relation",
        "win_rate": "mean W",
        "robustness": "mean R",
        **INTERVAL,
    },
    paper=InPaper(
        words={"format": "format", "relation": "relation"},
        numbers={"facts": "facts", "win_rate": "W (%)", "robustness": "R (%)"},
    ),
)
