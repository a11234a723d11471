"""The sampler, against NumPy, loops over days and the invariants of the definition."""

import datetime as dt
import hashlib
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from anachron.core import contexts as module
from anachron.core.contexts import SAMPLINGS, Sampling, positions, sample_contexts
from anachron.core.dates import GRANULARITIES, Date
from anachron.core.errors import ConfigError, DataError
from anachron.core.periods import Period
from anachron.data.bundled.mini import mini_facts

GOLDEN = Path(__file__).parents[1] / "golden" / "contexts.json"
OBAMA = Period("2009-01-20", "2017-01-20")
OLD = SAMPLINGS["robustness-2025"]
CONVENTIONS = ("released", "paper")


@st.composite
def periods(draw, first=-300, last=2015):
    """At least three years long; boundaries of any granularity."""
    year = draw(st.integers(first, last).filter(bool))
    end = year + draw(st.integers(4, 60))
    parts = st.tuples(st.integers(1, 12), st.integers(1, 28))
    cut = st.integers(1, 3)
    return Period(Date(*(year, *draw(parts))[: draw(cut)]), Date(*(end or 1, *draw(parts))[: draw(cut)]))


def dated(contexts, granularity=None):
    return [c for c in contexts if c.time is not None and granularity in (None, c.granularity)]


def times(contexts, granularity):
    return [c.time for c in dated(contexts, granularity)]


def numpy_date(date):
    """First day in NumPy, whose years are astronomical: 1 BCE is 0."""
    year = date.year + (date.year < 0)
    month = np.datetime64(12 * (year - 1970) + (date.month or 1) - 1, "M")
    return month.astype("datetime64[D]") + (date.day or 1) - 1


def numpy_last(date):
    year = np.datetime64(date.year + (date.year < 0) - 1970, "Y")
    if date.granularity == "year":
        return (year + 1).astype("datetime64[D]") - 1
    if date.granularity == "month":
        return (numpy_date(date).astype("datetime64[M]") + 1).astype("datetime64[D]") - 1
    return numpy_date(date)


def numpy_days(period, boundaries):
    """The 201 sampled days, as the published code takes them."""
    start, end = numpy_date(period.start), numpy_last(period.end)
    if boundaries == "paper":
        start = start + (numpy_last(period.start) - start) / 2
        end = numpy_date(period.end) + (end - numpy_date(period.end)) / 2
    return start + (end - start) / 2 + np.arange(-5, 5.0001, 0.05) * (end - start)


def numpy_years(period, boundaries, until):
    years = np.unique(numpy_days(period, boundaries).astype("datetime64[Y]").astype(int) + 1970)
    return [int(y) if y > 0 else int(y) - 1 for y in years if y <= until]


def test_positions_are_the_doubles_of_numpy_arange():
    expected = np.arange(-5, 5.0001, 0.05)
    assert len(expected) == 201
    assert positions(Sampling()) == expected.tolist()
    assert positions(OLD) == expected.tolist()
    assert positions(Sampling(horizon=2.0, step=0.5)) == np.arange(-2, 2.0001, 0.5).tolist()


@pytest.mark.parametrize("boundaries", CONVENTIONS)
@given(period=periods(), until=st.sampled_from([2020, 1000, 9999]))
# -5 + 0.05 * i and exact fractions give 2023 or 2024, 2107 or 2108 the other way round:
@example(period=Period("1953-03-30", "1975-01-06"), until=9999)
@example(period=Period("1983-12-09", "2008-04-06"), until=9999)
@example(period=Period("-0049", "-0044-03-15"), until=2020)
def test_years_are_those_of_numpy(period, until, boundaries):
    found = sample_contexts(period, boundaries=boundaries, until=until)
    assert [Date.parse(t).year for t in times(found, "year")] == numpy_years(period, boundaries, until)


