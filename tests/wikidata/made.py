"""Snapshots written by hand: the tables of ``wikidata ingest`` from short records, without a dump."""

import json
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

Record = dict[str, Any]

BOUNDARY = pl.Struct(
    {"kind": pl.String, "date": pl.String, "precision": pl.Int8, "calendar": pl.String, "raw": pl.String}
    | {"values": pl.Int16}
)
ENTITIES = {
    "id": pl.String, "label": pl.String, "description": pl.String, "title": pl.String, "classes": pl.List(pl.String),
    "created": pl.String, "created_property": pl.String, "revision": pl.Int64, "modified": pl.String,
}  # fmt: skip
STATEMENTS = {
    "subject": pl.String, "property": pl.String, "statement_id": pl.String, "rank": pl.String, "datatype": pl.String,
    "snak": pl.String, "value_type": pl.String, "value": pl.String, "value_extra": pl.String,
    "value_precision": pl.Int8, "value_calendar": pl.String, "start": BOUNDARY, "end": BOUNDARY, "point": BOUNDARY,
    "qualifiers": pl.String,
}  # fmt: skip
CONSTRAINT = pl.Struct(
    {"kind": pl.String, "rank": pl.String, "separators": pl.List(pl.String), "exceptions": pl.List(pl.String)}
)
PROPERTIES = {
    "id": pl.String, "label": pl.String, "description": pl.String, "datatype": pl.String,
    "classes": pl.List(pl.String), "parents": pl.List(pl.String), "single_value": pl.Boolean,
    "separators": pl.List(pl.String), "exceptions": pl.List(pl.String), "constraints": pl.List(CONSTRAINT),
}  # fmt: skip
PRECISIONS = {1: 9, 2: 10, 3: 11}


def bucket(id: str, buckets: int) -> int:
    return zlib.crc32(id.encode()) % buckets


def boundary(date: str | None, *, kind: str = "known", precision: int | None = None, values: int = 1) -> Record:
    """A start, end or point in time as the snapshot holds it; the precision is that of the text unless given."""
    if kind != "known":
        return {"kind": kind, "date": None, "precision": None, "calendar": None, "raw": None, "values": values}
    filled = None if date is None else PRECISIONS[len(date.lstrip("-").split("-"))]
    precision = precision if precision is not None else filled
    raw = f"raw {date}"
    return {"kind": kind, "date": date, "precision": precision, "calendar": "gregorian", "raw": raw, "values": values}


UNKNOWN, OPEN = boundary(None, kind="unknown"), boundary(None, kind="open")


def entity(id: str, label: str | None = "", **more: Any) -> Record:
    """A row of entities. Label and title are made from the id unless given."""
    label = f"label of {id}" if label == "" else label
    return {"id": id, "label": label, "description": f"about {id}", "title": f"Title {id}", "classes": []} | more


def statement(
    subject: str, property: str, value: str | None, start: Any = None, end: Any = None, **more: Any
) -> Record:
    """A row of statements, with an item as its value. Boundaries are texts, records or None."""
    dates = {
        side: boundary(given) if isinstance(given, str) else given for side, given in (("start", start), ("end", end))
    }
    qualifiers = more.pop("qualifiers", {})
    row = {
        "subject": subject, "property": property, "statement_id": f"{subject}$1", "rank": "normal",
        "datatype": "wikibase-item", "snak": "value", "value_type": "entity", "value": value, **dates,
        "qualifiers": json.dumps(qualifiers),
    }  # fmt: skip
    return row | more


def property_(
    id: str, label: str | None = "", classes: Sequence[str] = (), datatype: str = "wikibase-item", **more: Any
) -> Record:
    label = f"relation {id}" if label == "" else label
    row = {"id": id, "label": label, "description": f"about {id}", "datatype": datatype, "classes": list(classes)}
    return row | more


def write_snapshot(
    folder: Path,
    entities: Iterable[Record],
    statements: Iterable[Record],
    properties: Iterable[Record],
    edges: Iterable[tuple[str, str]] = (),
    popularity: dict[str, float] | None = None,
    *,
    buckets: int = 4,
    wiki: str = "enwiki",
    date: str = "2021-01-04",
) -> Path:
    """Write the tables of a finished snapshot; rows keep their order, as those of a dump do."""
    tables: list[tuple[str, str, dict[str, Any], list[Record]]] = [
        ("entities", "id", ENTITIES, list(entities)),
        ("statements", "subject", STATEMENTS, list(statements)),
    ]
    for name, key, schema, rows in tables:
        (folder / name).mkdir(parents=True)
        for number in range(buckets):
            own = [{c: row.get(c) for c in schema} for row in rows if bucket(row[key], buckets) == number]
            pl.DataFrame(own, schema=schema).write_parquet(folder / name / f"part-{number:03d}.parquet")
    made = [{c: row.get(c) for c in PROPERTIES} for row in properties]
    pl.DataFrame(made, schema=PROPERTIES).write_parquet(folder / "properties.parquet")
    pl.DataFrame(
        [list(edge) for edge in edges], schema={"child": pl.String, "parent": pl.String}, orient="row"
    ).write_parquet(folder / "classes.parquet")
    if popularity is not None:
        rows = [{"id": id, "title": f"Title {id}", "popularity": views} for id, views in popularity.items()]
        pl.DataFrame(rows, schema={"id": pl.String, "title": pl.String, "popularity": pl.Float64}).write_parquet(
            folder / "popularity.parquet"
        )
    kept = len({row["subject"] for row in tables[1][3]})
    manifest = {
        "format": 1,
        "command": "wikidata ingest",
        "dump": {"name": "made.json", "size": 1, "compression": "none", "sha256": None},
        "date": date,
        "options": {"wiki": wiki, "language": "en", "limit": None, "entities": None, "buckets": buckets},
        "counts": {
            "items": len(tables[0][3]), "kept": kept, "properties": len(made), "statements": len(tables[1][3])
        },
        "versions": {},
    }  # fmt: skip
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder
