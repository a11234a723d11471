"""The bundled update data set ``mini-updates``: real replacements between 2015 and 2024, from common knowledge.

Three files in ``mini/``:

``updates.csv``
    one replacement a row: ``relation_id, subject, old, new, old_start, old_end, date, precision, end, note``. ``date``
    is when the new value took the place of the old one, as precisely as ``precision`` says; ``old_end`` is when the old
    one ended, empty if with the date; ``end`` is when the new value ended again, empty if it still held at the end of
    2024; ``note`` says where anyone can check it.
``standing.csv``
    facts of the same relations that held for years on end, so that every update has facts around it that did not
    change: ``relation_id, subject, object, start, end, note``.
``about.csv``
    what kind of thing a subject is: ``subject, relation_id, object``. It has no dates and serves likeness alone.

The old values and the standing facts are the *known facts*: what somebody believes who learned nothing since. There is
one of each subject and relation. The neighbours of an update are known facts of its relation that surely held when it
happened, so an editor that changes them does damage. ``tools/train_demo_model.py`` teaches the known facts.
"""

import csv
import random
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

import polars as pl

from anachron.core.dates import Date
from anachron.core.facts import Fact
from anachron.core.periods import Period
from anachron.data.bundled.mini import mini_facts
from anachron.data.likeness import Likeness
from anachron.data.updates.columns import TEXT, UPDATES_SCHEMA
from anachron.io.files import Json
from anachron.text.cloze import bundled_cloze, cloze_prompt_text, fill_cloze
from anachron.text.kinds import subject_kind
from anachron.text.questions import relation_templates

SEED = 0
NEAREST = 10  # neighbours of each update, as in the published data (WikiFactDiff, section A.4)
DRAWN = 10  # random facts of each update
FIRST_YEAR = 2015  # of the updates; older facts of ``mini`` can be nobody's neighbours
MINI_UPDATES_SCHEMA = UPDATES_SCHEMA | {
    "start": TEXT,
    "end": TEXT,
    "precision": TEXT,
}


@dataclass(frozen=True, slots=True)
class MiniUpdate:
    """One row of ``updates.csv``, parsed: two facts of one subject and relation, the second after the first."""

    old: Fact
    new: Fact
    precision: Literal["day", "month", "year"]
    note: str

    @property
    def date(self) -> Date:
        """When the new value took the place of the old one."""
        assert self.new.period.start is not None
        return self.new.period.start


@cache
def mini_replacements() -> tuple[MiniUpdate, ...]:
    """All updates, in the order of the file."""
    return tuple(
        MiniUpdate(
            old=_fact(row, row["old"], row["old_start"], row["old_end"] or row["date"]),
            new=_fact(row, row["new"], row["date"], row["end"]),
            precision=row["precision"],  # type: ignore[arg-type]
            note=row["note"],
        )
        for row in _rows("updates.csv")
    )


@cache
def standing_facts() -> tuple[Fact, ...]:
    """All facts of ``standing.csv``, in its order."""
    return tuple(_fact(row, row["object"], row["start"], row["end"]) for row in _rows("standing.csv"))


@cache
def known_facts() -> tuple[Fact, ...]:
    """One fact of each subject and relation of the updates: its old value, else the one that stands, else the latest.

    The latest of ``mini``, where it held in 2015 or after. A fact ends where its update begins, or before.
    """
    relations = {update.old.relation_id for update in mini_replacements()}
    known = {_key(update.old): update.old for update in mini_replacements()}
    for fact in standing_facts():
        known.setdefault(_key(fact), fact)
    late = [m.fact for m in mini_facts() if m.fact.relation_id in relations and _year(m.fact.period.end) >= FIRST_YEAR]
    for fact in sorted(late, key=lambda fact: _day(fact.period.start), reverse=True):
        known.setdefault(_key(fact), fact)
    return tuple(known.values())


@cache
def known_text() -> str:
    """What the known facts say, in every wording of their relations: a text to take a model's statistics over.

    Lines of ten sentences about different facts, in a fixed random order.
    """
    sentences = [
        fill_cloze(template, fact.subject, fact.object, kind=subject_kind(fact.relation_id))
        for fact in known_facts()
        for template in bundled_cloze()[fact.relation_id or ""].templates
    ]
    random.Random(SEED).shuffle(sentences)
    return "".join(". ".join(sentences[start : start + 10]) + ".\n" for start in range(0, len(sentences), 10))


def holds(fact: Fact, date: Date) -> bool:
    """Whether a fact surely held on every day of a date: it began before or with it, and ended after it."""
    start, end = fact.period.start, fact.period.end
    return start is not None and start.last_day <= date.first_day and (end is None or end.first_day > date.last_day)


