"""Errors on easy contexts, far from the period (paper 002, table in figure 4 and figure 7)."""

from collections.abc import Sequence
from math import nan

import numpy as np
import polars as pl

from anachron.metrics import FACT_KEYS, RUN_KEYS
from anachron.probe.analyses.transfer import as_pooled
from anachron.statistics import RESAMPLES, bootstrap_ratio, wilson

THRESHOLDS = (0.90, 0.95, 0.97, 0.99)
DISTANCES = (1.0, 2.0, 3.0, 4.0)
FAR = DISTANCES[0]  # periods from the middle of the fact's own


def lost_matches(scores: pl.DataFrame, facts: pl.DataFrame) -> pl.DataFrame:
    """Year contexts that won against a correct one, with the number of matches each took from its fact.

    One row per incorrect year context and run with ``lost`` > 0: the fact keys, ``time, alpha, logp, lost, win_rate``.
    """
    years = scores.filter(pl.col("granularity") == "year")
    correct = years.filter(pl.col("status") == "correct").select(*FACT_KEYS, pl.col("logp").alias("rival"))
    known = facts.filter(pl.col("granularity") == "year").select(*FACT_KEYS, "win_rate")
    return (
        years.filter(pl.col("status") == "incorrect")
        .select(*FACT_KEYS, "time", "alpha", "logp")
        .join(correct, on=FACT_KEYS, maintain_order="left")
        .group_by([*FACT_KEYS, "time", "alpha", "logp"], maintain_order=True)
        .agg((pl.col("logp") >= pl.col("rival")).sum().cast(pl.Int64).alias("lost"))
        .filter(pl.col("lost") > 0)
        .join(known, on=FACT_KEYS, maintain_order="left")
    )


def worst_errors(lost: pl.DataFrame, count: int) -> pl.DataFrame:
    """The most absurd errors on facts that a run seems to know, at most one a fact and run: FACT_KEYS, rank, win_rate.

    lost: from `lost_matches`. Of facts with 0.9 <= W < 1 at year granularity, those with the farthest lost match
    (abs(alpha) >= 1), the farthest first, ``rank`` from 1.
    """
    return (
        lost.filter((pl.col("win_rate") >= THRESHOLDS[0]) & (pl.col("win_rate") < 1) & (pl.col("alpha").abs() >= FAR))
        .with_columns(pl.col("alpha").abs().alias("distance"))
        .sort(["distance", *FACT_KEYS], descending=[True, *[False] * len(FACT_KEYS)])
        .unique(FACT_KEYS, keep="first", maintain_order=True)
        .head(count)
        .with_row_index("rank", offset=1)
        .select(*FACT_KEYS, "rank", "win_rate")
    )


def far_errors(
    lost: pl.DataFrame,
    facts: pl.DataFrame,
    pool: pl.DataFrame | None = None,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> pl.DataFrame:
    """Share of lost year matches whose incorrect context lies at least 1, 2, 3 or 4 periods away.

    lost: from `lost_matches`. facts: from `fact_metrics`, says which runs there are. pool: ``model, format, prefix`` of
    the runs that are pooled; by default all.

    Only facts that seem known: threshold <= W < 1 at year granularity. ``average`` says how the share is
    taken: ``facts`` is the mean over facts (over model and fact where pooled) of each one's own share, with a bootstrap
    interval that resamples facts (the papers' default); ``matches`` is the share of all lost matches together, with
    Wilson's interval. ``facts`` counts the facts (pairs of model and fact where pooled). Returns ``model, format,
    prefix, threshold, alpha, average, facts, share, low, high``; shares are null where no fact qualifies.
    """
    runs = facts.select(RUN_KEYS).unique(maintain_order=True)
    chosen = runs if pool is None else runs.join(pool, on=RUN_KEYS, how="semi", maintain_order="left")
    far = [pl.col("lost").filter(pl.col("alpha").abs() >= d).sum().alias(f"far {d}") for d in DISTANCES]
    own = lost.group_by(FACT_KEYS, maintain_order=True).agg(
        pl.col("lost").sum().alias("all"), pl.col("win_rate").first(), *far
    )
    pooled = as_pooled(own.join(chosen, on=RUN_KEYS, how="semi", maintain_order="left"))
    together = as_pooled(chosen).unique(maintain_order=True)
    rows = []
    for key, all_shares in [*((k, own) for k in runs.iter_rows()), *((k, pooled) for k in together.iter_rows())]:
        shares = all_shares.filter(pl.all_horizontal(pl.col(k) == v for k, v in zip(RUN_KEYS, key, strict=True)))
        for threshold in THRESHOLDS:
            near = shares.filter((pl.col("win_rate") >= threshold) & (pl.col("win_rate") < 1))
            ends = _intervals(near, resamples, seed)
            totals = near.select(
                pl.col("all").sum(),
                *(pl.col(f"far {d}").sum() for d in DISTANCES),
                *((pl.col(f"far {d}") / pl.col("all")).mean().alias(f"share {d}") for d in DISTANCES),
            ).row(0, named=True)
            for number, distance in enumerate(DISTANCES):
                base = {**dict(zip(RUN_KEYS, key, strict=True)), "threshold": threshold, "alpha": distance}
                rows += _both_averages(base, near.height, totals, distance, (ends[0][number], ends[1][number]))
    return pl.DataFrame(rows, infer_schema_length=None)


def _intervals(near: pl.DataFrame, resamples: int, seed: int) -> tuple[Sequence[float], Sequence[float]]:
    """Bootstrap intervals of the mean share at each distance; all pairs of a drawn fact are drawn with it."""
    if not near.height:
        return (nan,) * len(DISTANCES), (nan,) * len(DISTANCES)
    by_fact = near.group_by("fact_id", maintain_order=True).agg(
        *((pl.col(f"far {d}") / pl.col("all")).sum() for d in DISTANCES), pl.len().alias("n")
    )
    sums = by_fact.select(f"far {d}" for d in DISTANCES).to_numpy()
    counts = np.repeat(by_fact["n"].to_numpy()[:, None], len(DISTANCES), axis=1)
    low, high = bootstrap_ratio(sums, counts, resamples=resamples, seed=seed)
    return list(map(float, low)), list(map(float, high))


def _both_averages(
    base: dict[str, object], facts: int, totals: dict[str, float], distance: float, ends: tuple[float, float]
) -> list[dict[str, object]]:
    """totals: of all facts, matches lost and those of them at the distance, and the mean of each fact's share."""
    if not facts:
        nothing = {"facts": 0, "share": None, "low": None, "high": None}
        return [{**base, "average": "facts", **nothing}, {**base, "average": "matches", **nothing}]
    share, far, lost = totals[f"share {distance}"], int(totals[f"far {distance}"]), int(totals["all"])
    low, high = wilson(far, lost, correction=False)
    return [
        {**base, "average": "facts", "facts": facts, "share": share, "low": ends[0], "high": ends[1]},
        {**base, "average": "matches", "facts": facts, "share": far / lost, "low": low, "high": high},
    ]
