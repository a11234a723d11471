"""Believed periods against plain loops over all stretches, planted steps, and facts told in words."""

from itertools import pairwise
from math import log
from random import Random
from statistics import fmean, median

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from anachron.analysis.analyses.believed import (
    BELIEVED_SCHEMA,
    MIN_CONTEXTS,
    RESOLUTION,
    SUMMARY_SCHEMA,
    believed_periods,
    believed_summary,
    fit_steps,
)
from anachron.analysis.metrics import check_scores
from anachron.core.dates import Date
from anachron.core.errors import DataError
from support.intervals import of_shares


def iso(year):
    """A year as it is written: ``0005``, ``-0040``; a text stays as it is."""
    return f"{year:05d}" if isinstance(year, int) and year < 0 else f"{year:0>4}"


def told(years, logps, *, fact="f", model="m", **others):
    """Rows of one fact's year contexts; the statuses do not matter to what is believed."""
    statuses = ["correct", "incorrect", "transitional", "discarded"]
    return [
        {
            "model": model, "format": "raw", "prefix": "none", "fact_id": fact, "granularity": "year",
            "time": iso(year), "status": statuses[i % 4], "alpha": i / 10, "logp": float(logp), **others,
        }
        for i, (year, logp) in enumerate(zip(years, logps, strict=True))
    ]  # fmt: skip


def fact(start, end, name="f"):
    return {"fact_id": name, "start": start, "end": end}


def believed(rows, *about):
    return believed_periods(pl.DataFrame(rows, infer_schema_length=None), pl.DataFrame(list(about)))


def only(rows, *about):
    table = believed(rows, *about)
    assert table.height == 1
    return table.row(0, named=True)


def plain_bic(squares, n, parameters):
    return n * log(max(squares / n, RESOLUTION**2)) + parameters * log(n)


def plain_squares(values):
    mean = fmean(values)
    return sum((v - mean) ** 2 for v in values)


def plain_steps(scores):
    """Every step up, by hand, the best first: (BIC of the constant - BIC, first, stop, inside, outside)."""
    n = len(scores)
    constant = plain_bic(plain_squares(scores), n, 2)
    steps = []
    for first in range(n):
        for stop in range(first + 1, n + 1):
            inside, outside = scores[first:stop], [*scores[:first], *scores[stop:]]
            if outside and fmean(inside) > fmean(outside):
                touches = first == 0 or stop == n
                bic = plain_bic(plain_squares(inside) + plain_squares(outside), n, 4 if touches else 5)
                steps.append((constant - bic, first, stop, fmean(inside), fmean(outside)))
    return sorted(steps, reverse=True)


def plain_fit(scores):
    return plain_steps(scores)[0]


def noisy(random, n):
    """Noise, with a step, a dip or a drift under it, or nothing."""
    kind, a, b = random.randrange(4), random.randrange(n), random.randrange(n)
    low, high = min(a, b), max(a, b) + 1
    shape = [
        (lambda i: 0.0),
        (lambda i: 2.0 * (low <= i < high)),
        (lambda i: -2.0 * (low <= i < high)),
        (lambda i: i / n),
    ][kind]
    return [random.gauss(shape(i) - 8, random.choice([0.3, 1.0])) for i in range(n)]


@pytest.mark.parametrize("n", [6, 7, 12, 31])
def test_fits_equal_the_loop_over_all_stretches(n):
    random = Random(n)
    scores = [noisy(random, n) for _ in range(40)]
    fit = fit_steps(np.array(scores))
    expected = [plain_fit(row) for row in scores]
    assert list(zip(fit["first"].tolist(), fit["stop"].tolist(), strict=True)) == [(f, s) for _, f, s, _, _ in expected]
    for name, at in (("bic_gain", 0), ("inside", 3), ("outside", 4)):
        assert fit[name].tolist() == pytest.approx([row[at] for row in expected], abs=1e-9)
    assert {gain > 0 for gain, *_ in expected} == {True, False}
    assert len({(first == 0, stop == n) for _, first, stop, _, _ in expected}) == 3


