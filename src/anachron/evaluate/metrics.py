"""What an update did to a model: efficacy, generalization, bleedover, fluency, seconds (WikiFactDiff, table 3).

Everything starts from the tables of `anachron.evaluate.results`. A failed update has no score: it is counted and never
given the clean model's. What success means for updates that are no replacement: `anachron.evaluate.measures.scenarios`.
"""

from collections.abc import Sequence
from math import exp, isnan, nan
from typing import Any

import numpy as np
import polars as pl

from anachron.analysis.statistics import interval_cells, korn_graubard, t_mean
from anachron.core.errors import DataError
from anachron.core.facts import REPLACEMENT, SCENARIOS
from anachron.core.labels import PLAIN
from anachron.evaluate.measures.audit import ANSWERS, AUDIT, AUDIT_METRICS, NAMES, audit_metrics
from anachron.evaluate.measures.generations import GENERATION_METRICS, GENERATIONS, generation_metrics
from anachron.evaluate.measures.scenarios import OBJECTS, SCENARIO_METRICS, scenario_metrics
from anachron.evaluate.results import (
    KEYS,
    METHOD,
    STATUSES,
    UNEDITED,
    Results,
    check_results,
    method_label,
    subjects_of,
)
from anachron.io.schemas import refuse_missing

METRICS = (
    "efficacy_difference", "efficacy_success", "generalization_difference", "generalization_success",
    "bleedover_nearest", "bleedover_random", "bleedover_nearest_absolute", "bleedover_random_absolute",
    "neighbourhood_difference", "neighbourhood_success", "efficacy_accuracy", "efficacy_exact",
    "generalization_accuracy", "generalization_exact", "neighbourhood_accuracy", "neighbourhood_exact", "fluency",
    "seconds",
)  # fmt: skip
SUCCESSES = ("efficacy_success", "generalization_success", "neighbourhood_success")
SCORE = "score"  # of a summary: the harmonic mean of its `SUCCESSES`
OF_GROUP = " of the group"  # behind the name of a metric, while there are two of it
# Those that are there only where a run has the tables that they are made of.
MORE_METRICS = (*(name for name in SCENARIO_METRICS if name not in METRICS), *GENERATION_METRICS, *AUDIT_METRICS)
# Of yes and no: 1 or 0 of an update.
SHARES = ("efficacy_success", "efficacy_exact", "new_win", "static_win", "generated_new", "generated_old", *ANSWERS)
# From 0 to 1 of an update, so that the interval of their mean has bounds: those of yes and no, and means of such.
BOUNDED = (
    *dict.fromkeys((*SHARES, *AUDIT_METRICS)), "generalization_success", "neighbourhood_success", "efficacy_accuracy",
    "generalization_accuracy", "generalization_exact", "neighbourhood_accuracy", "neighbourhood_exact",
    "generalization_generated_new", "generalization_generated_old",
)  # fmt: skip
OF_CLEAN = {"method": pl.lit(UNEDITED), "variant": pl.lit(PLAIN)}
ACCURACY = ("accuracy_before",)  # the clean model's: two tokens that all but tie may change places
SAME = 0.01  # by how much a probability of the clean model may differ between two methods' runs (half precision)


def geometric_mean(logp: float, tokens: int) -> float:
    """Probability of a target for its length: exp(logp / tokens), 0 to 1.

    logp: sum of the log-probabilities of its tokens, nats. Raises `DataError` for a target without tokens and for a
    sum that is above 0 or no number.
    """
    if tokens < 1:
        raise DataError(f"a target of {tokens} tokens has no probability; it needs at least one token")
    if isnan(logp) or logp > 1e-4 * tokens:  # log-softmax in single precision ends a little above 0 at times
        raise DataError(f"{logp} is not a sum of log-probabilities; it must be 0 or below, so score that target again")
    return min(1.0, exp(logp / tokens))


