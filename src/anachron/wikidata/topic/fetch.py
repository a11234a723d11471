"""A topic fetched: its entities and what they need as a small dump, and that dump ingested into a snapshot folder.

OUT/topic.json.gz  the entities, in the dump's own form: repeatable without the network
OUT/topic.csv      what became of each id: id, part (topic, needed), state, revision, modified, merged_into
OUT/manifest.json  of the snapshot, with ``topic``: how it was chosen, where and when it was fetched, counts
OUT/.fetch/        while unfinished: which job this is; the answers lie in the cache (`anachron.wikidata.topic.kept`)
"""

import re
import secrets
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
from isal import igzip, isal_zlib

from anachron.core.errors import ConfigError, DataError
from anachron.io.files import Json, atomic, read_json
from anachron.io.jobs import Callbacks, begin, begun, differences, discard, locked, refuse_others
from anachron.io.stores import refuse_stores
from anachron.wikidata.fetching.web import FetchSettings
from anachron.wikidata.reading.ingest import ingest
from anachron.wikidata.reading.settings import IngestSettings
from anachron.wikidata.reading.snapshot import TOPIC_DUMP as DUMP
from anachron.wikidata.reading.snapshot import in_order
from anachron.wikidata.topic.choose import Topic, ids_of_answer
from anachron.wikidata.topic.closure import CLASS_ROUNDS, Closure
from anachron.wikidata.topic.entities import Outcome, Resolver, end_of
from anachron.wikidata.topic.kept import DRY, Kept, default_cache, file_of
from anachron.wikidata.topic.services import AT_ONCE, Services
from anachron.wikidata.topic.site import Site

TABLE, WORK = "topic.csv", ".fetch"
LOST = "merged into another that cannot be had"
MOST = 50_000  # entities of a topic, unless more are allowed
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
SCHEMA = {
    "id": pl.String, "part": pl.String, "state": pl.String, "revision": pl.Int64, "modified": pl.String,
    "merged_into": pl.String,
}  # fmt: skip


@dataclass(frozen=True)
class TopicSettings:
    """How a topic is fetched, and what of it goes into the snapshot.

    as_of: the day at whose end (UTC) the entities stood as they are wanted; now without one. wiki, language: those of
    `anachron.wikidata.reading.settings.IngestSettings`. relations: fetch objects of these alone, of all where empty; by
    default of those that the topic names (`Topic.with_`). at_a_time: requests on their way at once. most: entities in
    all. cache: folder of what was fetched, by default in the user's cache folder. since: an earlier snapshot of a
    topic, whose entities are asked for only where they changed. dry_run: fetch the items themselves, count what else is
    needed, and write nothing. Raises `ConfigError` for a day that is none or not over.
    """

    as_of: str | None = None
    wiki: str = "all"
    language: str = "en"
    relations: tuple[str, ...] | None = None
    site: Site = field(default_factory=Site)
    at_a_time: int = 1
    most: int = MOST
    web: FetchSettings = field(default_factory=FetchSettings)
    cache: Path | None = None
    since: Path | None = None
    dry_run: bool = False

    def __post_init__(self) -> None:
        today = datetime.now(UTC).date().isoformat()
        if self.as_of is not None and not (_DAY.fullmatch(self.as_of) and self.as_of < today):
            raise ConfigError(
                f"the day {self.as_of}: give one before {today} (UTC), as YYYY-MM-DD; for today, leave it out "
                "(--new-date: today)"
            )
        IngestSettings(self.as_of or today, self.wiki, self.language)  # says what is wrong with them
        if self.most < 1:
            raise ConfigError(f"--most {self.most}: give at least 1 entity")


@dataclass(frozen=True)
class FetchedTopic:
    """A snapshot folder and what became of each id.

    outcomes: ``id, part, state, revision, modified, merged_into``; part is ``topic`` or ``needed``. requests: answered
    ones, by kind, of all calls that it took; of a dry run those that are to come, and ``seconds`` they may take.
    """

    snapshot: Path
    outcomes: pl.DataFrame
    requests: dict[str, int]
    manifest: Json
    seconds: float | None = None

    def ends(self) -> dict[str, Outcome]:
        """What became of each id, or of what it was merged into in the end."""
        rows = self.outcomes.select("id", "state", "merged_into").iter_rows()
        found = {id: Outcome(id, state, to=to) for id, state, to in rows}
        return {id: end_of(found, id) or one for id, one in found.items()}

    def states(self) -> dict[str, list[str]]:
        """The topic's own ids by what became of them; of a merged one with the other, and its state if not found."""
        found: dict[str, list[str]] = {}
        ends = self.ends()
        for id, state in self.outcomes.filter(part="topic").select("id", "state").iter_rows():
            if (end := ends[id]).id == id:
                found.setdefault(state, []).append(id)
            elif end.state == "found":
                found.setdefault(state, []).append(f"{id} into {end.id}")
            else:
                found.setdefault(LOST, []).append(f"{id} into {end.id} ({end.state})")
        return found


