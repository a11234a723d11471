"""Intervals against closed formulas, scipy and simulation."""

from itertools import product
from math import comb, isnan, nan, sqrt

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from anachron.analysis import statistics as statistics_module
from anachron.analysis.statistics import (
    bootstrap_median,
    bootstrap_ratio,
    korn_graubard,
    korn_graubard_difference,
    mcnemar,
    pearson,
    sign_flips,
    t_mean,
    wilson,
    wilson_finite,
)
from support.intervals import exact, of_differences, of_shares

Z = 1.959963984540054
CASES = [(1, 50), (49, 50), (0, 7), (7, 7), (1, 1), (37, 120), (860, 1000), (5, 10)]


def plain_wilson(x, n):
    p = x / n
    middle, reach = 2 * n * p + Z**2, Z * sqrt(Z**2 + 4 * n * p * (1 - p))
    return (middle - reach) / (2 * (n + Z**2)), (middle + reach) / (2 * (n + Z**2))


def corrected_wilson(x, n):
    """Newcombe (1998), method 4."""
    p = x / n
    low = (2 * n * p + Z**2 - 1 - Z * sqrt(Z**2 - 2 - 1 / n + 4 * p * (n * (1 - p) + 1))) / (2 * (n + Z**2))
    high = (2 * n * p + Z**2 + 1 + Z * sqrt(Z**2 + 2 - 1 / n + 4 * p * (n * (1 - p) - 1))) / (2 * (n + Z**2))
    return (0 if x == 0 else max(0, low)), (1 if x == n else min(1, high))


@pytest.mark.parametrize(("x", "n"), CASES)
def test_wilson_is_the_closed_formula(x, n):
    assert wilson(x, n, correction=False) == pytest.approx(plain_wilson(x, n), abs=1e-12)


@pytest.mark.parametrize(("x", "n"), CASES)
def test_bounds_of_a_mean_of_yes_and_no_are_the_exact_ones(x, n):
    values = np.random.default_rng(1).permutation([1.0] * x + [0.0] * (n - x))
    expected = scipy.stats.binomtest(x, n).proportion_ci(method="exact")
    assert korn_graubard(values) == pytest.approx((expected.low, expected.high), abs=1e-9)
    assert exact(x, n) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_bounds_of_a_mean_are_the_exact_ones_of_the_effective_number():
    values = [0.25, 0.5, 1.0, 0.75, 0.75, 0.0]
    mean = sum(values) / 6
    apart = [(sum(values) - value) / 5 for value in values]  # the means without one of them
    jackknife = 5 / 6 * sum((one - mean) ** 2 for one in apart)
    phi = 6 / (1 + mean * (1 - mean) / jackknife)
    trials = 6 / (phi + 2 * (1 - phi) / 6)
    assert 6 < trials < 18
    assert korn_graubard(values) == pytest.approx(exact(mean * trials, trials), abs=1e-9)


def test_bounds_of_equal_shares_and_of_one():
    assert korn_graubard([0.75] * 4) == pytest.approx(exact(6, 8), abs=1e-9)  # of 4 * 4 / 2 trials
    assert korn_graubard([0.75]) == pytest.approx(exact(0.75, 1), abs=1e-9)
    assert korn_graubard([0.5, 0.5], ["a", "a"]) == pytest.approx(exact(0.5, 1), abs=1e-9)
    assert all(map(isnan, korn_graubard([])))
    for wrong in ([0.5, 1.01], [-0.01], [nan]):
        with pytest.raises(ValueError, match="within 0 to 1"):
            korn_graubard(wrong)
    with pytest.raises(ValueError, match="2 values have 1 labels"):
        korn_graubard([0.5, 0.5], ["a"])


SHARES = st.integers(0, 10**6).map(lambda n: n / 10**6)  # 1 - value is exact enough


@given(st.lists(st.tuples(SHARES, st.integers(0, 5)), min_size=1, max_size=30))
def test_bounds_hold_the_mean_turn_with_it_and_are_no_wider_than_those_of_yes_and_no(rows):
    values, clusters = [value for value, _ in rows], [cluster for _, cluster in rows]
    for labels in (None, clusters):
        low, high = korn_graubard(values, labels)
        mean = float(np.mean(values))
        assert 0 <= low <= mean + 1e-9 and mean - 1e-9 <= high <= 1
        assert korn_graubard([1 - value for value in values], labels) == pytest.approx((1 - high, 1 - low), abs=1e-6)
        assert (low, high) == pytest.approx(of_shares(values, labels), abs=1e-7)
    widest = exact(mean * len(values), len(values))
    low, high = korn_graubard(values)
    assert high - low <= widest[1] - widest[0] + 1e-7


