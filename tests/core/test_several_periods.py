"""Facts that hold in several periods or still hold: statuses against a recount day by day."""

import calendar
import datetime as dt
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anachron.core.contexts import Sampling, sample_contexts, sampling_named
from anachron.core.dates import GRANULARITIES, Date
from anachron.core.errors import DataError
from anachron.core.periods import Period
from anachron.core.several_periods import (
    closed_at,
    contexts_of_periods,
    joined,
    last_whole_year,
    parse_periods,
    periods_text,
)

AS_OF = Date.parse("2024-06-30")


@st.composite
def histories(draw):
    """Periods of one fact, coarse or to the day, the last of them perhaps still going on; some overlap."""
    periods = []
    for _ in range(draw(st.integers(1, 3))):
        first = draw(st.integers(1900, 2015))
        last = first + draw(st.integers(2, 9))
        fine = draw(st.booleans())
        ends = (f"{first}-03-05", f"{last}-10-20") if fine else (str(first), str(last))
        periods.append(Period(ends[0], None if draw(st.integers(0, 3)) == 0 else ends[1]))
    return periods


@settings(max_examples=12)
@given(histories(), st.sampled_from(["random", "same-day"]))
def test_statuses_are_those_of_a_recount_day_by_day(history, finer):
    held = set()
    for period in history:
        end = AS_OF.last_day if period.end is None else period.end.last_day
        held |= set(range(period.start.first_day, end + 1))
    periods = [closed_at(period, AS_OF) for period in joined(history)]
    sampling = Sampling(until=last_whole_year(AS_OF), finer=finer)
    contexts = contexts_of_periods(periods, fact_id="f", sampling=sampling)
    dates = [c.time for c in contexts if c.time is not None]
    assert len(dates) == len(set(dates)) and [c.status for c in contexts].count("none") == 3
    counted = {}
    for context in contexts:
        if context.time is None:
            continue
        date = Date.parse(context.time)
        assert date.last_day <= AS_OF.last_day
        days = set(range(date.first_day, date.last_day + 1))
        # each day is held or not; what two periods cover only together counts as undecided, and so do joined ones not
        naive = "correct" if days <= held else "transitional" if days & held else "incorrect"
        year = set(range(Date(date.year).first_day, Date(date.year).last_day + 1))
        if finer == "random" and context.granularity != "year" and year & held and not year <= held:
            naive = "discarded"
        assert context.status == naive, (history, context)
        counted[context.granularity, naive] = counted.get((context.granularity, naive), 0) + 1
        nearest = min(((date.midpoint - p.centre()[0]) / p.centre()[1] for p in periods), key=abs)
        assert context.alpha == pytest.approx(nearest)
    if finer == "random":
        for status in ("correct", "incorrect"):
            assert len({counted.get((g, status), 0) for g in ("year", "month", "day")}) == 1


def test_one_period_is_asked_as_before():
    period, sampling = Period("2009-01-20", "2017-01-20"), Sampling()
    assert contexts_of_periods([period], fact_id="x", sampling=sampling) == sample_contexts(period, fact_id="x")


def test_what_a_date_leaves_of_a_year_and_of_a_period():
    ends = {"2024-06-30": 2023, "2024-12-31": 2024, "2024-12": 2024, "2024": 2024, "0001-05": -1, "-0001": -1}
    assert {text: last_whole_year(Date.parse(text)) for text in ends} == ends
    assert closed_at(Period("2009", None), AS_OF) == Period("2009", AS_OF)
    assert closed_at(Period("2009", "2030"), AS_OF) == Period("2009", "2030")
    with pytest.raises(DataError, match="before the start"):
        closed_at(Period("2025", None), AS_OF)


def test_periods_that_touch_are_one():
    assert joined([Period("2013-01-20", "2017"), Period("2009", "2013-01-19")]) == (Period("2009", "2017"),)
    assert joined([Period("2009", None), Period("2012", "2013")]) == (Period("2009", None),)
    apart = (Period("2001", "2005"), Period("2007", None))
    assert joined(reversed(apart)) == apart == parse_periods(periods_text(apart))
    assert periods_text(()) is None and parse_periods(None) == ()
    with pytest.raises(DataError, match="'2001' is not a period"):
        parse_periods("2001")


# Periods that span no whole year


@st.composite
def short_periods(draw):
    """Of two days to two years, with ends known to the day or the month."""
    first = dt.date(draw(st.integers(1990, 2018)), draw(st.integers(1, 12)), draw(st.integers(1, 28)))
    last = first + dt.timedelta(draw(st.integers(1, 730)))
    whole = draw(st.booleans()) and (first.year, first.month) != (last.year, last.month)
    return Period(*(text[:7] if whole else text for text in (first.isoformat(), last.isoformat())))


