"""Tables of one range: rows collected by bucket, written so that a bucket is read back without the others.

A file under ``work/`` is, for each bucket, an Arrow record batch compressed with zstd, and at its end the places where
they begin (eight bytes each). Joining a bucket over thousands of ranges so costs two short reads each.
"""

from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import zstandard

from anachron.errors import DataError
from anachron.io import atomic
from anachron.stores import Place, parts_of

with suppress(ImportError):  # pyarrow would load it at the first array: rather once, before workers are forked
    import pandas  # noqa: F401

_FLUSH = 1 << 11  # rows kept as Python objects: few enough to be in the processor's cache when they become Arrow


class Collector:
    """Rows of one table, each of a bucket, kept as Arrow as soon as there are many."""

    def __init__(self, schema: pa.Schema, buckets: int = 1) -> None:
        self._schema = schema
        self._count = buckets
        self._rows: list[tuple[Any, ...]] = []
        self._buckets: list[int] = []  # of each row, parts first
        self._parts: list[pa.RecordBatch] = []

    def add(self, rows: list[tuple[Any, ...]], bucket: int = 0) -> None:
        self._rows += rows
        self._buckets += [bucket] * len(rows)
        if len(self._rows) >= _FLUSH:
            self._flush()

    def _flush(self) -> None:
        columns = zip(*self._rows, strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, self._schema, strict=True)]
        self._parts.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        self._rows.clear()

    def write(self, path: Place) -> None:
        """One record batch a bucket, rows in the order they came."""
        if self._rows:
            self._flush()
        buckets = np.array(self._buckets, np.int32)
        ends = np.cumsum(np.bincount(buckets, minlength=self._count)).tolist()
        begins = np.zeros(self._count + 1, "<i8")
        compressor = zstandard.ZstdCompressor(level=1)
        with atomic(path) as temporary, temporary.open("wb") as file:
            if self._parts:
                rows = pa.concat_batches(self._parts).take(pa.array(np.argsort(buckets, kind="stable")))
            begin = 0
            for bucket, end in enumerate(ends):
                if begin < end:
                    file.write(compressor.compress(rows.slice(begin, end - begin).serialize()))
                begins[bucket + 1] = file.tell()
                begin = end
            file.write(begins.tobytes())


def read_bucket(path: Place, bucket: int, buckets: int, schema: pa.Schema) -> pa.RecordBatch:
    """The batch of one of the ``buckets`` of a file written by `Collector.write`."""
    try:
        with parts_of(path) as read:
            begin, end = np.frombuffer(read(-8 * (buckets + 1 - bucket), 16), "<i8").tolist()
            if begin == end:
                return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
            data = zstandard.ZstdDecompressor().decompress(read(begin, end - begin))
            return pa.ipc.read_record_batch(pa.py_buffer(data), schema)
    except (OSError, ValueError, zstandard.ZstdError) as error:
        raise DataError(f"cannot read {path}: {error}; remove its folder and repeat the command") from error
