"""Intervals against closed formulas, scipy and simulation."""

from math import isnan, sqrt

import numpy as np
import pytest
from scipy import stats

from anachron.probe.statistics import bootstrap_mean, wilson

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
def test_wilson_with_continuity_correction_is_the_closed_formula(x, n):
    assert wilson(x, n, correction=True) == pytest.approx(corrected_wilson(x, n), abs=1e-12)


def test_wilson_of_one_bad_in_fifty():
    assert wilson(49, 50, correction=False) == pytest.approx((0.895, 0.996), abs=5e-4)
    assert wilson(49, 50, correction=True) == pytest.approx((0.880, 0.999), abs=5e-4)
    low, high = wilson(1, 50, correction=True)
    assert (1 - high, 1 - low) == pytest.approx(wilson(49, 50, correction=True), abs=1e-12)


def test_wilson_follows_the_confidence():
    narrow, wide = (wilson(30, 50, correction=True, confidence=c) for c in (0.8, 0.99))
    assert wide[0] < narrow[0] < 0.6 < narrow[1] < wide[1]


@pytest.mark.parametrize("correction", [True, False])
def test_wilson_of_no_trials(correction):
    assert all(map(isnan, wilson(0, 0, correction=correction)))


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
    theirs = stats.bootstrap((values,), np.mean, method="percentile", n_resamples=20_000, rng=np.random.default_rng(4))
    assert ours == pytest.approx(tuple(theirs.confidence_interval), abs=0.002)  # the interval is 0.07 wide


def test_bootstrap_of_constant_values_is_a_point():
    assert bootstrap_mean([0.25] * 20) == (0.25, 0.25)
    assert bootstrap_mean([1]) == (1.0, 1.0)


def test_bootstrap_of_nothing():
    assert all(map(isnan, bootstrap_mean([])))


def test_bootstrap_follows_the_confidence():
    values = np.arange(30) / 29
    narrow, wide = (bootstrap_mean(values, confidence=c) for c in (0.5, 0.99))
    assert wide[0] < narrow[0] < 0.5 < narrow[1] < wide[1]


def test_bootstrap_covers_the_true_mean_about_as_often_as_it_says():
    random = np.random.default_rng(5)
    hits = 0
    for trial in range(300):
        low, high = bootstrap_mean(random.random(60), resamples=400, seed=trial)
        hits += low <= 0.5 <= high
    assert 0.90 <= hits / 300 <= 0.985
