"""Dates as people write them: ``2009``, ``2009-01-20``, ``20 January 2009``, ``January 2009``, ``44 BCE``."""

import datetime
import re
from typing import Any

from anachron.core.dates import Date
from anachron.core.errors import DataError

_NAMES = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
_MONTHS = {name: n for n, name in enumerate(_NAMES, 1)} | {name[:3]: n for n, name in enumerate(_NAMES, 1)}
_MONTHS["sept"] = 9
_MIDNIGHT = re.compile(r"[T ]00:00(:00(\.0+)?)?(Z|[+-]00:?00)?$")
_ISO_SLASHES = re.compile(r"(\d{4})/(\d{1,2})(?:/(\d{1,2}))?")
_NUMBERS = re.compile(r"(\d{1,2})[/.-](\d{1,2})[/.-](\d{2,4})")
_ERA = re.compile(r"^(?:ad\s+)?(.*?)\s*\b(bce|bc|ce|ad)?$", re.IGNORECASE)
_DAY_FIRST = re.compile(r"(\d{1,2})(?:st|nd|rd|th)?\s+(?:of\s+)?([a-z]+)\.?,?\s+(\d{1,6})", re.IGNORECASE)
_MONTH_FIRST = re.compile(r"([a-z]+)\.?\s+(?:(\d{1,2})(?:st|nd|rd|th)?,?\s+)?(\d{1,6})", re.IGNORECASE)
_LAST_YEAR = 9_999
# Dates by which tables and programs say that there is none: years to come of which nobody knows, the last day of clocks
# that count seconds (2038) and of SQL's small dates (2079); for a start the first day of calendars and of pandas.
_FAR = 2099
_NO_END = frozenset({Date(2038, 1, 19), Date(2079, 6, 6)})
_NO_START = frozenset({Date(1, 1, 1), Date(1677, 9, 21)})
_FAR_MOMENT = re.compile(r"(?P<day>\d{4}-\d\d-\d\d)[T ]\d\d:\d\d\S*")
WRITE = "write 2009, 2009-01, 2009-01-20 or 20 January 2009 (-0044 or 44 BCE before the common era)"


def read_date(value: Any) -> Date:
    """A date from a text, a whole number (a year), a ``datetime.date`` or a ``datetime.datetime`` at midnight.

    Raises `DataError` stating the value, the rule and the fix for everything else, above all for dates of which the
    day and the month cannot be told apart.
    """
    if isinstance(value, datetime.datetime):
        if value.time() != datetime.time():
            raise DataError(f"{value.isoformat()!r} has a time of day; give the day alone, {value.date().isoformat()}")
        value = value.date()
    if isinstance(value, datetime.date):
        return Date(value.year, value.month, value.day)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise DataError(f"{value!r} is not a date: {WRITE}")
    date = _read_text(" ".join(value.split()))
    if abs(date.year) > _LAST_YEAR:
        raise DataError(f"{value!r} would be the year {date.year}: {_long_number(value)}")
    return date


def read_start(value: Any) -> Date:
    """`read_date` of a first date. Raises `DataError` also for one by which tables say that there is none."""
    if _far(day := _day_of_moment(value)) or day in _NO_START:
        meant = f"write {day.year:04d}-{day.month:02d} if it is meant" if day in _NO_START else "leave out one to come"
        raise DataError(
            f"{str(value)!r} is what many tables write where no date is known; a fact needs the date since which it "
            f"holds ({meant})"
        )
    return read_date(value)


def read_end(value: Any) -> Date:
    """`read_date` of a last date, of which `is_no_end` may say that it is none, also at a time of day."""
    day = _day_of_moment(value)
    return day if day is not None and is_no_end(day) else read_date(value)


def is_no_end(date: Date) -> bool:
    """Whether an end stands for "no end": a year from 2099 on, and the last day that some programs can write."""
    return _far(date) or date in _NO_END


def _far(date: Date | None) -> bool:
    return date is not None and date.year >= _FAR


def _day_of_moment(value: Any) -> Date | None:
    """The day of a date, also of one with a time of day; None where that cannot be read."""
    if isinstance(value, datetime.datetime):
        value = value.date()
    moment = _FAR_MOMENT.fullmatch(value.strip()) if isinstance(value, str) else None
    try:
        return read_date(moment["day"] if moment else value)
    except DataError:
        return None


def _read_text(text: str) -> Date:
    text = re.sub(r"^([+-]?\d+)\.0$", r"\1", _MIDNIGHT.sub("", text))
    if slashes := _ISO_SLASHES.fullmatch(text):
        return Date.parse("-".join(filter(None, slashes.groups())))
    if numbers := _NUMBERS.fullmatch(text):
        raise DataError(_which_is_the_day(text, *numbers.groups()))
    if re.search(r"\d[T ]\d\d:\d\d", text):
        raise DataError(f"{text!r} has a time of day; give the day alone, such as 2009-01-20")
    worded = _worded(text)
    if worded is not None:
        return worded
    try:
        return Date.parse(text)
    except DataError as error:
        if "not a date: write YYYY, " in str(error):
            raise DataError(f"{text!r} is not a date: {WRITE}") from None
        raise


def _worded(text: str) -> Date | None:
    """A date with a month or an era in words; None where there is neither."""
    found = _ERA.fullmatch(text)
    assert found is not None
    body, era = found[1], (found[2] or "").casefold()
    era = era or ("ad" if text.casefold().startswith("ad ") else "")
    if day_first := _DAY_FIRST.fullmatch(body):
        day, month, year = day_first.groups()
    elif month_first := _MONTH_FIRST.fullmatch(body):
        month, day, year = month_first.groups()
    elif era and body.isdecimal():
        day, month, year = None, None, body
    else:
        return None
    if month is not None and month.casefold() not in _MONTHS:
        raise DataError(f"{text!r} is not a date: {month!r} is not an English month; {WRITE}")
    if len(year) < 3 and not era:
        raise DataError(f"{text!r} lacks its century: write the year in full, such as 19{year:0>2}, or AD {year}")
    number = int(year) * (-1 if era in ("bc", "bce") else 1)
    try:
        return Date(number, None if month is None else _MONTHS[month.casefold()], None if day is None else int(day))
    except DataError as error:
        raise DataError(f"{text!r} is not a date: {error}") from None


def _which_is_the_day(text: str, one: str, two: str, year: str) -> str:
    """What is wrong with 01/02/2009, and what to write in its place."""
    if len(year) < 4:
        return f"{text!r} is not a date that can be told: give the year in four digits and first, 2009-01-20"
    readings = [(one, two), (two, one)] if one != two else [(one, two)]
    possible = [f"{year}-{int(month):02d}-{int(day):02d}" for day, month in readings if 1 <= int(month) <= 12]
    if not possible:
        return f"{text!r} is not a date: neither {one} nor {two} is a month; {WRITE}"
    if len(possible) > 1:
        return f"{text!r} may be {possible[0]} or {possible[1]}: day and month cannot be told apart; write one of these"
    return f"{text!r}: the year comes first; write {possible[0]}"


def _long_number(value: str) -> str:
    digits = value.strip().lstrip("+-")
    if re.fullmatch(r"[12]\d{7}", digits):
        return f"write {digits[:4]}-{digits[4:6]}-{digits[6:]} for a day"
    return f"is it a time stamp? {WRITE[0].upper()}{WRITE[1:]}"
