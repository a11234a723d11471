"""What was fetched, in one SQLite file a site: an answer is there as soon as it came, so a kill loses none.

Two tables. Entities are keyed by id and revision: what a revision holds never changes, so runs may share them. All
other answers (the ids of a query, which revision an id has) hold for one run, which a resumed call goes on with.
"""

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Self

import zstandard

from anachron.core.errors import BackendError, DataError
from anachron.io.cache import cache_folder

FORMAT = 1  # of the file
_TABLES = """
create table if not exists entities (id text, revision integer, body blob, primary key (id, revision)) without rowid;
create table if not exists answers
    (run text, kind text, key text, value text, primary key (run, kind, key)) without rowid;
"""
DRY = "dry run "  # what the names of runs begin with of which nothing is to stay
_FIXES = {
    "SQLITE_BUSY": "another command is writing to it: run this one again when that is done",
    "SQLITE_FULL": "the disk is full: make room, and run the same command again; what was fetched is kept",
}
_PLACE = "its folder must be writable, and on a disk of this machine; choose one with --cache or ANACHRON_CACHE"


def default_cache() -> Path:
    """The folder of what was fetched, unless said otherwise: in the user's cache folder, for all topics together."""
    return cache_folder() / "wikidata"


def file_of(cache: Path, url: str) -> Path:
    """The file of a site in that folder."""
    return cache / f"{re.sub('[^a-z0-9.-]+', '_', url.partition('//')[2].casefold())}.sqlite"


class Kept:
    """The file and one run of it; a context manager. Raises `DataError` for another file, `BackendError` where it
    cannot be written."""

    def __init__(self, path: Path, run: str) -> None:
        self.path, self.run = path, run
        self._packed = zstandard.ZstdCompressor(level=3).compress
        self._unpacked = zstandard.ZstdDecompressor().decompress

    def __enter__(self) -> Self:
        with self._ours():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = sqlite3.connect(self.path, timeout=60, isolation_level=None)
            version = self._file.execute("pragma user_version").fetchone()[0]
            if version not in (0, FORMAT):
                raise DataError(f"{self.path}: of format {version}, this version reads {FORMAT}; remove it")
            # With this journal a killed process loses no answer, and one that is written takes no wait for the disk.
            self._file.execute("pragma journal_mode = wal")
            self._file.execute("pragma synchronous = normal")
            self._file.executescript(_TABLES)
            self._file.execute(f"pragma user_version = {FORMAT}")
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @contextmanager
    def _ours(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.OperationalError, OSError) as error:
            fix = _FIXES.get(getattr(error, "sqlite_errorname", ""), _PLACE)
            raise BackendError(f"cannot write {self.path} ({error}): {fix}") from error
        except sqlite3.DatabaseError as error:
            raise DataError(f"{self.path} is damaged, or no file of answers ({error}); remove it") from error

    @contextmanager
    def answer(self) -> Iterator[None]:
        """What is put in the block is there as a whole or, where it is left by an error or a kill, not at all."""
        self._one("begin immediate")
        try:
            yield
        except BaseException:
            if self._file.in_transaction:  # a full disk ends it by itself
                self._file.execute("rollback")
            raise
        self._one("commit")

    def put(self, kind: str, key: str, value: Any) -> None:
        self._one("insert or replace into answers values (?, ?, ?, ?)", (self.run, kind, key, json.dumps(value)))

    def get(self, kind: str, key: str = "") -> Any:
        """An answer of this run; ``None`` where there is none."""
        row = self._one("select value from answers where run = ? and kind = ? and key = ?", (self.run, kind, key))
        return None if row is None else json.loads(row[0])

    def all(self, kind: str) -> dict[str, Any]:
        """The answers of one kind of this run, by their keys."""
        with self._ours(), closing(self._file.cursor()) as rows:
            rows.execute("select key, value from answers where run = ? and kind = ?", (self.run, kind))
            return {key: json.loads(value) for key, value in rows}

    def begin(self, job: Any) -> None:
        """Go on with the run of this job, or begin it: what earlier ones of its name and dry ones left is gone."""
        job = json.dumps(job, sort_keys=True)
        if self.get("job") != job:
            with self.answer():
                self._one("delete from answers where run = ? or run like ?", (self.run, f"{DRY}%"))
                self.put("job", "", job)

    def forget(self) -> None:
        """Drop the answers of this run, which is done; entities stay."""
        self._one("delete from answers where run = ?", (self.run,))

    def put_entity(self, id: str, revision: int, body: bytes) -> None:
        self._one("insert or ignore into entities values (?, ?, ?)", (id, revision, self._packed(body)))

    def has(self, id: str, revision: int | None = None) -> bool:
        """Whether this revision of an entity is here, or any where none is given."""
        query = "select 1 from entities where id = ? and revision = coalesce(?, revision) limit 1"
        return self._one(query, (id, revision)) is not None

    def entity(self, id: str, revision: int) -> bytes:
        """The JSON of an entity that is here."""
        row = self._one("select body from entities where id = ? and revision = ?", (id, revision))
        assert row is not None, (id, revision)
        return self._unpacked(row[0])

    def _one(self, query: str, values: tuple[Any, ...] = ()) -> Any:
        with self._ours():
            return self._file.execute(query, values).fetchone()