def test_a_fit_is_the_least_squares_solution():
    random = Random(3)
    scores = np.array([noisy(random, 20) for _ in range(10)])
    fit = fit_steps(scores)
    for row, first, stop, inside, outside in zip(
        scores, fit["first"], fit["stop"], fit["inside"], fit["outside"], strict=True
    ):
        within = (np.arange(20) >= first) & (np.arange(20) < stop)
        design = np.stack([within, ~within], axis=1).astype(float)
        assert np.linalg.lstsq(design, row, rcond=None)[0] == pytest.approx([inside, outside], abs=1e-9)


def test_many_facts_are_fitted_as_one_alone():
    """More facts than are weighed at once."""
    random = Random(5)
    scores = np.array([noisy(random, 180) for _ in range(40)])
    together = fit_steps(scores)
    for i in (0, 15, 16, 17, 39):
        alone = fit_steps(scores[i : i + 1])
        assert {name: values[0] for name, values in alone.items()} == {n: v[i] for n, v in together.items()}


TABLE_SEED = 11


def mixed_table(seed=TABLE_SEED):
    """Two runs of facts with different numbers of contexts, gaps between years, BCE years and other granularities."""
    random = Random(seed)
    rows, about = [], []
    for name in "abcdefgh":
        n = random.choice([1, 2, MIN_CONTEXTS - 1, MIN_CONTEXTS, 25, 25, 40])
        first, gap = random.choice([-40, 5, 1900]), random.choice([1, 1, 3])
        years = [y if first > 0 or y < 0 else y + 1 for y in (first + gap * i for i in range(n))]
        about.append(fact(f"{iso(years[0])}-05", random.choice([None, iso(years[-1])]), name))
        for model in "mk":
            dated = told(years, noisy(random, n), fact=name, model=model)
            rows += dated
            rows += [{**row, "granularity": "month", "time": row["time"] + "-03", "logp": -1.0} for row in dated]
            rows.append({**dated[0], "time": None, "status": "none", "alpha": None, "logp": -2.0})
    about = [{**a, "start": str(a["start"]), "end": None if a["end"] is None else str(a["end"])} for a in about]
    return pl.DataFrame(rows, infer_schema_length=None), pl.DataFrame(about)


def plain_believed(scores, about):
    """Every column by the definitions, fact by fact."""
    known = {row["fact_id"]: row for row in about.iter_rows(named=True)}
    runs = list(dict.fromkeys(scores["model"]))
    rows = []
    for model in runs:
        for name in sorted(set(scores["fact_id"])):
            contexts = [
                (Date.parse(row["time"]), row["time"], row["logp"])
                for row in scores.iter_rows(named=True)
                if (row["model"], row["fact_id"], row["granularity"]) == (model, name, "year") and row["time"]
            ]
            contexts.sort(key=lambda c: c[0].first_day)
            n, days = len(contexts), [c[0].first_day for c in contexts]
            row = dict.fromkeys(BELIEVED_SCHEMA)
            row |= {"model": model, "format": "raw", "prefix": "none", "fact_id": name, "contexts": n}
            row["believed"] = False
            if n > 1:
                row["resolution_days"] = float(median(b - a for a, b in pairwise(days)))
            if n >= MIN_CONTEXTS:
                gain, first, stop, row["inside"], row["outside"] = plain_fit([c[2] for c in contexts])
                row["bic_gain"], row["believed"] = gain, gain > 0
                true_start, true_end = (
                    None if text is None else Date.parse(text)
                    for text in (known[name]["start"], known[name]["end"])
                )  # fmt: skip
                start = contexts[first] if gain > 0 and first > 0 else None
                end = contexts[stop - 1] if gain > 0 and stop < n else None
                if start:
                    row["believed_start"] = start[1]
                    row["start_error_days"] = start[0].first_day - true_start.first_day if true_start else None
                if end:
                    row["believed_end"] = end[1]
                    row["end_error_days"] = end[0].last_day - true_end.last_day if true_end else None
                if start and end and true_start and true_end:
                    own = set(range(start[0].first_day, end[0].last_day + 1))
                    true = set(range(true_start.first_day, true_end.last_day + 1))
                    row["overlap"] = len(own & true) / len(own | true)
            rows.append(row)
    return rows


