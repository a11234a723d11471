"""Other names of the entities of a topic, which its dump has and the tables of a snapshot have not."""

import gzip
from collections.abc import Collection
from typing import Annotated, Any

import polars as pl
from msgspec import Meta, Struct, json

from anachron.io.stores import Place
from anachron.wikidata.reading.entity_json import Term
from anachron.wikidata.reading.snapshot import TOPIC_DUMP, Snapshot

_SPLITS = r"[|;]|^\s*[\[({]"  # what a file of facts would read as a list of names


class _Names(Struct):
    id: str
    aliases: dict[str, list[Term]] | Annotated[list[Any], Meta(max_length=0)] = []


def with_aliases(snapshot: Snapshot, facts: pl.DataFrame) -> pl.DataFrame:
    """Facts with ``aliases`` of their objects, in the snapshot's language with ``|`` between, where it is a topic's."""
    dump = snapshot.folder / TOPIC_DUMP
    if not dump.is_file():
        return facts
    names = aliases_in(dump, set(facts["object_id"]), snapshot.manifest["options"]["language"])
    aliases = pl.col("object_id").replace_strict(names, default=None, return_dtype=pl.String)
    return facts.with_columns(aliases.alias("aliases"))


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
