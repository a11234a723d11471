"""Do the intervals of W cover the W that simulated answerers truly have, and is their bias of position found?"""

from dataclasses import replace

import numpy as np
import pytest

from anachron.probe.ask.asking import narrow_enough
from anachron.probe.ask.estimator import bounds, estimate_fact, mean_over_facts, position_bias, weighted
from anachron.probe.ask.sampling import Call, Read, ask_matches, by_fact, first_in
from support.answerers import World, make_world

POPULATION = 1500


def measure(world: World, size: int, width: float, seed: int) -> dict[str, float]:
    """Ask an answerer about some facts of the population, and hold what is found against what is true."""
    random = np.random.default_rng(seed)
    chosen = sorted(random.choice(len(world.facts), size, replace=False).tolist())
    matches = [world.facts[place].matches for place in chosen]
    won, bias = world.truth
    said: dict[Call, bool | None] = {}

    def ask(calls: list[Call]) -> list[bool | None]:
        answers = world.choose(calls, random)
        said.update(zip(calls, answers, strict=True))
        return answers

    def mean(read: Read):
        return mean_over_facts(w for s in by_fact(matches, read).values() if (w := weighted(s)) is not None)

    read = ask_matches(matches, ask, narrow_enough(matches, width))
    firsts = by_fact(matches, {match: first_in(match, said) for match in read})
    estimates = [estimate_fact(strata) for strata in by_fact(matches, read).values()]
    calls: dict[str, int] = {}
    for call in said:
        calls[call.match.fact_id] = calls.get(call.match.fact_id, 0) + 1
    found = mean(read)
    lost, of_won = np.mean([bounds(one, said) for one in matches], axis=0)
    position = position_bias(weighted(firsts[one.fact_id]) for one in matches)
    known = [(e.low <= won[place] <= e.high) for e, place in zip(estimates, chosen, strict=True) if e is not None]
    return {
        "covered": found.low <= won.mean() <= found.high, "error": found.value - won.mean(), "width": found.width,
        "bias_error": position.value - bias[chosen].mean(), "bias_width": position.width,
        "bias_covered": position.low <= bias.mean() <= position.high,
        "told": found.told((lost, of_won)), "lost": lost, "won": of_won, "truth": won.mean(),
        "most_calls": max(calls.values()), "facts_covered": float(np.mean(known)),
    }  # fmt: skip


def test_intervals_cover_and_asking_stops_when_they_are_narrow() -> None:
    found = [measure(make_world(300, seed), 40, 0.2, 1000 + seed) for seed in range(12)]
    assert sum(one["covered"] for one in found) >= 10
    assert all(one["width"] <= 0.2 or one["most_calls"] > 24 for one in found)
    assert 18 <= min(one["most_calls"] for one in found) <= 24  # three rounds of three strata in both orders, and spare


@pytest.mark.full
@pytest.mark.parametrize("width", [pytest.param(0.0, marks=pytest.mark.slow), 0.12])
def test_95_of_100_intervals_hold_the_true_w_and_the_bias_of_position_is_found(width: float) -> None:
    """200 answerers that differ in noise, lapses, bias, refusals, sticky years and ignorance; 100 facts each."""
    found = [measure(make_world(POPULATION, seed), 100, width, 1000 + seed) for seed in range(200)]
    covered = np.mean([one["covered"] for one in found])
    errors = np.array([one["error"] for one in found])
    bias = np.abs([one["bias_error"] for one in found])
    bias_covered, bias_width = (np.mean([one[name] for one in found]) for name in ("bias_covered", "bias_width"))
    within, of_facts = np.mean(bias <= 0.02), np.mean([one["facts_covered"] for one in found])
    print(
        f"width {width}: covered {covered:.3f}, mean error {errors.mean():+.4f}, bias: mean error {bias.mean():.4f}, "
        f"within 2 points {within:.3f}, largest {bias.max():.4f}, covered {bias_covered:.3f}, mean width "
        f"{bias_width:.4f}; facts covered {of_facts:.3f}"
    )
    assert 0.93 <= covered <= (0.97 if width else 0.995)  # of all five rounds it is wider than need be
    assert abs(errors.mean()) <= 0.006  # unbiased: about three standard errors of the mean of 200
    assert max(one["most_calls"] for one in found) <= 36  # with four other questions at most 40
    assert of_facts >= 0.95
    assert bias_covered >= 0.92
    if not width:  # with all that may be asked
        assert bias.mean() <= 0.01 and within >= 0.95


@pytest.mark.slow
@pytest.mark.full
def test_w_of_who_declines_when_unsure_is_not_told() -> None:
    """Who declines four of five questions about facts of which it knows nothing, where others would throw a coin: W of
    what was read is far too high, and is called an estimate only where the truth lies in its interval."""
    worlds = [replace(make_world(POPULATION, seed), declines=0.8) for seed in range(60)]
    found = [measure(world, 100, 0.0, 2000 + seed) for seed, world in enumerate(worlds)]
    covered, called = (np.array([one[name] for one in found]) for name in ("covered", "told"))
    between = np.mean([one["lost"] - 0.02 <= one["truth"] <= one["won"] + 0.02 for one in found])
    errors = np.array([one["error"] for one in found])
    print(
        f"declining: error {errors.mean():+.3f}, covered {covered.mean():.3f}, told {called.mean():.3f}, "
        f"of those covered {covered[called].mean() if called.any() else float('nan'):.3f}, between bounds {between:.3f}"
    )
    assert covered.mean() < 0.93 and errors.mean() > 0.01  # it matters
    assert not called.any() or covered[called].mean() >= 0.93
    assert between >= 0.97
