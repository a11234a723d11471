"""A run that asks: a folder with every answer and the tables made of them, which survives being killed.

``answers/`` holds each answer as it came (`anachron.io.answers.AnswerCache`), so nothing is asked twice;
``spent.jsonl`` each request, so that a budget counts over all runs (`anachron.probe.ask.purse`);
``answers.jsonl``, ``facts.csv`` and ``ask.json`` are made of them when all is asked. The same command goes on where it
was; one with another budget, width or number of rounds too.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from anachron.analysis.answers import Answers, answers_of
from anachron.core.dates import Date
from anachron.core.errors import DataError
from anachron.io.files import Json, file_fingerprint, parse_json
from anachron.io.jobs import Callbacks
from anachron.io.run_folder import Kind, RunFolder, kind_of, open_run
from anachron.io.tables import by_schema
from anachron.probe.ask.asking import Answerer, Asking, AskSettings, ask_all_questions
from anachron.probe.ask.purse import kept_purse
from anachron.probe.ask.questions import Questions
from anachron.probe.ask.tables import (
    ANSWER_SCHEMA,
    FACT_SCHEMA,
    answers_table,
    facts_table,
    present_table,
    summary_of,
)
from anachron.probe.check.present import PresentQuestion
from anachron.probe.runs import QUESTIONS_FILE, find_runs

ANSWERS = "answers"  # folder of kept answers in that of the run
ANSWERS_FILE, FACTS_FILE, SUMMARY_FILE = "answers.jsonl", "facts.csv", "ask.json"


@dataclass(frozen=True)
class AnswerRun:
    """What a run found: its folder, `answers_table`, `facts_table`, `present_table` and `summary_of`."""

    folder: Path
    label: str
    answers: pl.DataFrame
    facts: pl.DataFrame
    present: pl.DataFrame
    summary: Json


def run_asking(
    questions: Questions, present: Sequence[PresentQuestion], answerer: Answerer, out: Path | str, data: Json,
    as_of: Date, settings: AskSettings | None = None, *, to_edit: pl.DataFrame | None = None,
    callbacks: Callbacks | None = None,
) -> AnswerRun:  # fmt: skip
    """Ask, and write the tables. data: what identifies the facts. as_of: the last day that is known of. to_edit: the
    file of facts with its questions, where some are worth a look.

    Raises `ConfigError` where the folder holds another run or is in use, and as the answerer does; what was answered
    until then is kept.
    """
    settings, folder = settings or AskSettings(), Path(out)
    identity: Json = {
        "what": "asked", "label": answerer.name, **answerer.identity(), **data, "as_of": str(as_of),
        "ways": list(settings.ways), "wordings": questions.wordings.choice,
    }  # fmt: skip
    with open_asking(folder, identity, Kind.ANSWERS, answerer, settings, callbacks) as (run, asking):
        ask_all_questions(asking, questions, present)
        found = _found(folder, answerer.name, asking, questions, present, as_of)
        run.write_table(ANSWERS_FILE, found.answers)
        run.write_table(FACTS_FILE, found.facts)
        if to_edit is not None:
            run.write_table(QUESTIONS_FILE, to_edit)
        run.write_json(SUMMARY_FILE, found.summary)
    return found


@contextmanager
def open_asking(
    folder: Path, identity: Json, kind: Kind, answerer: Answerer, settings: AskSettings,
    callbacks: Callbacks | None = None,
) -> Iterator[tuple[RunFolder, Asking]]:  # fmt: skip
    """The folder of a run that asks, and who asks in it, within what earlier runs of the folder left of the budget. The
    run is finished where the block ends without an exception. Raises as `anachron.io.run_folder.open_run`."""
    with open_run(folder, identity, kind, ANSWERS) as run:
        run.record["status"] = "running"
        run.save()
        with kept_purse(folder, settings.budget, settings.prices) as purse:
            asking = Asking(answerer, settings, callbacks or Callbacks(), purse=purse)
            yield run, asking
        asking.tell_spent()
        run.finish()


def _found(
    folder: Path, label: str, asking: Asking, questions: Questions, present: Sequence[PresentQuestion], as_of: Date
) -> AnswerRun:
    answers, facts = answers_table(asking, questions), facts_table(asking, questions, as_of)
    summary: Json = {"model": label} | summary_of(asking, questions, answers, facts)
    return AnswerRun(folder, label, answers, facts, present_table(present, asking, questions), summary)


def is_answer_run(folder: Path | str) -> bool:
    """Whether a folder is that of a run that asks."""
    return kind_of(folder) is Kind.ANSWERS


def read_answer_run(folder: Path | str) -> tuple[Json, pl.DataFrame]:
    """The summary and the facts of a finished run. Raises `DataError` where it is damaged, not finished, or another."""
    if not is_answer_run(folder):
        raise DataError(f"{folder} holds no run of --backend chat or generate; give the --out of one")
    run = RunFolder.read(Path(folder))
    if not run.is_done:
        raise DataError(f"{folder}: the run is not finished; repeat its command to go on")
    table = run.read_table(FACTS_FILE).with_columns(pl.col("won_all") == "true")
    # earlier versions did not write all columns
    return parse_json(run.read_file(SUMMARY_FILE), run.path / SUMMARY_FILE), by_schema(table, FACT_SCHEMA)


def read_answers(folder: Path | str) -> pl.DataFrame:
    """The answers of a finished run (`anachron.probe.ask.tables.answers_table`).

    Raises `DataError` where they are damaged.
    """
    run = RunFolder.read(Path(folder))
    try:
        return by_schema(run.read_table(ANSWERS_FILE), ANSWER_SCHEMA)
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{run.path / ANSWERS_FILE} is not what a run writes; repeat its command ({error})") from error


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
