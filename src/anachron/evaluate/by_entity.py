"""Whether all updates of an entity took at once: an entity is inserted when each fact of it is.

Source: WikiFactDiff, section 4, which offers the facts of new entities for the insertion of entities.
"""

import polars as pl

from anachron.analysis.statistics import interval_cells, korn_graubard
from anachron.evaluate.results import METHOD

BY_ENTITY_SCHEMA: dict[str, pl.DataType] = {
    "mode": pl.String(),
    **METHOD,
    **dict.fromkeys(["entities", "updates"], pl.Int64()),
    **dict.fromkeys(["whole", "whole_low", "whole_high", "each", "each_low", "each_high"], pl.Float64()),
}


def by_entity(metrics: pl.DataFrame) -> pl.DataFrame:
    """The share of entities of which every update took, and the mean over entities of the share that did.

    metrics: from `anachron.evaluate.metrics.update_metrics`; what took is ``efficacy_success``. An update that failed
    did not take. Entities none of whose updates tells are left out; updates without a subject are entities of their
    own. Returns the columns of `BY_ENTITY_SCHEMA`, 0 to 1, with intervals over entities.
    """
    entity = pl.coalesce("subject", pl.col("case_id").cast(pl.String))
    took = pl.when(pl.col("status") == "failed").then(0.0).otherwise(pl.col("efficacy_success"))
    each = (
        metrics.select("mode", *METHOD, entity.alias("entity"), took.alias("took"))
        .drop_nulls("took")
        .group_by("mode", *METHOD, "entity", maintain_order=True)
        .agg(
            pl.len().alias("updates"), (pl.col("took") == 1).all().cast(pl.Float64).alias("whole"),
            pl.col("took").mean().alias("each"),
        )
    )  # fmt: skip
    rows = []
    for key, group in each.group_by("mode", *METHOD, maintain_order=True):
        row = dict(zip(("mode", *METHOD), key, strict=True)) | {"entities": group.height}
        row |= {"updates": group["updates"].sum()}
        for name in ("whole", "each"):
            row |= {name: group[name].mean()} | interval_cells(name, korn_graubard(group[name].to_numpy()))
        rows.append(row)
    return pl.DataFrame(rows, schema=BY_ENTITY_SCHEMA)
