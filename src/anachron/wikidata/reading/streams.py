"""The text of a compressed file, from beginning to end, with the check that the file is whole."""

import zlib
from collections.abc import Iterator
from typing import Any, Literal

from anachron.core.errors import BackendError, DataError
from anachron.io.stores import Place
from anachron.wikidata.reading.bzip2 import Bzip2File, Chain, check_chains

Compression = Literal["none", "gz", "bz2", "zst"]
MIB = 1 << 20
LONGEST_WINDOW = 1 << 31  # bytes: that of zstd --long=31, the widest; it is only taken by files that state it
CHUNK = MIB  # bytes read or decompressed at once


def text_of(
    path: Place, compression: Compression, threads: int = 1, file_position: list[int] | None = None
) -> Iterator[bytes]:
    """The whole text, in pieces that are never empty; ``file_position`` is told how far the file is.

    ``threads`` matters to bz2 alone. Raises `DataError` with the position for a file that is cut off or damaged.
    """
    position = [0] if file_position is None else file_position
    if compression == "none":
        return _plain_text(path, position)
    if compression == "bz2":
        return _bzip2_text(path, threads, position)
    return _gzip_text(path, position) if compression == "gz" else _zstd_text(path, position)


def _plain_text(path: Place, position: list[int]) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            position[0] = file.tell()
            yield chunk


def _bzip2_text(path: Place, threads: int, position: list[int]) -> Iterator[bytes]:
    chain = Chain(path)
    with Bzip2File(path) as file:
        for unit in file.units(0, file.size, threads):
            chain.add(unit)
            position[0] = unit.after // 8
            if unit.text:
                yield unit.text
        check_chains(path, file.size, [chain.as_dict()])


def _gzip_text(path: Place, position: list[int]) -> Iterator[bytes]:
    from isal import igzip, isal_zlib

    broken: Any = (OSError, zlib.error, isal_zlib.IsalError)
    done = 0
    with path.open("rb") as file:
        try:
            with igzip.IGzipFile(fileobj=file, mode="rb") as text:
                while chunk := text.read(CHUNK):
                    position[0] = file.tell()
                    yield chunk
                    done += len(chunk)
        except EOFError:
            raise _cut_off(path, "gz", done) from None
        except broken as error:
            raise _broken(path, "gz", done, error) from error


def _zstd_text(path: Place, position: list[int]) -> Iterator[bytes]:
    import zstandard

    done = 0
    with path.open("rb") as file:
        frames = zstandard.ZstdDecompressor(max_window_size=LONGEST_WINDOW)
        frame, data, fresh = frames.decompressobj(), b"", True
        try:
            while data := data or file.read(CHUNK // 8):
                chunk = frame.decompress(data)
                data, fresh = b"", False
                if frame.eof:
                    frame, data, fresh = frames.decompressobj(), frame.unused_data, True
                if chunk:
                    position[0] = file.tell()
                    yield chunk
                    done += len(chunk)
        except zstandard.ZstdError as error:
            if "memory" in str(error):
                raise BackendError(
                    f"{path}: its zstd window needs more memory than there is ({error}); use fewer --workers, or "
                    "compress it again without --long"
                ) from error
            raise _broken(path, "zst", done, error) from error
    if not fresh:
        raise _cut_off(path, "zst", done)


def _cut_off(path: Place, kind: str, done: int) -> DataError:
    return DataError(
        f"{path}: the {kind} file is cut off at byte {path.stat().st_size:,}, after {done:,} bytes of text; "
        "fetch the rest of it, then repeat the command"
    )


def _broken(path: Place, kind: str, done: int, error: Exception) -> DataError:
    return DataError(
        f"{path}: the {kind} file is damaged after {done:,} bytes of text ({error}); compare it with "
        "its published checksum and fetch it again"
    )


class Stream:
    """A text that can only be read on, with its position; pieces that were read too early can be handed back."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._back: list[bytes] = []
        self.position = 0
        self.ended = False

    def next(self, most: int) -> bytes:
        """The next piece of at most ``most`` bytes; empty at the end."""
        chunk = self._back.pop() if self._back else next(self._chunks, b"")
        if len(chunk) > most:
            self._back.append(chunk[most:])
            chunk = chunk[:most]
        self.position += len(chunk)
        return chunk

    def hand_back(self, pieces: list[bytes]) -> None:
        self._back.extend(reversed(pieces))
        self.position -= sum(map(len, pieces))

    def skip(self, until: int) -> None:
        while self.position < until and self.next(until - self.position):
            pass
        self.look_for_end()

    def look_for_end(self) -> None:
        piece = self.next(1 << 62)
        self.ended = not piece
        if piece:
            self.hand_back([piece])
