"""Verdicts from scores, against a recount by hand and random scorers."""

from math import isclose
from random import Random

import polars as pl
import pytest

from anachron.analysis.metrics import check_scores, fact_metrics
from anachron.core.contexts import sample_contexts
from anachron.core.periods import Period
from anachron.probe.check.verdicts import CHANCE, KNOWN, fact_verdicts

PERIOD = ("2005", "2009")


def scores_of(facts, seed=0):
    """Scores of facts: id -> (period, function from (context, random) to nats)."""
    random, rows = Random(seed), []
    for fact, (period, score) in facts.items():
        for context in sample_contexts(Period(*period), fact_id=fact):
            rows.append({
                "model": "m", "format": "raw", "prefix": "none", "fact_id": fact, "start": period[0], "end": period[1],
                "granularity": context.granularity, "time": context.time, "status": context.status,
                "alpha": context.alpha, "logp": -20.0 if context.time is None else score(context, random),
            })  # fmt: skip
    return check_scores(pl.DataFrame(rows, infer_schema_length=None))


def verdicts_of(scores):
    return {row["fact_id"]: row for row in fact_verdicts(scores, fact_metrics(scores)).iter_rows(named=True)}


def year(context):
    return int(context.time[:4])


def test_each_verdict_is_given_to_what_it_describes() -> None:
    def known(context, random):
        """Right but for one lapse: the last year asked about beats every other."""
        return 5.0 if year(context) == 2019 else 3.0 if context.status == "correct" else random.random()

    rows = verdicts_of(scores_of({
        "robust": (PERIOD, lambda c, r: 1.0 if c.status == "correct" else -r.random()),
        "known": (PERIOD, known),
        "elsewhere": (PERIOD, lambda c, r: 4.0 + r.random() if 1990 <= year(c) <= 1995 else r.random()),
        "shaky": (PERIOD, lambda c, r: r.gauss(1.2 if c.status == "correct" else 0.0, 1.0)),
        "unknown": (PERIOD, lambda c, r: r.gauss(-0.1 if c.status == "correct" else 0.0, 1.0)),
    }))  # fmt: skip
    assert {name: row["verdict"] for name, row in rows.items()} == {
        "robust": "robust", "known": "known", "elsewhere": "wrong period", "shaky": "shaky", "unknown": "unknown"
    }  # fmt: skip
    assert rows["elsewhere"]["years_in_both"] == 0
    assert rows["elsewhere"]["believed_start"] == "1990" and rows["elsewhere"]["believed_end"] == "1995"
    assert isclose(rows["elsewhere"]["start_error_years"], -15, abs_tol=0.01)
    assert isclose(rows["elsewhere"]["end_error_years"], -14, abs_tol=0.01)
    assert KNOWN <= min(rows["known"][f"win_rate_{g}"] for g in ("year", "month", "day")) < 1


def test_a_win_rate_below_the_bound_at_one_granularity_is_not_known() -> None:
    def one_weak(context, random):
        good = context.status == "correct" or (context.granularity == "day" and random.random() < 0.3)
        return 1.0 + random.random() if good else -random.random()

    row = verdicts_of(scores_of({"f": (PERIOD, one_weak)}))["f"]
    assert row["win_rate"] > KNOWN > row["win_rate_day"] and row["verdict"] not in ("known", "robust")


def test_a_believed_period_that_is_open_reaches_as_far_as_was_asked() -> None:
    rows = verdicts_of(scores_of({
        "on": (PERIOD, lambda c, r: 3.0 + r.random() if year(c) >= 2005 else r.random()),  # never ends
        "before": (PERIOD, lambda c, r: 3.0 + r.random() if year(c) <= 2003 else r.random()),
    }))  # fmt: skip
    asked = scores_of({"on": (PERIOD, lambda c, r: 0.0)}).filter(pl.col("granularity") == "year")
    correct = asked.filter(pl.col("status") == "correct").height
    later = asked.filter((pl.col("status") == "incorrect") & (pl.col("time").cast(pl.Int64) >= 2005)).height
    assert isclose(rows["on"]["years_in_both"], correct / (correct + later))
    assert rows["on"]["believed_end"] is None
    assert rows["before"]["years_in_both"] == 0 and rows["before"]["verdict"] == "wrong period"


