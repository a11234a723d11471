"""Periods of validity, and how a date lies to one: its status and its relative position alpha.

Two conventions say what a boundary coarser than a day means (TimeStress, section 3.1 and footnote 3):

``released``
    what the published TimeStress data uses: the start is completed to its first day, the end to its
    last day, and days are compared. 2017 to 2019 makes the context 2017 correct.
``paper``
    what the text of the paper says: a boundary coarser than a day leaves its own unit undecided.
    2017 to 2019 makes 2017 and 2019 transitional. Midpoint and length are taken between the
    midpoints of the two boundary dates.

They agree when both boundaries are days.
"""

import datetime
import math
from dataclasses import dataclass
from typing import Literal

from anachron.core.dates import Date, as_date
from anachron.core.errors import ConfigError, DataError

Boundaries = Literal["released", "paper"]
Status = Literal["correct", "incorrect", "transitional", "discarded", "none"]
STATUSES: tuple[Status, ...] = ("correct", "incorrect", "transitional", "discarded", "none")


def check_boundaries(boundaries: str) -> None:
    if boundaries not in ("released", "paper"):
        raise ConfigError(f"boundary convention {boundaries!r}: choose 'released' or 'paper'")


@dataclass(frozen=True, slots=True)
class Bounds:
    """Day numbers that decide the status of a date; infinite at an open end."""

    outer_first: float
    inner_first: float
    inner_last: float
    outer_last: float

    def status(self, first: int, last: int) -> Status:
        """Of a date with this first and last day."""
        if last < self.outer_first or first > self.outer_last:
            return "incorrect"
        return "correct" if self.inner_first <= first and last <= self.inner_last else "transitional"


@dataclass(frozen=True, slots=True, init=False)
class Period:
    """A pair of dates, both inclusive; ``None`` leaves an end open. Each is a `Date`, its text, a year or a
    ``datetime.date``.

    >>> Period("2009-01-20", "2017-01-20").status("2011")
    'correct'

    Raises `DataError` when the end lies before the start.
    """

    start: Date | None
    end: Date | None

    def __init__(
        self, start: Date | datetime.date | str | int | None, end: Date | datetime.date | str | int | None
    ) -> None:
        object.__setattr__(self, "start", None if start is None else as_date(start))
        object.__setattr__(self, "end", None if end is None else as_date(end))
        if self.start is not None and self.end is not None and self.end.last_day < self.start.first_day:
            raise DataError(f"the end {self.end} lies before the start {self.start}; swap or correct them")

    @property
    def closed(self) -> bool:
        """Whether both ends are known."""
        return self.start is not None and self.end is not None

    def has_length(self, boundaries: Boundaries = "released") -> bool:
        """Whether its midpoint, length and alpha exist: both ends are known and it lasts more than a day."""
        if not self.closed:
            return False
        first, last = self._ends(boundaries)
        return first < last

    def _ends(self, boundaries: Boundaries) -> tuple[int, int]:
        """Day numbers that its length is taken between."""
        check_boundaries(boundaries)
        if self.start is None or self.end is None:
            raise DataError(f"the period {self} is open; its midpoint, length and alpha need a start and an end")
        if boundaries == "released":
            return self.start.first_day, self.end.last_day
        return self.start.midpoint, self.end.midpoint

    def centre(self, boundaries: Boundaries = "released") -> tuple[int, int]:
        """(midpoint as a day number, length in days) under a convention. Needs both ends.

        The midpoint is rounded down to a whole day; the length is end - start, so one day less than
        the number of days from the first to the last. Raises `DataError` for an open period and for one of
        no length under the convention (a single day, or boundaries such as 2017 to 2017-05 under ``paper``).
        """
        first, last = self._ends(boundaries)
        if last <= first:
            raise DataError(f"the period {self} has no length under the boundaries {boundaries!r}; give a longer one")
        return first + (last - first) // 2, last - first

    def bounds(self, boundaries: Boundaries = "released") -> "Bounds":
        """Between which day numbers a date is not incorrect, and between which it is correct."""
        check_boundaries(boundaries)
        outer_first = None if self.start is None else self.start.first_day
        outer_last = None if self.end is None else self.end.last_day
        inner_first, inner_last = outer_first, outer_last
        if boundaries == "paper":  # the days inside a coarse boundary are neither in nor out
            if self.start is not None and self.start.granularity != "day":
                inner_first = self.start.last_day + 1
            if self.end is not None and self.end.granularity != "day":
                inner_last = self.end.first_day - 1
        return Bounds(
            *(-math.inf if day is None else day for day in (outer_first, inner_first)),
            *(math.inf if day is None else day for day in (inner_last, outer_last)),
        )

    def status(self, context: Date | str, boundaries: Boundaries = "released") -> Status:
        """``correct``, ``incorrect`` or ``transitional``: how the days of a date lie to the period."""
        tau = as_date(context)
        return self.bounds(boundaries).status(tau.first_day, tau.last_day)

    def alpha(self, context: Date | str, boundaries: Boundaries = "released") -> float:
        """Relative position: (midpoint of the date - midpoint of the period) / length of the period.

        Both in days. Negative before the middle of the period. Raises `DataError` for an open period and
        for one of no length (a single day), where the quotient does not exist.
        """
        middle, length = self.centre(boundaries)
        return (as_date(context).midpoint - middle) / length

    def meets(self, context: Date | str) -> bool:
        """Whether any day of a date may lie in the period."""
        return self.status(context) != "incorrect"

    def __str__(self) -> str:
        return f"[{self.start or '..'}, {self.end or '..'}]"
