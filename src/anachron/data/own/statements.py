"""From a file of one's own facts to a data set: questions, dates up to ``as_of``, and what cannot be asked, and why."""

import datetime
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from anachron.core.contexts import SAMPLINGS, Sampling, sampling_named
from anachron.core.dates import Date
from anachron.core.errors import ConfigError, DataError
from anachron.core.periods import Boundaries, Period, check_boundaries
from anachron.core.several_periods import closed_at, last_whole_year, periods_text
from anachron.data.dataset import Dataset
from anachron.data.own.columns import LIVES, canonical
from anachron.data.own.dates import read_date
from anachron.data.own.faults import Fault, refuse
from anachron.data.own.files import as_table, read_given_facts
from anachron.data.own.questions import (
    question_faults,
    question_of,
    questions_to_edit,
    with_relation_words,
    worth_a_look,
    written_questions,
)
from anachron.data.own.reading import Reading
from anachron.data.own.rows import GivenFact, GivenFacts
from anachron.data.statements import FactWithQuestion, make_statements
from anachron.io.stores import Place
from anachron.text.languages import Language, chosen, language_of

ABOUT = ("fact_id", "given_id", "question", "present_question", "aliases")
LEFT_OUT = ("given_id", "subject", "relation", "object", "periods", "rows", "reason")
SHOWN = 3


@dataclass(frozen=True)
class OwnFacts:
    """A file of facts, made into statements.

    table: columns of `anachron.data.columns.STATEMENT_SCHEMA`. about: one row a fact that is asked, the columns `ABOUT`
    and those of the file; ``given_id`` is the file's own ``fact_id``. left_out: one row a fact that is not,
    columns `LEFT_OUT`. notes: what the reader of the file should know. as_of: the last day that is known of. until: the
    last year asked about. to_edit: the file again, with the questions, where a rule was not sure of one of them
    (`anachron.data.own.questions.questions_to_edit`).
    """

    table: pl.DataFrame
    about: pl.DataFrame
    left_out: pl.DataFrame
    notes: tuple[str, ...]
    as_of: Date
    until: int
    to_edit: pl.DataFrame | None = None


def as_of_date(as_of: str | datetime.date | Date | None) -> Date:
    """The date up to which facts are known; today by default.

    A `Date` is one that was checked before, such as that of an older run (`anachron.probe.runs.recorded_as_of`). Raises
    `ConfigError` for what is no date, and for one that is not over yet: what will hold then is not known.
    """
    if isinstance(as_of, Date):
        return as_of
    today = datetime.date.today()
    if as_of is None:
        as_of = today
    try:
        given = Date.parse(as_of if isinstance(as_of, str) else as_of.isoformat())
    except DataError as error:
        raise ConfigError(f"as of {error}") from None
    if given.last_day > Date.parse(today.isoformat()).last_day:
        raise ConfigError(
            f"as of {given}: it ends after today, {today}, and what will hold then is not known; give a date up to "
            "today, or leave it out (a folder of an earlier run keeps its own)"
        )
    return given


def own_facts(
    path: Place | str,
    *,
    as_of: str | datetime.date | Date | None = None,
    boundaries: Boundaries = "released",
    seed: int = 0,
    sampling: Sampling = SAMPLINGS["timestress"],
    until: int | None = None,
    style: str | None = None,
    sample: int | None = None,
    limit: int | None = None,
    language: str | Path | Language | None = None,
    given: GivenFacts | None = None,
) -> OwnFacts:
    """Statements about the facts of a file (`anachron.data.own.rows`), asked under dates up to ``as_of``.

    as_of: when the facts were as the file says; one without an end is true up to then, and no later date is asked
    about. A fact that spans no whole year up to then is asked about months, one that spans no whole month about days.
    until: the last year asked about; by default, and at most, the last that is over at ``as_of``. sample: so
    many facts only, those with the smallest ids. limit: so many of those that can be asked; of the others no statements
    are made, so ``left_out`` lacks some that cannot be asked. given: what was read of the file already.
    language: of the questions and dates, see `anachron.text.languages.language_of`; by default that of ``style``, else
    English. The other options are those of `make_statements`.

    Raises `ConfigError` for an option that cannot be, `DataError` for broken rows, and where no fact can be asked.
    """
    check_boundaries(boundaries)
    lang, wording = chosen(language, style)
    today = as_of_date(as_of)
    last = last_whole_year(today) if until is None else min(until, last_whole_year(today))
    given = given or read_given_facts(path)
    kept = with_relation_words(_sampled(given.facts, sample), lang)
    try:
        refuse([fault for fact in kept for fault in question_faults(fact, lang.name)])
        lives = _lives(kept, given.reading)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    reasons: dict[str, str] = {}
    asked: list[FactWithQuestion] = []
    made = {item.fact.id: question_of(item, language=lang) for item in kept}
    for item in kept:
        question = made[item.fact.id]
        if reason := question.reason or _unaskable(item.fact.period, today, boundaries):
            reasons[item.fact.id] = reason
            continue
        also = tuple(period for period in item.also_held if _unaskable(period, today, boundaries) is None)
        rest = tuple(period for period in item.also_held if period not in also)  # neither asked about nor incorrect
        built = FactWithQuestion(
            item.fact, question.text, item.other_objects, other_periods=rest, also_held=also, as_of=today,
            questions=written_questions(item),
        )  # fmt: skip
        asked.append(replace(built, **lives[item.fact.id]))
    last_day = today.last_day if until is None else min(Date(until).last_day, today.last_day)
    dates = replace(sampling, until=last, last_day=last_day)
    build = partial(make_statements, boundaries=boundaries, seed=seed, sampling=dates, style=wording)
    if limit is not None:
        asked, dateless = _first(asked, limit, lambda items: _dateless(build(items), last_day))
        reasons |= dateless
    table = build(asked)
    reasons |= _dateless(table, last_day)
    table = table.filter(~pl.col("fact_id").is_in(list(reasons)))
    if not table.height:
        counted = "; ".join(
            f"{count} because {reason}" for reason, count in Counter(reasons.values()).most_common(SHOWN)
        )
        raise DataError(f"{path}: none of the {len(kept)} facts can be asked: {counted}")
    questions = {item.fact.id: item.question for item in asked if item.fact.id not in reasons}
    look = list(dict.fromkeys(text for key, text in questions.items() if not made[key].sure))
    return OwnFacts(
        table,
        _about([item for item in kept if item.fact.id in questions], questions),
        _left_out([item for item in kept if item.fact.id in reasons], reasons),
        (*given.notes, *([worth_a_look(look, "questions.csv, in the folder of the run,")] if look else ())),
        today,
        last,
        questions_to_edit(kept, made, lang) if look else None,
    )


