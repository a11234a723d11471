"""Paths on object stores (``s3://bucket/key``, ``gs://bucket/key``), as far as files are read and written here.

A `StorePath` answers what is asked of a `pathlib.Path`, so that whoever works with files need not know which it is
(`Place`). What stores do differently is done here: an object appears whole or not at all, so a file is written beside
(`anachron.io.atomic`) and then put in one piece; nothing is renamed; a folder is there when something lies in it. What
must exist once is created or replaced under the condition that nobody else did (`create`, `replace`).

The library is obstore, the same that Polars reads stores by, so one set of variables serves both. What a store answers
to a failed request may hold keys and is never shown.
"""

import io
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache, total_ordering
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any, BinaryIO, TypeVar

from anachron.errors import BackendError, ConfigError

SCHEMES = ("s3", "gs")
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/{1,2}(?P<rest>[^/].*)?", re.DOTALL)
_OTHERS = ("abfs", "abfss", "adl", "az", "azure", "file", "ftp", "gcs", "hdfs", "http", "https", "r2", "s3a", "s3n")
BLOCK = 8 << 20  # bytes asked for at once
PART = 16 << 20  # bytes of a part of a large object
TRIES, PAUSE = 5, 0.5  # of requests that must not be repeated blindly; seconds before the second
_STATUS = re.compile(r"status code: (\d{3}[ \w]*)")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_KEYS = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and AWS_REGION or AWS_ENDPOINT_URL",
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS to the file of a key",
}
Result = TypeVar("Result")


class StoreError(BackendError):
    """A store cannot be reached, refuses, or failed again and again."""


