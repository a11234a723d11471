"""What a command that builds from a topic does first: fetch it, and say what was fetched."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from anachron.cli.output import on_screen, say
from anachron.cli.topic_options import TopicOptions
from anachron.cli.wikidata_topic import print_fetched

if TYPE_CHECKING:
    from anachron.io.stores import Place
    from anachron.wikidata.topic.choose import Topic
    from anachron.wikidata.topic.days import Days


def fetched(said: TopicOptions, folder: Path, *, popularity: bool = False, **more: Any) -> Path:
    """The snapshot of a topic, fetched into a folder, if wanted with page views. more: of `TopicOptions.settings`."""
    from anachron.wikidata.topic.days import add_popularity
    from anachron.wikidata.topic.fetch import fetch_topic

    settings = said.settings(**more)
    found = fetch_topic(_told(said), folder, settings, on_screen())
    print_fetched(found)
    if popularity:
        add_popularity(found, settings, on_screen())
    return found.snapshot


def fetched_days(said: TopicOptions, folder: Path, old: str, new: str, *, popularity: bool, **more: Any) -> "Days":
    """The topic as it stood on two days, the later one if wanted with page views; see `fetched`."""
    from anachron.wikidata.topic.days import add_popularity, fetch_days

    settings = said.settings(**more)
    found = fetch_days(_told(said), folder, old, new, settings, on_screen())
    for day in (found.old, found.new):
        print_fetched(day)
    if popularity:
        add_popularity(found.new, settings, on_screen())
    return found


def _told(said: TopicOptions) -> "Topic":
    topic = said.topic()
    if (query := topic.sparql()) is not None:
        say(query.rstrip())
    return topic


def local(out: "Place | str") -> Path:
    """A place of this machine, on which a topic is kept. Raises `ConfigError` for a store."""
    from anachron.io.stores import refuse_stores

    refuse_stores(out)
    return Path(str(out))


def topic_folder(out: "Place | str") -> Path:
    """Where a command keeps what it fetched of a topic: beside its file."""
    return local(out).with_suffix(".topic")
