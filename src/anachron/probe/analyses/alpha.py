"""How likely the answer is, by the date's relative distance from the period (paper 002, figures 3 and 15)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from anachron.core.dates import GRANULARITIES
from anachron.metrics import POOLED, RUN_KEYS
from anachron.statistics import RESAMPLES, bootstrap_ratio

EDGES = (-5.0, -3.0, -1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0, 3.0, 5.0)
COARSE = (
    "<= -5", "(-5, -3]", "(-3, -1]", "(-1, -0.5)", "-0.5", "(-0.5, -0.25]", "(-0.25, 0]", "(0, 0.25]", "(0.25, 0.5)",
    "0.5", "(0.5, 1]", "(1, 3]", "(3, 5]", "> 5",
)  # fmt: skip
MIDDLES = (-5.5, -4.0, -2.0, -0.75, -0.5, -0.375, -0.125, 0.125, 0.375, 0.5, 0.75, 2.0, 4.0, 5.5)
STATUSES = ("correct", "incorrect", "transitional")
FINE_BINS = 100  # of a tenth each, from -5 to 5


def coarse_bin(alpha: pl.Expr) -> pl.Expr:
    """Index into `COARSE`. The bins are closed on the right, and -0.5 and 0.5 (transitional years) are their own."""
    below = sum((alpha > edge).cast(pl.Int32) for edge in EDGES)  # how many edges lie below: 0 to 11
    return (
        pl.when(alpha == -0.5).then(4).when(alpha == 0.5).then(9)
        .when(below <= 3).then(below).when(below <= 7).then(below + 1).otherwise(below + 2)
    )  # fmt: skip


@dataclass
class Sums:
    """Totals by fact and column (a bin, and a status or granularity): arrays of shape (facts, columns)."""

    logp: np.ndarray
    statements: np.ndarray
    lift: np.ndarray
    with_prior: np.ndarray

    def add(self, other: "Sums") -> None:
        for name in ("logp", "statements", "lift", "with_prior"):
            getattr(self, name).__iadd__(getattr(other, name))


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
        (pl.col("row") * columns + kind * bins + within).alias("cell"), "logp",
        lift.fill_null(0.0).alias("lift"), lift.is_not_null().cast(pl.Float64).alias("with_prior"),
    )  # fmt: skip
    where, shape = cells["cell"].to_numpy(), (order.height, columns)

    def total(weights: np.ndarray | None) -> np.ndarray:
        return np.bincount(where, weights, order.height * columns).reshape(shape).astype(float)

    logp, lifts, priors_there = (cells[name].to_numpy() for name in ("logp", "lift", "with_prior"))
    return Sums(total(logp), total(None), total(lifts), total(priors_there))


def alpha_profile(
    runs: Sequence[pl.DataFrame], *, fine: bool = False, resamples: int = RESAMPLES, seed: int = 0
) -> pl.DataFrame:
    """Mean log-probability (nats) of the answer in each bin of alpha, per run and pooled over all models.

    Coarse bins: year contexts, by status. Fine ones: a tenth wide, for each granularity. Transitional contexts count at
    -0.5 or 0.5, whichever is nearer. The mean is over statements; the interval resamples facts. ``lift`` is the mean of
    the score minus that of the fact's statement without a date (its prior), null where there is none. Rows: RUN_KEYS,
    granularity, status (null in fine bins), bin, alpha, statements, facts, logp, low, high, lift. Source: paper 002,
    figure 3 (15 for the fine bins).
    """
    facts = pl.concat([run.select("fact_id").unique() for run in runs]).unique()
    order = facts.sort("fact_id").with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias("row"))
    columns = columns_of(fine)
    pooled: dict[tuple[str, ...], Sums] = {}
    tables = []
    for run in runs:
        key = tuple(str(run[name][0]) for name in RUN_KEYS)
        sums = alpha_sums(run, order, fine=fine)
        tables.append(_profile(key, columns, sums, resamples, seed))
        if (POOLED, *key[1:]) in pooled:
            pooled[(POOLED, *key[1:])].add(sums)
        else:
            pooled[(POOLED, *key[1:])] = sums
    tables += [_profile(key, columns, sums, resamples, seed) for key, sums in pooled.items()]
    return pl.concat(tables)


def _profile(key: tuple[str, ...], columns: pl.DataFrame, sums: Sums, resamples: int, seed: int) -> pl.DataFrame:
    some = np.flatnonzero(sums.statements.sum(axis=0))
    asked = sums.statements.sum(axis=1) > 0
    logp, statements = sums.logp[asked][:, some], sums.statements[asked][:, some]
    low, high = bootstrap_ratio(logp, statements, resamples=resamples, seed=seed)
    priors = sums.with_prior[:, some].sum(axis=0)
    lift = sums.lift[:, some].sum(axis=0) / np.where(priors > 0, priors, np.nan)
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