def fetch_topic(
    topic: Topic, out: Path | str, settings: TopicSettings | None = None, callbacks: Callbacks | None = None
) -> FetchedTopic:
    """Fetch a topic into a snapshot folder. One that is complete is left as it is; one that was interrupted goes on.

    callbacks: told what is done; ``settings.web.note`` of pauses that a service asks for. Needs the extra ``wikidata``.

    Raises `ConfigError` for a folder of something else, no contact, or more entities than allowed; `DataError` where no
    item can be had; `BackendError` where a service keeps failing, refuses, or answers in another form than documented.
    """
    refuse_stores(out)
    settings, callbacks, out = settings or TopicSettings(), callbacks or Callbacks(), Path(out)
    if settings.relations is None:
        settings = replace(settings, relations=(topic.found_by or topic).with_)
    if settings.dry_run:
        return _planned(topic, out, settings, callbacks)
    identity = {
        "chosen": topic.describe(), "site": settings.site.url, "as_of": settings.as_of, "wiki": settings.wiki,
        "language": settings.language, "relations": sorted(settings.relations or ()),
    }  # fmt: skip
    if (out / "manifest.json").is_file():
        return _complete(out, identity, callbacks)
    with locked(out / ".fetch.lock", out, remove=True):
        record = _begin(out, identity)
        started = record["started"]
        with opened(settings, str(out.absolute())) as (services, kept):
            kept.begin(record)
            services.counts.update(kept.get("requests") or {})
            _seed(kept, settings)
            ids = _ids(topic, services, kept)
            resolver = Resolver(services, kept, settings.as_of)
            with callbacks.bar("items") as bar:
                outcomes = resolver.resolve(ids, bar.progress)
            items = _items(ids, outcomes)
            # Of a topic that was found before, no item joins: two days have one list, wherever a merged one led.
            listed = frozenset(ids if topic.found_by is not None else [*ids, *(one.id for one in items)])
            items = [one for one in items if one.id in listed]
            closure = _closure(settings, resolver, kept)
            with callbacks.bar("what they need") as bar:
                outcomes = closure.follow(items, bar.progress) | outcomes
            table = _table(outcomes, listed)
            with atomic(out / TABLE) as path:
                table.write_csv(path)
            _write_dump(out / DUMP, kept, outcomes)
            about = identity | {
                "fetched": started, "states": dict(Counter(outcomes[id].state for id in ids)),
                "needed": closure.counts, "requests": dict(sorted(services.counts.items())),
            }  # fmt: skip
            day = settings.as_of or started[:10]
            chosen = IngestSettings(day, settings.wiki, settings.language, entities=listed, references=True)
            beside, told = frozenset((DUMP, TABLE)), {"topic": about}
            manifest = ingest(out / DUMP, out, chosen, workers=1, callbacks=callbacks, more=told, beside=beside)
            kept.forget()
        discard(out / WORK)
    return FetchedTopic(out, table, about["requests"], manifest)


def _begin(out: Path, identity: Json) -> Json:
    """The record of the work. Raises `ConfigError` where the folder holds something else."""
    names = sorted(path.name for path in out.iterdir() if not path.name.startswith("."))
    record = begun(out / WORK)
    if names and record is None:
        raise ConfigError(f"{out} is not empty ({', '.join(names[:3])}); choose another --out or remove the folder")
    if record is not None and not names and differences(record["identity"], identity):
        discard(out / WORK)  # another topic, of which nothing lies here: what was fetched of it is in the cache
    return begin(out / WORK, identity)


def _complete(out: Path, identity: Json, callbacks: Callbacks) -> FetchedTopic:
    """What lies in a folder that is complete."""
    manifest = read_json(out / "manifest.json")
    known = manifest.get("topic")
    if not isinstance(known, dict):
        raise ConfigError(f"{out} holds a snapshot of a dump; choose another --out")
    refuse_others(out, {name: known.get(name) for name in identity}, identity, "a topic")
    discard(out / WORK)  # where the last step did not come to its end
    if identity["as_of"] is None:
        callbacks.notice(
            f"{out} is complete, as of {manifest['date']}; for what changed since then, remove this folder and repeat"
        )
    return FetchedTopic(out, pl.read_csv(out / TABLE, schema=SCHEMA), known["requests"], manifest)


@contextmanager
def opened(settings: TopicSettings, run: str) -> Iterator[tuple[Services, Kept]]:
    """The services of a topic, and what was fetched of its site, of which answers count for the run of this name."""
    file = file_of(settings.cache or default_cache(), settings.site.url)
    with Services(settings.site, settings.web, settings.at_a_time) as services, Kept(file, run) as kept:
        yield services, kept


