"""Which of many periods surely held at the same time, by a sweep over their starts."""

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

from anachron.core.periods import Period

Span = tuple[float, float, int]  # latest start, earliest end, whose it is


def certain_spans(periods: Sequence[tuple[int, Period]]) -> list[Span]:
    """When each of the periods (whose it is, period) held for certain, by start; without those of a day or less."""
    spans = []
    for owner, period in periods:
        assert period.start is not None
        first, last = period.start.last_day, math.inf if period.end is None else period.end.first_day
        if first < last:
            spans.append((first, last, owner))
    return sorted(spans)


def overlapping(spans: Sequence[Span]) -> Iterator[tuple[int, int]]:
    """Whose spans overlap by more than a day, in the order of their starts, once for each pair of spans."""
    going: list[tuple[float, int]] = []  # (end, owner) of the spans that have begun and may not be over
    for first, last, owner in spans:
        while going and going[0][0] <= first:
            heappop(going)
        for _, other in sorted(going):
            yield min(owner, other), max(owner, other)
        heappush(going, (last, owner))


def count_overlapping(spans: Sequence[Span]) -> int:
    """How many pairs `overlapping` gives, without making them.

    A span overlaps all that began before it except those that ended before it began.
    """
    ends = sorted(last for _, last, _ in spans)
    return sum(begun - bisect_right(ends, first) for begun, (first, _, _) in enumerate(spans))
