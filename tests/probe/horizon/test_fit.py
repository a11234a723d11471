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

from anachron.probe.horizon.curves import GONE, Curves, finer, one_fall, together, two_falls, with_gap
from anachron.probe.horizon.fit import ChangePreferences, fit_horizon, misfit, quantiles
from anachron.probe.horizon.kinds import kind_horizons, pooled_weights
from anachron.probe.horizon.likelihood import FLOOR, PLATEAU, SLOPE, counted, fit_curves

FIRST, LAST = 2010 * 12, 2026 * 12


def simulated(size: int, halving: float, seed: int, plateau: float = 0.8, floor: float = 0.1) -> ChangePreferences:
    """Answers of a model that learned all before its halving date and nothing after."""
    random = np.random.default_rng(seed)
    month = random.integers(FIRST, LAST, size)
    known = (random.random(size) < plateau) & (month < halving)
    return ChangePreferences(month, (known | (random.random(size) < floor)) * 1.0, np.arange(size))


@given(st.floats(24000, 24400), st.sampled_from([1.5, 6.0, 48.0]), st.sampled_from([0.7, 1.0, 3.5]))
def test_a_curve_is_half_at_its_halving_date_and_gone_at_its_end(halving: float, lag: float, shape: float) -> None:
    curve = Curves.of([halving], [lag], [shape])
    times = np.array([halving, curve.end[0], halving + lag, halving + lag + 1, halving - 1200])
    np.testing.assert_allclose(curve.learned(times)[0], [0.5, GONE, 0, 0, 1], atol=2e-3 if shape < 1 else 1e-6)


def test_a_curve_without_a_lag_is_a_step() -> None:
    curve = Curves.of([100.0], [0.0], [1.0])
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
    learned_of = Curves.of([2018.0 * 12], [24.0], [1.5])
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
    curve = Curves.of([2018.0 * 12], [0.0], [1.0])
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


def shaped(learned: np.ndarray, month: np.ndarray, seed: int, *groups: np.ndarray) -> ChangePreferences:
    """Answers of a model that has learned this share of each change; 80 % of it is known, and 10 % guessed."""
    known = 0.8 * learned
    wins = (np.random.default_rng(seed).random(len(month)) < known + (1 - known) * 0.1) * 1.0
    return ChangePreferences(month, wins, np.arange(len(month)), groups=groups)


def months_of(size: int, seed: int) -> np.ndarray:
    return np.random.default_rng([seed, size]).integers(FIRST, LAST, size)


@pytest.mark.parametrize(("left", "halving"), [(0.3, 2016 * 12), (0.7, 2020 * 12)])
def test_two_falls_are_found(left: float, halving: int) -> None:
    month = months_of(2000, 3)
    found = fit_horizon(shaped(np.where(month < 2016 * 12, 1, np.where(month < 2020 * 12, left, 0)), month, 4))
    assert found.told
    assert found.families()[1] > 0.9
    low, high = found.halving((0.025, 0.975))
    assert int(low) <= halving <= high


def test_a_gap_before_the_end_is_found() -> None:
    month = months_of(2000, 3)
    gap = (month >= 2016 * 12) & (month < 2018 * 12)
    found = fit_horizon(shaped((month < 2020 * 12) & ~gap, month, 4))
    assert found.told
    assert found.families()[2] > 0.9
    low, high = found.halving((0.025, 0.975))
    assert int(low) <= 2020 * 12 <= high


