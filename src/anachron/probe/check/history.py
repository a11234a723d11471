"""Checks over time: a line a run in a file that grows (``check --history``)."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from anachron.core.errors import DataError
from anachron.io.files import Json, json_fingerprint, read_bytes, read_jsonl, versions, write_bytes
from anachron.io.jobs import Warn, locked
from anachron.io.run_folder import NAMES, RunFolder

if TYPE_CHECKING:
    from anachron.probe.check.check import Check

FIELDS = ("run", "date", "label", "win_rate", "stale", "gate")  # those that are read again


def history_line(found: "Check") -> Json:
    """What a history says of a check: ``run`` (a fingerprint, the same where a command is repeated in its folder),
    ``date`` and time in UTC at which it was finished, ``model``, ``label``, ``facts`` (the fingerprint of what was
    asked), ``as_of``, number of facts ``asked``, ``win_rate`` and ``robustness`` (0 to 1), counts of ``verdicts`` and
    of ``present``, ``stale`` (null where nothing was asked about today), ``gate`` and ``anachron``, the version."""
    record, summary = RunFolder.read(found.folder).record, found.summary
    settings = {name: value for name, value in record["settings"].items() if name not in NAMES}
    gate = "passed" if found.passed else "failed"
    if not found.judged or not found.outcomes:
        gate = "no verdict" if found.outcomes else "no demands"
    return {
        "run": json_fingerprint([record["started"], settings]),
        "date": record["finished"],
        "model": settings["model"],
        "label": found.model,
        "facts": settings["dataset_fingerprint"],
        **{name: summary[name] for name in ("as_of", "asked", "win_rate", "robustness", "verdicts", "present")},
        "stale": summary["present"].get("stale", 0) if summary["present"] else None,
        "gate": gate,
        "anachron": versions()["anachron"],
    }


def read_history(path: Path) -> list[Json]:
    """The lines of a history; none where there is no file yet. Raises `DataError` for a file that holds others."""
    rows = read_jsonl(path) if path.exists() else []
    for number, row in enumerate(rows, 1):
        if missing := [name for name in FIELDS if name not in row]:
            raise DataError(
                f"--history {path}, row {number} is not of a check (it has no {missing[0]}); give a file of its own"
            )
    return rows


def append_history(path: Path, found: "Check", waiting: Warn = lambda message: None) -> list[Json]:
    """Add the line of a check, if it is not there yet, and return all. The file is replaced in one piece, by one
    process at a time. waiting: told that another one has it. Raises as `read_history`, and `BackendError` where it
    cannot be written."""
    target, line = path.resolve(), history_line(found)
    with locked(target.with_name(f".{target.name}.lock"), path, waiting=waiting):
        rows = read_history(path)
        if any(row["run"] == line["run"] for row in rows):
            return rows
        before = read_bytes(target) if rows else b""
        ended = before if not before or before.endswith(b"\n") else before + b"\n"
        write_bytes(target, ended + json.dumps(line, ensure_ascii=False).encode() + b"\n")
        return [*rows, line]
