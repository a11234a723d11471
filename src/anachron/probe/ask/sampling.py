"""Which matches of a fact are asked: drawn by how far the incorrect year is from the fact's period.

A match sets a correct year of a fact against an incorrect one; W is the share of all matches that the model wins. The
matches of a fact are cut into strata by |alpha| of the incorrect year (`EDGES`, in lengths of the period from its
middle): near ones are hard, far ones easy, and all strata have a known share of the matches. Each stratum is drawn
without replacement, by hashes of the seed and the fact, so that more matches are those of before and some more.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from anachron.core.dates import Date
from anachron.core.draws import draw

EDGES = (1.0, 2.0)  # of |alpha|, upper ends of all strata but the last
ROUNDS = 5  # matches that are read in each stratum at most
LEAST_ROUNDS = 3  # with one, of 100 facts the bias of position is off by more than 2 points in a fifth of all cases
SIDE = 3  # matches with incorrect years before the correct ones, or after them, that say something of that side
SPARE = 1  # more that are asked in the place of those that cannot be read


@dataclass(frozen=True, slots=True)
class Match:
    """A correct and an incorrect year of a fact. alpha: of the incorrect one. stratum: its place in `Matches`."""

    fact_id: str
    stratum: int
    correct: str
    incorrect: str
    alpha: float

    @property
    def later(self) -> bool:
        """Whether the incorrect year comes after the correct one."""
        return Date.parse(self.incorrect).year > Date.parse(self.correct).year


@dataclass(frozen=True, slots=True)
class Call:
    """One question of a match: which of the years is named first."""

    match: Match
    correct_first: bool

    @property
    def years(self) -> tuple[str, str]:
        pair = self.match.correct, self.match.incorrect
        return pair if self.correct_first else pair[::-1]


@dataclass(frozen=True, slots=True)
class Matches:
    """The matches of a fact that may be asked. sizes: of all strata, in matches; drawn: of each stratum, in order."""

    fact_id: str
    sizes: tuple[int, ...]
    drawn: tuple[tuple[Match, ...], ...]

    def sides(self, rounds: int) -> dict[bool, int]:
        """`Match.later` of the first so many matches of each stratum, and how many there are, where at least `SIDE`."""
        counts = Counter(match.later for stratum in self.drawn for match in stratum[:rounds])
        return {later: count for later, count in counts.items() if count >= SIDE}

    def of(self, name: str) -> "Matches":
        """The same matches of somebody else."""
        drawn = tuple(tuple(replace(match, fact_id=name) for match in stratum) for stratum in self.drawn)
        return Matches(name, self.sizes, drawn)


def comparable(of_decoy: Mapping[bool, int], sides: Iterable[bool]) -> bool:
    """Whether a fact with these sides can be ranked among decoys with so many matches on each of theirs: they have all
    of them, with more than `SIDE` matches, as three on one side are won by a coin too often."""
    wanted = [*sides]
    return all(side in of_decoy for side in wanted) and sum(of_decoy[side] for side in wanted) > SIDE


def draw_matches(
    fact_id: str, correct: Sequence[str], incorrect: Sequence[tuple[str, float]], *, most: int = ROUNDS + SPARE,
    seed: int = 0,
) -> Matches:  # fmt: skip
    """At most so many matches of each stratum that a fact has.

    correct: its correct years. incorrect: its incorrect years with their alphas.
    """
    found: list[tuple[int, tuple[Match, ...]]] = []
    for number in range(len(EDGES) + 1):
        rivals = [one for one in incorrect if _stratum(one[1]) == number]
        size = len(correct) * len(rivals)
        if size:
            matches = [
                Match(fact_id, len(found), correct[i // len(rivals)], *rivals[i % len(rivals)])
                for i in _distinct(size, most, seed, fact_id, number)
            ]
            found.append((size, tuple(matches)))
    return Matches(fact_id, tuple(size for size, _ in found), tuple(drawn for _, drawn in found))


def _stratum(alpha: float) -> int:
    return sum(abs(alpha) > edge for edge in EDGES)


def _distinct(size: int, wanted: int, *about: object) -> list[int]:
    """So many distinct numbers below ``size`` in random order; all of them where there are no more."""
    kept: dict[int, None] = {}
    tries = 0
    while len(kept) < min(wanted, size):
        kept[draw(*about, tries) % size] = None
        tries += 1
    return list(kept)


Read = dict[Match, float | None]  # 1 won, 0 lost, a half where the orders disagree, None where one cannot be read


def score_of(first: bool | None, second: bool | None) -> float | None:
    """What a match counts: whether the correct year was chosen when it was named first, and second; None: unread."""
    return None if first is None or second is None else (first + second) / 2


def score_in(match: Match, chosen: Mapping[Call, bool | None]) -> float | None:
    """`score_of` a match by what was chosen in some calls; None where it was not asked in both orders."""
    return score_of(chosen.get(Call(match, True)), chosen.get(Call(match, False)))


def first_in(match: Match, chosen: Mapping[Call, bool | None]) -> float | None:
    """The share of both orders of a match in which the year that is named first was chosen; None as in `score_in`."""
    first, second = chosen.get(Call(match, True)), chosen.get(Call(match, False))
    return None if first is None or second is None else (first + (not second)) / 2


def wanted_matches(matches: Matches, read: Mapping[Match, float | None], target: int) -> list[Match]:
    """The next matches to ask, so that ``target`` of each stratum can be read; none where no more are drawn."""
    wanted: list[Match] = []
    for drawn in matches.drawn:
        readable = sum(read.get(match) is not None for match in drawn)
        fresh = [match for match in drawn if match not in read]
        wanted += fresh[: max(0, target - readable)]
    return wanted


def ask_matches(
    facts: Sequence[Matches],
    ask: Callable[[Sequence[Call]], Sequence[bool | None]],
    enough: Callable[[Read], bool],
    *,
    rounds: int = ROUNDS,
    read: Read | None = None,
) -> Read:
    """Ask the matches of all facts, round by round, one more readable match of each stratum in each round.

    ask: whether the correct year was chosen, for each of some calls; fewer answers, of the first ones, where the budget
    ends there. enough: told after each round what was read; it ends the asking. A match is asked in both orders; one of
    which only one order was answered is left out. read: what was read in earlier rounds, which are not asked again.
    """
    read = dict(read or {})
    for target in range(1, rounds + 1):
        while wanted := [match for matches in facts for match in wanted_matches(matches, read, target)]:
            calls = [Call(match, first) for match in wanted for first in (True, False)]
            answers = ask(calls)
            for match, first, second in zip(wanted, answers[::2], answers[1::2], strict=False):
                read[match] = score_of(first, second)
            if len(answers) < len(calls):
                return read
        if enough(read):
            return read
    return read


def by_fact(facts: Iterable[Matches], read: Read) -> dict[str, list[tuple[int, list[float]]]]:
    """The size of each stratum and the scores that were read in it, of each fact."""
    return {
        one.fact_id: [
            (size, [score for match in drawn if (score := read.get(match)) is not None])
            for size, drawn in zip(one.sizes, one.drawn, strict=True)
        ]
        for one in facts
    }
