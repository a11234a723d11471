"""Jobs that survive being killed: their lock, their identity, and what is finished of them.

The identity of a job is all that its result depends on, as ``name: value``, under the names that its user gives it. It
is kept with the unfinished work, and whoever goes on has the same one; another is refused with the difference, in one
wording for all jobs (`refuse_others`). What is finished lies in files that appear whole or not at all (`anachron.io`):

* in a `RunFolder`, written by one process and kept: ``run.json`` holds the SHA-256 of every finished file and of
  itself. Nothing is read out of such a folder that is not as it was written: a reader refuses it, and whoever opens the
  folder to go on makes it again;
* in a work folder (`begin`, `parts_folder`, `discard`), whose parts any number of processes write, and which goes with
  the job's end;
* in one file of tensors: `anachron.edit.tensors.Checkpoint`.
"""

import hashlib
import json
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import filelock
import polars as pl

from anachron.errors import BackendError, ConfigError, DataError
from anachron.io import (
    Json,
    file_fingerprint,
    json_bytes,
    parse_json,
    parse_table,
    read_bytes,
    read_json,
    remove_file,
    remove_leftovers,
    table_bytes,
    write_bytes,
    write_json,
)
from anachron.leases import leased
from anachron.stores import Place, StorePath, refuse_stores, remove_tree

ELSEWHERE = "choose another --out"
WORK_FILE = "job.json"  # of a work folder: the identity, and when it was begun
RUN_FILE = "run.json"
FORMAT = 2
# What a thing is called, not what it is: a model's label; where data was read from (its fingerprint says what it is).
NAMES = frozenset({"dataset", "updates", "label"})
STATUSES = ("running", "done")
SHAPE: dict[str, type] = {"status": str, "settings": dict, "sessions": list, "files": dict}
REPAIR = "repeat the command that made the folder: damaged files are then made again"

Warn = Callable[[str], None]
Progress = Callable[..., None]


@dataclass(frozen=True)
class Callbacks:
    """The functions that a job calls to report what it does; by default it reports nothing.

    warn, notice: called with a message for people.
    progress: called with how much is done, the total, and optionally a message.
    open_bar: called with a title and a unit (``items`` or ``bytes``); returns a context manager that shows a progress
        bar and yields the function that updates it. Without it, all steps of a job call ``progress``.
    """

    warn: Warn = lambda message: None
    progress: Progress = lambda done, total, note="": None
    notice: Warn = lambda message: None
    open_bar: Callable[[str, str], AbstractContextManager[Progress]] | None = None

    @contextmanager
    def bar(self, title: str, unit: str = "items") -> Iterator["Callbacks"]:
        """These callbacks for one step of a job, which has a bar of its own."""
        if self.open_bar is None:
            yield self
        else:
            with self.open_bar(title, unit) as progress:
                yield replace(self, progress=progress)

    @contextmanager
    def bars(self, unit: str = "items") -> Iterator[Callable[[str, int, int], None]]:
        """For things that are worked on one after another, a bar each: to be told (what, done, total)."""
        opened: dict[str, Progress] = {}
        with ExitStack() as stack:

            def progress(what: str, done: int, total: int) -> None:
                if what not in opened:
                    stack.close()  # the bar before is complete
                    opened[what] = stack.enter_context(self.bar(what, unit)).progress
                if self.open_bar is None:
                    self.progress(done, total, what)
                else:
                    opened[what](done, total)

            yield progress


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


# The lock


@contextmanager
def locked(
    lock: Place, held: Place, *, elsewhere: str = ELSEWHERE, remove: bool = False, waiting: Warn | None = None
) -> Iterator[None]:
    """Keep a second process out of ``held``, by a lock file; the lock goes with the process, however it ends.

    elsewhere: how to make the job write to another place, for the message. remove: leave no lock file behind. waiting:
    wait for a process that holds the lock, and tell this that it waits. Without it `ConfigError` is raised while
    another process holds the lock; `BackendError` where its folder cannot be written. On a store: see
    `anachron.leases`.
    """
    if isinstance(lock, StorePath):
        with leased(lock, held, elsewhere=elsewhere, waiting=waiting):
            yield
        return
    refuse_stores(lock)
    file_lock = filelock.FileLock(lock)
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        file_lock.acquire(timeout=0)
    except filelock.Timeout as error:
        if waiting is None:
            raise ConfigError(f"{held} is in use by another process; wait for it or {elsewhere}") from error
        waiting(f"{held} is in use by another process; waiting for it to finish")
        file_lock.acquire(poll_interval=0.2)
    except OSError as error:
        raise BackendError(f"cannot write to {lock.parent}: {error.strerror or error}; {elsewhere}") from error
    try:
        yield
    finally:
        if remove:  # while it is held: removed later, it might be the file of a lock that another process has by then
            remove_file(lock)
        file_lock.release()


# The identity


