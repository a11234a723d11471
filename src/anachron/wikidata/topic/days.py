"""A topic on two days, for the updates between them, and with page views."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from anachron.core.errors import ConfigError
from anachron.io.files import read_json, write_json
from anachron.io.jobs import Callbacks
from anachron.wikidata.reading.snapshot import POPULARITY
from anachron.wikidata.topic.choose import Topic
from anachron.wikidata.topic.entities import Resolver
from anachron.wikidata.topic.fetch import FetchedTopic, TopicSettings, fetch_topic, opened
from anachron.wikidata.topic.views import fetch_popularity

TODAY, ITEM = "today", pl.col("id").str.starts_with("Q")


@dataclass(frozen=True)
class Days:
    """A topic on two days. merged: items that were merged into others in between, and into which."""

    old: FetchedTopic
    new: FetchedTopic
    merged: dict[str, str]


def fetch_days(
    topic: Topic, folder: Path, old: str, new: str, settings: TopicSettings, callbacks: Callbacks | None = None
) -> Days:
    """Fetch a topic as it stood on two days, the later one perhaps ``today``, into ``folder/DAY`` each.

    A query is asked once, so both are of the same items: those of the later day, and what they were merged into. The
    same call goes on where it was interrupted; what did not change in between is fetched once. Raises `ConfigError` for
    days in the wrong order, and as `fetch_topic`.
    """
    today = datetime.now(UTC).date().isoformat()
    days = {day: replace(settings, as_of=None if day == TODAY else day) for day in (old, new)}
    if (today if old == TODAY else old) >= (today if new == TODAY else new):
        raise ConfigError(f"--old-date {old}, --new-date {new}: the old one must be earlier")
    later = fetch_topic(topic, folder / (f"{TODAY}-{today}" if new == TODAY else new), days[new], callbacks)
    own = later.outcomes.filter(pl.col("part") == "topic")["id"].to_list()
    earlier = fetch_topic(topic.found(own), folder / old, days[old], callbacks)
    file = folder / f"merged-{earlier.snapshot.name}-{later.snapshot.name}.json"
    if not file.is_file():
        write_json(file, _merged(earlier, later, settings))
    return Days(earlier, later, read_json(file))


def _merged(earlier: FetchedTopic, later: FetchedTopic, settings: TopicSettings) -> dict[str, str]:
    """Item -> the item of the later day that it was merged into.

    An object that no statement names any more is asked for as it stands today: where it was merged into one that is
    named, the fact did not change.
    """
    known, there = (
        set(one.outcomes.filter(pl.col("state") == "found", ITEM)["id"].to_list()) for one in (earlier, later)
    )
    merged = dict(later.outcomes.filter(ITEM).drop_nulls("merged_into").select("id", "merged_into").iter_rows())
    gone = known - there - merged.keys()
    if gone:
        with opened(settings, f"{earlier.snapshot.absolute()} merged") as (services, kept):
            resolved = Resolver(services, kept).resolve(gone)
            kept.forget()
        merged |= {id: resolved[id].to for id in gone if resolved[id].to in there}
    return dict(sorted(merged.items()))


def add_popularity(fetched: FetchedTopic, settings: TopicSettings, callbacks: Callbacks | None = None) -> None:
    """Add page views to a topic's snapshot, unless it has them; see `fetch_popularity`."""
    if (fetched.snapshot / POPULARITY).is_file():
        return
    with opened(settings, "page views") as (services, _):
        fetch_popularity(services, fetched.snapshot, callbacks=callbacks)