@total_ordering
@dataclass(frozen=True)
class StorePath:
    """An object, or what begins with its key and a slash. Made by `place`."""

    scheme: str
    bucket: str
    key: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}/{self.key}".rstrip("/")

    def __lt__(self, other: "StorePath") -> bool:
        return str(self) < str(other)

    def __truediv__(self, name: "str | Path") -> "StorePath":
        return self._at(PurePosixPath(self.key) / str(name))

    def _at(self, key: PurePosixPath) -> "StorePath":
        return StorePath(self.scheme, self.bucket, "" if str(key) == "." else str(key))

    @property
    def name(self) -> str:
        return PurePosixPath(self.key).name

    @property
    def stem(self) -> str:
        return PurePosixPath(self.key).stem

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.key).suffix

    @property
    def parent(self) -> "StorePath":
        return self._at(PurePosixPath(self.key).parent)

    @property
    def parents(self) -> "list[StorePath]":
        return [self._at(key) for key in PurePosixPath(self.key).parents] if self.key else []

    def with_name(self, name: str) -> "StorePath":
        return self._at(PurePosixPath(self.key).with_name(name))

    def relative_to(self, folder: "StorePath") -> PurePosixPath:
        return PurePosixPath(self.key).relative_to(folder.key)

    def absolute(self) -> "StorePath":
        return self

    def resolve(self) -> "StorePath":
        return self

    def mkdir(self, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Nothing: a folder is there when something lies in it."""

    # What is there

    def stat(self) -> Any:
        """``st_size`` in bytes and ``st_mtime_ns``, when it was put. Raises `FileNotFoundError`."""
        about = _repeated(self, "read", lambda: _obstore().head(_store(self), self.key))
        return SimpleNamespace(st_size=about["size"], st_mtime_ns=int(about["last_modified"].timestamp() * 1e9))

    def is_file(self) -> bool:
        try:
            self.stat()
        except FileNotFoundError:
            return False
        return True

    def is_dir(self) -> bool:
        return next(self._below(), None) is not None

    def exists(self) -> bool:
        return self.is_file() or self.is_dir()

    def iterdir(self) -> "Iterator[StorePath]":
        """What lies directly in a folder."""
        found = _repeated(self, "list", lambda: _obstore().list_with_delimiter(_store(self), self.key or None))
        keys = [*found["common_prefixes"], *(about["path"] for about in found["objects"])]
        return (StorePath(self.scheme, self.bucket, key) for key in keys if key != self.key)

    def rglob(self, pattern: str) -> "Iterator[StorePath]":
        """All objects in a folder and in those below it whose name fits."""
        return (path for path in self._below() if PurePosixPath(path.name).match(pattern))

    def _below(self) -> "Iterator[StorePath]":
        begin = self.key + "/" if self.key else None

        def keys() -> list[str]:
            return [about["path"] for batch in _obstore().list(_store(self), begin) for about in batch]

        return (StorePath(self.scheme, self.bucket, key) for key in _repeated(self, "list", keys))

    # Bytes

    def open(self, mode: str = "rb", *, encoding: str | None = None, newline: str | None = None) -> Any:
        """A file to be read, from anywhere in it, `BLOCK` bytes at once. Raises `FileNotFoundError`."""
        assert mode in ("r", "rb"), mode
        data = io.BufferedReader(_Reader(self), BLOCK)
        return data if mode == "rb" else io.TextIOWrapper(data, encoding=encoding or "utf-8", newline=newline)

    def read_bytes(self) -> bytes:
        return _repeated(self, "read", lambda: bytes(_obstore().get(_store(self), self.key).bytes()))

    def read_text(self, encoding: str = "utf-8") -> str:
        return self.read_bytes().decode(encoding)

    def put(self, content: bytes | Path) -> None:
        """Write the object, from bytes or a local file, whole or not at all."""
        given: Any = content
        _repeated(
            self, "write", lambda: _obstore().put(_store(self), self.key, given, chunk_size=PART, max_concurrency=4)
        )

    def unlink(self, missing_ok: bool = False) -> None:
        if not missing_ok and not self.is_file():
            raise FileNotFoundError(str(self))
        with _ignored(FileNotFoundError):
            _repeated(self, "remove", lambda: _obstore().delete(_store(self), self.key))

    # Under a condition

    def create(self, content: bytes) -> bool:
        """Write the object unless there is one (``If-None-Match: *``). Returns whether it was written.

        content: different from that of everybody else's. So a request whose answer was lost is known to have done it.
        """
        return self._conditional(content, "create")

    def replace(self, content: bytes, version: str) -> bool:
        """Write the object if it is still of this version (``If-Match``), of `version`; as `create`."""
        return self._conditional(content, {"e_tag": version})

    def _conditional(self, content: bytes, mode: Any) -> bool:
        refused = (_errors().AlreadyExistsError, _errors().PreconditionError, FileNotFoundError)

        def put() -> bool:
            try:
                _obstore().put(_store(self), self.key, content, mode=mode, use_multipart=False)
            except refused:
                with _ignored(FileNotFoundError):
                    return self.read_bytes() == content  # an earlier try, whose answer was lost
                return False
            return True

        return _repeated(self, "write", put)

    def version(self) -> tuple[bytes, str] | None:
        """The content and what tells it from a later one (its ETag); None where there is none."""

        def get() -> tuple[bytes, str]:
            found = _obstore().get(_store(self), self.key)
            return bytes(found.bytes()), str(found.meta["e_tag"])

        with _ignored(FileNotFoundError):
            return _repeated(self, "read", get)
        return None


Place = Path | StorePath


def place(path: Place | str) -> Place:
    """The path of a file or folder, of this machine or of a store. Raises `ConfigError` for a store that is not known.

    ``s3:/bucket/key`` is what a `pathlib.Path` made of ``s3://bucket/key``, and means that.
    """
    if isinstance(path, StorePath):
        return path
    found = _ADDRESS.fullmatch(str(path))
    scheme = found[1].lower() if found else ""
    if found is None or (scheme not in (*SCHEMES, *_OTHERS) and "://" not in str(path)):
        return Path(path)
    if scheme not in SCHEMES:
        raise ConfigError(f"{scheme}://{found['rest'] or ''}: no store of this kind is known; give s3:// or gs://")
    bucket, _, key = (found["rest"] or "").partition("/")
    if not bucket:
        raise ConfigError(f"{scheme}://: name a bucket and what lies in it, as {scheme}://bucket/folder")
    return StorePath(scheme, bucket, str(PurePosixPath(key)) if key.strip("/") else "")


def refuse_stores(*paths: Place | str | None) -> None:
    """Raise `ConfigError` for a path on a store, where only files of this machine are worked with."""
    for path in paths:
        if path is not None and isinstance(found := place(path), StorePath):
            raise ConfigError(f"{found}: this takes files of this machine only; give a local path and copy the file")


def remove_tree(folder: Place, *, ignore_errors: bool = False) -> None:
    """Remove a folder with all that lies in it. ignore_errors: of the disk of this machine."""
    if isinstance(folder, Path):
        shutil.rmtree(folder, ignore_errors=ignore_errors)
        return
    found = [path.key for path in folder.rglob("*")]
    for first in range(0, len(found), 1000):
        batch = found[first : first + 1000]
        with _ignored(FileNotFoundError):
            _repeated(folder, "remove", lambda batch=batch: _obstore().delete(_store(folder), batch))  # type: ignore[misc]


def read_range(path: Place, start: int, length: int) -> bytes:
    """Bytes of a file, as many as there are. start: from its begin; below 0: from its end. Raises `OSError`."""
    if isinstance(path, StorePath):
        if start < 0:
            start += path.stat().st_size
        return _repeated(
            path, "read", lambda: bytes(_obstore().get_range(_store(path), path.key, start=start, length=length))
        )
    with path.open("rb") as file:
        file.seek(start, os.SEEK_SET if start >= 0 else os.SEEK_END)
        return file.read(length)


def read_all(paths: list[Place], at_once: int = 32) -> list[bytes | None]:
    """The contents of many small files, None for those that are not there."""
    from concurrent.futures import ThreadPoolExecutor

    def read(path: Place) -> bytes | None:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None

    if not any(isinstance(path, StorePath) for path in paths):
        return [read(path) for path in paths]
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(read, paths))


def polars_options(path: Place) -> dict[str, Any]:
    """What Polars is given to read a file of a store besides its address."""
    if isinstance(path, Path):
        return {}
    _obstore()
    return {"storage_options": {"aws_allow_http": "true"} if _plain_http() else {}}


class Blocks:
    """Bytes from anywhere in a file, asked for by several threads; the last blocks of a store's file are kept."""

    KEPT = 6

    def __init__(self, path: Place) -> None:
        self._path, self._lock = path, threading.Lock()
        self._file: BinaryIO | None = path.open("rb") if isinstance(path, Path) else None
        self.size: int = path.stat().st_size if self._file is None else os.fstat(self._file.fileno()).st_size
        self._blocks: dict[int, bytes] = {}

    def read(self, start: int, end: int) -> bytes:
        if self._file is not None:
            return os.pread(self._file.fileno(), max(end, start) - start, start)
        end = min(end, self.size)
        parts = []
        for number in range(start // BLOCK, -(-end // BLOCK)):
            block = self._block(number)
            parts.append(block[max(0, start - number * BLOCK) : end - number * BLOCK])
        return b"".join(parts)

    def _block(self, number: int) -> bytes:
        with self._lock:
            if number not in self._blocks:
                if len(self._blocks) >= self.KEPT:
                    self._blocks.pop(next(iter(self._blocks)))
                self._blocks[number] = read_range(self._path, number * BLOCK, min(BLOCK, self.size - number * BLOCK))
            return self._blocks[number]

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class _Reader(io.RawIOBase):
    def __init__(self, path: StorePath) -> None:
        self._path, self._at, self._size = path, 0, path.stat().st_size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        length = min(len(buffer), max(0, self._size - self._at))
        if length:
            buffer[:length] = read_range(self._path, self._at, length)
            self._at += length
        return length


# The library


def _obstore() -> Any:
    try:
        import obstore
    except ImportError as error:
        raise ConfigError("files on s3:// or gs:// need obstore: pip install 'anachron[s3]'") from error
    return obstore


def _errors() -> Any:
    _obstore()
    import obstore.exceptions

    return obstore.exceptions


def _plain_http() -> bool:
    return any(os.environ.get(name, "").startswith("http://") for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT"))


def _store(path: StorePath) -> Any:
    return _opened(path.scheme, path.bucket, os.getpid())


@lru_cache(maxsize=16)
def _opened(scheme: str, bucket: str, process: int) -> Any:
    _obstore()
    from obstore.store import GCSStore, S3Store

    client: Any = {"allow_http": _plain_http(), "timeout": "120s", "connect_timeout": "10s"}
    retry: Any = {"max_retries": 8, "retry_timeout": timedelta(seconds=150)}
    try:
        return (S3Store if scheme == "s3" else GCSStore)(bucket, client_options=client, retry_config=retry)
    except _errors().BaseError:
        raise StoreError(f"{scheme}://{bucket} cannot be opened; {_KEYS[scheme]}") from None


@contextmanager
def _told(path: StorePath, what: str) -> Iterator[None]:
    """Say what went wrong in the block without what the store answered, which may hold keys."""
    try:
        yield
    except FileNotFoundError as error:
        if "<Code>NoSuchBucket<" in str(error):
            raise StoreError(f"cannot {what} {path}: {reason(error, path.scheme)}") from None
        raise FileNotFoundError(2, "no such object", str(path)) from None
    except _errors().BaseError as error:
        raise StoreError(f"cannot {what} {path}: {reason(error, path.scheme)}") from None


@contextmanager
def _ignored(kind: type[BaseException]) -> Iterator[None]:
    try:
        yield
    except kind:
        return


def _repeated(path: StorePath, what: str, request: Callable[[], Result]) -> Result:
    """A request that the library does not repeat once the store may have got it, or begun to answer; here that does no
    harm."""
    with _told(path, what):
        for number in range(TRIES - 1):
            try:
                return request()
            except (FileNotFoundError, _errors().PermissionDeniedError, _errors().UnauthenticatedError):
                raise
            except _errors().BaseError:
                time.sleep(PAUSE * 2**number)
        return request()


def reason(error: BaseException, scheme: str = "s3") -> str:
    """Why a request failed, and what to do. Nothing of the answer is in it but its status and code."""
    text = str(error)
    status, code = _STATUS.search(text), _CODE.search(text)
    if "169.254.169.254" in text or "metadata" in text:
        return f"no keys were found; {_KEYS[scheme]}, on every machine that works"
    if status is None:
        endpoint = os.environ.get("AWS_ENDPOINT_URL", "") if scheme == "s3" else ""
        shown = endpoint.partition("://")[2].rpartition("@")[2]
        return (
            f"no answer that could be read{' of ' + shown if shown else ''}; is the store up and "
            "its address right? Then repeat the command: what is finished is kept"
        )
    words = status[1].strip() + (f", {code[1]}" if code else "")
    if status[1][:3] in ("401", "403"):
        return f"access denied ({words}); {_KEYS[scheme]}, on every machine that works"
    if code and code[1] == "NoSuchBucket":
        return f"there is no such bucket ({words}); make it first"
    if status[1][0] == "3":
        return f"the bucket is elsewhere ({words}); set AWS_REGION to its region"
    return f"the store failed ({words}), again and again; repeat the command when it is well: what is finished is kept"
