"""Dates as people write them: ``2009``, ``2009-01-20``, ``20.1.2009``, ``20 January 2009``, ``44 BCE``.

Whether the day or the month comes first in ``08/12/2004`` is told by the other dates of its file (`settled_order`).
"""

import datetime
import re
from collections.abc import Iterable
from typing import Any, Literal, get_args

from anachron.core.dates import Date
from anachron.core.errors import DataError
from anachron.core.sameness import plain
from anachron.data.own.date_words import months, without_since, without_until, without_words

Order = Literal["dmy", "mdy"]  # whether the day or the month comes first
ORDERS: tuple[Order, ...] = get_args(Order)
FIRST: dict[Order, str] = {"dmy": "day first", "mdy": "month first"}

_MIDNIGHT = re.compile(r"[T ]00:00(:00(\.0+)?)?(Z|[+-]00:?00)?$")
_ISO_SLASHES = re.compile(r"(\d{4})/(\d{1,2})(?:/(\d{1,2}))?")
_NUMBERS = re.compile(r"(\d{1,2})(?:[/-]|(?P<dots>\. ?))(\d{1,2})[/.-] ?(\d{2,4})")
_ERA = re.compile(r"^(?:ad\s+)?(.*?)(?:\s*\b(bce|bc|ce|ad))?$", re.IGNORECASE)
_OF = r"(?:(?:of|de|del|do) |d['’])?"
_DAY_FIRST = re.compile(
    rf"(\d{{1,2}})(?:st|nd|rd|th|er|\.?[º°ª]|\.)? ?{_OF}([^\W\d_]+)(?:[.,]+ ?| ){_OF}(\d{{1,6}})", re.IGNORECASE
)
_MONTH_FIRST = re.compile(rf"([^\W\d_]+)\.? (?:(\d{{1,2}})(?:st|nd|rd|th)?,? )?{_OF}(\d{{1,6}})", re.IGNORECASE)
_LAST_YEAR = 9_999
# Dates by which tables and programs say that there is none: years to come of which nobody knows, the last day of clocks
# that count seconds (2038) and of SQL's small dates (2079); for a start the first day of calendars and of pandas.
_FAR = 2099
_NO_END = frozenset({Date(2038, 1, 19), Date(2079, 6, 6)})
_NO_START = frozenset({Date(1, 1, 1), Date(1677, 9, 21)})
_FAR_MOMENT = re.compile(r"(?P<day>\d{4}-\d\d-\d\d)[T ]\d\d:\d\d\S*")
WRITE = "write 2009, 2009-01, 2009-01-20 or 20 January 2009 (-0044 or 44 BCE before the common era)"


