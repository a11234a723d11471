"""Arrow tables of one range: rows collected, ordered by bucket, written as one batch a bucket, and read back.

The files under ``work/`` are Arrow IPC: a batch is found by its number without reading the others, so that joining a
bucket over thousands of ranges costs a seek each.
"""

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from anachron.errors import DataError
from anachron.io import atomic

ROW = pa.field("row", pa.int32())  # number of the entity among the lines of its range
OFFSET = pa.field("offset", pa.int64())  # where its line begins in the text of the range
_FLUSH = 1 << 15  # rows kept as Python objects before they become Arrow
_COMPRESSION = "zstd"


class Collector:
    """Rows of one table, kept as Arrow as soon as there are many."""

    def __init__(self, schema: pa.Schema, key: str | None = None, buckets: int = 1) -> None:
        """``key`` is the column whose bucket decides; without one there is a single bucket."""
        self._schema = schema
        self._key = key
        self._buckets = buckets
        self.rows: list[tuple[Any, ...]] = []
        self._batches: list[pa.RecordBatch] = []

    def flush_if_many(self) -> None:
        if len(self.rows) >= _FLUSH:
            self._flush()

    def _flush(self) -> None:
        columns = zip(*self.rows, strict=True) if self.rows else ((),) * len(self._schema)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, self._schema, strict=True)]
        self._batches.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        self.rows.clear()

    def write(self, path: Path) -> None:
        """One record batch a bucket, rows in the order they came."""
        self._flush()
        table = pa.Table.from_batches(self._batches, self._schema).combine_chunks()
        ends = [len(table)]
        if self._key is not None:
            ids = table.column(self._key)
            crcs = np.fromiter((zlib.crc32(id) for id in _as_bytes(ids)), np.uint32, len(table))
            of_row = (crcs % self._buckets).astype(np.int32)
            table = table.take(pa.array(np.argsort(of_row, kind="stable")))
            ends = np.cumsum(np.bincount(of_row, minlength=self._buckets)).tolist()
        options = pa.ipc.IpcWriteOptions(compression=_COMPRESSION)
        with (
            atomic(path) as temporary,
            pa.OSFile(str(temporary), "wb") as sink,
            pa.ipc.new_file(sink, self._schema, options=options) as writer,
        ):
            begin = 0
            for end in ends:
                part = table.slice(begin, end - begin).combine_chunks().to_batches()
                writer.write_batch(part[0] if part else _empty(self._schema))
                begin = end


def _as_bytes(column: pa.ChunkedArray) -> list[bytes]:
    return [value for chunk in column.chunks for value in chunk.cast(pa.binary()).to_pylist()]


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


def read_bucket(path: Path, bucket: int, columns: list[str] | None = None) -> pa.RecordBatch:
    """The batch of one bucket of a file written by `Collector.write`."""
    try:
        with pa.memory_map(str(path)) as source:
            options = pa.ipc.IpcReadOptions()
            if columns is not None:
                names = pa.ipc.open_file(source).schema.names
                options = pa.ipc.IpcReadOptions(included_fields=sorted(names.index(name) for name in columns))
            return pa.ipc.open_file(source, options=options).get_batch(bucket)
    except (OSError, pa.ArrowInvalid, ValueError) as error:
        raise DataError(
            f"cannot read {path}: {error}; remove the folder of that range and repeat the command"
        ) from error


def read_batches(path: Path) -> Iterator[pa.RecordBatch]:
    yield read_bucket(path, 0)
