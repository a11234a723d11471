"""The work on one range of a dump: its lines to rows, its rows to files under ``work/``, with counts.

A range that is done has ``done.json``, written last. Nothing in it depends on other ranges or on who worked.
"""

import gc
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from anachron.core.errors import DataError
from anachron.io.files import write_bytes, write_json
from anachron.io.stores import Place
from anachron.wikidata.reading.dump import BOM, Dump, Range, read_range, read_stream
from anachron.wikidata.reading.handing import Handed, read_handed
from anachron.wikidata.reading.parse import BadEntity, Entity, Parser
from anachron.wikidata.reading.snapshot import bucket_of, schemas
from anachron.wikidata.reading.tables import Collector, write_parts

SHOWN = 2000  # characters of a bad line that are kept
WRONG_FILE = 1000  # so many bad lines and not one good at the begin of a file: it is no dump
SEVERAL, PART = "several entities are on one line", "entities go over several lines"
_BLANK = b", \t\r"
_TRAILING = re.compile(r"trailing characters \(byte ([0-9]+)\)")
MOST_BAD = 50_000  # bad lines of one range that are kept in memory, where they are more than half of it


@dataclass(frozen=True)
class Job:
    """Ranges for one worker: some numbers (plain, bz2), one whose text it is handed, or every ``step``-th from the
    first (both gz, zst)."""

    dump: Dump
    work: Place
    wiki: str
    language: str
    listed: Place | None  # file of the ids of --entities, one a line: the list itself would travel with every job
    buckets: int
    numbers: tuple[int, ...]
    handed: Handed | None = None
    step: int | None = None
    skip: frozenset[int] = frozenset()
    threads: int = 1
    limit: int | None = None  # entities to be read in all the ranges of this job
    references: bool = False


def range_folder(work: Place, number: int) -> Place:
    return work / f"{number:06d}"


def do_ranges(job: Job) -> int:
    """Read the ranges of a job and write each. Returns how many lines with entities there were."""
    listed = None if job.listed is None else _listed(job.listed, job.listed.stat().st_mtime_ns)
    parser = Parser(job.wiki, job.language, listed, job.references)
    lines = 0
    for range_ in _ranges(job):
        left = None if job.limit is None else job.limit - lines
        if left is not None and left <= 0:
            break
        lines += _do_range(range_, parser, job, left)["lines"]
    return lines


@lru_cache(maxsize=1)
def _listed(path: Place, written: int) -> frozenset[str]:
    """The ids of a list, read once by each worker and once more when it was ``written`` anew."""
    return frozenset(path.read_text("ascii").split())


def _ranges(job: Job) -> Iterator[Range]:
    if job.handed is not None:
        yield read_handed(job.dump, job.handed)
    elif job.step is None or job.dump.layout != "lines":
        for number in job.numbers:
            yield read_range(job.dump, number, job.threads)
    else:
        yield from read_stream(job.dump, job.numbers[0], job.step, job.skip)


# Two tables are cut into buckets. The others follow them in a range's file, where one more bucket would lie.
BY_BUCKET, WHOLE = ("entities", "statements"), ("properties", "classes")


def range_schema(name: str) -> pa.Schema:
    """Schema of a table under ``work/``: that of the snapshot, and from which line of the range each row comes (its
    number and its place)."""
    return schemas()[name].append(pa.field("row", pa.int32())).append(pa.field("offset", pa.int64()))


def range_file(work: Place, number: int) -> Place:
    return range_folder(work, number) / "tables.rows"


def parts_of_buckets(buckets: range) -> range:
    """The parts of a range's file (`anachron.wikidata.reading.tables.write_parts`) that hold neighbouring buckets."""
    return range(2 * buckets.start, 2 * buckets.stop)


def part_of(table: str, bucket: int) -> int:
    """The part of a range's file with one bucket of a table; that of a whole one is behind the last."""
    return 2 * bucket + (BY_BUCKET if table in BY_BUCKET else WHOLE).index(table)


