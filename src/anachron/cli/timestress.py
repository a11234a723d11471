"""The command ``build timestress``: from a dump and page views to a data set, every step of the way."""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anachron.cli.build import (
    EndedBefore,
    MinPopularity,
    MoreThan,
    PerStratum,
    Preset,
    SelectionOptions,
    UsePopularity,
    print_facts,
    print_statements,
)
from anachron.cli.options import (
    DUMP,
    LABELS,
    LlmBaseUrl,
    LlmName,
    LlmOptions,
    ReadBoundaries,
    SameAs,
    SpreadOptions,
    Templates,
    Wiki,
)
from anachron.cli.output import on_screen, say
from anachron.cli.outputs import FOLDER
from anachron.cli.topic_builds import fetched, local
from anachron.cli.topic_options import TopicOptions
from anachron.cli.verbalize import chosen_writer, print_questions
from anachron.cli.wikidata import MostBad, needing_extra, print_ingest
from anachron.cli.wikidata_fetch import print_popularity
from anachron.core.errors import ConfigError
from anachron.io.stores import Place, StorePath, place

if TYPE_CHECKING:
    from anachron.wikidata.timestress import TimestressSettings
    from anachron.wikidata.topic.choose import Topic

SpokenLanguage = Annotated[str, typer.Option(help=f"{LABELS}. Also that of the questions that templates write.")]
StyleOfQuestions = Annotated[
    str | None,
    typer.Option(help="Wording of dates. Default: that of the templates' language, or american of a model."),
]


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """Those of `SelectionOptions` that are changed most."""

    preset: Preset = "timestress"
    ended_before: EndedBefore = None
    popularity: UsePopularity = True
    min_popularity: MinPopularity = None
    more_than: MoreThan = None
    per_stratum: PerStratum = None


def timestress(
    *,
    dump: Annotated[
        Path | None,
        typer.Argument(help=f"{DUMP}; none with a topic."),
    ] = None,
    pageviews: Annotated[
        list[Path] | None, typer.Argument(help="Page-view files, one per month or per day; none with a topic.")
    ] = None,
    date: Annotated[
        str | None, typer.Option(help="Date of the dump, or of a topic the day that --as-of would name.")
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for the snapshot, the facts, the questions and the data set."), FOLDER
    ],
    wiki: Wiki = "enwiki",
    language: SpokenLanguage = "en",
    most_bad: MostBad = 0.1,
    thresholds: Thresholds,
    topic: TopicOptions,
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

    Of a topic the items and their page views are fetched. If interrupted, repeat the same command to resume. For finer
    control, run the five commands yourself.

    Example: anachron build timestress dumps/*-all.json.bz2 dumps/pageviews-*.bz2 --date 2021-01-04 --out ts --templates
    """
    with needing_extra():
        from anachron.wikidata.reading.settings import IngestSettings
        from anachron.wikidata.timestress import TimestressSettings

    chosen = topic.said()
    if chosen is not None and most_bad != IngestSettings.most_bad:
        raise ConfigError(f"--most-bad {most_bad:g} is for a dump; leave it out for a topic")
    settings = TimestressSettings(
        ingest=IngestSettings(date or datetime.now(UTC).date().isoformat(), wiki, language, most_bad=most_bad),
        selection=SelectionOptions(**asdict(thresholds)).selection(chosen),
        preset=thresholds.preset or "timestress",
        llm=chosen_writer(llm, templates, LlmOptions(same_as=same_as), base_url),
        style=style,
        boundaries=boundaries,  # type: ignore[arg-type]
        seed=seed,
    )
    of_topic = {"as_of": date, "wiki": wiki, "language": language}
    _build(dump, pageviews or [], topic, chosen, place(out), settings, spread, **of_topic)


def _build(
    dump: Path | None, pageviews: list[Path], options: TopicOptions, topic: "Topic | None", target: Place,
    settings: "TimestressSettings", spread: SpreadOptions, **of_topic: Any,
) -> None:  # fmt: skip
    from anachron.wikidata.timestress import DATASET, SNAPSHOT, build_timestress, check_settings, of_snapshot

    tell = partial(_print, target)
    if topic is not None and dump is None:
        check_settings(target, settings, spread.workers)
        fetched(options, topic, local(target / SNAPSHOT), settings.selection, **of_topic)
        of_snapshot(target, settings, spread.over(), on_screen(), tell)
    elif dump is not None and of_topic["as_of"] is not None and topic is None:
        build_timestress(
            dump, pageviews, target, settings, workers=spread.workers, ray=spread.ray, callbacks=on_screen(),
            finished=tell,
        )  # fmt: skip
    else:
        raise ConfigError("give a dump, page views and --date, or a topic with --topic")
    there = target / DATASET
    if isinstance(there, StorePath):
        say(f"copy {there} here to probe it: anachron probe MODEL --dataset {DATASET} --out RUN")
    else:
        say(f"probe it: anachron probe MODEL --dataset {there} --out RUN")


def _print(out: Place, step: str, result: Any) -> None:
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