def read_date(value: Any, order: Order | None = None) -> Date:
    """A date from a text, a whole number (a year), a ``datetime.date`` or a ``datetime.datetime`` at midnight.

    order: of day and month; without it those with dots are day first, others as they can only be.
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
    date = _read_text(" ".join(value.split()), order)
    if abs(date.year) > _LAST_YEAR:
        raise DataError(f"{value!r} would be the year {date.year}: {_long_number(value)}")
    return date


def read_start(value: Any, order: Order | None = None) -> Date:
    """`read_date` of a first date, also behind "since". Raises `DataError` also for one by which tables say that there
    is none."""
    value = without_since(value.strip()) if isinstance(value, str) else value
    if _far(day := _day_of_moment(value, order)) or day in _NO_START:
        meant = f"write {day.year:04d}-{day.month:02d} if it is meant" if day in _NO_START else "leave out one to come"
        raise DataError(
            f"{str(value)!r} is what many tables write where no date is known; a fact needs the date since which it "
            f"holds ({meant})"
        )
    return read_date(value, order)


def read_end(value: Any, order: Order | None = None) -> Date:
    """`read_date` of a last date, also behind "until"; `is_no_end` may say that it is none, also at a time of day."""
    value = without_until(value.strip()) if isinstance(value, str) else value
    day = _day_of_moment(value, order)
    return day if day is not None and is_no_end(day) else read_date(value, order)


def settled_order(texts: Iterable[Any]) -> tuple[Order | None, tuple[str, ...]]:
    """The order of day and month in dates of one file, and a text that shows it: one with dots, which is day first, or
    one that can be read in one way only. No order, and a text of each, where they contradict each other; neither where
    none shows it."""
    shown: dict[Order, str] = {}
    for text in texts:
        if (numbers := _numbers(text)) is None:
            continue
        one, two = int(numbers[1]), int(numbers[3])
        if numbers["dots"] or one > 12 >= two:
            shown.setdefault("dmy", text)
        elif two > 12 >= one:
            shown.setdefault("mdy", text)
    return (next(iter(shown)) if len(shown) == 1 else None), tuple(shown.values())


def needs_order(text: Any) -> bool:
    """Whether a text is a date whose day and month may be taken for each other."""
    numbers = _numbers(text)
    try:
        return numbers is not None and _of_numbers(text, numbers, "dmy") != _of_numbers(text, numbers, "mdy")
    except DataError:
        return False


def _numbers(text: Any) -> re.Match[str] | None:
    return _NUMBERS.fullmatch(_without_time(without_words(text))) if isinstance(text, str) else None


def is_no_end(date: Date) -> bool:
    """Whether an end stands for "no end": a year from 2099 on, and the last day that some programs can write."""
    return _far(date) or date in _NO_END


def _far(date: Date | None) -> bool:
    return date is not None and date.year >= _FAR


def _day_of_moment(value: Any, order: Order | None) -> Date | None:
    """The day of a date, also of one with a time of day; None where that cannot be read."""
    if isinstance(value, datetime.datetime):
        value = value.date()
    moment = _FAR_MOMENT.fullmatch(value.strip()) if isinstance(value, str) else None
    try:
        return read_date(moment["day"] if moment else value, order)
    except DataError:
        return None


def _without_time(text: str) -> str:
    return _MIDNIGHT.sub("", " ".join(text.split()))


def _read_text(text: str, order: Order | None) -> Date:
    text = re.sub(r"^([+-]?\d+)\.0$", r"\1", _without_time(text))
    if slashes := _ISO_SLASHES.fullmatch(text):
        return Date.parse("-".join(filter(None, slashes.groups())))
    if numbers := _NUMBERS.fullmatch(text):
        return _of_numbers(text, numbers, order)
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
    if month is not None and plain(month) not in months():
        raise DataError(f"{text!r} is not a date: {month!r} is no month; {WRITE}")
    if len(year) < 3 and not era:
        raise DataError(f"{text!r} lacks its century: write the year in full, such as 19{year:0>2}, or AD {year}")
    number = int(year) * (-1 if era in ("bc", "bce") else 1)
    try:
        return Date(number, None if month is None else months()[plain(month)], None if day is None else int(day))
    except DataError as error:
        raise DataError(f"{text!r} is not a date: {error}") from None


def _of_numbers(text: str, numbers: re.Match[str], order: Order | None) -> Date:
    """The date of ``01/02/2009`` or ``1.2.2009``."""
    one, _, two, year = numbers.groups()
    if len(year) < 4:
        raise DataError(f"{text!r} is not a date that can be told: give the year in four digits, such as 2009-01-20")
    readings: dict[Order, tuple[int, int]] = {"dmy": (int(two), int(one)), "mdy": (int(one), int(two))}
    possible = {which: month_day for which, month_day in readings.items() if 1 <= month_day[0] <= 12}
    if not possible:
        raise DataError(f"{text!r} is not a date: neither {one} nor {two} is a month; {WRITE}")
    if order is None and numbers["dots"]:
        order = "dmy"
    if order is None and len(set(possible.values())) == 1:
        order = next(iter(possible))
    if order is None:
        first, second = (f"{year}-{month:02d}-{day:02d}" for month, day in possible.values())
        raise DataError(
            f"{text!r} may be {first} or {second}: day and month cannot be told apart; write one of these, or give "
            f"--dates dmy ({FIRST['dmy']}) or mdy ({FIRST['mdy']})"
        )
    if order not in possible:
        month, day = next(iter(possible.values()))
        raise DataError(
            f"{text!r} read {FIRST[order]} has no month {two if order == 'dmy' else one}; write "
            f"{year}-{month:02d}-{day:02d} if that is meant"
        )
    month, day = possible[order]
    try:
        return Date(int(year), month, day)
    except DataError as error:
        raise DataError(f"{text!r} is not a date: {error}") from None


def _long_number(value: str) -> str:
    digits = value.strip().lstrip("+-")
    if re.fullmatch(r"[12]\d{7}", digits):
        return f"write {digits[:4]}-{digits[4:6]}-{digits[6:]} for a day"
    if re.fullmatch(r"\d{5}(\.\d+)?", digits):  # of days since the end of 1899
        return f"is it a spreadsheet's number of a day? Give its cells the format of a date, or {WRITE}"
    return f"is it a time stamp? {WRITE[0].upper()}{WRITE[1:]}"
