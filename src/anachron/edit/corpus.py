"""Text to take statistics over: read as a stream, cut into windows of tokens, at a place that can be found again.

A corpus is a sequence of pieces, each with a position that reading can start from (the byte of a file, the row of a
data set). Windows run on over the ends of pieces, and of documents, so all but the last are full and nothing is padded.
"""

import gzip
import hashlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from anachron.core.errors import ConfigError, DataError, first_line, how_to_install
from anachron.data.bundled.mini_updates import known_text
from anachron.io.files import HEAD, Json, file_fingerprint, refuse_binary, refuse_special_files, rows_fingerprint

PIECE = 1 << 16  # bytes of a file, or characters of a data set, that are tokenised at a time
TABLES = {".parquet": "parquet", ".jsonl": "json", ".json": "json", ".csv": "csv"}  # what `datasets` calls them

BUNDLED = "mini"
AUTO = "auto"  # what a model writes itself, see `anachron.edit.covariance.own_text`; only a covariance is taken over it

Place = tuple[int, int]  # a piece's position, and how many of its tokens are used up


class Corpus(Protocol):
    """A text that can be read from any piece on. ``identity`` tells it from every other text."""

    name: str
    identity: Json

    def pieces(self, start: int = 0) -> Iterator[tuple[int, str]]: ...


def open_corpus(name: str | Path, *, column: str = "text", revision: str | None = None) -> Corpus:
    """A corpus by name.

    name: ``mini``, what the facts bundled with this package say; a UTF-8 text file, perhaps .gz, of any size; or what
        `datasets` reads as a stream, which needs the extra ``anachron[hub]``: a table (.parquet, .jsonl, .json, .csv),
        a folder of them, or a hub data set as ``name``, ``name:config`` or ``name:config:split`` (split ``train`` by
        default; an empty config is the default one).
    column: which column holds the text. revision: of a hub data set.

    Raises `ConfigError` where there is no such corpus, `DataError` where it cannot be read.
    """
    if name == BUNDLED:
        return TextInMemory(BUNDLED, known_text())
    if name == AUTO:
        raise ConfigError(f"corpus {AUTO}: the model's own text is for a covariance alone; give a file or {BUNDLED}")
    path = Path(name)
    if path.suffix == ".gz" or _ending(path) == ".parquet":
        refuse_special_files(path)
    else:
        refuse_binary(path)
    plain = _ending(path) not in TABLES
    if plain and path.is_file():
        return TextFile(path)
    if plain and path.suffix in (".txt", ".gz"):
        raise ConfigError(f"corpus {name}: no such file; give a text file, or a data set as name[:config[:split]]")
    return TextColumn(str(name), column, revision)


class TextInMemory:
    """A text that is at hand, such as the one bundled with this package."""

    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = name, text
        self.identity: Json = {"sha256": hashlib.sha256(text.encode()).hexdigest()}

    def pieces(self, start: int = 0) -> Iterator[tuple[int, str]]:
        """All of it as one piece."""
        if not start and self.text.strip():
            yield 0, self.text


class TextFile:
    """A text file, perhaps compressed by gzip, cut at line ends into pieces of at most `PIECE` bytes."""

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, str(path)
        next(self.pieces(), None)  # a file that is no text is refused before all of it is read
        try:
            self.identity: Json = {"sha256": file_fingerprint(path)}
        except OSError as error:
            raise DataError(f"cannot read {path}: {error.strerror or error}") from error

    def pieces(self, start: int = 0) -> Iterator[tuple[int, str]]:
        """(byte, text) of each piece with a word in it, from the piece that starts at this byte."""
        position, rest = start, b""
        try:
            with self._open() as data:
                data.seek(start)
                while block := rest + data.read(PIECE - len(rest)):
                    end = len(block) if len(block) < PIECE else _good_end(block)
                    text, rest = self._decode(block[:end], position), block[end:]
                    if text.strip():
                        yield position, text
                    position += end
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"cannot read {self.path}: {error}; is it complete?") from error

    def _open(self) -> BinaryIO:
        opener: Any = gzip.open if self.path.suffix == ".gz" else open
        return opener(self.path, "rb")

    def _decode(self, data: bytes, position: int) -> str:
        if position < HEAD and b"\0" in data:
            raise DataError(f"{self.path}, byte {position + data.index(0)}: a zero byte; this is binary, not text")
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{self.path}, byte {position + error.start}: not UTF-8; convert the file, for instance by iconv"
            ) from error
        return text.removeprefix("\ufeff") if position == 0 else text


def _good_end(block: bytes) -> int:
    """Where to cut a full block: after its last line, before its last word, or else after its last whole character."""
    if end := block.rfind(b"\n") + 1:
        return end
    if (end := block.rfind(b" ")) > 0:
        return end
    end = len(block) - 1
    while end > len(block) - 4 and block[end] & 0xC0 == 0x80:  # a byte inside a character
        end -= 1
    return end


