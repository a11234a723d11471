"""Errors on easy contexts, far from the period (paper 002, table in figure 4 and figure 7)."""

import polars as pl

from anachron.probe.analyses.transfer import POOLED
from anachron.probe.metrics import FACT_KEYS, RUN_KEYS
from anachron.probe.statistics import RESAMPLES, bootstrap_mean, wilson

THRESHOLDS = (0.90, 0.95, 0.97, 0.99)
DISTANCES = (1.0, 2.0, 3.0, 4.0)


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


def far_errors(scores: pl.DataFrame, facts: pl.DataFrame, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """Share of lost year matches whose incorrect context lies at least 1, 2, 3 or 4 periods away.

    Only facts that seem known: threshold <= W < 1 at year granularity. ``average`` says how the share is
    taken: ``facts`` is the mean over facts of each fact's own share, with a bootstrap interval (the papers'
    default); ``matches`` is the share of all lost matches together, with Wilson's interval. ``facts`` counts
    the facts. Returns ``model, format, prefix, threshold, alpha, average, facts, share, low, high``;
    shares are null where no fact qualifies.
    """
    lost = lost_matches(scores, facts)
    pooled = lost.with_columns(pl.lit(POOLED).alias("model"))
    runs = facts.select(RUN_KEYS).unique(maintain_order=True)
    runs = pl.concat([runs, runs.with_columns(pl.lit(POOLED).alias("model")).unique(maintain_order=True)])
    both = pl.concat([lost.with_columns(pl.col("model").alias("of")), pooled.with_columns(lost["model"].alias("of"))])
    rows = []
    for key in runs.iter_rows():
        run = both.filter(pl.all_horizontal(pl.col(k) == v for k, v in zip(RUN_KEYS, key, strict=True)))
        for threshold in THRESHOLDS:
            near = run.filter((pl.col("win_rate") >= threshold) & (pl.col("win_rate") < 1))
            for distance in DISTANCES:
                shares = (
                    near.group_by(["of", "fact_id"], maintain_order=True)
                    .agg(
                        pl.col("lost").filter(pl.col("alpha").abs() >= distance).sum().alias("far"),
                        pl.col("lost").sum().alias("all"),
                    )
                    .with_columns((pl.col("far") / pl.col("all")).alias("share"))
                )
                base = {**dict(zip(RUN_KEYS, key, strict=True)), "threshold": threshold, "alpha": distance}
                rows += _both_averages(base, shares, resamples, seed)
    return pl.DataFrame(rows, infer_schema_length=None)


def _both_averages(base: dict[str, object], shares: pl.DataFrame, resamples: int, seed: int) -> list[dict[str, object]]:
    facts = shares.height
    if not facts:
        nothing = {"facts": 0, "share": None, "low": None, "high": None}
        return [{**base, "average": "facts", **nothing}, {**base, "average": "matches", **nothing}]
    low, high = bootstrap_mean(shares["share"].to_numpy(), resamples=resamples, seed=seed)
    far, lost = int(shares["far"].sum()), int(shares["all"].sum())
    p_low, p_high = wilson(far, lost, correction=False)
    return [
        {**base, "average": "facts", "facts": facts, "share": shares["share"].mean(), "low": low, "high": high},
        {**base, "average": "matches", "facts": facts, "share": far / lost, "low": p_low, "high": p_high},
    ]
