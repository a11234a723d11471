"""Gates: what fails a build, and how often it does so by chance."""

from math import exp, factorial
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest

from anachron.core.errors import ConfigError
from anachron.probe.check.gate import Gate, Loss, Outcome, junit, loss_against, outcomes
from anachron.probe.check.present import ALONE, CURRENT, PRESENT_SCHEMA, STALE, UNKNOWN
from support.intervals import of_shares


def verdicts(win_rates):
    names = [f"f{n}" for n in range(len(win_rates))]
    return pl.DataFrame({"fact_id": names, "subject": names, "win_rate": list(win_rates)})


def present(*statuses):
    return pl.DataFrame([{"status": status} for status in statuses], schema=PRESENT_SCHEMA)


def found(gate, win_rates=(0.5,), statuses=(), loss=None, *, dated=None, holding=None):
    """dated, holding: how many facts could be asked; by default those that have an answer."""
    return outcomes(
        gate, verdicts(win_rates), present(*statuses), loss, dated=len(win_rates) if dated is None else dated,
        holding=sum(one != ALONE for one in statuses) if holding is None else holding,
    )  # fmt: skip


def passes(*args, **named):
    return [one.passed for one in found(*args, **named)]


def test_nothing_is_demanded_by_default() -> None:
    assert passes(Gate()) == []


def test_each_demand_is_met_up_to_its_bound() -> None:
    assert passes(Gate(min_win_rate=0.75), [0.5, 1.0]) == [True]
    assert passes(Gate(min_win_rate=0.76), [0.5, 1.0]) == [False]
    assert passes(Gate(max_stale=1), statuses=[STALE, CURRENT]) == [True]
    assert passes(Gate(max_stale=0), statuses=[STALE, CURRENT]) == [False]
    assert passes(Gate(confidence=0.95), loss=Loss(10, 0.2, 0.049, 10)) == [False]
    assert passes(Gate(confidence=0.95), loss=Loss(10, 0.2, 0.051, 10)) == [True]
    assert passes(Gate(), loss=Loss(10, -0.2, 1.0, 10)) == [True]


@pytest.mark.parametrize(
    "wrong",
    [{"min_win_rate": 1.2}, {"max_stale": -1}, {"confidence": 1.0}, {"confidence": 0.2}, {"min_judged": 1.1}],
)
def test_demands_that_cannot_be_are_refused(wrong: dict) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(wrong))} {next(iter(wrong.values()))}"):
        Gate(**wrong)


@pytest.mark.parametrize("min_judged", [0.0, 1.0])
def test_a_demand_without_any_fact_has_no_verdict(min_judged: float) -> None:
    for gate, of in (
        (Gate(min_win_rate=0, min_judged=min_judged), {"win_rates": [], "dated": 3}),
        (Gate(max_stale=9, min_judged=min_judged), {"statuses": ["refused", ALONE], "holding": 2}),
        (Gate(max_stale=9, min_judged=min_judged), {"statuses": [ALONE]}),
        (Gate(min_judged=min_judged), {"loss": Loss(0, 0.0, 1.0, 4)}),
    ):
        (one,) = found(gate, **of)
        assert not one.passed and one.judged == 0 and one.error