@pytest.mark.parametrize("seed", [11, 12, 13])
def test_every_column_equals_the_loop(seed):
    scores, about = mixed_table(seed)
    expected = plain_believed(scores, about)
    table = believed_periods(scores, about)
    assert dict(table.schema) == BELIEVED_SCHEMA
    assert table.height == len(expected) == 16
    for got, row in zip(table.iter_rows(named=True), expected, strict=True):
        exact = [name for name in BELIEVED_SCHEMA if name not in ("inside", "outside", "bic_gain", "overlap")]
        assert {name: got[name] for name in exact} == {name: row[name] for name in exact}
        for name in ("inside", "outside", "bic_gain", "overlap"):
            assert got[name] == (None if row[name] is None else pytest.approx(row[name], abs=1e-9)), name


def test_the_loop_has_seen_every_case():
    rows = [row for seed in (11, 12, 13) for row in plain_believed(*mixed_table(seed))]
    assert {row["believed"] for row in rows} == {True, False}
    for name in ("believed_start", "believed_end", "start_error_days", "end_error_days", "overlap"):
        assert {row[name] is None for row in rows if row["believed"]} == {True, False}, name
    assert any(row["believed_start"] and row["believed_start"].startswith("-") for row in rows)


@pytest.mark.parametrize("kind", ["shuffled", "categorical", "enum"])
def test_order_of_rows_and_kind_of_text_change_nothing(kind):
    scores, about = mixed_table()
    expected = believed_periods(scores, about)
    texts = ["model", "format", "prefix", "fact_id", "granularity", "time", "status"]
    if kind == "shuffled":
        got = believed_periods(scores.sample(fraction=1, shuffle=True, seed=4), about.reverse())
        got = got.sort("model", "fact_id", descending=[True, False])  # m came before k
    elif kind == "categorical":
        expected = believed_periods(check_scores(scores), about)
        got = believed_periods(check_scores(scores.with_columns(pl.col(texts).cast(pl.Categorical))), about)
    else:
        expected = believed_periods(check_scores(scores), about)
        kinds = [pl.col(t).cast(pl.Enum(sorted(scores[t].drop_nulls().unique()))) for t in texts]
        got = believed_periods(check_scores(scores.with_columns(kinds)), about)
    assert got.equals(expected)


quarters = st.lists(st.integers(-40, 40).map(lambda q: q / 4), min_size=MIN_CONTEXTS, max_size=24)


@given(quarters, st.integers(-4000, 4000).map(lambda q: q / 4))
def test_adding_a_constant_moves_only_the_levels(scores, constant):
    """Quarters collide often, so equally good stretches must be told apart by a rule, not by rounding."""
    fit, moved = (fit_steps(np.array([scores]) + shift) for shift in (0.0, constant))
    assert (fit["first"], fit["stop"]) == (moved["first"], moved["stop"])
    assert moved["bic_gain"] == pytest.approx(fit["bic_gain"], abs=1e-6)
    for level in ("inside", "outside"):
        assert moved[level] == pytest.approx(fit[level] + constant, abs=1e-9, nan_ok=True)


@given(quarters)
def test_the_best_step_is_as_good_as_the_best_of_the_loop(scores):
    assume(len(set(scores)) > 1)
    fit = fit_steps(np.array([scores]))
    assert fit["bic_gain"][0] == pytest.approx(plain_fit(scores)[0], abs=1e-6)
    assert fit["inside"][0] > fit["outside"][0]
    assert 0 < fit["stop"][0] - fit["first"][0] < len(scores)


@given(st.lists(st.floats(-30, 0), min_size=MIN_CONTEXTS, max_size=24, unique=True))
def test_time_reversed_scores_give_the_reversed_period(scores):
    n = len(scores)
    best, second = (step[0] for step in plain_steps(scores)[:2])
    assume(best - second > 1e-6)  # of equally good ones the earliest is taken, in either direction
    fit, back = fit_steps(np.array([scores])), fit_steps(np.array([scores[::-1]]))
    assert (back["first"][0], back["stop"][0]) == (n - fit["stop"][0], n - fit["first"][0])
    assert back["bic_gain"] == pytest.approx(fit["bic_gain"], abs=1e-6)


