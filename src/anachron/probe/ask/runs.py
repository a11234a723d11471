"""Runs that asked for answers, as they stand beside runs of scores: found, read, and put together."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from anachron.analysis.answers import Answers, answers_of
from anachron.io.files import Json, file_fingerprint
from anachron.io.run_folder import RunFolder
from anachron.probe.ask.run import ANSWERS_FILE, FACTS_FILE, SUMMARY_FILE, is_answer_run, read_answer_run
from anachron.probe.runs import find_runs


@dataclass(frozen=True)
class AnswerSource:
    """A finished run that asked: its folder and record, its label, the backend that asked, its summary and its facts
    (`anachron.probe.ask.tables`)."""

    folder: Path
    record: Json
    summary: Json
    facts: pl.DataFrame

    @property
    def label(self) -> str:
        return str(self.record["settings"]["label"])

    @property
    def asked_by(self) -> str:
        return str(self.record["settings"]["backend"])


def split_runs(paths: Iterable[Path]) -> tuple[list[Path], list[Path]]:
    """Score tables and folders of runs of scores, and folders of runs that asked; in the folders of runs that are given
    both may lie. Raises `DataError` for a folder without a run."""
    scored: list[Path] = []
    asked: list[Path] = []
    for path in paths:
        for place in [path] if path.is_file() else find_runs(path):
            (asked if place.is_dir() and is_answer_run(place) else scored).append(place)
    return scored, asked


def read_source(folder: Path) -> AnswerSource:
    """A run that asked. Raises `DataError` where it is damaged or not finished."""
    summary, facts = read_answer_run(folder)
    return AnswerSource(folder, RunFolder.read(folder).record, summary, facts)


def answers_of_sources(sources: Sequence[AnswerSource]) -> Answers | None:
    """The runs put together (`anachron.analysis.answers.answers_of`); None without any."""
    return answers_of((one.label, one.asked_by, one.summary, one.facts) for one in sources) if sources else None


def answer_fingerprints(sources: Iterable[AnswerSource]) -> Json:
    """SHA-256 of each run's tables, by path."""
    files = [one.folder / name for one in sources for name in (FACTS_FILE, SUMMARY_FILE, ANSWERS_FILE)]
    return {str(file): file_fingerprint(file) for file in files}
