"""Transfer of knowledge between granularities (paper 002, figure 6 and 9)."""

import polars as pl

from anachron.core.dates import GRANULARITIES
from anachron.metrics import FACT_KEYS, POOLED, RUN_KEYS
from anachron.statistics import wilson


def transfer(facts: pl.DataFrame, pool: pl.DataFrame | None = None) -> pl.DataFrame:
    """P(known at a | known at b) for the three granularities, per model and pooled over the models of ``pool``.

    pool: ``model, format, prefix`` of the runs that are pooled; by default all.

    A fact is known at a granularity when its robustness there is 1. Returns ``model, format, prefix, a, b,
    known_both, known_b, rate, low, high``; ``rate`` is null where nothing is known at b. The interval is
    Wilson's with continuity correction. Facts without matches at a or b are left out of that pair.
    """
    wide = (
        facts.filter(pl.col("granularity").is_in(list(GRANULARITIES)))
        .pivot("granularity", index=FACT_KEYS, values="robustness", maintain_order=True)
        .with_columns([pl.lit(None, pl.Float64).alias(g) for g in GRANULARITIES if g not in facts["granularity"]])
    )
    chosen = wide if pool is None else wide.join(pool, on=RUN_KEYS, how="semi", maintain_order="left")
    pooled = as_pooled(chosen)
    rows = []
    for key, group in pl.concat([wide, pooled]).group_by(RUN_KEYS, maintain_order=True):
        for b in GRANULARITIES:
            for a in GRANULARITIES:
                both = group.filter(pl.col(a).is_not_null() & (pl.col(b) == 1))
                known_b, known_both = both.height, int(both[a].sum())
                low, high = wilson(known_both, known_b, correction=True)
                rows.append(
                    {
                        **dict(zip(RUN_KEYS, key, strict=True)),
                        "a": a,
                        "b": b,
                        "known_both": known_both,
                        "known_b": known_b,
                        "rate": known_both / known_b if known_b else None,
                        "low": low if known_b else None,
                        "high": high if known_b else None,
                    }
                )
    return pl.DataFrame(rows, infer_schema_length=None)


def as_pooled(table: pl.DataFrame) -> pl.DataFrame:
    """The same rows under the one name of all models together."""
    return table.with_columns(pl.lit(POOLED).alias("model"))


def mean_transfer(table: pl.DataFrame) -> pl.DataFrame:
    """Mean rate off the diagonal of each model's 3 x 3 transfer (paper 002, figure 6 and 10).

    table: from `transfer`. Columns ``model, format, prefix, rate`` (null where any of the six rates is) and
    ``lowest, highest`` of the six.
    """
    off = table.filter(pl.col("a") != pl.col("b"))
    complete = pl.col("rate").null_count() == 0
    return off.group_by(RUN_KEYS, maintain_order=True).agg(
        pl.when(complete).then(pl.col("rate").mean()).alias("rate"),
        pl.col("rate").min().alias("lowest"),
        pl.col("rate").max().alias("highest"),
    )
