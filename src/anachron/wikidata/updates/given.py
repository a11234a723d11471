"""Groups of triples that somebody gives as JSON lines, and their labels (``anachron label``)."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl

from anachron.core.dates import Date
from anachron.core.errors import ConfigError, DataError
from anachron.io.files import Json, file_fingerprint, read_jsonl, write_bytes, write_manifest
from anachron.wikidata.reading.times import DAY, GREGORIAN, MONTH, YEAR, read_time
from anachron.wikidata.updates.labels import TRIPLE_COLUMNS, label_triples

FUNCTIONAL = {"temp": True, "func": True, "other": False}
FLAGS = ("old", "new", "both")
_TIME = re.compile(r"[+-][0-9]{1,16}-([0-9]{2})-([0-9]{2})T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")


def label_groups(groups: Iterable[Json], old_date: str, new_date: str) -> list[Json]:
    """``{"labels": [...], "rules": [...]}`` for each group, before any group is dropped.

    groups: ``property, relation_type (temp, func, other), subject_is_new,
    subject_only_in_old, triples [{diff, value_time, object_is_new_entity, qualifiers_new, qualifiers_old}]``. Times are
    those of Wikidata (``+2021-00-00T00:00:00Z``), null where unknown.

    Raises `DataError` with the number of the group for one that cannot be read, and for dates that are not in order.
    """
    old_day, new_day = (Date.parse(date).first_day for date in (old_date, new_date))
    if old_day >= new_day:
        raise DataError(f"the old date {old_date} is not before the new date {new_date}; exchange them")
    rows: list[dict[str, Any]] = []
    sizes: list[int] = []
    for number, group in enumerate(groups):
        try:
            of_group = _rows(group, number)
        except DataError as error:
            raise DataError(f"group {number + 1}: {error}") from error
        rows += of_group
        sizes.append(len(of_group))
    labelled = label_triples(pl.DataFrame(rows, schema=TRIPLE_COLUMNS), old_day, new_day)
    labels, rules = iter(labelled["label"].to_list()), iter(labelled["rule"].to_list())
    return [{"labels": [next(labels) for _ in range(n)], "rules": [next(rules) for _ in range(n)]} for n in sizes]


def label_file(groups: Path | str, old_date: str, new_date: str, out: Path | str | None = None) -> list[Json]:
    """Label the groups of a .jsonl file (see `label_groups`), and write the labels to ``out`` (.jsonl) with a manifest.

    Raises `ConfigError` for another ending of ``out``, and `DataError` as `label_groups`.
    """
    groups = Path(groups)
    if out is not None and Path(out).suffix != ".jsonl":
        raise ConfigError(f"{out}: labels are written as .jsonl")
    labelled = label_groups(read_jsonl(groups), old_date, new_date)
    if out is not None:
        write_bytes(out, json_lines(labelled).encode())
        write_manifest(
            out,
            command="label",
            parameters={"old_date": old_date, "new_date": new_date},
            inputs={str(groups): file_fingerprint(groups)},
            counts={"groups": len(labelled), "triples": sum(len(row["labels"]) for row in labelled)},
        )
    return labelled


def json_lines(rows: Iterable[Json]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def _rows(group: Json, number: int) -> list[dict[str, Any]]:
    kind = group.get("relation_type")
    if kind not in FUNCTIONAL:
        raise DataError(f"relation_type {kind!r}: write one of {', '.join(FUNCTIONAL)}")
    property = group.get("property")
    if not isinstance(property, str):
        raise DataError(f"property {property!r}: write the id of the relation, as P39")
    triples = group.get("triples")
    if not isinstance(triples, list) or not triples:
        raise DataError("triples: give a list of at least one triple")
    shared = {
        "group": number, "property": property, "functional": FUNCTIONAL[kind],
        "subject_is_new": _truth(group, "subject_is_new"), "subject_only_in_old": _truth(group, "subject_only_in_old"),
    }  # fmt: skip
    return [shared | _row(triple) for triple in triples]


def _row(triple: Any) -> dict[str, Any]:
    if not isinstance(triple, dict):
        raise DataError(f"triple {triple!r}: expected an object")
    if triple.get("diff") not in FLAGS:
        raise DataError(f"diff {triple.get('diff')!r}: write one of {', '.join(FLAGS)}")
    new, old = _qualifiers(triple, "qualifiers_new"), _qualifiers(triple, "qualifiers_old")
    return {
        "flag": triple["diff"], "object_is_new": _truth(triple, "object_is_new_entity"),
        "value_day": _day(triple.get("value_time")), "start": _day(new.get("P580")), "end": _day(new.get("P582")),
        "point": _day(new.get("P585")), "old_end": _day(old.get("P582")),
    }  # fmt: skip


def _truth(record: Json, name: str) -> bool:
    value = record.get(name, False)
    if not isinstance(value, bool):
        raise DataError(f"{name} {value!r}: write true or false")
    return value


def _qualifiers(triple: Json, name: str) -> Json:
    value = triple.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise DataError(f"{name} {value!r}: expected an object of property and time, or null")
    return value


def _day(text: Any) -> int | None:
    """Day number of a time as Wikidata writes it; month and day 00 count as the first. Null where no day exists."""
    if text is None:
        return None
    match = _TIME.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise DataError(f"time {text!r}: write it as Wikidata does, +2021-00-00T00:00:00Z, or null where it is unknown")
    month, day = match.groups()
    date = read_time(text, YEAR if month == "00" else MONTH if day == "00" else DAY, GREGORIAN).date
    return None if date is None else Date.parse(date).first_day
