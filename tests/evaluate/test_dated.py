"""Dated questions: which dates are asked about, against a walk over every day, and how they are worded."""

import datetime
from dataclasses import replace

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from anachron.core.dates import GRANULARITIES, Date
from anachron.core.errors import DataError
from anachron.data.updates.case_records import EditCase, NeighbourFact
from anachron.data.updates.cases import CaseSet, load_cases
from anachron.evaluate.measures.dated import (
    Dating,
    asked_neighbours,
    dated_neighbour_pairs,
    dated_neighbour_rows,
    dated_pairs,
    dated_questions,
    dated_rows,
    ends_unknown,
    not_asked,
    settled,
    with_date,
)
from anachron.text.dates import dated_prompt

CASE = EditCase(
    "7", "France", "The president of France is", "Emmanuel Macron", "François Hollande",
    nearest=(NeighbourFact("The capital of Germany is", ("Berlin", "Bonn"), 0.5, None, "Germany"),),
    random=(NeighbourFact("Paris is the capital of", ("France",), None, None, "Paris"),),
    start="2017-05-14", old_start="2012-05-15",
)  # fmt: skip
UNTIL = Dating("2020-12-31")


def times(case, dating=UNTIL, side="past", granularity="year"):
    return [q.time for q in dated_questions(case, dating) if (q.side, q.granularity) == (side, granularity)]


def test_years_are_all_that_lie_in_a_window():
    assert times(CASE) == ["2013", "2014", "2015", "2016"]
    assert times(CASE, side="present") == ["2018", "2019", "2020"]
    assert times(replace(CASE, end="2020-01-31"), side="present") == ["2018", "2019"]


def test_the_past_begins_ten_years_before_the_change_at_most_and_on_a_day_that_is_sure():
    assert times(replace(CASE, old_start="1980")) == [str(year) for year in range(2008, 2017)]
    assert times(replace(CASE, old_start="2012-01-01"))[0] == "2012"
    assert times(replace(CASE, old_start="2012-01"))[0] == "2013"  # some day of January; 2012 is not surely his
    assert times(replace(CASE, start="2017", old_start="1980")) == [str(year) for year in range(2007, 2017)]
    assert times(replace(CASE, start="2016-02-29", old_start="1980"), granularity="day")[0].startswith("2006-")


def test_the_past_ends_where_the_old_object_did():
    """An office that was vacant, or another's, in between: Johnson to Sunak, with the months of Truss."""
    johnson = replace(CASE, start="2022-10-25", old_start="2012-07-24", old_end="2019-09-06")
    assert times(johnson) == [str(year) for year in range(2013, 2019)]
    assert max(times(johnson, granularity="day")) < "2019-09-06"
    assert times(replace(johnson, old_end="2019"))[-1] == "2018"
    assert times(replace(johnson, old_end="2030"))[-1] == "2021"
    assert times(replace(johnson, old_end="2012-08-01")) == []
    assert ends_unknown([CASE, johnson, replace(CASE, old_start=None), replace(CASE, scenario="AddObject")], UNTIL) == 1


def test_a_past_whose_start_nobody_knows_is_not_asked():
    assert {q.side for q in dated_questions(replace(CASE, old_start=None), UNTIL)} == {"present"}


dates = st.dates(datetime.date(2003, 1, 1), datetime.date(2021, 12, 31))


def spelt(day, granularity):
    return day.isoformat()[: {"year": 4, "month": 7, "day": 10}[granularity]]


def span(text):
    """First and last day of a date, by the standard library."""
    parts = [int(part) for part in text.split("-")]
    first = datetime.date(*parts, *[1] * (3 - len(parts)))
    if len(parts) == 3:
        return first, first
    following = datetime.date(first.year + 1, 1, 1) if len(parts) == 1 else first.replace(day=28)
    if len(parts) == 2:
        following = (following + datetime.timedelta(days=4)).replace(day=1)
    return first, following - datetime.timedelta(days=1)


def days_of_windows(changed, old_start, old_end, end, until):
    """All days that are surely the old object's and the new one's, by looking at each."""
    (first, last), (begun, begun_last) = span(changed), span(old_start)
    length = len(changed)
    past, present = set(), set()
    ended_from, known = span(end)[0] if end is not None else None, span(until)[1]
    old_ended_from = span(old_end)[0] if old_end is not None else first
    for number in range(datetime.date(1992, 1, 1).toordinal(), datetime.date(2022, 1, 1).toordinal()):
        day = datetime.date.fromordinal(number)
        sure = day > begun_last if len(old_start) < 10 else day >= begun
        recent = f"{day.year + 10}{day.isoformat()[4:]}"[:length] >= changed
        if day < first and day < old_ended_from and sure and recent:
            past.add(day)
        ended = ended_from is not None and day >= ended_from
        soon = f"{day.year - 10}{day.isoformat()[4:]}"[:length] <= changed
        if day > last and not ended and day <= known and soon:
            present.add(day)
    return {"past": past, "present": present}


