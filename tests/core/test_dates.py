"""Day numbers and texts of dates, against datetime, calendar and NumPy."""

import calendar
import datetime as dt

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from anachron.core.dates import Date, as_date, days_in_month, is_leap
from anachron.core.errors import AnachronError, DataError

EPOCH = dt.date(1970, 1, 1).toordinal()
YEARS = st.integers(-30_000, 30_000).filter(bool) | st.integers(-12, 12).filter(bool)


def astronomical(year):
    return year + 1 if year < 0 else year


def numpy_day_number(year, month, day):
    months = np.datetime64(12 * (astronomical(year) - 1970) + month - 1, "M")
    return int(months.astype("datetime64[D]").astype(int)) + day - 1 + EPOCH


def numpy_month_length(year, month):
    months = np.datetime64(12 * (astronomical(year) - 1970) + month - 1, "M")
    return int(((months + 1).astype("datetime64[D]") - months.astype("datetime64[D]")).astype(int))


@st.composite
def dates(draw, years=YEARS):
    year, month = draw(years), draw(st.none() | st.integers(1, 12))
    if month is None:
        return Date(year)
    return Date(year, month, draw(st.none() | st.integers(1, numpy_month_length(year, month))))


@st.composite
def days(draw):
    year, month = draw(YEARS), draw(st.integers(1, 12))
    return Date(year, month, draw(st.integers(1, numpy_month_length(year, month))))


def test_day_numbers_are_datetime_ordinals_from_year_1_to_9999():
    for ordinal in range(1, dt.date.max.toordinal() + 1, 101):
        day = dt.date.fromordinal(ordinal)
        ours = Date(day.year, day.month, day.day)
        assert ours.first_day == ours.last_day == ours.midpoint == ordinal
        assert Date.from_day_number(ordinal) == ours
        assert str(ours) == day.isoformat()


def test_every_year_and_month_from_1_to_9999_has_the_days_of_datetime():
    for year in range(1, 9999, 7):
        first = dt.date(year, 1, 1).toordinal()
        assert (Date(year).first_day, Date(year).last_day) == (first, dt.date(year + 1, 1, 1).toordinal() - 1)
        for month in range(1, 13):
            length = calendar.monthrange(year, month)[1]
            date = Date(year, month)
            assert date.first_day == dt.date(year, month, 1).toordinal()
            assert date.last_day == dt.date(year, month, length).toordinal()
            assert days_in_month(year, month) == length


@given(days())
def test_day_numbers_are_numpy_days_before_year_1_and_after_9999(day):
    assert day.first_day == day.last_day == numpy_day_number(day.year, day.month, day.day)


