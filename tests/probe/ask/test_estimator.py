"""Which matches are drawn, and what is made of them, against plain counting, closed forms and simulation."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anachron.probe.ask.estimator import bounds, estimate_fact, lost_at_most, mean_over_facts, position_bias, weighted
from anachron.probe.ask.sampling import Call, Match, ask_matches, by_fact, draw_matches, score_of, wanted_matches

CORRECT = ["2001", "2002", "2003"]
INCORRECT = [("1990", -3.0), ("1998", -1.2), ("2000", -0.7), ("2004", 0.7), ("2006", 1.4), ("2012", 3.1)]
alphas = st.floats(0.51, 5).flatmap(lambda a: st.sampled_from([a, -a]))


@given(st.integers(1, 8), st.lists(alphas, min_size=1, max_size=12), st.integers(1, 20), st.integers(0, 3))
def test_strata_hold_every_match_once_and_draws_are_distinct(correct: int, found: list[float], most: int, seed: int):
    years = [str(2000 + i) for i in range(correct)]
    rivals = [(str(1900 + i), alpha) for i, alpha in enumerate(found)]
    drawn = draw_matches("f", years, rivals, most=most, seed=seed)
    assert sum(drawn.sizes) == len(years) * len(rivals)
    for size, matches in zip(drawn.sizes, drawn.drawn, strict=True):
        assert len(set(matches)) == len(matches) == min(size, most)
        assert len({min(2, int(abs(match.alpha) > 1) + int(abs(match.alpha) > 2)) for match in matches}) == 1
    more = draw_matches("f", years, rivals, most=most + 3, seed=seed)
    assert all(many[: len(few)] == few for few, many in zip(drawn.drawn, more.drawn, strict=True))


def test_every_match_is_drawn_equally_often():
    counts: dict[tuple[str, str], int] = {}
    for seed in range(600):
        for match in draw_matches("f", CORRECT, INCORRECT[:3], most=1, seed=seed).drawn[2]:
            counts[match.correct, match.incorrect] = counts.get((match.correct, match.incorrect), 0) + 1
    assert len(counts) == 3 and min(counts.values()) > 150  # of one stratum with three matches, 200 each


def test_w_of_all_matches_is_the_plain_share_and_r_is_known_then():
    matches = draw_matches("f", CORRECT, INCORRECT, most=99)
    lost = {("2001", "2000"), ("2003", "2004"), ("2002", "1990")}

    def ask(calls):
        return [((call.match.correct, call.match.incorrect) not in lost) for call in calls]

    read = ask_matches([matches], ask, lambda read: False, rounds=99)
    found = estimate_fact(by_fact([matches], read)["f"])
    assert found.matches == found.of == 18 and found.win_rate == pytest.approx(15 / 18)
    assert (found.won_all, found.robustness, found.lost_at_most) == (False, 0.0, 1.0)
    won = estimate_fact(by_fact([matches], dict.fromkeys(read, 1.0))["f"])
    assert (won.win_rate, won.robustness, won.lost_at_most, won.won_all) == (1, 1, 0, True)


def test_r_is_not_claimed_from_fewer_matches_than_there_are():
    found = estimate_fact([(10, [1.0, 1.0]), (30, [1.0])])
    assert found.won_all and found.robustness is None and found.matches == 3 and found.of == 40
    assert 0.6 < found.lost_at_most < 1 and estimate_fact([(10, [1.0, 0.5])]).robustness == 0
    assert estimate_fact([(10, []), (5, [])]) is None


def test_w_weights_strata_by_their_matches():
    assert estimate_fact([(10, [1.0, 0.0]), (30, [1.0, 1.0, 0.5])]).win_rate == pytest.approx(
        0.25 * 0.5 + 0.75 * 2.5 / 3
    )
    assert weighted([(10, [0.5]), (30, [])]) == 0.5 and weighted([(3, [])]) is None


@pytest.mark.parametrize("k", [1, 2, 7, 40])
def test_what_may_be_lost_after_k_wins_is_the_exact_binomial_bound(k: int):
    from scipy.stats import binomtest

    interval = binomtest(k, k).proportion_ci(0.90, method="exact")  # its lower end is one-sided at 95 %
    assert lost_at_most([(1.0, k)]) == pytest.approx(1 - interval.low, abs=1e-9)
    assert lost_at_most([(0.25, k), (0.75, 3 * k)]) == pytest.approx(1 - 0.05 ** (1 / (4 * k)), abs=1e-9)


def test_what_may_be_lost_is_the_worst_of_a_grid_of_shares():
    strata = [(0.2, 2), (0.5, 3), (0.3, 6)]
    lost = np.stack(np.meshgrid(*[np.linspace(0, 1, 101)] * 3, indexing="ij"), axis=-1)
    shares, drawn = np.array(strata).T
    worst = (lost @ shares)[np.prod((1 - lost) ** drawn, axis=-1) >= 0.05].max()
    assert worst <= lost_at_most(strata) <= worst + 0.01


def test_disagreeing_orders_count_a_half_and_unread_ones_nothing():
    assert [score_of(a, b) for a, b in product((True, False), repeat=2)] == [1, 0.5, 0.5, 0]
    assert score_of(None, True) is None and score_of(False, None) is None


def test_an_unread_match_is_replaced_by_the_next_of_its_stratum():
    matches = draw_matches("f", CORRECT, INCORRECT[3:4], most=3)
    (drawn,) = matches.drawn
    assert wanted_matches(matches, {}, 1) == [drawn[0]]
    assert wanted_matches(matches, {drawn[0]: None}, 1) == [drawn[1]]
    assert wanted_matches(matches, {drawn[0]: None, drawn[1]: 1.0}, 1) == []
    assert wanted_matches(matches, dict.fromkeys(drawn), 2) == []


def test_asking_ends_with_the_budget_and_leaves_out_a_match_that_was_half_asked():
    facts = [draw_matches(f"f{i}", CORRECT, INCORRECT) for i in range(4)]
    left = [7]

    def ask(calls):
        answers = [True] * min(left[0], len(calls))
        left[0] -= len(answers)
        return answers

    read = ask_matches(facts, ask, lambda read: False)
    assert len(read) == 3 and set(read.values()) == {1.0}


@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 1.0])
def test_the_bias_of_position_is_that_of_one_who_knows_nothing(share: float):
    random = np.random.default_rng(0)
    facts = [draw_matches(f"f{i}", CORRECT, INCORRECT) for i in range(300)]
    firsts: dict[str, list] = {}
    for one in facts:
        firsts[one.fact_id] = [
            (size, [float(random.binomial(2, share)) / 2 for _ in drawn])
            for size, drawn in zip(one.sizes, one.drawn, strict=True)
        ]
    found = position_bias(weighted(firsts[one.fact_id]) for one in facts)
    assert found.value == pytest.approx(share - 0.5, abs=0.02)
    assert found.low - 1e-9 <= found.value <= found.high + 1e-9
    scores = [score_of(True, False)] * 5
    assert estimate_fact([(9, scores)]).win_rate == 0.5  # who always takes the first wins and loses alike


ANSWERS = st.sampled_from([True, False, None])
ASKED = draw_matches("f", CORRECT, INCORRECT, most=3)
CALLS = [Call(match, first) for drawn in ASKED.drawn for match in drawn for first in (True, False)]


@given(st.lists(ANSWERS, min_size=2, max_size=12).filter(lambda said: len(said) % 2 == 0 and said.count(None) < 8))
def test_w_lies_between_its_bounds_whatever_could_not_be_read(said):
    """All ways in which the unread answers could have come out, each counted as if it had been read."""
    chosen = dict(zip(CALLS, said, strict=False))
    unread = [call for call, choice in chosen.items() if choice is None]
    ways = []
    for way in product((False, True), repeat=len(unread)):
        known = chosen | dict(zip(unread, way, strict=True))
        scores = {
            call.match: score_of(known[call], known[Call(call.match, False)]) for call in known if call.correct_first
        }
        ways.append(estimate_fact(by_fact([ASKED], scores)["f"]).win_rate)
    assert bounds(ASKED, chosen) == (pytest.approx(min(ways)), pytest.approx(max(ways)))


def test_nothing_asked_has_no_bounds_and_a_half_asked_match_does_not_count():
    assert bounds(ASKED, {}) is None and bounds(ASKED, {CALLS[0]: True}) is None
    whole = {CALLS[0]: True, CALLS[1]: False}
    assert bounds(ASKED, whole) == bounds(ASKED, whole | {CALLS[2]: True}) == (0.5, 0.5)


def test_an_estimate_is_called_so_only_where_its_bounds_lie_in_its_interval():
    mean = mean_over_facts([0.5, 0.9, 0.7, 0.8, 0.6] * 8)
    inside = (mean.low + 0.01, mean.high - 0.01)
    assert mean.told(inside) and mean.told((mean.value, mean.value))
    assert not mean.told((mean.low - 0.01, inside[1])) and not mean.told((inside[0], mean.high + 0.01))
    assert not mean_over_facts([]).told((0.0, 1.0))


def test_no_facts_have_no_mean():
    assert mean_over_facts([]).cells("w") == {"w": None, "w_low": None, "w_high": None}
    assert mean_over_facts([]).width == float("inf")


def test_years_are_named_in_both_orders():
    match = Match("f", 0, "2001", "1990", -3.0)
    assert Call(match, True).years == ("2001", "1990") and Call(match, False).years == ("1990", "2001")
