"""``wikidata fetch``: a topic from the services of Wikidata, or of another Wikibase, as a snapshot."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anachron.cli.options import JsonFlag, Wiki
from anachron.cli.output import on_screen, print_json, say, stdout
from anachron.cli.outputs import RUN
from anachron.cli.topic_options import TopicDay, TopicInParts, TopicLanguage, told
from anachron.cli.wikidata import needing_extra, print_ingest

if TYPE_CHECKING:
    from anachron.wikidata.topic.fetch import FetchedTopic

NAMED = 5  # ids of a state that are named


def fetch(
    *,
    topic: TopicInParts,
    out: Annotated[Path, typer.Option(help="Folder for the snapshot."), RUN],
    as_of: TopicDay = None,
    earlier: Annotated[
        Path | None, typer.Option(help="Snapshot of an earlier fetch: only what changed since is fetched again.")
    ] = None,
    wiki: Wiki = "all",
    language: TopicLanguage = None,
    most: Annotated[
        int | None,
        typer.Option(
            help="Maximum number of entities, with those that the items name; above it, the command stops. Default: "
            "50,000."
        ),
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Folder for what was fetched. Default: in your cache folder, for all topics.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Fetch the items only, and say how many requests the rest takes.")
    ] = False,
    json_: JsonFlag = False,
) -> None:
    """Fetch the items of a topic, and what their facts name, from Wikidata's services into a snapshot folder.

    If interrupted or killed, repeat the same command to resume: no request is made twice; with --requests N, up to N-1
    answers on their way are asked for again.

    Example: anachron wikidata fetch --items Q30,Q142 --contact you@example.org --out topic --dry-run
    """
    with needing_extra():
        from anachron.wikidata.topic.fetch import fetch_topic

    settings = topic.settings(
        as_of=as_of, since=earlier, wiki=wiki, language=language, most=most, cache=cache, dry_run=dry_run
    )
    fetched = fetch_topic(told(topic.topic()), out, settings, on_screen())
    if json_:
        print_json({"requests": fetched.requests, "seconds": fetched.seconds, "manifest": fetched.manifest})
    elif dry_run:
        _print_plan(fetched)
    else:
        print_fetched(fetched)
        print_ingest(fetched.manifest, out)


def print_fetched(fetched: "FetchedTopic") -> None:
    """What became of the ids of a topic, what was needed besides, and the requests by kind."""
    for state, ids in fetched.states().items():
        named = "" if state == "found" else f": {', '.join(ids[:NAMED])}{', ...' if ids[NAMED:] else ''}"
        say(f"{len(ids):,} {state}{named}")
    told = fetched.manifest["topic"]
    say(f"needed: {_counted(told['needed'].items())}; requests: {_counted(told['requests'].items())}")


def _print_plan(fetched: "FetchedTopic") -> None:
    for state, ids in fetched.states().items():
        stdout().print(f"{len(ids):,} {state}", markup=False)
    stdout().print(f"needed: {_counted(fetched.manifest['needed'].items())}, and classes of these", markup=False)
    requests = sum(fetched.requests.values())
    minutes = (fetched.seconds or 0) / 60
    stdout().print(
        f"about {requests:,} requests ({_counted(fetched.requests.items())}): about {minutes:,.1f} minutes at the pace "
        "of those just made", markup=False, soft_wrap=True,
    )  # fmt: skip


def _counted(pairs: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{number:,} {what.replace('_', ' ')}" for what, number in pairs)