@pytest.mark.parametrize("judged", range(11))
@pytest.mark.parametrize("share", [n / 10 for n in range(11)])
def test_a_demand_is_judged_by_at_least_the_share(judged: int, share: float) -> None:
    """Of ten facts, whatever share is asked for, against whole numbers."""
    enough = judged > 0 and judged >= round(10 * share)
    gate = Gate(min_win_rate=0.5, max_stale=0, min_judged=share)
    statuses = [CURRENT] * judged + ["refused"] * ((10 - judged) // 2)
    for one in found(gate, [1.0] * judged, statuses, Loss(judged, -0.1, 1.0, 10), dated=10, holding=10):
        assert (one.passed, one.error is None, one.judged, one.facts) == (enough, enough, judged, 10)


def test_what_was_not_judged_is_named() -> None:
    (one,) = found(Gate(max_stale=0), statuses=[CURRENT, "refused", "somebody else", ALONE], holding=5)
    assert "only 1 of 5" in one.error and "1 refused, 1 somebody else, 2 not asked" in one.error


def test_the_loss_is_paired_by_fact() -> None:
    now = pl.DataFrame({"fact_id": ["b", "a", "new"], "subject": ["s", "t", "u"], "win_rate": [0.2, 0.9, 0.0]})
    before = pl.DataFrame({"fact_id": ["a", "b", "old"], "win_rate": [0.9, 0.8, 1.0]})
    loss = loss_against(before, now)
    assert (loss.facts, loss.loss) == (2, pytest.approx(0.3))
    assert loss.p == pytest.approx(0.5)  # one fact differs: its sign is a coin
    unread = loss_against(before, now.with_columns(win_rate=pl.Series([None, 0.9, 0.0])))
    assert (unread.facts, unread.common) == (1, 2)
    with pytest.raises(ConfigError, match="no fact and date in common"):
        loss_against(before, now.with_columns(fact_id=pl.lit("x")))


def test_facts_of_one_subject_are_one_witness_of_a_loss() -> None:
    """Ten facts lose: of ten subjects beyond chance, of one subject no more than a coin says."""
    before, after = verdicts([0.9] * 10), verdicts([0.8] * 10)
    assert loss_against(before, after).p == pytest.approx(1 / 2**10)
    assert loss_against(before, after.with_columns(subject=pl.lit("s"))).p == pytest.approx(0.5)


@pytest.mark.parametrize("subjects", range(1, 9))
def test_of_too_few_subjects_a_loss_is_no_pass(subjects: int) -> None:
    """Where every subject loses, one time in 2 to their number by chance: nothing is told of four, a loss of five."""
    names = [f"s{n % subjects}" for n in range(16)]
    before, after = (verdicts([value] * 16).with_columns(subject=pl.Series(names)) for value in (0.9, 0.2))
    (one,) = found(Gate(), loss=loss_against(before, after))
    assert not one.passed and (one.error is None) == (subjects >= 5)
    if one.error:
        assert f"loses, {subjects}," in one.error and "5 subjects or more" in one.error
    (better,) = found(Gate(), loss=loss_against(after, before))
    assert better.passed and better.error is None
    mixed = after.with_columns(win_rate=pl.when(pl.col("subject") == "s0").then(0.95).otherwise(0.85))
    if 1 < subjects < 5:
        (some,) = found(Gate(), loss=loss_against(before, mixed))
        assert some.passed  # one gains: no sign of a loss beyond chance


def test_the_mean_is_told_with_the_interval_of_others_like_it() -> None:
    (near,) = found(Gate(min_win_rate=0.7), [0.5, 1.0, 0.75, 0.9])
    low, high = of_shares([0.5, 1.0, 0.75, 0.9])
    assert f"mean W 78.8 % [{100 * low:.1f}, {100 * high:.1f}] over 4 of 4 facts; with other facts" in near.words
    (far,) = found(Gate(min_win_rate=0.7), [0.95] * 40)
    assert far.passed and far.words.endswith("over 40 of 40 facts")


@pytest.mark.parametrize("unknown", [0, 1, 10, 40])
@pytest.mark.parametrize("stale", [1, 2, 3, 6])
def test_stale_facts_fail_unless_those_that_are_not_known_explain_them(unknown: int, stale: int) -> None:
    """One in twenty of the facts that a model does not know is judged all the same: Poisson's law by hand."""
    statuses = [STALE] * stale + [CURRENT] * 5 + [UNKNOWN] * unknown
    (one,) = found(Gate(max_stale=0, min_judged=0.0), statuses=statuses)
    mean = unknown / 19
    p = 1 - sum(exp(-mean) * mean**k / factorial(k) for k in range(stale))
    assert not one.passed and (one.error is None) == (p < 0.05)
    if unknown:
        assert f"{mean:.1f} more would be judged by chance (p {p:.3f})" in one.words
    if one.error:
        assert f"with a probability of {p:.2f}, as {unknown} are not known at all" in one.error


@pytest.mark.full
@pytest.mark.parametrize("known", [0, 20])
def test_a_model_that_is_stale_nowhere_fails_at_most_one_time_in_twenty(known: int) -> None:
    """Of 40 facts it knows some, which are current; of the others one in twenty is judged, at worst always as stale."""
    random, failed = np.random.default_rng(2), 0
    for _ in range(2000):
        judged = int(random.binomial(40 - known, 0.05))
        statuses = [CURRENT] * known + [STALE] * judged + [UNKNOWN] * (40 - known - judged)
        (one,) = found(Gate(max_stale=0, min_judged=0.0), statuses=statuses)
        failed += one.error is None and not one.passed
    assert failed / 2000 <= 0.05 + 2 * (0.05 * 0.95 / 2000) ** 0.5


def population(random, facts):
    """Win rates as models have them: some facts known, some not, most between."""
    return random.beta(1.2, 0.8, facts)


def again(random, win_rates, noise):
    """The same model with another seed or dtype: each fact's W moves a little, within 0 and 1."""
    return np.clip(win_rates + random.normal(0, noise, win_rates.size), 0, 1)


@pytest.mark.share(2)
@pytest.mark.full
@pytest.mark.parametrize("facts", [20, 100])
@pytest.mark.parametrize("noise", [0.002, 0.03])
def test_a_model_against_itself_fails_at_most_one_time_in_twenty(facts: int, noise: float) -> None:
    random = np.random.default_rng(5)
    failed = 0
    for _ in range(1000):
        truth = population(random, facts)
        loss = loss_against(verdicts(again(random, truth, noise)), verdicts(again(random, truth, noise)))
        failed += not passes(Gate(), loss=loss)[0]
    assert failed / 1000 <= 0.05 + 2 * (0.05 * 0.95 / 1000) ** 0.5  # two standard errors of the count itself


@pytest.mark.full
def test_a_drop_of_ten_points_on_a_hundred_facts_is_found_in_four_of_five() -> None:
    """The drop as it comes: a third of the facts lose much, the others move a little either way."""
    random = np.random.default_rng(6)
    found = 0
    for _ in range(300):
        before = population(random, 100)
        hit = random.random(100) < 1 / 3
        after = np.clip(again(random, before, 0.03) - hit * random.uniform(0.2, 0.8, 100), 0, 1)
        scale = 0.10 / max(before.mean() - after.mean(), 1e-9)  # to ten points exactly
        after = before - scale * (before - after)
        found += not passes(Gate(), loss=loss_against(verdicts(before), verdicts(after)))[0]
    assert found / 300 >= 0.8


def test_a_junit_file_tells_what_failed_and_what_each_fact_got() -> None:
    demands = [
        Outcome("at most 0 stale", False, "1 of 2", 2, 2), Outcome("win rate at least 50 %", True, "mean W 60 %", 2, 2),
        Outcome("no loss", False, "W", 0, 2, "only 0 of 2 facts"),
    ]  # fmt: skip
    facts = [{"name": "Obama & co\x00 <x>", "relation": "president", "verdict": "shaky"}]
    left = [{"name": "Paris", "relation": "capital", "reason": "no question"}]
    suite = ElementTree.fromstring(junit("m", demands, facts, left))
    assert {k: suite.get(k) for k in ("tests", "failures", "errors", "skipped")} == {
        "tests": "5", "failures": "1", "errors": "1", "skipped": "1"
    }  # fmt: skip
    cases = suite.findall("testcase")
    assert [case.find("failure") is not None for case in cases] == [True, False, False, False, False]
    assert cases[2].find("error").get("message") == "only 0 of 2 facts"
    assert cases[3].get("name") == "Obama & co <x>" and cases[3].findtext("system-out") == "shaky"
    assert cases[4].find("skipped").get("message") == "no question"
