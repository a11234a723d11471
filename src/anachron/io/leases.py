"""Locks on stores, where no process's end frees a file: an object that says who holds it and when it last showed life.

It is made under the condition that there is none (``If-None-Match: *``), and only its holder replaces it
(``If-Match``), every `RENEWED` seconds. A holder that was killed leaves it behind. On the same machine that is seen,
and the lock is taken over: there is no such process, or one that was started at another time, or the machine was
started since the holder last showed life. Of another machine's process nobody here can know, so the error says when it
last showed life and what to type if it is gone. What tells processes and machines apart is Linux's; elsewhere no lock
is taken over.
"""

import json
import os
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from anachron.core.errors import ConfigError, DataError
from anachron.io.files import Json, is_running
from anachron.io.store_requests import StoreError
from anachron.io.stores import Place, StorePath

RENEWED = 20.0  # seconds
_REMOVE = {"s3": "aws s3 rm", "gs": "gcloud storage rm"}


@contextmanager
def leased(
    lock: StorePath, held: Place, *, elsewhere: str, waiting: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Keep a second process out of ``held``; see `anachron.io.jobs.locked`, whose arguments these are."""
    token = secrets.token_hex(16)
    if not lock.create(_record(token)) and not _taken_over(lock, token):
        message = _in_use(lock, held, elsewhere)
        if waiting is None:
            raise ConfigError(message)
        waiting(message + "; waiting until it is free")
        pause = threading.Event()
        while not lock.create(_record(token)) and not _taken_over(lock, token):
            pause.wait(RENEWED / 4)
    stop = threading.Event()
    renewing = threading.Thread(target=_renew, args=(lock, token, stop), daemon=True)
    renewing.start()
    try:
        yield
    finally:
        stop.set()
        renewing.join()
        if _is_ours(lock.version(), token):
            lock.unlink(missing_ok=True)


def _record(token: str) -> bytes:
    about = {
        "host": socket.gethostname(), "machine": _machine(), "installation": _installation(), "process": os.getpid(),
        "started": started_at(os.getpid()), "token": token,
        "alive": datetime.now(UTC).isoformat(timespec="milliseconds"),
    }  # fmt: skip
    return json.dumps(about).encode()


def _machine() -> str | None:
    """What tells this start of this machine (or container) from all others; None where that is not known."""
    try:
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return None


def _installation() -> str | None:
    """What tells this machine from others and outlasts its restarts; None where that is not known."""
    try:
        return Path("/etc/machine-id").read_text().strip() or None
    except OSError:
        return None


def started_at(process: int) -> int | None:
    """When a process was started, in ticks since this machine was; None where that is not known."""
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def _machine_started() -> datetime | None:
    try:
        lines = Path("/proc/stat").read_text().splitlines()
    except OSError:
        return None
    return next(
        (datetime.fromtimestamp(int(line.split()[1]), UTC) for line in lines if line.startswith("btime ")), None
    )


def _is_ours(found: tuple[bytes, Any] | None, token: str) -> bool:
    return found is not None and token.encode() in found[0]


def _read(lock: StorePath, content: bytes) -> Json:
    try:
        record = json.loads(content)
        known: Json = {name: record[name] for name in ("host", "machine", "process", "token")}
        known["alive"] = datetime.fromisoformat(record["alive"])
        if known["alive"].tzinfo is None or type(known["process"]) is not int or known["process"] < 1:
            raise ValueError("no time or process of a lock")
        # locks of earlier versions have neither
        return known | {"installation": record.get("installation"), "started": record.get("started")}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(f"{lock} is not a lock of Anachron; {_remedy(lock)}") from error


def _taken_over(lock: StorePath, token: str) -> bool:
    """Whether the lock was that of a process of this machine that is gone, and is ours now."""
    if (found := lock.version()) is None:
        return lock.create(_record(token))
    if _is_ours(found, token):
        return True
    record = _read(lock, found[0])
    return _gone(record) and lock.replace(_record(token), found[1])


def _gone(record: Json) -> bool:
    """Whether the process that holds a lock was one of this machine and has ended."""
    if record["machine"] is None:
        return False
    if record["machine"] == _machine():
        started = started_at(record["process"])
        another = None not in (started, record["started"]) and started != record["started"]
        return another or not is_running(record["process"])
    # Started anew, as the holder's last sign of life shows: that of a copy of this machine would be a recent one.
    began, alive = _machine_started(), record["alive"]
    silent = (datetime.now(UTC) - alive).total_seconds() > 3 * RENEWED
    same = None not in (record["installation"], _installation()) and record["installation"] == _installation()
    return same and record["host"] == socket.gethostname() and began is not None and alive < began and silent


def _renew(lock: StorePath, token: str, stop: threading.Event) -> None:
    """Show life until told to stop, or until the lock is another's: then somebody removed it by hand."""
    while not stop.wait(RENEWED):
        with suppress(StoreError):  # the next time
            found = lock.version()
            if found is None or not _is_ours(found, token):
                return
            lock.replace(_record(token), found[1])


def _in_use(lock: StorePath, held: Place, elsewhere: str) -> str:
    if (found := lock.version()) is None:
        return f"{held} was in use by another process until now; repeat the command or {elsewhere}"
    record = _read(lock, found[0])
    return (
        f"{held} is in use by process {record['process']} of {record['host']}, which last showed life at "
        f"{record['alive'].isoformat(timespec='milliseconds')} (it does every {RENEWED:g} seconds; by this machine's "
        f"clock it is {datetime.now(UTC).isoformat(timespec='seconds')}); wait for it or {elsewhere}; {_remedy(lock)}"
    )


def _remedy(lock: StorePath) -> str:
    return f"if that process is gone, remove the lock by: {_REMOVE[lock.scheme]} {lock}"
