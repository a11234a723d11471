"""Triples of popular subjects, for a language model to put into sentences (WikiFactDiff, section A.5)."""

import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from anachron.core.errors import DataError
from anachron.io.cluster import Spread, map_in_order
from anachron.io.tables import in_our_words
from anachron.text.templates import FactToWord
from anachron.wikidata.reading.snapshot import Snapshot
from anachron.wikidata.selection.lookups import scan_popularity
from anachron.wikidata.selection.rules import Selection, Steps
from anachron.wikidata.updates.triples import (
    GROUP,
    VALUE,
    Side,
    clean_triples,
    open_side,
    relation_types,
    update_steps,
)
from anachron.wikidata.updates.words import put_in_words

_MOST_TRIED = 3  # times as many are drawn as are wanted, for some have no words


def sample_triples(
    snapshot: Snapshot, relations: tuple[str, ...], of_each: int, most_popular: int, *, style: str = "american",
    seed: int = 0, spread: Spread | None = None,
) -> dict[str, list[FactToWord]]:  # fmt: skip
    """Relation -> up to ``of_each`` triples whose subject is among the ``most_popular``, drawn by a seeded hash.

    relations: only these; all where empty. Raises `DataError` for a snapshot without page views and where no triple is
    found.
    """
    spread = spread or Spread()
    views = scan_popularity(snapshot).sort("popularity", "id", descending=[True, False])
    with in_our_words():
        subjects = views.head(most_popular).collect()["id"]
    types, steps = relation_types(snapshot.properties(), snapshot.properties()), update_steps(snapshot.wiki)
    with tempfile.TemporaryDirectory() as folder:
        usual = Selection()
        side = open_side(snapshot, Path(folder) / "barred.parquet", usual.barred_words, usual.class_depth)
        tasks = (
            (side, bucket, steps, types, in_bucket, relations, _MOST_TRIED * of_each, seed)
            for bucket, in_bucket in snapshot.by_bucket(subjects).items()
        )
        parts = list(map_in_order(draw_in_bucket, tasks, spread.workers, spread.ray))
    if not parts or not any(part.height for part in parts):
        raise DataError(f"{snapshot.folder} has no triple of these relations whose subject has page views")
    drawn = _lowest(pl.concat(parts), _MOST_TRIED * of_each)
    words = put_in_words(drawn, snapshot, snapshot, style)
    sampled: dict[str, list[FactToWord]] = {}
    for triple in _triples(words):
        kept = sampled.setdefault(triple.relation_id, [])
        if len(kept) < of_each:
            kept.append(triple)
    return dict(sorted(sampled.items(), key=lambda pair: int(pair[0][1:])))


def draw_in_bucket(task: tuple[Side, int, Steps, pl.DataFrame, list[str], tuple[str, ...], int, int]) -> pl.DataFrame:
    """The triples of a bucket with the lowest hashes, some of each relation."""
    side, bucket, steps, types, subjects, relations, most, seed = task
    triples = clean_triples(side, bucket, steps, types, subjects)[1]
    if relations:
        triples = triples.filter(pl.col("property").is_in(relations))
    texts = triples.select(*GROUP, *VALUE).iter_rows()
    hashes = [hashlib.sha256(repr((seed, *row)).encode()).hexdigest() for row in texts]
    ranked = triples.select(*GROUP, *VALUE).with_columns(pl.Series("hash", hashes, dtype=pl.String))
    return _lowest(ranked, most)


def _lowest(ranked: pl.DataFrame, most: int) -> pl.DataFrame:
    return ranked.sort("property", "hash").filter(pl.int_range(pl.len()).over("property") < most)


def _triples(words: pl.DataFrame) -> Iterator[FactToWord]:
    complete = words.drop_nulls(["subject_label", "relation_label", "object_label"])
    for row in complete.iter_rows(named=True):
        yield FactToWord(
            fact_id="", relation_id=row["property"], subject=row["subject_label"], relation=row["relation_label"],
            object=row["object_label"], subject_description=row["subject_description"] or "",
            relation_description=row["relation_description"] or "", object_description=row["object_description"] or "",
        )  # fmt: skip
