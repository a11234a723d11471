"""The advice in planted worlds from end to end: a scripted stand-in for a model answers prompts by a rule of its world.

What stands before a question is what the ways put there: sentences, or a store's passages that its search finds. Runs,
tables, balances and the rule are those of ``anachron advise``; the costs alone are given, so that no clock counts. A
stand-in has no weights to change; with ways that change some the rule is tested in ``test_rule.py``.
"""

import datetime
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple

import polars as pl
import pytest

from anachron.advise.balance import balances
from anachron.advise.rule import Advice, advise
from anachron.data.updates.case_records import EditCase, NeighbourFact
from anachron.data.updates.cases import CaseSet
from anachron.edit.plan import plan_edits
from anachron.evaluate.measure import Measures
from anachron.evaluate.measures.dated import Dating
from anachron.evaluate.results import UNEDITED
from anachron.evaluate.run import EvaluateSettings, run_evaluation
from anachron.lm.formats import before, in_force
from anachron.lm.spans import Encoded
from evaluate.test_dated_run import TableModel

UPDATES, DRAWS = 24, 200  # updates of a draw, which are made in one edit; of so few no lead below 0.17 is ever shown
A_RUN = 40  # draws that are parts of one run, each made in the unedited model
COSTS = {UNEDITED: 0.0, "PROMPT": 1.0, "PROMPT dated": 1.1, "RETRIEVAL": 2.0, "RETRIEVAL dated": 2.1}
WAYS = tuple(way for way in COSTS if way != UNEDITED)
SURE, EASE, TREMBLES = 2.5, 0.8, 1.0  # log odds of what is believed, how far updates differ in them, and how far texts
DATE = re.compile(r"(?:In|On) ([\w ,]*\d{4}), ")
TOLD = re.compile(r"(?:On (\w+ \d+, \d+), )?the king of (\w+) is (\w+)\.", re.IGNORECASE)
SETTINGS = EvaluateSettings("batch", UPDATES, Measures(0, dated=Dating("2016-12-31", ways=("question",))))


class Told(NamedTuple):
    """What a sentence says of its subject. since: the day that it gives; None for none."""

    since: datetime.date | None
    who: str


class Asked(NamedTuple):
    """A question about an update. day: the first of the date that it is about; None for none. told: the sentences about
    its subject that stand before it, of ``sentences`` in all. chance: drawn for the whole text, 0 to 1."""

    case: EditCase
    day: datetime.date | None
    told: Sequence[Told]
    sentences: int
    chance: float


def reads(asked: Asked) -> str | None:
    """A sentence with a date is true from that day on, one without at all times. The latest counts, and of several of
    one date that nearest to the question."""
    true = [one for one in asked.told if one.since is None or asked.day is None or one.since <= asked.day]
    return sorted(true, key=lambda one: one.since or datetime.date.min)[-1].who if true else asked.case.old


def ignores(asked: Asked) -> str | None:
    return asked.case.old


def forgets(asked: Asked) -> str | None:
    """It reads, but each sentence, whatever it is about, takes a tenth of what it knew of the past."""
    return asked.case.new if asked.chance > 0.9**asked.sentences else reads(asked)


def mixes(asked: Asked) -> str | None:
    """It reads sentences without their dates, and by any of them a fifth of the past is lost."""
    lost = asked.day is None or asked.day >= datetime.date.fromisoformat(asked.case.start or "") or asked.chance < 0.2
    return asked.case.new if asked.told and lost else asked.case.old


@dataclass(frozen=True)
class World:
    """best: the ways that are best by the rule of this world, all alike; to be recommended is the cheapest of them.
    retrieval: settings of the store."""

    rule: Callable[[Asked], str | None]
    best: tuple[str, ...]
    retrieval: Mapping[str, Any] = field(default_factory=dict)


WORLDS = {
    # both ways with dates say all there is to say: the search finds an update's sentence among those of other facts
    "reads context perfectly": World(reads, ("PROMPT dated", "RETRIEVAL dated"), {"distractors": 40}),
    "ignores context": World(ignores, tuple(COSTS)),
    # sentences without dates leave nothing of the past; of those with dates a prompt has 24 and a store shows one
    "edits erase the past": World(forgets, ("RETRIEVAL dated",), {"k": 1}),
    # the old sentence and the new one are alike but for the object, and of passages alike the first is shown
    "retrieval returns stale passages": World(reads, ("PROMPT dated",), {"k": 1, "stale": True}),
    "everything ties": World(mixes, WAYS),
}