class _Lines:
    """Counts and rows of a range while its lines are read."""

    def __init__(self, parser: Parser, buckets: int, begin: bool) -> None:
        self.parser = parser
        self.begin = begin  # whether this range begins the file
        self.file = ""  # of several, the one that is read
        self.odd: str | None = None  # how the first line of the file is not one entity
        self.counts = dict.fromkeys(
            (
                "lines",
                "items",
                "properties",
                "lexemes",
                "unlisted",
                "bad",
                "bad_bytes",
                "kept",
                "statements",
                "class_edges",
                "values_left_out",
            ),
            0,
        )
        self.brackets = {"opens": 0, "closes": 0}
        self.first = self.last = ""  # "[", "]" or "entity": the first and last line that are not blank
        self.bad: list[bytes] = []
        self.last_is_bad = False
        self.buckets = buckets
        self.entities = Collector(range_schema("entities"), buckets)
        self.statements = Collector(range_schema("statements"), buckets)
        self.properties = Collector(range_schema("properties"))
        self.classes = Collector(range_schema("classes"))

    def add(self, line: bytes | memoryview, offset: int) -> None:
        """One line, which may be blank, a bracket of the array, or an entity with the comma behind it."""
        if line[-2:] == b"}," and line[:1] == b"{":  # nearly all: without a copy
            self.last = "entity"
            self.first = self.first or "entity"
            self._entity(line[:-1], offset)
            return
        line = bytes(line).strip(_BLANK).removeprefix(BOM).strip(_BLANK)
        if not line:
            return
        begins, ends = line.startswith(b"["), line.endswith(b"]")
        if not (begins or ends):
            self.first = self.first or "entity"
            self.last = "entity"
            self._entity(line, offset)
            return
        inner = line.removeprefix(b"[").removesuffix(b"]").strip(_BLANK)
        if inner and not self._is_entity(inner):
            # A broken entity, whose brackets say nothing; but what a file begins with opens its array.
            begins = inner.startswith(b"{") and self.begin and not self.first and not ends
            ends = False
            inner = inner if begins else line
        self.brackets["opens"] += begins
        self.brackets["closes"] += ends
        self.first = self.first or ("[" if begins else "entity" if inner else "]")
        self.last = "]" if ends else "entity" if inner else "["
        if inner:
            self._entity(inner, offset)

    def _is_entity(self, line: bytes) -> bool:
        try:
            self.parser.read(line)
        except BadEntity as error:
            if self.begin and not self.first:
                self.odd = _odd(str(error), line)
            return False
        return True

    def _entity(self, line: bytes | memoryview, offset: int) -> None:
        counts = self.counts
        row = counts["lines"]
        counts["lines"] += 1
        self.last_is_bad = False
        try:
            entity = self.parser.read(line)
        except BadEntity as error:
            counts["bad"] += 1
            counts["bad_bytes"] += len(line)
            self.last_is_bad = True
            if self.begin and not row:
                self.odd = self.odd or _odd(str(error), bytes(line))
            self._set_aside(offset, str(error), error.id, line)
            return
        for reason in entity.left_out:
            counts["values_left_out"] += 1
            self._set_aside(offset, reason, entity.id, b"", lost="value")
        if entity.entity is not None:
            self._item(entity, row, offset)
        elif entity.kind == "property":
            counts["properties"] += 1
            self.properties.add([(*entity.property, row, offset)])  # type: ignore[misc]
        else:
            counts["lexemes"] += 1
        if entity.parents:
            counts["class_edges"] += len(entity.parents)
            self.classes.add([(entity.id, parent, row, offset) for parent in entity.parents])

    def _set_aside(self, offset: int, reason: str, *of_line: Any, **more: Any) -> None:
        self.bad.append(bad_row(offset, f"{self.file}: {reason}" if self.file else reason, *of_line, **more))

    def _item(self, entity: Entity, row: int, offset: int) -> None:
        counts = self.counts
        counts["items" if entity.kind == "item" else "unlisted"] += 1
        bucket = bucket_of(entity.id, self.buckets)
        self.entities.add([(*entity.entity, row, offset)], bucket)  # type: ignore[misc]
        if entity.statements is not None:
            counts["kept"] += 1
            counts["statements"] += len(entity.statements)
            where = row, offset
            self.statements.add([statement + where for statement in entity.statements], bucket)

    def write(self, work: Place, number: int) -> None:
        write_parts(range_file(work, number), self._parts())
        if self.bad:
            write_bytes(range_folder(work, number) / "bad.jsonl", b"".join(self.bad))

    def _parts(self) -> Iterator[pa.RecordBatch]:
        for tables in (BY_BUCKET, WHOLE):
            collectors: list[Collector] = [getattr(self, table) for table in tables]
            for parts in zip(*(collector.by_bucket() for collector in collectors), strict=True):
                yield from parts


