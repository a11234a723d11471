"""The commands ``build facts`` and ``build statements``."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anachron.analysis.plots.words import counted
from anachron.cli.options import (
    AsOf,
    ContextSeed,
    JsonFlag,
    Language,
    ReadBoundaries,
    ReadingOptions,
    SamplingOption,
    SpreadOptions,
    split_commas,
)
from anachron.cli.output import print_json, progress_bar, say, stdout, tell_left_out, tell_notes, warn
from anachron.cli.outputs import FILE, STATEMENTS
from anachron.cli.topic_builds import fetched, topic_folder
from anachron.cli.topic_options import TopicDay, TopicLanguage, TopicOptions
from anachron.io.stores import Place, place

if TYPE_CHECKING:
    from anachron.data.build_statements import BuiltDataset
    from anachron.wikidata.selection.rules import Selection
    from anachron.wikidata.selection.select import Selected
    from anachron.wikidata.topic.choose import Topic

PRESET = "Thresholds of a published selection: timestress, or robustness-2025 (six relations)"
Preset = Annotated[str | None, typer.Option(help=f"{PRESET}.")]
Relations = Annotated[str | None, typer.Option(help="Keep only these relations: ids separated by commas; '' for all.")]
EndedBefore = Annotated[int | None, typer.Option(help="Keep facts that ended before this year.")]
UsePopularity = Annotated[
    bool, typer.Option("--popularity/--no-popularity", help="Select by page views; --no-popularity keeps all facts.")
]
MinPopularity = Annotated[float | None, typer.Option(help="Fixed minimum popularity of a fact, in monthly page views.")]
MoreThan = Annotated[int | None, typer.Option(help="Lower the minimum popularity until more facts than this pass.")]

PerStratum = Annotated[
    int | None,
    typer.Option(
        help="Rare facts too: draw this many of each power of ten of popularity, in place of the most popular."
    ),
]


@dataclass(frozen=True, kw_only=True)
class SelectionOptions:
    """A preset, and thresholds in the place of its own."""

    preset: Annotated[
        str | None,
        typer.Option(
            help=f"{PRESET}; or dated: every dated fact, those that still hold too. Default: dated for a .csv, "
            "otherwise timestress."
        ),
    ] = None
    relations: Relations = None
    banned: Annotated[str | None, typer.Option(help="Drop these relations: ids separated by commas; '' for none.")] = (
        None
    )
    several_periods: Annotated[
        str | None,
        typer.Option(
            help="Facts that hold in more than one period: drop; drop-closed, which counts only periods with a "
            "known start and end; or keep, with their other periods."
        ),
    ] = None
    ended_before: EndedBefore = None
    ended_since: Annotated[
        int | None,
        typer.Option(help="Keep facts that ended in this year or later, or still hold. Default: a topic's 'since'."),
    ] = None
    first_year: Annotated[int | None, typer.Option(help="Keep facts that start in this year or later.")] = None
    least_days: Annotated[
        int | None,
        typer.Option(help="Minimum number of days from the first day of the start to the last day of the end."),
    ] = None
    popularity: UsePopularity = True
    min_popularity: MinPopularity = None
    highest_popularity: Annotated[
        float | None, typer.Option(help="Minimum popularity to start with when lowering it.")
    ] = None
    popularity_step: Annotated[float | None, typer.Option(help="Step by which the minimum popularity is lowered.")] = (
        None
    )
    more_than: MoreThan = None
    top_per_relation: Annotated[
        int | None, typer.Option(help="Keep this many facts of each relation, the most popular ones.")
    ] = None
    per_stratum: PerStratum = None
    still_held: Annotated[
        bool | None,
        typer.Option(help="Keep facts without an end too, unless another value of theirs is preferred, for a .csv."),
    ] = None
    class_depth: Annotated[
        int | None, typer.Option(help="Maximum number of edges (P31, then P279) from a property to its classes.")
    ] = None
    barred_words: Annotated[
        str | None,
        typer.Option(
            help="Words, separated by commas: a class with one in its label holds wiki pages, whose facts are dropped."
        ),
    ] = None

    def selection(self, topic: "Topic | None" = None) -> "Selection":
        """The thresholds; those of a topic where it has some: its relations and year, unless others are chosen."""
        from anachron.wikidata.selection.facts import selection_named

        thresholds = asdict(self)
        for name in ("relations", "banned", "barred_words"):
            if thresholds[name] is not None:
                thresholds[name] = split_commas(thresholds[name])
        if topic is not None:
            own = {"relations": topic.with_ or None, "ended_since": topic.since}
            thresholds |= {name: value for name, value in own.items() if thresholds[name] is None}
        preset, popularity = thresholds.pop("preset"), None if thresholds.pop("popularity") else False
        return selection_named(preset or "timestress", popularity=popularity, **thresholds)


def facts(
    *,
    snapshot: Annotated[
        Path | None, typer.Argument(help="Snapshot folder made by wikidata ingest or fetch; none with a topic.")
    ] = None,
    out: Annotated[
        Path, typer.Option(help="File for the facts: .parquet or .jsonl for verbalize, .csv for check."), FILE
    ],
    thresholds: SelectionOptions,
    topic: TopicOptions,
    as_of: TopicDay = None,
    language: TopicLanguage = None,
    spread: SpreadOptions,
    json_: JsonFlag = False,
) -> None:
    """Select the dated facts of a snapshot, or of a topic, and report what every step of the selection dropped.

    Of a topic, what is fetched stays beside the file, in a folder .topic; repeat the same command to resume.

    Example: anachron build facts SNAPSHOT --out facts.parquet
    """
    from anachron.core.errors import ConfigError
    from anachron.wikidata.reading.snapshot import open_snapshot
    from anachron.wikidata.selection.facts import build_facts, check_out

    chosen = topic.said(as_of=as_of, language=language)
    thresholds = replace(thresholds, preset=thresholds.preset or ("dated" if out.suffix == ".csv" else "timestress"))
    selection = thresholds.selection(chosen)
    check_out(place(out), selection)
    if snapshot is None and chosen is not None:
        snapshot = fetched(topic, chosen, topic_folder(out), selection, as_of=as_of, language=language)
    elif snapshot is None or chosen is not None:
        raise ConfigError("name a snapshot, or say a topic with --topic, not both")
    with progress_bar("buckets") as progress:
        selected = build_facts(
            snapshot, out, selection, preset=thresholds.preset, spread=spread.over(progress), warn=warn
        )
    if json_:
        cut = selected.cut.as_json()
        print_json({"out": str(place(out)), "facts": selected.facts.height, "cut": cut, "steps": selected.steps})
    else:
        print_facts(selected, place(out))
        if out.suffix == ".csv":
            say(f"check a model: anachron check MODEL --facts {out} --as-of {open_snapshot(snapshot).manifest['date']}")


def print_facts(selected: "Selected", out: Place) -> None:
    from anachron.report.terminal.tables import selection_table

    stdout().print(selection_table(selected.steps))
    if selected.cut.threshold is not None:
        say(f"minimum popularity: {selected.cut.threshold:,.0f} monthly views")
    say(f"{counted(selected.facts.height, 'fact')} written to {out}")


def statements(
    *,
    questions: Annotated[
        Path, typer.Argument(help="Facts with questions, made by verbalize, or a file of your own facts.")
    ],
    out: Annotated[Path, typer.Option(help="File for the statements: .parquet, .csv or .jsonl."), STATEMENTS],
    boundaries: ReadBoundaries = "released",
    seed: ContextSeed = 0,
    until: Annotated[
        int | None,
        typer.Option(
            help="Last year asked about. Default: the last in which the facts could end, by their manifests, or 2020."
        ),
    ] = None,
    sampling: SamplingOption = "timestress",
    language: Language = None,
    style: Annotated[
        str | None,
        typer.Option(
            help="Wording of dates: american, classic, french, german, portuguese or spanish; american-published "
            "and classic-published omit AD before early years. Default: that of the questions."
        ),
    ] = None,
    sample: Annotated[int | None, typer.Option(help="Use only a fixed random sample of this many facts.")] = None,
    as_of: AsOf = None,
    reading: ReadingOptions,
    json_: JsonFlag = False,
) -> None:
    """Write statements in the published TimeStress columns: each fact's question, preceded by each of its contexts.

    Also writes a card with the numbers of the data set, the published ones, and what every earlier step dropped.

    Example: anachron build statements questions.parquet --out DATASET.parquet
    """
    from anachron.data.build_statements import build_statements
    from anachron.data.card import counts, statistics

    built = build_statements(
        questions,
        out,
        boundaries=boundaries,  # type: ignore[arg-type]
        seed=seed,
        until=until,
        sampling=sampling,
        language=language,
        style=style,
        sample=sample,
        as_of=as_of,
        reading=reading.reading(),
    )
    there, extra = place(out), {}
    if built.own is not None:
        tell_notes(built.own.notes)
        tell_left_out(built.own.left_out, built.own.about.height, str(built.own.as_of))
        extra = {"left_out": built.own.left_out.to_dicts()}
    if json_:
        numbers = {**counts(built.table), "statistics": statistics(built.table)}
        print_json({"out": str(there), "card": str(built.card), **numbers, **extra})
    else:
        print_statements(built, there)


def print_statements(built: "BuiltDataset", out: Place) -> None:
    from anachron.data.card import statistics
    from anachron.report.terminal.tables import statistics_table

    numbers = statistics(built.table)
    stdout().print(statistics_table(numbers))
    say(
        f"{numbers['statements']:,} statements of {numbers['facts']:,} facts written to {out}, its card to {built.card}"
    )
    say(f"the last year asked about is {built.until}")
