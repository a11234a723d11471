"""What the folder of a topic's snapshot knows of facts beyond its tables: other names, and revisions to cite."""

import gzip
from collections.abc import Collection
from typing import Annotated, Any

import polars as pl
from msgspec import Meta, Struct, json

from anachron.io.stores import Place
from anachron.wikidata.reading.entity_json import Term
from anachron.wikidata.reading.snapshot import Snapshot

DUMP, OUTCOMES = "topic.json.gz", "topic.csv"  # what a fetch writes into a snapshot
_SPLITS = r"[|;]|^\s*[\[({]"  # what a file of facts would read as a list of names


class _Names(Struct):
    id: str
    aliases: dict[str, list[Term]] | Annotated[list[Any], Meta(max_length=0)] = []


def with_topic(snapshot: Snapshot, facts: pl.DataFrame) -> pl.DataFrame:
    """Facts with ``aliases`` of their objects (in the snapshot's language, ``|`` between), ``subject_revision`` and
    ``subject_modified``; of a snapshot that is no topic's as they are."""
    folder = snapshot.folder
    if not (folder / OUTCOMES).is_file():
        return facts
    language = snapshot.manifest["options"]["language"]
    names = aliases_in(folder / DUMP, set(facts["object_id"]), language)
    with (folder / OUTCOMES).open("rb") as file:
        outcomes = pl.read_csv(file.read(), infer_schema=False)
    revisions = outcomes.select(subject_id="id", subject_revision="revision", subject_modified="modified")
    aliases = pl.col("object_id").replace_strict(names, default=None, return_dtype=pl.String)
    return facts.with_columns(aliases.alias("aliases")).join(
        revisions.unique("subject_id"), on="subject_id", how="left", maintain_order="left"
    )


def aliases_in(dump: Place, ids: Collection[str], language: str) -> dict[str, str]:
    """The other names of some entities of a small dump; those that a file of facts would take for a list are left out.

    Raises `msgspec.MsgspecError` for a line that is no entity, which `ingest` would have told.
    """
    found: dict[str, str] = {}
    read = json.Decoder(_Names).decode
    with dump.open("rb") as raw, gzip.open(raw) as lines:
        for line in lines:
            if (text := line.strip(b" \r\n,[]")) and (entity := read(text)).id in ids and entity.aliases:
                terms = dict(entity.aliases).get(language, [])
                names = pl.Series([" ".join(term.value.split()) for term in terms], dtype=pl.String)
                kept = names.filter(~names.str.contains(_SPLITS) & (names != "")).unique(maintain_order=True)
                if kept.len():
                    found[entity.id] = "|".join(kept)
    return found
