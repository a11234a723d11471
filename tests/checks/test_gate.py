"""Gates: what fails a build, and how often it does so by chance."""

from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest

from anachron.checks.gate import Gate, Loss, Outcome, loss_against, outcomes
from anachron.checks.junit import junit
from anachron.checks.present import CURRENT, PRESENT_SCHEMA, STALE
from anachron.errors import ConfigError


def verdicts(win_rates):
    return pl.DataFrame({"fact_id": [f"f{n}" for n in range(len(win_rates))], "win_rate": list(win_rates)})


def present(*statuses):
    return pl.DataFrame([{"status": status} for status in statuses], schema=PRESENT_SCHEMA)


def passes(gate, win_rates=(0.5,), statuses=(), loss=None):
    return [one.passed for one in outcomes(gate, verdicts(win_rates), present(*statuses), loss)]


def test_nothing_is_demanded_by_default() -> None:
    assert passes(Gate()) == []


def test_each_demand_is_met_up_to_its_bound() -> None:
    assert passes(Gate(min_win_rate=0.75), [0.5, 1.0]) == [True]
    assert passes(Gate(min_win_rate=0.76), [0.5, 1.0]) == [False]
    assert passes(Gate(max_stale=1), statuses=[STALE, CURRENT]) == [True]
    assert passes(Gate(max_stale=0), statuses=[STALE, CURRENT]) == [False]
    assert passes(Gate(confidence=0.95), loss=Loss(10, 0.2, 0.049)) == [False]
    assert passes(Gate(confidence=0.95), loss=Loss(10, 0.2, 0.051)) == [True]
    assert passes(Gate(), loss=Loss(10, -0.2, 1.0)) == [True]


@pytest.mark.parametrize("wrong", [{"min_win_rate": 1.2}, {"max_stale": -1}, {"confidence": 1.0}, {"confidence": 0.2}])
def test_demands_that_cannot_be_are_refused(wrong: dict) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(wrong))} {next(iter(wrong.values()))}"):
        Gate(**wrong)


def test_a_win_rate_is_not_demanded_of_nothing() -> None:
    with pytest.raises(ConfigError, match="no fact was asked with dates"):
        passes(Gate(min_win_rate=0.5), [])


def test_the_loss_is_paired_by_fact() -> None:
    now = pl.DataFrame({"fact_id": ["b", "a", "new"], "win_rate": [0.2, 0.9, 0.0]})
    before = pl.DataFrame({"fact_id": ["a", "b", "old"], "win_rate": [0.9, 0.8, 1.0]})
    loss = loss_against(before, now)
    assert (loss.facts, loss.loss) == (2, pytest.approx(0.3))
    assert loss.p == pytest.approx(0.5)  # one fact differs: its sign is a coin
    with pytest.raises(ConfigError, match="no fact in common"):
        loss_against(before, now.with_columns(fact_id=pl.lit("x")))


def population(random, facts):
    """Win rates as models have them: some facts known, some not, most between."""
    return random.beta(1.2, 0.8, facts)


def again(random, win_rates, noise):
    """The same model with another seed or dtype: each fact's W moves a little, within 0 and 1."""
    return np.clip(win_rates + random.normal(0, noise, win_rates.size), 0, 1)


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
    found = [Outcome("at most 0 stale", False, "1 of 2"), Outcome("win rate at least 50 %", True, "mean W 60 %")]
    facts = [{"name": "Obama & co\x00 <x>", "relation": "president", "verdict": "shaky"}]
    left = [{"name": "Paris", "relation": "capital", "reason": "no question"}]
    suite = ElementTree.fromstring(junit("m", found, facts, left))
    assert {k: suite.get(k) for k in ("tests", "failures", "errors", "skipped")} == {
        "tests": "4", "failures": "1", "errors": "0", "skipped": "1"
    }  # fmt: skip
    cases = suite.findall("testcase")
    assert [case.find("failure") is not None for case in cases] == [True, False, False, False]
    assert cases[2].get("name") == "Obama & co <x>" and cases[2].findtext("system-out") == "shaky"
    assert cases[3].find("skipped").get("message") == "no question"
