"""Status and relative position, against loops over single days, datetime and NumPy."""

import datetime as dt

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from anachron.core.dates import Date
from anachron.core.errors import ConfigError, DataError
from anachron.core.periods import Period, check_boundaries

CONVENTIONS = ("released", "paper")
CALENDAR = {}  # the days of each year, month and day from 2010 to 2019, by text
for _day in (dt.date(2010, 1, 1) + dt.timedelta(n) for n in range(3652)):
    for _cut in (4, 7, 10):
        CALENDAR.setdefault(_day.isoformat()[:_cut], []).append(_day)

days = st.dates(dt.date(2012, 1, 1), dt.date(2017, 12, 31))
near_days = st.dates(dt.date(2014, 11, 1), dt.date(2016, 3, 1))
texts = st.builds(lambda day, cut: day.isoformat()[:cut], days | near_days, st.sampled_from([4, 7, 10]))
convention = st.sampled_from(CONVENTIONS)


def expected_status(start, end, context, boundaries):
    """Compare sets of days, one day at a time."""
    starts = CALENDAR[start] if start else [dt.date.min]
    ends = CALENDAR[end] if end else [dt.date.max]
    undecided = set()
    if boundaries == "paper":
        undecided = {day for unit in (starts, ends) if len(unit) > 1 for day in unit}
    tau = CALENDAR[context]
    possible = [day for day in tau if starts[0] <= day <= ends[-1]]
    if not possible:
        return "incorrect"
    return "correct" if [day for day in possible if day not in undecided] == tau else "transitional"


@given(texts, texts, texts, convention)
def test_status_compares_sets_of_days(start, end, context, boundaries):
    assume(CALENDAR[end][-1] >= CALENDAR[start][0])
    expected = expected_status(start, end, context, boundaries)
    assert Period(start, end).status(context, boundaries) == expected
    assert Period(start, end).status(Date.parse(context), boundaries) == expected


@given(st.none() | texts, st.none() | texts, texts, convention)
def test_status_with_open_ends(start, end, context, boundaries):
    assume(start is None or end is None)
    assert Period(start, end).status(context, boundaries) == expected_status(start, end, context, boundaries)


@pytest.mark.parametrize(
    ("context", "released", "paper"),
    [
        ("2016", "incorrect", "incorrect"),
        ("2017", "correct", "transitional"),
        ("2018", "correct", "correct"),
        ("2019", "correct", "transitional"),
        ("2020", "incorrect", "incorrect"),
        ("2017-05-03", "correct", "transitional"),
        ("2017-01-01", "correct", "transitional"),
        ("2016-12-31", "incorrect", "incorrect"),
        ("2017-12-31", "correct", "transitional"),
        ("2018-01-01", "correct", "correct"),
        ("2018-12", "correct", "correct"),
        ("2018-12-31", "correct", "correct"),
        ("2019-01-01", "correct", "transitional"),
        ("2019-12", "correct", "transitional"),
        ("2020-01-01", "incorrect", "incorrect"),
    ],
)
def test_2017_to_2019_under_both_conventions(context, released, paper):
    period = Period("2017", "2019")
    assert period.status(context) == period.status(context, "released") == released
    assert period.status(context, "paper") == paper


def test_centre_of_2017_to_2019_under_both_conventions():
    first, last = dt.date(2017, 1, 1).toordinal(), dt.date(2019, 12, 31).toordinal()
    assert Period("2017", "2019").centre("released") == (dt.date(2018, 7, 2).toordinal(), last - first)
    # 2 July 2017 and 2 July 2019 are the middles of the two boundaries.
    assert Period("2017", "2019").centre("paper") == (dt.date(2018, 7, 2).toordinal(), 730)


def test_obama():
    period = Period("2009-01-20", "2017-01-20")
    statuses = {year: period.status(str(year)) for year in (2008, 2009, 2011, 2017, 2018)}
    assert list(statuses.values()) == ["incorrect", "transitional", "correct", "transitional", "incorrect"]
    assert period.status("2017-01-20") == "correct"
    assert period.status("2017-01-21") == "incorrect"
    assert period.alpha("2013-01-20") == 0