@given(st.lists(SHARES, min_size=1, max_size=12), st.integers(1, 4), st.randoms(use_true_random=False))
def test_a_fact_that_is_there_several_times_counts_once(values, times, random):
    """Each value as a cluster of copies says as much as the value alone; as if independent, it would say more."""
    rows = [(value, f"s{place}") for place, value in enumerate(values) for _ in range(times)]
    random.shuffle(rows)
    copies, clusters = [value for value, _ in rows], [cluster for _, cluster in rows]
    assert korn_graubard(copies, clusters) == pytest.approx(korn_graubard(values), abs=1e-9)
    assert t_mean(copies, clusters) == pytest.approx(t_mean(values), abs=1e-9, nan_ok=True)
    zeros = np.zeros(len(copies))
    assert sign_flips(zeros, copies, clusters) == pytest.approx(sign_flips(np.zeros(len(values)), values))


@given(st.lists(st.tuples(SHARES, SHARES, st.integers(0, 4)), min_size=1, max_size=20))
def test_the_interval_of_a_paired_difference_by_hand(rows):
    before, after, clusters = zip(*rows, strict=True)
    low, high = korn_graubard_difference(before, after, clusters)
    gaps = [a - b for b, a, _ in rows]
    assert (low, high) == pytest.approx(of_differences(gaps, clusters), abs=1e-6)
    assert -1 <= low <= np.mean(gaps) + 1e-9 and np.mean(gaps) - 1e-9 <= high <= 1
    assert korn_graubard_difference(after, before, clusters) == pytest.approx((-high, -low), abs=1e-6)


@pytest.mark.full
@pytest.mark.parametrize("n", [5, 20, 200])
@pytest.mark.parametrize("dates", [1, 3, 10])
@pytest.mark.parametrize(("a", "b"), [(0.2, 0.2), (1, 1), (5, 5), (50, 50), (2, 0.3), (9, 1), (0.5, 5), (45, 5)])
def test_bounds_cover_the_true_mean_of_shares(n, dates, a, b):
    """Units with shares of dates about truths of their own; 0.015 is three standard errors of 2,000 draws."""
    mean = a / (a + b)
    draw = np.random.default_rng([n, dates, int(10 * a), int(10 * b)])
    shares = draw.binomial(dates, draw.beta(a, b, (2000, n))) / dates
    ends = np.array([korn_graubard(values) for values in shares])
    covered = float(((ends[:, 0] <= mean) & (mean <= ends[:, 1])).mean())
    assert covered >= 0.93 - 0.015


@pytest.mark.full
@pytest.mark.parametrize("facts", [12, 30, 99])
@pytest.mark.parametrize(("a", "b"), [(1, 1), (0.2, 0.2), (9, 1)])
def test_bounds_cover_where_facts_share_subjects(facts, a, b):
    """Three facts of a subject, by half what the subject is like. As if alone, they would be covered less often."""
    draw, mean = np.random.default_rng([facts, int(10 * a)]), a / (a + b)
    subjects = np.arange(facts) // 3
    covered, alone = [], []
    for _ in range(1000):
        normal = 0.5**0.5 * (draw.normal(size=facts)[subjects] + draw.normal(size=facts))
        values = scipy.stats.beta.ppf(scipy.stats.norm.cdf(normal), a, b)
        covered.append(korn_graubard(values, subjects))
        alone.append(korn_graubard(values))
    share, without = (np.mean([low <= mean <= high for low, high in ends]) for ends in (covered, alone))
    assert share >= 0.93 - 0.02 and without < share


