"""What the reader of a file should know, by kind: how often it was seen, and the first few."""

import math
import unicodedata
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Any

from anachron.core.periods import Period
from anachron.core.sameness import code_points, is_invisible, name_key

SHOWN = 5  # of one kind, and faults that are said at once


class Notices:
    """Counts by kind (words behind a number: ``ends stand for no end``), each with its first few examples."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.examples: dict[str, list[str]] = {}

    def add(self, kind: str, example: str) -> None:
        self.counts[kind] += 1
        if self.room(kind):
            self.examples.setdefault(kind, []).append(example)

    def counted(self, kind: str, more: int) -> None:
        """So many more of a kind, without examples."""
        self.counts[kind] += more

    def room(self, kind: str) -> int:
        """How many examples of a kind are still taken."""
        return SHOWN - len(self.examples.get(kind, ()))

    def told(self) -> tuple[str, ...]:
        """The examples, and behind those of each kind of which there are more its count."""
        lines: list[str] = []
        for kind, examples in self.examples.items():
            lines += examples
            if self.counts[kind] > len(examples):
                lines.append(f"and more: in all {self.counts[kind]:,} {kind}")
        return tuple(lines)


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


_JOINERS = "\u200c\u200d"  # which the words of some scripts are written with
_NAMES = ("subject_id", "relation_id", "object_id", "subject", "relation", "object")


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a file, with its number. values: by the names of `anachron.data.own.columns.KNOWN`; all: by those of the
    file."""

    number: int
    period: Period
    values: dict[str, Any]
    all: Mapping[str, Any]

    def key(self, side: str) -> str:
        """What a subject, relation or object is known by: its id where it has one, or else its name."""
        return name_key(str(self.values.get(f"{side}_id") or self.values[side]))

    @property
    def group(self) -> tuple[str, str]:
        return self.key("subject"), self.key("relation")


def in_one_spelling(rows: Sequence[Row], notices: Notices) -> list[Row]:
    """The rows with each name as one of its spellings: without invisible characters and composed (NFC) where one is so,
    of those the one that most rows have, then the first. Of objects those of one subject and relation are compared.
    """
    spelled: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    places = [{name: _place(row, name) for name in _NAMES if row.values.get(name) is not None} for row in rows]
    for row, of_row in zip(rows, places, strict=True):
        for name, place in of_row.items():
            spelled[place][row.values[name]] += 1
    chosen: dict[tuple[str, ...], str] = {}
    for place, spellings in spelled.items():
        ordered = sorted(spellings, key=lambda text: (not _plain(text), -spellings[text]))  # the first, of equals
        chosen[place] = ordered[0]
        if len(ordered) > 1:
            said = " and ".join(map(code_points, ordered[:3]))
            notices.add(
                "names are spelled in several ways and read as one",
                f"{place[0]}: {said} are read as one name, {ordered[0]}",
            )
    return [
        replace(row, values=row.values | {name: chosen[place] for name, place in of_row.items()})
        for row, of_row in zip(rows, places, strict=True)
    ]


def _place(row: Row, name: str) -> tuple[str, ...]:
    """What the spellings of one name share."""
    same = name_key(str(row.values[name]))
    if name.endswith("_id"):
        return name, same
    return (name, *(row.group if name == "object" else ()), row.key(name), same)


def _plain(text: str) -> bool:
    invisible = any(is_invisible(sign) and sign not in _JOINERS for sign in text)
    return not invisible and unicodedata.is_normalized("NFC", text)