def days_in(text):
    """All days of a date, by the calendar of the standard library."""
    year, month, day = (int(part) for part in [*text.split("-"), "0", "0"][:3])
    start = dt.date(year, month or 1, day or 1)
    if day:
        return [start]
    span = calendar.monthrange(year, month)[1] if month else 365 + calendar.isleap(year)
    return [start + dt.timedelta(n) for n in range(span)]


@given(period=short_periods(), sampling=st.sampled_from(["timestress", "robustness-2025", "near"]))
def test_a_short_period_is_asked_about_the_coarsest_dates_that_it_spans(period, sampling):
    """Against the calendar: years where one lies within it, else months, else days; statuses by each day of a date."""
    found = contexts_of_periods([period], seed=3, fact_id="f", sampling=sampling_named(sampling, 2030))
    held = set(map(dt.date.fromordinal, range(period.start.first_day, period.end.last_day + 1)))
    wholes = {
        "year": any(set(days_in(str(y))) <= held for y in range(1989, 2022)),
        "month": any(set(days_in(f"{d.year}-{d.month:02d}")) <= held for d in held), "day": True,
    }  # fmt: skip
    coarsest = next(level for level, there in wholes.items() if there)
    levels = list(GRANULARITIES[GRANULARITIES.index(coarsest) :])
    assert list(dict.fromkeys(c.granularity for c in found)) == levels
    assert any(c.status == "correct" for c in found)
    of_level = {g: [c for c in found if c.granularity == g and c.time is not None] for g in levels}
    for contexts in of_level.values():
        assert len({c.time for c in contexts}) == len(contexts) == len(of_level[coarsest])
    for branch in zip(*of_level.values(), strict=True):
        top = branch[0]
        for context in branch:
            inside = {d in held for d in days_in(context.time)}
            status = {(True,): "correct", (False,): "incorrect"}.get(tuple(inside), "transitional")
            refines = sampling != "robustness-2025" and context is not top and top.status == "transitional"
            assert context.status == ("discarded" if refines else status)
            assert context.time.startswith(top.time)
            assert context.alpha == period.alpha(context.time)


def test_months_and_days_of_short_periods_are_those_of_the_sampled_positions():
    """By NumPy: the distinct months, and days, of m + alpha d for 201 values of alpha."""
    for start, end, unit in (("2019-03-05", "2019-11-20", "M"), ("2019-03-05", "2019-03-25", "D")):
        first, last = np.datetime64(start), np.datetime64(end)
        days = first + (last - first) / 2 + np.arange(-5, 5.0001, 0.05) * (last - first)
        expected = [str(one) for one in np.unique(days.astype(f"datetime64[{unit}]"))]
        found = contexts_of_periods([Period(start, end)], sampling=sampling_named("timestress", 2100))
        level = {"M": "month", "D": "day"}[unit]
        assert [c.time for c in found if c.granularity == level and c.time is not None] == expected


def test_no_month_or_day_ends_behind_the_last_day():
    sampling = replace(sampling_named("timestress", 2024), last_day=Date.parse("2025-06-15").last_day)
    found = contexts_of_periods([Period("2025-01-10", "2025-06-15")], sampling=sampling)
    times = {g: [c.time for c in found if c.granularity == g and c.time is not None] for g in ("month", "day")}
    assert times["month"][-1] == "2025-05" and max(times["day"]) <= "2025-05-31"
    by_year = contexts_of_periods([Period("2022-12-10", "2025-06-15")], sampling=sampling)
    assert max(c.time for c in by_year if c.granularity == "year" and c.time) == "2024"


def test_several_short_periods_share_months_and_a_year_within_one_is_enough():
    halves = [Period("2001-02-10", "2001-06-20"), Period("2003-02-10", "2003-06-20")]
    found = contexts_of_periods(halves, sampling=sampling_named("timestress"))
    months = {c.time: c.status for c in found if c.granularity == "month" and c.time is not None}
    assert "year" not in {c.granularity for c in found}
    assert [t for t, status in months.items() if status == "correct"] == [
        *(f"2001-{m:02d}" for m in (3, 4, 5)), *(f"2003-{m:02d}" for m in (3, 4, 5)),
    ]  # fmt: skip
    assert {months["2001-02"], months["2003-06"]} == {"transitional"} and months["2002-06"] == "incorrect"
    longer = contexts_of_periods([halves[0], Period("2004", "2006")], sampling=sampling_named("timestress"))
    assert {c.granularity for c in longer} == set(GRANULARITIES)
