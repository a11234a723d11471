"""Changes put to a model that only answers: one question in the present tense, and what its answer says of each change.

A question is of a subject and relation, so one answer speaks of all changes that they have. Who it names is placed by
when they held: somebody who came with a change or after it says that the change is known, somebody who left with it or
before says that it is not. Everybody else, and every answer that names nobody, says nothing.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from anachron.core.draws import draw
from anachron.core.sameness import plain
from anachron.probe.ask.asking import Question
from anachron.probe.ask.matching import READ, Reading, read_name
from anachron.probe.ask.questions import Questions
from anachron.probe.ask.wordings import wordings_of
from anachron.probe.horizon.changes import STILL, Change, about
from anachron.probe.horizon.measure import DECOY, NOBODY, PREFERENCE_SCHEMA, change_cells
from anachron.probe.horizon.questions import ChangeToAsk
from anachron.text.languages import language_of

NEW, LATER, OLD, EARLIER = "new", "later holder", "old", "earlier holder"
WON, LOST = (NEW, LATER), (OLD, EARLIER)
TWICE = "not asked: somebody held before and after"
UNASKED = "not asked: the budget ended"
Sides = tuple[frozenset[str], frozenset[str]]


def wordings_around() -> Questions:
    """What is put around a question, as it is around those about dated facts; without facts."""
    english = language_of("en")
    return Questions((), {}, {}, wordings_of(english.name), english.style)


def change_questions(asked: Sequence[ChangeToAsk]) -> dict[str, Question]:
    """Each question once, by its words, with the names that an answer is matched against: all values that the subject
    had, plausible others and decoys. They are in random order, so that a budget that ends buys a fair sample."""
    around, sides_of = wordings_around(), sides(asked)
    names: dict[str, set[str]] = defaultdict(set)
    for one in asked:
        until, since = sides_of[_key(one.change)]
        if not until & since:
            names[one.question] |= {*one.names, *until, *since}
    order = sorted(names, key=lambda question: draw("question", 0, question))
    return {question: _question(around.open_prompt(question), names[question]) for question in order}


def _question(prompt: str, names: set[str]) -> Question:
    keys = {name: plain(name) for name in sorted(names)}  # spellings of one name are one name
    return Question("present", prompt, lambda reply: read_name(reply, keys))


def _key(change: Change) -> tuple[str, ...]:
    return change.subject, change.relation, str(change.date), change.old, change.new, change.control


def sides(asked: Sequence[ChangeToAsk]) -> dict[tuple[str, ...], Sides]:
    """Of each change, who held until it (the old value, and those before) and who since (the new one, and those after),
    by all changes of its subject and relation; names as `anachron.core.sameness.plain` writes them."""
    changes = [one.change for one in asked]
    together: dict[tuple[str, str], list[Change]] = defaultdict(list)
    for change in changes:
        if not change.control:
            together[about(change)].append(change)
    found = {}
    for change in changes:
        rest = [] if change.control else together[about(change)]
        day = change.date.first_day
        before = [v for one in rest if one.date.first_day < day for v in (one.old, one.new)]
        since = [v for one in rest if one.date.first_day > day for v in (one.old, one.new)]
        found[_key(change)] = (
            frozenset(map(plain, (change.old, *change.before, *before))),
            frozenset(plain(value) for value in (change.new, *since) if value),
        )
    return found


def answered(asked: Sequence[ChangeToAsk], readings: Mapping[str, Reading]) -> pl.DataFrame:
    """One row (`PREFERENCE_SCHEMA`) a change, as of `anachron.probe.horizon.measure.preferences`, from answers.

    readings: by the question. ``named``: one of `WON`, `LOST`, `DECOY` and `NOBODY`; or why no name was read, or why
    nothing was asked. ``known``: whether it is of `WON` or `LOST`. ``wins``: 1 of `WON`, 0 of `LOST`, else empty.
    ``likeliest_decoy_wins``: 1 where a decoy is named, 0 where another name is, else empty; ``decoy_wins``: the same by
    the number of decoys. Margins are empty. Of a control that still holds the old value, and has no new one, the decoys
    count as the new one.
    """
    sides_of = sides(asked)
    rows: list[dict[str, Any]] = []
    for one in asked:
        named = _named(one, sides_of[_key(one.change)], readings.get(one.question))
        if named == DECOY and one.change.control == STILL and not one.change.new:
            wins: float | None = 1.0
        else:
            wins = 1.0 if named in WON else 0.0 if named in LOST else None
        compared = one.decoys and named in (*WON, *LOST, DECOY, NOBODY)
        rows.append(
            change_cells(one.change) | {
                "margin": None, "margin_decoy": None, "margin_known": None, "known": named in (*WON, *LOST),
                "wins": wins, "decoy_wins": (named == DECOY) / len(one.decoys) if compared else None,
                "likeliest_decoy_wins": float(named == DECOY) if compared else None, "named": named,
            }
        )  # fmt: skip
    return pl.DataFrame(rows, schema=PREFERENCE_SCHEMA)


def _named(one: ChangeToAsk, sides_of: Sides, reading: Reading | None) -> str:
    until, since = sides_of
    if until & since:  # left out whatever the answer is, so that what is kept does not depend on it
        return TWICE
    if reading is None:
        return UNASKED
    if reading.outcome != READ:
        return reading.outcome
    name = reading.value
    if name in since:
        return NEW if name == plain(one.change.new) else LATER
    if name in until:
        return OLD if name == plain(one.change.old) else EARLIER
    return DECOY if name in map(plain, one.decoys) else NOBODY