def refuse_others(path: Place, known: Json, identity: Json, what: str = "a run", *, elsewhere: str = ELSEWHERE) -> None:
    """Raise `ConfigError` with the differences unless what ``path`` holds was made with the same identity.

    known: the identity of what is there, as it was read from JSON.
    """
    if apart := differences(known, json.loads(json.dumps(identity))):
        raise ConfigError(
            f"{path} holds {what} with other settings ({'; '.join(apart)}); {elsewhere} or the same settings"
        )


def differences(old: Json, new: Json) -> list[str]:
    """Lines ``name: old -> new`` for every setting that differs; one inside another is named ``outer.inner``.

    In lists of one length only what differs is named, by its place: ``layers[2]: 7 -> 8``. What is not there differs
    from what is None.
    """
    names = dict.fromkeys([*old, *new])
    return [line for name in names for line in _apart(name, old.get(name, _Absent), new.get(name, _Absent))]


class _Absent:
    """In the place of a setting that is not there."""


def _apart(name: str, old: Any, new: Any) -> list[str]:
    if old == new:
        return []
    if isinstance(old, dict) and isinstance(new, dict):
        return differences(*({f"{name}.{key}": value for key, value in d.items()} for d in (old, new)))
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return [line for place, pair in pairs for line in _apart(f"{name}[{place}]", *pair)]
    return [f"{name}: {_short(old)} -> {_short(new)}"]


def _short(value: Any) -> str:
    text = "nothing" if value is _Absent else repr(value)
    return text if len(text) <= 70 else text[:67] + "..."


# Work folders


def begin(work: Place, identity: Json) -> Json:
    """A new work folder, or the one that a killed call with the same identity left; returns its record.

    The record is ``{"started": when it was first begun, "identity": identity}``, and on a store ``parts``, a name that
    is new for every job (`parts_folder`). The job's lock is held. Raises `ConfigError` with the differences for the
    unfinished work of another identity, `DataError` for a broken record.
    """
    if (record := begun(work)) is not None:
        refuse_others(work, record["identity"], identity, "unfinished work")
        return record
    if work.is_dir():  # what was being removed when its process was killed
        remove_tree(work)
    record = {"started": now(), "identity": identity}
    if isinstance(work, StorePath):
        record["parts"] = secrets.token_hex(4)
    write_json(work / WORK_FILE, record)
    return record


def parts_folder(work: Place, record: Json) -> Place:
    """Where the parts of the job with this record lie: on a disk in the work folder itself, on a store in one below it.

    The listings of some stores leave out for a while what was just put, and `discard` then misses it. Under a name that
    is new for every job, no later job meets it. Unfinished work that was begun before there were such names has none.
    """
    return work / record["parts"] if "parts" in record else work


def begun(work: Place) -> Json | None:
    """The record of a work folder; None where there is no folder, or one that counts for nothing."""
    file = work / WORK_FILE
    if not file.is_file():
        return None
    record = read_json(file)
    if (
        not isinstance(record, dict)
        or not isinstance(record.get("identity"), dict)
        or not isinstance(record.get("parts", ""), str)
        or "started" not in record
    ):
        raise DataError(f"{file} is not the record of unfinished work; remove {work} and repeat the command")
    return record


def discard(work: Place) -> None:
    """Remove a work folder; without its record, which goes first, nothing in it counts.

    What a store does not list yet stays, and goes when the next job begins there.
    """
    (work / WORK_FILE).unlink(missing_ok=True)
    remove_tree(work, ignore_errors=True)  # a dying worker may still write into it


# Run folders


@contextmanager
def open_run(path: Path, settings: Json) -> Iterator["RunFolder"]:
    """A run folder to go on in, which is locked meanwhile. Raises as `locked` and `RunFolder.open`."""
    with locked(path / ".lock", path):
        yield RunFolder.open(path, settings)


