"""AToKe's scores of current and historical facts, per update (Yin and others, AAAI 2024).

Everything starts from the tables ``atoke`` and ``updates``; the questions are those of
`anachron.evaluate.measures.atoke`.
"""

import polars as pl

from anachron.core.facts import REPLACEMENT
from anachron.evaluate.measures.atoke import ATOKE, CURRENT, EXTENTS, HISTORICAL
from anachron.evaluate.metrics import ACCURACY, clean_scores, of_replacements
from anachron.evaluate.results import KEYS, check_updates

SCORES = (*CURRENT, *HISTORICAL, "extent")
SUCCESS = "_success"
ATOKE_METRICS = (*SCORES, *(f"{name}{SUCCESS}" for name in SCORES))  # all from 0 to 1 of an update


def atoke_metrics(atoke: pl.DataFrame, updates: pl.DataFrame) -> pl.DataFrame:
    """One row per mode, method and update with its `ATOKE_METRICS`; first of each mode the clean model, ``unedited``.

    ``ces``, ``ces_p``, ``crs`` (of the new object), ``hes``, ``hes_p`` and ``hrs`` (of the old one) are the shares of
    an update's questions of that kind that are answered right: every token of the right object is the model's first
    choice behind those before, so greedy text begins with it. ``extent`` is the same of its one or two periods.
    ``*_success`` is the share of questions on which the right answer is likelier than the other one; a tie is no
    success, and a question with one known answer has none. All are 0 to 1, and null where nothing tells them: no such
    question, a failed update. Beside them: status, reason, scenario, which is always replacement. Raises `DataError`
    for tables that break their rules.
    """
    known = check_updates(updates).filter(pl.col("scenario") == REPLACEMENT)
    scored = ATOKE.check(atoke, known)
    keys, pair = ["mode", "case_id", "kind", "prompt_number"], ["new_before", "old_before"]
    clean = clean_scores(scored, keys, pair, ACCURACY).with_columns(
        new_after="new_before", old_after="old_before", accuracy_after="accuracy_before"
    )
    lead = pl.col("new_after") - pl.col("old_after")
    right_is_old = pl.col("kind").is_in([*HISTORICAL, "extent_old"])
    score = pl.when(pl.col("kind").is_in(EXTENTS)).then(pl.lit("extent")).otherwise("kind")
    asked = pl.concat([table.select(scored.columns) for table in (clean, scored)]).with_columns(
        score.alias("score"),
        exact=pl.when(pl.col("accuracy_after").is_not_null()).then((pl.col("accuracy_after") == 1).cast(pl.Float64)),
        success=(pl.when(right_is_old).then(-lead).otherwise(lead) > 0).cast(pl.Float64),
    )
    means = asked.group_by(KEYS, maintain_order=True).agg(
        pl.col(value).filter(pl.col("score") == name).mean().alias(f"{name}{ending}")
        for value, ending in (("exact", ""), ("success", SUCCESS))
        for name in SCORES
    )
    return of_replacements([means], known, ATOKE_METRICS)