def _lives(items: Sequence[GivenFact], reading: Reading) -> dict[str, dict[str, Any]]:
    """Fact id -> the lifespans in its row, by the fields of `FactWithQuestion`; one error for all broken dates."""
    lives: dict[str, dict[str, Any]] = {item.fact.id: {} for item in items}
    faults = []
    for item in items:
        for name, value in item.values.items():
            field = LIVES.get(canonical(name))
            if field is None or value is None or not str(value).strip():
                continue
            try:
                lives[item.fact.id][field] = str(read_date(value, reading.dates))
            except DataError as error:
                faults.append(Fault(item.rows[0], name, str(error)))
    refuse(faults)
    return lives


def _sampled(facts: Sequence[GivenFact], sample: int | None) -> Sequence[GivenFact]:
    few = set(sorted(item.fact.id for item in facts)[:sample])
    return [item for item in facts if item.fact.id in few]


def _first(
    asked: Sequence[FactWithQuestion], limit: int, dateless: Callable[[Sequence[FactWithQuestion]], Mapping[str, str]]
) -> tuple[list[FactWithQuestion], dict[str, str]]:
    """The ``limit`` facts with the smallest ids with dates, in their own order, and why others were passed over."""
    waiting = sorted(asked, key=lambda item: item.fact.id)
    chosen: set[str] = set()
    reasons: dict[str, str] = {}
    while waiting and len(chosen) < limit:
        missing = limit - len(chosen)
        tried, waiting = waiting[:missing], waiting[missing:]
        reasons |= dateless(tried)
        chosen |= {item.fact.id for item in tried} - reasons.keys()
    return [item for item in asked if item.fact.id in chosen], reasons


def _unaskable(period: Period, as_of: Date, boundaries: Boundaries) -> str | None:
    """Why a period cannot be asked about, so far as it can be told before dates are chosen."""
    assert period.start is not None
    if period.start.first_day > as_of.last_day:
        return f"starts after {as_of}: the date as of which facts are known"
    if not closed_at(period, as_of).has_length(boundaries):
        return f"no length: it holds from {period.start} to {period.end or as_of} only"
    return None


def _dateless(table: pl.DataFrame, last_day: int) -> dict[str, str]:
    """The facts that lack a correct or an incorrect date at some granularity, and so have no match, by their id."""
    counted = table.group_by("fact_id").agg(
        (pl.col("status") == status).sum().alias(status) for status in ("correct", "incorrect")
    )
    reasons, last = {}, Date.from_day_number(last_day)
    for fact, correct, incorrect in counted.iter_rows():
        if not correct:
            reasons[fact] = f"no correct date: it holds on no whole day up to {last}"
        elif not incorrect:
            reasons[fact] = f"no incorrect date left: it holds at every date asked about, up to {last}"
    return reasons


def _about(items: Sequence[GivenFact], questions: Mapping[str, str]) -> pl.DataFrame:
    rows = []
    for item in items:
        made = (item.fact.id, item.name, questions[item.fact.id], item.present_question, list(item.aliases))
        rows.append(item.values | dict(zip(ABOUT, made, strict=True)))
    of_file = [name for name in rows[0] if canonical(name) not in ABOUT] if rows else []
    return as_table(rows, [*ABOUT, *of_file])


def _left_out(items: Sequence[GivenFact], reasons: Mapping[str, str]) -> pl.DataFrame:
    rows = [
        {
            "given_id": item.name, "subject": item.fact.subject, "relation": item.fact.relation,
            "object": item.fact.object, "periods": periods_text(item.periods),
            "rows": " ".join(map(str, item.rows)), "reason": reasons[item.fact.id],
        }
        for item in items
    ]  # fmt: skip
    return as_table(rows, LEFT_OUT)


def dataset_of_facts(
    path: Path | str,
    *,
    boundaries: Boundaries | None = None,
    as_of: str | Date | None = None,
    limit: int | None = None,
    language: str | Path | None = None,
    sampling: str | None = None,
    given: GivenFacts | None = None,
    reading: Reading | None = None,
) -> Dataset:
    """The data set of a file of facts, as `load_dataset` has it. given: what was read of the file already."""
    lang, given = language_of(language or "en"), given or read_given_facts(path, reading)
    own = own_facts(
        path, as_of=as_of, boundaries=boundaries or "released", language=lang, limit=limit, given=given,
        sampling=sampling_named(sampling or "timestress"),
    )  # fmt: skip
    spoken = None if lang.code == "en" else lang.recorded
    data = Dataset(
        str(path), own.table, boundaries or "released", str(own.as_of), own.about, own.left_out, own.notes,
        language=spoken, sampling=sampling, given=given.facts, reading=given.reading, to_edit=own.to_edit,
    )  # fmt: skip
    return data if limit is None else data.sample(limit)
