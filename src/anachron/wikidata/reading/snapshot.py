"""The snapshot folder: what its tables hold, and how they are opened.

    SNAPSHOT/
      manifest.json              written last: a folder with it is complete
      entities/part-000.parquet  items, by bucket of their id
      statements/part-000.parquet  statements, by bucket of their subject
      properties.parquet         property entities
      classes.parquet            edges child -> parent (P279)
      bad.jsonl                  what could not be read
      work/                      while unfinished; on a store what was not listed when it was removed

A bucket is a function of the id, so that tables of one bucket can be worked on together and apart from all others. Rows
are in the order of the dump.
"""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from anachron.core.errors import DataError, first_line
from anachron.io.files import read_json
from anachron.io.schemas import refuse_missing
from anachron.io.stores import Place, StorePath, place
from anachron.io.tables import in_our_words, read_parquet, scan_parquet

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = 1
MOST_BUCKETS = 1 << 16
TABLES = ("entities", "statements")  # one file a bucket
POPULARITY = "popularity.parquet"  # what `anachron.wikidata.views.popularity` adds
TOPIC_DUMP = "topic.json.gz"  # what `anachron.wikidata.topic.fetch` made it of


def bucket_of(id: str, buckets: int) -> int:
    """The bucket of an entity id: crc32 of its text, modulo their number."""
    return zlib.crc32(id.encode()) % buckets


def in_order(ids: Iterable[str]) -> list[str]:
    """Each id once: items, then the others, each by its number."""
    return sorted(set(ids), key=lambda id: (id[0] != "Q", len(id), id))


def part_name(bucket: int) -> str:
    return f"part-{bucket:03d}.parquet"


def schemas() -> "dict[str, pa.Schema]":
    """Arrow schemas of `entities`, `statements`, `properties` and `classes`.

    entities: ``created`` is the date text of ``created_property``, the first of P571, P569, P580, P575, P1619, P6949,
    P585, P577 with a known value that is not deprecated (P577: its oldest; of a decade, century or millennium the first
    year); ``classes`` are P31 values; ``revision`` and ``modified`` say which state of the item was read, where
    its statements are kept.

    statements: ``snak`` is value, somevalue or novalue; ``value_type`` entity, time, quantity, text, monolingual,
    coordinate or other. ``value`` is an id, a date text, an amount, a text, ``lat,lon`` or JSON; ``value_extra`` a
    unit, the time as Wikidata writes it, or a language. ``start``, ``end``, ``point`` are P580, P582, P585: null not
    stated, kind known, unknown (somevalue) or open (novalue), ``values`` how many the statement has. ``qualifiers``:
    all others as JSON. ``references``: a list of those, likewise, null where there are none or ``ingest`` was not asked
    for them.

    Snapshots of earlier versions lack ``revision, modified, references``; `anachron.wikidata.selection.cited` reads
    both.

    properties: ``separators`` and ``exceptions`` are those of single-value constraints that are not deprecated.
    """
    import pyarrow as pa

    text, texts = pa.string(), pa.list_(pa.string())
    date = pa.struct([
        ("kind", text), ("date", text), ("precision", pa.int8()), ("calendar", text), ("raw", text),
        ("values", pa.int16()),
    ])  # fmt: skip
    constraint = pa.struct([("kind", text), ("rank", text), ("separators", texts), ("exceptions", texts)])
    return {
        "entities": pa.schema([
            ("id", text), ("label", text), ("description", text), ("title", text), ("classes", texts),
            ("created", text), ("created_property", text), ("revision", pa.int64()), ("modified", text),
        ]),
        "statements": pa.schema([
            ("subject", text), ("property", text), ("statement_id", text), ("rank", text), ("datatype", text),
            ("snak", text), ("value_type", text), ("value", text), ("value_extra", text),
            ("value_precision", pa.int8()), ("value_calendar", text), ("start", date), ("end", date), ("point", date),
            ("qualifiers", text), ("references", text),
        ]),
        "properties": pa.schema([
            ("id", text), ("label", text), ("description", text), ("datatype", text), ("classes", texts),
            ("parents", texts), ("single_value", pa.bool_()), ("separators", texts), ("exceptions", texts),
            ("constraints", pa.list_(constraint)),
        ]),
        "classes": pa.schema([("child", text), ("parent", text)]),
    }  # fmt: skip