class TextColumn:
    """The text column of anything that `datasets` reads as a stream, a row a document."""

    def __init__(self, name: str, column: str, revision: str | None) -> None:
        try:
            import datasets
        except ImportError as error:
            raise ConfigError(
                f"corpus {name!r} is not a text file; to read data sets: {how_to_install('hub')}"
            ) from error
        self.name, self.column = name, column
        source, config, split = (name, "", "") if Path(name).exists() else _parts(name)
        self.split = split or "train"
        ending = _ending(Path(source)) if Path(source).is_file() else ""
        where: Json = {"data_files": source} if ending else {"revision": revision}
        try:
            builder = datasets.load_dataset_builder(TABLES.get(ending, source), config or None, **where)
            self.rows: Any = builder.as_streaming_dataset(split=self.split)
        except Exception as error:  # datasets raises many classes here; all mean the same to a user
            raise ConfigError(
                f"corpus {name!r} is not a text file, and as a data set (split {self.split!r}) it cannot be read: "
                f"{first_line(error)}; give a file, or name[:config[:split]]"
            ) from error
        columns = self.rows.column_names
        if columns is not None and column not in columns:
            raise ConfigError(f"{name} has no column {column!r}; choose among {', '.join(columns)}")
        self.identity: Json = {
            "name": source, "config": builder.config.name, "split": self.split, "column": column,
            "revision": revision, "files": rows_fingerprint(_origins(builder, self.split)),
        }  # fmt: skip

    def pieces(self, start: int = 0) -> Iterator[tuple[int, str]]:
        """(row, text) of each piece, rows of at least `PIECE` characters together, from the piece of this row."""
        position, texts, length = start, [], 0
        try:
            for number, row in enumerate(self.rows.skip(start) if start else self.rows, start):
                text = self._text(row, number)
                if text.strip():
                    texts.append(text if text.endswith("\n") else text + "\n")
                    length += len(text)
                if length >= PIECE:
                    yield position, "".join(texts)
                    position, texts, length = number + 1, [], 0
        except OSError as error:  # the network, or a file that went away
            raise DataError(f"cannot read {self.name}: {error}; repeat the command to go on") from error
        if texts:
            yield position, "".join(texts)

    def _text(self, row: Json, number: int) -> str:
        if self.column not in row:
            raise ConfigError(f"{self.name} has no column {self.column!r}; choose among {', '.join(row)}")
        text = row[self.column]
        if text is not None and not isinstance(text, str):
            raise DataError(f"{self.name}, row {number}: column {self.column!r} holds {type(text).__name__}, not text")
        return text or ""


def _ending(path: Path) -> str:
    """Of a compressed file, the ending below: a .jsonl.gz is a table, a .txt.gz is text."""
    return Path(path.stem).suffix if path.suffix == ".gz" else path.suffix


def _parts(name: str) -> tuple[str, str, str]:
    parts = name.split(":")
    if len(parts) > 3:
        raise ConfigError(f"corpus {name!r}: at most name:config:split")
    source, config, split = (*parts, "", "")[:3]
    return source, config, split


def _origins(builder: Any, split: str) -> Iterator[str]:
    """What the rows come from: bytes of local files, addresses of remote ones (those of the hub name their commit)."""
    files = (builder.config.data_files or {}).get(split) or [f"builder {builder.hash}"]
    return (file_fingerprint(file) if Path(file).is_file() else str(file) for file in map(str, files))


def leading_specials(tokenizer: Any) -> list[int]:
    """Special tokens that the tokenizer puts before a text, such as a BOS; what it puts behind is never fed."""
    one_letter = tokenizer("a", return_special_tokens_mask=True)
    count = next((i for i, special in enumerate(one_letter["special_tokens_mask"]) if not special), 0)
    return list(one_letter["input_ids"][:count])


@dataclass(frozen=True, slots=True)
class WindowBatch:
    """Windows of equal length, special tokens included, and the place in the corpus behind the last of them."""

    windows: list[list[int]]
    place: Place

    @property
    def tokens(self) -> int:
        return sum(map(len, self.windows))


def token_batches(
    tokenizer: Any, corpus: Corpus, *, window: int, batch_tokens: int, left: int, place: Place = (0, 0)
) -> Iterator[WindowBatch]:
    """The next ``left`` tokens of a corpus from a place on, in batches of windows of one length.

    Every window starts with the tokenizer's leading special tokens, which count as tokens. Only the last window may be
    shorter than ``window``, where the corpus or ``left`` ends; it makes a batch of its own, so nothing is padded.
    The same place gives the same batches, whoever stopped there.
    """
    special = leading_specials(tokenizer)
    full: list[list[int]] = []
    size = max(1, batch_tokens // window)
    if not left:
        return
    for content, behind in _contents(tokenizer, corpus, window - len(special), place):
        ids = (special + content)[:left]
        left -= len(ids)
        if len(ids) == window:
            full.append(ids)
            place = behind
        if full and (len(full) == size or len(ids) < window or not left):
            yield WindowBatch(full, place)
            full = []
        if len(ids) < window:
            yield WindowBatch([ids], behind)
        if not left:
            return
    if full:
        yield WindowBatch(full, place)


def _contents(tokenizer: Any, corpus: Corpus, size: int, place: Place) -> Iterator[tuple[list[int], Place]]:
    held: list[int] = []
    for position, text in corpus.pieces(place[0]):
        ids = tokenizer(text, add_special_tokens=False, truncation=False, verbose=False)["input_ids"]
        used = place[1] if position == place[0] else 0
        while len(held) + len(ids) - used >= size:
            upto = used + size - len(held)
            yield held + ids[used:upto], (position, upto)
            held, used = [], upto
        held += ids[used:]
        place = (position, len(ids))
    if held:
        yield held, place