def test_students_interval_of_a_mean_against_scipy_and_statsmodels():
    values = [0.5, -1.0, 2.25, 0.0, 0.75]
    expected = scipy.stats.t.interval(0.95, 4, np.mean(values), scipy.stats.sem(values))
    assert t_mean(values) == pytest.approx(expected, abs=1e-12)
    assert t_mean([0.25, 0.25]) == (0.25, 0.25)
    for few in ([], [1.0]):
        assert all(isnan(end) for end in t_mean(few))
    assert all(isnan(end) for end in t_mean([1.0, 2.0], ["a", "a"]))
    sm = pytest.importorskip("statsmodels.api")
    draw = np.random.default_rng(4)
    clusters, values = draw.integers(0, 9, 50), draw.normal(size=50)
    fit = sm.OLS(values, np.ones(50)).fit(
        cov_type="cluster", cov_kwds={"groups": clusters, "df_correction": True}, use_t=True
    )
    assert t_mean(values, clusters) == pytest.approx(tuple(fit.conf_int()[0]), abs=1e-9)


@pytest.mark.parametrize(("x", "n"), CASES)
def test_wilson_with_continuity_correction_is_the_closed_formula(x, n):
    assert wilson(x, n, correction=True) == pytest.approx(corrected_wilson(x, n), abs=1e-12)


def test_wilson_of_one_bad_in_fifty():
    assert wilson(49, 50, correction=False) == pytest.approx((0.895, 0.996), abs=5e-4)
    assert wilson(49, 50, correction=True) == pytest.approx((0.880, 0.999), abs=5e-4)
    low, high = wilson(1, 50, correction=True)
    assert (1 - high, 1 - low) == pytest.approx(wilson(49, 50, correction=True), abs=1e-12)


@pytest.mark.parametrize(("x", "n"), CASES)
@pytest.mark.parametrize("extra", [1, 10, 2000])
def test_wilson_of_a_finite_population_holds_the_shares_that_the_score_test_keeps(x, n, extra):
    """Its ends are where the sample lies z corrected standard errors from the share, found by bisection."""
    from scipy.optimize import brentq

    population, seen = n + extra, x / n

    def score(p):
        return (seen - p) ** 2 - Z**2 * p * (1 - p) / n * (population - n) / (population - 1)

    low, high = wilson_finite(x, n, population)
    assert low == pytest.approx(0 if x == 0 else brentq(score, 0, seen - 1e-12), abs=1e-9)
    assert high == pytest.approx(1 if x == n else brentq(score, seen + 1e-12, 1), abs=1e-9)
    assert (high - low) <= np.diff(wilson(x, n, correction=False))[0] + 1e-12


def test_wilson_of_finite_populations_at_their_ends():
    assert wilson_finite(49, 50, 10**12) == pytest.approx(wilson(49, 50, correction=False), abs=1e-9)
    assert wilson_finite(3, 4, 4) == (0.75, 0.75)
    assert all(map(isnan, wilson_finite(0, 0, 7)))
    with pytest.raises(ValueError, match="5 of 4 sampled of 9"):
        wilson_finite(5, 4, 9)


def test_wilson_follows_the_confidence():
    narrow, wide = (wilson(30, 50, correction=True, confidence=c) for c in (0.8, 0.99))
    assert wide[0] < narrow[0] < 0.6 < narrow[1] < wide[1]


@pytest.mark.parametrize("correction", [True, False])
def test_wilson_of_no_trials(correction):
    assert all(map(isnan, wilson(0, 0, correction=correction)))


def bootstrap_mean(values, **how):
    """Of one column, each value counting once: the interval of their mean."""
    column = np.asarray(values, dtype=float)[:, None]
    low, high = bootstrap_ratio(column, np.ones_like(column), **how)
    return float(low[0]), float(high[0])


def test_bootstrap_depends_on_values_and_seed_alone():
    values = np.random.default_rng(1).random(80)
    first = bootstrap_mean(values, seed=3)
    np.random.seed(123)  # the global state has no say
    assert first == bootstrap_mean(list(values), seed=3)
    assert first != bootstrap_mean(values, seed=4)
    assert first[0] < values.mean() < first[1]


@pytest.mark.parametrize("size", [1, 2, 37, 6000])  # 6,000 values are resampled in several pieces
def test_bootstrap_equals_one_resample_at_a_time(size):
    values = np.random.default_rng(2).random(size)
    random = np.random.Generator(np.random.PCG64(9))
    means = [values[random.integers(0, size, size)].mean() for _ in range(1000)]
    assert bootstrap_mean(values, seed=9) == pytest.approx(tuple(np.percentile(means, [2.5, 97.5])), abs=1e-12)


