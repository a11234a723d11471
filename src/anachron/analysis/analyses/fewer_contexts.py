"""Robustness as the number of contexts grows (TimeStress, appendix B: it "could be even lower" with more of them)."""

from typing import Any

import numpy as np
import polars as pl

from anachron.analysis.analyses.analysis import (
    GRANULARITY,
    INTERVAL,
    LEVEL_WORD,
    RIGHT,
    RUN,
    RUN_WORDS,
    Analysis,
    Chart,
    InPaper,
)
from anachron.analysis.findings import Rows, percent
from anachron.analysis.metrics import RUN_KEYS, run_keys, with_subjects
from anachron.analysis.plots import charts, marks, style
from anachron.analysis.statistics import korn_graubard
from anachron.analysis.study import Study
from anachron.core.dates import GRANULARITIES

SHARES = (0.125, 0.25, 0.5, 1.0)  # of the correct and of the incorrect contexts of a fact, rounded up
MANY = 8  # runs that have a look of their own


def robust_with_fewer(run: pl.DataFrame, share: float) -> pl.DataFrame:
    """The expected R of each fact of a run if a random share of its contexts were all that it is asked about.

    Of c correct and i incorrect contexts, every choice of ceil(share c) and ceil(share i) of them is equally likely; R
    of a choice is 1 if its weakest correct context beats all its incorrect ones. The expectation is exact: the sum over
    the correct contexts of the chance that one is the weakest chosen times the chance that all chosen incorrect ones
    are among those below it. Returns ``fact_id, granularity, expected, contexts`` (how many are kept) and ``chance``,
    what random scores would have. Facts without correct or incorrect contexts have no row.
    """
    correct, incorrect = pl.col("status") == "correct", pl.col("status") == "incorrect"
    fact = ["fact_id", "granularity"]
    counted = (
        run.lazy()
        .filter(correct | incorrect)
        .sort([*fact, "logp", correct.cast(pl.Int8)], descending=[False, False, False, True])  # a tie is lost
        .with_columns(
            (correct.cum_sum().over(fact) - 1).alias("rank"), incorrect.cum_sum().over(fact).alias("below"),
            correct.sum().over(fact).alias("c"), incorrect.sum().over(fact).alias("i"),
        )
        .filter(correct, pl.col("i") > 0)
        .collect()
    )  # fmt: skip
    rank, below, c, i = (counted[name].to_numpy().astype(np.int64) for name in ("rank", "below", "c", "i"))
    kept, against = np.ceil(share * c).astype(np.int64), np.ceil(share * i).astype(np.int64)
    log_factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, max(c + i, default=0) + 1)))])

    def log_choices(n: np.ndarray, k: np.ndarray) -> np.ndarray:
        """Of the logarithm of n over k, -inf where there is no choice."""
        none = (k > n) | (k < 0)
        n, k = np.where(none, 0, n), np.where(none, 0, k)
        return np.where(none, -np.inf, log_factorials[n] - log_factorials[k] - log_factorials[n - k])

    weakest = log_choices(c - 1 - rank, kept - 1) - log_choices(c, kept)
    beaten = log_choices(below, against) - log_choices(i, against)
    return (
        counted.select(*fact)
        .with_columns(
            pl.Series("expected", np.exp(weakest + beaten)), pl.Series("contexts", kept + against),
            pl.Series("chance", np.exp(-log_choices(kept + against, kept))),
        )
        .group_by(fact, maintain_order=True)
        .agg(pl.col("expected").sum().clip(0.0, 1.0), pl.col("contexts", "chance").first())
    )  # fmt: skip


def fewer_contexts(study: Study) -> pl.DataFrame:
    """Mean over facts of `robust_with_fewer` at each of `SHARES`, by run and granularity; at 1 it is R."""
    rows: list[dict[str, Any]] = []
    for run in study.runs:
        (key,) = run_keys(run)
        for share in SHARES:
            found = with_subjects(robust_with_fewer(run, share), study.about)
            for granularity in GRANULARITIES:
                group = found.filter(pl.col("granularity") == granularity)
                if not group.height:
                    continue
                low, high = korn_graubard(group["expected"].to_numpy(), group["subject"].to_numpy())
                row: dict[str, Any] = dict(zip(RUN_KEYS, key, strict=True))
                row |= {"granularity": granularity, "share": share}
                row |= {"facts": group.height, "contexts": group["contexts"].mean()}
                row |= {"robustness": group["expected"].mean(), "low": low, "high": high}
                rows.append(row | {"chance": group["chance"].mean()})
    return pl.DataFrame(rows, infer_schema_length=None)