@pytest.mark.slow
@pytest.mark.full
@given(
    st.tuples(dates, dates, dates, dates).map(sorted),
    st.tuples(*[st.sampled_from(GRANULARITIES)] * 4),
    st.booleans(),
    st.booleans(),
    st.integers(0, 99),
)
@example([datetime.date(y, m, d) for y, m, d in ((2012, 5, 15), (2015, 7, 1), (2016, 3, 1), (2024, 2, 29))],
         ("day",) * 4, True, True, 0)  # fmt: skip
def test_the_dates_against_a_walk_over_every_day(four, granularities, old_ends, ends, seed):
    """Each date lies in its window; a year is asked where it does; and one month and day of each year that has one."""
    old_start, old_end, changed, end = (spelt(day, g) for day, g in zip(four, granularities, strict=True))
    until = "2018"
    assume(not changed.endswith("-02-29"))  # ten years on there is no such day; that is tested above
    old_end, end = old_end if old_ends else None, end if ends else None
    case = replace(CASE, start=changed, old_start=old_start, old_end=old_end, end=end)
    questions = dated_questions(case, Dating(until, seed))
    windows = days_of_windows(changed, old_start, old_end, end, until)
    for side, window in windows.items():
        mine = [q for q in questions if q.side == side]
        inside = {
            granularity: {
                date for date in {spelt(day, granularity) for day in window} if window.issuperset(span(date))
            }
            for granularity in GRANULARITIES
        }  # fmt: skip
        assert [q.time for q in mine if q.granularity == "year"] == sorted(inside["year"])
        for granularity in ("month", "day"):
            asked = [q.time for q in mine if q.granularity == granularity]
            assert set(asked) <= inside[granularity]
            assert [t[:4] for t in asked] == sorted({t[:4] for t in inside[granularity]})
        for q in mine:
            assert (q.distance < 0) == (side == "past")
            middle = [d.toordinal() + (e.toordinal() - d.toordinal()) // 2 for d, e in (span(q.time), span(changed))]
            assert q.distance == pytest.approx((middle[0] - middle[1]) / 365.2425)


def test_draws_differ_between_updates_and_seeds_and_do_not_depend_on_windows():
    months = times(CASE, granularity="month")
    assert months != times(replace(CASE, case_id="8"), granularity="month")
    assert months != times(CASE, replace(UNTIL, seed=1), granularity="month")
    assert set(times(replace(CASE, old_start="2000"), granularity="month")) >= set(months[1:-1])
    later = times(CASE, Dating("2030"), "present", "day")
    assert later[1:3] == times(CASE, Dating("2020"), "present", "day")[1:3] and len(later) > 4


def test_months_and_days_spread_over_the_calendar():
    """Of 224 updates every month and most days of a month are drawn; none is favoured by much."""
    cases = load_cases("mini-updates").cases
    asked = [Date.parse(q.time) for case in cases for q in dated_questions(case, UNTIL)]
    months = [date.month for date in asked if date.granularity == "month"]
    days = [date.day for date in asked if date.granularity == "day"]
    assert set(months) == set(range(1, 13)) and set(days) == set(range(1, 32))
    assert max(map(months.count, range(1, 13))) < 1.6 * min(map(months.count, range(1, 13)))


def test_before_the_common_era_the_years_go_on_counting():
    old = replace(CASE, start="0003-06-01", old_start="-0020")
    assert times(old) == ["-0007", "-0006", "-0005", "-0004", "-0003", "-0002", "-0001", "0001", "0002"]


def test_prompts_and_pairs():
    questions = dated_questions(CASE, UNTIL)
    pairs = dated_pairs(CASE, UNTIL)
    assert pairs[:2] == [
        (f"{opening(questions[0])}the president of France is", who) for who in ("Emmanuel Macron", "François Hollande")
    ]
    neighbours = list(asked_neighbours(CASE, questions, UNTIL))
    assert [(kind, number, q.side) for kind, number, _, q in neighbours] == [
        ("nearest", 0, "past"), ("nearest", 0, "present"), ("random", 0, "past"), ("random", 0, "present"),
    ]  # fmt: skip
    of_neighbours = dated_neighbour_pairs(CASE, UNTIL)
    assert len(pairs) == 2 * len(questions) and len(of_neighbours) == 2 * 2 + 2
    assert of_neighbours[-1] == (f"{opening(neighbours[-1][3])}Paris is the capital of", "France")


def opening(question):
    date = datetime.date(*[int(n) for n in f"{question.time}-01-01".split("-")[:3]])
    return {"year": f"In {date:%Y}, ", "month": f"In {date:%B %Y}, ", "day": f"On {date:%B} {date.day}, {date:%Y}, "}[
        question.granularity
    ]


def test_rows_hold_what_the_model_says():
    asked = [*dated_pairs(CASE, UNTIL), *dated_neighbour_pairs(CASE, UNTIL)]
    p = {pair: 1 / (number + 2) for number, pair in enumerate(dict.fromkeys(asked))}
    rows, neighbours = dated_rows(CASE, UNTIL, p), dated_neighbour_rows(CASE, UNTIL, p)
    for question, row in zip(dated_questions(CASE, UNTIL), rows, strict=True):
        prompt = f"{opening(question)}the president of France is"
        assert (row["time"], row["side"], row["granularity"]) == (question.time, question.side, question.granularity)
        assert (row["new"], row["old"]) == (p[prompt, "Emmanuel Macron"], p[prompt, "François Hollande"])
    questions = {q.time: q for q in dated_questions(CASE, UNTIL)}
    prompt = f"{opening(questions[neighbours[0]['time']])}the capital of Germany is"
    assert neighbours[0]["p"] == (p[prompt, "Berlin"] + p[prompt, "Bonn"]) / 2


@pytest.mark.parametrize(
    ("prompt", "subject", "wanted"),
    [
        ("The capital of France is", "France", "In 2011, the capital of France is"),
        ("In France, the president is", "France", "In 2011, in France, the president is"),
        ("The Hague is located in", "The Hague", "In 2011, The Hague is located in"),
        ("The Hague is located in", "The Ha", "In 2011, the Hague is located in"),
        ("Paris is located in", "Paris", "In 2011, Paris is located in"),
        ("{} is located in", "The Hague", "In 2011, {} is located in"),
        ("Apple is headed by", "", "In 2011, Apple is headed by"),
    ],
)
def test_the_first_word_of_a_prompt_behind_a_date(prompt, subject, wanted):
    assert dated_prompt(prompt, Date(2011), subject) == wanted


def by_hand(*cases):
    return CaseSet("by hand", "wikifactdiff", cases)


def test_an_update_is_asked_about_the_same_dates_whichever_others_are_judged():
    whole, few = load_cases("mini-updates"), load_cases("mini-updates", limit=2)
    latest = max((Date.parse(case.start) for case in whole.cases), key=lambda date: date.last_day)
    assert settled(Dating(), whole) == settled(Dating(), few) == Dating(str(latest))
    assert max(case.start for case in few.cases) < str(latest)


def test_the_last_date_is_given_or_the_latest_change_that_the_data_know_of():
    early = replace(CASE, start="2015", end="2030")
    unknown = replace(CASE, start="2029", old=None)
    assert settled(Dating(), by_hand(early, CASE, unknown)).until == "2017-05-14"
    assert settled(Dating(), by_hand(early, replace(CASE, start="2015-12-31"))).until in ("2015", "2015-12-31")
    assert settled(Dating(), replace(by_hand(CASE), latest_change="2023-04")).until == "2023-04"
    assert settled(Dating("2024", 3), by_hand(CASE)) == Dating("2024", 3)
    with pytest.raises(DataError, match="none of 2 updates says when"):
        settled(Dating(), replace(by_hand(replace(CASE, start=None), unknown), latest_change="2023"))
    with pytest.raises(DataError, match="'soon' is not a date"):
        Dating("soon")


def test_what_cannot_be_asked_is_counted_with_its_reason():
    cases = [
        CASE,
        replace(CASE, start=None),
        replace(CASE, old=None),
        replace(CASE, old_start=None),
        replace(CASE, old_start="2017", end="2017-05-15"),
        replace(CASE, scenario="AddObject"),
    ]
    assert not_asked(cases, UNTIL) == {
        "no dated questions: not a replacement": 1,
        "no dated questions: the date of change is not known": 1,
        "no dated questions: new or old object is not known": 1,
        "nothing asked before the change: start not known": 1,
        "nothing asked before the change: no room": 1,
        "nothing asked after the change: no room before the end, or the last date known": 1,
        "no dates asked about in paraphrases: it has no other prompt": 2,
        "no dates asked about in questions: none is known": 2,
    }
    assert len(not_asked(cases, replace(UNTIL, ways=("prompt",)))) == 6
    assert [len(dated_questions(case, UNTIL)) for case in (*cases[1:3], cases[5])] == [0, 0, 0]


@pytest.mark.parametrize(
    ("start", "wanted"),
    [
        ("2017-05-14", "May 15, 2017"),
        ("2016-02", "March 1, 2016"),
        ("2019", "January 1, 2020"),
        ("-0001", "January 1, AD 1"),
    ],
)
def test_a_request_names_the_day_after_the_change(start, wanted):
    said = with_date(replace(CASE, start=start))
    assert said == replace(CASE, start=start, prompt=f"On {wanted}, the president of France is")


def test_a_request_without_a_date_of_change_is_refused():
    with pytest.raises(DataError, match="update 7 does not say when"):
        with_date(replace(CASE, start=None))
