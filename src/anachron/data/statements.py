"""From facts and questions to statements: every context of a fact in front of its question."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import polars as pl

from anachron.core.contexts import SAMPLINGS, Sampling
from anachron.core.dates import Date
from anachron.core.facts import Fact, fact_id
from anachron.core.periods import Boundaries, Period
from anachron.core.several_periods import closed_at, contexts_of_periods, periods_text
from anachron.data.columns import MORE_SCHEMA, STATEMENT_SCHEMA, questions_text
from anachron.text.dates import Wording, date_in_words, wording_of
from anachron.text.openings import behind_opening


@dataclass(frozen=True, slots=True)
class FactWithQuestion:
    """A fact with its question and what else is known of it.

    other_objects: the number of other objects that its subject and relation have.
    subject_popularity, object_popularity: in monthly page views.
    subject_from, object_from: the first date on which the subject or the object exists.
    subject_until, object_until: the last.
    other_periods: further periods in which the triple holds; incorrect contexts that fall into one are left out
        (TimeStress v1, section 3.2.2).
    also_held: later periods in which it is asked about too: their dates are correct.
    as_of: where a period has no end, the date up to which it is known to hold.
    questions: all that were written for it, of which ``question`` was drawn.
    """

    fact: Fact
    question: str
    other_objects: int | None = None
    subject_popularity: float | None = None
    object_popularity: float | None = None
    subject_from: str | None = None
    object_from: str | None = None
    other_periods: tuple[Period, ...] = ()
    also_held: tuple[Period, ...] = ()
    as_of: Date | None = None
    subject_until: str | None = None
    object_until: str | None = None
    questions: tuple[str, ...] = ()


def undated_statements(asked: Iterable[tuple[str, str, str, str]]) -> pl.DataFrame:
    """A table (`anachron.data.columns.STATEMENT_SCHEMA`) of statements without a date, which are no contexts of a fact.

    asked: subject, relation, prompt and answer of each.
    """
    rows = [
        dict.fromkeys(STATEMENT_SCHEMA) | {
            "fact_id": fact_id(subject, relation, answer, "", prompt), "subject_label": subject,
            "relation_label": relation, "object_label": answer, "granularity": "year", "status": "none",
            "prompt": prompt, "answer": answer,
        }
        for subject, relation, prompt, answer in asked
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=STATEMENT_SCHEMA)


def make_statements(
    asked: Iterable[FactWithQuestion],
    *,
    boundaries: Boundaries = "released",
    seed: int = 0,
    sampling: Sampling = SAMPLINGS["timestress"],
    style: str | Wording = "american",
) -> pl.DataFrame:
    """Statement table (columns of `anachron.data.columns.STATEMENT_SCHEMA`), facts in the given order.

    A statement without a date is the bare question, as in the published data; behind a date its question word loses its
    capital. The columns of `anachron.data.columns.MORE_SCHEMA` are there where some fact knows them.
    """
    schema, language = STATEMENT_SCHEMA | MORE_SCHEMA, wording_of(style).language
    opening = cache(lambda time: date_in_words(Date.parse(time), style))  # facts share most of their dates
    rows: dict[str, list[object]] = {name: [] for name in schema}
    for item in asked:
        fact = item.fact
        common = {
            "fact_id": fact.id, "subject_id": fact.subject_id, "subject_label": fact.subject,
            "relation_id": fact.relation_id, "relation_label": fact.relation, "object_id": fact.object_id,
            "object_label": fact.object, "start": str(fact.period.start),
            "end": fact.period.end and str(fact.period.end),
            "answer": fact.object, "popularity": fact.popularity, "other_objects": item.other_objects,
            "subject_popularity": item.subject_popularity, "object_popularity": item.object_popularity,
            "subject_from": item.subject_from, "object_from": item.object_from,
            "subject_until": item.subject_until, "object_until": item.object_until,
            "also_held": periods_text(item.also_held),
        }  # fmt: skip
        written = questions_text(item.questions)
        asked_behind = behind_opening("", item.question, fact.subject, language)
        periods = [closed_at(period, item.as_of) for period in (fact.period, *item.also_held)]
        contexts = contexts_of_periods(
            periods, boundaries=boundaries, seed=seed, fact_id=fact.id, sampling=sampling,
            other_periods=item.other_periods,
        )  # fmt: skip
        for name, value in common.items():
            rows[name].extend([value] * len(contexts))
        for context in contexts:
            rows["granularity"].append(context.granularity)
            rows["time"].append(context.time)
            rows["status"].append(context.status)
            rows["alpha"].append(context.alpha)
            rows["questions"].append(written if context.time is None else None)
            rows["prompt"].append(item.question if context.time is None else opening(context.time) + asked_behind)
    table = pl.DataFrame(rows, schema=schema)
    return table.drop(name for name in MORE_SCHEMA if table[name].null_count() == table.height)
