"""Files that appear whole or not at all, their manifests and their fingerprints."""

import codecs
import hashlib
import json
import os
import platform
import re
import secrets
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from anachron.core.errors import ConfigError, DataError, unwritable
from anachron.io.stores import Place, StorePath, place

Json = dict[str, Any]
HEAD = 1 << 20  # bytes of a text that are looked at before all is read
_TEMPORARY = re.compile(r"\.(?P<target>.+)\.(?P<process>\d+)\.[0-9a-f]{8}\.tmp", re.DOTALL)


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
    names = ("anachron", "torch", "transformers", "tokenizers", "polars", "numpy")
    found = {name: _version(name) for name in names}
    return {"python": platform.python_version()} | {name: one for name, one in found.items() if one is not None}


@cache  # it is read from the package's files
def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def write_manifest(path: Place | str, *, command: str, parameters: Json, inputs: Json, counts: Json) -> None:
    """Write ``<path>.manifest.json`` beside an output: where it came from and how."""
    content = {
        "output": place(path).name, "sha256": file_fingerprint(path), "command": command, "parameters": parameters,
        "inputs": inputs, "counts": counts, "versions": versions(),
    }  # fmt: skip
    write_json(manifest_of(path), content)


def manifest_of(path: Place | str) -> str:
    """The name of the manifest beside an output."""
    return f"{path}.manifest.json"
