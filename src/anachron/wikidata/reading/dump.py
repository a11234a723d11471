"""Dump files, cut into ranges of whole lines that can be read apart; or several small files, which are one range.

A range is a function of the file alone. Plain files and bz2 are cut by bytes of the file, and a range is entered
directly; gz and zst cannot be entered in the middle and are cut by bytes of their text, so whoever wants a range
decompresses what lies before it. Workers of one machine are therefore given their text
(`anachron.wikidata.reading.handing`); those of a cluster decompress the file each.

The text of a range is what its bytes hold (for bz2: the blocks that begin in it). A range *owns* the lines that follow
a line break in its text, and the first range owns the first line too: so each line of the file has one owner, and a
range can be read without knowing how the one before it ended.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Literal

from anachron.core.errors import ConfigError, DataError
from anachron.io.stores import Place, place
from anachron.wikidata.reading.bzip2 import Bzip2File, Chain
from anachron.wikidata.reading.streams import CHUNK, MIB, Compression, Stream, text_of

BOM = b"\xef\xbb\xbf"  # of UTF-8
RANGE_BYTES: dict[Compression, int] = {"none": 64 * MIB, "gz": 64 * MIB, "bz2": 8 * MIB, "zst": 64 * MIB}
MOST_RANGES = 4096  # a larger file is cut into larger ranges, so that joining them stays cheap
TEXT_PER_BYTE: dict[Compression, int] = {"none": 1, "gz": 16, "bz2": 1, "zst": 16}  # a guess, to bound the ranges
LONGEST_LINE = 256 * MIB  # the largest entity of Wikidata takes about 5 MB
LARGEST = 512 * MIB  # of several files together, which one worker reads
ENDINGS = (".json", ".gz", ".bz2", ".zst")  # of the files that are read of a folder
# Text that begins one JSON document: an answer of Wikibase, or what is laid out over several lines.
_DOCUMENT = re.compile(rb'\{\s*"(?:entities|success|warnings)"|\[?\s*\{[ \t\r]*\n\s*"[a-z]+"\s*:')
_OTHERS = {b"\xfd7zXZ": "xz", b"PK\x03\x04": "zip", b"7z\xbc\xaf": "7z", b"BZ0": "bzip1", b"PAR1": "Parquet"}


@dataclass(frozen=True)
class Dump:
    """A dump file: how it is compressed, how its entities are laid out, and where it is cut.

    ``layout`` is "lines" (with or without the brackets and commas of an array), "document", one JSON document
    (``{"entities": {...}}``, an entity or an array of some), or "files", several of which each has its own.
    ``range_bytes`` counts bytes of the file (plain, bz2) or of its text (gz, zst).
    ``sample`` is a hash of the file's first and last MiB, by which a file is known again.
    """

    path: Place
    compression: Compression
    layout: Literal["lines", "document", "files"]
    size: int
    range_bytes: int
    sample: str
    files: tuple["Dump", ...] = ()

    def __str__(self) -> str:
        return str(self.path.with_name(self.name))

    @property
    def name(self) -> str:
        return self.path.name + (f" and {len(self.files) - 1:,} more files" if self.files else "")

    @property
    def seekable(self) -> bool:
        return self.compression in ("none", "bz2")

    @property
    def ranges(self) -> int | None:
        """How many ranges there are; None where only reading to the end tells (gz, zst)."""
        if self.layout != "lines":
            return 1
        return max(1, -(-self.size // self.range_bytes)) if self.seekable else None


@dataclass
class Range:
    """One range while and after it is read: its number and what is known of its text.

    ``text_bytes`` is the length of its own text, not of its lines. ``last`` tells that nothing follows it.
    ``unended`` tells that its last line has no line break: it is the last of the file. ``chain`` belongs to bz2.
    ``file`` is, of several, the one that the lines last read are of; ``missing`` counts entities that an answer of
    Wikibase says it has not.
    """

    number: int
    text_bytes: int = 0
    last: bool = False
    unended: bool = False
    file_position: int = 0
    chain: dict[str, Any] | None = None
    file: str = ""
    missing: int = 0
    lines: Iterator[tuple[int, list[bytes | memoryview]]] = field(default_factory=lambda: iter(()), repr=False)


def open_dump(path: Place | str, range_bytes: int | None = None) -> Dump:
    """Look at a dump: its compression by its first bytes, its layout by the begin of its text.

    Raises `DataError` for a file that is missing, empty, or no dump, and `ConfigError` for ranges below one byte.
    """
    path = place(path)
    if range_bytes is not None and range_bytes < 1:
        raise ConfigError(f"range_bytes {range_bytes}: a range has at least one byte")
    try:
        if not path.is_file():
            raise DataError(f"{path}: no such file; give the path of a dump (.json, .json.gz, .json.bz2, .json.zst)")
        with path.open("rb") as file:
            size = path.stat().st_size
            begin = file.read(MIB)
            sample = _sample(file, size)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    if not begin:
        raise DataError(f"{path} is empty; fetch the dump again")
    compression = _compression(path, begin)
    if range_bytes is None:
        range_bytes = max(RANGE_BYTES[compression], size * TEXT_PER_BYTE[compression] // MOST_RANGES)
    return Dump(path, compression, _layout(path, compression), size, range_bytes, sample)


def open_dumps(paths: Iterable[Place | str], range_bytes: int | None = None) -> Dump:
    """One dump; or several small files as one, of folders those whose names end as a dump's do, in their order.

    Raises `DataError` as `open_dump`, for a folder without such files and for more than `LARGEST` bytes of several.
    """
    files: list[Place] = []
    for path in (place(path).absolute() for path in paths):  # workers may have other working directories
        if path.is_dir() and not path.is_file():
            found = sorted(file for file in path.iterdir() if _is_dump(file.name))
            if not found:
                raise DataError(
                    f"{path} holds no file that ends in {', '.join(ENDINGS)}; give a dump or a folder of some"
                )
            files += found
        else:
            files.append(path)
    if len(files) == 1:
        return open_dump(files[0], range_bytes)
    dumps = tuple(open_dump(file) for file in files)
    if (size := sum(dump.size for dump in dumps)) > LARGEST:
        raise DataError(
            f"{len(files):,} files of {size:,} bytes together: several are read as one piece, of up to {LARGEST:,}; "
            "ingest a whole dump as one file"
        )
    sample = hashlib.sha256("".join(dump.sample for dump in dumps).encode()).hexdigest()
    largest = max(dumps, key=lambda dump: dump.size)
    return Dump(files[0], largest.compression, "files", size, size, sample, dumps)


def _is_dump(name: str) -> bool:
    return name.endswith(ENDINGS) and not name.startswith(".") and not name.endswith("manifest.json")


def _sample(file: BinaryIO, size: int) -> str:
    """Hash of the first and the last MiB of the first ``size`` bytes."""
    file.seek(0)
    begin = file.read(min(size, MIB))
    file.seek(max(0, size - MIB))
    return hashlib.sha256(begin + file.read(min(size, MIB))).hexdigest()


def continues(dump: Dump, size: int, sample: str) -> bool:
    """Whether a file of this size and sample, seen before, was a part of the dump: its begin, before the rest came."""
    if size >= dump.size or dump.files:
        return False
    with dump.path.open("rb") as file:
        return _sample(file, size) == sample


def _compression(path: Place, begin: bytes) -> Compression:
    if begin.startswith(b"\x1f\x8b"):
        return "gz"
    if begin.startswith(b"BZh"):
        return "bz2"
    if begin.startswith(b"\x28\xb5\x2f\xfd") or (begin[1:4] == b"\x2a\x4d\x18" and 0x50 <= begin[0] <= 0x5F):
        return "zst"
    for magic, name in _OTHERS.items():
        if begin.startswith(magic):
            raise DataError(f"{path} is a {name} file; a dump is plain JSON, or compressed with gz, bz2 or zst")
    return "none"


def _layout(path: Place, compression: Compression) -> Literal["lines", "document"]:
    begin = b""
    for chunk in text_of(path, compression):
        begin += chunk
        if len(begin.lstrip()) >= 4096:
            break
    begin = begin[:65536].removeprefix(BOM).lstrip()
    if not begin.startswith((b"[", b"{")):
        shown = begin[:40].decode("utf-8", "replace") if begin else "nothing"
        raise DataError(f"{path} begins with {shown!r}; a Wikidata JSON dump begins with '[' or an entity '{{'")
    return "document" if _DOCUMENT.match(begin) else "lines"


def read_range(dump: Dump, number: int, threads: int = 1) -> Range:
    """Open one range of a plain or bz2 file (or the only one of a document or files); its lines are read on demand."""
    if dump.layout != "lines":
        range_ = Range(0, last=True, file_position=dump.size)
        range_.lines = _read_whole(dump.files or (dump,), range_, threads)
        return range_
    start = number * dump.range_bytes
    range_ = Range(number)
    opener = _open_plain if dump.compression == "none" else _open_bzip2
    range_.lines = whole_lines(dump, range_, *opener(dump, range_, start, start + dump.range_bytes, threads))
    return range_


def read_stream(dump: Dump, first: int, step: int, skip: frozenset[int] = frozenset()) -> Iterator[Range]:
    """Every ``step``-th range of a gz or zst file from ``first`` on, in one pass; those in ``skip`` are passed over.

    The lines of a range must be read before the next range is asked for. The last range given is the last of the
    file, and may have no text.
    """
    for range_, within, beyond in texts(dump, first, step, skip):
        range_.lines = whole_lines(dump, range_, within, beyond)
        yield range_


def texts(
    dump: Dump, first: int, step: int, skip: frozenset[int]
) -> Iterator[tuple[Range, Iterator[bytes], Iterator[bytes]]]:
    """The ranges of `read_stream`, each with its text and the text behind it, in pieces.

    The text must be read to its end before the next range is asked for, and until then says what is known of the range.
    What is read of the text behind it comes again in the next range once that iterator is closed.
    """
    file_position = [0]
    stream = Stream(text_of(dump.path, dump.compression, 1, file_position))
    number = first
    while True:
        stream.skip(number * dump.range_bytes)
        range_ = Range(number)
        if number in skip:
            stream.skip((number + 1) * dump.range_bytes)
        else:
            yield range_, *_of_stream(stream, range_, (number + 1) * dump.range_bytes, file_position)
        if stream.ended:
            return
        number += step


def _read_whole(files: tuple[Dump, ...], range_: Range, threads: int) -> Iterator[tuple[int, list[bytes | memoryview]]]:
    """The lines of whole files, one after another, each entity of a document as a line."""
    for file in files:
        text, begin = bytearray(), range_.text_bytes
        for chunk in text_of(file.path, file.compression, threads):
            text += chunk
            if len(text) > LONGEST_LINE:
                raise DataError(
                    f"{file.path}: more than {LONGEST_LINE:,} bytes of JSON in one document, or in one of several "
                    "files; use a file of its own with one entity per line"
                )
        range_.text_bytes += len(text)
        range_.file = file.name if len(files) > 1 else ""
        if file.layout == "document":
            for entity in _entities_of(file, text.removeprefix(BOM), range_):
                yield begin, [entity]  # whose own place is not known
        elif text[-MIB:].rstrip().endswith((b"}", b"]", b",")):
            yield begin, list(bytes(text).split(b"\n"))
        else:
            raise DataError(f"{file.path} is cut off after {len(text):,} bytes of JSON; fetch it again")


def _entities_of(file: Dump, text: bytearray, range_: Range) -> list[bytes | memoryview]:
    """The entities of one document, each as a line; what an answer says to be missing is only counted."""
    import msgspec

    try:
        document = msgspec.json.decode(text)
        inner = document.get("entities", [document]) if isinstance(document, dict) else document
        entities = msgspec.convert(list(inner.values()) if isinstance(inner, dict) else inner, list[dict[str, Any]])
    except msgspec.MsgspecError as error:
        raise DataError(
            f"{file.path}: cut off or damaged: not one JSON document ({error}); fetch it again, or write entities that "
            "stand one behind another each on a line of its own: jq -c . FILE"
        ) from None
    there = [entity for entity in entities if "missing" not in entity]
    range_.missing += len(entities) - len(there)
    return [msgspec.json.encode(entity) for entity in there]


def _open_plain(
    dump: Dump, range_: Range, start: int, end: int, threads: int
) -> tuple[Iterator[bytes], Iterator[bytes]]:
    end = min(end, dump.size)
    range_.text_bytes = max(0, end - start)
    range_.last = end == dump.size
    range_.file_position = end
    return pieces(dump.path, start, end), pieces(dump.path, end, dump.size)


def pieces(path: Place, position: int, end: int) -> Iterator[bytes]:
    """The bytes of a file from one position to another."""
    with path.open("rb") as file:
        file.seek(position)
        while position < end:
            chunk = file.read(min(CHUNK, end - position))
            if not chunk:
                raise DataError(f"{path} ends at byte {position:,} of {end:,}: it changed meanwhile")
            position += len(chunk)
            yield chunk


def _open_bzip2(
    dump: Dump, range_: Range, start: int, end: int, threads: int
) -> tuple[Iterator[bytes], Iterator[bytes]]:
    file = Bzip2File(dump.path)
    units = file.units(start, end, threads)
    behind: list[bytes] = []

    def within() -> Iterator[bytes]:
        chain = Chain(dump.path)
        range_.last = True
        try:
            for unit in units:
                if unit.bit >= 8 * end:
                    range_.last = False
                    behind.append(unit.text or b"")
                    break
                chain.add(unit)
                if unit.text:
                    range_.text_bytes += len(unit.text)
                    yield unit.text
        except BaseException:  # damage, or a reader that has enough: `beyond` will not be asked
            units.close()  # type: ignore[attr-defined]
            file.__exit__()
            raise
        range_.chain = chain.as_dict()
        range_.file_position = min(end, dump.size)

    def beyond() -> Iterator[bytes]:
        try:
            yield from behind
            for unit in units:
                yield unit.text or b""
        finally:
            units.close()  # type: ignore[attr-defined]
            file.__exit__()

    return within(), beyond()


def _of_stream(
    stream: Stream, range_: Range, end: int, file_position: list[int]
) -> tuple[Iterator[bytes], Iterator[bytes]]:
    def within() -> Iterator[bytes]:
        while stream.position < end and (piece := stream.next(end - stream.position)):
            range_.text_bytes += len(piece)
            yield piece
        stream.look_for_end()
        range_.last = stream.ended
        range_.file_position = file_position[0]

    def beyond() -> Iterator[bytes]:
        taken: list[bytes] = []
        try:
            while piece := stream.next(1 << 62):
                taken.append(piece)
                yield piece
        finally:
            stream.hand_back(taken)

    return within(), beyond()


def whole_lines(
    dump: Dump, range_: Range, within: Iterator[bytes], beyond: Iterator[bytes]
) -> Iterator[tuple[int, list[bytes | memoryview]]]:
    """The lines a range owns, without their line breaks, in batches with the place of the first in its text."""
    owned = range_.number == 0  # whether the line being read is owned
    carry: list[bytes] = []
    carried = position = 0  # `position`: where `carry` begins
    for piece in within:
        lines, rest = _split(piece)
        if not lines:
            carry.append(rest)
            carried += len(rest)
            if carried > LONGEST_LINE:
                raise _too_long(dump, range_, position)
            continue
        begin, position = position, position + carried + len(piece) - len(rest)
        if carried:
            lines[0] = b"".join([*carry, lines[0]])
        carry, carried = [rest], len(rest)
        if not owned:
            begin += len(lines[0]) + 1
            del lines[0]
            owned = True
        if lines:
            yield begin, lines
    # The line that the range's last line break begins ends in the text of the ranges that follow.
    if owned:
        complete = False
        for piece in beyond:
            cut = piece.find(b"\n")
            complete = cut >= 0
            carry.append(piece[:cut] if complete else piece)
            carried += len(carry[-1])
            if complete:
                break
            if carried > LONGEST_LINE:
                raise _too_long(dump, range_, position)
        beyond.close()  # type: ignore[attr-defined]
        range_.unended = not complete and carried > 0
        if carried or complete:
            yield position, [b"".join(carry)]
    else:
        next(beyond, None)
        beyond.close()  # type: ignore[attr-defined]


def _split(piece: bytes) -> tuple[list[bytes | memoryview], bytes]:
    """The lines that end in this piece, as views into it, and what stands behind the last line break."""
    view, lines, begin = memoryview(piece), list[bytes | memoryview](), 0
    while (end := piece.find(b"\n", begin)) >= 0:
        lines.append(view[begin:end])
        begin = end + 1
    return lines, piece[begin:]


def _too_long(dump: Dump, range_: Range, position: int) -> DataError:
    return DataError(
        f"{dump.path}: no line break in {LONGEST_LINE:,} bytes after byte {position:,} of range {range_.number}; a "
        "dump has one entity per line: is it another file, or an array without line breaks?"
    )
