"""The bundled data set ``mini``: real dated facts, written by this project from common knowledge.

``mini/facts.csv`` has one fact a row: ``relation_id, subject, object, start, end, succession, probed, note``.
``note`` says where anyone can check it. ``succession`` is the rule that all facts of one subject and
relation obey: ``contiguous`` (one holder at a time, no gap), ``exclusive`` (one at a time) or ``free``.
Facts with ``probed`` = no complete a succession: they are too short, too recent or hold more than once.
"""

import csv
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Literal

import polars as pl

from anachron.core.dates import Date
from anachron.core.facts import Fact
from anachron.core.periods import Period
from anachron.data.statements import FactWithQuestion, make_statements
from anachron.text.kinds import subject_kind
from anachron.text.questions import draw_question, fill_question, relation_templates

MINI_SEED = 0
LAST_DAY = Date(2020, 12, 31)
LEAST_DAYS = 1140  # "longer than three years", as the published data set counts: days // 30 > 37


@dataclass(frozen=True, slots=True)
class MiniFact:
    """One row of the file, parsed."""

    fact: Fact
    succession: Literal["contiguous", "exclusive", "free"]
    probed: bool
    note: str


@cache
def mini_facts() -> tuple[MiniFact, ...]:
    """All facts of the file, in its order."""
    templates = relation_templates()
    text = files("anachron.data").joinpath("mini/facts.csv").read_text("utf-8")
    return tuple(
        MiniFact(
            Fact(
                subject=row["subject"],
                relation=templates[row["relation_id"]][0],
                object=row["object"],
                period=Period(row["start"], row["end"]),
                relation_id=row["relation_id"],
            ),
            row["succession"],  # type: ignore[arg-type]
            row["probed"] == "yes",
            row["note"],
        )
        for row in csv.DictReader(text.splitlines())
    )


def question_of(fact: Fact) -> str:
    """The question that a fact of ``mini`` is asked with: one of its relation's four, drawn by its id."""
    questions = relation_templates()[fact.relation_id or ""][1]
    return fill_question(
        questions[draw_question(questions, fact.id, MINI_SEED)], fact.subject, subject_kind(fact.relation_id)
    )


@cache
def mini_statements(limit: int | None = None) -> pl.DataFrame:
    """The statement table of ``mini``: the same on every machine. limit: of so many facts only, by the smallest ids."""
    facts = mini_facts()
    objects = Counter(key[:2] for key in {(m.fact.subject, m.fact.relation_id, m.fact.object) for m in facts})
    asked = [
        _with_lives(FactWithQuestion(m.fact, question_of(m.fact), objects[m.fact.subject, m.fact.relation_id] - 1))
        for m in facts
        if m.probed
    ]
    few = set(sorted(item.fact.id for item in asked)[:limit])
    asked = [item for item in asked if item.fact.id in few]
    return make_statements(asked, boundaries="released", seed=MINI_SEED)


def _with_lives(asked: FactWithQuestion) -> FactWithQuestion:
    """The fact with the lifespans of subject and object, where they are persons of whom they are known."""
    (born, dead), (object_born, object_dead) = (_life(label) for label in (asked.fact.subject, asked.fact.object))
    return replace(asked, subject_from=born, subject_until=dead, object_from=object_born, object_until=object_dead)


def _life(label: str) -> tuple[str | None, str | None]:
    """Years of birth and death, where they are known: of persons alone."""
    known = mini_entities().get(label)
    return (None, None) if known is None else (known.birth, known.death)


@dataclass(frozen=True, slots=True)
class MiniEntity:
    """One row of the file; what is not known is None."""

    label: str
    id: str | None
    kind: str
    continent: str | None
    gender: str | None
    birth: str | None
    death: str | None


@cache
def mini_entities() -> dict[str, MiniEntity]:
    """Label -> what is known of it, in the order of the file."""
    text = files("anachron.data").joinpath("mini/entities.csv").read_text("utf-8")
    rows = csv.DictReader(text.splitlines())
    return {
        row["label"]: MiniEntity(
            row["label"],
            row["id"] or None,
            row["kind"],
            row["continent"] or None,
            row["gender"] or None,
            row["birth"] or None,
            row["death"] or None,
        )
        for row in rows
    }


MINI_CHANGES = "mini-changes"
FILE = "mini/changes.parquet"
KINDS_OF_MACHINES = ("software", "device")


@cache
def mini_changes() -> pl.DataFrame:
    """The table, by date, its controls behind; the same on every machine."""
    with files("anachron.data").joinpath(FILE).open("rb") as file:
        return pl.read_parquet(file).sort("control", "date", "subject", "new")
