"""Facts that hold in several periods or still hold: statuses against a recount day by day."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anachron.core.contexts import Sampling, sample_contexts
from anachron.core.dates import Date
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
