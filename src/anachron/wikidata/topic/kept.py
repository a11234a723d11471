"""What was fetched, in one SQLite file a site: an answer is there as soon as it came, so a kill loses none.

Two tables. Entities are keyed by id and revision: what a revision holds never changes, so runs may share them. All
other answers (the ids of a query, which revision an id has) hold for one run, which a resumed call goes on with.
"""

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator
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
            raise BackendError(f"cannot write {self.path}: {error}; what was fetched is kept: make room") from error
        except sqlite3.DatabaseError as error:
            raise DataError(f"{self.path} is damaged, or no file of answers ({error}); remove it") from error

    @contextmanager
    def answer(self) -> Iterator[None]:
        """What is put in the block is there as a whole or, where it is left by an error or a kill, not at all."""
        with self._ours():
            self._file.execute("begin immediate")
            try:
                yield
            except BaseException:
                self._file.execute("rollback")
                raise
            self._file.execute("commit")

    def put(self, kind: str, key: str, value: Any) -> None:
        row = (self.run, kind, key, json.dumps(value))
        self._file.execute("insert or replace into answers values (?, ?, ?, ?)", row)

    def get(self, kind: str, key: str = "") -> Any:
        """An answer of this run; ``None`` where there is none."""
        row = self._one("select value from answers where run = ? and kind = ? and key = ?", (self.run, kind, key))
        return None if row is None else json.loads(row[0])

    def all(self, kind: str) -> dict[str, Any]:
        """The answers of one kind of this run, by their keys."""
        with self._ours(), closing(self._file.cursor()) as rows:
            rows.execute("select key, value from answers where run = ? and kind = ?", (self.run, kind))
            return {key: json.loads(value) for key, value in rows}

    def forget(self) -> None:
        """Drop the answers of this run, which is done; entities stay."""
        with self.answer():
            self._file.execute("delete from answers where run = ?", (self.run,))

    def put_entity(self, id: str, revision: int, body: bytes) -> None:
        self._file.execute("insert or ignore into entities values (?, ?, ?)", (id, revision, self._packed(body)))

    def has_entity(self, id: str, revision: int) -> bool:
        return self._one("select 1 from entities where id = ? and revision = ?", (id, revision)) is not None

    def entity(self, id: str, revision: int) -> bytes:
        """The JSON of an entity that is here."""
        row = self._one("select body from entities where id = ? and revision = ?", (id, revision))
        assert row is not None, (id, revision)
        return self._unpacked(row[0])

    def known(self, ids: Iterable[str]) -> set[str]:
        """Those of the ids of which some revision is here."""
        return {id for id in ids if self._one("select 1 from entities where id = ? limit 1", (id,)) is not None}

    def _one(self, query: str, values: tuple[Any, ...]) -> Any:
        with self._ours():
            return self._file.execute(query, values).fetchone()