def bad_row(position: int, reason: str, id: str | None, line: bytes | memoryview, lost: str | None = None) -> bytes:
    """A row of bad.jsonl. lost: ``value`` where only that goes, and the entity is kept."""
    row: dict[str, Any] = {"position": position} | ({} if lost is None else {"lost": lost})
    if id is not None:
        row["id"] = id
    row |= {"reason": reason, "line": bytes(line[: 4 * SHOWN]).decode("utf-8", "replace")[:SHOWN]}
    return json.dumps(row, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _do_range(range_: Range, parser: Parser, job: Job, limit: int | None) -> dict[str, Any]:
    rows = _Lines(parser, job.buckets, range_.number == 0)
    with _no_collection():
        _read(range_, rows, limit)
    bad, lines = rows.counts["bad"], rows.counts["lines"]
    if (bad > MOST_BAD and 2 * bad > lines) or (range_.number == 0 and bad == lines >= WRONG_FILE):
        raise wrong_file(job.dump, rows.counts, json.loads(rows.bad[0])["reason"], rows.odd)
    rows.write(job.work, range_.number)
    done = {
        "range": range_.number, "text_bytes": range_.text_bytes, "file_position": range_.file_position,
        "last": range_.last, "cut": range_.unended and rows.last_is_bad, "first_line": rows.first,
        "last_line": rows.last, "odd": rows.odd, **rows.brackets, **rows.counts, "chain": range_.chain,
        "missing": range_.missing,
    }  # fmt: skip
    write_json(range_folder(job.work, range_.number) / "done.json", done)
    return done


def _read(range_: Range, rows: _Lines, limit: int | None) -> None:
    for offset, lines in range_.lines:
        rows.file = range_.file
        for line in lines:
            rows.add(line, offset)
            offset += len(line) + 1
            if limit is not None and rows.counts["lines"] >= limit:
                return
        bad = rows.counts["bad"]
        if bad > MOST_BAD and 2 * bad > rows.counts["lines"]:
            return


@contextmanager
def _no_collection() -> Iterator[None]:
    """Rows hold no cycles, so looking for some among millions of tuples is time lost."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class NoDump(DataError):
    """A file of other lines than entities: nothing that was read of it is of use."""


def _odd(reason: str, line: bytes) -> str | None:
    """How a first line that is bad shows that entities are not laid out one a line; None where it does not."""
    trailing = _TRAILING.search(reason)
    if trailing and line[int(trailing[1]) - 1 :].startswith(b","):
        return SEVERAL
    if "truncated" in reason and line.startswith(b"{"):
        return PART
    return None


def wrong_file(dump: Dump, counts: dict[str, int], reason: str, odd: str | None) -> NoDump:
    """What to say of a dump most of whose lines are bad; ``odd`` is what `_odd` says of its first line."""
    if odd is not None:
        return NoDump(
            f"{dump} does not have one entity per line: {odd}; write each on a line of its own: an array with "
            "jq -c '.[]' FILE, entities one behind another with jq -c . FILE"
        )
    return NoDump(
        f"{dump}: {counts['bad']:,} of {counts['lines']:,} lines are not Wikidata entities (first: {reason}); a "
        "dump may have single broken ones, but this is another file or a damaged one"
    )
