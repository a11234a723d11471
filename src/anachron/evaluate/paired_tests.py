"""Edited models against the unedited one, update by update: is a difference of means more than chance?"""

from collections.abc import Sequence
from typing import Any

import polars as pl

from anachron.analysis.metrics import GLOBAL
from anachron.analysis.statistics import korn_graubard_difference, mcnemar, sign_flips
from anachron.evaluate.metrics import SHARES, SUCCESSES
from anachron.evaluate.results import METHOD, UNEDITED, subjects_of

OF_EDITS = SUCCESSES
OF_DATED = tuple(f"{name}_{GLOBAL}" for name in ("present_updated", "past_kept", "both_right"))
SIGN_FLIPS, MCNEMAR = "sign flips", "exact McNemar"
TESTS: dict[str, Any] = {
    "mode": pl.String(), "scenario": pl.String(), **METHOD, "metric": pl.String(), "updates": pl.Int64(),
    **dict.fromkeys(["unedited", "edited", "difference", "low", "high", "p"], pl.Float64()), "test": pl.String(),
}  # fmt: skip


def paired_tests(metrics: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Each method against the unedited model: one row (`TESTS`) per mode, scenario, method and metric.

    metrics: a row an update, of `anachron.evaluate.metrics.update_metrics` or
    `anachron.evaluate.measures.dated_metrics.dated_metrics`, with the unedited model's. names: of the metrics to be
    tested.

    Only updates that have the metric under both models count (``updates``), so ``unedited`` and ``edited``, the two
    means, are over the same ones, and ``difference`` is edited - unedited with its 95 % interval
    (`anachron.analysis.statistics.korn_graubard_difference`). p is two-sided: by McNemar's exact test for a metric that
    is 0 or 1 of an update (`SHARES`) where each update has a subject of its own, else by
    `anachron.analysis.statistics.sign_flips`, of subjects, which says what it assumes. It is not corrected for the
    number of methods and metrics. A metric that no update has under both models has no row.
    """
    key = ["mode", "scenario", "case_id"]
    clean = metrics.filter(pl.col("method") == UNEDITED)
    rows: list[dict[str, Any]] = []
    edited_metrics = metrics.with_columns(subject=subjects_of(metrics)).filter(pl.col("method") != UNEDITED)
    for values, of_method in edited_metrics.group_by("mode", "scenario", *METHOD, maintain_order=True):
        about = dict(zip(["mode", "scenario", *METHOD], values, strict=True))
        for name in names:
            pairs = of_method.select(*key, "subject", edited=name)
            pairs = pairs.join(clean.select(*key, unedited=name), on=key, how="inner").drop_nulls().sort(key)
            if pairs.height:
                rows.append(about | {"metric": name} | _tested(pairs, share=name in SHARES))
    return pl.DataFrame(rows, schema=TESTS)


def _tested(pairs: pl.DataFrame, *, share: bool) -> dict[str, Any]:
    """The numbers of one row. pairs: a row an update, with ``unedited``, ``edited`` and ``subject``."""
    before, after, subjects = (pairs[name].to_numpy() for name in ("unedited", "edited", "subject"))
    exact = share and pairs["subject"].n_unique() == pairs.height
    low, high = korn_graubard_difference(before, after, subjects)
    return {
        "updates": pairs.height, "unedited": float(before.mean()), "edited": float(after.mean()),
        "difference": float((after - before).mean()), "low": low, "high": high,
        "p": mcnemar(int((after > before).sum()), int((after < before).sum())) if exact
             else sign_flips(before, after, subjects),
        "test": MCNEMAR if exact else SIGN_FLIPS,
    }  # fmt: skip
