"""Win rate W and robustness R (paper 002, section 3.1): per fact, and per model with intervals.

A match pits a correct context c of a fact against an incorrect one i of the same granularity; it is won
when ``logp(c) > logp(i)``, strictly. W is the share of matches won, R is 1 when all are. Over the three
granularities, W is the mean of theirs and R is 1 when all three are 1.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl

from anachron.core.dates import GRANULARITIES
from anachron.core.periods import STATUSES
from anachron.errors import DataError
from anachron.probe.statistics import RESAMPLES, bootstrap_mean, random_robustness

RUN_KEYS = ["model", "format", "prefix"]
FACT_KEYS = [*RUN_KEYS, "fact_id"]
GLOBAL = "global"
FORMATS = ("raw", "chat")
SCORE_COLUMNS = (*FACT_KEYS, "granularity", "time", "status", "alpha", "logp")

FACT_SCHEMA = {
    **dict.fromkeys(FACT_KEYS, pl.String),
    "granularity": pl.String,
    "win_rate": pl.Float64,
    "robustness": pl.Float64,
    "matches": pl.Int64,
    "ties": pl.Int64,
    "near_ties": pl.Int64,
    "win_rate_half_ties": pl.Float64,
    "random_robustness": pl.Float64,
}


def check_scores(scores: pl.DataFrame) -> pl.DataFrame:
    """A score table with its columns in their types, whatever file it came from (CSV has only text).

    Raises `DataError` naming the row for a column that is missing, a key that is empty, a status or granularity
    that is unknown, a score that is no finite number, a dated row without alpha, and a row that is there twice.
    """
    missing = [name for name in SCORE_COLUMNS if name not in scores.columns]
    if missing:
        raise DataError(f"the score table lacks {', '.join(missing)}; it needs {', '.join(SCORE_COLUMNS)}")
    if scores.height == 0:
        raise DataError("the score table has no rows")
    texts = [*FACT_KEYS, "granularity", "time", "status"]
    table = scores.with_columns(
        *(pl.col(name).cast(pl.String) for name in texts),
        *(pl.col(name).cast(pl.Float64, strict=False) for name in ("logp", "alpha")),
    )
    for name in FACT_KEYS:
        _refuse(scores, name, table[name].is_null(), "is empty; every row needs one")
    _refuse(
        scores,
        "granularity",
        ~_in(table, "granularity", GRANULARITIES),
        f"is unknown; use one of {', '.join(GRANULARITIES)}",
    )
    _refuse(scores, "format", ~_in(table, "format", FORMATS), f"is unknown; use one of {', '.join(FORMATS)}")
    _refuse(scores, "status", ~_in(table, "status", STATUSES), f"is unknown; use one of {', '.join(STATUSES)}")
    _refuse(
        scores, "logp", ~table["logp"].is_finite().fill_null(False), "is no finite number; score that statement again"
    )
    dated = table["status"] != "none"
    _refuse(
        scores,
        "alpha",
        dated & ~table["alpha"].is_finite().fill_null(False),
        "is no finite number; every dated row needs one",
    )
    twice = table.with_row_index("row", offset=1).filter(pl.struct(*FACT_KEYS, "granularity", "time").is_duplicated())
    if twice.height:
        first = twice.row(0, named=True)
        raise DataError(
            f"row {first['row']}: fact {first['fact_id']} has the {first['granularity']} {first['time']} more than "
            f"once for {first['model']}, {first['format']}, prefix {first['prefix']}; keep one row of each"
        )
    return table


def _in(table: pl.DataFrame, name: str, known: Sequence[str]) -> pl.Series:
    return table[name].is_in(list(known)).fill_null(False)


def _refuse(scores: pl.DataFrame, name: str, bad: pl.Series, rule: str) -> None:
    rows = bad.arg_true()
    if len(rows):
        more = f" ({len(rows)} rows broken)" if len(rows) > 1 else ""
        raise DataError(f"row {rows[0] + 1}: {name} {scores[name][int(rows[0])]!r} {rule}{more}")


def count_matches(correct: np.ndarray, incorrect: np.ndarray, noise: float | None) -> tuple[int, int, int, float]:
    """(matches won, exact ties, near-ties, matches) of all correct against all incorrect scores.

    A near-tie differs, but by no more than ``noise``; without a noise there are none to count (0).
    """
    rivals = np.sort(incorrect)
    below = np.searchsorted(rivals, correct, side="left")
    up_to = np.searchsorted(rivals, correct, side="right")
    ties = int((up_to - below).sum())
    near = 0
    if noise is not None:
        within = np.searchsorted(rivals, correct + noise, side="right") - np.searchsorted(rivals, correct - noise)
        near = int(within.sum()) - ties
    return int(below.sum()), ties, near, float(correct.size * incorrect.size)


def fact_metrics(scores: pl.DataFrame, *, noise: float | None = None) -> pl.DataFrame:
    """W and R of every fact, at each granularity and ``global``, from a score table.

    noise: largest difference of two scores that means nothing (nats), for ``near_ties``. By default each run's own,
        from a column ``noise`` as `anachron.probe.runs.read_runs` adds it; ``near_ties`` is null without one.

    Returns one row per model, format, prefix, fact and granularity: ``win_rate`` (0 to 1), ``robustness``
    (0 or 1), ``matches``, ``ties`` (lost by the strict rule), ``near_ties``, ``win_rate_half_ties`` and
    ``random_robustness``. Facts without a correct or without an incorrect context at a granularity have no row
    there, and no ``global`` row: see `without_matches`. Raises `DataError` for a table that is no score table.
    Source: paper 002, section 3.1.
    """
    return metrics_of_checked(with_noise(check_scores(scores), noise))


def metrics_of_checked(scores: pl.DataFrame) -> pl.DataFrame:
    """`fact_metrics` of a table that `check_scores` and `with_noise` made."""
    rows: list[tuple[object, ...]] = []
    for (*key, own), groups in _by_fact(scores):
        found = []
        for granularity in GRANULARITIES:
            correct, incorrect = groups.get(granularity, (np.empty(0), np.empty(0)))
            if correct.size and incorrect.size:
                won, ties, near, matches = count_matches(correct, incorrect, own)
                chance = random_robustness(correct.size, incorrect.size)
                found.append((won / matches, float(won == matches), int(matches), ties, near, ties / matches, chance))
                rows.append((*key, granularity, *_finish(found[-1], own)))
        if len(found) == len(GRANULARITIES):
            table = np.array(found)
            together = (
                float(table[:, 0].mean()),
                float(table[:, 1].min()),
                int(table[:, 2].sum()),
                int(table[:, 3].sum()),
                int(table[:, 4].sum()),
                float(table[:, 5].mean()),
                float(table[:, 6].prod()),
            )
            rows.append((*key, GLOBAL, *_finish(together, own)))
    return pl.DataFrame(rows, schema=FACT_SCHEMA, orient="row")


def _finish(found: tuple[float, float, int, int, int, float, float], noise: float | None) -> tuple[object, ...]:
    win_rate, robustness, matches, ties, near, tie_share, chance = found
    return win_rate, robustness, matches, ties, None if noise is None else near, win_rate + tie_share / 2, chance


def with_noise(scores: pl.DataFrame, noise: float | None) -> pl.DataFrame:
    """The table with a column ``noise``: the one given for all rows, else its own, else null."""
    if noise is None and "noise" in scores.columns:
        own = scores["noise"].cast(pl.Float64, strict=False)
        usable = own.is_finite() & (own >= 0)
        _refuse(scores, "noise", scores["noise"].is_not_null() & ~usable.fill_null(False), "is no number from 0 on")
        return scores.with_columns(own)
    return scores.with_columns(pl.lit(noise, pl.Float64).alias("noise"))


def _by_fact(
    scores: pl.DataFrame,
) -> Iterator[tuple[tuple[Any, ...], dict[str, tuple[np.ndarray, np.ndarray]]]]:
    """Per fact and run (with the run's noise), in order of appearance: granularity -> (correct, incorrect scores)."""
    grouped = (
        scores.lazy()
        .filter(pl.col("status").is_in(["correct", "incorrect"]))
        .group_by([*FACT_KEYS, "noise", "granularity"], maintain_order=True)
        .agg(
            pl.col("logp").filter(pl.col("status") == "correct").cast(pl.Float64).alias("correct"),
            pl.col("logp").filter(pl.col("status") == "incorrect").cast(pl.Float64).alias("incorrect"),
        )
        .collect()
    )
    facts: dict[tuple[Any, ...], dict[str, tuple[np.ndarray, np.ndarray]]] = {}
    for *key, granularity, correct, incorrect in grouped.iter_rows():
        facts.setdefault(tuple(key), {})[granularity] = (np.asarray(correct, float), np.asarray(incorrect, float))
    yield from facts.items()


def without_matches(scores: pl.DataFrame) -> pl.DataFrame:
    """How many facts of each run and granularity have no W and R, for want of correct or incorrect contexts.

    A fact that has no row at all at a granularity which its run has otherwise counts as having no correct context.
    """
    runs = scores.select(*RUN_KEYS, "granularity").unique(maintain_order=True)
    expected = (
        scores.select(FACT_KEYS)
        .unique(maintain_order=True)
        .join(runs, on=RUN_KEYS, nulls_equal=True, maintain_order="left_right")
    )
    found = scores.group_by([*FACT_KEYS, "granularity"]).agg(
        (pl.col("status") == "correct").any().alias("correct"),
        (pl.col("status") == "incorrect").any().alias("incorrect"),
    )
    return (
        expected.join(found, on=[*FACT_KEYS, "granularity"], how="left", maintain_order="left")
        .with_columns(pl.col("correct", "incorrect").fill_null(False))
        .group_by([*RUN_KEYS, "granularity"], maintain_order=True)
        .agg(
            (~pl.col("correct")).sum().cast(pl.Int64).alias("no_correct"),
            (pl.col("correct") & ~pl.col("incorrect")).sum().cast(pl.Int64).alias("no_incorrect"),
        )
    )


def summarise(facts: pl.DataFrame, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """Mean W and R over facts with 95 % bootstrap intervals, per run and granularity, from `fact_metrics`.

    Besides the contract's columns: ``ties`` and ``near_ties`` as shares of all matches, ``win_rate_half_ties``,
    and what a random scorer would reach: ``random_win_rate`` (0.5) and ``random_robustness``.
    Source: paper 002, figure 2. Facts are resampled, 1,000 times by default.
    """
    rows = []
    for key, group in facts.group_by([*RUN_KEYS, "granularity"], maintain_order=True):
        low, high = bootstrap_mean(group["win_rate"].to_numpy(), resamples=resamples, seed=seed)
        r_low, r_high = bootstrap_mean(group["robustness"].to_numpy(), resamples=resamples, seed=seed)
        matches, ties = int(group["matches"].sum()), int(group["ties"].sum())
        near = None if group["near_ties"].null_count() else int(group["near_ties"].sum()) / matches
        rows.append(
            {
                **dict(zip([*RUN_KEYS, "granularity"], key, strict=True)),
                "facts": group.height,
                "win_rate": group["win_rate"].mean(),
                "win_rate_low": low,
                "win_rate_high": high,
                "robustness": group["robustness"].mean(),
                "robustness_low": r_low,
                "robustness_high": r_high,
                "ties": ties / matches,
                "near_ties": near,
                "win_rate_half_ties": group["win_rate_half_ties"].mean(),
                "random_win_rate": 0.5,
                "random_robustness": group["random_robustness"].mean(),
            }
        )
    if not rows:
        raise DataError("no fact has both a correct and an incorrect context, so there is nothing to measure")
    return pl.DataFrame(rows, infer_schema_length=None)
