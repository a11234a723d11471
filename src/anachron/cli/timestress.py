"""The command ``build timestress``: from a dump and page views to a data set, every step of the way."""

from pathlib import Path
from typing import Annotated

import typer

from anachron.cli.build import EndedBefore, MinPopularity, MoreThan, Preset, Ray, Workers, facts, statements
from anachron.cli.output import say
from anachron.cli.verbalize import BaseUrl, Llm, Style, Templates, verbalize
from anachron.cli.wikidata import ingest
from anachron.cli.wikidata_fetch import pageviews as read_pageviews

SNAPSHOT, FACTS, QUESTIONS, DATASET = "snapshot", "facts.parquet", "questions.parquet", "timestress.parquet"


def register(builds: typer.Typer) -> None:
    builds.command()(timestress)


def timestress(
    dump: Annotated[Path, typer.Argument(help="A dump: .json, .json.gz, .json.bz2 or .json.zst.")],
    pageviews: Annotated[list[Path], typer.Argument(help="Page views, a file a month or a day.")],
    date: Annotated[str, typer.Option(help="Date of the dump: YYYY-MM-DD.")],
    out: Annotated[Path, typer.Option(help="Folder for the snapshot, the facts, the questions and the data set.")],
    wiki: Annotated[str, typer.Option(help="Items with a title in this wiki are subjects.")] = "enwiki",
    language: Annotated[str, typer.Option(help="Language of labels and descriptions.")] = "en",
    preset: Preset = "timestress",
    ended_before: EndedBefore = None,
    min_popularity: MinPopularity = None,
    more_than: MoreThan = None,
    llm: Llm = None,
    base_url: BaseUrl = None,
    templates: Templates = False,
    style: Style = "american",
    boundaries: Annotated[str, typer.Option(help="How coarse boundaries are read: released or paper.")] = "released",
    seed: Annotated[int, typer.Option(help="Of the questions drawn and of the random months and days.")] = 0,
    workers: Workers = None,
    ray: Ray = None,
) -> None:
    """A TimeStress of your own: ingest, pageviews, build facts, verbalize and build statements, one after the other.

    Interrupted, the same command goes on where it was. For finer settings give the five commands yourself.

    Example: anachron build timestress dumps/*-all.json.bz2 dumps/pageviews-*.bz2 --date 2021-01-04 --out ts --templates
    """
    from anachron.errors import ConfigError
    from anachron.wikidata.rules import preset as settings_of

    if (llm is None) == (not templates):
        raise ConfigError("say who writes the questions: --llm MODEL, or --templates")
    last = (settings_of(preset).ended_before if ended_before is None else ended_before) - 1
    say(f"1 of 5: {dump} to a snapshot")
    ingest(dump, date, out / SNAPSHOT, wiki=wiki, language=language, workers=workers, ray=ray)
    say("2 of 5: popularity")
    read_pageviews(out / SNAPSHOT, pageviews, workers=workers, ray=ray)
    say("3 of 5: facts")
    facts(
        out / SNAPSHOT, out / FACTS, preset=preset, ended_before=ended_before, min_popularity=min_popularity,
        more_than=more_than, workers=workers, ray=ray,
    )  # fmt: skip
    say("4 of 5: questions")
    verbalize(out / FACTS, out / QUESTIONS, llm=llm, base_url=base_url, templates=templates, style=style, seed=seed)
    say("5 of 5: statements")
    sampling = preset if preset == "robustness-2025" else "timestress"
    statements(out / QUESTIONS, out / DATASET, boundaries=boundaries, seed=seed, until=last, sampling=sampling)
    say(f"probe it: anachron probe MODEL --dataset {out / DATASET} --out RUN")
