"""Whether granularities agree on a date: local robustness of aligned contexts (TimeStress, appendix C.1, figure 8)."""

from math import isnan

import numpy as np
import polars as pl

from anachron.analysis.analyses.analysis import (
    ALL_GRANULARITIES,
    FORMAT_WORDS,
    INTERVAL,
    OF_FORMAT,
    WRONG,
    Analysis,
    Chart,
    InPaper,
    Need,
)
from anachron.analysis.findings import FEW, Rows, Run, apart, percent, same
from anachron.analysis.metrics import FACT_KEYS, RUN_KEYS, YEAR, with_subjects, with_weakest
from anachron.analysis.plots import charts, marks, style
from anachron.analysis.plots.words import DISTANCE, prefix_name
from anachron.analysis.statistics import korn_graubard, matthews
from anachron.analysis.study import Study
from anachron.core.dates import GRANULARITIES

WIDTH = 0.5
PAIRS = (("year", "month"), ("year", "day"), ("month", "day"))


def aligned(run: pl.DataFrame, facts: pl.DataFrame) -> pl.DataFrame:
    """Incorrect contexts of one run aligned by year, on facts that are known at one granularity at least.

    A context is locally robust when every correct context of its fact and granularity beats it, strictly. One row per
    fact and year with exactly one incorrect context at each granularity: FACT_KEYS, ``alpha`` (of the year context)
    and three booleans ``year, month, day``.
    """
    known = facts.filter((pl.col("robustness") == 1) & pl.col("granularity").is_in(list(GRANULARITIES)))
    run = run.join(known, on=FACT_KEYS, how="semi", maintain_order="left")
    judged = (
        with_weakest(run)
        .filter((pl.col("status") == "incorrect") & pl.col("weakest").is_not_null())
        .with_columns(
            pl.col("time").str.extract(YEAR).alias("of_year"), (pl.col("logp") < pl.col("weakest")).alias("held")
        )
        .with_columns(pl.len().over("fact_id", "granularity", "of_year").alias("times"))
        .filter(pl.col("times") == 1)
    )
    keys = [*FACT_KEYS, "of_year"]
    sides = {g: judged.filter(pl.col("granularity") == g) for g in GRANULARITIES}
    table = sides["year"].select(*keys, "alpha", pl.col("held").alias("year"))
    for name in ("month", "day"):
        table = table.join(sides[name].select(*keys, pl.col("held").alias(name)), on=keys, maintain_order="left")
    return table.drop("of_year")


def aligned_of_most_robust(study: Study) -> pl.DataFrame:
    """`aligned` contexts of the most robust models, one model below the other."""
    top = set(study.most_robust.iter_rows())
    chosen = [run for run in study.runs if tuple(run.select(RUN_KEYS).row(0)) in top]
    return pl.concat([aligned(run, study.facts) for run in chosen])


def in_bins(table: pl.DataFrame) -> pl.DataFrame:
    """The contexts whose alpha lies in ]-5, 5], with ``upper``: the upper end of their bin in steps of 0.5."""
    upper = (pl.col("alpha") / WIDTH).round(6).ceil().cast(pl.Int64).alias("upper")
    return table.with_columns(upper).filter(pl.col("upper").is_between(-9, 10))


def agreement(table: pl.DataFrame) -> pl.DataFrame:
    """How often two granularities agree on an incorrect context, by the year's alpha in bins ]s, s + 0.5] of -5 to 5.

    table: from `aligned`, the chosen models together, with ``subject``. Rows per format, prefix and bin: ``alpha_low,
    alpha_high, facts, contexts``; ``accuracy`` is the mean over (model, fact, pair of granularities) of the share of
    contexts judged alike (the paper's), with its interval; ``accuracy_pooled`` is the share of all pairs of judgements;
    ``matthews`` the mean Matthews correlation of the three pairs over all contexts, null where a
    granularity never varies.
    """
    binned = in_bins(table)
    rows = []
    for (form, prefix), group in binned.group_by("format", "prefix", maintain_order=True):
        for (upper,), cell in group.group_by("upper", maintain_order=True):
            alike = [(pl.col(a) == pl.col(b)).mean().alias(f"{a}-{b}") for a, b in PAIRS]
            by_model_and_fact = cell.group_by([*RUN_KEYS, "fact_id", "subject"], maintain_order=True).agg(*alike)
            shares = by_model_and_fact.with_columns(pl.mean_horizontal(f"{a}-{b}" for a, b in PAIRS).alias("share"))
            low, high = korn_graubard(shares["share"].to_numpy(), shares["subject"].to_numpy())
            row = {"format": form, "prefix": prefix, "alpha_low": (upper - 1) * WIDTH, "alpha_high": upper * WIDTH}
            row |= {"facts": shares.height, "contexts": cell.height, "accuracy": shares["share"].mean()}
            row |= {"low": low, "high": high, "accuracy_pooled": float(np.mean(cell.select(alike).row(0)))}
            rows.append(row | {"matthews": _mean_matthews(cell)})
    return pl.DataFrame(rows, infer_schema_length=None).sort("format", "prefix", "alpha_low")


def _mean_matthews(cell: pl.DataFrame) -> float | None:
    coefficients = []
    for a, b in PAIRS:
        x, y = cell[a].to_numpy(), cell[b].to_numpy()
        coefficients.append(
            matthews(int((x & y).sum()), int((x & ~y).sum()), int((~x & y).sum()), int((~x & ~y).sum()))
        )
    return None if any(map(isnan, coefficients)) else float(np.mean(coefficients))


