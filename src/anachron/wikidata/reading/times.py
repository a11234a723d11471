"""Time values of Wikidata, read into the date texts of `anachron.core.dates`.

A time value is a text (`+2011-03-24T00:00:00Z`), a precision (11 day, 10 month, 9 year, 8 decade, 7 century,
down to 0; 12 to 14 are finer than a day) and a calendar. In the JSON there is no year 0: `-0044` is 44 BCE, as in our
dates. Parts that the precision does not cover mean nothing, whatever is written there; month 00 and day 00 occur
at any precision.
"""

import re
from typing import NamedTuple

from anachron.core.dates import Date, days_in_month

GREGORIAN = "http://www.wikidata.org/entity/Q1985727"
CALENDARS = {"Q1985727": "gregorian", "Q1985786": "julian"}
YEAR, MONTH, DAY = 9, 10, 11  # precisions
FINEST = 14

# Old dumps pad years to eleven digits. More than twelve digits without the padding are beyond our dates.
_TIME = re.compile(r"([+-])0*([0-9]{1,12})-([0-9]{2})-([0-9]{2})T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
_DAYS_BEFORE_MONTH = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365)
_JULIAN_LEAD = 2  # 1 January of year 1 (Julian) is two days before the same day (Gregorian)


class TimeValue(NamedTuple):
    """A time value as read.

    ``date``: text at the precision that is both stated and filled in, proleptic Gregorian for days; ``None`` where
    it cannot be read or does not exist. Below precision 9 it is the year as written, which names an interval.
    ``precision``: as stated. ``calendar``: ``gregorian`` or ``julian`` as stated, or the model itself when it is
    neither, and then there is no date.
    """

    date: str | None
    precision: int
    calendar: str


def read_time(time: str, precision: int, calendarmodel: str) -> TimeValue:
    """Read a time value of a dump; ``calendarmodel`` is a URI or only its id. Never raises for what a dump holds.

    No date comes out of a text that is not a Wikidata time (its sign is part of it), of a day or month that does
    not exist in the stated calendar, of a year 0, of a precision outside 0 to 14 and of an unknown calendar. Days of
    the Julian calendar become Gregorian; its months and years keep their digits, for they name no single Gregorian one.
    """
    calendar = CALENDARS.get(calendarmodel.rpartition("/")[2])
    match = _TIME.fullmatch(time)
    if calendar is None:
        return TimeValue(None, precision, calendarmodel)
    if match is None or not 0 <= precision <= FINEST:
        return TimeValue(None, precision, calendar)
    sign, year, month, day = match.groups()
    if year == "0":
        return TimeValue(None, precision, calendar)
    text = f"-{year:0>4}" if sign == "-" else year.zfill(4)
    if precision < MONTH or month == "00":
        return TimeValue(text, precision, calendar)
    if month > "12":
        return TimeValue(None, precision, calendar)
    if precision < DAY or day == "00":
        return TimeValue(f"{text}-{month}", precision, calendar)
    numbers = int(year) if sign == "+" else -int(year), int(month), int(day)
    if calendar == "julian":
        gregorian = julian_to_gregorian(*numbers)
        return TimeValue(None if gregorian is None else str(gregorian), precision, calendar)
    exists = numbers[2] <= 28 or numbers[2] <= days_in_month(numbers[0], numbers[1])
    return TimeValue(f"{text}-{month}-{day}" if exists else None, precision, calendar)


def first_year(year: int, precision: int) -> int | None:
    """First (historical) year of the decade, century or millennium that a year names at precision 8, 7 or 6.

    As Wikidata shows them: 2014 and 2010 are the 2010s, 2010 to 2019; 1901 and 2000 are the 20th century, 1901 to 2000;
    1001 and 2000 the second millennium. Before the common era the first year is the farthest: the 40s BCE are 49 to
    40 BCE. ``None`` for coarser ones, which are rounded: how much earlier it may have been is not said.
    """
    length = {8: 10, 7: 100, 6: 1000}.get(precision)
    if length is None:
        return None
    if precision == 8:  # decades begin with the year that ends in 0, and there is no year 0
        return max(year // 10 * 10, 1) if year > 0 else -(-year // 10 * 10 + 9)
    return (year - 1) // length * length + 1 if year > 0 else year // length * length


def julian_to_gregorian(year: int, month: int, day: int) -> Date | None:
    """The Gregorian day of a day of the (proleptic) Julian calendar, or ``None`` where that month has no such day.

    ``year`` is historical: -44 is 44 BCE, 0 does not occur.
    """
    if not 1 <= day <= _julian_days_in_month(year, month):
        return None
    return Date.from_day_number(_julian_day_number(year, month, day))


def _julian_leap(year: int) -> bool:
    return (year if year > 0 else year + 1) % 4 == 0


def _julian_days_in_month(year: int, month: int) -> int:
    return _DAYS_BEFORE_MONTH[month] - _DAYS_BEFORE_MONTH[month - 1] + (month == 2 and _julian_leap(year))


def _julian_day_number(year: int, month: int, day: int) -> int:
    past = (year if year > 0 else year + 1) - 1  # whole years since 1 January of year 1
    in_year = _DAYS_BEFORE_MONTH[month - 1] + (month > 2 and _julian_leap(year)) + day
    return 365 * past + past // 4 + in_year - _JULIAN_LEAD
