"""Enter a bz2 file at any byte: find its blocks, decompress them one by one, and prove that none is missing.

A bz2 stream is a header ``BZh1`` to ``BZh9``, blocks, and an end mark with a checksum of the whole stream. Blocks
and end marks begin with 48-bit magic numbers at any *bit* of the file, and every block has a checksum of its own.
The same 48 bits can occur inside a block by chance (in a file of 93 GiB in one case of two hundred): a block that does
not decompress is therefore tried again together with what follows, before it counts as damaged.

A file may hold several streams one after another (pbzip2, lbzip2, plain concatenation), empty ones included.
"""

import bz2
import re
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

from anachron.core.errors import DataError
from anachron.io.stores import Blocks, Place, place

BLOCK, END = 0x314159265359, 0x177245385090
MAX_BLOCK = 8 * 1_100_000  # bits; 900,000 bytes that cannot be compressed grow by about a hundredth
_WINDOW = 1 << 20
_HEADER = re.compile(rb"BZh[1-9]")
_MASK = (1 << 48) - 1


class Unit(NamedTuple):
    """A block, or the end of a stream (``text`` None): the bits where it begins and where the next unit must begin."""

    bit: int
    after: int  # for the last end of the file: the bit of the end of the file
    crc: int
    text: bytes | None


class Mark(NamedTuple):
    bit: int
    is_end: bool


def _needles() -> list[tuple[bytes, int, int, bool]]:
    """What to search for: the whole bytes inside each magic at each shift, bytes before them, shift, is it an end."""
    needles = []
    for magic, is_end in ((BLOCK, False), (END, True)):
        needles.append((magic.to_bytes(6, "big"), 0, 0, is_end))
        for shift in range(1, 8):
            needles.append(((magic >> shift & (1 << 40) - 1).to_bytes(5, "big"), 1, shift, is_end))
    return needles


