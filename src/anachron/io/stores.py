"""Paths on object stores (``s3://bucket/key``, ``gs://bucket/key``), as far as files are read and written here.

A `StorePath` answers what is asked of a `pathlib.Path`, so that whoever works with files need not know which it is
(`Place`). What stores do differently is done here: an object appears whole or not at all, so a file is written beside
(`anachron.io.files.atomic`) and then put in one piece; nothing is renamed; a folder is there when something lies in
it. What must exist once is created or replaced under the condition that nobody else did (`create`, `replace`).

Requests and their failures: `anachron.io.store_requests`.
"""

import io
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial, total_ordering
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any, BinaryIO, TypeVar

from anachron.core.errors import ConfigError
from anachron.io.store_requests import ENDPOINTS, errors, obstore, opened, plain_http, polars_retries, repeated

SCHEMES = ("s3", "gs")
_WHERE = {  # variables that tell where a bucket is, of each scheme
    "s3": (*ENDPOINTS, "AWS_REGION"),
    "gs": ("GOOGLE_SERVICE_ACCOUNT", "GOOGLE_APPLICATION_CREDENTIALS"),
}
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/{1,2}(?P<rest>[^/].*)?", re.DOTALL)
_OTHERS = ("abfs", "abfss", "adl", "az", "azure", "file", "ftp", "gcs", "hdfs", "http", "https", "r2", "s3a", "s3n")
BLOCK = 8 << 20  # bytes asked for at once
PART = 16 << 20  # bytes of a part of a large object


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
    def store(self) -> Any:
        """What the library is given to know the bucket by."""
        return opened(self.scheme, self.bucket)

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

    def absolute(self) -> "StorePath":
        return self

    def resolve(self) -> "StorePath":
        return self

    def mkdir(self, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Nothing: a folder is there when something lies in it."""

    # What is there

    def stat(self) -> Any:
        """``st_size`` in bytes and ``st_mtime_ns``, when it was put. Raises `FileNotFoundError`."""
        about = repeated(self, "read", lambda: obstore().head(self.store, self.key))
        return SimpleNamespace(st_size=about["size"], st_mtime_ns=int(about["last_modified"].timestamp() * 1e9))

    def is_file(self) -> bool:
        try:
            self.stat()
        except FileNotFoundError:
            return False
        return True

    def is_dir(self) -> bool:
        begin = self.key + "/" if self.key else None
        return repeated(self, "list", lambda: any(True for _ in obstore().list(self.store, begin, chunk_size=1)))

    def exists(self) -> bool:
        return self.is_file() or self.is_dir()

    def iterdir(self) -> "Iterator[StorePath]":
        """What lies directly in a folder."""
        found = repeated(self, "list", lambda: obstore().list_with_delimiter(self.store, self.key or None))
        keys = [*found["common_prefixes"], *(about["path"] for about in found["objects"])]
        return (StorePath(self.scheme, self.bucket, key) for key in keys if key != self.key)

    def rglob(self, pattern: str) -> "Iterator[StorePath]":
        """All objects in a folder and in those below it whose name fits."""
        begin = self.key + "/" if self.key else None

        def keys() -> list[str]:
            return [about["path"] for batch in obstore().list(self.store, begin) for about in batch]

        found = (StorePath(self.scheme, self.bucket, key) for key in repeated(self, "list", keys))
        return (path for path in found if PurePosixPath(path.name).match(pattern))

    # Bytes

    def open(self, mode: str = "rb", *, encoding: str | None = None, newline: str | None = None) -> Any:
        """A file to be read, from anywhere in it, `BLOCK` bytes at once. Raises `FileNotFoundError`."""
        assert mode in ("r", "rb"), mode
        data = io.BufferedReader(_StoreReader(self), BLOCK)
        return data if mode == "rb" else io.TextIOWrapper(data, encoding=encoding or "utf-8", newline=newline)

    def read_bytes(self) -> bytes:
        return repeated(self, "read", lambda: bytes(obstore().get(self.store, self.key).bytes()))

    def read_range(self, start: int, length: int) -> bytes:
        """So many bytes from one on, or as many as there are. start: below 0 from the end."""

        def get() -> bytes:
            if start >= 0:
                return bytes(obstore().get_range(self.store, self.key, start=start, length=length))
            options = {"range": {"suffix": -start}}
            return bytes(obstore().get(self.store, self.key, options=options).bytes())[:length]

        return repeated(self, "read", get)

    def read_text(self, encoding: str = "utf-8") -> str:
        return self.read_bytes().decode(encoding)

    def put(self, content: bytes | Path) -> None:
        """Write the object, from bytes or a local file, whole or not at all."""
        given: Any = content
        repeated(self, "write", lambda: obstore().put(self.store, self.key, given, chunk_size=PART, max_concurrency=4))

    def unlink(self, missing_ok: bool = False) -> None:
        if not missing_ok and not self.is_file():
            raise FileNotFoundError(str(self))
        with suppress(FileNotFoundError):
            repeated(self, "remove", lambda: obstore().delete(self.store, self.key))

    # Under a condition

    def create(self, content: bytes) -> bool:
        """Write the object unless there is one (``If-None-Match: *``). Returns whether it was written.

        content: different from that of everybody else's. So a request whose answer was lost is known to have done it.
        """
        return self._conditional(content, "create")

    def replace(self, content: bytes, version: dict[str, str]) -> bool:
        """Write the object if it is still of this version (``If-Match``), of `version`; as `create`."""
        return self._conditional(content, version)

    def _conditional(self, content: bytes, mode: Any) -> bool:
        refused = (errors().AlreadyExistsError, errors().PreconditionError, FileNotFoundError)

        def put() -> bool:
            try:
                obstore().put(self.store, self.key, content, mode=mode, use_multipart=False)
            except refused:
                with suppress(FileNotFoundError):
                    return self.read_bytes() == content  # an earlier try, whose answer was lost
                return False
            return True

        return repeated(self, "write", put)

    def version(self) -> tuple[bytes, dict[str, str]] | None:
        """The content and what tells it from a later one (ETag, of GCS the generation); None where there is none."""

        def get() -> tuple[bytes, dict[str, str]]:
            found = obstore().get(self.store, self.key)
            known = {name: found.meta.get(name) for name in ("e_tag", "version")}
            return bytes(found.bytes()), {name: value for name, value in known.items() if value}

        with suppress(FileNotFoundError):
            return repeated(self, "read", get)
        return None


Place = Path | StorePath
Result = TypeVar("Result")
Parts = Callable[[int, int], bytes]  # given the first byte, below 0 from the end, and how many


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
        raise ConfigError(f"{scheme}://{found['rest'] or ''}: this kind of store is not supported; give s3:// or gs://")
    bucket, _, key = (found["rest"] or "").partition("/")
    if not bucket:
        raise ConfigError(f"{scheme}://: name a bucket and what lies in it, as {scheme}://bucket/folder")
    return StorePath(scheme, bucket, str(PurePosixPath(key)) if key.strip("/") else "")


def refuse_stores(*paths: Place | str | None) -> None:
    """Raise `ConfigError` for a path on a store, where only files of this machine are worked with."""
    for path in paths:
        if path is not None and isinstance(found := place(path), StorePath):
            raise ConfigError(f"{found}: this takes local files only; copy the file and give its local path")


def remove_tree(folder: Place, *, ignore_errors: bool = False) -> None:
    """Remove a folder with all that lies in it. ignore_errors: of the disk of this machine."""
    if isinstance(folder, Path):
        shutil.rmtree(folder, ignore_errors=ignore_errors)
        return
    if folder.scheme == "gs":  # which removes one by one, and stops at one that is gone
        map_places(lambda path: path.unlink(missing_ok=True), list(folder.rglob("*")))
        return
    found = [path.key for path in folder.rglob("*")]
    for first in range(0, len(found), 1000):
        batch = found[first : first + 1000]
        with suppress(FileNotFoundError):
            repeated(folder, "remove", partial(obstore().delete, folder.store, batch))


@contextmanager
def parts_of(path: Place) -> Iterator["Parts"]:
    """What reads a few short parts of a file, which is opened once; each part of a store's is a request."""
    if isinstance(path, StorePath):
        yield path.read_range
    else:
        with path.open("rb") as file:

            def read(start: int, length: int) -> bytes:
                file.seek(start, os.SEEK_SET if start >= 0 else os.SEEK_END)
                return file.read(length)

            yield read


def map_places(function: Callable[[Place], Result], paths: list[Place]) -> list[Result]:
    """What a function gives for each path; several threads ask where these are of a store."""
    from concurrent.futures import ThreadPoolExecutor

    if not any(isinstance(path, StorePath) for path in paths):
        return [function(path) for path in paths]
    with ThreadPoolExecutor(32) as pool:
        return list(pool.map(function, paths))


def read_all(paths: list[Place]) -> list[bytes | None]:
    """The contents of many small files, None for those that are not there."""

    def read(path: Place) -> bytes | None:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None

    return map_places(read, paths)


def polars_options(path: Place) -> dict[str, Any]:
    """What Polars is given to read a file of a store besides its address.

    It keeps the stores that it has opened by their bucket and these options, so what tells where a bucket is must be
    among them: else a process whose variables change goes on reading the bucket of that name at the old place.
    """
    if isinstance(path, Path):
        return {}
    obstore()
    where = {name.lower(): os.environ[name] for name in _WHERE[path.scheme] if name in os.environ}
    return {"storage_options": polars_retries() | where | ({"aws_allow_http": "true"} if plain_http() else {})}


class Blocks:
    """Bytes from anywhere in a file, asked for by several threads; the last blocks of a store's file are kept."""

    KEPT = 6

    def __init__(self, path: Place) -> None:
        self._there = path if isinstance(path, StorePath) else None
        self._file: BinaryIO | None = path.open("rb") if isinstance(path, Path) else None
        self.size: int = path.stat().st_size if self._file is None else os.fstat(self._file.fileno()).st_size
        self._blocks, self._lock = dict[int, bytes](), threading.Lock()

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
        assert self._there is not None
        with self._lock:
            if number not in self._blocks:
                if len(self._blocks) >= self.KEPT:
                    self._blocks.pop(next(iter(self._blocks)))
                begin = number * BLOCK
                self._blocks[number] = self._there.read_range(begin, min(BLOCK, self.size - begin))
            return self._blocks[number]

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class _StoreReader(io.RawIOBase):
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
            buffer[:length] = self._path.read_range(self._at, length)
            self._at += length
        return length
