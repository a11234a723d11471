"""The facts nearest to a group: of the subjects most like its own that have its relation, one fact each.

Source: paper 003, section A.4. Exact, and only among subjects that have the relation, where the published search went
through the 500 nearest of all subjects and so found fewer. Worked off bucket by bucket of candidates; each leaves a
file in the work folder, and the parts are joined at the end.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from anachron.cluster import map_in_order
from anachron.io import write_table
from anachron.updates.compare import Comparison, day_of
from anachron.updates.nearest import (
    Weights,
    columns_of,
    document_frequencies,
    entity_numbers,
    features_of,
    nearest,
    vectors,
)
from anachron.updates.triples import GROUP
from anachron.updates.words import entities_in_words, mentioned, with_words
from anachron.wikidata.select import Spread

ITEM = pl.col("value_type") == "entity"
FACT = [
    "subject",
    "property",
    "subject_label",
    "subject_description",
    "object_id",
    "object_label",
    "object_description",
]


@dataclass(frozen=True)
class Search:
    """What a worker must know to look for neighbours in a bucket."""

    comparison: Comparison
    count: int
    style: str

    @property
    def work(self) -> Path:
        return self.comparison.work

    def features(self, bucket: int) -> pl.DataFrame:
        return pl.read_parquet(self.comparison.file("features", bucket))


def find_neighbours(comparison: Comparison, kept: pl.DataFrame, count: int, style: str, spread: Spread) -> pl.DataFrame:
    """The neighbours of each group: ``group, similarity`` and `FACT`, by group, the most similar first.

    kept: triples of the groups (``group, label`` and those of `anachron.updates.triples.KEPT`). Ties are broken by the
    number of the subject. A neighbour is a fact that held at the old date, of a subject and an object with labels;
    never one of the group's own subject, nor of an item that became or ceased to be an object of the group.
    """
    if count == 0:
        texts = [pl.lit(None, pl.String).alias(name) for name in FACT]
        return kept.clear().select("group", pl.lit(None, pl.Float64).alias("similarity"), *texts).clear()
    search = Search(comparison, count, style)
    buckets = range(comparison.buckets)
    for _ in map_in_order(write_features, ((search, b) for b in buckets), spread.workers, spread.ray):
        pass
    _write_queries(search, kept)
    parts = list(map_in_order(search_bucket, ((search, b) for b in buckets), spread.workers, spread.ray))
    found = pl.concat(parts)
    order = found.with_columns(entity_numbers(found["subject"]).alias("number"))
    ranked = order.sort("group", "similarity", "number", descending=[False, True, False]).drop("number")
    return ranked.filter(pl.int_range(pl.len()).over("group") < count)


def write_features(task: tuple[Search, int]) -> None:
    """Write the documents of a bucket: of all subjects of the old snapshot, and of those only the new describes."""
    search, bucket = task
    comparison = search.comparison
    target = comparison.file("features", bucket)
    if target.is_file():
        return
    old = pl.read_parquet(comparison.file("old", bucket), columns=[*GROUP, "value_type", "value"])
    fresh = pl.read_parquet(comparison.file("fresh", bucket))
    items = pl.concat([old.filter(ITEM).select(*GROUP, "value"), fresh.drop_nulls()])
    subjects = {*old["subject"].unique(), *fresh["subject"].unique()}
    write_table(target, features_of(items.lazy(), subjects))


def _write_queries(search: Search, kept: pl.DataFrame) -> None:
    """Write what every bucket is searched for: the groups, the documents of their subjects, and all weights."""
    changed = pl.col("label") != "static"
    groups = kept.group_by("group", *GROUP, maintain_order=True).agg(
        pl.col("value").filter(ITEM & changed).alias("changed")
    )
    subjects = groups.select("subject").unique()
    weights = document_frequencies(search.features(b) for b in range(search.comparison.buckets))
    own = (search.features(b).join(subjects, on="subject", how="semi") for b in range(search.comparison.buckets))
    write_table(search.work / "groups.parquet", groups)
    write_table(search.work / "documents.parquet", pl.concat(own))
    write_table(search.work / "weights.parquet", weights.frequencies)
    total = pl.DataFrame({"documents": [weights.documents]})
    write_table(search.work / "total.parquet", total)
    relations = groups["property"].unique().sort()
    objects = set[str]()
    for bucket in range(search.comparison.buckets):
        objects |= mentioned(_facts(search, bucket, relations))
    entities = entities_in_words(search.comparison.old.snapshot, search.comparison.new.snapshot, objects)
    write_table(search.work / "words.parquet", entities)


def _facts(search: Search, bucket: int, relations: pl.Series) -> pl.DataFrame:
    """Old triples of these relations that held at the old date, in the order of the dump."""
    day = day_of(search.comparison.old.snapshot)
    held = ~(
        (pl.col("end_day") < day).fill_null(False) | (pl.col("start_day") > day).fill_null(False)
    )  # fmt: skip
    rows = pl.scan_parquet(search.comparison.file("old", bucket))
    return rows.filter(pl.col("property").is_in(relations.implode()) & held).sort("position").collect()


def search_bucket(task: tuple[Search, int]) -> pl.DataFrame:
    """The nearest facts of each group among the subjects of one bucket: ``group, similarity`` and `FACT`."""
    search, bucket = task
    groups = pl.read_parquet(search.work / "groups.parquet")
    entities = pl.read_parquet(search.work / "words.parquet")
    documents = pl.read_parquet(search.work / "documents.parquet")
    total = pl.read_parquet(search.work / "total.parquet")["documents"][0]
    weights = Weights(pl.read_parquet(search.work / "weights.parquet"), total)
    told = with_words(_facts(search, bucket, groups["property"].unique()), entities, search.style)
    facts = told.drop_nulls(["subject_label", "object_label"]).unique(GROUP, keep="first", maintain_order=True)
    features = search.features(bucket)
    columns = columns_of(documents, groups["subject"], weights)
    parts = [pl.DataFrame(schema={"group": groups.schema["group"], "similarity": pl.Float64})]
    parts += list(_of_relations(groups, facts, documents, features, weights, columns, search.count))
    near = pl.concat(parts, how="diagonal")
    if near.width == len(parts[0].columns):
        near = near.with_columns(pl.lit(None, pl.String).alias(name) for name in GROUP)
    return near.join(facts.select(FACT), on=GROUP, how="inner", maintain_order="left").select(
        "group", "similarity", *FACT
    )


def _of_relations(
    groups: pl.DataFrame, facts: pl.DataFrame, documents: pl.DataFrame, features: pl.DataFrame, weights: Weights,
    columns: "object", count: int,
) -> Iterator[pl.DataFrame]:  # fmt: skip
    for (relation,), own in groups.group_by(["property"], maintain_order=True):
        candidates = facts.filter(pl.col("property") == relation)["subject"]
        if not candidates.len():
            continue
        place = {id: row for row, id in enumerate(candidates)}
        barred = [
            {place[id] for id in (subject, *changed) if id in place}
            for subject, changed in own.select("subject", "changed").iter_rows()
        ]
        queries = vectors(documents, own["subject"], weights, columns)  # type: ignore[arg-type]
        rows = vectors(features, candidates, weights, columns)  # type: ignore[arg-type]
        found = nearest(queries, rows, candidates, count, barred)
        yield found.select(
            own["group"].gather(found["query"]).alias("group"), "similarity", subject="id", property=pl.lit(relation)
        )
