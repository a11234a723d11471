"""Whether granularities agree on a date: local robustness of aligned contexts (paper 002, appendix C.1, figure 8)."""

from math import isnan

import numpy as np
import polars as pl

from anachron.core.dates import GRANULARITIES
from anachron.metrics import FACT_KEYS, RUN_KEYS, with_weakest
from anachron.statistics import RESAMPLES, bootstrap_ratio, matthews

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
            pl.col("time").str.extract(r"^(-?\d+)").alias("of_year"),
            (pl.col("logp") < pl.col("weakest")).alias("held"),
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


def in_bins(table: pl.DataFrame) -> pl.DataFrame:
    """The contexts whose alpha lies in ]-5, 5], with ``upper``: the upper end of their bin in steps of 0.5."""
    upper = (pl.col("alpha") / WIDTH).round(6).ceil().cast(pl.Int64).alias("upper")
    return table.with_columns(upper).filter(pl.col("upper").is_between(-9, 10))


def agreement(table: pl.DataFrame, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """How often two granularities agree on an incorrect context, by the year's alpha in bins ]s, s + 0.5] of -5 to 5.

    table: from `aligned`, the chosen models together. Rows per format, prefix and bin: ``alpha_low, alpha_high, facts,
    contexts``; ``accuracy`` is the mean over (model, fact, pair of granularities) of the share of contexts judged
    alike (the paper's), with an interval that resamples facts; ``accuracy_pooled`` is the share of all pairs of
    judgements; ``matthews`` the mean Matthews correlation of the three pairs over all contexts, null where a
    granularity never varies.
    """
    binned = in_bins(table)
    rows = []
    for (form, prefix), group in binned.group_by("format", "prefix", maintain_order=True):
        for (upper,), cell in group.group_by("upper", maintain_order=True):
            alike = [(pl.col(a) == pl.col(b)).mean().alias(f"{a}-{b}") for a, b in PAIRS]
            own = cell.group_by([*RUN_KEYS, "fact_id"], maintain_order=True).agg(*alike)
            shares = own.select(pl.mean_horizontal(f"{a}-{b}" for a, b in PAIRS).alias("share"), "fact_id")
            by_fact = shares.group_by("fact_id", maintain_order=True).agg(pl.col("share").sum(), pl.len().alias("n"))
            low, high = bootstrap_ratio(
                by_fact["share"].to_numpy()[:, None], by_fact["n"].to_numpy()[:, None], resamples=resamples, seed=seed
            )
            pooled = cell.select((pl.col(a) == pl.col(b)).mean().alias(f"{a}-{b}") for a, b in PAIRS).row(0)
            rows.append(
                {
                    "format": form,
                    "prefix": prefix,
                    "alpha_low": (upper - 1) * WIDTH,
                    "alpha_high": upper * WIDTH,
                    "facts": cell.select([*RUN_KEYS, "fact_id"]).n_unique(),
                    "contexts": cell.height,
                    "accuracy": shares["share"].mean(),
                    "low": float(low[0]),
                    "high": float(high[0]),
                    "accuracy_pooled": float(np.mean(pooled)),
                    "matthews": _mean_matthews(cell),
                }
            )
    return pl.DataFrame(rows, infer_schema_length=None).sort("format", "prefix", "alpha_low")


def _mean_matthews(cell: pl.DataFrame) -> float | None:
    found = []
    for a, b in PAIRS:
        x, y = cell[a].to_numpy(), cell[b].to_numpy()
        found.append(matthews(int((x & y).sum()), int((x & ~y).sum()), int((~x & y).sum()), int((~x & ~y).sum())))
    return None if any(map(isnan, found)) else float(np.mean(found))
