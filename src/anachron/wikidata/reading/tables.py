"""Tables of one range: rows collected by bucket, written so that neighbouring buckets are read back in one piece.

A file under ``work/`` is a row of parts, each an Arrow record batch compressed with zstd or nothing at all, and at its
end the places where they begin (eight bytes each). Who joins a run of buckets over thousands of ranges opens each
range once and reads twice (`gathered`). The footer of Parquet with a row group a bucket is as large as the rows.
"""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import zstandard

from anachron.core.errors import BackendError, DataError, unwritable
from anachron.io.files import atomic
from anachron.io.stores import Place, map_places, parts_of

_FLUSH = 1 << 11  # rows kept as Python objects: few enough to be in the processor's cache when they become Arrow
IN_MEMORY = 64 << 20  # bytes of what is gathered; beyond them it goes to a temporary file
_FILES = 64  # from which parts are held until they are written there


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

    def by_bucket(self) -> Iterator[pa.RecordBatch]:
        """One record batch a bucket, rows in the order they came. Nothing stays here."""
        if self._rows:
            self._flush()
        buckets = np.array(self._buckets, np.int32)
        rows = _empty(self._schema)
        if self._parts:
            rows = pa.concat_batches(self._parts).take(pa.array(np.argsort(buckets, kind="stable")))
        self._parts.clear()
        self._buckets.clear()
        begin = 0
        for end in np.cumsum(np.bincount(buckets, minlength=self._count)).tolist():
            yield rows.slice(begin, end - begin)
            begin = end


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def write_parts(path: Place, parts: Iterable[pa.RecordBatch]) -> None:
    """Write record batches, of any schemas, one behind another."""
    compressor = zstandard.ZstdCompressor(level=1)
    begins = [0]
    with atomic(path) as temporary, temporary.open("wb") as file:
        for part in parts:
            if part.num_rows:
                file.write(compressor.compress(part.serialize()))
            begins.append(file.tell())
        file.write(np.array(begins, "<i8").tobytes())


class Gathered:
    """The same neighbouring parts of many files, brought together by `gathered`."""

    def __init__(self, paths: list[Place], first: int, begins: list[list[int]], file: IO[bytes]) -> None:
        self._paths, self._first, self._begins, self._file = paths, first, begins, file

    def read(self, number: int, part: int, schema: pa.Schema) -> pa.RecordBatch:
        """One part of the file of this number, numbered as in the file. Raises `DataError` where it is damaged."""
        begin, end = self._begins[number][part - self._first : part - self._first + 2]
        if begin == end:
            return _empty(schema)
        self._file.seek(begin)
        data = self._file.read(end - begin)
        try:
            return pa.ipc.read_record_batch(pa.py_buffer(zstandard.ZstdDecompressor().decompress(data)), schema)
        except (OSError, ValueError, zstandard.ZstdError) as error:
            raise _unreadable(self._paths[number], error) from error


@contextmanager
def gathered(paths: list[Place], parts: range, total: int, work: Place) -> Iterator[Gathered]:
    """Neighbouring ``parts`` of files of `write_parts`, each of which has ``total`` of them and is opened once.

    work: in this folder lies the temporary file of what memory shall not hold; if that is of a store, in the one of
    this machine. Raises `DataError` for a file that cannot be read, `BackendError` where the disk is full.
    """

    def read(path: Place) -> tuple[list[int], bytes]:
        return _read_parts(path, parts, total)

    folder = str(work) if isinstance(work, Path) else None
    begins: list[list[int]] = []
    with tempfile.SpooledTemporaryFile(IN_MEMORY, dir=folder) as file:
        for first in range(0, len(paths), _FILES):
            for lengths, data in map_places(read, paths[first : first + _FILES]):
                begins.append([file.tell() + length for length in lengths])
                try:
                    file.write(data)
                except OSError as error:
                    lost = unwritable(f"a temporary file in {folder or tempfile.gettempdir()}", error)
                    raise BackendError(f"{lost}, and repeat the command") from error
        yield Gathered(paths, parts.start, begins, file)


def _read_parts(path: Place, parts: range, total: int) -> tuple[list[int], bytes]:
    """Where each of the parts begins and the last ends, counted from the first, and their bytes."""
    count = len(parts) + 1
    try:
        with parts_of(path) as read:
            begins = np.frombuffer(read(-8 * (total + 1 - parts.start), 8 * count), "<i8").tolist()
            if len(begins) < count:
                raise ValueError("it is cut off")
            begin, end = begins[0], begins[-1]
            data = read(begin, end - begin) if begin < end else b""
            if len(data) != end - begin:
                raise ValueError("it is cut off")
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    return [at - begin for at in begins], data


def _unreadable(path: Place, error: Exception) -> DataError:
    return DataError(f"cannot read {path}: {error}; remove its folder and repeat the command")