def test_44_bce_is_one_year_before_43_bce():
    caesar = Period("-0049-01-10", "-0044-03-15")
    assert [caesar.status(f"-00{year}") for year in (50, 49, 48, 45, 44, 43)] == (
        ["incorrect", "transitional", "correct", "correct", "transitional", "incorrect"]
    )
    assert caesar.alpha("-0047") < 0 < caesar.alpha("-0046")
    start, end = np.datetime64("-0048-01-10"), np.datetime64("-0043-03-15")  # astronomical years
    assert caesar.centre()[1] == int((end - start).astype(int))
    across = Period("-0001-12-31", "0001-01-01")
    assert across.centre()[1] == 1
    assert [across.status(y) for y in ("-0001", "0001", "-0001-12-31", "0001-01-01")] == (
        ["transitional", "transitional", "correct", "correct"]
    )


@given(days, days, texts)
def test_conventions_agree_when_the_boundaries_are_days(a, b, context):
    assume(a != b)
    period = Period(min(a, b).isoformat(), max(a, b).isoformat())
    assert period.status(context, "released") == period.status(context, "paper")
    assert period.centre("released") == period.centre("paper")


@given(texts, texts, texts, convention)
def test_alpha_is_the_quotient_of_the_definition(start, end, context, boundaries):
    def middle(first, last):
        return first + (last - first) // 2  # a date plus half a day is that date

    def ends(text):
        return CALENDAR[text][0], CALENDAR[text][-1]

    if boundaries == "released":
        first, last = ends(start)[0], ends(end)[1]
    else:
        first, last = middle(*ends(start)), middle(*ends(end))
    assume(first < last)
    period = Period(start, end)
    centre = middle(first, last)
    assert period.centre(boundaries) == (centre.toordinal(), (last - first).days)
    assert period.alpha(context, boundaries) == (middle(*ends(context)) - centre).days / (last - first).days


@given(st.integers(-9_000_000, 9_000_000), st.integers(1, 2_000_000), st.integers(-3_000_000, 3_000_000))
@example(-400, 800, 0)
def test_alpha_agrees_with_numpy_in_any_year(first, length, offset):
    start, end = np.datetime64(first, "D"), np.datetime64(first + length, "D")
    middle = start + (end - start) / 2
    expected = ((middle + offset) - middle) / (end - start)
    unix = dt.date(1970, 1, 1).toordinal()
    period = Period(Date.from_day_number(first + unix), Date.from_day_number(first + length + unix))
    assert period.alpha(Date.from_day_number(int(middle.astype(int)) + unix + offset)) == expected


@given(days, days, st.integers(0, 3_000), convention)
def test_alpha_is_zero_in_the_middle_and_antisymmetric_around_it(a, b, offset, boundaries):
    assume(a != b)
    period = Period(min(a, b).isoformat(), max(a, b).isoformat())
    middle, length = period.centre(boundaries)
    before, after = (period.alpha(Date.from_day_number(middle + k), boundaries) for k in (-offset, offset))
    assert before == -after
    assert after == offset / length
    assert period.alpha(Date.from_day_number(middle), boundaries) == 0


@given(days, days)
def test_alpha_lies_within_one_half_exactly_on_the_correct_days(a, b):
    assume(a != b)
    first, last = min(a, b), max(a, b)
    period = Period(first.isoformat(), last.isoformat())
    length = (last - first).days
    # The midpoint is rounded down, so with an odd length the last day is half a day further away.
    upper = 0.5 if length % 2 == 0 else (length + 1) / 2 / length
    lower = -0.5 if length % 2 == 0 else -(length - 1) / 2 / length
    assert period.alpha(first.isoformat()) == lower
    assert period.alpha(last.isoformat()) == upper
    for day in (first - dt.timedelta(1), first, first + dt.timedelta(1), last, last + dt.timedelta(1)):
        inside = period.status(day.isoformat()) == "correct"
        assert inside == (lower <= period.alpha(day.isoformat()) <= upper)