def test_bootstrap_agrees_with_scipy():
    values = np.random.default_rng(3).beta(2, 1, 150)
    ours = bootstrap_mean(values, resamples=20_000, seed=0)
    theirs = scipy.stats.bootstrap(
        (values,), np.mean, method="percentile", n_resamples=20_000, rng=np.random.default_rng(4)
    )
    assert ours == pytest.approx(tuple(theirs.confidence_interval), abs=0.002)  # the interval is 0.07 wide


def test_bootstrap_of_constant_values_is_a_point():
    assert bootstrap_mean([0.25] * 20) == (0.25, 0.25)
    assert bootstrap_mean([1]) == (1.0, 1.0)


def test_bootstrap_covers_the_true_mean_about_as_often_as_it_says():
    random = np.random.default_rng(5)
    hits = 0
    for trial in range(300):
        low, high = bootstrap_mean(random.random(60), resamples=400, seed=trial)
        hits += low <= 0.5 <= high
    assert 0.90 <= hits / 300 <= 0.985


# Ratios, paired runs, coefficients


def test_bootstrap_ratio_of_counts_of_one_is_bootstrap_mean():
    values = np.random.default_rng(0).normal(size=(57, 3))
    low, high = bootstrap_ratio(values, np.ones_like(values), resamples=400, seed=2)
    for column in range(3):
        assert (low[column], high[column]) == pytest.approx(
            bootstrap_mean(values[:, column], resamples=400, seed=2), abs=1e-12
        )


def test_bootstrap_ratio_is_the_plain_loop():
    random = np.random.default_rng(1)
    sums, counts = random.integers(0, 9, (23, 2)).astype(float), random.integers(0, 4, (23, 2)).astype(float)
    draws = np.random.Generator(np.random.PCG64(5)).integers(0, 23, (300, 23))
    for column in range(2):
        ratios = [sum(sums[i, column] for i in draw) / sum(counts[i, column] for i in draw) for draw in draws]
        low, high = bootstrap_ratio(sums, counts, resamples=300, seed=5)
        assert (low[column], high[column]) == pytest.approx(tuple(np.quantile(ratios, [0.025, 0.975])), abs=1e-12)


def test_bootstrap_in_chunks_draws_the_same(monkeypatch):
    values = np.random.default_rng(0).normal(size=31)
    whole = bootstrap_mean(values, resamples=500, seed=3)
    monkeypatch.setattr(statistics_module, "CHUNK", 31 * 7)
    assert bootstrap_mean(values, resamples=500, seed=3) == pytest.approx(whole, abs=1e-12)


def test_bootstrap_ratio_where_there_is_nothing():
    low, high = bootstrap_ratio(np.zeros((4, 2)), np.array([[1.0, 0.0]] * 4), resamples=50)
    assert (low[0], high[0]) == (0, 0) and isnan(low[1]) and isnan(high[1])
    assert all(np.isnan(end).all() for end in bootstrap_ratio(np.empty((0, 3)), np.empty((0, 3))))
    low, high = bootstrap_ratio(np.ones((2, 1)), np.array([[0.0], [1.0]]), resamples=200)  # half of them draw no count
    assert low[0] == 1 and high[0] == np.inf


def test_bootstrap_of_clusters_is_that_of_their_totals():
    draw = np.random.default_rng(6)
    sums, counts, clusters = draw.random((40, 1)), draw.integers(1, 4, (40, 1)), draw.integers(0, 12, 40)
    order = sorted({*clusters}, key=str)
    totals = [(sums[clusters == one].sum(), counts[clusters == one].sum()) for one in order]
    expected = bootstrap_ratio(*(np.array(column)[:, None] for column in zip(*totals, strict=True)), resamples=300)
    found = bootstrap_ratio(sums, counts, clusters, resamples=300)
    assert np.array(found) == pytest.approx(np.array(expected), abs=1e-12)


def test_bootstrap_of_a_median_draws_all_rows_of_a_cluster():
    values = np.array([[1.0, nan], [2.0, 3.0], [10.0, 11.0], [12.0, nan]])
    middle, low, high = bootstrap_median(values, ["a", "a", "b", "b"], resamples=500)
    assert (middle, low, high) == (np.nanmedian(values), 2.0, 11.0)  # either cluster alone, or both
    alone = bootstrap_median(values, resamples=500, seed=3)
    draws = np.random.default_rng(3)
    medians = [np.nanmedian(values[draws.integers(4, size=4)]) for _ in range(500)]
    assert alone[1:] == pytest.approx(tuple(np.quantile(medians, [0.025, 0.975])))


