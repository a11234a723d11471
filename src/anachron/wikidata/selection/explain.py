"""What every step did with each statement of one entity (``wikidata explain``).

The verdicts are those of `anachron.wikidata.selection.stages`, which ``build facts`` selects by: nothing is decided
here.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from anachron.core.errors import ConfigError, DataError
from anachron.io.cluster import Spread
from anachron.io.files import Json
from anachron.io.tables import scan_parquet
from anachron.wikidata.reading.snapshot import Snapshot, open_snapshot, readable
from anachron.wikidata.selection.facts import selection_of
from anachron.wikidata.selection.lookups import (
    Lookups,
    barred_among,
    entity_rows,
    find_lookups,
    has_popularity,
    read_popularity,
)
from anachron.wikidata.selection.rules import Reason, Rules, Selection, Step
from anachron.wikidata.selection.select import ENTITY_COLUMNS, check_tables, select_facts
from anachron.wikidata.selection.stages import (
    Cut,
    cut_stage,
    entity_stage,
    no_minimum,
    period_stage,
    restrictive_pattern,
    row_stage,
    with_popularity,
)

_ENTITY = re.compile(r"Q[1-9]\d*")


@dataclass(frozen=True)
class Verdict:
    """One statement and what became of it.

    value: label of an item, else the text. start, end, point: in words, None where not stated.
    step, reason: what dropped it; both None for a fact that is kept, which has ``fact_id`` and, where popularity
    decides, ``popularity``.
    """

    statement_id: str | None
    property_id: str
    property_label: str | None
    value: str
    value_id: str | None
    rank: str
    start: str | None
    end: str | None
    point: str | None
    step: str | None
    reason: str | None
    fact_id: str | None
    popularity: float | None

    @property
    def kept(self) -> bool:
        return self.step is None


@dataclass(frozen=True)
class Explanation:
    """An entity of a snapshot (``id, label, description, title, classes, created``) and its statements in order."""

    entity: Json
    verdicts: list[Verdict]


def check_item(id: str) -> None:
    """Raise `ConfigError` for what is no id of an item."""
    if not _ENTITY.fullmatch(id):
        raise ConfigError(f"entity {id!r} is not an item id; write one such as Q42")


def explain_entity(
    snapshot: Snapshot | Path | str,
    id: str,
    settings: Selection | None = None,
    *,
    property: str | None = None,
    facts: Path | str | None = None,
    cut: Cut | None = None,
    spread: Spread | None = None,
) -> Explanation:
    """Explain what the selection does with each statement of one entity, optionally for one property only.

    facts: a file of ``build facts`` of this snapshot, whose settings and cut are then taken.
    cut: the popularity cut-off, as recorded by a finished selection with the same settings. It depends on all facts,
        so without it the selection is first run on the whole snapshot, unless the settings fix it.

    Raises `ConfigError` for an invalid id and `DataError` for an entity that the snapshot lacks, and for
    tables that are damaged.
    """
    snapshot, settings = open_snapshot(snapshot), settings or Selection()
    if facts is not None:
        settings, cut = selection_of(Path(facts), snapshot)
    check_item(id)
    check_tables(snapshot)
    entities = entity_rows(snapshot, [id], ENTITY_COLUMNS)
    if not entities.height:
        raise DataError(f"{id} is not in {snapshot.folder}: deleted, merged into another item, or left out by ingest")
    if cut is None:
        cut = _cut_of(snapshot, settings, spread)
    rules, lookups = Rules(settings, snapshot.wiki), find_lookups(snapshot, settings.class_depth)
    judged = _judged(snapshot, id, cut, rules, lookups)
    rows = judged if property is None else judged.filter(pl.col("property") == property)
    verdicts = [_verdict(row, rules, lookups.restrictive) for row in rows.iter_rows(named=True)]
    return Explanation(entities.row(0, named=True), verdicts)


def _cut_of(snapshot: Snapshot, settings: Selection, spread: Spread | None) -> Cut:
    if settings.lowers_threshold or settings.top_per_relation is not None or settings.per_stratum is not None:
        return select_facts(snapshot, settings, spread=spread).cut
    return Cut(settings.min_popularity)


def _judged(snapshot: Snapshot, id: str, cut: Cut, rules: Rules, lookups: Lookups) -> pl.DataFrame:
    """All statements of the entity in order, with the columns of every stage that they reached and ``dropped``."""
    settings = rules.settings
    bucket = snapshot.bucket_of(id)
    statements = scan_parquet(snapshot.part("statements", bucket), row_index_name="position")
    with readable(snapshot.part("statements", bucket)):
        of_entity = statements.filter(pl.col("subject") == id).collect()
    ids = {id, *of_entity.filter(pl.col("value_type") == "entity")["value"]}
    about = entity_rows(snapshot, ids, ENTITY_COLUMNS)
    barred = barred_among(about, snapshot, settings.barred_words)
    judged = row_stage(of_entity.lazy(), about, barred, lookups, rules).collect()
    stages: list[Any] = [
        lambda alive: period_stage(alive, of_entity.lazy(), rules), lambda alive: entity_stage(alive, about, rules),
    ]  # fmt: skip
    decides = settings.popularity and not no_minimum(settings, cut)
    if decides or (settings.popularity and has_popularity(snapshot)):
        stages.append(lambda alive: with_popularity(alive, read_popularity(snapshot, ids)))
    if decides:
        stages += [lambda alive: rules.judge(alive, "popularity"), lambda alive: cut_stage(alive, cut, rules)]
    for stage in stages:
        alive = judged.filter(pl.col("dropped").is_null()).drop("dropped")
        judged = pl.concat([judged.filter(pl.col("dropped").is_not_null()), stage(alive)], how="diagonal")
    names = about.select(value="id", value_label="label")
    return judged.sort("position").join(names, on="value", how="left", maintain_order="left")


def _verdict(row: dict[str, Any], rules: Rules, restrictive: tuple[str, ...]) -> Verdict:
    step: Step | None = None
    reason: Reason | None = None
    if row["dropped"] is not None:
        step, reason = rules.reason(row["dropped"])
    words = None if reason is None else reason.text
    if step is not None and step.name == "restricted statements":
        keys = [
            key for key in json.loads(row["qualifiers"]) if re.fullmatch(restrictive_pattern(restrictive), f'"{key}":')
        ]
        words = f"{words}: {', '.join(keys)}"
    is_entity = row["value_type"] == "entity"
    value = row["value"] if row["snak"] == "value" else row["snak"]
    return Verdict(
        statement_id=row["statement_id"], property_id=row["property"],
        property_label=row.get("relation_label") or row.get("property_label"),
        value=(row["value_label"] or value) if is_entity else str(value), value_id=row["value"] if is_entity else None,
        rank=row["rank"], start=in_words(row["start"]), end=in_words(row["end"]), point=in_words(row["point"]),
        step=None if step is None else step.name, reason=words, fact_id=row.get("fact_id"),
        popularity=row.get("popularity"),
    )  # fmt: skip


_KINDS = {"unknown": "unknown", "open": "none"}


def in_words(boundary: dict[str, Any] | None) -> str | None:
    """A start, end or point in time for people: its date, what is odd about it, or its kind."""
    if boundary is None:
        return None
    if boundary["kind"] != "known":
        return _KINDS[boundary["kind"]]
    text = boundary["date"] or f"unreadable {boundary['raw']!r}"
    if boundary["date"] and boundary["precision"] is not None and boundary["precision"] < 9:
        text += f" (precision {boundary['precision']}, coarser than a year)"
    return text + (f" and {boundary['values'] - 1} more" if boundary["values"] > 1 else "")
