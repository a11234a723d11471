"""Verdicts from scores, against a recount by hand and scorers that know nothing."""

from math import isclose
from random import Random

import polars as pl
import pytest

from anachron.analysis.metrics import check_scores, fact_metrics
from anachron.core.contexts import sample_contexts
from anachron.core.periods import Period
from anachron.probe.check.verdicts import KNOWN, fact_verdicts

PERIOD = ("2005", "2009")


DECOYS = 20


def tables_of(facts, seed=0, decoy=lambda c, r: r.random(), number=DECOYS):
    """Scores of facts, id -> (period, function from (context, random) to nats), and those of their decoys.

    decoy: the function of all of them, or one that makes the function of each (a factory without arguments).
    """
    random, rows, others = Random(seed), [], []
    for fact, (period, score) in facts.items():
        contexts = sample_contexts(Period(*period), fact_id=fact)
        about = {"model": "m", "format": "raw", "prefix": "none", "fact_id": fact}
        for context in contexts:
            rows.append(about | {
                "start": period[0], "end": period[1],
                "granularity": context.granularity, "time": context.time, "status": context.status,
                "alpha": context.alpha, "logp": -20.0 if context.time is None else score(context, random),
            })  # fmt: skip
        for name in range(number):
            of_decoy = decoy() if decoy.__code__.co_argcount == 0 else decoy
            others += [
                about | {"decoy": f"d{name}", "granularity": c.granularity, "time": c.time, "status": c.status,
                         "logp": float(of_decoy(c, random)), "n_tokens": 1}
                for c in contexts if c.status in ("correct", "incorrect")
            ]  # fmt: skip
    return check_scores(pl.DataFrame(rows, infer_schema_length=None)), pl.DataFrame(others)


def verdicts_of(tables):
    scores, decoys = tables
    return {row["fact_id"]: row for row in fact_verdicts(scores, fact_metrics(scores), decoys).iter_rows(named=True)}


def year(context):
    return int(context.time[:4])


def test_each_verdict_is_given_to_what_it_describes() -> None:
    def known(context, random):
        """Right but for one lapse: the last year asked about beats every other."""
        return 5.0 if year(context) == 2019 else 3.0 if context.status == "correct" else random.random()

    rows = verdicts_of(tables_of({
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

    row = verdicts_of(tables_of({"f": (PERIOD, one_weak)}))["f"]
    assert row["win_rate"] > KNOWN > row["win_rate_day"] and row["verdict"] not in ("known", "robust")


def test_a_believed_period_that_is_open_reaches_as_far_as_was_asked() -> None:
    rows = verdicts_of(tables_of({
        "on": (PERIOD, lambda c, r: 3.0 + r.random() if year(c) >= 2005 else r.random()),  # never ends
        "before": (PERIOD, lambda c, r: 3.0 + r.random() if year(c) <= 2003 else r.random()),
    }, number=99))  # fmt: skip
    asked = tables_of({"on": (PERIOD, lambda c, r: 0.0)})[0].filter(pl.col("granularity") == "year")
    correct = asked.filter(pl.col("status") == "correct").height
    later = asked.filter((pl.col("status") == "incorrect") & (pl.col("time").cast(pl.Int64) >= 2005)).height
    assert isclose(rows["on"]["years_in_both"], correct / (correct + later))
    assert rows["on"]["believed_end"] is None
    assert rows["before"]["years_in_both"] == 0 and rows["before"]["verdict"] == "wrong period"


def drifting(correlation, late=0.0):
    """A scorer without knowledge whose neighbouring years score alike, by a first-order autoregression, and that
    prefers late years by so many nats a year."""
    levels: dict[int, float] = {}

    def score(context, random):
        when = year(context)
        if when not in levels:
            before = levels.get(when - 1, random.gauss(0, 1))
            levels[when] = correlation * before + (1 - correlation**2) ** 0.5 * random.gauss(0, 1)
        return levels[when] + late * when + random.gauss(0, 1)  # what a year, a month and a day differ by

    return score


@pytest.mark.share(2)
@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("correlation", "late"), [(0.0, 0.0), (0.8, 0.05), (0.5, 0.0), (0.8, 0.0), (0.0, 0.05), (0.5, -0.2)]
)
def test_of_what_nothing_is_known_one_in_twenty_is_more_than_unknown(correlation: float, late: float) -> None:
    """Whether neighbouring years score alike or late ones are preferred; also of facts that hold to the end."""
    facts = {
        f"f{n}": (period, drifting(correlation, late))
        for n, period in enumerate([PERIOD, ("1950", "1990"), ("2001-05-03", "2004-02-01"), ("2015", "2020")] * 40)
    }
    rows = verdicts_of(tables_of(facts, 4, lambda: drifting(correlation, late), number=5)).values()
    verdicts = [row["verdict"] for row in rows]
    spread = (160 * 0.05 * 0.95) ** 0.5
    assert len(verdicts) - verdicts.count("unknown") <= 160 * 0.05 + 3 * spread
    assert verdicts.count("robust") + verdicts.count("known") <= 160 * 0.01 + 3 * spread / 5**0.5
    # A step is fitted to many all the same
    assert correlation < 0.5 or late or sum(row["believed_start"] is not None for row in rows) >= 30


def test_without_decoys_nothing_is_known() -> None:
    scores, _ = tables_of({"f": (PERIOD, lambda c, r: 1.0 if c.status == "correct" else 0.0)})
    (row,) = fact_verdicts(scores, fact_metrics(scores)).to_dicts()
    assert (row["verdict"], row["win_rate"], row["robustness"], row["chance"]) == ("unknown", 1.0, 1.0, None)


def test_a_late_preference_makes_no_fact_robust() -> None:
    """Eighteen facts that hold to the end, of which nothing is known: W is 100 %, as that of their decoys."""
    facts = {f"f{n}": (("2015", "2020"), lambda c, r: 0.05 * year(c) + r.random() / 100) for n in range(18)}
    rows = verdicts_of(tables_of(facts, decoy=lambda c, r: 0.05 * year(c) + r.random() / 100, number=6)).values()
    assert {row["win_rate"] for row in rows} == {1.0} == {row["decoy_win_rate"] for row in rows}
    assert sum(row["verdict"] == "unknown" for row in rows) >= 17


def test_a_period_that_is_believed_too_wide_is_shaky() -> None:
    """From ten years before to ten years after: the fact's own dates beat most others."""
    row = verdicts_of(
        tables_of({"f": (PERIOD, lambda c, r: 3.0 + r.random() if 1995 <= year(c) <= 2014 else r.random())}, number=99)
    )["f"]
    assert row["years_in_both"] < 0.5 and row["believed_win_rate"] == 1.0
    assert row["win_rate"] < KNOWN and row["verdict"] == "shaky"


def test_the_win_rate_of_a_belief_is_that_of_its_dates_match_by_match() -> None:
    tables = tables_of({"f": (PERIOD, lambda c, r: r.gauss(2.5 if 1990 <= year(c) <= 1995 else 0.0, 1.0))}, seed=2)
    scores, row = tables[0], verdicts_of(tables)["f"]
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
    tables = tables_of({f"f{n}": (PERIOD, lambda c, r: r.gauss(0, 1)) for n in range(5)}, seed=1)
    facts = fact_metrics(tables[0])
    for fact, row in verdicts_of(tables).items():
        for name, granularity in (("win_rate", "global"), ("win_rate_year", "year"), ("win_rate_day", "day")):
            wanted = facts.filter((pl.col("fact_id") == fact) & (pl.col("granularity") == granularity))["win_rate"]
            assert isclose(row[name], wanted.item())