def draw(table: pl.DataFrame) -> "style.Figure":
    """R against the mean number of contexts of a fact, a panel a granularity; dashed: random scores.

    The eight most robust runs have a look each, the others are thin grey lines.
    """
    rows = style.check("fewer_contexts", table, "robustness", "contexts")
    rows = rows.with_columns(pl.Series("run", style.run_labels(rows, "format", "prefix")))
    whole = rows.filter(pl.col("share") == 1).group_by("run", maintain_order=True).agg(pl.col("robustness").mean())
    ranked = whole.sort(["robustness", "run"], descending=[True, False])["run"].to_list()
    granularities = style.in_order(rows["granularity"], list(GRANULARITIES))
    height = 2.2 + marks.legend_height([*ranked[:MANY], "other runs"], style.PAGE)
    with style.sheet(style.PAGE, height, 1, len(granularities), sharey=True) as (figure, axes):
        for panel, granularity in zip(axes.flat, granularities, strict=True):
            panel.set_title(granularity)
            of_level = rows.filter(pl.col("granularity") == granularity)
            for place, label in enumerate(ranked):
                line = of_level.filter(pl.col("run") == label).sort("contexts")
                at = line["contexts"], line["robustness"]
                if place < MANY:
                    marks.dots(panel, *at, style.look(place), label=label, upright=True, joined=True)
                elif line.height:
                    panel.plot(*at, color=style.GREY, lw=0.5, label="other runs")
            first = of_level.filter(pl.col("run") == of_level["run"][0]).sort("contexts")
            panel.plot(first["contexts"], first["chance"], color=style.BLACK, lw=0.8, ls="--", label="random scores")
            panel.set_xlabel("contexts of a fact (mean)")
        axes[0, 0].set_ylabel("robustness R")
        marks.in_percent(axes[0, 0], "y")
        axes[0, 0].set_ylim(bottom=0)
        marks.legend(figure)
    return figure


def page_views(table: pl.DataFrame, looks: charts.Looks) -> charts.Views:
    views = []
    for (granularity,), cell in charts.groups(table, "granularity"):
        traces = [
            looks.trace(
                key, mode="lines+markers", x=charts.numbers(group["contexts"]), y=charts.numbers(group["robustness"]),
                error_y=charts.bars(group, "robustness", "low", "high"),
                hovertemplate="%{x:.1f} contexts of a fact: %{y:.1%}",
            )
            for key, group in charts.by_run(cell)
        ]  # fmt: skip
        across = charts.axis("contexts of a fact (mean)", rangemode="tozero")
        views.append(charts.view(granularity, traces, xaxis=across, yaxis=charts.axis("robustness", **charts.PERCENT)))
    return views


def _fewer_contexts_finding(rows: Rows) -> str | None:
    """Of the coarsest granularity: what half of the contexts would have given."""
    level = next((g for g in GRANULARITIES if any(row["granularity"] == g for row in rows)), None)
    found = {row["share"]: row["robustness"] for row in rows if row["granularity"] == level}
    if not found.get(0.5) or percent(found[0.5]) == percent(found[1.0]):
        return None
    return f"R by {level} is {percent(found[1.0])}, and would be {percent(found[0.5])} on half as many contexts"


FEWER_CONTEXTS = Analysis(
    name="fewer_contexts",
    group=RIGHT,
    title="R by the number of contexts",
    source="TimeStress, appendix B, which expects R to fall as contexts are added",
    compute=fewer_contexts,
    figure=draw,
    chart=Chart(
        page_views,
        "Each fact on a random share of its contexts; the last point is R. Where the line still falls, more contexts "
        "would lower R further.",
        "no fact wins all its matches",
    ),
    finding=_fewer_contexts_finding,
    columns={
        **RUN,
        **GRANULARITY,
        "share": "share of the correct and of the incorrect contexts of each fact that is kept, rounded up",
        "facts": "facts that have matches",
        "contexts": "mean number of contexts that are kept of a fact",
        "robustness": "mean over facts of the expected R on a random choice of so many contexts, computed exactly",
        **INTERVAL,
        "chance": "what random scores would have",
    },
    paper=InPaper(
        words={**RUN_WORDS, **LEVEL_WORD, "share": "share of contexts"},
        numbers={"facts": "facts", "contexts": "contexts", "robustness": "R (%)", "chance": "random (%)"},
    ),
)
