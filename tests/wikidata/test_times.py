"""Time values of Wikidata, against convertdate and by hand."""

import random

import pytest
from convertdate import gregorian, julian
from hypothesis import given
from hypothesis import strategies as st

from anachron.core.dates import Date
from anachron.wikidata.reading.times import GREGORIAN, TimeValue, read_time

JULIAN = "http://www.wikidata.org/entity/Q1985786"
FIRST_DAY = 1721425.5  # Julian day of 1 January of year 1, Gregorian


def historical(astronomical):
    return astronomical if astronomical > 0 else astronomical - 1


def astronomical(year):
    return year if year > 0 else year + 1


def time_text(year, month, day):
    return f"{'-' if year < 0 else '+'}{abs(year):04d}-{month:02d}-{day:02d}T00:00:00Z"


def date_text(year, month, day):
    return f"{'-' if year < 0 else ''}{abs(year):04d}-{month:02d}-{day:02d}"


@pytest.fixture(scope="module")
def julian_days():
    """Days of about 10,000 years around year 1, thicker around the ends of centuries and years."""
    draw = random.Random(7)
    days = [FIRST_DAY + draw.randrange(-5000 * 366, 5000 * 366) for _ in range(5_000)]
    for century in range(-40, 40):
        around = julian.to_jd(100 * century, 2, 28)
        days += [around + step for step in range(-15, 40)]
        days += [julian.to_jd(100 * century + 1, 1, 1) + step for step in range(-45, 20)]
    return days


def test_julian_days_become_the_gregorian_days_of_convertdate(julian_days):
    for jd in julian_days:
        (jy, jm, jd_), (gy, gm, gd) = julian.from_jd(jd), gregorian.from_jd(jd)
        expected = date_text(historical(gy), gm, gd)
        assert read_time(time_text(historical(jy), jm, jd_), 11, JULIAN) == (expected, 11, "julian")


def test_gregorian_days_are_the_days_of_convertdate(julian_days):
    for jd in julian_days:
        year, month, day = gregorian.from_jd(jd)
        read = read_time(time_text(historical(year), month, day), 11, GREGORIAN)
        assert read == (date_text(historical(year), month, day), 11, "gregorian")
        assert Date.parse(read.date).first_day == round(jd - FIRST_DAY) + 1


def test_which_days_exist_is_what_convertdate_says():
    for year in (-401, -400, -101, -100, -5, -4, -1, 1, 4, 100, 400, 1500, 1600, 1700, 1900, 2000, 2023, 2024):
        for model, calendar in ((GREGORIAN, gregorian), (JULIAN, julian)):
            for month in range(1, 13):
                for day in range(27, 33):
                    try:
                        exists = calendar.legal_date(astronomical(year), month, day)
                    except ValueError:
                        exists = False
                    assert (read_time(time_text(year, month, day), 11, model).date is not None) is exists


@given(
    st.integers(-99_999_999_999, 99_999_999_999).filter(bool),
    st.none() | st.integers(1, 12),
    st.none() | st.integers(1, 28),
)
def test_a_date_of_any_precision_reads_as_it_is_written(year, month, day):
    date = Date(year, month, None if month is None else day)
    precision = {4: 9, 7: 10}.get(date_length(date), 11)
    time = time_text(year, date.month or 0, date.day or 0)
    assert read_time(time, precision, GREGORIAN) == (str(date), precision, "gregorian")


def date_length(date):
    return 4 if date.month is None else 7 if date.day is None else 10


@given(st.text(max_size=30) | st.from_regex(r"[+-]?[0-9]{1,17}-[0-9]{1,2}-[0-9]{1,2}T[0-9:]{8}Z?"), st.integers(-1, 16))
def test_no_text_raises_and_every_date_read_is_one(text, precision):
    for model in (GREGORIAN, JULIAN, "", "http://www.wikidata.org/entity/Q12138"):
        read = read_time(text, precision, model)
        assert read.precision == precision
        if read.date is not None:
            assert str(Date.parse(read.date)) == read.date


