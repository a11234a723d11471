"""How likely the answer is, by the date's relative distance from the period (paper 002, figures 3 and 15)."""

import numpy as np
import polars as pl

from anachron.probe.analyses.transfer import POOLED
from anachron.probe.metrics import RUN_KEYS
from anachron.probe.statistics import RESAMPLES, bootstrap_ratio

EDGES = (-5.0, -3.0, -1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0, 3.0, 5.0)
COARSE = (
    "<= -5", "(-5, -3]", "(-3, -1]", "(-1, -0.5)", "-0.5", "(-0.5, -0.25]", "(-0.25, 0]", "(0, 0.25]", "(0.25, 0.5)",
    "0.5", "(0.5, 1]", "(1, 3]", "(3, 5]", "> 5",
)  # fmt: skip
FINE = 0.1
BIN_KEYS = ["granularity", "status", "bin", "alpha"]


def coarse_bin(alpha: pl.Expr) -> pl.Expr:
    """Index into `COARSE`. The bins are closed on the right, and -0.5 and 0.5 (transitional years) are their own."""
    below = sum((alpha > edge).cast(pl.Int32) for edge in EDGES)  # how many edges lie below: 0 to 11
    return (
        pl.when(alpha == -0.5).then(4).when(alpha == 0.5).then(9)
        .when(below <= 3).then(below).when(below <= 7).then(below + 1).otherwise(below + 2)
    )  # fmt: skip


def alpha_sums(run: pl.DataFrame) -> pl.DataFrame:
    """Totals of one run by fact and bin, the coarse bins (years, by status) and the fine ones (all granularities).

    Transitional contexts count at -0.5 or 0.5, whichever is nearer. ``lift`` is the score minus that of the statement
    without a date (the prior) of the same fact and granularity, where there is one.
    Returns RUN_KEYS, fact_id, granularity, status (null in fine bins), bin (its name), alpha (where it is drawn),
    ``n, logp, with_prior, lift`` as totals.
    """
    priors = run.filter(pl.col("status") == "none").select("fact_id", "granularity", pl.col("logp").alias("prior"))
    dated = (
        run.filter(pl.col("status").is_in(["correct", "incorrect", "transitional"]))
        .join(priors, on=["fact_id", "granularity"], how="left", maintain_order="left")
        .with_columns(
            pl.when(pl.col("status") == "transitional")
            .then(pl.when(pl.col("alpha") >= 0).then(0.5).otherwise(-0.5))
            .otherwise("alpha")
            .alias("alpha"),
            (pl.col("logp") - pl.col("prior")).alias("lift"),
        )
    )
    coarse = dated.filter(pl.col("granularity") == "year").with_columns(coarse_bin(pl.col("alpha")).alias("index"))
    middle = (-5.5, -4, -2, -0.75, -0.5, -0.375, -0.125, 0.125, 0.375, 0.5, 0.75, 2, 4, 5.5)
    coarse = coarse.with_columns(
        pl.col("index").replace_strict(dict(enumerate(COARSE)), return_dtype=pl.String).alias("bin"),
        pl.col("index").replace_strict(dict(enumerate(middle)), return_dtype=pl.Float64).alias("alpha"),
    )
    upper = (pl.col("alpha") / FINE).round(6).ceil().cast(pl.Int64)
    fine = (
        dated.filter(pl.col("alpha").is_between(-5, 5, closed="right"))
        .with_columns(upper.alias("index"))
        .with_columns(
            pl.format("({}, {}]", ((pl.col("index") - 1) * FINE).round(1), (pl.col("index") * FINE).round(1)).alias(
                "bin"
            ),
            ((pl.col("index") - 0.5) * FINE).round(2).alias("alpha"),
            pl.lit(None, pl.String).alias("status"),
        )
    )
    keys = [*RUN_KEYS, "fact_id", *BIN_KEYS]
    totals = (
        pl.len().cast(pl.Float64).alias("n"),
        pl.col("logp").sum(),
        pl.col("lift").is_not_null().sum().cast(pl.Float64).alias("with_prior"),
        pl.col("lift").sum(),
    )
    return pl.concat([table.group_by(keys, maintain_order=True).agg(*totals) for table in (coarse, fine)])


def alpha_profile(sums: pl.DataFrame, *, fine: bool = False, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """Mean log-probability (nats) of the answer in each bin of alpha, per run and pooled over all models.

    sums: from `alpha_sums`. The mean is over statements; the interval resamples facts. ``lift`` is the mean of the
    score minus the fact's prior, null where there is no prior. Rows: RUN_KEYS, granularity, status, bin, alpha,
    statements, facts, logp, low, high, lift. Source: paper 002, figure 3 (and 15 for the fine bins).
    """
    chosen = sums.filter(pl.col("status").is_null() if fine else pl.col("status").is_not_null())
    pooled = (
        chosen.with_columns(pl.lit(POOLED).alias("model"))
        .group_by([*RUN_KEYS, "fact_id", *BIN_KEYS], maintain_order=True)
        .agg(pl.col("n", "logp", "with_prior", "lift").sum())
    )
    tables = []
    for source in (chosen, pooled):
        for _, run in source.group_by(RUN_KEYS, maintain_order=True):
            tables.append(_profile(run, resamples, seed))
    return pl.concat(tables)


def _profile(run: pl.DataFrame, resamples: int, seed: int) -> pl.DataFrame:
    bins = (
        run.group_by([*RUN_KEYS, *BIN_KEYS], maintain_order=True)
        .agg(
            pl.col("n").sum().cast(pl.Int64).alias("statements"),
            pl.len().alias("facts"),
            (pl.col("logp").sum() / pl.col("n").sum()),
            pl.when(pl.col("with_prior").sum() > 0).then(pl.col("lift").sum() / pl.col("with_prior").sum()),
        )
        .sort("granularity", "alpha", "status", maintain_order=True)
    )
    place = bins.select(BIN_KEYS).with_row_index("column")
    cells = run.join(place, on=BIN_KEYS, nulls_equal=True).with_columns(
        pl.col("fact_id").rank("dense").cast(pl.Int64).alias("row") - 1
    )
    rows, columns = cells["row"].to_numpy(), cells["column"].to_numpy()
    sums, counts = (np.zeros((int(rows.max()) + 1, bins.height)) for _ in range(2))
    sums[rows, columns] = cells["logp"].to_numpy()
    counts[rows, columns] = cells["n"].to_numpy()
    low, high = bootstrap_ratio(sums, counts, resamples=resamples, seed=seed)
    with_ends = bins.with_columns(pl.Series("low", low), pl.Series("high", high))
    return with_ends.select(*RUN_KEYS, *BIN_KEYS, "statements", "facts", "logp", "low", "high", "lift")