def by_year(fact, deviation=0.0):
    """A scorer that ranks the years at random, and dates within them as their years, give or take a deviation."""
    levels = {}
    return lambda c, r: levels.setdefault(year(c), r.gauss(0, 1)) + r.gauss(0, deviation)


@pytest.mark.few(1)
@pytest.mark.parametrize("period", [PERIOD, ("1950", "1990"), ("2001-05-03", "2004-02-01")])
def test_chance_is_that_of_random_rankings(period: tuple[str, str]) -> None:
    """Of scorers without knowledge, those with chance at most 5 % are 5 %; and 50 % have at most 50 %."""
    chances = [
        row["chance"] for row in verdicts_of(scores_of({f"f{n}": (period, by_year(n)) for n in range(300)}, 3)).values()
    ]
    assert 0.02 <= sum(chance <= CHANCE for chance in chances) / 300 <= 0.08
    assert 0.42 <= sum(chance <= 0.5 for chance in chances) / 300 <= 0.6  # W of 1/2 itself counts


def drifting(correlation):
    """A scorer without knowledge whose neighbouring years score alike, by a first-order autoregression."""
    levels: dict[int, float] = {}

    def score(context, random):
        when = year(context)
        if when not in levels:
            before = levels.get(when - 1, random.gauss(0, 1))
            levels[when] = correlation * before + (1 - correlation**2) ** 0.5 * random.gauss(0, 1)
        return levels[when] + random.gauss(0, 1)  # what a year, a month and a day differ by

    return score


@pytest.mark.parametrize("correlation", [0.5, 0.8])
def test_years_that_merely_score_alike_are_no_belief_in_another_period(correlation: float) -> None:
    rows = verdicts_of(scores_of({f"f{n}": (PERIOD, drifting(correlation)) for n in range(100)}, seed=4))
    verdicts = [row["verdict"] for row in rows.values()]
    assert verdicts.count("wrong period") <= 10 and verdicts.count("unknown") >= 60
    assert (
        sum(row["believed_start"] is not None for row in rows.values()) >= 30
    )  # a step is fitted to many all the same


def test_a_period_that_is_believed_too_wide_is_shaky() -> None:
    """From ten years before to ten years after: the fact's own dates beat most others."""
    row = verdicts_of(
        scores_of({"f": (PERIOD, lambda c, r: 3.0 + r.random() if 1995 <= year(c) <= 2014 else r.random())})
    )["f"]
    assert row["years_in_both"] < 0.5 and row["believed_win_rate"] == 1.0
    assert row["win_rate"] < KNOWN and row["verdict"] == "shaky"


def test_the_win_rate_of_a_belief_is_that_of_its_dates_match_by_match() -> None:
    scores = scores_of({"f": (PERIOD, lambda c, r: r.gauss(2.5 if 1990 <= year(c) <= 1995 else 0.0, 1.0))}, seed=2)
    row = verdicts_of(scores)["f"]
    low, high = (row[f"believed_{side}"] for side in ("start", "end"))
    rates = []
    for _, dates in scores.filter(pl.col("status").is_in(["correct", "incorrect"])).group_by("granularity"):
        inside, outside = [], []
        for date in dates.iter_rows(named=True):
            within = (low is None or date["time"][:4] >= low) and (high is None or date["time"][:4] <= high)
            (inside if within else outside).append(date["logp"])
        rates.append(sum(a > b for a in inside for b in outside) / (len(inside) * len(outside)))
    assert isclose(row["believed_win_rate"], min(rates))


def test_win_rates_are_those_of_the_metrics() -> None:
    scores = scores_of({f"f{n}": (PERIOD, lambda c, r: r.gauss(0, 1)) for n in range(5)}, seed=1)
    facts = fact_metrics(scores)
    for fact, row in verdicts_of(scores).items():
        for name, granularity in (("win_rate", "global"), ("win_rate_year", "year"), ("win_rate_day", "day")):
            wanted = facts.filter((pl.col("fact_id") == fact) & (pl.col("granularity") == granularity))["win_rate"]
            assert isclose(row[name], wanted.item())
