"""W from sampled matches, with intervals; what can be said of R; and the bias towards the year that is named first.

A fact's W is the mean over its strata of their mean scores, weighted by their shares of all matches (stratified
sampling: Cochran, Sampling Techniques, 1977, chapter 5). W over facts is the mean of these, and its interval rests on
how they differ from fact to fact, which holds what the sampling of matches adds as well (his chapter 11).

Where the orders disagree a match counts a half, so a preference for the first or the second year favours neither side;
it draws W towards a half as any other guessing does, and that is part of W by choice.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log, nan

import numpy as np

from anachron.analysis.statistics import CONFIDENCE, interval_cells, korn_graubard, wilson_effective
from anachron.probe.ask.sampling import Call, Matches

Strata = Sequence[tuple[int, Sequence[float]]]  # of each stratum: its matches in all, and the scores of those read


@dataclass(frozen=True, slots=True)
class FactEstimate:
    """What the matches of a fact say.

    win_rate: W, 0 to 1, and an interval that covers it at least as often as it says. matches: k, those that were read;
    of: all that the fact has. won_all: `R_k`, whether all k were won in both orders. lost_at_most: the share of all
    matches that may be lost all the same (95 %, one-sided); 1 where one was lost. robustness: R, where that is known: 0
    with a match not won, 1 where every match was read and won, else None.
    """

    win_rate: float
    low: float
    high: float
    matches: int
    of: int
    won_all: bool
    lost_at_most: float
    robustness: float | None


def estimate_fact(strata: Strata) -> FactEstimate | None:
    """The estimate of one fact; None where no match could be read.

    A stratum of which nothing could be read is left out, and the others stand for it. The interval is Wilson's, with
    the matches that simple sampling would need: scores of a half and what the strata gain only make it wider than need
    be.
    """
    read = [(size, scores) for size, scores in strata if scores]
    if not read:
        return None
    total, of = sum(size for size, _ in read), sum(size for size, _ in strata)
    shares = [(size / total, scores) for size, scores in read]
    w = sum(size * sum(scores) / len(scores) for size, scores in read) / total
    low, high = wilson_effective(w, 1 / sum(share**2 / len(scores) for share, scores in shares))
    k = sum(len(scores) for _, scores in read)
    won_all = all(score == 1 for _, scores in read for score in scores)
    robustness = 0.0 if not won_all else 1.0 if k == of else None
    bound = lost_at_most([(share, len(scores)) for share, scores in shares]) if won_all else 1.0
    return FactEstimate(w, low, high, k, of, won_all, 0.0 if robustness == 1 else bound, robustness)


def lost_at_most(strata: Sequence[tuple[float, int]], confidence: float = CONFIDENCE) -> float:
    """The largest share of lost matches with which none of those drawn is lost as often as 1 - confidence.

    strata: share of all matches, and number drawn, of each. With lost shares p that chance is the product of
    (1 - p) ** drawn; the largest weighted sum of p has 1 - p = min(1, x drawn / share) for one x in all strata. Of one
    stratum it is 1 - (1 - confidence) ** (1 / drawn). Drawing without replacement only makes it smaller.
    """
    allowed = log(1 - confidence)

    def chance(x: float) -> float:
        return sum(drawn * min(0.0, log(x * drawn / share)) for share, drawn in strata)

    low, high = 1e-300, max(share / drawn for share, drawn in strata)
    for _ in range(200):  # chance rises with x
        middle = (low * high) ** 0.5
        low, high = (middle, high) if chance(middle) < allowed else (low, middle)
    return sum(share * (1 - min(1.0, high * drawn / share)) for share, drawn in strata)


def bounds(matches: Matches, chosen: Mapping[Call, bool | None]) -> tuple[float, float] | None:
    """W of a fact if every answer that could not be read had been lost, and if every one had been won; None where no
    match was asked in both orders.

    chosen: of each call that was asked whether the correct year was chosen, None of an answer that could not be read.
    Weighted as W is, over the strata that were asked.
    """

    def score(pair: Iterable[Call], unread: bool) -> float:
        return sum(unread if (choice := chosen[call]) is None else choice for call in pair) / 2

    pairs = [[(Call(match, True), Call(match, False)) for match in drawn] for drawn in matches.drawn]
    asked = [[pair for pair in drawn if pair[0] in chosen and pair[1] in chosen] for drawn in pairs]
    lost, won = (
        weighted(
            [(size, [score(pair, unread) for pair in drawn]) for size, drawn in zip(matches.sizes, asked, strict=True)]
        )
        for unread in (False, True)
    )
    return None if lost is None or won is None else (lost, won)


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over facts with its 95 % interval; NaN without facts."""

    value: float
    low: float
    high: float
    facts: int

    @property
    def width(self) -> float:
        """From the lower to the upper end; infinite without facts."""
        return self.high - self.low if self.facts else float("inf")

    def told(self, ends: tuple[float, float]) -> bool:
        """Whether it may be called an estimate: it would lie in its interval too if all that could not be read were
        lost, or won. ends: the means of both over facts (`bounds`)."""
        return self.facts > 0 and self.low <= ends[0] and ends[1] <= self.high

    def cells(self, name: str) -> dict[str, float | None]:
        value = {name: self.value if self.facts else None}
        return value | interval_cells(name, (self.low, self.high))


def mean_over_facts(values: Iterable[float | None], subjects: Sequence[str] | None = None) -> Mean:
    """W over facts, each of them one value, None of those that are left out: `korn_graubard`, clustered by the facts'
    subjects where they are given."""
    given = list(values)
    known = [place for place, value in enumerate(given) if value is not None]
    if not known:
        return Mean(nan, nan, nan, 0)
    found = [value for value in given if value is not None]
    clusters = None if subjects is None else [subjects[place] for place in known]
    return Mean(float(np.mean(found)), *korn_graubard(found, clusters), len(found))


def position_bias(firsts: Iterable[float | None], subjects: Sequence[str] | None = None) -> Mean:
    """How much more often than every second time the year that is named first is chosen: -0.5 to 0.5.

    firsts: of each fact how often it was, of the matches that could be read, weighted as W is. subjects: of the facts.
    """
    mean = mean_over_facts(firsts, subjects)
    return Mean(mean.value - 0.5, mean.low - 0.5, mean.high - 0.5, mean.facts)


def weighted(strata: Strata) -> float | None:
    """The mean of strata by their shares of all matches, of those with something read; None without any."""
    read = [(size, scores) for size, scores in strata if scores]
    total = sum(size for size, _ in read)
    return sum(size * sum(scores) / len(scores) for size, scores in read) / total if read else None
