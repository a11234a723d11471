"""A file of facts as it is checked: what is asked with dates, what in the present tense, and what cannot be asked."""

from dataclasses import dataclass
from pathlib import Path

from anachron.checks.present import PresentQuestion
from anachron.checks.questions import present_questions
from anachron.core.dates import Date
from anachron.data.loaders import Dataset, dataset_of_facts
from anachron.data.own_facts import as_of_date
from anachron.errors import ConfigError
from anachron.facts.own import read_given_facts
from anachron.facts.rows import GivenFact, group_of
from anachron.text.languages import language_of
from anachron.text.own_questions import with_relation_words

SAMPLING = "near"


@dataclass(frozen=True)
class CheckedFacts:
    """A file of facts to be checked. data: what is asked with dates, and what cannot be, and why. given: the facts.
    questions: in the present tense. as_of: the day on which the facts are as the file says."""

    data: Dataset
    given: tuple[GivenFact, ...]
    questions: tuple[PresentQuestion, ...]
    as_of: Date


def read_facts(
    path: Path | str,
    *,
    as_of: str | Date | None = None,
    limit: int | None = None,
    language: str | Path | None = None,
    sampling: str = SAMPLING,
) -> CheckedFacts:
    """The facts of a file as `anachron.load_dataset` takes it, and their questions in both tenses.

    as_of: by default today. limit: a fixed sample of so many of the facts that can be asked; all others are left out,
    those that cannot be asked too. language: of questions and dates, as `anachron.load_dataset` takes it. sampling: how
    dates are chosen, as there; by default ``near``, a quarter to a half of the dates of the papers' ``timestress``.

    Raises `DataError` naming row, column, value, rule and fix, and where no fact can be asked with dates.
    """
    today = as_of_date(as_of)
    if limit is not None and limit < 1:
        raise ConfigError(f"limit {limit}: take 1 or more facts")
    read = read_given_facts(path)
    data = dataset_of_facts(path, as_of=today, limit=limit, language=language, sampling=sampling, given=read)
    tongue = language_of(language or "en")
    given = tuple(with_relation_words(read.facts, tongue))
    questions = present_questions(given, today, tongue)
    if limit is not None:  # of the others only what rivals the facts that were drawn
        drawn = set(data.table["fact_id"])
        given = tuple(item for item in given if item.fact.id in drawn)
        questions = {group: questions[group] for group in map(group_of, given) if group in questions}
    return CheckedFacts(data, given, tuple(questions.values()), today)