def update_metrics(
    targets: pl.DataFrame,
    neighbours: pl.DataFrame,
    updates: pl.DataFrame,
    objects: pl.DataFrame | None = None,
    generations: pl.DataFrame | None = None,
    audit: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """One row per mode, method and update with its `METRICS`; first of each mode the clean model, as ``unedited``.

    ``efficacy_difference`` is p(new) - p(old) after the edit on the update prompt and ``efficacy_success`` 1 where that
    is above 0 (a tie is no success), else 0; ``generalization_*`` are the means of both over the update's other
    prompts. ``bleedover_nearest`` and ``bleedover_random`` are the means over its neighbour facts of the probability
    that their true object lost, -min(after - before, 0); ``*_absolute`` of abs(after - before), which counts gains too.
    ``neighbourhood_difference`` is the mean over nearest facts of p(true object) - p(the update's new object) after the
    edit, on the fact's prompt, and ``neighbourhood_success`` the share of them on which that is above 0 (a tie is no
    success). Facts of which the new object is true as well do not count. With efficacy and generalization these are
    the magnitudes and successes of CounterFact (Meng and others, 2022, section 3.3).

    ``*_accuracy`` is the token accuracy of zsRE, teacher-forced (Mitchell and others, 2022; Meng and others, 2022): the
    share of the new object's tokens, on nearest facts of the true object's, that are the model's first choice.
    ``*_exact`` is the share of prompts on which all of them are. Both are null where tokens were not counted.

    Probabilities are 0 to 1; ``fluency`` is in bits, ``seconds`` those of the edit alone. A metric is null where
    nothing tells it: no old object, no neighbours, a failed update. Beside them: status, reason, relation, popularity,
    scenario, subject.

    objects: the run's table of them, where it has updates that are no replacements. Their efficacy and generalization,
    and the further columns of `MORE_METRICS`, are those of `scenario_metrics`. generations: the run's table of what the
    model generated, where it was asked to; its columns are those of `generation_metrics`. audit: the run's table of
    what it answered, with the columns of `audit_metrics`.

    Raises `DataError` for tables that break their rules, see `check_results`. Source: WikiFactDiff, section 5, table 3.
    """
    results = check_results(targets, neighbours, updates)
    rows = in_order(pl.concat([_metrics(*_clean(*results)), _metrics(*results)]), results[2])
    if objects is not None and objects.height:
        rows = _with_groups(rows, OBJECTS.check(objects, results[2]))
    if generations is not None and generations.height:
        of_texts = generation_metrics(_with_clean(GENERATIONS.check(generations, results[2]), ("text", "new", "old")))
        rows = rows.join(of_texts, on=KEYS, how="left", maintain_order="left")
    if audit is not None and audit.height:
        table = AUDIT.check(audit, results[2])
        answered = audit_metrics(_with_clean(table, ("text", "stopped", "new", "old"), list(NAMES)))
        rows = rows.join(answered, on=KEYS, how="left", maintain_order="left")
    return rows


def _with_groups(rows: pl.DataFrame, objects: pl.DataFrame) -> pl.DataFrame:
    """Metrics in which those of updates that are no replacements are made of all objects of their groups."""
    keys = ["mode", "case_id", "kind", "prompt_number", "role", "object"]
    clean = clean_scores(objects, keys, ["before"]).with_columns(after="before").select(objects.columns)
    of_groups = scenario_metrics(pl.concat([clean, objects]))
    both = rows.join(of_groups, on=KEYS, how="left", maintain_order="left", suffix=OF_GROUP)
    shared = [name for name in METRICS if name in SCENARIO_METRICS]
    return both.with_columns(
        pl.when(pl.col("scenario") == REPLACEMENT).then(name).otherwise(f"{name}{OF_GROUP}").alias(name)
        for name in shared
    ).drop([f"{name}{OF_GROUP}" for name in shared])


def _with_clean(texts: pl.DataFrame, values: Sequence[str], beside: Sequence[str] = ()) -> pl.DataFrame:
    """A table of what edited models wrote, behind what the clean model did, from ``VALUE_before`` of any row.

    beside: further columns that say nothing of a model.
    """
    clean = texts.group_by("mode", "case_id", "kind", "prompt_number", maintain_order=True).agg(
        *(pl.col(f"{value}_before").drop_nulls().first() for value in values), pl.col(beside).first()
    )
    clean = clean.with_columns(**OF_CLEAN, **{f"{value}_after": pl.col(f"{value}_before") for value in values})
    return pl.concat([clean.select(texts.columns), texts])


def _metrics(targets: pl.DataFrame, neighbours: pl.DataFrame, updates: pl.DataFrame) -> pl.DataFrame:
    gap, change = pl.col("new_after") - pl.col("old_after"), pl.col("after") - pl.col("before")
    lead = pl.col("after") - pl.col("new_after")  # of a neighbour's true object over the update's new one
    exact = (pl.col("accuracy_after") == 1).cast(pl.Float64).alias("exact")
    pairs = targets.with_columns(
        gap.alias("difference"),
        (gap > 0).cast(pl.Float64).alias("success"),
        pl.col("accuracy_after").alias("accuracy"),
        exact,
    )
    facts = neighbours.with_columns(
        (0.0 - change).clip(lower_bound=0.0).alias("loss"), change.abs().alias("absolute"), lead.alias("difference"),
        (lead > 0).cast(pl.Float64).alias("success"), pl.col("accuracy_after").alias("accuracy"), exact,
    )  # fmt: skip
    wide, shared = updates, ("difference", "success", "accuracy", "exact")
    for table, kinds, values in (
        (pairs, {"update": "efficacy_{}", "generalization": "generalization_{}"}, shared),
        (facts, {"nearest": "bleedover_nearest_{}", "random": "bleedover_random_{}"}, ("loss", "absolute")),
        (facts, {"nearest": "neighbourhood_{}"}, shared),
    ):
        means = [
            pl.col(value).filter(pl.col("kind") == kind).mean().alias(name.format(value).removesuffix("_loss"))
            for kind, name in kinds.items()
            for value in values
        ]
        wide = wide.join(table.group_by(KEYS).agg(means), on=KEYS, how="left", maintain_order="left")
    done = pl.col("status") == "done"
    beside = ("status", "reason", "relation", "popularity", "scenario", "subject")
    return wide.select(*KEYS, *beside, *(pl.when(done).then(pl.col(m)).alias(m) for m in METRICS))


def _clean(targets: pl.DataFrame, neighbours: pl.DataFrame, updates: pl.DataFrame) -> Results:
    """Results of an edit that changes nothing: each score of the clean model once, whatever the number of methods."""
    prompts = clean_scores(
        targets, ["mode", "case_id", "kind", "prompt_number"], ["new_before", "old_before"], ACCURACY
    )
    facts = clean_scores(neighbours, ["mode", "case_id", "kind", "number"], ["before", "new_before"], ACCURACY)
    cases = updates.group_by("mode", "case_id", maintain_order=True).agg(
        pl.col("fluency_before", "relation", "popularity", "scenario", "subject").drop_nulls().first()
    )
    return (
        prompts.with_columns(new_after="new_before", old_after="old_before", accuracy_after="accuracy_before"),
        facts.with_columns(after="before", new_after="new_before", accuracy_after="accuracy_before"),
        cases.with_columns(
            **OF_CLEAN, status=pl.lit("done"), reason=pl.lit(None, pl.String), fluency="fluency_before",
            seconds=pl.lit(0.0),
        ),
    )  # fmt: skip


def clean_scores(table: pl.DataFrame, keys: list[str], scores: list[str], beside: Sequence[str] = ()) -> pl.DataFrame:
    """One row a key with the clean model's scores, which must be the same whatever the method.

    beside: further columns of the clean model, which rounding may change by more and are not compared.
    """
    known = [pl.col(score).drop_nulls() for score in (*scores, *beside)]
    spread = pl.max_horizontal((pl.col(score).max() - pl.col(score).min()).fill_null(0.0) for score in scores)
    scored = table.group_by(keys, maintain_order=True).agg(*(score.first() for score in known), spread.alias("spread"))
    differs = scored.filter(pl.col("spread") > SAME)
    if differs.height:
        row = differs.row(0, named=True)
        what = ", ".join(f"{key} {row[key]}" for key in keys)
        raise DataError(
            f"{what}: the clean model's probability differs by {row['spread']:.3g} between methods; they must share "
            f"one model (at most {SAME} apart), so evaluate the runs of each model on their own"
        )
    return scored.with_columns(**OF_CLEAN)


def of_replacements(measured: Sequence[pl.DataFrame], updates: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """One row per mode, method and update, first of each mode the clean model: status, reason, scenario, subject, and
    metrics of these names, null where the update failed.

    measured: the metrics, with the clean model's (`OF_CLEAN`). updates: the run's table, checked, of replacements.
    """
    cases = updates.unique(["mode", "case_id"], keep="first", maintain_order=True).with_columns(
        **OF_CLEAN, status=pl.lit("done"), reason=pl.lit(None, pl.String)
    )
    beside = (*KEYS, "status", "reason", "scenario", "subject")
    rows = pl.concat([cases.select(updates.columns), updates]).select(beside)
    for table in measured:
        rows = rows.join(table, on=KEYS, how="left", maintain_order="left")
    done = pl.col("status") == "done"
    return in_order(rows.select(*beside, *(pl.when(done).then(pl.col(m)).alias(m) for m in names)), updates)


def in_order(rows: pl.DataFrame, run: pl.DataFrame, *then: str) -> pl.DataFrame:
    """Modes and methods in the order of the run's table, the clean model first in each mode."""
    places = []
    for column, first in ((pl.col("mode"), []), (method_label(), [UNEDITED])):
        names = [*first, *run.select(column).to_series().unique(maintain_order=True)]
        places.append(column.replace_strict(names, range(len(names)), return_dtype=pl.Int64))
    return rows.sort(*places, *then, maintain_order=True)


def summarise(metrics: pl.DataFrame, names: Sequence[str] = METRICS, bounded: Sequence[str] = BOUNDED) -> pl.DataFrame:
    """One row per mode, scenario and method, from `update_metrics`: the mean of every metric with a 95 % interval.

    names, bounded: of the metrics, and of those from 0 to 1; `anachron.evaluate.measures.dated_metrics` has others.

    Columns: ``mode``, ``scenario``, ``method``, ``variant``, numbers of updates ``done`` and ``failed``, and of every
    metric its mean over updates, ``*_low``, ``*_high`` and ``*_n``, the number of updates that it is the mean of; nulls
    are left out. `MORE_METRICS` are there where the table has them. Updates of one subject depend on each other
    (`subjects_of`), so all intervals are over subjects. What is bounded has `korn_graubard`, an interval that
    keeps to 0 and 1 and does not vanish at either. All others, differences, losses and amounts, have `t_mean`,
    symmetric as WikiFactDiff's table 4 prints it and null of fewer than two subjects. That of ``seconds`` is null too
    where any two updates have the same: edits that are made together share their time, so that their number says
    nothing about its spread. The clean model's ``done`` are all updates, those that a method failed on too.

    ``score`` is CounterFact's S, the `harmonic_mean` of the means of `SUCCESSES`, as published: of the summary's means,
    so it has no interval of its own, and ``score_n`` counts the updates that have all three. Raises `DataError` for a
    table without rows.
    """
    needed = ("mode", "scenario", *METHOD, "status", *names)
    refuse_missing(metrics.columns, needed, "the table of metrics", "make it with update_metrics")
    if not metrics.height:
        raise DataError("the table of metrics has 0 rows; a summary needs the metrics of at least one update")
    rows = []
    summarised = (*names, *(name for name in MORE_METRICS if name in metrics.columns))
    key = {"mode": pl.String(), "scenario": pl.String(), **METHOD}
    for values, group in metrics.group_by(list(key), maintain_order=True):
        row: dict[str, Any] = dict(zip(key, values, strict=True))
        row |= {status: int((group["status"] == status).sum()) for status in STATUSES}
        for metric in summarised:
            known = group.filter(pl.col(metric).is_not_null())
            row |= _summary(metric, known[metric], subjects_of(known), metric in bounded)
        if set(SUCCESSES) <= set(names):
            complete = group.drop_nulls(SUCCESSES).height
            row |= {SCORE: harmonic_mean([row[name] for name in SUCCESSES]), f"{SCORE}_low": None}
            row |= {f"{SCORE}_high": None, f"{SCORE}_n": complete}
        rows.append(row)
    modes = metrics["mode"].unique(maintain_order=True).to_list()
    rows.sort(key=lambda row: (modes.index(row["mode"]), SCENARIOS.index(row["scenario"])))
    counts = {name: pl.Int64() for name in rows[0] if name in STATUSES or name.endswith("_n")}
    return pl.DataFrame(rows, schema={**dict.fromkeys(rows[0], pl.Float64()), **counts, **key})


def harmonic_mean(values: Sequence[float | None]) -> float | None:
    """Of numbers from 0 on; 0 where one of them is 0, None where one is not known."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return 0.0 if min(known) == 0 else len(known) / sum(1 / value for value in known)


def _summary(metric: str, values: pl.Series, subjects: np.ndarray, bounded: bool) -> dict[str, float | int | None]:
    n = len(values)
    if metric == "seconds" and values.n_unique() < n:
        ends = nan, nan
    elif bounded:
        ends = korn_graubard(values.to_numpy(), subjects)
    else:
        ends = t_mean(values.to_numpy(), subjects)
    mean = values.mean() if n else None
    return {metric: mean, **interval_cells(metric, ends), f"{metric}_n": n}  # type: ignore[dict-item]