@given(dates())
def test_a_date_is_the_interval_of_all_its_days(date):
    inside = [
        numpy_day_number(date.year, month, day)
        for month in ([date.month] if date.month else range(1, 13))
        for day in ([date.day] if date.day else range(1, numpy_month_length(date.year, month) + 1))
    ]
    assert date.first_day == inside[0]
    assert date.last_day == inside[-1]
    assert date.last_day - date.first_day + 1 == len(inside)
    assert date.midpoint == inside[(len(inside) - 1) // 2]
    assert date.granularity == {365: "year", 366: "year", 1: "day"}.get(len(inside), "month")


@given(st.integers(-12_000_000, 12_000_000) | st.integers(-1_500, 1_500))
def test_from_day_number_inverts_first_day(number):
    day = Date.from_day_number(number)
    assert day.granularity == "day"
    assert day.first_day == number
    assert numpy_day_number(day.year, day.month, day.day) == number


def test_days_from_5_bce_to_5_ce_follow_each_other_without_a_year_0():
    walk = []
    for year in [-5, -4, -3, -2, -1, 1, 2, 3, 4, 5]:
        february = 29 if year in (-5, -1, 4) else 28
        for month, length in enumerate([31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], start=1):
            walk += [(year, month, day) for day in range(1, length + 1)]
    start = walk.index((1, 1, 1))
    for i, expected in enumerate(walk):
        day = Date.from_day_number(1 + i - start)
        assert (day.year, day.month, day.day) == expected


def test_44_bce():
    # Caesar died on Julian day 1,705,426: 15 March 44 BCE, in the proleptic Gregorian calendar 13 March.
    assert Date.parse("-0044-03-13").first_day == 1_705_426 - 1_721_425
    assert Date.parse("-0044") == Date.parse("-44") == Date(-44)
    assert str(Date(-44)) == "-0044"
    assert Date(-44).first_day == numpy_day_number(-44, 1, 1)
    assert Date(1).first_day - Date(-44).first_day == 44 * 365 + 11  # leap: 41, 37, ..., 1 BCE


@pytest.mark.parametrize(
    ("year", "leap"),
    [(year, True) for year in (2000, 2024, 4, 10_000, -1, -5, -45, -401)]
    + [(year, False) for year in (1900, 2023, 10_100, -4, -44, -101)],
)
def test_leap_years(year, leap):
    assert is_leap(year) is leap
    assert Date(year).last_day - Date(year).first_day == 364 + leap
    assert days_in_month(year, 2) == 28 + leap


@given(YEARS, YEARS)
def test_leap_years_repeat_every_400_years(a, b):
    assert is_leap(a) == calendar.isleap(2000 + astronomical(a) % 400)
    assume(a < b)
    assert Date(a).last_day < Date(b).first_day


@given(days(), days())
def test_order_of_day_numbers_is_order_in_the_calendar(a, b):
    assert (a.first_day < b.first_day) == ((a.year, a.month, a.day) < (b.year, b.month, b.day))


@given(dates())
def test_text_round_trip(date):
    text = str(date)
    assert Date.parse(text) == date
    assert Date.parse(f"  {text}\n") == date
    year = text.removeprefix("-").split("-")[0]
    assert len(year) >= 4 and int(year) == abs(date.year)
    assert text.startswith("-") == (date.year < 0)
    assert as_date(text) == as_date(date) == date


@pytest.mark.parametrize(
    ("text", "date", "written"),
    [
        ("2011", Date(2011), "2011"),
        ("2011-03", Date(2011, 3), "2011-03"),
        ("2011-3-4", Date(2011, 3, 4), "2011-03-04"),
        ("+2011-03-24", Date(2011, 3, 24), "2011-03-24"),
        ("476", Date(476), "0476"),
        ("0090", Date(90), "0090"),
        ("0005-03", Date(5, 3), "0005-03"),
        ("-44", Date(-44), "-0044"),
        ("12011-03", Date(12011, 3), "12011-03"),
        ("-0044-03-15", Date(-44, 3, 15), "-0044-03-15"),
        ("-10000", Date(-10_000), "-10000"),
        ("2000-02-29", Date(2000, 2, 29), "2000-02-29"),
        ("-0001-02-29", Date(-1, 2, 29), "-0001-02-29"),
    ],
)
def test_parse(text, date, written):
    assert Date.parse(text) == date
    assert str(date) == written


NOT_DATES = ["", "2011-", "2011-03-", "2011/03/24", "24-03-2011", "2011-03-24T00:00", "--44", "2011-003"]
NO_SUCH_YEAR = ["0", "0000", "-0000", "0000-01-01"]
NO_SUCH_MONTH = ["2011-00", "2011-13", "2011-00-05"]
NO_SUCH_DAY = ["2011-02-29", "1900-02-29", "-0044-02-29", "2000-02-30", "2011-04-31", "2011-03-32"]


@pytest.mark.parametrize("text", [*NOT_DATES, *NO_SUCH_YEAR, *NO_SUCH_MONTH, *NO_SUCH_DAY])
def test_impossible_dates_are_refused_and_named(text):
    with pytest.raises(DataError) as refused:
        Date.parse(text)
    assert repr(text) in str(refused.value)
    assert isinstance(refused.value, AnachronError) and isinstance(refused.value, ValueError)


@pytest.mark.parametrize("text", ["90", "+90", "5", "90-03", "24-03-11"])
def test_a_year_that_may_lack_its_century_is_refused(text: str):
    year = text.removeprefix("+").partition("-")[0]
    with pytest.raises(DataError, match=rf"write {int(year):04d} for the year {int(year)}, or .* 19{int(year):02d}"):
        Date.parse(text)


@pytest.mark.parametrize("value", [None, 2011, 2011.0, dt.date(2011, 3, 24), b"2011"])
def test_what_is_not_text_is_refused(value):
    with pytest.raises(DataError, match="is not a date"):
        Date.parse(value)


@pytest.mark.parametrize(
    ("parts", "named"),
    [
        ((0,), "year 0"),
        ((0, 1, 1), "year 0"),
        ((2011, 13), "month 13"),
        ((2011, 0), "month 0"),
        ((2011, -1), "month -1"),
        ((2011, 2, 29), "day 29 of 2011-02"),
        ((2011, 4, 0), "day 0 of 2011-04"),
        ((-44, 4, 31), "day 31 of -0044-04"),
        ((2011, None, 5), "day 5 without a month"),
    ],
)
def test_impossible_parts_are_refused_and_named(parts, named):
    with pytest.raises(DataError, match=named):
        Date(*parts)


@given(YEARS, st.integers(1, 12), st.integers(-3, 40))
def test_a_day_is_accepted_exactly_when_its_month_has_it(year, month, day):
    if 1 <= day <= numpy_month_length(year, month):
        assert Date(year, month, day).day == day
    else:
        with pytest.raises(DataError, match=f"day {day} of"):
            Date(year, month, day)
