"""The facts nearest to a group: of the subjects most like its own that have its relation, one fact each.

Source: WikiFactDiff, section A.4. Exact, and only among subjects that have the relation, where the published search
went through the 500 nearest of all subjects and so found fewer. Worked off bucket by bucket of candidates; each leaves
a file in the work folder, and the parts are joined at the end.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from anachron.io.cluster import Spread, cores, map_in_order, worker_count
from anachron.io.stores import Place
from anachron.io.tables import in_our_words, read_parquet, scan_parquet, write_table
from anachron.wikidata.updates.compare import Comparison
from anachron.wikidata.updates.features import entity_numbers, features_of
from anachron.wikidata.updates.nearest import (
    Weights,
    columns_of,
    document_frequencies,
    merge_nearest,
    nearest,
    vectors,
)
from anachron.wikidata.updates.triples import GROUP, ITEM, day_of
from anachron.wikidata.updates.words import entities_in_words, mentioned, with_words

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

RUNS = 64  # files of the first search, at most, however many the buckets
FAN = 16  # files joined at once
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
    def work(self) -> Place:
        return self.comparison.work

    def features(self, bucket: int) -> pl.DataFrame:
        return read_parquet(self.comparison.file("features", bucket))

    def words(self, facts: pl.DataFrame) -> pl.DataFrame:
        """What `anachron.wikidata.updates.words.with_words` needs to put these facts into words."""
        wanted = pl.LazyFrame({"id": sorted(mentioned(facts))}, schema={"id": pl.String})
        entities = scan_parquet(self.work / "words.parquet")
        with in_our_words():
            return entities.join(wanted, on="id", how="semi").sort("id").collect(engine="streaming")


def find_neighbours(comparison: Comparison, kept: pl.DataFrame, count: int, style: str, spread: Spread) -> pl.DataFrame:
    """The neighbours of each group: ``group, similarity`` and `FACT`, by group, the most similar first.

    kept: triples of the groups (``group, label`` and those of `anachron.wikidata.updates.triples.KEPT`). Ties are
    broken by the number of the subject. A neighbour is a fact that held at the old date, of a subject and an object
    with labels; never one of the group's own subject, nor of an item that became or ceased to be an object of the
    group.

    Numbers and similarities are all that is written until the nearest of all buckets are known: a run of buckets leaves
    one file, files are joined `FAN` at a time, and only what is left is put into words.
    """
    if not count:
        texts = dict.fromkeys(FACT, pl.String)
        return pl.DataFrame(schema={"group": kept.schema["group"], "similarity": pl.Float64, **texts})
    search = Search(comparison, count, style, 1 if spread.ray else max(1, cores() // worker_count(spread.workers)))
    _each(write_features, [(search, bucket) for bucket in range(comparison.buckets)], spread)
    _write_queries(search, kept)
    runs = runs_of(comparison.buckets)
    files = [comparison.file("near", number) for number in range(len(runs))]
    _each(search_run, [(search, run, file) for run, file in zip(runs, files, strict=True)], spread, spread.progress)
    return _in_words(search, read_parquet(_joined(search, files, spread)), spread)


def _each(
    function: Callable[[Any], None],
    tasks: Sequence[Any],
    spread: Spread,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    for done, _ in enumerate(map_in_order(function, tasks, spread.workers, spread.ray), 1):
        progress(done, len(tasks))


def runs_of(buckets: int) -> list[range]:
    """The buckets in at most `RUNS` runs of about one length: a function of their number alone."""
    length = -(-buckets // RUNS)
    return [range(first, min(first + length, buckets)) for first in range(0, buckets, length)]


def _joined(search: Search, files: list[Place], spread: Spread) -> Place:
    """One file of several: the nearest of the nearest are the nearest, in whatever order they are joined."""
    level = 0
    while len(files) > 1:
        level += 1
        parts = [files[first : first + FAN] for first in range(0, len(files), FAN)]
        targets = [search.work / f"near-{level}-{number:03d}.parquet" for number in range(len(parts))]
        tasks = [(search, part, target) for part, target in zip(parts, targets, strict=True)]
        _each(join_files, tasks, spread if len(tasks) > 1 else Spread())  # one is not worth a pool of processes
        files = targets
    return files[0]


def join_files(task: tuple[Search, list[Place], Place]) -> None:
    """Write the nearest of several files."""
    search, files, target = task
    if not target.is_file():
        write_table(target, merge_nearest(map(read_parquet, files), search.count))


def _in_words(search: Search, near: pl.DataFrame, spread: Spread) -> pl.DataFrame:
    """Chosen neighbours (``query, number, similarity``) with the words of their facts, which their buckets tell."""
    relations = read_parquet(search.work / "groups.parquet").select(query="group", property="property")
    subject = "Q" + pl.col("number").cast(pl.String)  # all subjects are items, whose numbers are the bare ones
    chosen = near.join(relations, on="query", how="left", maintain_order="left").with_columns(subject=subject)
    of_bucket = search.comparison.new.snapshot.by_bucket(chosen["subject"].unique().sort())
    tasks = ((search, bucket, ids) for bucket, ids in of_bucket.items())
    facts = [pl.DataFrame(schema=dict.fromkeys(FACT, pl.String))]
    facts += map_in_order(put_facts_in_words, tasks, spread.workers, spread.ray)
    worded = chosen.join(pl.concat(facts), on=GROUP, how="inner", maintain_order="left")
    return worded.select(group="query", similarity="similarity", **{name: pl.col(name) for name in FACT})


def put_facts_in_words(task: tuple[Search, int, list[str]]) -> pl.DataFrame:
    """`FACT` of the facts of these subjects of a bucket."""
    search, bucket, subjects = task
    relations = read_parquet(search.work / "groups.parquet", columns=["property"])["property"].unique()
    return _worded_facts(search, bucket, relations, subjects).select(FACT)


def write_features(task: tuple[Search, int]) -> None:
    """Write the documents of a bucket: of all subjects of the old snapshot, and of those only the new describes."""
    search, bucket = task
    comparison = search.comparison
    target = comparison.file("features", bucket)
    if target.is_file():
        return
    old = read_parquet(comparison.file("old", bucket), columns=[*GROUP, "value_type", "value"])
    fresh = read_parquet(comparison.file("fresh", bucket))
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


def _facts(search: Search, bucket: int, relations: pl.Series, subjects: list[str] | None = None) -> pl.DataFrame:
    """Old triples of these relations (and subjects) that held at the old date, in the order of the dump."""
    day = day_of(search.comparison.old.snapshot)
    held = ~((pl.col("end_day") < day).fill_null(False) | (pl.col("start_day") > day).fill_null(False))
    rows = scan_parquet(search.comparison.file("old", bucket))
    rows = rows.filter(pl.col("property").is_in(relations.implode()) & held)
    if subjects is not None:
        rows = rows.filter(pl.col("subject").is_in(subjects))
    with in_our_words():
        return rows.sort("position").collect()


def _worded_facts(search: Search, bucket: int, relations: pl.Series, subjects: list[str] | None = None) -> pl.DataFrame:
    """Of each subject and relation the first of the `_facts` that can be put into words, in words."""
    facts = _facts(search, bucket, relations, subjects)
    worded = with_words(facts, search.words(facts), search.style)
    return worded.drop_nulls(["subject_label", "object_label"]).unique(GROUP, keep="first", maintain_order=True)


def search_run(task: tuple[Search, range, Place]) -> None:
    """Write the nearest facts of each group among the subjects of some buckets: ``query, number, similarity``."""
    search, buckets, target = task
    if not target.is_file():
        write_table(target, _search(search, buckets))


def _search(search: Search, buckets: range) -> pl.DataFrame:
    groups = read_parquet(search.work / "groups.parquet")
    documents = read_parquet(search.work / "documents.parquet")
    total = read_parquet(search.work / "total.parquet")["documents"][0]
    weights = Weights(read_parquet(search.work / "weights.parquet"), total)
    columns = columns_of(documents, groups["subject"], weights)
    asked = _Vectors.of(documents, groups["subject"].unique(), weights, columns)
    relations = groups["property"].unique()
    nothing = pl.DataFrame(schema={"query": groups.schema["group"], "number": pl.UInt64, "similarity": pl.Float64})

    def of_bucket(bucket: int) -> pl.DataFrame:
        facts = _worded_facts(search, bucket, relations).select(GROUP)
        known = _Vectors.of(search.features(bucket), facts["subject"].unique(), weights, columns)
        return pl.concat([nothing, *_of_relations(groups, facts, asked, known, search)])

    return merge_nearest(map(of_bucket, buckets), search.count)


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
        group, number = related["group"].gather(near["query"]), entity_numbers(near["id"])
        yield pl.DataFrame({"query": group, "number": number, "similarity": near["similarity"]})
