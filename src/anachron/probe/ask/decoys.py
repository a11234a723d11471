"""Decoys of facts about which a model is asked: what it answers of other objects between the very same two years.

Who prefers late years, or years that are often written about, chooses them for decoys too. Questions cost, so decoys
are a sample (`anachron.probe.ask.questions.decoys_to_ask`) within the same budget: some are asked about, and more only
while a fact may still be told from all of them (`may_be_told`; sequential Monte Carlo tests are Besag and Clifford's,
1991). They have the first rounds of choices, and are asked when they were right.

A fact is ranked among decoys by its *weaker side*: the share won of its matches with an incorrect year before its dates
or of those with one after them, whichever is lower (a fact that still holds has one side, and a side of one or two
matches is none). An answer that could not be read counts as lost, of facts and of decoys alike. The chance of a fact
is the share of decoys, itself counted with them, whose same sides are no weaker; decoys that lack a side of it tell
nothing about it.

A model that declines most choices about decoys may still choose by taste where it knows an object, if not its dates.
One side alone says nothing then, and a fact that has no other has no chance; where there are two, taste loses one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
import polars as pl

from anachron.analysis.statistics import ROUNDING, interval_cells, korn_graubard_difference
from anachron.core.periods import Period
from anachron.io.files import Json
from anachron.probe.ask.estimator import weighted
from anachron.probe.ask.questions import FactToAsk, Questions
from anachron.probe.ask.sampling import SIDE, Call, comparable, score_in
from anachron.probe.check.levels import CHANCE, KNOWN

Chosen = Mapping[Call, bool | None]
Given = Mapping[tuple[str, str | None], Period]  # fact and decoy, None of the fact itself -> the period that was given
Sides = dict[bool, tuple[float, int]]  # whether incorrect years come later -> share won, 0 to 1, of so many matches


def sides_of(fact: FactToAsk, chosen: Chosen) -> Sides:
    """The sides on which `SIDE` or more matches were asked in both orders: the share of them that was won, as a half
    where the orders disagree, unread answers lost, and their number."""
    scores: dict[bool, list[float]] = {}
    for match in (match for drawn in fact.matches.drawn for match in drawn):
        pair = Call(match, True), Call(match, False)
        if pair[0] in chosen and pair[1] in chosen:
            scores.setdefault(match.later, []).append(sum(bool(chosen[call]) for call in pair) / 2)
    return {later: (fmean(of_side), len(of_side)) for later, of_side in scores.items() if len(of_side) >= SIDE}


def weaker(sides: Sides, of: Iterable[bool] | None = None) -> float:
    """The lowest share of some sides, by default of all."""
    return min(sides[later][0] for later in (sides if of is None else of))


@dataclass(frozen=True)
class BesideDecoys:
    """What was answered about decoys.

    read: the share of the choices about them that could be read, NaN without any. sides: of each decoy that was asked.
    win_rates: fact -> W of its decoys, of those of which something could be read.
    """

    read: float
    sides: tuple[Sides, ...]
    win_rates: Mapping[str, tuple[float, ...]]

    def as_strong(self, own: Sides) -> list[bool]:
        """Of each decoy that a fact with these sides can be ranked among (`comparable`), whether the weaker of them is
        no weaker than the fact's."""
        if not own:
            return []
        rivals = [one for one in self.sides if comparable({side: of for side, (_, of) in one.items()}, own)]
        return [weaker(one, own) >= weaker(own) - ROUNDING for one in rivals]

    def chance(self, own: Sides) -> float | None:
        """Of a fact with these sides; None where it cannot be told: without decoys, and where most choices about them
        could not be read and the fact has one side."""
        rivals = self.as_strong(own)
        told = rivals and (self.read >= 0.5 or len(own) == 2)
        return rank_of(sum(rivals), len(rivals)) if told else None

    def cells(self, fact: FactToAsk, chosen: Chosen) -> dict[str, Any]:
        """``weaker_side`` of a fact, its ``chance``, ``ranked_among``, how many decoys, ``decoys``, how many of its own
        could be read, and ``decoy_win_rate``, their mean W."""
        own, rates = sides_of(fact, chosen), self.win_rates.get(fact.fact_id, ())
        return {
            "weaker_side": weaker(own) if own else None, "decoys": len(rates),
            "decoy_win_rate": fmean(rates) if rates else None, "chance": self.chance(own),
            "ranked_among": len(self.as_strong(own)),
        }  # fmt: skip


def rank_of(as_good: int, decoys: int) -> float:
    """The share of so many decoys, the fact itself counted with them, that are as good as it."""
    return (1 + as_good) / (1 + decoys)


