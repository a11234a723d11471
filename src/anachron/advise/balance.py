"""What an update gained and what it broke, in four parts from 0 to 1, and their weighted mean: the balance.

``present``  is the new fact there: the mean of efficacy success and generalization success (p(new) > p(old), as asked
             and in other words), and where texts were generated of the shares that begin with the new object
``past``     is the old fact kept on the dates before the change: ``past_kept_global`` of
             `anachron.evaluate.measures.dated_metrics`, where dates were asked about
``others``   the share of the facts beside the update whose true object keeps at least half of its probability; of an
             edit of several, without those that another one is about, which is to change them
``fluency``  that of free text against the unedited model's, at most 1

A part that was not measured of an update is left out of that update's mean.
"""

from collections.abc import Mapping

import polars as pl

from anachron.core.errors import ConfigError
from anachron.evaluate.measures.dated_metrics import dated_metrics
from anachron.evaluate.metrics import update_metrics
from anachron.evaluate.results import KEYS, UNEDITED, method_label

PARTS = ("present", "past", "others", "fluency")
WEIGHTS: Mapping[str, float] = {"present": 1.0, "past": 1.0, "others": 1.0, "fluency": 0.5}
BALANCE = "balance"
OF_PAST = ("past_win_rate", "past_robustness")  # W and R of the old fact: beside the balance, not in it
MEASURED = (*PARTS, *OF_PAST)
HALF = 0.5  # of its probability, which a fact beside the update must keep
OF_PRESENT = (
    "efficacy_success", "generalization_success", "generated_new", "generalization_generated_new",
    "efficacy_accuracy", "generalization_accuracy",
)  # fmt: skip


def checked_weights(given: Mapping[str, float]) -> dict[str, float]:
    """`WEIGHTS` with those given instead. Raises `ConfigError` for an unknown part, a negative or infinite weight, and
    weights that are all 0."""
    if unknown := [name for name in given if name not in WEIGHTS]:
        raise ConfigError(f"weight of {unknown[0]!r}: weights are of {', '.join(WEIGHTS)}")
    weights = {**WEIGHTS, **given}
    for name, weight in weights.items():
        if not 0 <= weight < float("inf"):
            raise ConfigError(f"weight of {name} is {weight}; give a number from 0 on")
    if not any(weights.values()):
        raise ConfigError("all weights are 0, so nothing would be judged; give one above 0")
    return weights


def balances(tables: Mapping[str, pl.DataFrame], weights: Mapping[str, float] = WEIGHTS) -> pl.DataFrame:
    """One row a way and update: ``way`` (the method's label, `UNEDITED` first), ``case_id``, ``subject``, ``status``,
    ``reason``, ``seconds``, each of `PARTS` and `OF_PAST` and `BALANCE`, all from 0 to 1.

    tables: of a run of one mode (`anachron.evaluate.stages.Evaluation.tables`), neighbours as far as they count. A
    failed update has the parts of the unedited model, which is what it leaves; so every way has every update, and a way
    gains nothing by failing.
    """
    metrics = update_metrics(
        *(tables[name] for name in ("targets", "neighbours", "updates")),
        *(tables.get(n) for n in ("objects", "generations")),
    )
    rows = metrics.join(_others(tables["neighbours"]), on=KEYS, how="left", maintain_order="left")
    if tables.get("dated") is not None and tables["dated"].height:
        names = ("past_kept_global", "win_rate_global", "robustness_global")
        past = dated_metrics(tables["dated"], tables["updates"]).select(*KEYS, *names)
        past = past.rename(dict(zip(names, ("past", *OF_PAST), strict=True)))
        rows = rows.join(past, on=KEYS, how="left", maintain_order="left")
    else:
        rows = rows.with_columns(pl.lit(None, pl.Float64).alias(name) for name in ("past", *OF_PAST))
    clean = rows.filter(pl.col("method") == UNEDITED)
    fluent = clean.select("mode", "case_id", unedited_fluency="fluency")
    rows = rows.join(fluent, on=["mode", "case_id"], how="left", maintain_order="left")
    unedited = pl.col("method") == UNEDITED
    known = [pl.col(name) for name in OF_PRESENT if name in rows.columns]
    rows = rows.with_columns(
        method_label().alias("way"),
        present=pl.mean_horizontal(known),
        others=pl.when(unedited & pl.col("case_id").is_in(tables["neighbours"]["case_id"].implode()))
        .then(1.0)
        .otherwise("others"),
        fluency=pl.when(pl.col("unedited_fluency") > 0).then(
            (pl.col("fluency") / pl.col("unedited_fluency")).clip(upper_bound=1.0)
        ),
    )
    parts = rows.select("way", "case_id", "subject", "status", "reason", "seconds", *MEASURED)
    nothing = parts.filter(pl.col("way") == UNEDITED).select(
        "case_id", *(pl.col(p).alias(f"{p} of nothing") for p in MEASURED)
    )
    failed = pl.col("status") == "failed"
    parts = parts.join(nothing, on="case_id", how="left", maintain_order="left").select(
        *parts.columns[:6],
        *(pl.when(failed).then(f"{part} of nothing").otherwise(part).alias(part) for part in MEASURED),
    )
    return with_balance(parts, weights)


def with_balance(parts: pl.DataFrame, weights: Mapping[str, float] = WEIGHTS) -> pl.DataFrame:
    """With the mean of `PARTS` by their weights; null where no part with a weight is known."""
    weighed = [name for name in PARTS if weights[name] > 0]
    total = pl.sum_horizontal(pl.col(name) * weights[name] for name in weighed)
    known = pl.sum_horizontal(pl.col(name).is_not_null().cast(pl.Float64) * weights[name] for name in weighed)
    return parts.with_columns(pl.when(known > 0).then(total / known).alias(BALANCE))


def _others(neighbours: pl.DataFrame) -> pl.DataFrame:
    kept = (pl.col("after") >= HALF * pl.col("before")).cast(pl.Float64)
    return neighbours.drop_nulls(["before", "after"]).group_by(KEYS, maintain_order=True).agg(others=kept.mean())
