"""Which questions are asked about facts, how names are told apart, budgets, and periods beside the true ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anachron.core.dates import Date
from anachron.core.errors import ConfigError
from anachron.core.periods import Period
from anachron.probe.ask.asking import AskSettings, estimate
from anachron.probe.ask.budget import Budget, Cost, Prices, affordable, parse_budget
from anachron.probe.ask.matching import READ, Reading
from anachron.probe.ask.sampling import Call
from anachron.probe.ask.tables import OTHER_PERIOD, RIGHT, SOMEBODY_ELSE, open_outcome, overlap, period_cells
from anachron.probe.check.questions import CheckedFacts, read_facts
from anachron.probe.questions import questions_of

FACTS = """subject,relation,object,start,end,aliases
Germany,head of government,Gerhard Schröder,1998-10-27,2005-11-22,the chancellor
Germany,head of government,Angela Merkel,2005-11-22,2021-12-08,Merkel|the chancellor
Germany,head of government,Friedrich Merz,2025-05-06,,
"""


@pytest.fixture
def asked(tmp_path) -> CheckedFacts:
    (tmp_path / "facts.csv").write_text(FACTS)
    return read_facts(tmp_path / "facts.csv", as_of="2025-11-22")


def test_the_words_of_the_questions(asked: CheckedFacts):
    questions, as_of = questions_of(asked.data, asked.given)
    merkel = next(fact for fact in questions.facts if fact.object == "Angela Merkel")
    assert str(as_of) == "2025-11-22" and len(merkel.open) == 2
    for year, prompt in merkel.open:
        assert 2006 <= int(year) <= 2020 and prompt.startswith(f"In {year}, ")
    match = merkel.matches.drawn[0][0]
    prompts = [questions.choice_prompt(merkel, Call(match, first)) for first in (True, False)]
    assert (
        f"{match.correct} or {match.incorrect}?" in prompts[0]
        and f"{match.incorrect} or {match.correct}?" in prompts[1]
    )
    assert all("Answer: Angela Merkel\n" in text for text in (*prompts, questions.period_prompt(merkel)))


def test_rivals_are_all_of_the_file_and_shared_names_tell_nothing(asked: CheckedFacts):
    questions, _ = questions_of(asked.data, asked.given)
    (group,) = questions.rivals
    assert questions.names(group) == {
        "Gerhard Schröder": "Gerhard Schröder", "Angela Merkel": "Angela Merkel", "Merkel": "Angela Merkel",
        "Friedrich Merz": "Friedrich Merz",
    }  # fmt: skip
    fact = next(fact for fact in questions.facts if fact.object == "Angela Merkel")
    for value, outcome in (("Angela Merkel", RIGHT), ("Friedrich Merz", OTHER_PERIOD), (None, SOMEBODY_ELSE)):
        assert open_outcome(fact, "2010", Reading(READ, value), questions) == outcome


def test_somebody_who_holds_in_the_same_year_is_right_too(tmp_path):
    (tmp_path / "facts.csv").write_text(
        "subject,relation,object,start,end\n"
        "France,head of state,Ann Lee,1990,1999\n"
        "France,head of state,Bo Ray,1995,2004\n"
    )
    asked = read_facts(tmp_path / "facts.csv", as_of="2025")
    questions, _ = questions_of(asked.data, asked.given)
    first = next(fact for fact in questions.facts if fact.object == "Ann Lee")
    named = {year: open_outcome(first, year, Reading(READ, "Bo Ray"), questions) for year in ("1992", "1997")}
    assert named == {"1992": OTHER_PERIOD, "1997": RIGHT}


def test_an_estimate_counts_what_may_be_asked(asked: CheckedFacts):
    questions, _ = questions_of(asked.data, asked.given)
    least, most = estimate(questions, asked.questions, AskSettings())
    strata = [len(fact.matches.drawn) for fact in questions.facts]
    plain = 3 * len(questions.facts) + 1
    assert least.calls == plain + 6 * sum(strata)  # three rounds of two orders
    assert most.calls == plain + sum(2 * len(drawn) for fact in questions.facts for drawn in fact.matches.drawn)
    assert estimate(questions, asked.questions, AskSettings(ways=("open",)))[1].calls == 2 * len(questions.facts) + 1


days = st.integers(700_000, 740_000)


@given(days, days, days, days)
def test_overlap_is_the_share_of_common_days(a: int, b: int, c: int, d: int):
    (a, b), (c, d) = sorted((a, b)), sorted((c, d))
    a, b, c, d = (n // 97 for n in (a, b, c, d))  # short enough to count day by day
    one, other = ({*range(low + 700_000, high + 700_001)} for low, high in ((a, b), (c, d)))
    periods = [Period(*(Date.from_day_number(n) for n in (min(x), max(x)))) for x in (one, other)]
    assert overlap(*periods) == pytest.approx(len(one & other) / len(one | other))


@pytest.mark.parametrize(
    ("believed", "start", "end"),
    [
        (Period("2005-11-22", "2021-12-08"), 0, 0),
        (Period("2005", "2021"), 0, 0),  # nothing finer was said, so nothing finer is wrong
        (Period("2005-11", "2021-11"), 0, -31),
        (Period("2006-11-22", "2021-12-10"), 365, 2),
        (Period("2000", None), -5 * 365 - 2, 1445),  # up to the last known day, in 2025
        (Period("2030", None), 25 * 365 + 6, 9 * 365 + 2),
    ],
)
def test_errors_of_a_period_in_days(asked: CheckedFacts, believed: Period, start: int, end: int):
    questions, as_of = questions_of(asked.data, asked.given)
    fact = next(fact for fact in questions.facts if fact.object == "Angela Merkel")
    cells = period_cells(believed, fact, as_of)
    assert cells["start_error_days"] == start
    assert cells["end_error_days"] == end


def test_budgets_are_read_and_held():
    prices = Prices(1.0, 3.0)
    assert parse_budget("2000 calls", None) == Budget(2000, "calls")
    assert parse_budget("500k tokens", None) == Budget(500_000, "tokens")
    assert parse_budget("2.5money", prices) == Budget(2.5, "money")
    for wrong in ("5", "-3 calls", "0 calls", "many calls", "3 euros"):
        with pytest.raises(ConfigError, match="budget"):
            parse_budget(wrong, prices)
    with pytest.raises(ConfigError, match="--price-in"):
        parse_budget("2 money", None)
    assert prices.of(1e6, 2e6) == 7.0


@given(st.integers(1, 400), st.integers(1, 5000), st.integers(1, 300))
def test_a_budget_of_tokens_is_spent_and_overdrawn_by_no_call_of_the_usual_length(
    questions: int, amount: int, each: int
):
    budget, spent, asked = Budget(amount, "tokens"), Cost(), 0
    while asked < questions:
        ahead = Cost(1, each, 0).times(questions - asked)
        number = affordable(questions - asked, spent, ahead, budget, None)
        if not number:
            break
        spent, asked = spent + Cost(1, each, 0).times(number), asked + number
    assert asked == min(questions, amount // each)


def test_settings_that_cannot_be():
    for wrong in ({"ways": ()}, {"ways": ("guess",)}, {"width": 2.0}, {"rounds": 0}, {"rounds": 6}):
        with pytest.raises(ConfigError):
            AskSettings(**wrong)
