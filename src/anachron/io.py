"""Files that appear whole or not at all, their manifests and their fingerprints."""

import codecs
import hashlib
import json
import os
import platform
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from io import BytesIO
from pathlib import Path
from typing import Any

import filelock
import polars as pl

from anachron.errors import BackendError, ConfigError, DataError

Json = dict[str, Any]


@contextmanager
def atomic(path: Path | str) -> Iterator[Path]:
    """A temporary path beside ``path`` that takes its name when the block ends without an error.

    The content is on disk before it is renamed, so a reader never sees half a file, whatever kills the
    writer. A disk that is full or a folder that cannot be written raises `BackendError`.
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(target)
    except OSError as error:
        raise _unwritable(target, error) from error
    finally:
        _discard(temporary)


@contextmanager
def locked(lock: Path, busy: str, *, remove: bool = False) -> Iterator[None]:
    """Keep a second process out of a folder, by a lock file in it; the lock goes with the process, however it ends.

    busy: what to say (`ConfigError`) when another process holds it. remove: leave no lock file behind. Raises
    `BackendError` where the folder cannot be written.
    """
    held = filelock.FileLock(lock)
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        held.acquire(timeout=0)
    except filelock.Timeout as error:
        raise ConfigError(busy) from error
    except OSError as error:
        raise BackendError(f"cannot write to {lock.parent}: {error.strerror or error}; choose another --out") from error
    try:
        yield
    finally:
        held.release()
        if remove:
            lock.unlink(missing_ok=True)


def _discard(temporary: Path) -> None:
    try:
        temporary.unlink(missing_ok=True)
    except OSError:  # its folder could not be made, so there is nothing to remove
        return


def _unwritable(path: Path, error: OSError) -> BackendError:
    reason = error.strerror or str(error)
    return BackendError(
        f"cannot write {path}: {reason}; finished files are intact, free the disk or choose another --out"
    )


def write_bytes(path: Path | str, data: bytes) -> None:
    with atomic(path) as temporary:
        temporary.write_bytes(data)


def write_json(path: Path | str, value: Any) -> None:
    write_bytes(path, (json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode())


def read_json(path: Path | str) -> Any:
    try:
        return json.loads(Path(path).read_text("utf-8-sig"))
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {path} as JSON: {error}") from error


def iterate_jsonl(path: Path | str) -> Iterator[Json]:
    """Rows of a JSON-lines file, one after the other; a broken line is named by its number."""
    try:
        with Path(path).open(encoding="utf-8-sig") as lines:
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


def read_jsonl(path: Path | str) -> list[Json]:
    """All rows of a JSON-lines file; see `iterate_jsonl`."""
    return list(iterate_jsonl(path))


WRITERS: dict[str, Callable[[pl.DataFrame, BytesIO], Any]] = {
    ".parquet": lambda t, b: t.write_parquet(b, compression="zstd"),
    ".csv": lambda t, b: t.write_csv(b),
    ".jsonl": lambda t, b: t.write_ndjson(b),
}


def check_ending(path: Path | str) -> str:
    """The ending of a table to be written. Raises `ConfigError` for one that no writer knows."""
    ending = Path(path).suffix
    if ending not in WRITERS:
        raise ConfigError(f"{path}: unknown ending {ending!r}; use {', '.join(WRITERS)}")
    return ending


def write_table(path: Path | str, table: pl.DataFrame) -> None:
    """Write a table in the format its ending names: .parquet, .csv or .jsonl."""
    buffer = BytesIO()
    WRITERS[check_ending(path)](table, buffer)
    write_bytes(path, buffer.getvalue())


def _without_mark(path: Path) -> Path | BytesIO:
    """A JSON file as Polars takes it: without the byte order mark that some programs begin a text with."""
    with path.open("rb") as data:
        marked = data.read(3) == codecs.BOM_UTF8
        return BytesIO(data.read()) if marked else path


READERS: dict[str, Callable[[Path], pl.DataFrame]] = {
    ".parquet": pl.read_parquet,
    ".csv": lambda p: pl.read_csv(p, infer_schema=False),
    ".jsonl": lambda p: pl.read_ndjson(_without_mark(p), infer_schema_length=None),
    ".ndjson": lambda p: pl.read_ndjson(_without_mark(p), infer_schema_length=None),
    ".json": lambda p: pl.read_json(_without_mark(p), infer_schema_length=None),
}


def read_table(path: Path | str) -> pl.DataFrame:
    """Read .parquet, .csv, .jsonl/.ndjson or .json (a list of objects). Text columns of CSV stay text.

    A byte order mark at the beginning of a text is no part of it.
    """
    path = Path(path)
    if path.suffix not in READERS:
        raise DataError(f"{path}: unknown ending {path.suffix!r}; use {', '.join(READERS)}")
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    try:
        return READERS[path.suffix](path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"cannot read {path} as {path.suffix[1:]}: {str(error).splitlines()[0]}") from error


def file_fingerprint(path: Path | str) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    with Path(path).open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def rows_fingerprint(rows: Iterable[Any]) -> str:
    """SHA-256 of a sequence of JSON-able rows: the same rows, the same fingerprint, whatever the file format."""
    digest = hashlib.sha256()
    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    for row in rows:
        digest.update(encode(row).encode() + b"\n")
    return digest.hexdigest()


def differences(old: Json, new: Json) -> list[str]:
    """Lines ``name: old -> new`` for every setting that differs."""
    return [
        f"{name}: {_short(old.get(name))} -> {_short(new.get(name))}"
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    ]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 70 else text[:67] + "..."


def versions() -> dict[str, str]:
    """Versions of what a number depends on, for manifests."""
    found = {"python": platform.python_version()}
    for name in ("anachron", "torch", "transformers", "tokenizers", "polars", "numpy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def write_manifest(path: Path | str, *, command: str, parameters: Json, inputs: Json, counts: Json) -> None:
    """Write ``<path>.manifest.json`` beside an output: where it came from and how."""
    content = {
        "output": Path(path).name,
        "sha256": file_fingerprint(path),
        "command": command,
        "parameters": parameters,
        "inputs": inputs,
        "counts": counts,
        "versions": versions(),
    }
    write_json(f"{path}.manifest.json", content)
