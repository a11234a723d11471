"""Runs and score tables to every table they allow, and to a page about them (``metrics`` and ``report``)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from anachron.analysis import catalogue
from anachron.analysis.models import merge_models, read_models, recorded_models
from anachron.analysis.study import Sharing, Study, make_study
from anachron.core.errors import ConfigError
from anachron.io.files import Json, write_bytes, write_manifest
from anachron.io.run_folder import RunFolder
from anachron.probe.ask.run import (
    AnswerSource,
    answer_fingerprints,
    answers_of_sources,
    read_answers,
    read_source,
    split_runs,
)
from anachron.probe.check.check import SUMMARY_FILE
from anachron.probe.check.verdicts import VERDICTS_FILE
from anachron.probe.runs import (
    DECOYS_FILE,
    WORDINGS_FILE,
    ScoreSource,
    find_sources,
    fingerprints,
    read_sources,
)
from anachron.report.edits.page import is_evaluation, write_edits_report
from anachron.report.figures import write_figures
from anachron.report.outputs import Written, write_tables
from anachron.report.page.answers import AnswersOnPage, run_key
from anachron.report.page.data import counts, page_data
from anachron.report.page.render import plotly_source, render
from anachron.report.page.verdicts import CheckOnPage, read_verdicts
from anachron.report.paper_tables import check_style, write_study_papers

Told = Callable[[str, int, int], None]

PAGE, TABLES, FIGURES = "index.html", "tables", "figures"


@dataclass(frozen=True)
class OpenedStudy:
    """A study, what a manifest records of how it was put together, and what it was read from: scores, and runs that
    asked for answers."""

    study: Study
    parameters: Json
    sources: list[ScoreSource]
    asked: list[AnswerSource]

    @property
    def inputs(self) -> Json:
        """Fingerprints of all that was read, by path."""
        return {**fingerprints(self.sources), **answer_fingerprints(self.asked)}


@dataclass(frozen=True)
class Report:
    """A report that was written: its page, its tables, the folder of its figures, and figures that were not drawn, by
    name, with the reason."""

    page: Path
    written: Written
    figures: Path
    not_drawn: dict[str, str]


def open_study(
    paths: Iterable[Path | str],
    *,
    models: Path | str | None = None,
    common_facts: bool = False,
    warn: Callable[[str], None] = lambda message: None,
    progress: Told = lambda what, done, total: None,
    **options: Any,
) -> OpenedStudy:
    """Open a study of score tables, run folders, or folders of run folders, of scores or of answers.

    models: a table of model, family, parameters, instruct, base; it overrides what runs recorded. common_facts: compare
    runs of different data sets on the facts they share. options: of `anachron.analysis.study.make_study`. warn: told of
    models in the table that no run is of. progress: told what is worked on, how much of it is done, and of how much.

    Raises `ConfigError` for invalid options, `DataError` for scores that cannot be read or put together.
    """
    scored, asked_folders = split_runs(map(Path, paths))
    asked = [read_source(folder) for folder in asked_folders]
    sources = find_sources(scored) if scored or not asked else []
    known = recorded_models((s.label, s.record) for s in sources if s.label is not None and s.record is not None)
    if models is not None:
        known = merge_models(known, read_models(Path(models)))
    sharing: Sharing = "common" if common_facts else "refuse" if len(sources) > 1 else "keep"
    study = make_study(
        _told_of(read_sources(sources), len(sources), partial(progress, "reading runs")), models=known,
        sharing=sharing, answers=answers_of_sources(asked),
        decoys=_more(sources, DECOYS_FILE), wordings=_more(sources, WORDINGS_FILE),
        progress=partial(progress, "win rates"), **options,
    )  # fmt: skip
    here = study.models["model"].to_list()
    if unknown := sorted(set(known["model"]) - set(here)):
        warn(f"{models or 'a run'} names {', '.join(unknown)}, which is not among the models here: {', '.join(here)}")
    parameters = {**options, "sharing": sharing, "models": None if models is None else str(models)}
    return OpenedStudy(study, parameters, sources, asked)


def _more(sources: Iterable[ScoreSource], file: str) -> list[pl.DataFrame]:
    return [table for source in sources if (table := source.read_more(file)) is not None]


def _told_of(
    tables: Iterable[pl.DataFrame], total: int, progress: Callable[[int, int], None]
) -> Iterator[pl.DataFrame]:
    progress(0, total)
    for done, table in enumerate(tables, start=1):
        yield table
        progress(done, total)


def write_metrics(
    scores: Iterable[Path | str],
    out: Path | str,
    *,
    style: str = "plain",
    progress: Told = lambda what, done, total: None,
    **options: Any,
) -> Written:
    """Write every table that the runs allow into a folder: Parquet and CSV, and for print Markdown and LaTeX.

    scores: score tables, run folders, or folders of run folders. style: of what is for print, ``plain``, all columns as
    they are, or ``paper`` (`anachron.report.paper`). progress, options: of `open_study`, which says what it raises.
    """
    check_style(style)
    opened = open_study(scores, progress=progress, **options)
    written = write_tables(
        opened.study, Path(out), parameters=opened.parameters, inputs=opened.inputs,
        progress=partial(progress, "tables"),
    )  # fmt: skip
    return _set_for_print(written, Path(out)) if style == "paper" else written


def _set_for_print(written: Written, out: Path) -> Written:
    """Set the printed tables as papers do; a note says which have none."""
    left_out = write_study_papers(written.tables, catalogue.every_analysis(), out)
    reasons: dict[str, list[str]] = {}
    for name, why in left_out.items():
        reasons.setdefault(why, []).append(name)
    notes = [f"not set for print: {', '.join(names)}: {why}" for why, names in reasons.items()]
    return replace(written, notes=[*written.notes, *notes])


def write_report(
    scores: Iterable[Path | str],
    out: Path | str,
    *,
    style: str = "plain",
    figures: bool = True,
    history: Sequence[Json] = (),
    progress: Told = lambda what, done, total: None,
    **options: Any,
) -> Report:
    """Write a page about some runs that works offline, with the tables behind it and the figures for print.

    figures: whether to draw those for print, which takes longer than all else where facts are few. history: the lines
    of `anachron.probe.check.history.read_history`, for a chart at the end.
    scores, style, progress, options: as of `write_metrics`, or the one folder of a run of ``evaluate``, whose page has
    the methods' table and each update before and after; options do not bear on it. Raises `ConfigError` without the
    extra ``report``, for such a folder beside others, and as `open_study`.
    """
    check_style(style)
    plotly_source()  # a missing extra is said before any work
    out, paths = Path(out), list(map(Path, scores))
    if edits := [path for path in paths if is_evaluation(path)]:
        if len(paths) > 1:
            raise ConfigError(f"{edits[0]} holds edits, which have a page of their own; report it alone")
        evaluated, inputs = write_edits_report(edits[0], out / PAGE, out / TABLES, style)
        tables = {name: summary for name, (summary, _) in evaluated.summaries.items()}
        return Report(out / PAGE, Written(tables, evaluated.notes, {}, {}, inputs), out / TABLES, {})
    opened = open_study(paths, progress=progress, **options)
    written = write_tables(
        opened.study, out / TABLES, parameters=opened.parameters, inputs=opened.inputs, command="report",
        progress=partial(progress, "tables"),
    )  # fmt: skip
    progress("page", 0, 1)
    write_page(opened.study, written, opened.sources, out / PAGE, opened.asked, history)
    progress("page", 1, 1)
    if style == "paper":  # after the page, whose notes are not about print
        written = _set_for_print(written, out / TABLES)
    not_drawn = write_figures(written.tables, out / FIGURES, partial(progress, "figures")) if figures else {}
    return Report(out / PAGE, written, out / FIGURES, not_drawn)


def date_style_of(sources: Iterable[ScoreSource]) -> str | None:
    """How all of some runs word their dates; None where they differ, or one does not know."""
    styles = {None if source.record is None else source.record.get("date_style") for source in sources}
    return styles.pop() if len(styles) == 1 else None


def verdicts_of(
    sources: Iterable[ScoreSource], asked: Iterable[AnswerSource] = ()
) -> dict[tuple[str, ...], CheckOnPage]:
    """What was found by those runs that are checks, by model, format and prefix (`run_key` of those that asked)."""
    runs = {run_key(one.label, one.asked_by): RunFolder.read(one.folder) for one in asked}
    for source in sources:
        if source.label is not None and source.run is not None:
            settings = source.run.record["settings"]
            runs[source.label, settings["format"], settings["prefix"]] = source.run
    return {
        key: CheckOnPage(
            read_verdicts(run.read_table(VERDICTS_FILE), run.path / VERDICTS_FILE), run.read_json(SUMMARY_FILE)
        )
        for key, run in runs.items()
        if run.holds(VERDICTS_FILE)
    }


def write_page(
    study: Study, written: Written, sources: Iterable[ScoreSource], page: Path, asked: Sequence[AnswerSource] = (),
    history: Sequence[Json] = (),
) -> None:  # fmt: skip
    """Write the page of a study with its manifest beside it."""
    sources = list(sources)
    manifests = [{"name": s.label or str(s.file), "record": s.record} for s in sources]
    manifests += [{"name": f"{one.label}, asked by {one.asked_by}", "record": one.record} for one in asked]
    data = page_data(
        study, written, manifests, style=date_style_of(sources), verdicts=verdicts_of(sources, asked),
        asked=[
            AnswersOnPage(run_key(one.label, one.asked_by), one.summary, one.facts, read_answers(one.folder))
            for one in asked
        ],
        history=history,
    )  # fmt: skip
    write_bytes(page, render(data).encode())
    write_manifest(page, command="report", parameters=written.parameters, inputs=written.inputs, counts=counts(data))
