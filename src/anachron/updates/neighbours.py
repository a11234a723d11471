"""The facts nearest to a group: of the subjects most like its own that have its relation, one fact each.

Source: paper 003, section A.4. Exact, and only among subjects that have the relation, where the published search went
through the 500 nearest of all subjects and so found fewer. Worked off bucket by bucket of candidates; each leaves a
file in the work folder, and the parts are joined at the end.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from anachron.cluster import Spread, cores, map_in_order, worker_count
from anachron.io import write_table
from anachron.updates.compare import Comparison, day_of
from anachron.updates.nearest import (
    Weights,
    columns_of,
    document_frequencies,
    features_of,
    merge_nearest,
    nearest,
    vectors,
)
from anachron.updates.triples import GROUP, ITEM
from anachron.updates.words import entities_in_words, mentioned, with_words

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

FACT = [
    "subject", "property", "subject_label", "subject_description", "object_id", "object_label", "object_description",
    "subject_kind",
]  # fmt: skip


@dataclass(frozen=True)
class Search:
    """What a worker must know to look for neighbours in a bucket."""

    comparison: Comparison
    count: int
    style: str
    threads: int

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
    if not count:
        texts = dict.fromkeys(FACT, pl.String)
        return pl.DataFrame(schema={"group": kept.schema["group"], "similarity": pl.Float64, **texts})
    search = Search(comparison, count, style, 1 if spread.ray else max(1, cores() // worker_count(spread.workers)))
    buckets = range(comparison.buckets)
    for _ in map_in_order(write_features, ((search, b) for b in buckets), spread.workers, spread.ray):
        pass
    _write_queries(search, kept)

    def parts() -> Iterator[pl.DataFrame]:
        searched = map_in_order(search_bucket, ((search, b) for b in buckets), spread.workers, spread.ray)
        for done, part in enumerate(searched, 1):
            spread.progress(done, len(buckets))
            yield part.rename({"group": "query", "subject": "id"})

    return merge_nearest(parts(), count).rename({"query": "group", "id": "subject"})


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
    """Write what every bucket is searched for: the groups, the documents of their subjects, words, and all weights."""
    if (search.work / "total.parquet").is_file():  # written last
        return
    changed = pl.col("label") != "static"
    groups = kept.group_by("group", *GROUP, maintain_order=True).agg(
        pl.col("value").filter(ITEM & changed).alias("changed")
    )
    subjects = groups.select("subject").unique()
    weights = document_frequencies(search.features(b) for b in range(search.comparison.buckets))
    documents = (search.features(b).join(subjects, on="subject", how="semi") for b in range(search.comparison.buckets))
    write_table(search.work / "groups.parquet", groups)
    write_table(search.work / "documents.parquet", pl.concat(documents))
    write_table(search.work / "weights.parquet", weights.frequencies)
    relations = groups["property"].unique().sort()
    objects = set[str]()
    for bucket in range(search.comparison.buckets):
        objects |= mentioned(_facts(search, bucket, relations))
    entities = entities_in_words(search.comparison.old.snapshot, search.comparison.new.snapshot, objects)
    write_table(search.work / "words.parquet", entities)
    write_table(search.work / "total.parquet", pl.DataFrame({"documents": [weights.documents]}))


def _facts(search: Search, bucket: int, relations: pl.Series) -> pl.DataFrame:
    """Old triples of these relations that held at the old date, in the order of the dump."""
    day = day_of(search.comparison.old.snapshot)
    held = ~((pl.col("end_day") < day).fill_null(False) | (pl.col("start_day") > day).fill_null(False))
    rows = pl.scan_parquet(search.comparison.file("old", bucket))
    return rows.filter(pl.col("property").is_in(relations.implode()) & held).sort("position").collect()


def search_bucket(task: tuple[Search, int]) -> pl.DataFrame:
    """The nearest facts of each group among the subjects of one bucket: ``group, similarity`` and `FACT`."""
    search, bucket = task
    target = search.comparison.file("near", bucket)
    if not target.is_file():
        write_table(target, _search(search, bucket))
    return pl.read_parquet(target)


def _search(search: Search, bucket: int) -> pl.DataFrame:
    groups = pl.read_parquet(search.work / "groups.parquet")
    entities = pl.read_parquet(search.work / "words.parquet")
    documents = pl.read_parquet(search.work / "documents.parquet")
    total = pl.read_parquet(search.work / "total.parquet")["documents"][0]
    weights = Weights(pl.read_parquet(search.work / "weights.parquet"), total)
    told = with_words(_facts(search, bucket, groups["property"].unique()), entities, search.style)
    facts = told.drop_nulls(["subject_label", "object_label"]).unique(GROUP, keep="first", maintain_order=True)
    columns = columns_of(documents, groups["subject"], weights)
    asked = _Vectors.of(documents, groups["subject"].unique(), weights, columns)
    known = _Vectors.of(search.features(bucket), facts["subject"].unique(), weights, columns)
    nothing = pl.DataFrame(
        schema={"group": groups.schema["group"], "similarity": pl.Float64, "subject": pl.String, "property": pl.String}
    )
    near = pl.concat([nothing, *_of_relations(groups, facts, asked, known, search)])
    return near.join(facts.select(FACT), on=GROUP, how="inner", maintain_order="left").select(
        "group", "similarity", *FACT
    )


@dataclass(frozen=True)
class _Vectors:
    """Vectors of subjects, made once: every relation takes those of its own."""

    rows: dict[str, int]
    matrix: "csr_matrix"

    @classmethod
    def of(
        cls, features: pl.DataFrame, subjects: pl.Series, weights: Weights, columns: np.ndarray[Any, Any]
    ) -> "_Vectors":
        return cls({id: row for row, id in enumerate(subjects)}, vectors(features, subjects, weights, columns))

    def __getitem__(self, subjects: pl.Series) -> "csr_matrix":
        return self.matrix[[self.rows[id] for id in subjects]]


def _of_relations(
    groups: pl.DataFrame, facts: pl.DataFrame, asked: _Vectors, known: _Vectors, search: Search
) -> Iterator[pl.DataFrame]:
    of_relation = facts.partition_by("property", as_dict=True)
    for (relation,), related in groups.group_by(["property"], maintain_order=True):
        if (relation,) not in of_relation:
            continue
        candidates = of_relation[relation,]["subject"]
        place = {id: row for row, id in enumerate(candidates)}
        barred = [
            {place[id] for id in (subject, *changed) if id in place}
            for subject, changed in related.select("subject", "changed").iter_rows()
        ]
        queries, rows = asked[related["subject"]], known[candidates]
        near = nearest(queries, rows, candidates, search.count, barred, threads=search.threads)
        yield near.select(
            related["group"].gather(near["query"]).alias("group"), "similarity", subject="id", property=pl.lit(relation)
        )
