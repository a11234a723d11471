"""Files that appear whole or not at all, their manifests and their fingerprints."""

import codecs
import hashlib
import json
import mmap
import os
import platform
import re
import secrets
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl

from anachron.errors import ConfigError, DataError, first_line, unwritable
from anachron.store_requests import of_polars
from anachron.stores import Place, StorePath, place, polars_options

Json = dict[str, Any]
HEAD = 1 << 20  # bytes of a text that are looked at before all is read
_TEMPORARY = re.compile(r"\.(?P<target>.+)\.(?P<process>\d+)\.[0-9a-f]{8}\.tmp", re.DOTALL)
# Half a character in JSON: a high surrogate without its low one, or a low one without its high one
_HALF = re.compile(
    rb"(?<!\\)(?:\\\\)*(\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)


@contextmanager
def atomic(path: Place | str) -> Iterator[Path]:
    """A temporary path beside ``path`` that takes its name when the block ends without an error.

    The content is on disk before it is renamed, so a reader never sees half a file, whatever kills the
    writer. What killed writers of the same file left is removed. For an object of a store it is a file in this
    machine's folder for temporary files, which is put in one piece. A disk that is full or a folder that cannot be
    written raises `BackendError`.
    """
    target = place(path)
    if isinstance(target, StorePath):
        with tempfile.TemporaryDirectory(prefix="anachron-") as folder:
            written_here = Path(folder) / target.name
            try:
                yield written_here
            except OSError as error:
                raise unwritable(folder, error) from error
            target.put(written_here)
        return
    temporary = target.with_name(f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(target.parent, of=target.name)
        yield temporary
        with temporary.open("r+b") as written:  # Windows syncs only what is open for writing
            os.fsync(written.fileno())
        temporary.replace(target)
    except OSError as error:
        raise unwritable(target, error) from error
    finally:
        remove_file(temporary)


def remove_leftovers(folder: Path, *, of: str | None = None) -> None:
    """Remove the temporary files that killed writers left in a folder.

    of: the name of one target, whose other writers may be at work: only files of processes that are gone are removed.
    Without it all of them are, which is for a folder whose lock is held.
    """
    for path in folder.glob(".*.tmp"):
        named = _TEMPORARY.fullmatch(path.name)
        if named and (of is None or (named["target"] == of and not is_running(int(named["process"])))):
            remove_file(path)


def is_running(process: int) -> bool:
    """Whether this machine has such a process; on Windows, where asking it by a signal would end it, always yes."""
    if sys.platform == "win32":
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # it is another user's
        return True
    return True


def remove_file(path: Place) -> None:
    """Remove a file of this process, if it can be."""
    try:
        path.unlink(missing_ok=True)
    except OSError:  # its folder could not be made, or (Windows) another process has it open: it is that one's now
        return


def write_bytes(path: Place | str, data: bytes) -> None:
    if isinstance(target := place(path), StorePath):
        target.put(data)
        return
    with atomic(target) as temporary:
        temporary.write_bytes(data)


def json_bytes(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode()


def write_json(path: Place | str, value: Any) -> None:
    write_bytes(path, json_bytes(value))


def refuse_special_files(path: Place | str) -> None:
    """Raise `DataError` for a named pipe, a device or a socket, which may never end and is read only once.

    A path that is missing, a folder and an object of a store are left to whoever reads them.
    """
    source = place(path)
    if isinstance(source, StorePath):
        return
    try:
        mode = source.stat().st_mode
    except (OSError, ValueError):  # missing, or no path at all
        return
    for is_kind, kind in _SPECIAL.items():
        if is_kind(mode):
            raise DataError(f"{path} is {kind}; inputs are files that can be read again: save its content in one")


_SPECIAL: dict[Callable[[int], bool], str] = {
    stat.S_ISFIFO: "a pipe", stat.S_ISCHR: "a device", stat.S_ISBLK: "a device", stat.S_ISSOCK: "a socket",
}  # fmt: skip


def refuse_binary(path: Place | str) -> None:
    """Raise `DataError` where the first megabyte of what should be text holds a zero byte: all of it is not read.

    Pipes and devices are refused first. A file that cannot be opened is left to whoever reads it, and so is an object
    of a store, for which this would be two requests more.
    """
    refuse_special_files(path)
    if isinstance(source := place(path), StorePath):
        return
    try:
        with source.open("rb") as data:
            head = data.read(HEAD)
    except (OSError, ValueError):
        return
    if b"\0" in head and not head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise DataError(
            f"{path} is binary, not text (byte {head.index(0)} is 0); give a text in UTF-8, and unpack what is packed"
        )


def read_json(path: Place | str) -> Any:
    refuse_binary(path)
    return parse_json(read_bytes(path), path)


def read_bytes(path: Place | str) -> bytes:
    refuse_special_files(path)
    try:
        return place(path).read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error


def read_text(path: Place | str, what: str) -> str:
    """A text that an option names. what: the option, for the `ConfigError` where it cannot be read."""
    refuse_binary(path)
    try:
        return place(path).read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{what} {path} cannot be read as UTF-8 text: {error}") from error


def parse_json(content: bytes, path: Place | str) -> Any:
    """What a file holds as JSON. path: for the message of the `DataError` where it is none."""
    try:
        return json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"cannot read {path} as JSON: {error}") from error


def iterate_jsonl(path: Place | str) -> Iterator[Json]:
    """Rows of a JSON-lines file, one after the other; a broken line is named by its number."""
    refuse_binary(path)
    try:
        with place(path).open("r", encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    try:
                        row = json.loads(line)
                    except ValueError as error:
                        raise DataError(f"{path}, line {number}: not valid JSON ({error})") from None
                    if not isinstance(row, dict):
                        raise DataError(f"{path}, line {number}: expected an object, found {type(row).__name__}")
                    yield row
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {path}: {error}") from error


def read_jsonl(path: Place | str) -> list[Json]:
    """All rows of a JSON-lines file; see `iterate_jsonl`."""
    return list(iterate_jsonl(path))


WRITERS: dict[str, Callable[[pl.DataFrame, BytesIO], Any]] = {
    ".parquet": lambda t, b: t.write_parquet(b, compression="zstd"),
    ".csv": lambda t, b: t.write_csv(b),
    ".jsonl": lambda t, b: t.write_ndjson(b),
}


def check_ending(path: Place | str) -> str:
    """The ending of a table to be written. Raises `ConfigError` for one that no writer knows."""
    ending = place(path).suffix
    if ending not in WRITERS:
        raise ConfigError(f"{path}: unknown ending {ending!r}; use {', '.join(WRITERS)}")
    return ending


def write_table(path: Place | str, table: pl.DataFrame) -> None:
    """Write a table in the format its ending names: .parquet, .csv or .jsonl."""
    write_bytes(path, table_bytes(table, check_ending(path)))


def table_bytes(table: pl.DataFrame, ending: str) -> bytes:
    buffer = BytesIO()
    WRITERS[ending](table, buffer)
    return buffer.getvalue()


def _without_mark(source: Path | BytesIO) -> Path | BytesIO:
    """A JSON file as Polars takes it: without the byte order mark that some programs begin a text with."""
    with source.open("rb") if isinstance(source, Path) else BytesIO(source.getvalue()) as data:
        marked = data.read(3) == codecs.BOM_UTF8
        return BytesIO(data.read()) if marked else source


READERS: dict[str, Callable[[Path | BytesIO], pl.DataFrame]] = {
    ".parquet": pl.read_parquet,
    ".csv": lambda p: pl.read_csv(p, infer_schema=False),
    ".jsonl": lambda p: pl.read_ndjson(_without_mark(p), infer_schema_length=None),
    ".ndjson": lambda p: pl.read_ndjson(_without_mark(p), infer_schema_length=None),
    ".json": lambda p: pl.read_json(_without_mark(p), infer_schema_length=None),
}


def scan_parquet(path: Place, **options: Any) -> pl.LazyFrame:
    """`polars.scan_parquet` of a file that may lie on a store: only what is asked of it is fetched."""
    return pl.scan_parquet(_address(path), **options, **polars_options(path))


def read_parquet(path: Place, columns: list[str] | None = None) -> pl.DataFrame:
    """`polars.read_parquet` of a file that may lie on a store."""
    with in_our_words():
        return pl.read_parquet(_address(path), columns=columns, **polars_options(path))


@contextmanager
def in_our_words() -> Iterator[None]:
    """Wherever Polars reads what `scan_parquet` gave: what it met on a store, without what the store answered."""
    try:
        yield
    except (pl.exceptions.PolarsError, OSError) as error:
        if (told := of_polars(error)) is None:
            raise
        raise told from None


def _address(path: Place) -> Path | str:
    return str(path) if isinstance(path, StorePath) else path


def read_table(path: Place | str) -> pl.DataFrame:
    """Read .parquet, .csv, .jsonl/.ndjson or .json (a list of objects). Text columns of CSV stay text.

    A byte order mark at the beginning of a text is no part of it.
    """
    path = place(path)
    if path.suffix not in READERS:
        raise DataError(f"{path}: unknown ending {path.suffix!r}; use {', '.join(READERS)}")
    if path.suffix == ".parquet":
        refuse_special_files(path)
    else:
        refuse_binary(path)
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    return _parsed(BytesIO(path.read_bytes()) if isinstance(path, StorePath) else path, path)


def parse_table(content: bytes, path: Place) -> pl.DataFrame:
    """The table in the content of a file, in the format that the file's ending names."""
    return _parsed(BytesIO(content), path)


def _parsed(source: Path | BytesIO, path: Place) -> pl.DataFrame:
    if path.suffix not in (".parquet", ".csv"):
        refuse_halves(source, path)
    try:
        return READERS[path.suffix](source)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError, MemoryError) as error:
        # Polars panics over some broken Parquet
        raise DataError(f"cannot read {path} as {path.suffix[1:]}: {first_line(error)}") from error


def refuse_halves(source: Path | BytesIO, path: Place) -> None:
    """Raise `DataError` for JSON with half a character (``\\ud800`` alone), which no model can be given, and for which
    Polars has the character 0. path: of the source, for the message."""
    if isinstance(source, BytesIO):
        content: bytes | mmap.mmap = source.getvalue()
    else:
        with source.open("rb") as data:
            content = mmap.mmap(data.fileno(), 0, access=mmap.ACCESS_READ) if source.stat().st_size else b""
    if content.find(b"\\ud") < 0 and content.find(b"\\uD") < 0:  # as nearly always, and a hundred times faster
        return
    if found := _HALF.search(content):
        line = content[: found.start()].count(b"\n") + 1
        half = found[1].decode()
        raise DataError(f"{path}, line {line}: {half} is half a character (a lone surrogate); write it whole")


def file_fingerprint(path: Place | str) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    with place(path).open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def rows_fingerprint(rows: Iterable[Any]) -> str:
    """SHA-256 of a sequence of JSON-able rows: the same rows, the same fingerprint, whatever the file format."""
    digest = hashlib.sha256()
    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    for row in rows:
        digest.update(encode(row).encode() + b"\n")
    return digest.hexdigest()


def json_fingerprint(value: Any) -> str:
    """SHA-256 of a JSON-able value, however the file that it stands in is laid out."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def versions() -> dict[str, str]:
    """Versions of what a number depends on, for manifests."""
    known = {"python": platform.python_version()}
    for name in ("anachron", "torch", "transformers", "tokenizers", "polars", "numpy"):
        try:
            known[name] = version(name)
        except PackageNotFoundError:
            continue
    return known


def write_manifest(path: Place | str, *, command: str, parameters: Json, inputs: Json, counts: Json) -> None:
    """Write ``<path>.manifest.json`` beside an output: where it came from and how."""
    content = {
        "output": place(path).name, "sha256": file_fingerprint(path), "command": command, "parameters": parameters,
        "inputs": inputs, "counts": counts, "versions": versions(),
    }  # fmt: skip
    write_json(f"{path}.manifest.json", content)