@pytest.mark.parametrize("boundaries", CONVENTIONS)
@given(period=periods(), seed=st.integers(0, 99), until=st.sampled_from([2020, 1500, 2100]))
def test_invariants_of_the_sampler(period, seed, until, boundaries):
    found = sample_contexts(period, boundaries=boundaries, seed=seed, fact_id="f", until=until)
    assert [c.granularity for c in found] == sorted((c.granularity for c in found), key=GRANULARITIES.index)
    counts = {g: Counter(c.status for c in found if c.granularity == g) for g in GRANULARITIES}
    for count in counts.values():
        assert count["none"] == 1
        assert count["correct"] == counts["year"]["correct"] <= 21
        assert count["incorrect"] == counts["year"]["incorrect"] <= 180
        assert count["transitional"] <= 2
    years, months, days = (dated(found, g) for g in GRANULARITIES)
    assert len(years) == len(months) == len(days) == len({c.time for c in years})
    for year, month, day in zip(years, months, days, strict=True):
        assert month.time.startswith(year.time + "-") and day.time.startswith(month.time + "-")
        assert Date.parse(year.time).year <= until
        finer = "discarded" if year.status == "transitional" else year.status
        assert month.status == day.status == finer
        for context in (year, month, day):
            assert context.granularity == Date.parse(context.time).granularity
            assert context.alpha == period.alpha(context.time, boundaries)
        assert year.status == period.status(year.time, boundaries)
    firsts = [Date.parse(c.time).first_day for c in years]
    assert firsts == sorted(firsts)


@given(period=periods())
@settings(max_examples=30)
def test_each_granularity_begins_with_the_statement_without_a_date(period):
    found = sample_contexts(period)
    assert [(c.granularity, c.alpha) for c in found if c.time is None] == [(g, None) for g in GRANULARITIES]
    for g in GRANULARITIES:
        assert next(c for c in found if c.granularity == g).status == "none"


def test_a_known_fact():
    found = dated(sample_contexts(OBAMA), "year")

    def years(status):
        return [int(c.time) for c in found if c.status == status]

    assert years("correct") == list(range(2010, 2017))
    assert years("transitional") == [2009, 2017]
    # forty years on either side of 20 January 2013, cut off after 2020
    assert years("incorrect") == [*range(1973, 2009), 2018, 2019, 2020]


def test_2017_to_2019_under_both_conventions():
    def years(boundaries, status):
        found = sample_contexts(Period("2017", "2019"), boundaries=boundaries, until=2030)
        return [int(c.time) for c in dated(found, "year") if c.status == status]

    assert years("released", "correct") == [2017, 2018, 2019]
    assert years("released", "transitional") == []
    assert years("paper", "correct") == [2018]
    assert years("paper", "transitional") == [2017, 2019]


def test_facts_in_44_bce_skip_year_0():
    years = times(sample_contexts(Period("-0044", "-0035")), "year")
    assert "-0044" in years and "-0001" in years and "0001" in years and "0000" not in years
    assert years.index("0001") == years.index("-0001") + 1


def test_same_seed_same_contexts_and_another_seed_or_fact_other_months():
    base = sample_contexts(OBAMA, seed=1, fact_id="a")
    sample_contexts(Period("1900", "1950"), seed=1, fact_id="b")  # another fact takes no draw away
    assert sample_contexts(OBAMA, seed=1, fact_id="a") == base
    for other in (
        sample_contexts(OBAMA, seed=2, fact_id="a"),
        sample_contexts(OBAMA, seed=1, fact_id="b"),
    ):
        assert dated(other, "year") == dated(base, "year")
        same = [a == b for a, b in zip(times(base, "month"), times(other, "month"), strict=True)]
        assert sum(same) < len(same) / 3  # one twelfth is expected
        assert len(set(times(base, "day")) & set(times(other, "day"))) < len(same) / 10
        assert Counter(c.status for c in other) == Counter(c.status for c in base)


def test_a_later_cut_off_only_adds_contexts():
    short, long = (sample_contexts(OBAMA, seed=3, fact_id="a", until=until) for until in (2000, 2020))
    for g in GRANULARITIES:
        assert times(long, g)[: len(times(short, g))] == times(short, g)
    assert times(short, "year")[-1] == "2000" and times(long, "year")[-1] == "2020"
    assert sample_contexts(OBAMA, seed=3, fact_id="a", sampling=Sampling(until=2000)) == short


