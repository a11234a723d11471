"""A verdict in one word for each fact that was asked for answers, by the names of `anachron.probe.check.verdicts`.

The first that holds, of a fact with a W:

``robust``
    every match that the fact has was read, and won in both orders; at most 1 in 100 decoys does as well.
``known``
    W is at least 0.9, shaky is true of it, and at most 1 in 100 decoys does as well.
``shaky``
    the interval of W lies above one half, and so would W if every answer that could not be read had been lost; so does
    its weaker side; and at most 4 in 100 decoys do as well (`anachron.probe.ask.decoys`).
``wrong period``
    of the days of the period that the model gives and of the true one less than half are both, and W would be at least
    0.9 were the given one true; at most 1 in 100 decoys is tied as firmly to the period that is given of it.
``unknown``
    none of these. Without decoys nothing is known.
"""

import polars as pl

from anachron.core.dates import DAYS_A_YEAR
from anachron.probe.check.levels import CHANCE, KNOWN, OVERLAP, SURE, WRONG_PERIOD

ADDED = ("verdict", "start_error_years", "end_error_years")


def answer_verdicts(facts: pl.DataFrame) -> pl.DataFrame:
    """The table of `anachron.probe.ask.tables.facts_table` with the columns `ADDED`; no verdict where there is no W."""
    above = pl.min_horizontal("win_rate_low", "win_rate_lost", "weaker_side") > 0.5
    sure, likely = (pl.col("chance") <= level for level in (SURE, CHANCE))
    elsewhere = (pl.col("overlap") < OVERLAP) & (pl.col("believed_win_rate") >= KNOWN)
    verdict = (
        pl.when(pl.col("win_rate").is_null()).then(None)
        .when(sure & (pl.col("robustness") == 1)).then(pl.lit("robust"))
        .when(sure & above & (pl.col("win_rate") >= KNOWN)).then(pl.lit("known"))
        .when(likely & above).then(pl.lit("shaky"))
        .when(elsewhere & (pl.col("believed_chance") <= SURE)).then(pl.lit(WRONG_PERIOD))
        .otherwise(pl.lit("unknown"))
    )  # fmt: skip
    return facts.with_columns(
        verdict.alias("verdict"),
        *((pl.col(f"{side}_error_days") / DAYS_A_YEAR).alias(f"{side}_error_years") for side in ("start", "end")),
    )