@given(st.data())
def test_a_planted_step_is_found_exactly(data):
    n = data.draw(st.integers(8, 60))
    first = data.draw(st.integers(0, n - 1))
    stop = data.draw(st.integers(first + 1, n if first else n - 1))
    height = data.draw(st.floats(0.5, 20))
    noise = data.draw(st.lists(st.floats(-0.01, 0.01), min_size=n, max_size=n))
    years = [str(1990 + i) for i in range(n)]
    scores = [e - 20 + height * (first <= i < stop) for i, e in enumerate(noise)]
    row = only(told(years, scores), fact(years[first], years[stop - 1]))
    assert row["believed"]
    assert row["believed_start"] == (years[first] if first > 0 else None)
    assert row["believed_end"] == (years[stop - 1] if stop < n else None)
    assert row["start_error_days"] == (0 if first > 0 else None)
    assert row["end_error_days"] == (0 if stop < n else None)
    assert row["overlap"] == (1 if first > 0 and stop < n else None)
    assert (row["inside"], row["outside"]) == pytest.approx((height - 20, -20), abs=0.0101)


JITTER = [0.1, -0.1, 0.05, -0.05, 0.0, 0.08, -0.08, 0.02]


def wavering(levels):
    return [level + JITTER[i % len(JITTER)] for i, level in enumerate(levels)]


def test_a_president_believed_three_years_late():
    """In office from 2009-01-20 to 2017-01-20, but likely from 2012 to 2019 only."""
    years = range(1990, 2030)
    row = only(told(years, wavering(-2 if 2012 <= y <= 2019 else -9 for y in years)), fact("2009-01-20", "2017-01-20"))
    assert (row["believed"], row["believed_start"], row["believed_end"]) == (True, "2012", "2019")
    assert row["start_error_days"] == (3 * 365 - 20 + 1)  # 2012-01-01 - 2009-01-20: 346 + 365 + 365 days
    assert row["end_error_days"] == 2 * 365 + 345  # 2019-12-31 - 2017-01-20
    own, true, shared = 8 * 365 + 2, 8 * 365 + 3, 5 * 365 + 2 + 20  # 2012 to 2019; 2009-01-20 to 2017-01-20
    assert row["overlap"] == pytest.approx(shared / (own + true - shared))
    assert (row["contexts"], row["resolution_days"]) == (40, 365)


def test_a_consul_across_the_missing_year_zero():
    """True from 3 BCE to 2 CE; believed one year late on both sides; 1 BCE is a leap year."""
    years = [y for y in range(-15, 16) if y != 0]
    row = only(
        told([f"{y:05d}" if y < 0 else f"{y:04d}" for y in years], wavering(-1 if -2 <= y <= 3 else -6 for y in years)),
        fact("-0003", "0002"),
    )
    assert (row["believed_start"], row["believed_end"]) == ("-0002", "0003")
    assert (row["start_error_days"], row["end_error_days"]) == (365, 365)
    # Both: 2 BCE, 1 BCE (leap), 1, 2; either: 3 BCE to 3.
    assert row["overlap"] == pytest.approx((4 * 365 + 1) / (6 * 365 + 1))


def test_a_capital_believed_to_be_one_ever_since_has_an_open_end():
    years = range(1900, 1960)
    row = only(told(years, wavering(-1 if y >= 1923 else -8 for y in years)), fact("1923-10-13", "1950"))
    assert (row["believed"], row["believed_start"], row["believed_end"]) == (True, "1923", None)
    assert row["start_error_days"] == -(365 - 80)  # 1 January to 13 October: 285 days
    assert row["end_error_days"] is row["overlap"] is None


def test_a_currency_believed_to_be_old_has_an_open_start():
    years = range(1900, 1960)
    row = only(told(years, wavering(-1 if y <= 1923 else -8 for y in years)), fact("1871", "1923"))
    assert (row["believed"], row["believed_start"], row["believed_end"]) == (True, None, "1923")
    assert (row["start_error_days"], row["end_error_days"], row["overlap"]) == (None, 0, None)


