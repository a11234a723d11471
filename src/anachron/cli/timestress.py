"""The command ``build timestress``: from a dump and page views to a data set, every step of the way."""

from pathlib import Path
from typing import Annotated, Any

import typer

from anachron.cli.build import EndedBefore, MinPopularity, MoreThan, Preset, facts, selection, statements
from anachron.cli.options import Ray, Workers
from anachron.cli.output import say
from anachron.cli.verbalize import BaseUrl, Llm, Style, Templates, verbalize, writer
from anachron.cli.wikidata import ingest, needing_extra
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
    asked: dict[str, Any] = {"llm": llm, "templates": templates, "style": style, "base_url": base_url}
    thresholds: dict[str, Any] = {
        "preset": preset, "ended_before": ended_before, "min_popularity": min_popularity, "more_than": more_than
    }  # fmt: skip
    _check(dump, pageviews, out, date, wiki, language, boundaries, workers, asked=asked, thresholds=thresholds)
    say(f"1 of 5: {dump} to a snapshot")
    ingest(dump, date, out / SNAPSHOT, wiki=wiki, language=language, workers=workers, ray=ray)
    say("2 of 5: popularity")
    read_pageviews(out / SNAPSHOT, pageviews, workers=workers, ray=ray)
    say("3 of 5: facts")
    facts(out / SNAPSHOT, out / FACTS, workers=workers, ray=ray, **thresholds)
    say("4 of 5: questions")
    verbalize(out / FACTS, out / QUESTIONS, seed=seed, **asked)
    say("5 of 5: statements")
    sampling = preset if preset == "robustness-2025" else "timestress"
    statements(out / QUESTIONS, out / DATASET, boundaries=boundaries, seed=seed, sampling=sampling)
    say(f"probe it: anachron probe MODEL --dataset {out / DATASET} --out RUN")


def _check(
    dump: Path, pageviews: list[Path], out: Path, date: str, wiki: str, language: str, boundaries: str,
    workers: int | None, *, asked: dict[str, Any], thresholds: dict[str, Any],
) -> None:  # fmt: skip
    """Raise now what one of the steps would raise about its options after hours of those before it."""
    with needing_extra():
        from anachron.wikidata.reading.dump import open_dump
        from anachron.wikidata.reading.ingest import IngestSettings

    from anachron.cluster import worker_count
    from anachron.core.periods import check_boundaries
    from anachron.text.llm import open_client
    from anachron.wikidata.views.pageviews import months_of, parse_name
    from anachron.wikidata.views.popularity import choose_project, import_duckdb

    settings = writer(**asked)
    if settings is not None and not (out / QUESTIONS).exists():  # answers that are kept need no key
        open_client(settings)
    selection(popularity=True, **thresholds)
    check_boundaries(boundaries)
    if workers is not None:
        worker_count(workers)
    months_of(map(parse_name, pageviews))
    choose_project({"options": IngestSettings(date, wiki, language).options()}, None)
    import_duckdb()
    open_dump(dump)
