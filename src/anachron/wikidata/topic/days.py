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
from anachron.wikidata.topic.entities import Resolver, end_of
from anachron.wikidata.topic.fetch import FetchedTopic, TopicSettings, fetch_topic, opened
from anachron.wikidata.topic.services import Services
from anachron.wikidata.topic.views import fetch_popularity

TODAY = "today"


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
    before, after = (replace(settings, as_of=None if day == TODAY else day) for day in (old, new))
    if (before.as_of or today) >= (after.as_of or today):
        raise ConfigError(f"--old-date {old}, --new-date {new}: the old one must be earlier")
    later = fetch_topic(topic, folder / (after.as_of or f"{TODAY}-{today}"), after, callbacks)
    own = later.outcomes.filter(pl.col("part") == "topic")["id"].to_list()
    earlier = fetch_topic(topic.found(own), folder / old, before, callbacks)
    file = folder / f"merged-{earlier.snapshot.name}-{later.snapshot.name}.json"
    if not file.is_file():
        with opened(settings, str(later.snapshot.absolute())) as (services, kept):
            write_json(file, _merged(earlier, later, Resolver(services, kept, after.as_of)))
            kept.forget()
    return Days(earlier, later, read_json(file))


def _merged(earlier: FetchedTopic, later: FetchedTopic, resolver: Resolver) -> dict[str, str]:
    """Item -> the item of the later day that it was merged into.

    An object that no statement names any more is asked for as it stood on that day: where it was merged into one that
    is named, the fact did not change.
    """
    ends = later.ends()
    there = {id for id, one in ends.items() if one.id == id and one.state == "found"}
    gone = {id for id, one in earlier.ends().items() if id[0] == "Q" and one.state == "found"} - ends.keys()
    resolved = resolver.resolve(gone)
    ends |= {id: one for id in gone if (one := end_of(resolved, id)) is not None}
    return {id: ends[id].id for id in sorted(ends) if id[0] == "Q" and id != ends[id].id in there}


def add_popularity(fetched: FetchedTopic, settings: TopicSettings, callbacks: Callbacks | None = None) -> None:
    """Add page views to a topic's snapshot, unless it has them; see `fetch_popularity`."""
    if (fetched.snapshot / POPULARITY).is_file():
        return
    with Services(settings.site, settings.web, settings.at_a_time) as services:
        fetch_popularity(services, fetched.snapshot, callbacks=callbacks)
