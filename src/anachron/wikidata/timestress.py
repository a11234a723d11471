"""A TimeStress of one's own: from a dump and page views to a data set, every step of the way."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from anachron.core.errors import ConfigError, DataError
from anachron.core.periods import Boundaries, check_boundaries
from anachron.data.build_statements import BuiltDataset, build_statements
from anachron.data.question_files import verbalise
from anachron.io.clients import Client
from anachron.io.cluster import Spread, check_shared, worker_count
from anachron.io.jobs import Callbacks
from anachron.io.llm_settings import LlmSettings
from anachron.io.stores import Place, place
from anachron.text.languages import chosen
from anachron.text.words import language_files
from anachron.wikidata.reading.dump import open_dump
from anachron.wikidata.reading.ingest import ingest
from anachron.wikidata.reading.settings import IngestSettings
from anachron.wikidata.selection.facts import build_facts, check_out
from anachron.wikidata.selection.rules import Selection
from anachron.wikidata.views.database import import_duckdb
from anachron.wikidata.views.pageviews import months_of, parse_name
from anachron.wikidata.views.popularity import choose_project, compute_popularity

SNAPSHOT, FACTS, QUESTIONS, DATASET = "snapshot", "facts.parquet", "questions.parquet", "timestress.parquet"


@dataclass(frozen=True, kw_only=True)
class TimestressSettings:
    """How a data set is made from a dump.

    ingest: what is read from the dump.
    selection: which facts are selected, starting from the preset of this name.
    llm: the model that writes the questions; by default they come from the templates of each relation, in the language
        of the labels.
    style: wording of dates, see `anachron.text.dates`; by default that of the templates' language, american of a model.
    boundaries: boundary convention for coarse dates, ``released`` or ``paper``.
    seed: seed for drawing questions and for the random months and days.
    """

    ingest: IngestSettings
    selection: Selection = field(default_factory=Selection)
    preset: str = "timestress"
    llm: LlmSettings | None = None
    style: str | None = None
    boundaries: Boundaries = "released"
    seed: int = 0


def build_timestress(
    dump: Place | str,
    pageviews: Sequence[Place | str],
    out: Place | str,
    settings: TimestressSettings,
    *,
    workers: int | None = None,
    ray: str | None = None,
    callbacks: Callbacks | None = None,
    finished: Callable[[str, Any], None] = lambda step, result: None,
) -> BuiltDataset:
    """Ingest a dump, add page views, select facts, write questions and build statements, all in one folder.

    dump: .json, .json.gz, .json.bz2 or .json.zst. pageviews: files of a month or a day, which a selection without
    popularity does not need. out: the folder of
    ``snapshot/``, ``facts.parquet``, ``questions.parquet`` and ``timestress.parquet``. Each of these may lie on a
    store; answers of a model are kept on this machine. workers, ray: see `anachron.io.cluster`. callbacks: told what
    each step reports. finished: told the name of each step (``ingest, pageviews, facts, questions, statements``) and
    its result.

    What any step would refuse is refused before the first one starts. An interrupted call resumes where it stopped.
    Raises what the steps raise: `anachron.wikidata.reading.ingest.ingest`,
    `anachron.wikidata.views.popularity.compute_popularity`, `anachron.build_facts`, `anachron.verbalise` and
    `anachron.build_statements`.
    """
    dump, out, callbacks = place(dump), place(out), callbacks or Callbacks()
    _check(dump, pageviews, out, settings, workers, ray)
    callbacks.notice(f"1 of 5: {dump} to a snapshot")
    with callbacks.bar(f"reading {dump.name}", "bytes") as bar:
        manifest = ingest(dump, out / SNAPSHOT, settings.ingest, workers=workers, ray=ray, callbacks=bar)
    finished("ingest", manifest)
    if settings.selection.popularity:
        callbacks.notice("2 of 5: popularity")
        popularity = compute_popularity(out / SNAPSHOT, pageviews, workers=workers, ray=ray, callbacks=callbacks)
        finished("pageviews", popularity)
    return of_snapshot(out, settings, Spread(workers, ray), callbacks, finished)


def of_snapshot(
    out: Place,
    settings: TimestressSettings,
    spread: Spread,
    callbacks: Callbacks,
    finished: Callable[[str, Any], None] = lambda step, result: None,
) -> BuiltDataset:
    """The last three steps of `build_timestress`, for a snapshot in ``out/snapshot/``, however that was made."""
    callbacks.notice("3 of 5: facts")
    with callbacks.bar("buckets") as bar:
        selected = build_facts(
            out / SNAPSHOT, out / FACTS, settings.selection, preset=settings.preset,
            spread=replace(spread, progress=bar.progress), warn=callbacks.warn,
        )  # fmt: skip
    finished("facts", selected)
    callbacks.notice("4 of 5: questions")
    counts = verbalise(
        out / FACTS, out / QUESTIONS, settings.llm, **_spoken(settings), seed=settings.seed, callbacks=callbacks
    )
    finished("questions", counts)
    if not counts["verbalised"]:
        raise DataError(f"no fact got its questions; {out / QUESTIONS}.failed.jsonl says why, fact by fact")
    callbacks.notice("5 of 5: statements")
    sampling = settings.preset if settings.preset == "robustness-2025" else "timestress"
    built = build_statements(
        out / QUESTIONS, out / DATASET, boundaries=settings.boundaries, seed=settings.seed, sampling=sampling
    )
    finished("statements", built)
    return built


def _spoken(settings: TimestressSettings) -> dict[str, Any]:
    """``language`` of the questions and ``style`` of their dates: templates must be in the language of the labels."""
    if settings.llm is not None:
        return {"language": None, "style": settings.style or "american"}
    code, known = settings.ingest.language.partition("-")[0], list(language_files())
    if code not in known:
        raise ConfigError(
            f"--language {settings.ingest.language}: there are templates in {', '.join(known)}; choose one of these "
            "for the labels too, or have a model write the questions (--llm MODEL)"
        )
    return {"language": code, "style": settings.style}


def _check(
    dump: Place, pageviews: Sequence[Place | str], out: Place, settings: TimestressSettings, workers: int | None,
    ray: str | None,
) -> None:  # fmt: skip
    """Raise now what one of the steps would raise about its options after hours of those before it."""
    check_settings(out, settings, workers)
    views = [parse_name(file) for file in pageviews]
    if settings.selection.popularity:
        months_of(views)
        choose_project({"options": settings.ingest.options()}, None)
        import_duckdb()
    open_dump(dump)
    check_shared([dump, *(file.path for file in views)], None, ray)


def check_settings(out: Place, settings: TimestressSettings, workers: int | None) -> None:
    """Raise now what `of_snapshot` would raise about its settings after the snapshot was made."""
    chosen(**_spoken(settings))
    check_out(out / FACTS, settings.selection)
    if settings.llm is not None and not (out / QUESTIONS).exists():  # answers that are kept need no key
        Client(settings.llm)
    check_boundaries(settings.boundaries)
    if workers is not None:
        worker_count(workers)