def test_a_dip_elsewhere_does_not_hide_the_period():
    """A least likely stretch, 1930 to 1949, explains more than the period does, but says nothing of when it was."""
    years = range(1900, 2000)
    scores = wavering(-18 if 1930 <= y < 1950 else -2 if 1960 <= y < 1970 else -10 for y in years)
    left = [plain_squares(scores[a:b]) + plain_squares(scores[:a] + scores[b:]) for a, b in [(30, 50), (60, 70)]]
    assert left[0] < left[1]
    row = only(told(years, scores), fact("1960", "1969"))
    assert (row["believed"], row["believed_start"], row["believed_end"], row["overlap"]) == (True, "1960", "1969", 1)


def test_two_peaks_at_the_ends_are_no_period_between_them():
    """Nothing between the ends is above the mean, so only a stretch at an end can be believed, and no dip is taken."""
    scores = [20.0, -30.0, *[0.0] * 5, 19.0]
    fit = {name: values[0] for name, values in fit_steps(np.array([scores])).items()}
    assert (fit["bic_gain"], fit["first"], fit["stop"]) == pytest.approx(plain_fit(scores)[:3])
    assert fit["inside"] > fit["outside"]


def test_a_period_believed_elsewhere_does_not_overlap():
    years = range(1900, 1960)
    row = only(told(years, wavering(-1 if 1910 <= y < 1916 else -4 for y in years)), fact("1940", "1949-12"))
    assert (row["start_error_days"], row["end_error_days"]) == (-(30 * 365 + 7), -(34 * 365 + 9))
    assert row["overlap"] == 0


def test_equally_good_stretches_are_told_apart_by_a_rule():
    """Up, down, up, down: each year that stands alone explains as much, whatever the rounding."""
    shape = np.array([-1.0, 1.0] * 15 + [-1.0])
    fit = fit_steps(shape + 0.1 * np.arange(-300, 300)[:, None])
    assert set(zip(fit["first"].tolist(), fit["stop"].tolist(), strict=True)) == {(1, 31)}


def test_scores_that_only_waver_are_no_belief():
    years = range(1900, 1930)
    row = only(told(years, wavering(-5 for _ in years)), fact("1910", "1915"))
    assert row["bic_gain"] < 0
    assert row["inside"] > row["outside"]
    assert not row["believed"]
    names = ("believed_start", "believed_end", "start_error_days", "end_error_days", "overlap")
    assert [row[name] for name in names] == [None] * 5


@pytest.mark.parametrize("level", [0.0, -0.1, -123.456])
def test_equal_scores_have_no_step(level):
    row = only(told(range(1900, 1930), [level] * 30), fact("1910", "1915"))
    assert not row["believed"]
    assert row["inside"] is row["outside"] is row["believed_start"] is None
    assert row["bic_gain"] == pytest.approx(-2 * log(30))


def test_differences_below_the_resolution_of_scores_are_no_belief():
    years = range(1900, 1930)
    steps = [RESOLUTION / 10 * (1910 <= y < 1916) for y in years]
    assert not only(told(years, steps), fact("1910", "1915"))["believed"]
    assert only(told(years, [1e6 * s for s in steps]), fact("1910", "1915"))["believed"]


def test_an_exact_step_has_a_finite_gain():
    years = range(1900, 1930)
    row = only(told(years, [-1 if 1910 <= y < 1916 else -4 for y in years]), fact("1910", "1915"))
    squares = 9 * 6 * 24 / 30
    assert row["bic_gain"] == pytest.approx(30 * log(squares / 30 / RESOLUTION**2) - 3 * log(30))
    assert (row["inside"], row["outside"], row["overlap"]) == pytest.approx((-1, -4, 1))


@pytest.mark.parametrize("contexts", [1, 2, 3, 4, 5, 6])
def test_few_contexts_are_not_fitted(contexts):
    years = range(2000, 2000 + contexts)
    row = only(told(years, [-1.0] + [-9.0] * (contexts - 1)), fact("2000", "2001"))
    assert row["contexts"] == contexts
    assert row["resolution_days"] == (None if contexts == 1 else pytest.approx(365.5, abs=0.5))
    if contexts < 6:
        assert not row["believed"]
        assert row["inside"] is row["outside"] is row["bic_gain"] is None
    else:
        assert (row["believed"], row["believed_start"], row["believed_end"]) == (True, None, "2000")