class RunFolder:
    """A folder and its record. Files are named by their path below it, with ``/``: ``scores/part-00000.parquet``.

    Whoever changes it holds its lock (`open_run`).
    """

    def __init__(self, path: Path, record: Json) -> None:
        self.path, self.record = path, record

    @classmethod
    def read(cls, path: Path) -> "RunFolder":
        """One that is there. Raises `DataError` where its record is damaged, of an earlier version, or none."""
        file, again = path / RUN_FILE, "repeat the command that made the folder, with a new --out"
        try:
            record = read_json(file)
        except DataError as error:
            raise DataError(f"{error}; {again}") from error
        if (
            isinstance(record, dict)
            and isinstance(record.get("settings"), dict)
            and not {"format", "sha256"} & {*record}
        ):
            raise DataError(
                f"{path} holds a run of an earlier version, whose record says neither how the model was configured nor "
                f"what its files held, so its numbers are not trusted; {again}"
            )
        if fault := _fault(record):
            raise DataError(f"{file} is not the record of a run as it was written: {fault}; {again}")
        del record["sha256"]
        return cls(path, record)

    @classmethod
    def open(cls, path: Path, settings: Json) -> "RunFolder":
        """One to go on in: that of an unfinished or finished run with the same settings, or a new one.

        Raises `ConfigError` with the differences when the folder holds a run with other settings, or other files, and
        `DataError` as `read`.
        """
        if (path / RUN_FILE).exists():
            run = cls.read(path)
            stored, wanted = (
                {name: value for name, value in one.items() if name not in NAMES}
                for one in (run.record["settings"], settings)
            )
            refuse_others(path, stored, wanted)
            return run
        if path.is_file() or (path.is_dir() and any(not p.name.startswith(".") for p in path.iterdir())):
            raise ConfigError(f"{path} is not empty and holds no {RUN_FILE}; choose a new or empty folder")
        start = {"format": FORMAT, "status": "running", "settings": settings, "started": now(), "sessions": []}
        return cls(path, start | {"files": {}})

    @property
    def is_done(self) -> bool:
        return bool(self.record["status"] == "done")

    def save(self) -> None:
        """Write the record."""
        write_json(self.path / RUN_FILE, self.record | {"sha256": _fingerprint(self.record)})

    def finish(self) -> None:
        """Write the record of a run that is done."""
        self.record |= {"status": "done", "finished": now()}
        self.save()

    def remove_leftovers(self, *names: str) -> None:
        """Remove what killed writers left in the folder itself and anywhere in the folders of these names."""
        remove_leftovers(self.path)
        for name in names:
            for place in (self.path / name, *(p for p in (self.path / name).rglob("*") if p.is_dir())):
                remove_leftovers(place)

    # Files that are written

    def write_table(self, name: str, table: pl.DataFrame) -> None:
        self.write(name, table_bytes(table, Path(name).suffix))

    def write_json(self, name: str, value: Any) -> None:
        self.write(name, json_bytes(value))

    def write(self, name: str, content: bytes) -> None:
        """Write a file, and then the record with its checksum."""
        if not (self.path / RUN_FILE).exists():  # a folder with files and no record is a stranger's
            self.save()
        write_bytes(self.path / name, content)
        self.record["files"][name] = hashlib.sha256(content).hexdigest()
        self.save()

    def keep(self, name: str) -> None:
        """Take a file into the record that somebody else wrote."""
        self.record["files"][name] = file_fingerprint(self.path / name)
        self.save()

    def forget(self, names: Iterable[str]) -> None:
        """Take files out of the record, then out of the folder."""
        gone = list(names)
        known = [name for name in gone if self.record["files"].pop(name, None) is not None]
        if known:
            self.save()
        for name in gone:
            (self.path / name).unlink(missing_ok=True)

    # Files that are read

    def read_table(self, name: str) -> pl.DataFrame:
        return parse_table(self.read_file(name), self.path / name)

    def read_json(self, name: str) -> Any:
        return parse_json(self.read_file(name), self.path / name)

    def read_file(self, name: str) -> bytes:
        """What a file holds. Raises `DataError` where it is not as it was written."""
        path = self.path / name
        wanted = self.record["files"].get(name)
        if wanted is None:
            raise DataError(f"{path} is not among the files of {self.path / RUN_FILE}; {REPAIR}")
        content = read_bytes(path)
        if hashlib.sha256(content).hexdigest() != wanted:
            raise DataError(f"{path} is damaged (it does not have the SHA-256 that {RUN_FILE} names); {REPAIR}")
        return content

    def has(self, name: str, warn: Warn = lambda message: None) -> bool:
        """Whether a file is there as it was written. warn: told of one that is there or recorded, but is not both."""
        path, wanted = self.path / name, self.record["files"].get(name)
        there = path.is_file()
        if wanted is None and not there:
            return False
        if wanted is None:
            fault = f"is not in {RUN_FILE}, as when a run is killed before its checksum is written"
        elif not there:
            fault = f"is missing, though {RUN_FILE} names it"
        elif hashlib.sha256(read_bytes(path)).hexdigest() != wanted:
            fault = f"is damaged (it does not have the SHA-256 that {RUN_FILE} names)"
        else:
            return True
        warn(f"{path} {fault}; it is made again")
        return False


def _fault(record: Any) -> str | None:
    """What is wrong with the content of a record, if anything."""
    if not isinstance(record, dict):
        return "it is not an object"
    content = {name: value for name, value in record.items() if name != "sha256"}
    if record.get("sha256") != _fingerprint(content):
        return "its content does not have the SHA-256 that it names"
    if record.get("format") != FORMAT:
        return f"its format is {record.get('format')!r}, not {FORMAT}"
    for name, kind in SHAPE.items():
        if not isinstance(record.get(name), kind):
            return f"its {name} is {record.get(name)!r}"
    if record["status"] not in STATUSES:
        return f"its status is {record['status']!r}, not {' or '.join(STATUSES)}"
    return None


def _fingerprint(record: Json) -> str:
    """SHA-256 of a record's content, however the file is laid out."""
    return hashlib.sha256(json.dumps(record).encode()).hexdigest()
