"""A run folder: the files of one run, written by one process and kept, with their checksums (`anachron.io.jobs`).

``run.json`` holds the SHA-256 of every finished file and of itself. Nothing is read out of such a folder that is not as
it was written: a reader refuses it, and whoever opens the folder to go on makes it again.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from os.path import normpath
from pathlib import Path
from typing import Any

import polars as pl

from anachron.core.errors import ConfigError, DataError
from anachron.io.files import (
    Json,
    file_fingerprint,
    json_bytes,
    json_fingerprint,
    parse_json,
    read_bytes,
    read_json,
    remove_leftovers,
    write_bytes,
    write_json,
)
from anachron.io.jobs import ELSEWHERE, Warn, differences, locked, now
from anachron.io.servers import same_servers
from anachron.io.stores import Place, StorePath
from anachron.io.tables import parse_table, table_bytes

RUN_FILE = "run.json"
FORMAT = 2
# What a thing is called, not what it is: a model's label; where data was read from (its fingerprint says what it is).
NAMES = frozenset({"dataset", "updates", "label"})
# Where a server's address stands, and the other addresses that are said to have served the same model.
ADDRESSES, SAME_AS = ("base_url", "device"), "same_as"
# What settings are called where they differ, those first that change numbers most; others go by their own names.
WORDS = {
    "model": "model", "weights": "weights of the model", "file": "file of the model",
    "revision": "revision of the model", "base_url": "server", "dtype": "precision of the weights",
    "edit_prefix": "edit in force", "edit_beside": "edit in force",
    "passages": "passages of your own",
    "dataset_fingerprint": "facts or statements asked about",
    "as_of": "date up to which facts are known", "limit": "number of facts", "language": "language of the questions",
    "columns": "what columns mean", "dates": "order of day and month", "sheet": "sheet",
    "sampling": "how dates are chosen", "decoys": "decoys of each fact", "wordings": "other wordings",
    "boundaries": "what counts as the bounds of a period", "format": "format",
    "prefix": "text before each prompt", "prefix_text": "words of the text before each prompt",
    "native_softmax": "softmax in the model's own precision", "all_occurrences": "score every occurrence of the answer",
    "answer_in_user_turn": "answer in the user's turn", "tokenizer": "tokenizer", "config": "model's configuration",
    "temperature": "temperature of answers", "ways": "ways of asking", "device": "device or server",
    "prefix_tree": "shared beginnings computed once", "batch_tokens": "tokens in a batch",
    "deterministic": "repeatable algorithms alone", "seed": "seed",
}  # fmt: skip
OF_READING = frozenset({"columns", "dates", "sheet"})  # how a file of facts was read
OF_DATA = OF_READING | {
    *NAMES, "dataset_fingerprint", "boundaries", "as_of", "limit", "language", "sampling", "decoys", "wordings",
}  # fmt: skip
TOLD, NAMED = 3, 8  # differences that are told with both values, and by name
STATUSES = ("running", "done")
SHAPE: dict[str, type] = {"status": str, "settings": dict, "sessions": list, "files": dict}
REPAIR = "repeat the command that made the folder: damaged files are then made again"


class Kind(StrEnum):
    """What a run did: statements scored, questions about facts or about changes answered, updates made and
    judged, ways to make updates compared."""

    SCORES = "scores"
    ANSWERS = "answers"
    CHANGES = "changes"
    EDITS = "edits"
    ADVICE = "advice"


@contextmanager
def open_run(path: Path, settings: Json, kind: Kind, *folders: str) -> Iterator["RunFolder"]:
    """A run folder to go on in, which is locked meanwhile, without what killed writers left in it and in its folders.

    kind: as the run's record says it. Raises as `locked` and `RunFolder.open`.
    """
    with locked(path / ".lock", path):
        run = RunFolder.open(path, settings)
        run.record.setdefault("kind", kind.value)
        run.remove_leftovers(*folders)
        yield run


def kind_of(path: Path | str) -> Kind | None:
    """What kind of run a folder holds, finished or not, by its record; None where it holds none."""
    file = Path(path) / RUN_FILE
    record = read_json(file) if file.is_file() else None
    return kind_in(record) if isinstance(record, dict) and isinstance(record.get("settings"), dict) else None


def kind_in(record: Json) -> Kind | None:
    """By what a record says; one that was written before records said it is told by its settings."""
    settings = record["settings"]
    if record.get("kind") in tuple(Kind):
        return Kind(record["kind"])
    if "what" in settings:
        return {"asked": Kind.ANSWERS, "horizon": Kind.CHANGES}.get(settings["what"])
    return Kind.EDITS if {"number_of_updates", "mode"} <= settings.keys() else Kind.SCORES


@contextmanager
def reopen_run(path: Path) -> Iterator["RunFolder"]:
    """A run folder that is there, to write more into, which is locked meanwhile. Raises as `RunFolder.read`."""
    with locked(path / ".lock", path):
        yield RunFolder.read(path)


class RunFolder:
    """A folder and its record. Files are named by their path from it, with ``/``: ``scores/part-00000.parquet``.

    Whoever changes it holds its lock (`open_run`).
    """

    def __init__(self, path: Path, record: Json) -> None:
        self.path, self.record = path, record

    @property
    def kind(self) -> Kind | None:
        """What kind of run it is; None of a kind that this version does not know."""
        return kind_in(self.record)

    @classmethod
    def read(cls, path: Path) -> "RunFolder":
        """One that is there. Raises `DataError` where its record is damaged, of an earlier version, or none."""
        return cls(path, read_record(path))

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
            stored, wanted, elsewhere = _of_one_server(stored, wanted)
            if lines := differences(stored, json.loads(json.dumps(wanted))):
                if run.kind is Kind.SCORES and {_setting(line) for line in lines} <= OF_DATA:
                    elsewhere = f"choose another --out (probe and check with --reuse {path} to score only what is new)"
                apart = in_words(lines)
                raise ConfigError(f"{path} holds a run with other settings ({apart}); {elsewhere} or the same settings")
            if stored.get(SAME_AS) != run.record["settings"].get(SAME_AS):
                run.record["settings"][SAME_AS] = stored[SAME_AS]
                run.save()
            return run
        if path.is_file() or (path.is_dir() and any(not p.name.startswith(".") for p in path.iterdir())):
            raise ConfigError(f"{path} is not empty and holds no {RUN_FILE}; choose a new or empty folder")
        return cls.new(path, settings)

    @classmethod
    def new(cls, path: Path, settings: Json) -> "RunFolder":
        """One that has just begun, of which nothing is written yet."""
        start = {"format": FORMAT, "status": "running", "settings": settings, "started": now(), "sessions": []}
        return cls(path, start | {"files": {}})

    @property
    def is_done(self) -> bool:
        return bool(self.record["status"] == "done")

    def save(self) -> None:
        """Write the record."""
        write_json(self.path / RUN_FILE, self.record | {"sha256": json_fingerprint(self.record)})

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
        return read_recorded(self.path, self.record, name)

    def holds(self, name: str) -> bool:
        """Whether a file is there or should be; it may be damaged."""
        return name in self.record["files"] or (self.path / name).is_file()

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


def read_record(folder: Place) -> Json:
    """The record of a run, which may lie on a store. Raises as `RunFolder.read`."""
    file, again = folder / RUN_FILE, "repeat the command that made the folder, with a new --out"
    try:
        record = read_json(file)
    except DataError as error:
        raise DataError(f"{error}; {again}") from error
    if isinstance(record, dict) and isinstance(record.get("settings"), dict) and not {"format", "sha256"} & {*record}:
        raise DataError(
            f"{folder} holds a run of an earlier version, whose record says neither how the model was configured nor "
            f"what its files held, so its numbers are not trusted; {again}"
        )
    if fault := _fault(record):
        raise DataError(f"{file} is not the record of a run as it was written: {fault}; {again}")
    return {name: value for name, value in record.items() if name != "sha256"}


def read_recorded(folder: Place, record: Json, name: str) -> bytes:
    """What a file of a run with this record holds. Raises as `RunFolder.read_file`."""
    path: Place = Path(normpath(folder / name)) if isinstance(folder, Path) else folder / name
    if isinstance(path, StorePath) and name.startswith("../"):  # a file beside the folder is told by its place
        path = folder.parent / name.removeprefix("../")
    wanted = record["files"].get(name)
    if wanted is None:
        raise DataError(f"{path} is not among the files of {folder / RUN_FILE}; {REPAIR}")
    content = read_bytes(path)
    if hashlib.sha256(content).hexdigest() != wanted:
        raise DataError(f"{path} is damaged (it does not have the SHA-256 that {RUN_FILE} names); {REPAIR}")
    return content


def in_words(lines: Iterable[str]) -> str:
    """How the settings of two runs differ (`anachron.io.jobs.differences`), those first that change numbers most: a few
    with both values, then the names of the others."""
    order = {name: place for place, name in enumerate(WORDS)}
    ordered = sorted(lines, key=lambda line: order.get(_setting(line), len(order)))
    told = [_in_words(line) for line in ordered[:TOLD]]
    others = [line.partition(": ")[0] for line in ordered[TOLD:]]
    more = f"and {len(others)} more: {', '.join(others[:NAMED])}{', ...' if others[NAMED:] else ''}"
    return "; ".join([*told, more] if others else told)


def _in_words(line: str) -> str:
    """``precision of the weights (dtype): 'float32' -> 'bfloat16'`` of a line of `differences`."""
    name, _, values = line.partition(": ")
    words = WORDS.get(name, name)
    values = re.sub(r"'([0-9a-f]{8})[0-9a-f]{56}'", r"\1...", values)  # of a SHA-256 the first digits tell
    return f"{words}{'' if words == name else f' ({name})'}: {values}"


def _setting(line: str) -> str:
    """Which setting a line of `differences` is of: ``config`` of ``config.layers[2]: 7 -> 8``."""
    return re.split(r"\W", line, maxsplit=1)[0]


def _of_one_server(stored: Json, wanted: Json) -> tuple[Json, Json, str]:
    """Settings of a folder and of a command, alike in their addresses where all that the folder holds are said to be of
    one model; and what to do where they differ."""
    known, said = _addresses(stored), _addresses(wanted)
    if known and known <= said:
        first = next(stored[name] for name in ADDRESSES if name in stored)
        more = said - {*same_servers([first])}
        same = {name: first for name in ADDRESSES if name in stored} | ({SAME_AS: sorted(more)} if more else {})
        stored, wanted = stored | same, wanted | same
    lacking = "".join(f" --same-as {url}" for url in sorted(known - said)) if said else ""
    return stored, wanted, f"add{lacking} if the same model answered there, {ELSEWHERE}" if lacking else ELSEWHERE


def _addresses(settings: Json) -> set[str]:
    """The server that a run asks, and those that are said to be the same; empty for a model of this machine."""
    named = [value for name in ADDRESSES if "://" in (value := str(settings.get(name)))]
    return {*same_servers([*named, *settings.get(SAME_AS, [])])} if named else set()


def _fault(record: Any) -> str | None:
    """What is wrong with the content of a record, if anything."""
    if not isinstance(record, dict):
        return "it is not an object"
    content = {name: value for name, value in record.items() if name != "sha256"}
    if record.get("sha256") != json_fingerprint(content):
        return "its content does not have the SHA-256 that it names"
    if record.get("format") != FORMAT:
        return f"its format is {record.get('format')!r}, not {FORMAT}"
    for name, kind in SHAPE.items():
        if not isinstance(record.get(name), kind):
            return f"its {name} is {record.get(name)!r}"
    if record["status"] not in STATUSES:
        return f"its status is {record['status']!r}, not {' or '.join(STATUSES)}"
    return None