def test_a_fact_with_unknown_dates_is_fitted_without_errors():
    years = range(1900, 1930)
    rows = told(years, wavering(-1 if 1910 <= y < 1916 else -4 for y in years))
    expected = {"believed_start": "1910", "believed_end": "1915"} | dict.fromkeys(
        ["start_error_days", "end_error_days", "overlap"]
    )
    nobody = pl.DataFrame({"fact_id": ["other"]})
    unknown = pl.DataFrame([fact(None, None)], schema_overrides={"start": pl.String, "end": pl.String})
    for about in (nobody, unknown, pl.DataFrame({"fact_id": ["f"]})):
        row = believed_periods(pl.DataFrame(rows), about).row(0, named=True)
        assert {name: row[name] for name in expected} == expected


def test_sparse_contexts_have_a_coarse_resolution():
    years = range(1000, 1600, 20)
    row = only(told(years, wavering(-1 if 1200 <= y < 1300 else -4 for y in years)), fact("1195", "1295"))
    assert row["resolution_days"] == 20 * 365 + 5
    assert (row["believed_start"], row["believed_end"]) == ("1200", "1280")


def test_no_year_contexts_give_an_empty_table():
    rows = [{**row, "granularity": "month", "time": row["time"] + "-01"} for row in told(range(1900, 1910), range(10))]
    table = believed(rows, fact("1905", "1906"))
    assert table.height == 0
    assert dict(table.schema) == BELIEVED_SCHEMA
    summary = believed_summary(table)
    assert summary.height == 0
    assert dict(summary.schema) == SUMMARY_SCHEMA


def test_a_time_that_is_no_date_is_refused():
    with pytest.raises(DataError, match="'soon' is not a date"):
        believed(told(["1900", "soon"], [0, 0]), fact("1900", "1901"))


def test_summary_equals_the_loop():
    random = Random(8)
    rows = []
    for model in ["m"] * 40 + ["k"] * 31 + ["nothing"] * 4:
        kept = model != "nothing" and random.random() < 0.6
        rows.append(dict.fromkeys(BELIEVED_SCHEMA) | {
            "model": model, "format": "raw", "prefix": "none", "fact_id": str(len(rows)), "believed": kept,
            "resolution_days": random.choice([365.0, 731.0]) if kept else 9000.0,
            "start_error_days": random.choice([None, random.randint(-5000, 5000)]) if kept else None,
            "end_error_days": random.choice([None, random.randint(-5000, 5000)]) if kept else None,
            "overlap": random.choice([None, random.random()]) if kept else None,
        })  # fmt: skip
    table = pl.DataFrame(rows, schema=BELIEVED_SCHEMA)
    summary = believed_summary(table.with_columns(subject="fact_id"))
    assert summary["model"].to_list() == ["m", "k", "nothing"]
    for row in summary.iter_rows(named=True):
        facts = [r for r in table.iter_rows(named=True) if r["model"] == row["model"]]
        kept = [r for r in facts if r["believed"]]
        assert (row["facts"], row["believed"]) == (len(facts), pytest.approx(len(kept) / len(facts)))
        shares = [float(r["believed"]) for r in facts]
        assert (row["believed_low"], row["believed_high"]) == pytest.approx(of_shares(shares), abs=1e-9)
        assert row["resolution_days"] == (median(r["resolution_days"] for r in kept) if kept else None)
        for count, name in (("starts", "start_error_days"), ("ends", "end_error_days")):
            errors = [abs(r[name]) for r in kept if r[name] is not None]
            assert (row[count], row[name]) == (len(errors), median(errors) if errors else None)
        overlaps = [r["overlap"] for r in kept if r["overlap"] is not None]
        assert row["closed"] == len(overlaps)
        if overlaps:
            assert row["overlap"] == pytest.approx(fmean(overlaps))
            assert (row["overlap_low"], row["overlap_high"]) == pytest.approx(of_shares(overlaps), abs=1e-9)
        else:
            assert row["overlap"] is row["overlap_low"] is row["overlap_high"] is None
