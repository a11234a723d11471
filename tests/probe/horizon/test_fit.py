"""The curve and its fit, against closed forms and a general optimiser."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, logsumexp
from scipy.stats import binom

from anachron.probe.horizon.fit import ChangePreferences, fit_horizon, quantiles
from anachron.probe.horizon.kinds import kind_horizons, pooled_weights
from anachron.probe.horizon.likelihood import FLOOR, GONE, PLATEAU, SLOPE, Curves, counted, curves_at, fit_curves

FIRST, LAST = 2010 * 12, 2026 * 12


def simulated(size: int, halving: float, seed: int, plateau: float = 0.8, floor: float = 0.1) -> ChangePreferences:
    """Answers of a model that learned all before its halving date and nothing after."""
    random = np.random.default_rng(seed)
    month = random.integers(FIRST, LAST, size)
    known = (random.random(size) < plateau) & (month < halving)
    return ChangePreferences(month, (known | (random.random(size) < floor)) * 1.0, np.arange(size))


@given(st.floats(24000, 24400), st.sampled_from([1.5, 6.0, 48.0]), st.sampled_from([0.7, 1.0, 3.5]))
def test_a_curve_is_half_at_its_halving_date_and_gone_at_its_end(halving: float, lag: float, shape: float) -> None:
    curve = Curves(np.array([halving]), np.array([lag]), np.array([shape]))
    times = np.array([halving, curve.end[0], halving + lag, halving + lag + 1, halving - 1200])
    np.testing.assert_allclose(curve.learned(times)[0], [0.5, GONE, 0, 0, 1], atol=2e-3 if shape < 1 else 1e-6)


def test_a_curve_without_a_lag_is_a_step() -> None:
    curve = Curves(np.array([100.0]), np.array([0.0]), np.array([1.0]))
    assert curve.learned(np.array([99.5, 100.5])).tolist() == [[1.0, 0.0]]
    assert curve.end.tolist() == [100.0]


def test_coefficients_are_those_of_a_general_optimiser() -> None:
    random = np.random.default_rng(3)
    size = 300
    month, popular, easy = (
        random.integers(FIRST, LAST, size),
        random.choice([-1.0, 0, 1.0], size),
        random.random(size) < 0.3,
    )
    learned_of = Curves(np.array([2018.0 * 12]), np.array([24.0]), np.array([1.5]))
    wins = (random.random(size) < 0.1 + 0.7 * learned_of.learned(month + 0.5)[0]) * 1.0
    ones = np.ones(size)
    counts = counted(month, wins, np.column_stack([ones, popular]), np.column_stack([ones, easy]))
    fits = fit_curves(counts, learned_of.learned(counts.month))
    learned = learned_of.learned(month + 0.5)[0]

    def loss(at: np.ndarray) -> float:  # change by change, with the formulas of the page, in no order but their own
        total = 0.0
        for i in range(size):
            guess = expit(at[0] + at[1] * easy[i])
            known = learned[i] * expit(at[2] + at[3] * popular[i])
            chance = known + (1 - known) * guess
            total -= np.log(chance if wins[i] else 1 - chance)
        for value, (mean, deviation) in zip(at, (FLOOR, SLOPE, PLATEAU, SLOPE), strict=True):
            total += ((value - mean) / deviation) ** 2 / 2
        return total

    found = minimize(loss, fits.coefficients[0] + 0.3, method="BFGS")
    np.testing.assert_allclose(fits.coefficients[0], found.x, atol=0.02)
    assert loss(fits.coefficients[0]) == pytest.approx(found.fun, abs=0.01)


def test_the_evidence_is_the_integral_over_guess_and_plateau() -> None:
    answers = simulated(200, 2018 * 12, 1)
    counts = answers.counts()
    curve = Curves(np.array([2018.0 * 12]), np.array([0.0]), np.array([1.0]))
    learned = curve.learned(counts.month)
    fits = fit_curves(counts, learned)
    guess, plateau = np.meshgrid(np.linspace(-6, 3, 400), np.linspace(-4, 7, 400), indexing="ij")
    prior = -(((guess - FLOOR[0]) / FLOOR[1]) ** 2) / 2 - ((plateau - PLATEAU[0]) / PLATEAU[1]) ** 2 / 2
    value = prior - np.log(2 * np.pi * FLOOR[1] * PLATEAU[1])
    for trials, wins, share in zip(counts.trials, counts.wins, learned[0], strict=True):
        chance = expit(guess) + (1 - expit(guess)) * expit(plateau) * share
        value = value + wins * np.log(chance) + (trials - wins) * np.log1p(-chance)
    cell = (9 / 399) * (11 / 399)
    assert fits.evidence[0] == pytest.approx(logsumexp(value) + np.log(cell), abs=0.05)


@pytest.mark.parametrize("halving", [24158, 24236])
def test_a_step_is_found_within_its_interval(halving: int) -> None:
    found = fit_horizon(simulated(1500, halving, 7))
    middle, low, high = found.halving()
    assert found.told
    assert low <= halving <= high
    assert high - low < 8
    assert abs(middle - halving) < 4


@pytest.mark.few(1)
@pytest.mark.parametrize("halving", [0, 12 * 3000])
def test_answers_that_do_not_depend_on_the_date_give_none(halving: float) -> None:
    assert not any(fit_horizon(simulated(600, halving, seed)).told for seed in range(5))


def test_answers_that_go_together_count_as_fewer() -> None:
    once = simulated(500, 2018 * 12, 2)
    thrice = ChangePreferences(np.repeat(once.month, 3), np.repeat(once.wins, 3), np.repeat(once.subject, 3))
    alone, together = fit_horizon(once), fit_horizon(thrice)
    assert together.design == pytest.approx(3, abs=0.25)
    np.testing.assert_allclose(together.halving(), alone.halving(), atol=1.5)
    assert np.diff(fit_horizon(thrice, dependent=False).halving()[1:])[0] < np.diff(together.halving()[1:])[0]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=30))
def test_quantiles_are_those_of_the_spread_values(weights: list[float]) -> None:
    values, share = np.arange(len(weights)) * 1.0, np.array(weights) / np.sum(weights)
    for wanted in (0.1, 0.5, 0.9):
        at = quantiles(values, share, [wanted])[0]
        below = sum(part * min(1.0, max(0.0, at - value + 0.5)) for value, part in zip(values, share, strict=True))
        assert below == pytest.approx(wanted, abs=1e-9)


def test_kinds_with_few_changes_are_told_by_the_others() -> None:
    early, late, few = simulated(800, 2015 * 12, 1), simulated(800, 2020 * 12, 2), simulated(12, 2020 * 12, 3)
    parts = [early, late, few]
    all_of = ChangePreferences(
        np.concatenate([p.month for p in parts]), np.concatenate([p.wins for p in parts]), np.arange(1612)
    )
    kinds = np.array(["early"] * 800 + ["late"] * 800 + ["few"] * 12)
    found = {one.kind: one for one in kind_horizons(kinds, all_of, fit_horizon(all_of))}
    assert abs(found["early"].halving - 2015 * 12) < 9
    assert abs(found["late"].halving - 2020 * 12) < 9
    assert found["few"].high - found["few"].low > 3 * (found["late"].high - found["late"].low)
    assert found["few"].changes == 12


def test_pooled_weights_are_those_of_a_naive_sum() -> None:
    random = np.random.default_rng(0)
    evidence, dates = random.normal(size=(3, 5)), np.arange(5) * 6.0
    expected = np.zeros((3, 5))
    for spread in (1.0, 3.0, 6.0, 12.0, 24.0, 48.0):
        normal = np.exp(-(((dates[:, None] - dates[None, :]) / spread) ** 2) / 2)
        normal /= normal.sum(axis=0)
        for common in range(5):
            marginal = [sum(np.exp(evidence[k, i]) * normal[i, common] for i in range(5)) for k in range(3)]
            for k in range(3):
                rest = np.prod([marginal[j] for j in range(3) if j != k])
                expected[k] += [np.exp(evidence[k, i]) * normal[i, common] * rest for i in range(5)]
    np.testing.assert_allclose(
        pooled_weights(evidence, dates), expected / expected.sum(axis=1, keepdims=True), atol=1e-9
    )


def test_every_curve_of_the_grid_is_there_once() -> None:
    curves = curves_at(np.arange(10, 13))
    rows = np.column_stack([curves.halving, curves.lag, curves.shape])
    assert len(np.unique(rows, axis=0)) == len(rows)


@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
    try:
        from horizon import LEVEL, simulate
    finally:
        sys.path.pop(0)
    rows = simulate(150, seed=11)
    told = [row for row in rows if row["told"] and row["shape"] != LEVEL]
    missed = sum(not row["holds"] for row in told)
    assert len(told) > 90
    assert binom.sf(missed - 1, len(told), 0.05) > 0.001  # so many misses are no surprise at 95 %
    assert binom.sf(sum(row["told"] for row in rows if row["shape"] == LEVEL) - 1, len(rows) - len(told), 0.05) > 0.01


@pytest.mark.full
def test_changes_of_several_grades_are_told_apart() -> None:
    """Answerers who guess a tenth of most changes, half of those of medium and nine tenths of those of high
    predictability, which late changes are more often: by grades the date is found better than without."""
    halving, errors = 2018.0 * 12, {"by grades": [], "all alike": []}
    covered = 0
    for seed in range(12):
        random = np.random.default_rng(seed)
        month = random.integers(FIRST, LAST, 500)
        late = month > 2019 * 12
        grade = np.where(random.random(500) < np.where(late, 0.7, 0.1), random.integers(1, 3, 500), 0)
        known = (random.random(500) < 0.8) & (month < halving)
        wins = (known | (random.random(500) < np.array([0.1, 0.5, 0.9])[grade])) * 1.0
        columns = np.column_stack([grade == 1, grade == 2]).astype(float)
        for name, guessable in (("by grades", columns), ("all alike", None)):
            found = fit_horizon(ChangePreferences(month, wins, np.arange(500), guessable=guessable))
            date, low, high = found.halving()
            errors[name].append(abs(date - halving) if found.told else 60.0)
            covered += name == "by grades" and low <= halving <= high
    assert np.mean(errors["by grades"]) < 2
    assert np.mean(errors["all alike"]) > 2 * np.mean(errors["by grades"])
    assert covered >= 10
