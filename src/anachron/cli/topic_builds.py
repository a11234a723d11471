"""What a command that builds from a topic does first: fetch it, and say what was fetched."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anachron.cli.output import on_screen
from anachron.cli.topic_options import TopicOptions, told
from anachron.cli.wikidata_topic import print_fetched
from anachron.core.errors import ConfigError
from anachron.io.stores import Place, refuse_stores

if TYPE_CHECKING:
    from anachron.wikidata.selection.rules import Selection
    from anachron.wikidata.topic.choose import Topic
    from anachron.wikidata.topic.days import Days
    from anachron.wikidata.topic.fetch import TopicSettings
    from anachron.wikidata.updates.build import UpdateSettings


def fetched(options: TopicOptions, topic: "Topic", folder: Path, selection: "Selection", **more: Any) -> Path:
    """The snapshot of a topic, fetched into a folder for a selection. more: of `TopicOptions.settings`.

    Raises `ConfigError` for a selection that needs what a topic does not have.
    """
    from anachron.wikidata.topic.closure import CLASS_ROUNDS
    from anachron.wikidata.topic.days import add_popularity
    from anachron.wikidata.topic.fetch import fetch_topic

    if (depth := selection.class_depth) > CLASS_ROUNDS + 1:
        raise ConfigError(f"--class-depth {depth}: of a topic, classes are fetched up to {CLASS_ROUNDS + 1}; give less")
    settings = _settings(options, selection.popularity, relations=selection.relations, **more)
    found = fetch_topic(told(topic), folder, settings, on_screen())
    print_fetched(found)
    if selection.popularity:
        add_popularity(found, settings, on_screen())
    return found.snapshot


def fetched_days(
    options: TopicOptions, topic: "Topic", folder: Path, old: str, new: str, updates: "UpdateSettings"
) -> "Days":
    """The topic as it stood on two days, fetched for updates; see `fetched`."""
    from anachron.text.languages import code_of
    from anachron.wikidata.topic.days import TODAY, add_popularity, fetch_days

    language = code_of(updates.language) or updates.language
    later = None if new == TODAY else new
    settings = _settings(options, updates.popularity, relations=updates.relations, language=language, as_of=later)
    found = fetch_days(told(topic), folder, old, new, settings, on_screen())
    for day in (found.old, found.new):
        print_fetched(day)
    if updates.popularity:
        add_popularity(found.new, settings, on_screen())
    return found


def _settings(options: TopicOptions, popularity: bool, **more: Any) -> "TopicSettings":
    """How a topic is fetched. Raises `ConfigError` as `check_views`, which else would be told when all is fetched."""
    from anachron.wikidata.topic.views import check_views

    settings = options.settings(**more)
    if popularity:
        day = settings.as_of or datetime.now(UTC).date().isoformat()
        check_views(settings.site, settings.wiki, settings.language, day)
    return settings


def local(out: "Place | str") -> Path:
    """A place of this machine, on which a topic is kept. Raises `ConfigError` for a store."""
    refuse_stores(out)
    return Path(str(out))


def topic_folder(out: "Place | str") -> Path:
    """Where a command keeps what it fetched of a topic: beside its file."""
    return (file := local(out)).with_name(f"{file.name}.topic")