@contextmanager
def readable(what: Place | str, remedy: str = "ingest the dump again into another folder") -> Iterator[None]:
    """Raise `DataError` where a table turns out to be damaged while it is read in the block."""
    try:
        with in_our_words():
            yield
    except (pl.exceptions.ComputeError, OSError) as error:
        missing = isinstance(what, StorePath) and isinstance(error, FileNotFoundError)
        reason = "no such object" if missing else first_line(error)
        raise DataError(f"{what} cannot be read ({reason}); {remedy}") from error


def check_table(path: Place, columns: Sequence[str], remedy: str = "ingest the dump again into another folder") -> None:
    """Raise `DataError` for a Parquet file that is missing, cut off or lacks a column. Only its end is read."""
    with readable(path, remedy):
        found = scan_parquet(path).collect_schema()
    refuse_missing(found, columns, str(path), remedy)


@dataclass(frozen=True)
class Snapshot:
    """A complete snapshot folder."""

    folder: Place
    manifest: dict[str, Any]

    @property
    def buckets(self) -> int:
        return int(self.manifest["options"]["buckets"])

    @property
    def wiki(self) -> str:
        """The wiki whose titles it holds, or ``all`` for one without a condition on titles."""
        return str(self.manifest["options"]["wiki"])

    def bucket_of(self, id: str) -> int:
        return bucket_of(id, self.buckets)

    def by_bucket(self, ids: Iterable[str]) -> dict[int, list[str]]:
        """The ids of each bucket that has some, by its number."""
        buckets: dict[int, list[str]] = {}
        for id in ids:
            buckets.setdefault(self.bucket_of(id), []).append(id)
        return dict(sorted(buckets.items()))

    def part(self, table: str, bucket: int) -> Place:
        """File of one bucket of ``entities`` or ``statements``."""
        return self.folder / table / part_name(bucket)

    def files(self) -> list[Place]:
        """The tables without which it is not complete."""
        parts = [self.part(table, bucket) for table in TABLES for bucket in range(self.buckets)]
        return [*parts, self.folder / "properties.parquet", self.folder / "classes.parquet"]

    def read(self, table: str, bucket: int, columns: list[str] | None = None) -> pl.DataFrame:
        """One bucket of ``entities`` or ``statements``, in the order of the dump."""
        path = self.part(table, bucket)
        with readable(path):
            return read_parquet(path, columns=columns)

    def properties(self) -> pl.DataFrame:
        return self._whole("properties")

    def classes(self) -> pl.DataFrame:
        return self._whole("classes")

    def _whole(self, table: str) -> pl.DataFrame:
        path = self.folder / f"{table}.parquet"
        with readable(path):
            return read_parquet(path)


def open_snapshot(folder: Snapshot | Place | str) -> Snapshot:
    """Open a snapshot folder; one that is open already is given back.

    Raises `DataError` for a folder that is missing, unfinished, of another format or has gaps.
    """
    if isinstance(folder, Snapshot):
        return folder
    folder = place(folder)
    if not (folder / "manifest.json").is_file():
        if not folder.is_dir():
            raise DataError(
                f"{folder}: no such snapshot folder; make one with: anachron wikidata ingest DUMP --out {folder}"
            )
        hint = (
            "the command that makes it did not end; repeat that"
            if (folder / "work").is_dir()
            else "is it a snapshot folder?"
        )
        raise DataError(f"{folder} has no manifest.json: {hint}")
    manifest = read_json(folder / "manifest.json")
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        kind = manifest.get("format") if isinstance(manifest, dict) else None
        raise DataError(f"{folder}/manifest.json: format {kind!r}, this version reads {FORMAT}; ingest the dump again")
    options, buckets = manifest.get("options"), None
    if isinstance(options, dict) and isinstance(options.get("wiki"), str) and isinstance(manifest.get("counts"), dict):
        buckets = options.get("buckets")
    if not isinstance(buckets, int) or buckets < 1:
        raise DataError(
            f"{folder}/manifest.json does not say its wiki, buckets and counts: it is damaged, or none of `wikidata "
            "ingest`; ingest the dump again into another folder"
        )
    snapshot = Snapshot(folder, manifest)
    for file in snapshot.files():
        if not file.is_file():
            raise DataError(f"{file} is missing from the snapshot; ingest the dump again into another folder")
    return snapshot
