"""When a model believes that a fact holds: a step fitted to the scores of its years.

None of the papers shows this. The year scores of one fact and run are described by two levels: ``inside`` on one
contiguous stretch of contexts, ``outside`` elsewhere. The believed period is the stretch where the answer is likelier.

Only steps up are considered. Scores of a model that knows a period often dip somewhere else as well, and the dip may
be the stronger step; it says nothing of when the fact holds, so it must not hide the period.

What belief does not mean: knowledge. BIC takes the scores of a fact as independent and counts a change point as one
parameter, although it is searched for. Of facts with independent Gaussian scores about 13 % (85 contexts) or 23 % (30)
pass; where neighbouring years score alike, as their texts are alike, most do (78 % at a correlation of 0.5, 85
contexts). What tells models apart is whether the believed period is the true one: ``overlap`` and the errors in days.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from anachron.analysis.analyses.analysis import (
    FACT,
    RUN,
    RUN_WORDS,
    WORDS,
    WRONG,
    YEAR_CONTEXTS,
    Analysis,
    InPaper,
    in_words,
)
from anachron.analysis.days import day_numbers, days_of
from anachron.analysis.findings import FEW, Rows, interval
from anachron.analysis.metrics import FACT_KEYS, RUN_KEYS, with_subjects
from anachron.analysis.plots.words import counted
from anachron.analysis.statistics import bootstrap_median, interval_cells, korn_graubard
from anachron.analysis.study import Study
from anachron.core.dates import DAYS_A_YEAR
from anachron.io.files import Json

MIN_CONTEXTS = 6  # one more than a step has parameters; fewer are not fitted
RESOLUTION = 1e-6  # nats; no residual standard deviation is taken to be smaller, for scores mean nothing below it
TIE = 1e-9  # stretches whose explained variance differs by no more than this part of it are equally good
CELLS = 1 << 19  # stretches weighed at once: as many doubles stay near the processor


BELIEVED_SCHEMA: dict[str, type[pl.DataType]] = {
    **dict.fromkeys(FACT_KEYS, pl.String),
    "believed": pl.Boolean,
    **dict.fromkeys(["believed_start", "believed_end"], pl.String),
    **dict.fromkeys(["inside", "outside", "bic_gain"], pl.Float64),
    "contexts": pl.Int64,
    "resolution_days": pl.Float64,
    **dict.fromkeys(["start_error_days", "end_error_days"], pl.Int64),
    "overlap": pl.Float64,
}

SUMMARY_SCHEMA: dict[str, type[pl.DataType]] = {
    **dict.fromkeys(RUN_KEYS, pl.String),
    "facts": pl.Int64,
    **dict.fromkeys(["believed", "believed_low", "believed_high", "resolution_days"], pl.Float64),
    "starts": pl.Int64,
    "start_error_days": pl.Float64,
    "ends": pl.Int64,
    "end_error_days": pl.Float64,
    "closed": pl.Int64,
    **dict.fromkeys(["overlap", "overlap_low", "overlap_high"], pl.Float64),
}


def believed_periods(scores: pl.DataFrame, about: pl.DataFrame) -> pl.DataFrame:
    """The believed period of every fact in every run, and how far it is from the true one.

    scores: a score table as `anachron.analysis.metrics.check_scores` returns it.
    about: one row a fact, with ``fact_id, start, end``; unknown or missing dates give no errors.

    One row per run and fact that has a dated year context, runs as they appear, facts by their id:

    * ``believed``: whether the best step beats a constant by BIC, see `fit_steps`;
    * ``believed_start, believed_end``: the first and the last context inside; null where the stretch reaches the
      first or the last context asked about (that end is open), and where nothing is believed;
    * ``inside, outside`` (mean nats) and ``bic_gain`` of the best step, believed or not; null below ``MIN_CONTEXTS``
      contexts, the levels also where all scores are equal;
    * ``contexts`` and ``resolution_days``, the median distance of neighbouring ones: no boundary is known more finely;
    * ``start_error_days``: first day of ``believed_start`` minus first day of the true start; ``end_error_days``: last
      day of ``believed_end`` minus last day of the true end. Negative: believed too early;
    * ``overlap``: days in both periods by days in either (Jaccard), where all four ends are known.

    Raises `DataError` for a time or boundary that is no date.
    """
    dated = (pl.col("status") != "none") & pl.col("time").is_not_null()
    years = scores.lazy().filter((pl.col("granularity") == "year") & dated).select(*FACT_KEYS, "time", "logp").collect()
    days = days_of(years["time"])
    runs = [
        _run(run.join(days, on="time", how="left", maintain_order="left")).with_columns(
            pl.lit(value, pl.String).alias(name) for name, value in zip(RUN_KEYS, key, strict=True)
        )
        for key, run in years.group_by(RUN_KEYS, maintain_order=True)
    ]
    if not runs:
        return pl.DataFrame(schema=BELIEVED_SCHEMA)
    return _against_truth(pl.concat(runs), about).select(
        pl.col(name).cast(kind) for name, kind in BELIEVED_SCHEMA.items()
    )


def _run(years: pl.DataFrame) -> pl.DataFrame:
    """The best step of every fact of one run. Facts with equally many contexts are fitted together."""
    facts = (
        years.sort("first")
        .group_by("fact_id")
        .agg("time", "first", "last", "logp", pl.len().cast(pl.Int64).alias("contexts"))
        .sort("fact_id")
    )
    contexts = facts["contexts"].to_numpy()
    offsets = np.cumsum(contexts) - contexts
    flat = facts.select("logp", "first", "last", "time").explode("logp", "first", "last", "time")
    logp, first_days, last_days = (flat[name].to_numpy() for name in ("logp", "first", "last"))

    levels: dict[str, np.ndarray] = {name: np.full(facts.height, np.nan) for name in ("inside", "outside", "bic_gain")}
    first, stop = np.zeros(facts.height, np.int64), np.zeros(facts.height, np.int64)
    gaps = np.full(facts.height, np.nan)
    for n in np.unique(contexts):
        rows = np.flatnonzero(contexts == n)
        cells = offsets[rows, None] + np.arange(n)
        if n > 1:
            gaps[rows] = np.median(np.diff(first_days[cells], axis=1), axis=1)
        if n >= MIN_CONTEXTS:
            fit = fit_steps(logp[cells])
            first[rows], stop[rows] = fit["first"], fit["stop"]
            for name in levels:
                levels[name][rows] = fit[name]

    believed = levels["bic_gain"] > 0  # not so where it is NaN
    known_start, known_end = believed & (first > 0), believed & (stop < contexts)
    start, end = offsets + first, offsets + np.maximum(stop, 1) - 1
    return facts.select(
        "fact_id",
        pl.Series("believed", believed),
        _where(known_start, flat["time"].gather(start)).alias("believed_start"),
        _where(known_end, flat["time"].gather(end)).alias("believed_end"),
        *(pl.Series(name, values, nan_to_null=True) for name, values in levels.items()),
        "contexts",
        pl.Series("resolution_days", gaps, nan_to_null=True),
        _where(known_start, pl.Series(first_days[start])).alias("first"),
        _where(known_end, pl.Series(last_days[end])).alias("last"),
    )


def _where(known: np.ndarray, values: pl.Series) -> pl.Series:
    return values.set(pl.Series(~known), None)


def fit_steps(scores: np.ndarray) -> dict[str, np.ndarray]:
    """The best two-level step for each of several facts with equally many contexts.

    scores: facts x n contexts in order of time, nats, n >= ``MIN_CONTEXTS``.

    Among all contiguous stretches [first, stop) that are higher inside than outside, the least squares fit is taken of
    those that touch one end, and of those that touch none; the one with the lower BIC = n ln(RSS / n) + p ln n is the
    best step. Parameters p: a constant 2 (mean, variance); a stretch that touches an end 4 (two means, variance, one
    change point); one that touches none 5. RSS / n is not taken below ``RESOLUTION`` squared, so that constant scores
    and exact steps have a finite BIC. Of equally good stretches the earliest is taken, and of these the shortest.

    Returns an array a key, one value a fact: ``first, stop`` (indices), ``inside, outside`` (nats; NaN where all scores
    are equal), ``bic_gain``: BIC of the constant minus that of the step.
    """
    facts, n = scores.shape
    whole, real = ("first", "stop"), ("inside", "outside", "bic_gain")
    fits: dict[str, np.ndarray] = {name: np.empty(facts, int if name in whole else float) for name in (*whole, *real)}
    size = max(1, CELLS // n**2)
    for begin in range(0, facts, size):
        chunk = slice(begin, begin + size)
        for name, values in _fit_chunk(scores[chunk]).items():
            fits[name][chunk] = values
    return fits


def _fit_chunk(scores: np.ndarray) -> dict[str, np.ndarray]:
    facts, n = scores.shape
    centred = scores - scores.mean(axis=1, keepdims=True)
    # A stretch of k contexts whose centred scores sum to s explains s^2 n / (k (n - k)) of the sum of squares.
    sums = np.cumsum(centred, axis=1)[:, :-1]  # of the first 1, 2, .. n - 1 contexts
    k = np.arange(1, n)
    cut = _first_best(sums**2 * (n / (k * (n - k))))
    head_is_inside = sums[np.arange(facts), cut] > 0
    one_sided = np.where(head_is_inside, 0, cut + 1), np.where(head_is_inside, cut + 1, n)

    left, right = np.triu_indices(n - 1, 1)
    k = right - left
    explained = np.take(sums, right, axis=1)
    explained -= np.take(sums, left, axis=1)
    explained *= np.maximum(explained, 0)  # steps down explain nothing
    explained *= n / (k * (n - k))
    best = _first_best(explained)
    two_sided = left[best] + 1, right[best] + 1

    constant = _bic((centred**2).sum(axis=1), n, 2)
    one, two = (_step(centred, first, stop, p) for (first, stop), p in ((one_sided, 4), (two_sided, 5)))
    take = (two["bic"] < one["bic"]) & (two["inside"] > two["outside"])
    chosen = {name: np.where(take, two[name], one[name]) for name in one}
    mean = scores.mean(axis=1)
    equal = np.ptp(scores, axis=1) == 0
    levels = {name: np.where(equal, np.nan, chosen[name] + mean) for name in ("inside", "outside")}
    return {"first": chosen["first"], "stop": chosen["stop"], **levels, "bic_gain": constant - chosen["bic"]}


def _first_best(explained: np.ndarray) -> np.ndarray:
    """Per row the first column that is as good as the best: rounding must not choose among equals."""
    return np.argmax(explained >= explained.max(axis=1, keepdims=True) * (1 - TIE), axis=1)


def _step(scores: np.ndarray, first: np.ndarray, stop: np.ndarray, parameters: int) -> dict[str, np.ndarray]:
    n = scores.shape[1]
    position = np.arange(n)
    within = (position >= first[:, None]) & (position < stop[:, None])
    inside = np.where(within, scores, 0).sum(axis=1) / (stop - first)
    outside = np.where(within, 0, scores).sum(axis=1) / (n - stop + first)
    residuals = scores - np.where(within, inside[:, None], outside[:, None])
    bic = _bic((residuals**2).sum(axis=1), n, parameters)
    return {"first": first, "stop": stop, "inside": inside, "outside": outside, "bic": bic}


def _bic(squares: np.ndarray, n: int, parameters: int) -> np.ndarray:
    return n * np.log(np.maximum(squares / n, RESOLUTION**2)) + parameters * np.log(n)


def _against_truth(periods: pl.DataFrame, about: pl.DataFrame) -> pl.DataFrame:
    truth = about.select(
        "fact_id", true_first=day_numbers(about, "start"), true_last=day_numbers(about, "end", last=True)
    )
    joined = periods.join(truth, on="fact_id", how="left", validate="m:1", maintain_order="left")
    ends = ["first", "last", "true_first", "true_last"]
    shared = pl.min_horizontal("last", "true_last") - pl.max_horizontal("first", "true_first") + 1
    believed_days, true_days = (pl.col(last) - pl.col(first) + 1 for first, last in (ends[:2], ends[2:]))
    shared = shared.clip(lower_bound=0)
    return joined.with_columns(
        (pl.col("first") - pl.col("true_first")).alias("start_error_days"),
        (pl.col("last") - pl.col("true_last")).alias("end_error_days"),
        pl.when(pl.all_horizontal(pl.col(ends).is_not_null()))
        .then(shared / (believed_days + true_days - shared))
        .alias("overlap"),
    )


def believed_summary(believed: pl.DataFrame) -> pl.DataFrame:
    """Per run, how many facts have a believed period and how well it fits, from `believed_periods`, with ``subject``.

    ``facts``; ``believed``: the share of them with a believed period, with its interval over subjects
    (``believed_low, believed_high``). Of the believed ones: ``resolution_days`` (median), ``start_error_days`` and
    ``end_error_days`` (medians of the absolute errors) of the ``starts`` and ``ends`` that are neither open nor
    unknown, and ``overlap`` (mean, with ``overlap_low, overlap_high``) of the ``closed`` periods. Null of nothing.
    """
    rows = []
    for key, group in believed.group_by(RUN_KEYS, maintain_order=True):
        kept = group.filter(pl.col("believed"))
        closed = kept.drop_nulls("overlap")
        row: dict[str, Any] = dict(zip(RUN_KEYS, key, strict=True)) | {"facts": group.height}
        for name, facts in (("believed", group), ("overlap", closed)):
            values = facts[name].cast(pl.Float64)
            ends = korn_graubard(values.to_numpy(), facts["subject"].to_numpy())
            row |= {name: values.mean()} | interval_cells(name, ends)
        for side in ("start", "end"):
            errors = kept[f"{side}_error_days"]
            row |= {f"{side}s": errors.count(), f"{side}_error_days": errors.abs().median()}
        rows.append(row | {"resolution_days": kept["resolution_days"].median(), "closed": closed.height})
    return pl.DataFrame(rows, schema=SUMMARY_SCHEMA, orient="row")


def believed_of(study: Study) -> pl.DataFrame:
    """`believed_periods` of every run."""
    return study.map(lambda run: believed_periods(run, study.about))


def median_miss(rows: Sequence[Mapping[str, Any]]) -> Json | None:
    """By how many days believed ends miss the true ones, early or late.

    rows: of the table ``believed``, of one run. Returns ``median`` with its bootstrap interval over subjects (``low,
    high``), and of ``ends`` of how many ``facts`` it is; None where no end can be compared.
    """
    sides = [[row["start_error_days"], row["end_error_days"]] for row in rows if row["believed"]]
    errors = np.abs(np.array(sides, dtype=np.float64).reshape(-1, 2))
    known = ~np.isnan(errors).all(axis=1)
    subjects = np.array([row.get("subject_label") or row["fact_id"] for row in rows if row["believed"]])
    errors = errors[known]
    if not errors.size:
        return None
    median, low, high = bootstrap_median(errors, subjects[known])
    ends = int(np.isfinite(errors).sum())
    return {"median": median, "low": low, "high": high, "ends": ends, "facts": len(errors)}


def _believed_finding(rows: Rows) -> str | None:
    """The median error with its interval; of a few facts only how many ends are near."""
    miss = median_miss(rows)
    errors = [row[f"{end}_error_days"] for row in rows if row["believed"] for end in ("start", "end")]
    known = [abs(days) for days in errors if days is not None]
    if miss is None or not known:
        return None
    if miss["facts"] < FEW:
        near = sum(days <= DAYS_A_YEAR for days in known)
        return f"Within a year of the truth: {near:,} of {counted(len(known), 'end')} of believed periods"
    size, unit = (DAYS_A_YEAR, "years") if miss["high"] >= DAYS_A_YEAR else (1, "days")
    middle, low, high = (f"{miss[name] / size:.{unit == 'years':d}f}" for name in ("median", "low", "high"))
    of = f"{miss['ends']:,} ends of {miss['facts']:,} facts"
    return f"The ends of believed periods miss the true ones by {middle} {unit} (median; {low} to {high}; {of})"


BELIEVED = Analysis(
    name="believed",
    group=WRONG,
    title="Believed periods beside the true ones",
    source="beyond the papers",
    compute=lambda study: in_words(study.once(believed_of), study),
    needs=(YEAR_CONTEXTS,),
    large=True,
    finding=_believed_finding,
    columns={
        **RUN,
        **FACT,
        **WORDS,
        "believed": "whether a period is believed: the best step has a lower BIC than a constant",
        "believed_start": "first year of the believed period; empty if that end is open or nothing is believed",
        "believed_end": "last year of the believed period; empty likewise",
        "inside": "mean log-probability inside the period, nats",
        "outside": "mean log-probability outside, nats",
        "bic_gain": "BIC of the constant minus that of the step",
        "contexts": "number of years asked about",
        "resolution_days": "median distance between neighbouring years asked about; boundaries are no more precise",
        "start_error_days": "believed minus true start, days; negative: too early",
        "end_error_days": "believed minus true end, days",
        "overlap": "days in both periods / days in either, if all ends are known",
    },
)


def _believed_summary_finding(rows: Rows) -> str | None:
    (row,) = rows
    believed = round(row["believed"] * row["facts"])
    words_found = f"Ties {believed:,} of {row['facts']:,} facts to some period"
    if row["overlap"] is None or row["closed"] < FEW:
        return words_found
    return f"{words_found}; where both ends are known, it overlaps the true one by {interval(row, 'overlap')}"


BELIEVED_SUMMARY = Analysis(
    name="believed_summary",
    group=WRONG,
    title="How well believed periods fit the true ones",
    source="beyond the papers",
    compute=lambda study: believed_summary(with_subjects(study.once(believed_of), study.about)),
    needs=(YEAR_CONTEXTS,),
    finding=_believed_summary_finding,
    columns={
        **RUN,
        "facts": "facts with years asked about",
        "believed": "share of these facts with a believed period",
        "believed_low": "lower end of its 95 % interval",
        "believed_high": "its upper end",
        "resolution_days": "median over the facts with a believed period",
        "starts": "number of believed starts that can be compared",
        "start_error_days": "median of their absolute errors",
        "ends": "number of believed ends that can be compared",
        "end_error_days": "median of their absolute errors",
        "closed": "number of believed periods with all ends known",
        "overlap": "their mean overlap with the true period",
        "overlap_low": "lower end of its 95 % interval",
        "overlap_high": "its upper end",
    },
    paper=InPaper(
        words=RUN_WORDS,
        numbers={
            "facts": "facts",
            "believed": "believed (%)",
            "start_error_days": "start error (days)",
            "end_error_days": "end error (days)",
            "closed": "closed",
            "overlap": "overlap (%)",
        },
    ),
)