@pytest.mark.parametrize(
    ("time", "precision", "date"),
    [
        ("+2011-03-24T00:00:00Z", 11, "2011-03-24"),
        ("+2011-03-24T13:45:59Z", 14, "2011-03-24"),
        ("+2011-03-24T00:00:00Z", 10, "2011-03"),
        ("+2011-03-24T00:00:00Z", 9, "2011"),
        ("+2011-03-00T00:00:00Z", 11, "2011-03"),
        ("+2011-00-00T00:00:00Z", 11, "2011"),
        ("+2011-00-24T00:00:00Z", 11, "2011"),
        ("+2011-00-00T00:00:00Z", 10, "2011"),
        ("+2011-02-31T00:00:00Z", 11, None),
        ("+2011-02-31T00:00:00Z", 10, "2011-02"),
        ("+2011-04-31T00:00:00Z", 11, None),
        ("+2011-13-01T00:00:00Z", 11, None),
        ("+2011-13-01T00:00:00Z", 10, None),
        ("+2011-13-01T00:00:00Z", 9, "2011"),
        ("+2011-12-32T00:00:00Z", 11, None),
        ("+2000-02-29T00:00:00Z", 11, "2000-02-29"),
        ("+1900-02-29T00:00:00Z", 11, None),
        ("-0044-03-15T00:00:00Z", 11, "-0044-03-15"),
        ("-0001-02-29T00:00:00Z", 11, "-0001-02-29"),
        ("-0044-00-00T00:00:00Z", 9, "-0044"),
        ("+0000-00-00T00:00:00Z", 9, None),
        ("-0000-01-01T00:00:00Z", 11, None),
        ("+0000-00-00T00:00:00Z", 7, None),
        ("+00000002013-01-01T00:00:00Z", 11, "2013-01-01"),
        ("-00000000044-03-15T00:00:00Z", 11, "-0044-03-15"),
        ("+0000000000000476-01-01T00:00:00Z", 9, "0476"),
        ("+1950-01-01T00:00:00Z", 8, "1950"),
        ("+1801-00-00T00:00:00Z", 7, "1801"),
        ("+2000-00-00T00:00:00Z", 6, "2000"),
        ("-13798000000-00-00T00:00:00Z", 3, "-13798000000"),
        ("+12011-03-24T00:00:00Z", 11, "12011-03-24"),
        ("-1000000000000-00-00T00:00:00Z", 0, None),
        ("+2011-03-24T00:00:00Z", 15, None),
        ("+2011-03-24T00:00:00Z", -1, None),
        ("2011-03-24T00:00:00Z", 11, None),
        ("+2011-03-24", 11, None),
        ("+2011-3-24T00:00:00Z", 11, None),
        ("+٢٠١١-03-24T00:00:00Z", 11, None),
        (" +2011-03-24T00:00:00Z\n", 11, None),
        ("somevalue", 11, None),
        ("", 11, None),
    ],
)
def test_traps_of_gregorian_times(time, precision, date):
    assert read_time(time, precision, GREGORIAN) == TimeValue(date, precision, "gregorian")
    assert read_time(time, precision, "Q1985727").date == date


@pytest.mark.parametrize(
    ("time", "precision", "date"),
    [
        ("+1582-10-04T00:00:00Z", 11, "1582-10-14"),  # the last Julian day of Rome is the eve of 15 October
        ("+1917-10-25T00:00:00Z", 11, "1917-11-07"),  # the October revolution
        ("+1732-02-11T00:00:00Z", 11, "1732-02-22"),  # Washington
        ("-0044-03-15T00:00:00Z", 11, "-0044-03-13"),
        ("+0001-01-01T00:00:00Z", 11, "-0001-12-30"),
        ("+1900-02-29T00:00:00Z", 11, "1900-03-13"),
        ("+1901-02-29T00:00:00Z", 11, None),
        ("-0001-02-29T00:00:00Z", 11, "-0001-02-27"),
        ("+1917-10-00T00:00:00Z", 11, "1917-10"),
        ("+1917-10-25T00:00:00Z", 10, "1917-10"),
        ("+1917-00-00T00:00:00Z", 11, "1917"),
        ("+1917-10-25T00:00:00Z", 9, "1917"),
        ("+0401-00-00T00:00:00Z", 7, "0401"),
    ],
)
def test_traps_of_julian_times(time, precision, date):
    assert read_time(time, precision, JULIAN) == TimeValue(date, precision, "julian")


def test_a_calendar_that_is_neither_is_kept_and_gives_no_date():
    model = "http://www.wikidata.org/entity/Q12138"
    assert read_time("+2011-03-24T00:00:00Z", 11, model) == (None, 11, model)
