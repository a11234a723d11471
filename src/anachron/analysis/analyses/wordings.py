"""W and R of the same facts in each of their wordings, and in all of them (TimeStress, limitations)."""

from typing import Any

import numpy as np
import polars as pl

from anachron.analysis.analyses.analysis import LEVEL, LEVEL_WORD, RIGHT, RUN, RUN_WORDS, Analysis, Chart, InPaper, Need
from anachron.analysis.findings import Rows, percent, widest
from anachron.analysis.metrics import RUN_KEYS, fact_metrics, run_keys, with_subjects
from anachron.analysis.plots import charts, marks, style
from anachron.analysis.statistics import interval_cells, korn_graubard
from anachron.analysis.study import Study
from anachron.data.wordings import OWN

ALL, ANY = "all", "any"  # of the wordings of a fact: R in every one of them, and in one at least


def by_wording(scores: pl.DataFrame, about: pl.DataFrame) -> pl.DataFrame:
    """W and R of one run by wording, over the facts that have every wording but `OWN` at a granularity.

    scores: `anachron.probe.runs.WORDING_COLUMNS`. about: ``fact_id`` and the subject, for the clusters. Rows ``all``
    and ``any``: the mean over facts of their least W and R, and of their largest, over the wordings: R is the share of
    facts that are robust in all of them, and in any. Returns RUN_KEYS, ``granularity, wording, facts, win_rate,
    robustness`` and both intervals.
    """
    named = scores.with_columns(pl.concat_str("fact_id", pl.col("wording").cast(pl.String), separator=" "))
    metrics = fact_metrics(named.drop("wording")).with_columns(
        pl.col("fact_id").str.split(" ").list.get(1).alias("wording"), pl.col("fact_id").str.split(" ").list.get(0)
    )
    written = pl.col("wording") != str(OWN)
    each = metrics.filter(written)["wording"].n_unique()
    whole = metrics.filter(written.sum().over("fact_id", "granularity") == each).sort("wording", maintain_order=True)
    together = [
        whole.group_by("fact_id", "granularity", maintain_order=True)
        .agg(of(pl.col("win_rate", "robustness")))
        .with_columns(wording=pl.lit(name))
        for name, of in ((ALL, pl.Expr.min), (ANY, pl.Expr.max))
    ]
    columns = ["fact_id", "granularity", "wording", "win_rate", "robustness"]
    facts = with_subjects(pl.concat([whole.select(columns), *(table.select(columns) for table in together)]), about)
    rows: list[dict[str, Any]] = []
    for (granularity, wording), group in facts.group_by(["granularity", "wording"], maintain_order=True):
        row: dict[str, Any] = dict(zip(RUN_KEYS, run_keys(scores)[0], strict=True))
        row |= {"granularity": granularity, "wording": wording, "facts": group.height}
        for name in ("win_rate", "robustness"):
            values = group[name].to_numpy()
            row |= {name: float(np.mean(values))}
            row |= interval_cells(name, korn_graubard(values, group["subject"].to_numpy()))
        rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)


def _table(study: Study) -> pl.DataFrame:
    return pl.concat([table for scores in study.wordings.values() if (table := by_wording(scores, study.about)).height])


def draw(table: pl.DataFrame) -> "style.Figure":
    """W and R in each wording, and R in all of them and in any, at the granularity that most facts have."""
    rows, granularity_name = style.one_granularity(style.check("wordings", table, "win_rate", "robustness"))
    order = style.in_order(rows["wording"], [])
    labels = style.run_labels(rows, "format", "prefix")
    runs = list(dict.fromkeys(labels))
    placed = rows.with_columns(
        pl.Series("label", labels), pl.Series("row", [order.index(wording) for wording in rows["wording"]])
    )
    names = [f"in {name} of them" if name in (ALL, ANY) else f"wording {name}" for name in order]
    height = marks.rows_height(names, least=0.1 + 0.1 * len(runs)) + 0.95
    with style.sheet(style.PAGE, height, 1, 2, sharey=True) as (figure, axes):
        for panel, (score, score_name) in zip(axes.flat, style.SCORES.items(), strict=True):
            marks.name_rows(panel, names)
            for number, (label, offset) in enumerate(zip(runs, marks.spread(len(runs)), strict=True)):
                own = placed.filter(pl.col("label") == label)
                marks.dots(
                    panel, own["row"] + offset, own[score], style.look(number), label=label,
                    low=own[f"{score}_low"], high=own[f"{score}_high"],
                )  # fmt: skip
            panel.set_xlabel(score_name)
            marks.in_percent(panel)
            marks.at_least(panel, 0.1, within=(-0.02, 1.02))
        figure.suptitle(granularity_name, x=0.01, ha="left", fontsize=7.5)
        marks.legend(figure)
    return figure


def page_views(table: pl.DataFrame, looks: charts.Looks) -> charts.Views:
    views = []
    for score, name in charts.NAMES.items():
        for (granularity,), cell in charts.groups(table, "granularity"):
            traces = [
                looks.trace(
                    key, mode="markers", x=charts.texts(group["wording"]), y=charts.numbers(group[score]),
                    error_y=charts.bars(group, score, f"{score}_low", f"{score}_high"),
                    hovertemplate="wording %{x}: %{y:.1%}",
                )
                for key, group in charts.by_run(cell)
            ]  # fmt: skip
            upright = charts.axis(name, **charts.PERCENT)
            across = charts.axis("wording", type="category")
            views.append(charts.view(f"{name}, {granularity}", traces, xaxis=across, yaxis=upright))
    return views


def _wordings_finding(rows: Rows) -> str | None:
    level = widest(rows)["granularity"]
    found = {row["wording"]: row for row in rows if row["granularity"] == level}
    single = [row["robustness"] for name, row in found.items() if name not in (ALL, ANY)]
    if not found[ANY]["robustness"]:
        return None
    span = f"{percent(min(single))} to {percent(max(single))}"
    return f"R is {span} by the wording of the question; {percent(found[ALL]['robustness'])} of facts are robust in all"


WORDINGS = Analysis(
    name="wordings",
    group=RIGHT,
    title="W and R by the wording of the question",
    source="beyond the papers; TimeStress, limitations",
    compute=_table,
    needs=(
        Need(
            "a run with --wordings",
            lambda study: None if study.wordings else "no run asked its facts in several wordings (probe --wordings)",
        ),
    ),
    empty="no fact has every wording",
    figure=draw,
    chart=Chart(
        page_views,
        f"The same facts and dates in other words; at the right, in all of the wordings and in any. {charts.INTERVALS}",
    ),
    finding=_wordings_finding,
    columns={
        **RUN,
        **LEVEL,
        "wording": "`1` to `4`: which of the fact's questions, stored or by template; `0`: one that is none of them; "
        "`all`: the least W and R of a fact over its wordings; `any`: the largest",
        "facts": "facts that have every wording but `0`",
        "win_rate": "mean W over these facts",
        "win_rate_low": "lower end of its 95 % interval",
        "win_rate_high": "its upper end",
        "robustness": "mean R over these facts; of `all` the share of facts that are robust in every wording",
        "robustness_low": "lower end of its 95 % interval",
        "robustness_high": "its upper end",
    },
    paper=InPaper(
        words={**RUN_WORDS, **LEVEL_WORD, "wording": "wording"},
        numbers={"facts": "facts", "win_rate": "W (%)", "robustness": "R (%)"},
    ),
)
