"""Which facts of one subject and relation overlap: as every pair of them says, without looking at every pair."""

import math
from itertools import combinations, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anachron.core.dates import Date
from anachron.core.periods import Period
from anachron.core.several_periods import joined
from anachron.data.own.notices import certain_spans, count_overlapping, overlapping
from anachron.data.own.rows import given_facts

COLUMNS = ("subject", "relation", "object", "start", "end")
YEARS = st.integers(1990, 1999)
DATES = st.one_of(
    YEARS.map(str), st.tuples(YEARS, st.integers(1, 12)).map(lambda date: f"{date[0]}-{date[1]:02d}"),
    st.tuples(YEARS, st.integers(1, 2), st.integers(1, 3)).map(lambda date: f"{date[0]}-{date[1]:02d}-{date[2]:02d}"),
)  # fmt: skip
PERIODS = st.tuples(DATES, st.one_of(DATES, st.none())).filter(
    lambda dates: dates[1] is None or Date.parse(dates[1]).last_day >= Date.parse(dates[0]).first_day
)


def sure(period: Period) -> tuple[float, float]:
    assert period.start is not None
    return period.start.last_day, math.inf if period.end is None else period.end.first_day


def hold_together(one: Period, other: Period) -> bool:
    (a, b), (c, d) = sure(one), sure(other)
    return max(a, c) < min(b, d)


@given(st.lists(st.tuples(st.sampled_from("ABCDE"), PERIODS), max_size=14))
def test_the_sweep_finds_what_all_pairs_say(rows: list[tuple[str, tuple[str, str | None]]]) -> None:
    held: dict[str, list[Period]] = {}
    for name, dates in rows:
        held.setdefault(name, []).append(Period(*dates))
    facts = [joined(periods) for periods in held.values()]
    each = [(owner, period) for owner, periods in enumerate(facts) for period in periods]
    naive = sorted((a, b) for (a, p), (b, q) in combinations(each, 2) if hold_together(p, q))
    spans = certain_spans(each)
    assert sorted(overlapping(spans)) == naive and count_overlapping(spans) == len(naive)
    once = dict.fromkeys((name, dates) for name, dates in rows)  # the same row twice is refused
    table = [dict(zip(COLUMNS, ("S", "r", name, *dates), strict=True)) for name, dates in once]
    if table:
        notes = [note for note in given_facts(COLUMNS, table).notes if "overlap; both count as true" in note]
        pairs = set(naive)
        said = {(a, b) for a, b in combinations(range(len(held)), 2) if any(
            f"S, r, {list(held)[a]} and {list(held)[b]} overlap" in note for note in notes
        )}  # fmt: skip
        assert said <= pairs and len(notes) == len(said) == min(5, len(pairs))


class Counted(float):
    """A number that counts how often it is compared."""

    compared = 0

    def __lt__(self, other: float) -> bool:
        Counted.compared += 1
        return float(self) < float(other)

    def __le__(self, other: float) -> bool:
        Counted.compared += 1
        return float(self) <= float(other)

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return float(self) == other

    __hash__ = float.__hash__


@pytest.mark.parametrize("apart", [False, True])
def test_the_pairs_are_counted_without_being_made(apart: bool) -> None:
    """n log n comparisons, whether all of the spans overlap or none does; also for the first of the pairs."""
    size = 2000
    spans = [(Counted(n), Counted(n + 0.5 if apart else 2 * size), n) for n in range(size)]
    Counted.compared = 0
    assert count_overlapping(spans) == (0 if apart else size * (size - 1) // 2)
    first = list(islice(overlapping(spans), 5))
    assert first == ([] if apart else [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3)])
    assert Counted.compared < 40 * size * math.log2(size)


def test_five_are_shown_and_all_are_counted() -> None:
    rows = [dict(zip(COLUMNS, ("S", "r", f"O{n}", 1900 + n % 90, None), strict=True)) for n in range(3000)]
    notes = given_facts(COLUMNS, rows).notes
    assert len(notes) == 6 and notes[-1] == "and more: in all 4,498,500 pairs of periods overlap"


def test_periods_of_one_fact_that_were_joined_are_counted() -> None:
    rows = [
        dict(zip(COLUMNS, ("S", "r", f"O{n}", start, end), strict=True))
        for n in range(8) for start, end in ((1900 + 10 * n, 1905 + 10 * n), (1904 + 10 * n, 1907 + 10 * n))
    ]  # fmt: skip
    notes = given_facts(COLUMNS, rows).notes
    assert len(notes) == 6 and notes[-1] == "and more: in all 8 facts have periods that were joined"