class Bzip2File:
    """Random access to the units of a bz2 file; nothing is kept between calls but the open file."""

    def __init__(self, path: Place | str) -> None:
        self.path = place(path)
        self._file = Blocks(self.path)
        self.size = self._file.size
        self._searched = _needles()

    def __enter__(self) -> "Bzip2File":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def bits(self, start: int, end: int) -> int:
        """The bits from ``start`` to ``end`` as a number."""
        data = self._file.read(start // 8, -(-end // 8))
        return int.from_bytes(data, "big") >> (-end % 8) & ((1 << (end - start)) - 1)

    def marks(self, start: int, end: int | None = None) -> Iterator[Mark]:
        """Everything that looks like the begin of a unit at a bit from ``start`` on (and before ``end``), in order."""
        last = 8 * self.size if end is None else end
        for base in range(start // 8, -(-last // 8), _WINDOW):
            data = self._file.read(base, base + _WINDOW + 7)
            in_chunk: list[Mark] = []
            for needle, before, shift, is_end in self._searched:
                at = data.find(needle)
                while at >= 0:
                    bit = 8 * (at - before) + shift
                    whole = int.from_bytes(data[at - before : at - before + 7].ljust(7, b"\0"), "big")
                    right = at >= before and (whole >> (8 - shift) & _MASK) == (END if is_end else BLOCK)
                    if right and bit + 48 <= 8 * len(data) and bit < 8 * _WINDOW and start <= 8 * base + bit < last:
                        in_chunk.append(Mark(8 * base + bit, is_end))
                    at = data.find(needle, at + 1)
            yield from sorted(in_chunk)

    def decompress(self, start: int, end: int) -> bytes | None:
        """The text of the block in these bits, or None where they are not exactly one sound block."""
        if end - start < 80:
            return None
        block = self.bits(start, end)
        crc = block >> (end - start - 80) & 0xFFFFFFFF
        total = (block << 80) | (END << 32) | crc
        length = end - start + 80
        padded = total << (-length % 8)
        decompressor = bz2.BZ2Decompressor()
        try:
            text = decompressor.decompress(b"BZh9" + padded.to_bytes(-(-length // 8), "big"))
        except (OSError, EOFError, ValueError):
            return None
        return text if decompressor.eof and not decompressor.unused_data else None

    def end_of_stream(self, bit: int) -> Unit | None:
        """The end of a stream at this bit with the place where the next stream's first unit must begin.

        None where what follows is neither a stream nor the end of the file: then the mark is not an end.
        """
        behind = -(-(bit + 80) // 8)
        if behind > self.size:
            raise _truncated(self.path, self.size)
        crc = self.bits(bit + 48, bit + 80)
        if behind == self.size:
            return Unit(bit, 8 * behind, crc, None)
        header = self._file.read(behind, behind + 10)
        if len(header) < 10 and b"BZh".startswith(header[:3]):
            raise _truncated(self.path, self.size)
        if not _HEADER.match(header):
            return None
        if int.from_bytes(header[4:], "big") not in (BLOCK, END):
            return None
        return Unit(bit, 8 * behind + 32, crc, None)

    def units(self, start: int, end: int, threads: int = 1) -> Iterator[Unit]:
        """The units that begin at bytes ``start`` to ``end`` - 1, and then those after them, as long as one asks.

        ``threads`` blocks are decompressed at once (the module `bz2` lets other threads run), ahead of the consumer.
        Raises `DataError`, with the position, for a file that is cut off or damaged.
        """
        marks = _Lookahead(self.marks(8 * start))
        with ThreadPoolExecutor(threads) as pool:
            try:
                known = self._first(marks, start)
                yield from self._in_order(marks, pool, threads, known, 8 * end)
            finally:
                pool.shutdown(cancel_futures=True)

    def _first(self, marks: "_Lookahead", start: int) -> int | None:
        """Where the first true unit from ``start`` on must begin: known at the begin of the file, else found out."""
        if start == 0:
            header = self._file.read(0, 10)
            if not _HEADER.match(header) or int.from_bytes(header[4:], "big") not in (BLOCK, END):
                raise _truncated(self.path, self.size) if self.size < 14 else _damaged(self.path, 0)
            return 32
        while (first := marks.peek(0)) is not None:
            if self._is_unit(first, marks):
                return first.bit
            covering = self._covering(first, marks)
            if covering is None:
                raise _damaged(self.path, first.bit // 8)
            while (mark := marks.peek(0)) is not None and mark.bit < covering:
                marks.take()
        return None

    def _is_unit(self, mark: Mark, marks: "_Lookahead") -> bool:
        return (self.end_of_stream(mark.bit) if mark.is_end else self._joined(mark.bit, marks, 1)) is not None

    def _joined(self, bit: int, marks: "_Lookahead", ahead: int) -> tuple[int, bytes] | None:
        """The block at this bit that ends at one of the marks from number ``ahead`` on, and where it ends."""
        while (mark := marks.peek(ahead)) is not None and mark.bit - bit <= MAX_BLOCK:
            text = self.decompress(bit, mark.bit)
            if text is not None:
                return mark.bit, text
            ahead += 1
        return None

    def _covering(self, mark: Mark, marks: "_Lookahead") -> int | None:
        """The end of a block that begins before this mark and goes on behind it: the mark is then no unit."""
        for before in self.marks(max(0, mark.bit - MAX_BLOCK), mark.bit):
            if not before.is_end and (joined := self._joined(before.bit, marks, 1)) is not None:
                return joined[0]
        return None

    def _in_order(
        self, marks: "_Lookahead", pool: ThreadPoolExecutor, threads: int, known: int | None, end: int
    ) -> Iterator[Unit]:
        waiting: deque[tuple[Mark, int, Future[bytes | None] | None]] = deque()
        submitted = 0  # how many of the marks in `marks`, counted from its front, are in `waiting`
        while True:
            while len(waiting) < 2 * threads and (mark := marks.peek(submitted)) is not None:
                following = marks.peek(submitted + 1)
                if waiting and mark.bit >= end:  # perhaps nobody asks for what lies behind the range
                    break
                future: Future[Any] | None = None
                if not mark.is_end and following is not None:
                    future = pool.submit(self.decompress, mark.bit, following.bit)
                waiting.append((mark, following.bit if following else 0, future))
                submitted += 1
            if not waiting:
                if known is not None and known != 8 * self.size:
                    raise _truncated(self.path, self.size)
                return
            mark, after, future = waiting.popleft()
            if known is not None and mark.bit != known:
                raise _damaged(self.path, known // 8)
            unit = self._unit(mark, after, future, marks)
            known = unit.after
            while (front := marks.peek(0)) is not None and front.bit < known:
                marks.take()
                submitted = max(submitted - 1, 0)
                if waiting and waiting[0][0].bit < known:
                    waiting.popleft()
            yield unit

    def _unit(self, mark: Mark, after: int, future: "Future[bytes | None] | None", marks: "_Lookahead") -> Unit:
        if mark.is_end:
            unit = self.end_of_stream(mark.bit)
            if unit is None:
                raise _damaged(self.path, mark.bit // 8)
            return unit
        if future is None:
            raise _truncated(self.path, self.size)
        text = future.result()
        if text is None:
            joined = self._joined(mark.bit, marks, 2)
            if joined is None:
                raise _damaged(self.path, mark.bit // 8)
            after, text = joined
        return Unit(mark.bit, after, self.bits(mark.bit + 48, mark.bit + 80), text)


class _Lookahead:
    """An iterator of marks whose coming ones can be looked at."""

    def __init__(self, marks: Iterator[Mark]) -> None:
        self._marks = marks
        self._seen: deque[Mark] = deque()

    def peek(self, number: int) -> Mark | None:
        while len(self._seen) <= number:
            mark = next(self._marks, None)
            if mark is None:
                return None
            self._seen.append(mark)
        return self._seen[number]

    def take(self) -> None:
        self._seen.popleft()


class Chain:
    """What the units of one range add up to, small enough to be kept, so that all ranges can be joined and proved.

    The checksum of a stream is made of those of its blocks, one after another: rotate left by one bit, then
    exclusive or. Over n blocks that is linear, so a range needs only n and the value from zero for the streams that
    reach over its borders; streams that lie within are checked at once.
    """

    def __init__(self, path: Place) -> None:
        self.path = path
        self.first: int | None = None  # bit of the first unit
        self.after: int | None = None  # bit where the unit after the last one must begin
        self.head: list[int] | None = None  # blocks, checksum from zero, stored checksum: up to the first end
        self.open: list[int] = [0, 0]  # blocks and checksum since the last end

    def add(self, unit: Unit) -> None:
        if self.first is None:
            self.first = unit.bit
        self.after = unit.after
        if unit.text is not None:
            self.open = [self.open[0] + 1, _rotate(self.open[1], 1) ^ unit.crc]
            return
        if self.head is None:
            self.head = [*self.open, unit.crc]
        elif self.open[1] != unit.crc:
            raise _wrong_sum(self.path, unit.bit // 8)
        self.open = [0, 0]

    def as_dict(self) -> dict[str, Any]:
        return {"first": self.first, "after": self.after, "head": self.head, "open": self.open}


def check_chains(path: Place, size: int, chains: list[dict[str, Any]]) -> None:
    """Refuse a file whose ranges (in order) do not join without a gap from its first byte to its last."""
    expected, checksum = 32, 0
    for chain in chains:
        if chain["first"] is None:
            continue
        if chain["first"] != expected:
            raise _damaged(path, expected // 8)
        if chain["head"] is not None:
            blocks, value, stored = chain["head"]
            if _rotate(checksum, blocks) ^ value != stored:
                raise _wrong_sum(path, chain["first"] // 8)
            checksum = 0
        blocks, value = chain["open"]
        checksum = _rotate(checksum, blocks) ^ value
        expected = chain["after"]
    if expected != 8 * size:
        raise _truncated(path, size)


def _rotate(value: int, places: int) -> int:
    places %= 32
    return (value << places | value >> (32 - places)) & 0xFFFFFFFF


def _truncated(path: Place, position: int) -> DataError:
    return DataError(
        f"{path}: the bz2 file is cut off at byte {position:,}; fetch the rest of it, then repeat the command"
    )


def _damaged(path: Place, position: int) -> DataError:
    return DataError(
        f"{path}: the bz2 file is damaged at byte {position:,}; compare it with its published checksum, fetch it again"
    )


def _wrong_sum(path: Place, position: int) -> DataError:
    return DataError(
        f"{path}: the checksum of the bz2 stream that ends after byte {position:,} does not fit its blocks: a block is "
        "missing or was exchanged; fetch the file again"
    )