def test_month_and_day_of_one_year_as_sha256_gives_them():
    def draw(i):
        return int(hashlib.sha256(f"7\nfact\n2012\n{i}".encode()).hexdigest()[:16], 16)

    month = draw(0) % 12 + 1
    next_month = dt.date(2012 + month // 12, month % 12 + 1, 1)
    length = (next_month - dt.date(2012, month, 1)).days
    expected = f"2012-{month:02}-{draw(1) % length + 1:02}"
    assert expected in times(sample_contexts(OBAMA, seed=7, fact_id="fact"), "day")


@pytest.mark.full
def test_months_and_days_are_uniform():
    period = Period("1850-01-01", "1880-01-01")
    days = [t for i in range(120) for t in times(sample_contexts(period, seed=5, fact_id=f"fact {i}"), "day")]
    parsed = [dt.date.fromisoformat(t) for t in days]
    assert len(parsed) > 15_000

    def chi_square(counts, bins):
        expected = sum(counts.values()) / bins
        return sum((counts[k] - expected) ** 2 / expected for k in range(1, bins + 1))

    assert chi_square(Counter(d.month for d in parsed), 12) < 31.26  # 99.9 % of chi-square, 11 degrees
    long = Counter(d.day for d in parsed if d.month in (1, 3, 5, 7, 8, 10, 12))
    assert chi_square(long, 31) < 59.70  # 30 degrees
    assert chi_square(Counter(d.day for d in parsed if d.month in (4, 6, 9, 11)), 30) < 58.30  # 29 degrees
    assert chi_square(Counter(d.day for d in parsed if d.month == 2 and d.day < 29), 28) < 55.48  # 27 degrees
    assert any(d.month == 2 and d.day == 29 for d in parsed)
    # The month says nothing about the day: halves of the first 28 days of each long month.
    longs = (1, 3, 5, 7, 8, 10, 12)
    early = [d for d in parsed if d.month in longs and d.day < 29]
    halves = Counter(2 * longs.index(d.month) + (d.day + 13) // 14 for d in early)
    assert chi_square(halves, 14) < 34.53  # 13 degrees


def test_other_periods_leave_out_incorrect_contexts_that_meet_them():
    other = Period("1990-06-15", "1993-02")
    full = sample_contexts(OBAMA, seed=4, fact_id="a")
    kept = sample_contexts(OBAMA, seed=4, fact_id="a", other_periods=[other])
    gone = [c.time for c in dated(full) if c not in kept]
    assert [c for c in full if c in kept] == kept
    assert {t[:4] for t in gone} == {"1990", "1991", "1992", "1993"}
    assert len(gone) == 12
    # correct and transitional contexts stay even where the other period covers them
    overlap = sample_contexts(OBAMA, seed=4, fact_id="a", other_periods=[Period("1960", "2012")])
    assert [c for c in dated(overlap) if c.status == "incorrect"] == [
        c for c in full if c.time and c.time >= "2018" and c.status == "incorrect"
    ]
    for status in ("correct", "transitional", "discarded", "none"):
        assert [c for c in overlap if c.status == status] == [c for c in full if c.status == status]


def test_unequal_counts_are_caught(monkeypatch):
    def broken(year, *_):
        return Date(year), Date(1980, 1), Date(1980, 1, 1)

    monkeypatch.setattr(module, "_refine", broken)
    with pytest.raises(AssertionError, match="correct contexts differ"):
        sample_contexts(OBAMA)


# The preset of the earlier paper


@st.composite
def day_periods(draw):
    """Periods of more than two years inside 1950 to 2020, as that paper selects them."""
    start = draw(st.dates(dt.date(1950, 1, 1), dt.date(2017, 12, 1)))
    length = draw(st.integers(731, (dt.date(2020, 12, 31) - start).days))
    return Period(start.isoformat(), (start + dt.timedelta(length)).isoformat())


@given(day_periods(), st.sampled_from([2020, 2400]))
def test_robustness_2025_takes_one_sampled_day_a_year_in_all_granularities(period, until):
    found = sample_contexts(period, sampling=OLD, until=until)
    of_year: dict[str, list[str]] = {}
    for day in map(str, numpy_days(period, "released")):
        of_year.setdefault(day[:4], []).append(day)
    sampled = [days[len(days) // 2] for year, days in of_year.items() if int(year) <= until]
    assert times(found, "day") == sampled
    assert times(found, "month") == [day[:7] for day in sampled]
    assert times(found, "year") == [day[:4] for day in sampled]
    assert all(c.status == period.status(c.time) and c.alpha == period.alpha(c.time) for c in dated(found))


@given(day_periods())
def test_robustness_2025_counts(period):
    found = sample_contexts(period, sampling=OLD, until=2400)
    counts = {g: Counter(c.status for c in found if c.granularity == g) for g in GRANULARITIES}
    for count in counts.values():
        assert set(count) <= {"correct", "incorrect", "transitional", "none"}
        assert count["none"] == 1
        assert count["correct"] <= 21
        assert count["incorrect"] <= 180
        assert count["transitional"] <= 2
    assert counts["day"]["transitional"] == 0
    assert len({sum(count.values()) for count in counts.values()}) == 1


@pytest.mark.parametrize(
    ("start", "end", "time", "status"),
    [
        ("1976", "1983", "2015-08", "incorrect"),
        ("2005", "2015-01-09", "1974-12", "incorrect"),
        ("1995-01-04", "1999-01-03", "1979-06-03", "incorrect"),
        ("1973-09-18", "1990-10-02", "1915-10", "incorrect"),
        ("2002", "2018", "2018-12-30", "correct"),
        ("2011-01-03", "2019-01-07", "2015-05", "correct"),
    ],
)
def test_robustness_2025_has_the_dates_of_table_1(start, end, time, status):
    """TimeStress v1, table 1: its six facts and dates; of up to five sampled days in these years it is this one."""
    found = [c for c in sample_contexts(Period(start, end), sampling=OLD) if c.time == time]
    assert [c.status for c in found] == [status]


@pytest.mark.full
def test_robustness_2025_has_the_counts_of_table_2():
    """TimeStress v1, table 2, on facts of its relations and years, of `mini`, whose spans have its mean.

    Published: 8.83 correct, 55.59 incorrect, 1.74 transitional dates (years: few months and no days are) and 638.27
    tests a fact. Each granularity by itself would have some 2,000 tests.
    """
    relations = {"P108", "P463", "P39", "P54", "P35", "P6"}
    facts = [m.fact for m in mini_facts() if m.fact.relation_id in relations]
    periods = [f.period for f in facts if f.period.start.year >= 1950 and f.period.end and f.period.end.year <= 2020]
    periods = [p for p in periods if p.end.last_day - p.start.first_day > 4.2 * 365.25]
    counts = [
        Counter(c.status for c in sample_contexts(p, sampling=OLD) if c.granularity == g)
        for p in periods
        for g in GRANULARITIES
    ]
    correct, incorrect = (np.array([count[status] for count in counts]) for status in ("correct", "incorrect"))
    assert len(periods) > 300
    assert correct.mean() == pytest.approx(8.83, abs=0.2)  # by the choice of spans
    assert incorrect.mean() == pytest.approx(55.59, rel=0.08)
    assert np.mean([count["transitional"] for count in counts[::3]]) == pytest.approx(1.74, abs=0.1)
    assert (correct * incorrect).mean() == pytest.approx(638.27, rel=0.05)


def test_robustness_2025_ignores_seed_and_fact():
    first = sample_contexts(OBAMA, sampling=OLD, seed=1, fact_id="a")
    assert sample_contexts(OBAMA, sampling=OLD, seed=2, fact_id="b") == first
    assert times(first, "day")[-1] < "2021"


def test_robustness_2025_leaves_out_dates_in_other_periods_granularity_by_granularity():
    other = Period("1990-06-15", "1993-02-10")
    full = sample_contexts(OBAMA, sampling=OLD)
    kept = sample_contexts(OBAMA, sampling=OLD, other_periods=[other])

    def met(time):
        return "1990-06-15"[: len(time)] <= time <= "1993-02-10"[: len(time)]

    assert kept == [c for c in full if c.time is None or not met(c.time)]
    for g in GRANULARITIES:
        assert len(times(kept, g)) < len(times(full, g))


# Bad input, and what other machines must draw


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
def test_periods_that_cannot_be_sampled_are_refused_and_named(sampling):
    with pytest.raises(DataError, match=r"\[2017, \.\.\]"):
        sample_contexts(Period("2017", None), sampling=sampling)
    with pytest.raises(DataError, match=r"\[\.\., 2017\]"):
        sample_contexts(Period(None, "2017"), sampling=sampling)
    with pytest.raises(DataError, match=r"\[2017-05-03, 2017-05-03\]"):
        sample_contexts(Period("2017-05-03", "2017-05-03"), sampling=sampling, until=1900)
    with pytest.raises(ConfigError, match="'strict'"):
        sample_contexts(OBAMA, boundaries="strict", sampling=sampling)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"horizon": 0}, "horizon 0 "),
        ({"horizon": -5.0}, "horizon -5.0"),
        ({"step": 0}, "step 0:"),
        ({"step": -0.05}, "step -0.05"),
        ({"step": float("nan")}, "step nan"),
        ({"finer": "weekly"}, "'weekly'"),
    ],
)
def test_impossible_samplings_are_refused_and_named(options, named):
    with pytest.raises(ConfigError, match=named):
        Sampling(**options)


def test_golden_contexts():
    rows = json.loads(GOLDEN.read_text(encoding="utf-8"))
    found = sample_contexts(OBAMA, seed=0, fact_id="golden")
    assert [[c.granularity, c.time, c.status, c.alpha] for c in found] == rows