@dataclass
class Scripted(TableModel):
    """Of an update it believes what a rule says, more or less surely by update and by text; to what it is asked about
    other facts, it gives the right answer."""

    cases: Mapping[str, EditCase] = field(default_factory=dict)
    rule: Callable[[Asked], str | None] = ignores
    known: tuple[Any, ...] = ()

    def encode(self, triples: Any, style: Any = None) -> list[Encoded]:
        """With what an edit in force puts before each prompt."""
        shown = before(self.tokenizer, [prompt for prompt, *_ in triples], in_force(self, self.style))
        first = len(self.asked)
        self.asked += [(text, f"{prompt}|{answer}") for text, (prompt, answer, _) in zip(shown, triples, strict=True)]
        return [Encoded((number, 0), (1,)) for number in range(first, len(self.asked))]

    def p(self, pair: tuple[str, str]) -> float:
        context, (prompt, answer) = pair[0], pair[1].split("|")
        if self.known[:2] != (context, prompt):  # objects are asked about one after the other
            self.known = (context, prompt, *self.answered(context, prompt))
        believed, odds = self.known[2:]
        if believed is None:
            return 0.5 * math.exp(0.1 * odds)
        return 0.6 / (1 + math.exp(-odds if answer == believed else odds))

    def answered(self, context: str, prompt: str) -> tuple[str | None, float]:
        """What is believed and how surely; None of what no update is about."""
        trembles = NormalDist().inv_cdf(chance(context, prompt))
        about = next((self.cases[word] for word in re.findall(r"\w+", prompt) if word in self.cases), None)
        if about is None:
            return None, trembles
        told, sentences = said(context)
        date = DATE.match(prompt)
        asked = Asked(about, date and first_day(date[1]), told.get(about.subject, ()), sentences,
                      chance("forgotten", context, prompt))  # fmt: skip
        return self.rule(asked), SURE + EASE * NormalDist().inv_cdf(chance(about.subject)) + TREMBLES * trembles


def chance(*texts: str) -> float:
    """A number between 0 and 1, drawn by a hash of texts."""
    return (int.from_bytes(blake2b("\n".join(texts).encode(), digest_size=6).digest(), "big") + 0.5) / 2**48


@cache
def first_day(date: str) -> datetime.date:
    """Of a year, a month or a day in words."""
    form = {1: "%Y", 2: "%B %Y", 3: "%B %d, %Y"}[len(date.split())]
    return datetime.datetime.strptime(date, form).date()


@cache
def said(context: str) -> tuple[dict[str, list[Told]], int]:
    """What sentences say, by subject, and how many they are."""
    told: dict[str, list[Told]] = {}
    for date, subject, who in TOLD.findall(context):
        told.setdefault(subject, []).append(Told(first_day(date) if date else None, who))
    return told, context.count(". ")


def names(key: str) -> Iterator[str]:
    """A thousand made-up names, others for each key of three digits."""
    syllables = ("ba", "ce", "di", "fo", "gu", "la", "me", "ni", "ro", "su")
    for number in range(1000):
        yield "".join(syllables[int(digit)] for digit in f"{key}{number:03d}").capitalize()


def updates_of(draw: int) -> list[EditCase]:
    """Kings who followed others on a first of January, each with a fact beside it."""
    found, named = [], names(f"{draw:03d}")
    for number in range(UPDATES):
        subject, new, old, other = (next(named) for _ in range(4))
        year = 2005 + int(10 * chance("year", subject))
        beside = (NeighbourFact(f"The queen of {other} is", ("Dido",), None, None, other),)
        found.append(
            EditCase(
                f"{draw}-{number}", subject, f"The king of {subject} is", new, old,
                (f"{subject} is ruled by",), nearest=beside, relation="P35",
                question_templates=("who was the king of [SUBJ]?",), start=f"{year}-01-01",
                end=f"{year}-02-01", old_start=f"{year - 1}-01-01",
            )
        )  # fmt: skip
    return found


def advice_in(world: World, draws: range, folder: Path) -> Iterator[Advice]:
    """The advice of each draw; several are parts of one run."""
    for first in draws[::A_RUN]:
        some = range(first, min(first + A_RUN, draws.stop))
        cases = [case for draw in some for case in updates_of(draw)]
        lm: Any = Scripted({}, cases={case.subject: case for case in cases}, rule=world.rule)
        ways = plan_edits(lm, WAYS, changes={"RETRIEVAL": world.retrieval})
        run = run_evaluation(
            lm, CaseSet("kings", "wikifactdiff", tuple(cases), {}), ways, folder / f"{first}", SETTINGS
        )
        found = balances(run.tables).with_columns(draw=pl.col("case_id").str.split("-").list.first())
        for draw in some:
            yield advise(found.filter(draw=str(draw)), COSTS)


def is_right(advice: Advice, best: Sequence[str]) -> bool:
    """One that is best is shown to be; of several no difference is shown, but to all others one is."""
    return (
        advice.recommended == min(best, key=COSTS.__getitem__)
        and advice.separated == (len(best) == 1)
        and {*advice.tied} == {*best}
        and ("no difference" in advice.words) == (len(best) > 1 and UNEDITED not in best)
    )


@pytest.mark.parametrize("name", WORLDS)
def test_a_few_draws(name: str, tmp_path: Path) -> None:
    world = WORLDS[name]
    assert [is_right(one, world.best) for one in advice_in(world, range(3), tmp_path)] == [True] * 3


@pytest.mark.slow
@pytest.mark.parametrize("name", WORLDS)
def test_advice_is_right_in_95_of_100_draws(name: str, tmp_path: Path) -> None:
    """Of 200 draws of 24 updates in each world."""
    world = WORLDS[name]
    right = sum(is_right(one, world.best) for one in advice_in(world, range(DRAWS), tmp_path))
    assert right >= 0.95 * DRAWS