def test_a_period_without_length_has_no_alpha():
    assert Period("2017", "2017-05").alpha("2016") < 0
    with pytest.raises(DataError, match="no length"):  # midpoints 2 July and 16 May run backwards
        Period("2017", "2017-05").alpha("2016", "paper")
    with pytest.raises(DataError, match="no length"):
        Period("2017-05-03", "2017-05-03").centre()


@given(texts, texts, texts)
def test_meets_is_sharing_a_day(start, end, context):
    first, last = CALENDAR[start][0], CALENDAR[end][-1]
    assume(last >= first)
    assert Period(start, end).meets(context) == any(first <= day <= last for day in CALENDAR[context])


@pytest.mark.parametrize(
    ("start", "end"),
    [("2019", "2017"), ("2017-05-03", "2017-05-02"), ("2018-01", "2017"), ("-44", "-49"), ("0001", "-0001")],
)
def test_end_before_start_is_refused_and_named(start, end):
    with pytest.raises(DataError) as refused:
        Period(start, end)
    assert str(Date.parse(start)) in str(refused.value) and str(Date.parse(end)) in str(refused.value)


@pytest.mark.parametrize(
    ("start", "end"),
    [("2017", "2017"), ("2017-05", "2017"), ("2017", "2017-05"), ("2017-05-03", "2017-05-03")],
)
def test_end_may_lie_in_the_unit_of_the_start(start, end):
    assert str(Period(start, end)) == f"[{start}, {end}]"


@pytest.mark.parametrize(
    ("period", "text"),
    [
        (Period("2017", None), r"\[2017, \.\.\]"),
        (Period(None, "2019"), r"\[\.\., 2019\]"),
        (Period(None, None), r"\[\.\., \.\.\]"),
    ],
)
@pytest.mark.parametrize("boundaries", CONVENTIONS)
def test_open_periods_have_no_middle(period, text, boundaries):
    assert not period.closed
    with pytest.raises(DataError, match=text):
        period.centre(boundaries)
    with pytest.raises(DataError, match=text):
        period.alpha("2018", boundaries)


@pytest.mark.parametrize(
    ("text", "boundaries"), [("2017-05-03", "released"), ("2017-05-03", "paper"), ("2017", "paper")]
)
def test_a_period_of_one_unit_has_no_alpha(text, boundaries):
    for ask in (lambda p: p.centre(boundaries), lambda p: p.alpha("2016", boundaries)):
        with pytest.raises(DataError, match="no length"):
            ask(Period(text, text))


def test_unknown_convention_is_refused_and_named():
    period = Period("2017", "2019")
    for call in (
        lambda: check_boundaries("strict"),
        lambda: period.status("2018", "strict"),
        lambda: period.alpha("2018", "strict"),
        lambda: period.centre("strict"),
    ):
        with pytest.raises(ConfigError, match="'strict'"):
            call()


def test_a_period_names_an_impossible_boundary():
    with pytest.raises(DataError, match="'2017-02-29'"):
        Period("2017-02-29", "2019")
    with pytest.raises(DataError, match="'0000'"):
        Period("0000", "2019")


def test_ends_may_be_years_and_days_of_the_standard_library():
    assert Period(2009, 2017) == Period("2009", "2017") and Period(-44, None) == Period("-0044", None)
    day = dt.datetime(2017, 1, 20, 12, 30)
    assert Period(dt.date(2009, 1, 20), day) == Period("2009-01-20", "2017-01-20")
    with pytest.raises(DataError, match="True is not a date"):
        Period(True, None)
    with pytest.raises(DataError, match=r"2009\.5 is not a date"):
        Period(2009.5, None)
