"""The command ``build timestress``: from a dump and page views to a data set, every step of the way."""

from pathlib import Path
from typing import Annotated, Any

import typer

from anachron.cli.build import (
    EndedBefore,
    MinPopularity,
    MoreThan,
    PerStratum,
    Preset,
    SelectionOptions,
    print_facts,
    print_statements,
)
from anachron.cli.groups import grouped
from anachron.cli.options import (
    DumpArgument,
    DumpDate,
    LlmBaseUrl,
    LlmName,
    LlmOptions,
    ReadBoundaries,
    SameAs,
    SpreadOptions,
    Templates,
)
from anachron.cli.output import on_screen, say
from anachron.cli.outputs import FOLDER
from anachron.cli.verbalize import chosen_writer, print_questions
from anachron.cli.wikidata import MostBad, needing_extra, print_ingest
from anachron.cli.wikidata_fetch import print_popularity
from anachron.io.stores import Place, StorePath, place

SpokenLanguage = Annotated[
    str, typer.Option(help="Language of labels and descriptions, and of the questions that templates write.")
]
StyleOfQuestions = Annotated[
    str | None,
    typer.Option(help="Wording of dates. Default: that of the templates' language, or american of a model."),
]


def register(builds: typer.Typer) -> None:
    builds.command()(grouped(timestress))


def timestress(
    *,
    dump: DumpArgument,
    pageviews: Annotated[list[Path], typer.Argument(help="Page-view files, one per month or per day.")],
    date: DumpDate,
    out: Annotated[
        Path, typer.Option(help="Folder for the snapshot, the facts, the questions and the data set."), FOLDER
    ],
    wiki: Annotated[str, typer.Option(help="Only items with a title in this wiki become subjects.")] = "enwiki",
    language: SpokenLanguage = "en",
    most_bad: MostBad = 0.1,
    preset: Preset = "timestress",
    ended_before: EndedBefore = None,
    min_popularity: MinPopularity = None,
    more_than: MoreThan = None,
    per_stratum: PerStratum = None,
    llm: LlmName = None,
    base_url: LlmBaseUrl = None,
    same_as: SameAs = None,
    templates: Templates = False,
    style: StyleOfQuestions = None,
    boundaries: ReadBoundaries = "released",
    seed: Annotated[int, typer.Option(help="Seed for drawing questions and for the random months and days.")] = 0,
    spread: SpreadOptions,
) -> None:
    """Build your own TimeStress: run ingest, pageviews, build facts, verbalize and build statements in turn.

    If interrupted, repeat the same command to resume. For finer control, run the five commands yourself.

    Example: anachron build timestress dumps/*-all.json.bz2 dumps/pageviews-*.bz2 --date 2021-01-04 --out ts --templates
    """
    with needing_extra():
        from anachron.wikidata.reading.settings import IngestSettings
        from anachron.wikidata.timestress import DATASET, TimestressSettings, build_timestress

    thresholds = SelectionOptions(
        preset=preset, ended_before=ended_before, min_popularity=min_popularity, more_than=more_than,
        per_stratum=per_stratum,
    )  # fmt: skip
    settings = TimestressSettings(
        ingest=IngestSettings(date, wiki, language, most_bad=most_bad),
        selection=thresholds.selection(),
        preset=preset,
        llm=chosen_writer(llm, templates, LlmOptions(same_as=same_as), base_url),
        style=style,
        boundaries=boundaries,  # type: ignore[arg-type]
        seed=seed,
    )
    target = place(out)
    build_timestress(
        dump, pageviews, target, settings, workers=spread.workers, ray=spread.ray, callbacks=on_screen(),
        finished=lambda step, result: _print(step, result, target),
    )  # fmt: skip
    there = target / DATASET
    if isinstance(there, StorePath):
        say(f"copy {there} here to probe it: anachron probe MODEL --dataset {DATASET} --out RUN")
    else:
        say(f"probe it: anachron probe MODEL --dataset {there} --out RUN")


def _print(step: str, result: Any, out: Place) -> None:
    from anachron.wikidata.timestress import DATASET, FACTS, QUESTIONS, SNAPSHOT

    if step == "ingest":
        print_ingest(result, out / SNAPSHOT)
    elif step == "pageviews":
        print_popularity(result)
    elif step == "facts":
        print_facts(result, out / FACTS)
    elif step == "questions":
        print_questions(result, out / QUESTIONS)
    else:
        print_statements(result, out / DATASET)