@pytest.mark.parametrize(("gained", "lost"), [(0, 0), (3, 9), (9, 3), (0, 7), (40, 41), (1, 0)])
def test_mcnemar_is_the_sum_of_binomial_tails(gained, lost):
    n, most = gained + lost, max(gained, lost)
    tail = sum(comb(n, k) for k in range(most, n + 1)) / 2**n
    assert mcnemar(gained, lost) == pytest.approx(min(1.0, 2 * tail))


def test_mcnemar_of_a_published_table():
    # Agresti, Categorical Data Analysis (2002), table 10.1: 150 and 86 of 1,600 voters changed; chi-squared is 17.36.
    assert mcnemar(150, 86) == pytest.approx(scipy.stats.chi2.sf(17.36, 1), rel=0.25)


def test_pearson_is_scipys_and_clusters_of_one_are_robust_errors():
    sm = pytest.importorskip("statsmodels.api")
    random = np.random.default_rng(3)
    x = random.normal(size=70)
    y = 0.3 * x + random.normal(size=70) * (1 + abs(x))
    found = pearson(x, y, np.arange(70))
    expected = scipy.stats.pearsonr(x, y)
    assert (found.n, found.r, found.p) == (70, pytest.approx(expected.statistic), pytest.approx(expected.pvalue))
    for clusters in (np.arange(70), np.arange(70) // 5, np.array([f"f{i % 14}" for i in range(70)])):
        groups = np.unique(clusters, return_inverse=True)[1]
        fit = sm.OLS(y, sm.add_constant(x)).fit(cov_type="cluster", cov_kwds={"groups": groups}, use_t=False)
        assert pearson(x, y, clusters).p_clustered == pytest.approx(fit.pvalues[1], abs=1e-10)


def test_repeating_pairs_fools_p_but_not_the_clustered_p():
    random = np.random.default_rng(6)
    x, y = random.normal(size=40), random.normal(size=40)
    once, copies = pearson(x, y, np.arange(40)), pearson(*(np.tile(v, 25) for v in (x, y)), np.tile(np.arange(40), 25))
    assert copies.r == pytest.approx(once.r)
    assert copies.p < 0.2 * once.p
    assert copies.p_clustered == pytest.approx(once.p_clustered, abs=0.02)


@pytest.mark.parametrize(("x", "y"), [([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [5, 5, 5]), ([1, 2], [1, 2]), ([], [])])
def test_pearson_of_what_does_not_vary(x, y):
    found = pearson(x, y, np.arange(len(x)))
    assert found.n == len(x) and all(map(isnan, (found.r, found.p, found.p_clustered)))


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.sampled_from([0.0, 0.5, 1.0])), max_size=8))
def test_sign_flips_against_all_ways(pairs):
    gaps = [after - before for before, after in pairs]
    sums = [abs(sum(s * g for s, g in zip(signs, gaps, strict=True))) for signs in product((1, -1), repeat=len(gaps))]
    expected = sum(one >= sums[0] - 1e-9 for one in sums) / len(sums)
    assert sign_flips([b for b, _ in pairs], [a for _, a in pairs]) == pytest.approx(expected)


@pytest.mark.parametrize(("gained", "lost"), [(6, 0), (9, 1), (20, 8), (3, 3), (0, 0)])
def test_sign_flips_of_yes_and_no_are_mcnemars_test(gained, lost):
    before, after = [0] * gained + [1] * lost + [1, 0], [1] * gained + [0] * lost + [1, 0]
    assert sign_flips(before, after) == pytest.approx(mcnemar(gained, lost), abs=0.01)


def test_drawn_sign_flips_are_near_all_of_them():
    draw = np.random.default_rng(1)
    before = draw.random(12)
    after = before + draw.normal(0.2, 0.4, 12)
    exact = sign_flips(before, after)
    assert sign_flips(before, after, resamples=4000) == pytest.approx(exact, abs=0.02)
    assert sign_flips(np.zeros(40), np.ones(40)) == 1 / 10_000