def beside_decoys(decoys: Iterable[FactToAsk], chosen: Chosen) -> BesideDecoys:
    """What was answered about decoys. chosen: of each call whether the correct year was chosen, None where nothing
    could be read."""
    sides: list[Sides] = []
    rates: dict[str, list[float]] = {}
    answers: list[bool] = []
    for one in decoys:
        calls = [Call(match, first) for drawn in one.matches.drawn for match in drawn for first in (True, False)]
        answers += [chosen[call] is not None for call in calls if call in chosen]
        if found := sides_of(one, chosen):
            sides.append(found)
        scores = [[score_in(match, chosen) for match in drawn] for drawn in one.matches.drawn]
        read = [[score for score in of_stratum if score is not None] for of_stratum in scores]
        if (win_rate := weighted([*zip(one.matches.sizes, read, strict=True)])) is not None:
            rates.setdefault(one.fact_id, []).append(win_rate)
    share = fmean(answers) if answers else float("nan")
    return BesideDecoys(share, tuple(sides), {fact: tuple(values) for fact, values in rates.items()})


def believed_win_rate(believed: Period, fact: FactToAsk, chosen: Chosen) -> float | None:
    """The mean score of the matches of which one year meets a believed period, for that year; None of fewer than
    `SIDE`."""
    scores = []
    for match in (match for drawn in fact.matches.drawn for match in drawn):
        inside = [believed.status(year) != "incorrect" for year in (match.correct, match.incorrect)]
        score = score_in(match, chosen)
        if score is not None and inside[0] != inside[1]:
            scores.append(score if inside[0] else 1 - score)
    return fmean(scores) if len(scores) >= SIDE else None


def tied_decoys(decoys: Iterable[FactToAsk], chosen: Chosen, given: Given) -> np.ndarray:
    """Of each decoy that choices were asked about, `believed_win_rate` of the period that was given of it, 0 where none
    was: (decoys,)."""
    asked = [one for one in decoys if sides_of(one, chosen)]
    periods = [given.get((one.fact_id, one.decoy)) for one in asked]
    ties = [
        None if period is None else believed_win_rate(period, one, chosen)
        for one, period in zip(asked, periods, strict=True)
    ]
    return np.array([tie or 0.0 for tie in ties])


def may_be_told(questions: Questions, chosen: Chosen, given: Given) -> bool:
    """Whether some fact could still have a verdict above unknown if all decoys were asked about: so few of those that
    were do as well as it."""
    beside, tied = beside_decoys(questions.decoys, chosen), tied_decoys(questions.decoys, chosen, given)
    for fact in questions.facts:
        own, believed = sides_of(fact, chosen), given.get((fact.fact_id, None))
        ahead = bool(own) and weaker(own) > 0.5
        if ahead and rank_of(sum(beside.as_strong(own)), len(questions.decoys)) <= CHANCE:
            return True
        tie = None if believed is None else believed_win_rate(believed, fact, chosen)
        if tie is not None and tie >= KNOWN and not (tied >= tie - ROUNDING).any():
            return True
    return False


def decoy_summary(facts: pl.DataFrame, beside: BesideDecoys, decoys: Iterable[FactToAsk], chosen: Chosen) -> Json:
    """What decoys come to: ``decoys``, how many were asked about; ``decoys_read`` (`BesideDecoys.read`);
    ``decoy_win_rate``, the mean over facts of the mean W of their decoys; ``difference``, W of these facts less that,
    with its interval over subjects (`korn_graubard_difference`); ``later`` (`later_share`). Empty without decoys.
    facts: their `anachron.probe.ask.tables.facts_table`."""
    if not beside.sides:
        return {}
    both = facts.drop_nulls(["win_rate", "decoy_win_rate"])
    found: Json = {"decoys": len(beside.sides), "decoys_read": beside.read, "later": later_share(decoys, chosen)}
    if both.height:
        of_decoys, own, subjects = (both[name].to_numpy() for name in ("decoy_win_rate", "win_rate", "subject"))
        found |= {"decoy_win_rate": float(of_decoys.mean()), "difference": float((own - of_decoys).mean())}
        found |= interval_cells("difference", korn_graubard_difference(of_decoys, own, subjects))
    return found


def later_share(decoys: Iterable[FactToAsk], chosen: Chosen) -> float | None:
    """The share of the choices about decoys that could be read in which the later year was taken: half if there is no
    taste. A side counts as much as the other, however many of its matches were asked."""
    taken: dict[bool, list[bool]] = {}
    for match in (match for one in decoys for drawn in one.matches.drawn for match in drawn):
        for first in (True, False):
            if (right := chosen.get(Call(match, first))) is not None:
                taken.setdefault(match.later, []).append(right != match.later)
    return fmean(fmean(of_side) for of_side in taken.values()) if taken else None
