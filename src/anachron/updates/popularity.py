"""How popular an entity is, also where its own page has no views counted.

Source: paper 003, section A.1, and its published code: the logarithm of one more than the median of monthly views.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from anachron.wikidata.reading.snapshot import Snapshot, readable
from anachron.wikidata.selection.lookups import entity_rows, read_popularity, scan_popularity


@dataclass(frozen=True)
class Levels:
    """What stands in for views that are missing, as logarithms: the mean of each class, and the median of all."""

    classes: pl.DataFrame  # class, level
    median: float


def find_levels(snapshot: Snapshot) -> Levels:
    """Means of the classes' members with views, and the median of all entities with views.

    Raises `DataError` for a snapshot without page views.
    """
    views = scan_popularity(snapshot)
    sums = []
    for bucket in range(snapshot.buckets):
        part = snapshot.part("entities", bucket)
        members = pl.scan_parquet(part).select("id", pl.col("classes").alias("class"))
        with_views = members.join(views, on="id", how="inner").explode("class").drop_nulls("class")
        with readable(part):
            grouped = with_views.group_by("class").agg(pl.col("popularity").sum(), pl.len())
            sums.append(grouped.collect(engine="streaming"))
    total = pl.concat(sums).group_by("class").agg(pl.col("popularity").sum(), pl.col("len").sum()).sort("class")
    level = (pl.col("popularity") / pl.col("len") + 1).log()
    median = views.select((pl.col("popularity").median() + 1).log()).collect().item()
    return Levels(total.select("class", level.alias("level")), 0.0 if median is None else float(median))


def log_popularity(snapshot: Snapshot, ids: Iterable[str], levels: Levels) -> dict[str, float]:
    """ln(views + 1) of each entity; without views the largest mean of its classes, else the median of all."""
    wanted = sorted(set(ids))
    views = dict(read_popularity(snapshot, wanted).select("id", "popularity").iter_rows())
    lacking = [id for id in wanted if id not in views]
    members = entity_rows(snapshot, lacking, ["id", "classes"]).explode("classes").rename({"classes": "class"})
    largest = members.join(levels.classes, on="class", how="inner").group_by("id").agg(pl.col("level").max())
    stand_in = dict(largest.iter_rows())
    return {id: math.log(views[id] + 1) if id in views else stand_in.get(id, levels.median) for id in wanted}