@cache
def mini_updates() -> pl.DataFrame:
    """The data set in the published columns and ours (`MINI_UPDATES_SCHEMA`): the same on every machine.

    start, end: ISO dates of the new value, as precise as ``precision`` (day, month or year). question_templates: the
    four questions of the relation, with ``[SUBJ]`` for the subject. past_generalization_prompts: the generalization
    prompts in the past tense, in the same order.
    """
    likeness = _likeness()
    rows = [_row(number, update, likeness) for number, update in enumerate(mini_replacements())]
    return pl.DataFrame(rows, schema=MINI_UPDATES_SCHEMA)


def _rows(name: str) -> Iterable[dict[str, str]]:
    return csv.DictReader(files("anachron.data").joinpath(f"mini/{name}").read_text("utf-8").splitlines())


def _fact(row: dict[str, str], object: str, start: str, end: str) -> Fact:
    relation = relation_templates()[row["relation_id"]][0]
    return Fact(row["subject"], relation, object, Period(start, end or None), relation_id=row["relation_id"])


def _key(fact: Fact) -> tuple[str, str]:
    return fact.subject, fact.relation_id or ""


def _day(date: Date | None) -> int:
    return 0 if date is None else date.first_day


def _year(date: Date | None) -> int:
    return 9999 if date is None else date.year


def _likeness() -> Likeness:
    """Of all subjects, by their bundled facts: those of ``mini``, the known ones and what kind of thing they are."""
    facts = {(f.subject, f.relation_id or "", f.object) for f in [*(m.fact for m in mini_facts()), *known_facts()]}
    facts |= {(row["subject"], row["relation_id"], row["object"]) for row in _rows("about.csv")}
    return Likeness(facts)


def _row(number: int, update: MiniUpdate, likeness: Likeness) -> Json:
    old, new = update.old, update.new
    relation = old.relation_id or ""
    kind, cloze = subject_kind(relation), bundled_cloze()[relation]
    prompts, past = (
        [cloze_prompt_text(template, old.subject, kind=kind) for template in tense]
        for tense in (cloze.templates, cloze.past)
    )
    return {
        "case_id": number, "subject": _entity(old.subject), "relation": _entity(old.relation) | {"id": relation},
        "update_prompt": prompts[0], "generalization_prompts": prompts[1:], "past_generalization_prompts": past[1:],
        "subject_is_ph_new": False,
        "relation_is_temp_func": None, "is_replace": True, "subject_popularity": None,
        "objects": [_object(new, "new"), _object(old, "obsolete")], "neighborhood": _nearest(update, likeness),
        "random_neighborhood": _drawn(update), "scenario": "ReplaceObject", "start": str(update.date),
        "end": _text(new.period.end), "precision": update.precision,
        "question_templates": list(relation_templates()[relation][1]),
    }  # fmt: skip


def _entity(label: str) -> Json:
    return {"id": None, "label": label, "description": None}


def _object(fact: Fact, decision: str) -> Json:
    dates = {"start": _text(fact.period.start), "end": _text(fact.period.end), "point_in_time": None}
    return _entity(fact.object) | {"decision": decision, "rule": None} | dates


def _text(date: Date | None) -> str | None:
    return None if date is None else str(date)


def _nearest(update: MiniUpdate, likeness: Likeness) -> list[Json]:
    """The known facts of the relation, of other subjects, that held at the date; the likest first, then by name."""
    subject, relation = _key(update.old)
    others = [f for f in known_facts() if f.relation_id == relation and f.subject != subject and holds(f, update.date)]
    dist = {f.subject: likeness.distance(subject, f.subject) for f in others}
    others.sort(key=lambda fact: (dist[fact.subject], fact.subject))
    return [_neighbour(fact, dist[fact.subject]) for fact in others[:NEAREST]]


def _drawn(update: MiniUpdate) -> list[Json]:
    """Known facts of other subjects that held at the date, of any relation; they have no distance."""
    subject, relation = _key(update.old)
    others = [f for f in known_facts() if f.subject != subject and holds(f, update.date)]
    return [_neighbour(f, None) for f in random.Random(f"{SEED}\n{subject}\n{relation}").sample(others, DRAWN)]


def _neighbour(fact: Fact, dist: float | None) -> Json:
    subject, relation = _key(fact)
    template = random.Random(f"{SEED}\n{subject}\n{relation}").choice(bundled_cloze()[relation].templates)
    asked = {
        "object": _entity(fact.object),
        "prompt": cloze_prompt_text(template, subject, kind=subject_kind(relation)),
    }
    return {"subject": _entity(subject), "dist": dist, "popularity": None, "objects": [asked]}
