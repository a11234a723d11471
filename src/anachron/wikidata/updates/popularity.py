"""How popular an entity is, also where its own page has no views counted.

Source: WikiFactDiff, section A.1, and its published code: the logarithm of one more than the median of monthly views.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl

from anachron.io.files import read_json, write_json
from anachron.io.stores import Place
from anachron.io.tables import read_parquet, scan_parquet, write_table
from anachron.wikidata.reading.snapshot import POPULARITY, Snapshot, bucket_of, readable
from anachron.wikidata.selection.lookups import REPEAT, entity_rows, read_popularity, scan_popularity


@dataclass(frozen=True)
class Levels:
    """What stands in for views that are missing, as logarithms: the mean of each class, and the median of all."""

    classes: pl.DataFrame  # class, level
    median: float


def kept_levels(snapshot: Snapshot, work: Place) -> Levels:
    """`find_levels`, kept in a work folder for a call that goes on."""
    table, record = work / "levels.parquet", work / "levels.json"  # the second is written last
    if record.is_file():
        return Levels(read_parquet(table), read_json(record)["median"])
    levels = find_levels(snapshot)
    write_table(table, levels.classes)
    write_json(record, {"median": levels.median})
    return levels


def find_levels(snapshot: Snapshot) -> Levels:
    """Means of the classes' members with views, and the median of all entities with views.

    The views are read once and held, some ten million in all of Wikidata, each bucket being joined to its own.
    Raises `DataError` for a snapshot without page views.
    """
    with readable(snapshot.folder / POPULARITY, REPEAT):
        views = scan_popularity(snapshot).collect()
    of_bucket = _by_bucket(views, snapshot.buckets)
    sums = []
    for bucket in range(snapshot.buckets):
        part = snapshot.part("entities", bucket)
        members = scan_parquet(part).select("id", pl.col("classes").alias("class"))
        own = of_bucket(bucket).lazy()
        with_views = members.join(own, on="id", how="inner").explode("class").drop_nulls("class")
        with readable(part):
            grouped = with_views.group_by("class").agg(pl.col("popularity").sum(), pl.len())
            sums.append(grouped.collect(engine="streaming"))
    total = pl.concat(sums).group_by("class").agg(pl.col("popularity").sum(), pl.col("len").sum()).sort("class")
    level = (pl.col("popularity") / pl.col("len") + 1).log()
    median = views.select((pl.col("popularity").median() + 1).log()).item()
    return Levels(total.select("class", level.alias("level")), 0.0 if median is None else float(median))


def _by_bucket(views: pl.DataFrame, buckets: int) -> Callable[[int], pl.DataFrame]:
    """Gives the rows of a bucket."""
    numbers = np.fromiter((bucket_of(id, buckets) for id in views["id"]), np.int64, views.height)
    ordered = views[np.argsort(numbers, kind="stable")]
    ends = np.cumsum(np.bincount(numbers, minlength=buckets))
    return lambda bucket: ordered[int(ends[bucket - 1]) if bucket else 0 : int(ends[bucket])]


def log_popularity(snapshot: Snapshot, ids: Iterable[str], levels: Levels) -> dict[str, float]:
    """ln(views + 1) of each entity; without views the largest mean of its classes, else the median of all."""
    wanted = sorted(set(ids))
    views = dict(read_popularity(snapshot, wanted).select("id", "popularity").iter_rows())
    lacking = [id for id in wanted if id not in views]
    members = entity_rows(snapshot, lacking, ["id", "classes"]).explode("classes").rename({"classes": "class"})
    largest = members.join(levels.classes, on="class", how="inner").group_by("id").agg(pl.col("level").max())
    stand_in = dict(largest.iter_rows())
    return {id: math.log(views[id] + 1) if id in views else stand_in.get(id, levels.median) for id in wanted}
