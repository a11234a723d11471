"""Ranges of a gz or zst file for the workers of one machine: the file is read and decompressed once, by who hands out.

The text of a range lies in a file in memory that has no name, which a worker reads through the table of open files of
the process that made it (``/proc/PID/fd/N``). So it goes with that process, however that ends, it is copied once into
memory and once out, and the size of ``/dev/shm`` does not matter. Linux alone has such files.
"""

import os
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from anachron.core.errors import AnachronError
from anachron.wikidata.reading.dump import LONGEST_LINE, Dump, Range, pieces, texts, whole_lines

CAN_HAND_OUT = sys.platform == "linux"


@dataclass(frozen=True)
class Handed:
    """One range, for a worker: what is known of it, and where its text lies.

    The first ``text_bytes`` of the file ``path`` are its text; up to ``length`` the end of its last line follows.
    """

    number: int
    path: Path
    text_bytes: int
    length: int
    last: bool
    file_position: int


def read_handed(dump: Dump, handed: Handed) -> Range:
    """The range that was handed out; its lines are read as one asks."""
    range_ = Range(handed.number, handed.text_bytes, handed.last, file_position=handed.file_position)
    within = pieces(handed.path, 0, handed.text_bytes)
    range_.lines = whole_lines(dump, range_, within, pieces(handed.path, handed.text_bytes, handed.length))
    return range_


class HandOut:
    """The ranges of a file but those in ``skip``, in order, as one asks for them. Use it as a context manager.

    Whoever takes them says of the oldest that it is `done`; the memory of its text is then used for another. An error
    in the file ends the ranges, so that those before it are finished, and is raised by `check`.
    """

    def __init__(self, dump: Dump, skip: frozenset[int] = frozenset()) -> None:
        self._dump, self._skip = dump, skip
        self._free: list[BinaryIO] = []
        self._given: deque[BinaryIO] = deque()
        self._error: Exception | None = None

    def __enter__(self) -> "HandOut":
        return self

    def __exit__(self, *_: object) -> None:
        for file in (*self._free, *self._given):
            file.close()

    def __iter__(self) -> Iterator[Handed]:
        try:
            for range_, within, beyond in texts(self._dump, 0, 1, self._skip):
                file = self._free.pop() if self._free else _memory()
                self._given.append(file)
                length = _write(file, range_, within, beyond)
                path = Path(f"/proc/{os.getpid()}/fd/{file.fileno()}")
                yield Handed(range_.number, path, range_.text_bytes, length, range_.last, range_.file_position)
        except (AnachronError, OSError) as error:
            self._error = error

    def done(self) -> None:
        """The oldest range that was given and is not done, is now."""
        self._free.append(self._given.popleft())

    def check(self) -> None:
        """Raise the error that ended the ranges, where it was not the end of the file."""
        if self._error is not None:
            raise self._error


def _memory() -> BinaryIO:
    assert sys.platform == "linux"
    return os.fdopen(os.memfd_create("anachron-range"), "wb")


def _write(file: BinaryIO, range_: Range, within: Iterator[bytes], beyond: Iterator[bytes]) -> int:
    """Write the text of a range and the end of its last line over what the file held; returns how many bytes."""
    file.seek(0)
    goes_on = range_.number == 0  # whether it owns the line that it ends in: see `anachron.wikidata.reading.dump`
    for piece in within:
        file.write(piece)
        goes_on = goes_on or b"\n" in piece
    if goes_on:
        for piece in beyond:
            end = piece.find(b"\n") + 1
            file.write(piece[:end] if end else piece)
            if end or file.tell() - range_.text_bytes > LONGEST_LINE:  # which the reader of the range refuses
                break
    beyond.close()  # type: ignore[attr-defined]
    file.flush()
    return file.tell()
