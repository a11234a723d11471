"""Finished ranges to the tables of a snapshot, in the order of the dump, with memory that does not grow with it."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from anachron.core.errors import DataError
from anachron.io.files import atomic, read_json, write_json
from anachron.io.stores import Place
from anachron.wikidata.reading.ranges import (
    BY_BUCKET,
    WHOLE,
    bad_row,
    part_of,
    parts_of_buckets,
    range_file,
    range_folder,
    range_schema,
)
from anachron.wikidata.reading.snapshot import part_name, schemas
from anachron.wikidata.reading.tables import Gathered, gathered

ROW_GROUP = 1 << 16  # rows
MOST_REPEATED = 100_000  # items of one bucket
RUN = (16, 64)  # buckets that are joined in one go, where that keeps all workers at work
# Columns with few distinct values; of ids and texts a dictionary costs time and no byte less than zstd alone.
_DICTIONARY = ["property", "rank", "datatype", "snak", "value_type", "value_extra", "value_calendar"]
_DICTIONARY += [f"{date}.{part}" for date in ("start", "end", "point") for part in ("kind", "calendar", "raw")]
_DICTIONARY += ["created_property", "classes.list.element", "parent"]

Repeated = dict[int, list[int]]  # number of a range -> lines whose entity came before


@dataclass(frozen=True)
class Run:
    """Neighbouring buckets to be joined: from ``ranges`` under ``work`` to the part files of ``out``."""

    numbers: range
    work: Place
    out: Place
    ranges: tuple[int, ...]
    buckets: int  # of a table


def runs_of(buckets: int, workers: int) -> list[range]:
    """All buckets, cut into runs. Each run opens every range once, so there are few, but at least one a worker."""
    least, most = RUN
    length = min(most, -(-buckets // workers), max(least, -(-buckets // (4 * workers))))
    number = -(-buckets // length)
    bounds = [place * buckets // number for place in range(number + 1)]
    return [range(*pair) for pair in pairwise(bounds)]


def merge_run(task: Run) -> list[dict[str, Any]]:
    """Write both tables of each bucket; entities whose id came before in the dump are left out, and returned.

    The result is a report for each (also ``work/bucket-000.json``): ``repeated``: [range, line, offset, id, is a
    subject] each, and how many ``entities`` and ``statements`` were written.
    """
    reports = {number: task.work / f"bucket-{number:03d}.json" for number in task.numbers}
    # Where there is one, both tables are complete: they were written before.
    found = {number: read_json(report) for number, report in reports.items() if report.is_file()}
    left = [number for number in task.numbers if number not in found]
    if left:
        with _gathered(task.work, task.ranges, range(left[0], left[-1] + 1), task.buckets) as parts:
            for number in left:
                found[number] = _merge_bucket(task, number, parts)
                write_json(reports[number], found[number])
    return [found[number] for number in task.numbers]


def _gathered(work: Place, ranges: Iterable[int], numbers: range, buckets: int) -> AbstractContextManager[Gathered]:
    """Those buckets of all the ranges; the number behind the last bucket stands for the tables that are not cut."""
    paths = [range_file(work, number) for number in ranges]
    return gathered(paths, parts_of_buckets(numbers), len(parts_of_buckets(range(buckets + 1))), work)


def _merge_bucket(task: Run, bucket: int, parts: Gathered) -> dict[str, Any]:
    repeated = _repeated(task, bucket, parts)
    lines: Repeated = defaultdict(list)
    for number, line, *_ in repeated:
        lines[number].append(line)
    written = {}
    for table in BY_BUCKET:
        batches = _batches(parts, task.ranges, table, bucket, lines)
        written[table] = write_parquet(task.out / table / part_name(bucket), schemas()[table], batches)
    return {"repeated": repeated, **written}


def _repeated(task: Run, bucket: int, parts: Gathered) -> list[list[Any]]:
    """Entities whose id occurs earlier. Ids of items are compared as numbers, eight bytes each."""

    def entities(which: int) -> pa.RecordBatch:
        return parts.read(which, part_of("entities", bucket), range_schema("entities"))

    ids = [_numbers(entities(which).column("id")) for which in range(len(task.ranges))]
    everything = np.concatenate(ids)
    order = np.argsort(everything, kind="stable")
    ordered = everything[order]
    later = np.sort(order[1:][ordered[1:] == ordered[:-1]])
    if len(later) > MOST_REPEATED:
        raise DataError(
            f"{len(later):,} of {len(everything):,} items in one bucket came before in the dump (at most "
            f"{MOST_REPEATED:,} are set aside): is it one dump appended to another?"
        )
    begins = np.cumsum([0, *map(len, ids)])
    repeated: list[list[Any]] = []
    for place in later.tolist():
        which = int(np.searchsorted(begins, place, side="right")) - 1
        row = entities(which).slice(place - int(begins[which]), 1).to_pylist()[0]
        repeated.append([task.ranges[which], row["row"], row["offset"], row["id"], row["title"] is not None])
    return repeated


def _numbers(ids: pa.Array) -> np.ndarray[Any, Any]:
    return pc.cast(pc.utf8_slice_codeunits(ids, 1), pa.int64()).to_numpy(zero_copy_only=False)


def _batches(
    parts: Gathered, ranges: Iterable[int], table: str, bucket: int, leave_out: Repeated
) -> Iterator[pa.RecordBatch]:
    for which, number in enumerate(ranges):
        batch = parts.read(which, part_of(table, bucket), range_schema(table))
        if leave_out.get(number):
            keep = ~np.isin(batch.column("row").to_numpy(), leave_out[number])
            batch = batch.filter(pa.array(keep))
        if batch.num_rows:
            yield batch


def write_parquet(path: Place, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> int:
    """Write batches of this schema (and more columns) as one file, in groups of `ROW_GROUP` rows. Returns the rows."""
    with atomic(path) as temporary, PartWriter(temporary, schema) as writer:
        for batch in batches:
            writer.add(batch)
    return writer.rows


class PartWriter:
    """A Parquet file in groups of `ROW_GROUP` rows, however many come at once. The same rows give the same bytes."""

    def __init__(self, path: Place, schema: pa.Schema) -> None:
        self.rows = 0
        self._schema = schema
        self._writer = pq.ParquetWriter(str(path), schema, compression="zstd", use_dictionary=_DICTIONARY)
        self._waiting: list[pa.RecordBatch] = []
        self._held = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch.select(self._schema.names))
        self._held += batch.num_rows
        self.rows += batch.num_rows
        while self._held >= ROW_GROUP:
            table = pa.Table.from_batches(self._waiting)
            self._writer.write_table(table.slice(0, ROW_GROUP), row_group_size=ROW_GROUP)
            self._waiting, self._held = table.slice(ROW_GROUP).to_batches(), self._held - ROW_GROUP

    def __enter__(self) -> "PartWriter":
        return self

    def __exit__(self, failed: object, *_: object) -> None:
        if failed is None and (self._held or not self.rows):
            self._writer.write_table(pa.Table.from_batches(self._waiting, self._schema), row_group_size=ROW_GROUP)
        self._writer.close()


def merge_rest(
    work: Place, out: Place, ranges: list[dict[str, Any]], buckets: int, repeated: list[list[Any]]
) -> tuple[list[list[Any]], int]:
    """Write properties, class edges and bad.jsonl.

    ``ranges`` are the contents of done.json in order, ``repeated`` the items found by `merge_run`. Returns the
    properties whose id came before, and how many class edges there are.
    """
    numbers = [range_["range"] for range_ in ranges]
    leave_out: Repeated = defaultdict(list)
    for number, line, *_ in repeated:
        leave_out[number].append(line)
    properties: list[list[Any]] = []
    seen: set[str] = set()
    counts = {}
    with _gathered(work, numbers, range(buckets, buckets + 1), buckets) as parts:
        for which, number in enumerate(numbers):
            batch = parts.read(which, part_of("properties", buckets), range_schema("properties"))
            for row in batch.to_pylist():
                if row["id"] in seen:
                    properties.append([number, row["row"], row["offset"], row["id"], False])
                    leave_out[number].append(row["row"])
                seen.add(row["id"])
        for table in WHOLE:
            batches = _batches(parts, numbers, table, buckets, leave_out)
            counts[table] = write_parquet(out / f"{table}.parquet", schemas()[table], batches)
    _write_bad(work, out, ranges, [*repeated, *properties])
    return properties, counts["classes"]


def _write_bad(work: Place, out: Place, ranges: list[dict[str, Any]], repeated: list[list[Any]]) -> None:
    """Broken and repeated entities in the order of the dump; positions become those in its whole text."""
    of_range: dict[int, list[bytes]] = defaultdict(list)
    for number, _, offset, id, _ in repeated:
        of_range[number].append(bad_row(offset, f"{id} came before in this dump; the first one is kept", id, b""))
    base = 0
    with atomic(out / "bad.jsonl") as temporary, temporary.open("wb") as file:
        for range_ in ranges:
            rows = [*of_range[range_["range"]], *_rows_of(work, range_)]
            for row in sorted(map(json.loads, rows), key=lambda row: row["position"]):
                row["position"] += base
                file.write(json.dumps(row, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
            base += range_["text_bytes"]


def _rows_of(work: Place, range_: dict[str, Any]) -> list[bytes]:
    if not range_["bad"] and not range_["values_left_out"]:
        return []
    return (range_folder(work, range_["range"]) / "bad.jsonl").read_bytes().splitlines()
