"""How likely the answer is, by the date's relative distance from the period (TimeStress, figures 3 and 15)."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from anachron.analysis.analyses.analysis import (
    EXPLAINS,
    GRANULARITY,
    INTERVAL,
    LEVEL_WORD,
    POOLED_RUN,
    RUN_WORDS,
    YEARS,
    Analysis,
    Chart,
    InPaper,
)
from anachron.analysis.findings import FEW, Row, Rows, apart, nats
from anachron.analysis.metrics import POOLED, RUN_KEYS, pooled_rows, with_subjects
from anachron.analysis.plots import charts, marks, style
from anachron.analysis.plots.words import AT_MOST, DISTANCE, prefix_name
from anachron.analysis.statistics import RESAMPLES, bootstrap_ratio
from anachron.core.dates import GRANULARITIES

EDGES = (-5.0, -3.0, -1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0, 3.0, 5.0)
COARSE = (
    "<= -5", "(-5, -3]", "(-3, -1]", "(-1, -0.5)", "-0.5", "(-0.5, -0.25]", "(-0.25, 0]", "(0, 0.25]", "(0.25, 0.5)",
    "0.5", "(0.5, 1]", "(1, 3]", "(3, 5]", "> 5",
)  # fmt: skip
MIDDLES = (-5.5, -4.0, -2.0, -0.75, -0.5, -0.375, -0.125, 0.125, 0.375, 0.5, 0.75, 2.0, 4.0, 5.5)
STATUSES = ("correct", "incorrect", "transitional")
FINE_BINS = 100  # of a tenth each, from -5 to 5
LOG_PROBABILITY = "mean log Pr(answer)\n(nats)"


def coarse_bin(alpha: pl.Expr) -> pl.Expr:
    """Index into `COARSE`. The bins are closed on the right, and -0.5 and 0.5 (transitional years) are their own."""
    below = sum((alpha > edge).cast(pl.Int32) for edge in EDGES)  # how many edges lie below: 0 to 11
    return (
        pl.when(alpha == -0.5).then(4).when(alpha == 0.5).then(9)
        .when(below <= 3).then(below).when(below <= 7).then(below + 1).otherwise(below + 2)
    )  # fmt: skip


# Totals of log-probabilities, statements, lifts, and statements with a prior, by fact and column (a bin, and a status
# or granularity): arrays of shape (facts, columns)
Sums = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def columns_of(fine: bool) -> pl.DataFrame:
    """What each column of `Sums` is: ``granularity, status, bin, alpha`` (where the bin is drawn)."""
    if fine:
        uppers = [n - FINE_BINS // 2 + 1 for n in range(FINE_BINS)]
        rows = [(g, None, f"({(u - 1) / 10}, {u / 10}]", (2 * u - 1) / 20) for g in GRANULARITIES for u in uppers]
    else:
        rows = [("year", s, name, at) for s in STATUSES for name, at in zip(COARSE, MIDDLES, strict=True)]  # type: ignore[misc]
    schema = {"granularity": pl.String, "status": pl.String, "bin": pl.String, "alpha": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def alpha_sums(run: pl.DataFrame, order: pl.DataFrame, *, fine: bool = False) -> Sums:
    """Totals of one run. order: ``fact_id`` and its ``row``; see `alpha_profile` for the rest."""
    priors = run.filter(pl.col("status") == "none").select("fact_id", "granularity", pl.col("logp").alias("prior"))
    clamped = pl.when(pl.col("alpha") >= 0).then(0.5).otherwise(-0.5)
    dated = (
        run.filter(pl.col("status").is_in(list(STATUSES)))
        .with_columns(pl.when(pl.col("status") == "transitional").then(clamped).otherwise("alpha").alias("alpha"))
        .join(priors, on=["fact_id", "granularity"], how="left", maintain_order="left")
        .join(order, on="fact_id", maintain_order="left")
    )
    if fine:
        upper = (pl.col("alpha") * 10).round(5).ceil().cast(pl.Int64)
        dated = dated.filter((pl.col("alpha") > -5) & (pl.col("alpha") <= 5))
        of_kind, kinds = pl.col("granularity"), GRANULARITIES
        within, bins = upper + FINE_BINS // 2 - 1, FINE_BINS
    else:
        dated = dated.filter(pl.col("granularity") == "year")
        of_kind, kinds, within, bins = pl.col("status"), STATUSES, coarse_bin(pl.col("alpha")), len(COARSE)  # type: ignore[assignment]
    kind = of_kind.replace_strict({k: i for i, k in enumerate(kinds)}, return_dtype=pl.Int64)
    columns = len(kinds) * bins
    lift = pl.col("logp") - pl.col("prior")
    cells = dated.select(
        (pl.col("row") * columns + kind * bins + within).alias("cell"),
        "logp",
        lift.fill_null(0.0).alias("lift"),
        lift.is_not_null().cast(pl.Float64).alias("with_prior"),
    )
    where, shape = cells["cell"].to_numpy(), (order.height, columns)

    def total(weights: np.ndarray | None) -> np.ndarray:
        return np.bincount(where, weights, order.height * columns).reshape(shape).astype(float)

    logp, lifts, priors_there = (cells[name].to_numpy() for name in ("logp", "lift", "with_prior"))
    return total(logp), total(None), total(lifts), total(priors_there)


def alpha_profile(
    runs: Sequence[pl.DataFrame], about: pl.DataFrame, *,
    fine: bool = False, resamples: int = RESAMPLES, seed: int = 0,
) -> pl.DataFrame:  # fmt: skip
    """Mean log-probability (nats) of the answer in each bin of alpha, per run and pooled over all models.

    Coarse bins: year contexts, by status. Fine ones: a tenth wide, for each granularity. Transitional contexts count at
    -0.5 or 0.5, whichever is nearer. The mean is over statements; the interval resamples the subjects that ``about``
    names. ``lift`` is the mean of the score minus that of the fact's statement without a date (its prior), null where
    there is none. Rows: RUN_KEYS, granularity, status (null in fine bins), bin, alpha, statements, facts, logp, low,
    high, lift. Source: TimeStress, figure 3 (15 for the fine bins).
    """
    facts = pl.concat([run.select("fact_id").unique() for run in runs]).unique()
    order = facts.sort("fact_id").with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias("row"))
    subjects = with_subjects(order, about)["subject"].to_numpy()
    columns = columns_of(fine)
    pooled: dict[tuple[str, ...], Sums] = {}
    tables = []
    for run in runs:
        key = tuple(str(run[name][0]) for name in RUN_KEYS)
        sums = alpha_sums(run, order, fine=fine)
        tables.append(_profile(key, columns, sums, subjects, resamples, seed))
        if (of_all := pooled.setdefault((POOLED, *key[1:]), sums)) is not sums:
            for whole, part in zip(of_all, sums, strict=True):
                whole += part
    tables += [_profile(key, columns, sums, subjects, resamples, seed) for key, sums in pooled.items()]
    return pl.concat(tables)


def _profile(
    key: tuple[str, ...], columns: pl.DataFrame, sums: Sums, subjects: np.ndarray, resamples: int, seed: int
) -> pl.DataFrame:
    logp, statements, lifts, with_prior = sums
    some = np.flatnonzero(statements.sum(axis=0))
    asked = statements.sum(axis=1) > 0
    logp, statements = logp[asked][:, some], statements[asked][:, some]
    low, high = bootstrap_ratio(logp, statements, subjects[asked], resamples=resamples, seed=seed)
    priors = with_prior[:, some].sum(axis=0)
    lift = lifts[:, some].sum(axis=0) / np.where(priors > 0, priors, np.nan)
    table = columns[some].with_columns(
        *(pl.lit(value).alias(name) for name, value in zip(RUN_KEYS, key, strict=True)),
        pl.Series("statements", statements.sum(axis=0).astype(np.int64)),
        pl.Series("facts", (statements > 0).sum(axis=0)),
        pl.Series("logp", logp.sum(axis=0) / statements.sum(axis=0)),
        pl.Series("low", low),
        pl.Series("high", high),
        pl.Series("lift", lift).fill_nan(None),
    )
    return table.select(*RUN_KEYS, *columns.columns, "statements", "facts", "logp", "low", "high", "lift").sort(
        "granularity", "alpha", "status", maintain_order=True
    )


def draw_coarse(table: pl.DataFrame) -> "style.Figure":
    """Mean log-probability of the answer in each bin of alpha, over all models, by the status of the year.

    A panel a format and prefix; the number above a mark is that of its statements; the bins of the period are shaded.
    Source: TimeStress, figure 3.
    """
    rows = style.check("alpha", pooled_rows(table), "logp")
    bins = rows.select("bin", "alpha").unique().sort("alpha")["bin"].to_list()
    panels = style.sections(rows)
    with style.sheet(style.PAGE, 1.9 * len(panels) + 0.6, len(panels), 1, sharex=True) as (figure, axes):
        for panel, (title, part) in zip(axes.flat, panels, strict=True):
            panel.set_title(title)
            _shade(panel, bins, part)
            statuses = style.in_order(part["status"], list(style.STATUSES))
            crowded = part["bin"].is_duplicated().any()
            for status in statuses:
                of_status = part.filter(pl.col("status") == status)
                offset = (statuses.index(status) - 1) * 0.25 if crowded else 0.0
                places = [bins.index(b) + offset for b in of_status["bin"]]
                marks.dots(
                    panel, places, of_status["logp"], style.STATUSES[status], label=status, upright=True,
                    low=of_status["low"], high=of_status["high"],
                )  # fmt: skip
                for place, row in zip(places, of_status.iter_rows(named=True), strict=True):
                    panel.annotate(
                        compact(row["statements"]), (place, row["logp"] if row["high"] is None else row["high"]),
                        xytext=(0, 4), textcoords="offset points", ha="center", va="bottom", fontsize=style.SMALL,
                        rotation=90 if crowded else 0,
                    )  # fmt: skip
            names = [name.replace("<=", AT_MOST).replace("-", marks.MINUS) for name in bins]
            panel.set_xticks(range(len(bins)), names, rotation=40, ha="right", rotation_mode="anchor")
            panel.set_xlim(-0.5, len(bins) - 0.5)
            panel.margins(y=0.2)
            panel.set_ylabel(LOG_PROBABILITY)
        axes[-1, 0].set_xlabel(DISTANCE)
        marks.legend(figure)
    return figure


def _shade(panel: "style.Axes", bins: list[str], part: pl.DataFrame) -> None:
    """The bins from -0.5 to 0.5, which is the period."""
    inside = part.filter(pl.col("alpha").abs() <= 0.5)["bin"].unique()
    places = [bins.index(b) for b in inside]
    if places:
        panel.axvspan(min(places) - 0.5, max(places) + 0.5, color=style.PALE, lw=0, zorder=0, label="the period")


def compact(count: int) -> str:
    """A count in at most six characters: 950, 12,345, 144k, 1.4M."""
    if count < 100_000:
        return f"{count:,}"
    return f"{count / 1000:.0f}k" if count < 999_500 else f"{count / 1e6:.1f}M"


def draw_fine(table: pl.DataFrame) -> "style.Figure":
    """Mean log-probability of the answer in fine bins of alpha at each granularity, over all models, with bands.

    A panel a format and prefix; the line is broken where a bin has no contexts. Source: TimeStress, figure 15.
    """
    rows = style.check("alpha_fine", pooled_rows(table), "logp", "alpha")
    panels = style.sections(rows)
    with style.sheet(style.PAGE, 1.9 * len(panels) + 0.45, len(panels), 1, sharex=True) as (figure, axes):
        for panel, (title, part) in zip(axes.flat, panels, strict=True):
            panel.set_title(title)
            panel.axvspan(-0.5, 0.5, color=style.PALE, lw=0, zorder=0, label="the period")
            for granularity in style.in_order(part["granularity"], list(style.GRANULARITIES)):
                line = part.filter(pl.col("granularity") == granularity).sort("alpha")
                marks.line(
                    panel, line["alpha"], line["logp"], style.GRANULARITIES[granularity], label=granularity,
                    low=line["low"], high=line["high"], step=0.15, markersize=2.2,
                )  # fmt: skip
            panel.set_xlim(-5, 5)
            panel.set_ylabel(LOG_PROBABILITY)
        axes[-1, 0].set_xlabel(DISTANCE)
        marks.legend(figure)
    return figure


def coarse_views(table: pl.DataFrame, looks: charts.Looks) -> charts.Views:
    symbols = {"correct": "circle", "incorrect": "circle-open", "transitional": "diamond-open"}
    views = []
    for (form, prefix), cell in charts.groups(table, "format", "prefix"):
        traces = []
        for key, group in charts.by_run(cell.sort("alpha", maintain_order=True)):
            trace = looks.trace(
                key, mode="lines+markers", x=group["bin"].to_list(), y=charts.numbers(group["logp"]),
                error_y=charts.bars(group, "logp"),
                customdata=charts.rows(group, "status", "statements", "facts", "lift"),
                hovertemplate="%{x}, %{customdata[0]}: %{y:.2f} nats; %{customdata[3]:+.2f} over the prior; "
                "%{customdata[1]:,} statements of %{customdata[2]:,} facts",
            )  # fmt: skip
            trace["marker"] = trace["marker"] | {"symbol": [symbols.get(s, "x") for s in group["status"]]}
            traces.append(trace)
        order = [name for name in COARSE if name in cell["bin"]]
        views.append(
            charts.view(
                f"{form}, {prefix_name(prefix)}", traces, yaxis=charts.axis("mean log-probability (nats)"),
                xaxis={"type": "category", "categoryorder": "array", "categoryarray": order,
                       "title": {"text": "relative distance alpha from the middle of the period"}},
            )
        )  # fmt: skip
    return views


def fine_views(table: pl.DataFrame, looks: charts.Looks) -> charts.Views:
    views = []
    for (granularity, form, prefix), cell in charts.groups(table, "granularity", "format", "prefix"):
        traces = [
            looks.trace(
                key, mode="lines", x=charts.numbers(group["alpha"]), y=charts.numbers(group["logp"], 4),
                customdata=charts.rows(group, "low", "high", "statements"),
                hovertemplate="%{x}: %{y:.2f} nats (%{customdata[0]:.2f} to %{customdata[1]:.2f}), "
                "%{customdata[2]:,} statements",
            )
            for key, group in charts.by_run(cell.sort("alpha", maintain_order=True))
        ]  # fmt: skip
        held = {"type": "rect", "x0": -0.5, "x1": 0.5, "y0": 0, "y1": 1, "yref": "paper", "layer": "below",
                "fillcolor": "@held", "line": {"width": 0}}  # fmt: skip
        views.append(
            charts.view(
                f"{granularity}; {form}, {prefix_name(prefix)}",
                traces,
                shapes=[held],
                xaxis=charts.axis("relative distance alpha"),
                yaxis=charts.axis("mean log-probability (nats)"),
            )
        )
    return views


COLUMNS = {
    **POOLED_RUN,
    **GRANULARITY,
    "status": "`correct`, `incorrect` or `transitional`; empty in the fine bins",
    "bin": "range of alpha; transitional contexts count at -0.5 or 0.5",
    "alpha": "position at which the bin is drawn",
    "statements": "number of statements in the bin",
    "facts": "number of facts that the statements belong to",
    "logp": "mean log-probability of the answer, nats",
    **INTERVAL,
    "lift": "mean of the log-probability minus the fact's prior, nats; empty without priors",
}

IN_PAPER = InPaper(
    words={**RUN_WORDS, **LEVEL_WORD, "status": "status", "bin": "alpha"},
    numbers={"statements": "statements", "facts": "facts", "logp": "log p (nats)", "lift": "lift (nats)"},
)


def _above(one: Row, other: Row) -> int:
    return apart((one["low"], one["high"]), (other["low"], other["high"]))


def _listed(levels: Sequence[str]) -> str:
    return "By " + " and by ".join([", by ".join(levels[:-1]), levels[-1]] if len(levels) > 1 else levels)


def _alpha_finding(rows: Rows) -> str | None:
    """The middle of the period against one to three lengths before and after it, each side by its intervals."""
    by_bin = {(row["status"], row["bin"]): row for row in rows if row["low"] is not None and row["facts"] >= FEW}
    middle = by_bin.get(("correct", "(-0.25, 0]"))
    before, after = (by_bin.get(("incorrect", name)) for name in ("(-3, -1]", "(1, 3]"))
    if middle is None or before is None or after is None:
        return None
    sides = [_above(middle, row) for row in (before, after)]
    here, *there = (nats(row["logp"]) for row in (middle, before, after))
    if sides[0] == sides[1]:
        words = {1: "likelier", -1: "less likely", 0: "not clearly likelier"}[sides[0]]
        return (
            f"An answer is {words} in the middle of its period than one to three lengths before and after it: "
            f"{here}, {', '.join(there)} nats"
        )
    words_found = [
        f"{words} than one to three lengths {where} it ({here}, {of} nats)"
        for side, where, of in zip(sides, ("before", "after"), there, strict=True)
        if (words := {1: "likelier", -1: "less likely", 0: ""}[side])
    ]
    rest = f", not clearly so {'before' if sides[1] else 'after'} it" if 0 in sides else ""
    return f"In the middle of its period an answer is {' and '.join(words_found)}{rest}"


ALPHA = Analysis(
    name="alpha",
    group=EXPLAINS,
    title="How likely the answer is, by how far the date lies from the period",
    source="TimeStress, figure 3; TimeStress v1, figure 3",
    compute=lambda study: alpha_profile(study.runs, study.about, resamples=study.resamples, seed=study.seed),
    finding=_alpha_finding,
    columns=COLUMNS,
    needs=(YEARS,),
    figure=draw_coarse,
    chart=Chart(
        coarse_views,
        "Filled: dates on which the fact held; open: dates on which it did not; diamonds: undecided dates. A model "
        f"that knows the fact peaks in the middle. {charts.INTERVALS}",
    ),
    paper=IN_PAPER,
)


def _alpha_fine_finding(rows: Rows) -> str | None:
    """By which granularities the middle of the period lies above one length before and after it, by the intervals."""
    by_bin = {(row["granularity"], row["bin"]): row for row in rows if row["low"] is not None and row["facts"] >= FEW}
    names = ("(-0.1, 0.0]", "(-1.1, -1.0]", "(1.0, 1.1]")
    known = [level for level in GRANULARITIES if all((level, name) in by_bin for name in names)]
    if not known:
        return None
    sure = []
    for level in known:
        middle, *away = (by_bin[level, name] for name in names)
        if all(_above(middle, row) == 1 for row in away):
            sure.append(level)
    peak = "the answer is likelier in the middle of the period than one length before and after it"
    if not sure:
        return f"{_listed(known)}, it is not clear that {peak}"
    rest = [level for level in known if level not in sure]
    return f"{_listed(sure)}, {peak}{f'; not clearly so {_listed(rest).lower()}' if rest else ''}"


ALPHA_FINE = Analysis(
    name="alpha_fine",
    group=EXPLAINS,
    title="How likely the answer is in fine bins of distance, by year, month and day",
    source="TimeStress, figure 15",
    compute=lambda study: alpha_profile(study.runs, study.about, fine=True, resamples=study.resamples, seed=study.seed),
    finding=_alpha_fine_finding,
    columns=COLUMNS,
    figure=draw_fine,
    chart=Chart(fine_views, "The shaded part is the period itself, from start to end."),
    paper=IN_PAPER,
)
