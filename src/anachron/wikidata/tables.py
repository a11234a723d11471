"""Tables of one range: rows collected by bucket, written so that a bucket is read back without the others.

A file under ``work/`` is, for each bucket, an Arrow record batch compressed with zstd, and at its end the places where
they begin (eight bytes each). Joining a bucket over thousands of ranges so costs two short reads each.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import zstandard

from anachron.errors import DataError
from anachron.io import atomic

with suppress(ImportError):  # pyarrow would load it at the first array: rather once, before workers are forked
    import pandas  # noqa: F401

_FLUSH = 1 << 13  # rows kept as Python objects before they become Arrow, which takes a tenth of the memory


class Collector:
    """Rows of one table by bucket, kept as Arrow as soon as there are many. Append to ``rows[bucket]``."""

    def __init__(self, schema: pa.Schema, buckets: int = 1) -> None:
        self._schema = schema
        self.rows: list[list[tuple[Any, ...]]] = [[] for _ in range(buckets)]
        self._parts: list[list[pa.RecordBatch]] = [[] for _ in range(buckets)]

    def flush_if_many(self) -> None:
        if sum(map(len, self.rows)) >= _FLUSH:
            self._flush()

    def _flush(self) -> None:
        columns = zip(*[row for rows in self.rows for row in rows], strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, self._schema, strict=False)]
        if not arrays:
            return
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        begin = 0
        for rows, parts in zip(self.rows, self._parts, strict=True):
            if rows:
                parts.append(batch.slice(begin, len(rows)))
                begin += len(rows)
                rows.clear()

    def write(self, path: Path) -> None:
        """One record batch a bucket, rows in the order they came."""
        self._flush()
        compressor = zstandard.ZstdCompressor(level=1)
        begins = np.zeros(len(self._parts) + 1, "<i8")
        with atomic(path) as temporary, temporary.open("wb") as file:
            for bucket, parts in enumerate(self._parts):
                if parts:
                    batch = parts[0] if len(parts) == 1 else pa.concat_batches(parts)
                    file.write(compressor.compress(batch.serialize()))
                begins[bucket + 1] = file.tell()
            file.write(begins.tobytes())


def read_bucket(path: Path, bucket: int, buckets: int, schema: pa.Schema) -> pa.RecordBatch:
    """The batch of one of the ``buckets`` of a file written by `Collector.write`."""
    try:
        with path.open("rb") as file:
            file.seek(-8 * (buckets + 1 - bucket), 2)
            begin, end = np.frombuffer(file.read(16), "<i8").tolist()
            if begin == end:
                return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
            file.seek(begin)
            data = zstandard.ZstdDecompressor().decompress(file.read(end - begin))
            return pa.ipc.read_record_batch(pa.py_buffer(data), schema)
    except (OSError, ValueError, zstandard.ZstdError) as error:
        raise DataError(f"cannot read {path}: {error}; remove its folder and repeat the command") from error
