"""All scores of a study for the page's timelines: each context once, and per run a score and a mark.

Scores are rounded to `NATS`; whether an incorrect date has won is decided here, from the exact ones.
"""

import numpy as np
import polars as pl

from anachron.analysis.analyses.far_errors import FAR
from anachron.analysis.metrics import with_weakest
from anachron.analysis.study import Study
from anachron.core.dates import GRANULARITIES
from anachron.core.errors import DataError
from anachron.core.periods import STATUSES
from anachron.io.files import Json
from anachron.report.page.render import pack

KEYS = ["fact_id", "granularity", "time", "status"]
NATS = 0.01
ALPHA = 0.01
FAR_BIT, GRANULARITY_SHIFT = 8, 4  # a context's kind: its status (index into STATUSES) + 8 far + granularity << 4
LOST, MISSING = 1, 2


def pack_scores(study: Study, ids: list[str]) -> Json:
    """Contexts of the facts ``ids``, in this order, and the scores of every run.

    ``counts`` says how many contexts each fact has; ``year`` (historical, negative before the common era), ``month``
    and ``day`` (0 where the date is coarser, all 0 for the statement without a date), ``alpha`` (in steps of
    `ALPHA`) and ``kind`` have one number a context, ordered by fact, granularity and date. ``scores`` has for each
    run ``logp`` (in steps of `NATS`) and ``flags``: `LOST` for an incorrect date that scored at least as high as a
    correct one of the same granularity, `MISSING` where the run has no score. Raises `DataError` for a time that is
    no date.
    """
    table = _ordered(_all_contexts(study), ids)
    counts = table.group_by("fact", maintain_order=True).len()
    per_fact = np.zeros(len(ids), np.int64)
    per_fact[counts["fact"].to_numpy()] = counts["len"].to_numpy()
    far = (table["alpha"].abs() >= FAR).fill_null(False).to_numpy()
    kind = (
        table["status_index"].to_numpy() + FAR_BIT * far + (table["granularity_index"].to_numpy() << GRANULARITY_SHIFT)
    )
    return {
        "nats": NATS,
        "alpha_step": ALPHA,
        "counts": pack(per_fact),
        "year": pack(table["year"].to_numpy(), differences=True),
        "month": pack(table["month"].to_numpy()),
        "day": pack(table["day"].to_numpy()),
        "alpha": pack(np.round(table["alpha"].fill_null(0).to_numpy() / ALPHA), differences=True),
        "kind": pack(kind),
        "scores": [_scores(run, table) for run in study.runs],
    }


def with_lost(run: pl.DataFrame) -> pl.DataFrame:
    """A run's scores with ``lost``: an incorrect date that ties with or beats a correct one of its granularity."""
    beaten = (pl.col("status") == "incorrect") & (pl.col("logp") >= pl.col("weakest"))
    return with_weakest(run).with_columns(beaten.fill_null(False).alias("lost"))


def _all_contexts(study: Study) -> pl.DataFrame:
    """Every context of any run once: runs of a study that keeps all facts need not share them."""
    known = pl.DataFrame(schema={**dict.fromkeys(KEYS, pl.String), "alpha": pl.Float64})
    for run in study.runs:
        new = run.join(known, on=KEYS, how="anti", nulls_equal=True, maintain_order="left")
        known = pl.concat([known, new.select(*KEYS, "alpha")])
    return known


def _ordered(contexts: pl.DataFrame, ids: list[str]) -> pl.DataFrame:
    place = pl.DataFrame({"fact_id": ids, "fact": range(len(ids))})
    parts = pl.col("time").str.extract_groups(r"^([+-]?\d{1,12})(?:-(\d{1,2}))?(?:-(\d{1,2}))?$")
    numbers = [
        parts.struct.field(str(i)).cast(pl.Int64).fill_null(0).alias(name)
        for i, name in enumerate(("year", "month", "day"), 1)
    ]
    table = contexts.with_columns(
        *numbers,
        _index("status", STATUSES).alias("status_index"),
        _index("granularity", GRANULARITIES).alias("granularity_index"),
    ).join(place, on="fact_id", maintain_order="left")
    bad = table.filter((pl.col("status") != "none") & (pl.col("year") == 0))
    if bad.height:
        raise DataError(
            f"fact {bad['fact_id'][0]}: time {bad['time'][0]!r} is not a date: write YYYY, YYYY-MM or YYYY-MM-DD"
        )
    undated = pl.col("status") != "none"  # the statement without a date comes first
    return table.sort("fact", "granularity_index", undated, "year", "month", "day", maintain_order=True)


def _index(column: str, known: tuple[str, ...]) -> pl.Expr:
    return pl.col(column).replace_strict(list(known), range(len(known)), return_dtype=pl.Int64)


def _scores(run: pl.DataFrame, table: pl.DataFrame) -> Json:
    scored = table.select(KEYS).join(
        with_lost(run).select(*KEYS, "logp", "lost"), on=KEYS, how="left", nulls_equal=True, maintain_order="left"
    )
    missing = scored["logp"].is_null().to_numpy()
    steps = np.round(scored["logp"].fill_null(strategy="forward").fill_null(0).to_numpy() / NATS)
    flags = LOST * scored["lost"].fill_null(False).to_numpy() + MISSING * missing
    return {"logp": pack(steps, differences=True), "flags": pack(flags)}