def test_answers_that_fit_no_curve_give_no_date() -> None:
    month = months_of(2000, 3)
    found = fit_horizon(shaped((month < 2020 * 12) & (month // 24 % 2 == 0), month, 4))  # three gaps
    assert found.inside > 0.99
    assert found.fits_by < 0.01
    assert not found.told


@pytest.mark.few(1)
def test_a_steady_decline_is_no_end() -> None:
    for seed in range(3):
        month = months_of(1000, seed)
        steady = 1 - 0.8 * (month - FIRST) / (LAST - FIRST)
        assert not fit_horizon(shaped(steady, month, seed)).told


@pytest.mark.full
def test_a_source_that_ends_is_no_horizon() -> None:
    """A model that prefers half of the new values of one source, which ends in 2020, and 20 % of another's."""
    random, month = np.random.default_rng(5), months_of(1500, 5)
    source = np.where((month < 2020 * 12) & (random.random(1500) < 0.8), "one", "other")
    wins = (random.random(1500) < np.where(source == "one", 0.5, 0.2)) * 1.0
    assert fit_horizon(ChangePreferences(month, wins, np.arange(1500))).told
    assert not fit_horizon(ChangePreferences(month, wins, np.arange(1500), groups=(source,))).told


@pytest.mark.full
def test_effects_of_groups_are_those_of_a_general_optimiser() -> None:
    random, size = np.random.default_rng(6), 400
    month = random.integers(FIRST, LAST, size)
    kind, source = random.choice(["a", "b", "c"], size), random.choice(["r", "s"], size)
    learned = (month < 2018 * 12) * 1.0
    wins = (random.random(size) < 0.1 + 0.6 * learned) * 1.0
    answers = ChangePreferences(month, wins, np.arange(size), groups=(kind, source))
    counts = answers.counts((0.3, 0.6))
    found = fit_curves(counts, Curves.of([2018.0 * 12], [0.0], [1.0]).learned(counts.month))
    deviations = {"a": 0.3, "b": 0.3, "c": 0.3, "r": 0.6, "s": 0.6}

    def loss(at: np.ndarray) -> float:
        total, effects = 0.0, []
        for side, (mean, deviation) in zip((at[:6], at[6:]), (FLOOR, PLATEAU), strict=True):
            effects.append(dict(zip(deviations, side[1:], strict=True)))
            total += ((side[0] - mean) / deviation) ** 2 / 2
            total += sum((value / deviations[name]) ** 2 / 2 for name, value in effects[-1].items())
        guesses, knows = effects
        for i in range(size):
            known = learned[i] * expit(at[6] + knows[kind[i]] + knows[source[i]])
            chance = known + (1 - known) * expit(at[0] + guesses[kind[i]] + guesses[source[i]])
            total -= np.log(chance if wins[i] else 1 - chance)
        return total

    best = minimize(loss, found.coefficients[0] + 0.1, method="BFGS")
    np.testing.assert_allclose(found.coefficients[0], best.x, atol=0.02)
    assert -found.posterior[0] == pytest.approx(best.fun, abs=0.01)
    # the information is the second derivative of that, in expectation: near it with so many answers
    step = 0.05 * np.eye(len(best.x))
    second = [
        [sum(i * j * loss(best.x + i * one + j * other) for i in (-1, 1) for j in (-1, 1)) / 0.01 for one in step]
        for other in step
    ]
    np.testing.assert_allclose(found.information[0], second, rtol=0.2, atol=4)


def test_small_groups_and_a_single_one_have_no_effect() -> None:
    month = months_of(120, 0)
    kind = np.array(["a"] * 50 + ["b"] * 40 + ["c"] * 30)
    answers = ChangePreferences(month, np.ones(120), np.arange(120), groups=(kind, np.full(120, "one")))
    counts = answers.counts((0.3, 0.6))
    assert counts.of_x.tolist() == counts.of_z.tolist() == [0.3, 0.3]
    assert (counts.trials @ counts.x).tolist() == (counts.trials @ counts.z).tolist() == [120, 50, 40]


def test_a_fit_is_rejected_as_rarely_as_it_says() -> None:
    random, rejected = np.random.default_rng(0), 0
    for _ in range(300):
        month = random.integers(FIRST, LAST, 400)
        chance = np.where(month < 2018 * 12, 0.7, 0.1)
        answers = ChangePreferences(month, (random.random(400) < chance) * 1.0, np.arange(400))
        counts = answers.counts()
        rejected += misfit(counts, np.where(counts.month < 2018 * 12, 0.7, 0.1)) < 0.05
    # four of some 32 parts are taken for what is fitted, which nothing was here, so a little more often than 5 %
    assert rejected <= 300 * 0.13


@pytest.mark.share(2)
@pytest.mark.full
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
    evidence, dates, before = random.normal(size=(3, 5)), np.arange(5) * 6.0, random.dirichlet(np.ones(5))
    expected = np.zeros((3, 5))
    for spread in (1.0, 3.0, 6.0, 12.0, 24.0, 48.0):
        normal = np.exp(-(((dates[:, None] - dates[None, :]) / spread) ** 2) / 2)
        normal /= normal.sum(axis=0)
        likely = 0.0
        for common in range(5):
            of_all = [sum(np.exp(evidence[k, i]) * normal[i, common] for i in range(5)) for k in range(3)]
            likely += before[common] * np.prod(of_all)
        for kind in range(3):
            for own in range(5):
                near = sum(before[common] * normal[own, common] for common in range(5))
                expected[kind, own] += likely * near * np.exp(evidence[kind, own])
    np.testing.assert_allclose(
        pooled_weights(evidence, dates, before), expected / expected.sum(axis=1, keepdims=True), atol=1e-9
    )


def test_curves_of_two_falls_and_of_a_gap_by_hand() -> None:
    falls, gap = two_falls(np.array([4, 10, 20])), with_gap(np.array([4, 10, 20]))
    assert falls.left.tolist() == [0.2, 0.4, 0.6, 0.8]
    times = np.array([9.0, 10.0, 19.0, 20.0])
    assert falls.learned(times).tolist() == [[1, left, left, 0] for left in falls.left]
    assert falls.halving.tolist() == [10, 10, 20, 20]
    assert falls.end.tolist() == [20] * 4
    assert gap.rows()[:, :1].tolist() == [[20]]  # of six months; the longer ones would not have ended
    assert gap.learned(np.array([9.0, 10, 15, 16, 19, 20])).tolist() == [[1, 0, 0, 1, 1, 0]]
    assert gap.halving.tolist() == gap.end.tolist() == [20]


def test_finer_curves_are_all_shifts_once() -> None:
    months = np.arange(10, 60, 6)
    found = finer(together(one_fall(months[:2]), two_falls(months)[[5]], with_gap(months)[[0]]), 2, 10, 50)
    rows = {tuple(row) for row in found.rows().tolist()}
    assert len(rows) == len(found)
    assert {row[0] for row in rows if row[3] == np.inf} == {10, 11, 12, 14, 15, 16, 17, 18}
    [fall] = two_falls(months)[[5]].rows()
    wanted = {(fall[0] + i, fall[3] + j) for i in range(-2, 3) for j in range(-2, 3) if fall[3] + j >= 16}
    assert {(row[0], row[3]) for row in rows if row[0] <= row[4] < np.inf} == wanted


def test_every_curve_of_the_grid_is_there_once() -> None:
    months = np.arange(10, 40, 6)
    curves = together(one_fall(months), two_falls(months), with_gap(months))
    rows = curves.rows()
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


@pytest.mark.slow
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
