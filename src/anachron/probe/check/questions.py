"""The facts of a file as they are checked: what is asked with dates, what in the present tense, and what cannot be
asked."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from anachron.core.dates import Date
from anachron.core.errors import ConfigError, DataError
from anachron.core.periods import Period
from anachron.core.sameness import name_key
from anachron.core.several_periods import status_in
from anachron.data.dataset import Dataset
from anachron.data.own.files import read_given_facts
from anachron.data.own.questions import with_relation_words
from anachron.data.own.reading import Reading
from anachron.data.own.rows import GivenFact, group_of
from anachron.data.own.statements import as_of_date, dataset_of_facts
from anachron.probe.check.present import PresentObject, PresentQuestion
from anachron.text.kinds import subject_kind
from anachron.text.languages import Language, language_of
from anachron.text.templates import asked_by_name

Group = tuple[str, str]


def present_questions(
    facts: Sequence[GivenFact], as_of: Date, language: Language | None = None
) -> dict[Group, PresentQuestion]:
    """The question of each subject and relation, with all objects of the file; none where nobody knows how to ask.

    The question is the rows' own ``present_question``, else the bundled one of the relation, or one by its own words.
    An object holds where the last day of ``as_of`` is a correct date for it. An alias that another object is called by
    too tells nothing apart and is left out. language: of the bundled ones, by default English.

    Raises `DataError` where rows of one subject and relation ask differently.
    """
    language, today = language or language_of("en"), Date.from_day_number(as_of.last_day)
    groups: dict[Group, list[GivenFact]] = {}
    for item in facts:
        groups.setdefault(group_of(item), []).append(item)
    questions = {}
    for group, items in groups.items():
        first = items[0].fact
        spelled: dict[str, str] = {}
        for item in items:
            if item.present_question is not None:
                spelled.setdefault(name_key(item.present_question), item.present_question)
        own = list(spelled.values())
        if len(own) > 1:
            raise DataError(
                f"{first.subject}, {first.relation}: the rows ask {own[0]!r} and {own[1]!r}; give all of them the same "
                "present_question"
            )
        relation = language.relation_id(first.relation_id, first.relation)
        text = own[0] if own else None
        if text is None and relation is not None:
            template = language.relations[relation].present[0]
            text = language.question(template, first.subject, subject_kind(relation))
        elif text is None and (named := asked_by_name(first.relation, first.subject, language)) is not None:
            text = named.present
        if text is not None:
            used = Counter(key for item in items for key in set(map(name_key, (item.fact.object, *item.aliases))))
            objects = [
                PresentObject(
                    item.fact.object,
                    status_in(item.periods, today) == "correct",
                    _until(item.periods),
                    tuple(name for name in item.aliases if used[name_key(name)] == 1 and name != item.fact.object),
                )
                for item in items
            ]
            questions[group] = PresentQuestion(first.subject, first.relation, text, tuple(objects), relation)
    return questions


def _until(periods: Sequence[Period]) -> str | None:
    """When the last of the periods ended; None where it has not."""
    ends = [period.end for period in periods]
    return None if None in ends else str(max((end for end in ends if end is not None), key=lambda end: end.last_day))


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
    reading: Reading | None = None,
) -> CheckedFacts:
    """The facts of a file as `anachron.load_dataset` takes it, and their questions in both tenses.

    as_of: by default today. limit: a fixed sample of so many of the facts that can be asked; all others are left out,
    those that cannot be asked too. language: of questions and dates, as `anachron.load_dataset` takes it. sampling: how
    dates are chosen, as there; by default ``near``, a quarter to a half of the dates of the papers' ``timestress``.
    reading: of columns, dates and sheets, as there.

    Raises `DataError` naming row, column, value, rule and fix, and where no fact can be asked with dates.
    """
    today = as_of_date(as_of)
    if limit is not None and limit < 1:
        raise ConfigError(f"limit {limit}: take 1 or more facts")
    read = read_given_facts(path, reading)
    data = dataset_of_facts(path, as_of=today, limit=limit, language=language, sampling=sampling, given=read)
    lang = language_of(language or "en")
    given = tuple(with_relation_words(read.facts, lang))
    questions = present_questions(given, today, lang)
    if limit is not None:  # of the others only what rivals the facts that were drawn
        drawn = set(data.table["fact_id"])
        given = tuple(item for item in given if item.fact.id in drawn)
        questions = {group: questions[group] for group in map(group_of, given) if group in questions}
    return CheckedFacts(data, given, tuple(questions.values()), today)
