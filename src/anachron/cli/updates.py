"""The commands ``build updates``, ``build cloze`` and ``label``: what changed between two snapshots, in words."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anachron.analysis.plots.words import counted
from anachron.cli.build import Relations
from anachron.cli.commands import as_published
from anachron.cli.options import (
    AnswerFolder,
    Instructions,
    JsonFlag,
    LlmBaseUrl,
    LlmOptions,
    SnapshotArgument,
    SpreadOptions,
    Style,
    instructions_in,
    split_commas,
)
from anachron.cli.output import on_screen, print_json, progress_bar, say, stdout, warn
from anachron.cli.outputs import FILE, UPDATES
from anachron.cli.topic_builds import fetched_days, topic_folder
from anachron.cli.topic_options import TopicOptions
from anachron.core.errors import ConfigError
from anachron.io.stores import Place, place

if TYPE_CHECKING:
    from anachron.wikidata.updates.build import Built, UpdateSettings

OldSnapshot = Annotated[Path | None, typer.Option("--old", help="The earlier snapshot, made by wikidata ingest.")]
NewSnapshot = Annotated[
    Path | None, typer.Option("--new", help="The later snapshot, made with the same wiki, language and filters.")
]
UnchangedGroups = Annotated[
    str,
    typer.Option(
        help="Groups whose triples are in both snapshots: skip them, as published, or label them, so that an"
        " end date added to an old statement counts."
    ),
]
Redirects = Annotated[
    Path | None,
    typer.Option(help="Merged items: a .csv or .tsv of two columns, the item and the one it was merged into."),
]
RandomFacts = Annotated[
    str, as_published(help="Whose nearest facts the random ones of a replacement are drawn from: replacements or all.")
]
ValidAtDate = Annotated[
    bool,
    typer.Option(
        "--valid-at-date",
        help="Of relations with one value at a time, first drop values that did not hold at the snapshot's date.",
    ),
]
CoarseDates = Annotated[
    str,
    as_published(
        help="A triple whose label depends on where in its year, month or decade a date lies: undecided, or as "
        "published by the first day."
    ),
]
Memory = Annotated[
    float | None,
    typer.Option(
        help="GB for all workers on a machine; larger buckets are split. Default: 85 % of its memory, less what the "
        "main process holds."
    ),
]
ClozeFile = Annotated[
    Path | None, typer.Option("--cloze", help="Templates written by build cloze, instead of the built-in ones.")
]


def updates(
    *,
    old: OldSnapshot = None,
    new: NewSnapshot = None,
    topic: TopicOptions,
    old_date: Annotated[str | None, typer.Option(help="Of a topic: the earlier day, YYYY-MM-DD.")] = None,
    new_date: Annotated[str | None, typer.Option(help="Of a topic: the later day, YYYY-MM-DD. Default: today.")] = None,
    relations: Relations = None,
    out: Annotated[Path, typer.Option(help="File for the updates: .parquet or .jsonl."), UPDATES],
    unchanged_groups: UnchangedGroups = "skip",
    redirects: Redirects = None,
    cloze: ClozeFile = None,
    neighbours: Annotated[int, typer.Option(min=0, help="Number of nearest facts per update.")] = 10,
    popularity: Annotated[
        bool, typer.Option("--popularity/--no-popularity", help="Order by page views; otherwise by id.")
    ] = True,
    style: Annotated[str, typer.Option(help="Wording of dates in objects; see build statements.")] = "american",
    seed: Annotated[int, typer.Option(help="Seed for random neighbours, their prompts and the subset.")] = 0,
    random_facts: RandomFacts = "replacements",
    valid_at_date: ValidAtDate = False,
    coarse_dates: CoarseDates = "undecided",
    memory: Memory = None,
    spread: SpreadOptions,
    json_: JsonFlag = False,
) -> None:
    """Find what became true, false or did not change between two snapshots or days, with prompts and nearest facts.

    Of a topic, what is fetched of both days stays beside the file, in a folder .topic. Also writes the replacement
    subset, the new entities, what each object can be cited by, and a card that shows every number next to the published
    one. If interrupted, repeat the same command to resume.

    Example: anachron build updates --old SNAPSHOT-2021 --new SNAPSHOT-2023 --out updates.parquet
    """
    from anachron.text.cloze import read_cloze
    from anachron.wikidata.updates.build import build_updates, check_out
    from anachron.wikidata.updates.redirects import read_redirects

    target, chosen = place(out), topic.said(old_date=old_date, new_date=new_date)
    check_out(target)
    more: dict[str, Any] = {"popularity": popularity, "style": style, "seed": seed, "random_facts": random_facts}
    more |= {"valid_at_date": valid_at_date, "coarse_dates": coarse_dates, "neighbours": neighbours}
    own = () if chosen is None else chosen.with_
    more["relations"] = own if relations is None else split_commas(relations)
    settings = update_settings(unchanged_groups, **more)
    templates = None if cloze is None else read_cloze(cloze)
    merged = {} if redirects is None else read_redirects(redirects)
    if chosen is not None and old is None and new is None and old_date is not None:
        days = fetched_days(topic, chosen, topic_folder(target), old_date, new_date or "today", settings)
        old, new, merged = days.old.snapshot, days.new.snapshot, days.merged | merged
    elif chosen is not None or old is None or new is None:
        raise ConfigError("give two snapshots, --old and --new, or --topic and --old-date 2024-01-01 --new-date today")
    with progress_bar("buckets") as progress:
        built = build_updates(
            old, new, target, settings, templates=templates, redirects=merged,
            sources=[path for path in (redirects, cloze) if path is not None], spread=spread.over(progress),
            memory=_bytes(memory), warn=warn,
        )  # fmt: skip
    _tell(built, target, json_, new, len(merged))


def _tell(built: "Built", target: "Place", json_: bool, new: Path, merged: int) -> None:
    from anachron.report.terminal.tables import updates_table
    from anachron.wikidata.updates.build import companions
    from anachron.wikidata.updates.card import statistics

    numbers, files = statistics(built.updates), companions(target)
    if json_:
        named = {name: str(path) for name, path in files.items()}
        print_json({"out": str(target), **named, "statistics": numbers, "steps": built.steps, **built.counts})
        return
    if merged:
        say(_merged_line(built.counts, merged, new))
    stdout().print(updates_table(numbers, statistics(built.replacements), built.counts["judged"]))
    say(
        f"{built.updates.height:,} updates written to {target}, {built.replacements.height:,} of them also to "
        f"{files['replacements']}, {built.created.height:,} new entities to {files['entities']}, what each object "
        f"can be cited by to {files['sources']}, the card to {files['card']}"
    )


def _bytes(memory: float | None) -> int | None:
    """The bytes of ``--memory``. Raises `ConfigError` for what is no number of them."""
    if memory is not None and not math.isfinite(memory):
        raise ConfigError(f"--memory {memory:g}: give a number of GB, or leave it out for what this machine can spare")
    return None if memory is None else int(memory * 1e9)


def _merged_line(counts: Any, listed: int, new: Path) -> str:
    later = listed - counts["merged"]["followed"]
    words = f"; {later:,} of the {listed:,} are still in {new}, so they were merged later" if later else ""
    return f"merged items: {counts['redirected']['triples']:,} old triples follow them{words}"


def update_settings(unchanged_groups: str, **more: Any) -> "UpdateSettings":
    """Settings with ``--unchanged-groups``. Raises `ConfigError` for anything but skip and label."""
    from anachron.wikidata.updates.build import UpdateSettings

    if unchanged_groups not in ("skip", "label"):
        raise ConfigError(f"--unchanged-groups {unchanged_groups!r}: choose skip or label")
    return UpdateSettings(label_unchanged=unchanged_groups == "label", **more)


def cloze(
    *,
    snapshot: SnapshotArgument,
    out: Annotated[Path, typer.Option(help="File for the templates: .json, to pass to build updates --cloze."), FILE],
    llm: Annotated[str, typer.Option("--llm", help="Model that writes the sentences, under the name its server uses.")],
    base_url: LlmBaseUrl = None,
    relations: Annotated[
        str | None, typer.Option(help="Only these relations: ids separated by commas. Default: all.")
    ] = None,
    triples: Annotated[int, typer.Option(min=1, help="Number of triples per relation to put into sentences.")] = 20,
    most_popular: Annotated[
        int, typer.Option(min=1, help="Draw triples whose subjects are among this many most viewed entities.")
    ] = 100_000,
    style: Style = "american",
    seed: Annotated[int, typer.Option(help="Seed for drawing the triples.")] = 0,
    asking: LlmOptions,
    instructions: Instructions = None,
    cache: AnswerFolder = None,
    spread: SpreadOptions,
    json_: JsonFlag = False,
) -> None:
    """Have a language model write cloze templates, by wording drawn triples; keeps the five most frequent per relation.

    If interrupted, repeat the same command to resume: answers are cached, and none is paid for twice.

    Example: anachron build cloze SNAPSHOT --out cloze.json --llm llama3.1 --base-url http://localhost:11434/v1
    """
    from anachron.wikidata.updates.cloze import cloze_templates

    counts = cloze_templates(
        snapshot, out, asking.settings(llm, base_url), relations=split_commas(relations or ""), triples=triples,
        most_popular=most_popular, style=style, seed=seed, cache=cache, spread=spread.over(),
        instructions=instructions_in(instructions), callbacks=on_screen(),
    )  # fmt: skip
    if json_:
        print_json({"out": str(out), **counts})
        return
    for reason, number in counts["dropped"].items():
        say(f"{number:,} sentences dropped: {reason}")
    if counts["relations without a template"]:
        warn(f"no template for {', '.join(counts['relations without a template'])}")
    say(f"templates of {counted(counts['relations'], 'relation')} written to {out}")


def label(
    input: Annotated[Path, typer.Option("--input", help="Groups of triples, one JSON object per line.")],
    old_date: Annotated[str, typer.Option(help="Date of the old snapshot.")],
    new_date: Annotated[str, typer.Option(help="Date of the new snapshot.")],
    out: Annotated[
        Path | None, typer.Option(help="File for the labels: .jsonl. Default: standard output."), FILE
    ] = None,
) -> None:
    """Label each triple of given (subject, relation) groups and name the rule applied, before any group is dropped.

    Example: anachron label --input groups.jsonl --old-date 2021-01-04 --new-date 2023-02-27
    """
    from anachron.wikidata.updates.given import json_lines, label_file

    labelled = label_file(input, old_date, new_date, out)
    if out is None:
        typer.echo(json_lines(labelled), nl=False)
    else:
        say(f"{counted(len(labelled), 'group')} labelled in {out}")
