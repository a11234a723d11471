"""Options that say a topic, and how the services are asked for it."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from anachron.cli.commands import COMMON, TOPIC
from anachron.cli.options import LABELS, split_commas
from anachron.cli.output import say
from anachron.core.errors import ConfigError

if TYPE_CHECKING:
    from anachron.wikidata.topic.choose import Topic
    from anachron.wikidata.topic.fetch import TopicSettings

Contact = Annotated[
    str | None,
    typer.Option(
        help="Your email address or web page, sent to the servers; Wikimedia asks for it. Default: ANACHRON_CONTACT of "
        "the environment."
    ),
]
TopicDay = Annotated[
    str | None,
    typer.Option(
        "--as-of", help="Of a topic: the day, YYYY-MM-DD, at whose end (UTC) its items stood as they are taken. "
        "Default: now."
    ),
]  # fmt: skip
TopicLanguage = Annotated[
    str | None, typer.Option(help=f"{LABELS}. Of a topic alone; default: en.", rich_help_panel=TOPIC)
]


@dataclass(frozen=True, kw_only=True)
class TopicOptions:
    """Which items, in one option, and how they are fetched."""

    PANEL: ClassVar[str] = TOPIC
    topic_: Annotated[
        str | None,
        typer.Option(
            "--topic",
            help="Items: ids (Q30,Q142), a file of ids, a query (FILE.rq), or in words: 'instances of Q3624078 with "
            "P6,P35 in Q46 since 1990'.",
            rich_help_panel=COMMON,
        ),
    ] = None
    site: Annotated[str | None, typer.Option(help="Address of the Wikibase. Default: Wikidata.")] = None
    sparql: Annotated[
        str | None, typer.Option(help="Address of its query service. Default: Wikidata's; none of another Wikibase.")
    ] = None
    contact: Contact = None
    views: Annotated[
        str | None, typer.Option(help="Address of its page views. Default: Wikimedia's; none of another Wikibase.")
    ] = None
    requests: Annotated[
        int, typer.Option(min=1, help="Requests at a time; Wikimedia asks for one, and takes at most 3.")
    ] = 1

    def said(self, **others: Any) -> "Topic | None":
        """The topic; None where none is said. others: options that are for a topic, besides these.

        Raises `ConfigError` where one of them is given without a topic, and as `anachron.wikidata.topic.choose`.
        """
        from anachron.wikidata.topic.choose import topic_of

        if self.topic_ is not None:
            return topic_of(self.topic_)
        for name, value in (asdict(self) | others).items():
            if value not in (None, 1):
                raise ConfigError(f"--{name.replace('_', '-')} {value} is for a topic; say one with --topic")
        return None

    def settings(self, **more: Any) -> "TopicSettings":
        """How the topic is fetched. more: the settings that are no options of this group; None for the default."""
        from anachron.wikidata.fetching.web import FetchSettings
        from anachron.wikidata.topic.fetch import TopicSettings
        from anachron.wikidata.topic.site import Site

        addresses = {"url": self.site, "sparql": self.sparql, "views": self.views}
        site = Site(**{name: address for name, address in addresses.items() if address is not None})
        web = FetchSettings(contact=self.contact, note=say)
        more = {name: value for name, value in more.items() if value is not None}
        return TopicSettings(site=site, at_a_time=self.requests, web=web, **more)


@dataclass(frozen=True, kw_only=True)
class TopicInParts(TopicOptions):
    """The same with an option for each part of a topic."""

    items: Annotated[
        str | None, typer.Option(help="Ids separated by commas, or a file: one a line, or a column of a CSV.")
    ] = None
    query: Annotated[Path | None, typer.Option(help="File with a SPARQL SELECT that has a variable ?item.")] = None
    instances_of: Annotated[
        str | None, typer.Option(help="Class: its instances and those of its subclasses, found by a query.")
    ] = None
    with_: Annotated[
        str | None,
        typer.Option("--with", help="Of these, those with a statement of one of these relations, such as P6,P35."),
    ] = None
    in_: Annotated[
        str | None,
        typer.Option("--in", help="Of these, those in this continent, country, place, league, organisation or whole."),
    ] = None
    since: Annotated[
        int | None,
        typer.Option(help="Of these, those of which such a statement held in this year or later."),
    ] = None

    def topic(self) -> "Topic":
        """The topic. Raises `ConfigError` where none or several are said, and as `anachron.wikidata.topic.choose`."""
        from anachron.io.files import read_text
        from anachron.wikidata.topic.choose import Topic, items_of, topic_of

        if self.topic_ is not None:
            others = (self.items, self.query, self.instances_of, self.with_, self.in_, self.since)
            if any(one is not None for one in others):
                raise ConfigError(f"--topic {self.topic_!r} says the whole topic; leave out the other options of it")
            return topic_of(self.topic_)
        return Topic(
            items=() if self.items is None else items_of(self.items),
            query=None if self.query is None else read_text(self.query, "the query"),
            instances_of=self.instances_of,
            with_=split_commas(self.with_ or ""),
            in_=self.in_,
            since=self.since,
        )


def told(topic: "Topic") -> "Topic":
    """The topic, when its query has been printed."""
    if (query := topic.sparql()) is not None:
        say(query.rstrip())
    return topic
