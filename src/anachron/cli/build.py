"""The commands ``build facts`` and ``build statements``; other modules add theirs to the group ``build``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anachron.cli.options import JsonFlag, Ray, Workers, split_commas
from anachron.cli.output import print_json, progress_bar, say, stdout, warn

if TYPE_CHECKING:
    from anachron.wikidata.selection.rules import Selection

builds = typer.Typer(no_args_is_help=True, add_completion=False)

SnapshotArgument = Annotated[Path, typer.Argument(help="A snapshot folder, made by wikidata ingest.")]
Preset = Annotated[
    str, typer.Option(help="Thresholds of a published selection: timestress, or robustness-2025 (six relations).")
]
Relations = Annotated[str | None, typer.Option(help="Keep these relations only: ids with commas between; '' for all.")]
Banned = Annotated[str | None, typer.Option(help="Leave these relations out: ids with commas between; '' for none.")]
SeveralPeriods = Annotated[
    str | None,
    typer.Option(
        help="Facts that hold in more than one period: drop; drop-closed, which counts periods with a known start and "
        "end only; or keep, with their other periods."
    ),
]
EndedBefore = Annotated[int | None, typer.Option(help="Facts end before this year.")]
FirstYear = Annotated[int | None, typer.Option(help="Facts start in this year or later.")]
LeastDays = Annotated[int | None, typer.Option(help="Days from the start's first to the end's last, at least.")]
UsePopularity = Annotated[
    bool, typer.Option("--popularity/--no-popularity", help="Let page views decide; without, all facts are kept.")
]
MinPopularity = Annotated[float | None, typer.Option(help="Fixed least popularity of a fact, in monthly page views.")]
HighestPopularity = Annotated[float | None, typer.Option(help="Where lowering the least popularity starts.")]
PopularityStep = Annotated[float | None, typer.Option(help="By how much it is lowered at a time.")]
MoreThan = Annotated[int | None, typer.Option(help="Lower it until more facts than this pass.")]
TopPerRelation = Annotated[int | None, typer.Option(help="Keep so many facts of each relation, the most popular.")]
ClassDepth = Annotated[int | None, typer.Option(help="Edges (P31, then P279) from a property to its classes.")]
BarredWords = Annotated[
    str | None, typer.Option(help="Classes with these in their label hold pages, not things: commas between.")
]


def register(app: typer.Typer) -> None:
    builds.command("facts")(facts)
    builds.command("statements")(statements)
    app.add_typer(
        builds,
        name="build",
        help="Build data sets from Wikidata snapshots: dated facts, statements about them, updates between two.\n\n"
        "Example: anachron build facts SNAPSHOT --out facts.parquet",
    )


def selection(preset: str, popularity: bool, **given: Any) -> "Selection":
    """The settings of a preset with the thresholds that were given; texts with commas become lists."""
    from anachron.wikidata.selection.rules import preset as settings_of
    from anachron.wikidata.selection.select import with_thresholds

    for name in ("relations", "banned", "barred_words"):
        if given.get(name) is not None:
            given[name] = split_commas(given[name])
    return with_thresholds(settings_of(preset), popularity=None if popularity else False, **given)


def facts(
    snapshot: SnapshotArgument,
    out: Annotated[Path, typer.Option(help="File for the facts: .parquet or .jsonl.")],
    preset: Preset = "timestress",
    relations: Relations = None,
    banned: Banned = None,
    several_periods: SeveralPeriods = None,
    ended_before: EndedBefore = None,
    first_year: FirstYear = None,
    least_days: LeastDays = None,
    popularity: UsePopularity = True,
    min_popularity: MinPopularity = None,
    highest_popularity: HighestPopularity = None,
    popularity_step: PopularityStep = None,
    more_than: MoreThan = None,
    top_per_relation: TopPerRelation = None,
    class_depth: ClassDepth = None,
    barred_words: BarredWords = None,
    workers: Workers = None,
    ray: Ray = None,
    json_: JsonFlag = False,
) -> None:
    """Dated facts of a snapshot, the most popular first, and what every step of the selection dropped.

    Example: anachron build facts SNAPSHOT --out facts.parquet
    """
    from anachron.report.tables import selection_table
    from anachron.wikidata.reading.snapshot import open_snapshot
    from anachron.wikidata.selection.facts import build_facts
    from anachron.wikidata.selection.select import Spread

    settings = selection(
        preset, popularity, relations=relations, banned=banned, several_periods=several_periods,
        ended_before=ended_before, first_year=first_year, least_days=least_days, min_popularity=min_popularity,
        highest_popularity=highest_popularity, popularity_step=popularity_step, more_than=more_than,
        top_per_relation=top_per_relation, class_depth=class_depth, barred_words=barred_words,
    )  # fmt: skip
    opened = open_snapshot(snapshot)
    if opened.manifest["options"].get("limit") is not None:
        warn(
            f"{snapshot} was cut by --limit: where it lacks properties or their classes, meta properties and "
            "restrictive qualifiers pass"
        )
    with progress_bar("buckets") as progress:
        found = build_facts(opened, out, settings, preset=preset, spread=Spread(workers, ray, progress))
    if settings.lowers_threshold and found.facts.height <= settings.more_than:
        warn(f"not more than {settings.more_than:,} facts have page views, so all of these are kept")
    if json_:
        print_json({"out": str(out), "facts": found.facts.height, "cut": found.cut.as_json(), "steps": found.steps})
        return
    stdout().print(selection_table(found.steps))
    if found.cut.threshold is not None:
        say(f"least popularity: {found.cut.threshold:,.0f} monthly views")
    say(f"{found.facts.height:,} facts written to {out}")


def statements(
    questions: Annotated[Path, typer.Argument(help="Facts with questions, made by verbalize.")],
    out: Annotated[Path, typer.Option(help="File for the statements: .parquet, .csv or .jsonl.")],
    boundaries: Annotated[str, typer.Option(help="How coarse boundaries are read: released or paper.")] = "released",
    seed: Annotated[int, typer.Option(help="Seed of the random months and days.")] = 0,
    until: Annotated[
        int | None,
        typer.Option(
            help="Last year asked about; default: the last that the facts could end in, by their manifests, or 2020."
        ),
    ] = None,
    sampling: Annotated[str, typer.Option(help="Sampler: timestress or robustness-2025.")] = "timestress",
    style: Annotated[
        str | None,
        typer.Option(
            help="How dates are worded: american, classic, french, german or spanish; default: as the questions were."
        ),
    ] = None,
    sample: Annotated[int | None, typer.Option(help="Take so many facts only, a fixed random sample.")] = None,
    json_: JsonFlag = False,
) -> None:
    """Statements in the published TimeStress columns: every context of each fact in front of its question.

    Beside the file comes a card with its numbers, the published ones and what every step before dropped.

    Example: anachron build statements questions.parquet --out DATASET.parquet
    """
    from dataclasses import replace

    from anachron.core.contexts import SAMPLINGS
    from anachron.data.build_statements import build_dataset, card_of, until_of
    from anachron.data.card import counts, statistics
    from anachron.errors import ConfigError
    from anachron.report.tables import statistics_table

    if sampling not in SAMPLINGS:
        raise ConfigError(f"sampling {sampling!r}: choose one of {', '.join(SAMPLINGS)}")
    chosen = SAMPLINGS[sampling]
    if until is None:
        until = until_of(questions)
    if until is not None:
        chosen = replace(chosen, until=until)
    table = build_dataset(
        questions,
        out,
        boundaries=boundaries,  # type: ignore[arg-type]
        seed=seed,
        sampling=chosen,
        style=style,
        sample=sample,
    )
    found = statistics(table)
    if json_:
        print_json({"out": str(out), "card": str(card_of(out)), **counts(table), "statistics": found})
        return
    stdout().print(statistics_table(found))
    say(f"{found['statements']:,} statements of {found['facts']:,} facts written to {out}, its card to {card_of(out)}")
    say(f"the last year asked about is {chosen.until}")
