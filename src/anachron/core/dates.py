"""Dates at three granularities, proleptic Gregorian, with BCE years and years of any length.

There is no year 0: ``-0044`` is 44 BCE and is followed, forty-four years later, by year 1.
Arithmetic is done on *day numbers*: 1 is 1 January of year 1, the same count as
``datetime.date.toordinal``, continued below 1 and beyond year 9999.
"""

import datetime
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from anachron.core.errors import ConfigError, DataError

Granularity = Literal["year", "month", "day"]
GRANULARITIES: tuple[Granularity, ...] = ("year", "month", "day")

_PATTERN = re.compile(r"([+-]?)([0-9]{1,12})(?:-([0-9]{1,2})(?:-([0-9]{1,2}))?)?")
_NOT_A_DATE = (
    "{text!r} is not a date: write YYYY, YYYY-MM or YYYY-MM-DD, with a leading '-' for years before the common era"
)
DAYS_A_YEAR = 365.2425  # on average
_LAST_ORDINAL = datetime.date.max.toordinal()
_DAYS_BEFORE_MONTH = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365)


def astronomical(year: int) -> int:
    """Year without the gap at 0 (1 BCE is 0), as the leap rule and counting years need it."""
    return year if year > 0 else year + 1


def historical(year: int) -> int:
    """The inverse of `astronomical`."""
    return year if year > 0 else year - 1


def is_leap(year: int) -> bool:
    """Whether a (historical) year has 366 days in the proleptic Gregorian calendar."""
    y = astronomical(year)
    return y % 4 == 0 and (y % 100 != 0 or y % 400 == 0)


def days_in_month(year: int, month: int) -> int:
    """Number of days of a month (1 to 12) of a historical year."""
    days = _DAYS_BEFORE_MONTH[month] - _DAYS_BEFORE_MONTH[month - 1]
    return days + (month == 2 and is_leap(year))


@lru_cache(maxsize=1 << 16)
def _day_number(year: int, month: int, day: int) -> int:
    past = astronomical(year) - 1  # whole years since 1 January of year 1
    leaps = past // 4 - past // 100 + past // 400
    in_year = _DAYS_BEFORE_MONTH[month - 1] + (month > 2 and is_leap(year)) + day
    return 365 * past + leaps + in_year


def year_of(number: int) -> int:
    """The (historical) year that the day with this number lies in."""
    if 1 <= number <= _LAST_ORDINAL:
        return datetime.date.fromordinal(number).year
    # 400 Gregorian years have 146,097 days; an estimate that is at most one year off is then corrected.
    year = (400 * (number - 1)) // 146097 + 1
    while _day_number(historical(year), 1, 1) > number:
        year -= 1
    while _day_number(historical(year + 1), 1, 1) <= number:
        year += 1
    return historical(year)


@dataclass(frozen=True, slots=True)
class Date:
    """A year, a month of a year, or a day: the interval of all its days.

    ``month`` and ``day`` are ``None`` where the date is coarser. Raises `DataError` for a year 0,
    a month outside 1 to 12 and a day that the month does not have.
    """

    year: int
    month: int | None = None
    day: int | None = None

    def __post_init__(self) -> None:
        if self.year == 0:
            raise DataError("year 0: there is no year 0; write 1 BCE as -0001")
        if self.month is None:
            if self.day is not None:
                raise DataError(f"day {self.day} without a month; give year, month and day")
            return
        if not 1 <= self.month <= 12:
            raise DataError(f"month {self.month} of year {self.year}: months go from 1 to 12")
        if self.day is not None and not 1 <= self.day <= days_in_month(self.year, self.month):
            last = days_in_month(self.year, self.month)
            raise DataError(
                f"day {self.day} of {_year_text(self.year)}-{self.month:02d}: that month goes from 1 to {last}"
            )

    @classmethod
    def parse(cls, text: str) -> "Date":
        """Read ``2011``, ``2011-03``, ``2011-03-24``, ``-0044-03-15``, ``0090``, ``476`` or ``12011``.

        A year of one or two digits may have lost its century, or be a day: unless it is before the common era, it needs
        its zeros. Raises `DataError` for anything else.
        """
        if not isinstance(text, str):
            raise DataError(_NOT_A_DATE.format(text=text))
        return _parse(text)

    @classmethod
    def from_day_number(cls, number: int) -> "Date":
        """The day with this day number (inverse of ``first_day`` for days)."""
        if 1 <= number <= _LAST_ORDINAL:
            day = datetime.date.fromordinal(number)
            return cls(day.year, day.month, day.day)
        year, month = year_of(number), 12
        while _day_number(year, month, 1) > number:
            month -= 1
        return cls(year, month, number - _day_number(year, month, 1) + 1)

    @property
    def granularity(self) -> Granularity:
        if self.month is None:
            return "year"
        return "month" if self.day is None else "day"

    @property
    def first_day(self) -> int:
        """Day number of the first day inside this date."""
        return _day_number(self.year, self.month or 1, self.day or 1)

    @property
    def last_day(self) -> int:
        """Day number of the last day inside this date."""
        month = self.month or 12
        return _day_number(self.year, month, self.day or days_in_month(self.year, month))

    @property
    def midpoint(self) -> int:
        """Day number in the middle: first day + half of the days between, rounded down."""
        return self.first_day + (self.last_day - self.first_day) // 2

    def __str__(self) -> str:
        text = _year_text(self.year)
        if self.month is not None:
            text += f"-{self.month:02d}"
        if self.day is not None:
            text += f"-{self.day:02d}"
        return text


@lru_cache(maxsize=1 << 16)  # the statements of a run have the same few dates
def _parse(text: str) -> Date:
    match = _PATTERN.fullmatch(text.strip())
    if match is None:
        raise DataError(_NOT_A_DATE.format(text=text))
    sign, year, month, day = match.groups()
    if len(year) < 3 and sign != "-" and int(year):
        raise DataError(
            f"{text!r} is not a date: write {year:0>4} for the year {int(year)}, or the century too, such as "
            f"19{year:0>2}; the year comes first"
        )
    try:
        return Date(
            -int(year) if sign == "-" else int(year),
            None if month is None else int(month),
            None if day is None else int(day),
        )
    except DataError as error:
        raise DataError(f"{text!r} is not a date: {error}") from None


def _year_text(year: int) -> str:
    return f"{'-' if year < 0 else ''}{abs(year):04d}"


def as_date(value: "Date | datetime.date | str | int") -> Date:
    """A `Date` from itself, from its text, from a year as a whole number, or from a day of the standard library."""
    if isinstance(value, Date):
        return value
    if isinstance(value, datetime.date):  # a datetime too: its day
        return Date(value.year, value.month, value.day)
    if isinstance(value, bool):
        raise DataError(f"{value} is not a date: write YYYY, YYYY-MM or YYYY-MM-DD")
    return Date(value) if isinstance(value, int) else Date.parse(value)


def months_before(day: datetime.date, number: int) -> list[str]:
    """The whole months before a day as ``YYYY-MM``, oldest first. Raises `ConfigError` for fewer than one."""
    if number < 1:
        raise ConfigError(f"--months {number}: give at least 1")
    last = day.year * 12 + day.month - 2  # months since year 0, January is 0; the one before the day's
    return [f"{month // 12:04d}-{month % 12 + 1:02d}" for month in range(last - number + 1, last + 1)]
