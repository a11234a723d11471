"""Simulated answerers whose beliefs are known, and what W and the bias of position truly are for each of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from anachron.probe.ask.sampling import Call, Matches, draw_matches

STICKY = np.array([1990, 2000, 2010, 2020])
LAST = 2024


@dataclass(frozen=True, eq=False)
class SimulatedFact:
    """A period in whole years, all its matches (years, and where they begin among those of all facts), those drawn."""

    start: int
    end: int
    correct: np.ndarray
    incorrect: np.ndarray
    matches: Matches


@dataclass(frozen=True)
class Answerer:
    """noise: of both ends of the believed period, in lengths. lapse: share of coin throws. bias: of the share in which
    the first year is chosen, -0.5 to 0.5. refusal: share of calls. sticky: how often a favourite year wins.
    ignorance: share of facts without any belief."""

    noise: float
    lapse: float
    bias: float
    refusal: float
    sticky: float
    ignorance: float


def draw_answerer(random: np.random.Generator) -> Answerer:
    sticky = random.uniform(0, 0.5) if random.random() < 0.5 else 0.0
    return Answerer(
        random.uniform(0, 1.5), random.uniform(0, 0.4), random.uniform(-0.3, 0.3), random.uniform(0, 0.25), sticky,
        random.uniform(0, 0.9),
    )  # fmt: skip


@cache
def facts(number: int, seed: int = 0) -> tuple[SimulatedFact, ...]:
    """Facts of two to 24 years, asked about up to two and a half lengths on either side of their middle."""
    random = np.random.default_rng(seed)
    made = []
    for identity in range(number):
        length = int(random.integers(2, 25))
        start = int(random.integers(1900, LAST - length))
        end, middle = start + length - 1, start + (length - 1) / 2
        years = np.arange(int(middle - 2.5 * length), min(LAST, int(middle + 2.5 * length)) + 1)
        inside = (years >= start) & (years <= end)
        rivals = [(str(year), float((year - middle) / length)) for year in years[~inside]]
        matches = draw_matches(f"s{identity}", [str(year) for year in years[inside]], rivals)
        made.append(SimulatedFact(start, end, years[inside], years[~inside], matches))
    return tuple(made)


@dataclass(frozen=True)
class World:
    """An answerer with a belief, (start, end), about each of many facts; NaN where it has none."""

    answerer: Answerer
    facts: tuple[SimulatedFact, ...]
    beliefs: np.ndarray  # (facts, 2)
    declines: float = 0.0  # share of the calls about a fact without a belief that are declined, besides the refusals

    def first_chosen(self, fact: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """The chance that the first of two years is chosen, for each of some calls: all arrays (calls,)."""
        start, end = self.beliefs[fact].T
        chance = _preferred((start <= first) & (first <= end), (start <= second) & (second <= end), 0.5)
        favourite = _preferred(np.isin(first, STICKY), np.isin(second, STICKY), chance)
        chance = (1 - self.answerer.sticky) * chance + self.answerer.sticky * favourite
        chance = (1 - self.answerer.lapse) * chance + self.answerer.lapse / 2
        always = 2 * abs(self.answerer.bias)
        return (1 - always) * chance + always * (self.answerer.bias > 0)

    @cached_property
    def truth(self) -> tuple[np.ndarray, np.ndarray]:
        """W and the bias of position of each fact, (facts,), over all its matches."""
        place, correct, incorrect, starts = _pairs(self.facts)
        right_first = self.first_chosen(place, correct, incorrect)
        wrong_first = self.first_chosen(place, incorrect, correct)
        counts = np.diff([*starts, place.size])
        won = np.add.reduceat((right_first + 1 - wrong_first) / 2, starts) / counts
        return won, np.add.reduceat((right_first + wrong_first) / 2, starts) / counts - 0.5

    def choose(self, calls: Sequence[Call], random: np.random.Generator) -> list[bool | None]:
        """Whether the correct year is chosen in each call; None for a refusal."""
        fact = np.array([int(call.match.fact_id[1:]) for call in calls])
        first, second = np.array([[int(year) for year in call.years] for call in calls]).T
        chosen = random.random(fact.size) < self.first_chosen(fact, first, second)
        refused = random.random(fact.size) < self.answerer.refusal
        if self.declines:
            refused |= np.isnan(self.beliefs[fact, 0]) & (random.random(fact.size) < self.declines)
        right = chosen == np.array([call.correct_first for call in calls])
        return [None if no else bool(yes) for no, yes in zip(refused, right, strict=True)]


@cache
def make_world(number: int, seed: int) -> World:
    random, known = np.random.default_rng(seed), facts(number)
    answerer = draw_answerer(random)
    true = np.array([[fact.start, fact.end] for fact in known], dtype=float)
    beliefs = true + random.normal(0, answerer.noise, true.shape) * (true[:, 1:] - true[:, :1] + 1)
    beliefs[random.random(number) < answerer.ignorance] = np.nan
    return World(answerer, known, beliefs)


def _preferred(first: np.ndarray, second: np.ndarray, else_: np.ndarray | float) -> np.ndarray:
    return np.where(first == second, else_, first.astype(float))


@cache
def _pairs(known: tuple[SimulatedFact, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """All matches of all facts: fact, correct and incorrect year, and where each fact begins."""
    sizes = [fact.correct.size * fact.incorrect.size for fact in known]
    correct = np.concatenate([np.repeat(fact.correct, fact.incorrect.size) for fact in known])
    incorrect = np.concatenate([np.tile(fact.incorrect, fact.correct.size) for fact in known])
    return np.repeat(np.arange(len(known)), sizes), correct, incorrect, np.cumsum([0, *sizes[:-1]])