def draw(table: pl.DataFrame) -> "style.Figure":
    """How often two granularities agree on an incorrect context, by alpha, raw text and chat, with bands.

    A panel a prefix. Source: TimeStress, figure 8.
    """
    rows = style.check("agreement", table, "accuracy", "alpha_low", "alpha_high")
    prefixes = style.in_order(rows["prefix"], ["none"])
    height = 1.8 * len(prefixes) + 0.45
    with style.sheet(style.COLUMN, height, len(prefixes), 1, sharex=True, sharey=True) as (figure, axes):
        for panel, prefix in zip(axes.flat, prefixes, strict=True):
            if len(prefixes) > 1:
                panel.set_title(prefix_name(prefix))
            panel.axvspan(-0.5, 0.5, color=style.PALE, lw=0, zorder=0, label="the period")
            part = rows.filter(pl.col("prefix") == prefix)
            for form in style.in_order(part["format"], list(style.FORMATS)):
                line = part.filter(pl.col("format") == form).sort("alpha_low")
                marks.line(
                    panel, (line["alpha_low"] + line["alpha_high"]) / 2, line["accuracy"], style.FORMATS[form],
                    low=line["low"], high=line["high"], label=style.format_name(form), step=0.75,
                )  # fmt: skip
            panel.set_xlim(-5, 5)
            panel.set_ylabel("agreement")
            marks.in_percent(panel, "y")
        axes[-1, 0].set_xlabel(DISTANCE)
        marks.legend(figure)
    return figure


def page_views(table: pl.DataFrame, looks: charts.Looks) -> charts.Views:
    views = []
    for value, label in (("accuracy", "share judged alike"), ("matthews", "Matthews correlation")):
        traces = []
        for number, ((form, prefix), group) in enumerate(charts.groups(table, "format", "prefix")):
            middle = ((group["alpha_low"] + group["alpha_high"]) / 2).to_list()
            ends = {"error_y": charts.bars(group, "accuracy")} if value == "accuracy" else {}
            traces.append(
                {
                    "type": "scatter", "mode": "lines+markers",
                    "name": charts.texts([f"{form}, {prefix_name(prefix)}"])[0],
                    "x": charts.numbers(middle), "y": charts.numbers(group[value]),
                    "customdata": charts.rows(group, "contexts", "facts"), **charts.numbered(number), **ends,
                    "hovertemplate": "alpha %{x}: %{y:.3f}; %{customdata[0]:,} contexts of %{customdata[1]:,} facts",
                }
            )  # fmt: skip
        views.append(charts.view(label, traces, xaxis=charts.axis("alpha of the year"), yaxis=charts.axis(label)))
    return views


def _any_aligned(study: Study) -> str | None:
    contexts = study.once(aligned_of_most_robust)
    if not contexts.height:
        return "no fact of the most robust models is known at any granularity"
    return None if in_bins(contexts).height else "no date of a known fact lies within five periods of it"


def _agreement_finding(rows: Rows, run: Run) -> str | None:
    """The farthest bin behind the period against the nearest, where their intervals are apart."""
    kept = [row for row in same(rows, run, "format", "prefix") if row["facts"] >= FEW and row["low"] is not None]
    behind = sorted((row for row in kept if row["alpha_low"] >= 0.5), key=lambda row: row["alpha_low"])
    if len(behind) < 2:
        return None
    near, far = behind[0], behind[-1]
    side = apart((far["low"], far["high"]), (near["low"], near["high"]))
    if not side:
        return None
    parts = [
        f"{percent(row['accuracy'])} ({percent(row['low'])} to {percent(row['high'])}) at alpha "
        f"{row['alpha_low']:g} to {row['alpha_high']:g}"
        for row in (near, far)
    ]
    return f"Granularities agree {'more' if side > 0 else 'less'} on wrong dates far away: {parts[0]}, {parts[1]}"


AGREEMENT = Analysis(
    name="agreement",
    group=WRONG,
    title="How often two granularities agree on a wrong date, by distance",
    source="TimeStress, figure 8",
    compute=lambda study: agreement(with_subjects(study.once(aligned_of_most_robust), study.about)),
    needs=(
        ALL_GRANULARITIES,
        Need("a fact that one of the most robust models knows at some granularity", _any_aligned),
    ),
    figure=draw,
    chart=Chart(page_views, "How often a wrong date is judged alike by year, month and day."),
    beside=_agreement_finding,
    columns={
        **OF_FORMAT,
        "alpha_low": "lower end of the bin (excluded); alpha is that of the year context",
        "alpha_high": "upper end of the bin (included)",
        "facts": "pairs of model and fact",
        "contexts": "incorrect contexts, aligned by year",
        "accuracy": "share judged alike, averaged over model, fact and pair of granularities (the paper's)",
        **INTERVAL,
        "accuracy_pooled": "share of all pairs of judgements that are alike",
        "matthews": "mean Matthews correlation of the three pairs; empty if a granularity never varies",
    },
    paper=InPaper(
        words={**FORMAT_WORDS, "alpha_low": "alpha >", "alpha_high": "alpha ≤"},
        numbers={
            "facts": "facts",
            "accuracy": "agree (%)",
            "accuracy_pooled": "of all pairs (%)",
            "matthews": "Matthews",
        },
    ),
)