def _seed(kept: Kept, settings: TopicSettings) -> None:
    """Take over the entities of an earlier snapshot: what has not changed since need not be fetched."""
    if settings.since is None or kept.get("seeded"):
        return
    dump = settings.since / DUMP
    site = read_json(settings.since / "manifest.json").get("topic", {}).get("site") if dump.is_file() else None
    if site != settings.site.url:
        raise ConfigError(
            f"{settings.since} is no complete topic of {settings.site.url}; give the folder of an earlier "
            "wikidata fetch"
        )
    head = msgspec.json.Decoder(_Line).decode
    broken: Any = (OSError, EOFError, isal_zlib.IsalError, msgspec.MsgspecError)
    try:
        with igzip.open(dump, "rb") as lines, kept.answer():
            for line in lines:
                if line := line.strip(b",\n[]"):
                    one = head(line)
                    kept.put_entity(one.id, one.lastrevid, line)
            kept.put("seeded", "", True)
    except broken as error:
        raise DataError(f"{dump} is damaged ({error}); give another --earlier, or fetch without one") from error


class _Line(msgspec.Struct):
    id: str
    lastrevid: int


def _ids(topic: Topic, services: Services, kept: Kept) -> list[str]:
    """The ids of the topic, of a query as it answered when it was first asked."""
    if (query := topic.sparql()) is None:
        return list(topic.items)
    if (known := kept.get("ids")) is not None:
        return list(known)
    ids = topic.found(ids_of_answer(services.query(query))).items
    with kept.answer():
        kept.put("ids", "", ids)
        kept.put("requests", "", services.counts)
    return list(ids)


def _closure(settings: TopicSettings, resolver: Resolver, kept: Kept) -> Closure:
    relations = frozenset(settings.relations or ())
    return Closure(resolver.resolve, lambda one: kept.entity(*one.key), relations, settings.most)


def _items(ids: Iterable[str], outcomes: dict[str, Outcome]) -> list[Outcome]:
    """The items that can be had, in order; of one that was merged, the other."""
    there = [end_of(outcomes, id) for id in ids]
    found = {one.id: one for one in there if one is not None and one.state == "found"}
    if not found:
        states = ", ".join(f"{number:,} {state}" for state, number in Counter(outcomes[id].state for id in ids).items())
        raise DataError(f"none of the items of the topic can be had: {states}; check the ids, the day and --site")
    return [found[id] for id in in_order(found)]


def _planned(topic: Topic, out: Path, settings: TopicSettings, callbacks: Callbacks) -> FetchedTopic:
    """The requests that are to come, at most but for classes of classes, by the items as they stand today."""
    with opened(settings, f"{DRY}{secrets.token_hex(8)}") as (services, kept):
        try:
            ids = _ids(topic, services, kept)
            resolver = Resolver(services, kept)
            with callbacks.bar("items") as bar:
                outcomes = resolver.resolve(ids, bar.progress)
            closure = _closure(settings, resolver, kept)
            named = closure.first(_items(ids, outcomes)).all() - set(ids)
            here = sum(map(kept.has, ids))
        finally:
            kept.forget()
        own, rest = ceil(len(ids) / AT_ONCE), ceil(len(named) / AT_ONCE) + CLASS_ROUNDS
        planned = {"info": ceil(here / AT_ONCE), "entities": ceil((len(ids) - here) / AT_ONCE) + rest}
        if settings.as_of:  # of what was not changed since then 50 come with a request
            planned = {"info": own + rest} | dict.fromkeys(("revisions", "entity_at_revision"), len(ids) + len(named))
        each = services.seconds / max(1, services.counts.total()) / settings.at_a_time
    manifest = {"dry_run": True, "needed": closure.counts, "asked": dict(services.counts)}
    return FetchedTopic(out, _table(outcomes, set(outcomes)), planned, manifest, sum(planned.values()) * each)


def _table(outcomes: dict[str, Outcome], own: Collection[str]) -> pl.DataFrame:
    rows = [outcomes[id] for id in in_order(outcomes)]
    return pl.DataFrame(
        [
            (one.id, "topic" if one.id in own else "needed", one.state, one.revision, one.modified, one.to)
            for one in rows
        ],
        schema=SCHEMA, orient="row",
    )  # fmt: skip


def _write_dump(path: Path, kept: Kept, outcomes: dict[str, Outcome]) -> None:
    """Write the entities that were found as a dump, in their order; the same entities give the same bytes."""
    found = [outcomes[id] for id in in_order(outcomes) if outcomes[id].state == "found"]
    with (
        atomic(path) as temporary,
        temporary.open("wb") as file,
        igzip.IGzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed,
    ):
        for place, one in enumerate(found):
            packed.write(b",\n" if place else b"[\n")
            packed.write(kept.entity(*one.key))
        packed.write(b"\n]\n")
