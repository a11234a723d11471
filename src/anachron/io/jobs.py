"""Jobs that survive being killed: their lock, their identity, and what is finished of them.

The identity of a job is all that its result depends on, as ``name: value``, under the names that its user gives it. It
is kept with the unfinished work, and whoever goes on has the same one; another is refused with the difference, in one
wording for all jobs (`refuse_others`). What is finished lies in files that appear whole or not at all
(`anachron.io.files`):

* in a run folder, written by one process and kept (`anachron.io.run_folder`);
* in a work folder (`begin`, `parts_folder`, `discard`), whose parts any number of processes write, and which goes with
  the job's end;
* in one file of tensors: `anachron.edit.tensors.Checkpoint`.
"""

import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import filelock

from anachron.core.errors import BackendError, ConfigError, DataError
from anachron.io.files import Json, read_json, remove_file, write_json
from anachron.io.leases import leased
from anachron.io.stores import Place, StorePath, refuse_stores, remove_tree

ELSEWHERE = "choose another --out"
WORK_FILE = "job.json"  # of a work folder: the identity, and when it was begun

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
    `anachron.io.leases`.
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


def remove_abandoned(lock: Place) -> None:
    """Remove the lock of a killed process where its job is done, so that nobody will take it; others stay.

    What is done may lie where this process may only read: there a lock harms nobody.
    """
    if lock.is_file():
        with suppress(ConfigError, DataError, BackendError), locked(lock, lock.parent, remove=True):
            pass


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
