"""W inside lifespans against a loop over all pairs of contexts, and against a fact told in words."""

from random import Random
from statistics import mean

import polars as pl
import pytest

from anachron.analysis.analyses.lifespans import LIFESPAN_SCHEMA, lifespans, outside_lives
from anachron.analysis.metrics import check_scores, with_noise
from anachron.core.dates import Date
from anachron.core.errors import DataError
from anachron.data.dataset import Dataset
from support.intervals import of_differences

RUNS = [("m", "raw", "none"), ("k", "chat", "none")]


def rows_of(fact, run, dates):
    """dates: (time, status, logp)."""
    return [
        {
            "model": run[0], "format": run[1], "prefix": run[2], "fact_id": fact, "time": time, "status": status,
            "granularity": Date.parse(time).granularity, "alpha": 0.0, "logp": logp,
        }
        for time, status, logp in dates
    ]  # fmt: skip


def table_of(rows):
    return with_noise(check_scores(pl.DataFrame(rows, infer_schema_length=None)), None)


def synthetic(seed):
    """Facts from 1950 to 1959 with integer scores, so that ties abound, and lives of all kinds."""
    random = Random(seed)
    rows, about = [], []
    for i in range(24):
        lives = {
            "subject_from": random.choice([None, "1900", "1941-06"]), "subject_until": random.choice([None, "1990"]),
            "object_from": random.choice([None, "1930-02-03"]),
            "object_until": random.choice([None, "1962", "1999-12"]),
        }  # fmt: skip
        if i % 6 == 5:
            lives = dict.fromkeys(lives)
        about.append({"fact_id": f"f{i:02d}"} | lives)
        wrong = [year for year in random.sample(range(1880, 2010), 30) if not 1949 < year < 1961]
        for run in RUNS:
            for ending in ("", "-06", "-06-15")[: 2 if i % 7 == 3 else 3]:
                dates = [(f"{year}{ending}", "correct", random.randint(2, 9)) for year in (1951, 1954, 1957)]
                dates += [(f"{year}{ending}", "incorrect", random.randint(0, 7)) for year in wrong]
                rows += rows_of(f"f{i:02d}", run, [(t, s, float(p)) for t, s, p in dates])
    return table_of(rows), pl.DataFrame(about, infer_schema_length=None)


def is_outside(time, lives):
    date = Date.parse(time)
    before = [lives[n] for n in ("subject_from", "object_from") if lives[n] is not None]
    after = [lives[n] for n in ("subject_until", "object_until") if lives[n] is not None]
    return any(date.last_day < Date.parse(t).first_day for t in before) or any(
        date.first_day > Date.parse(t).last_day for t in after
    )


def looped(scores, about):
    """(run, granularity) -> fact -> (share outside, W, W inside), fact by fact and pair by pair."""
    found = {}
    lives = {row["fact_id"]: row for row in about.iter_rows(named=True)}
    groups = {}
    for row in scores.iter_rows(named=True):
        key = row["model"], row["fact_id"], row["granularity"]
        groups.setdefault(key, {"correct": [], "incorrect": []})[row["status"]].append(row)
    for (model, fact, granularity), sides in groups.items():
        flags = [is_outside(row["time"], lives[fact]) for row in sides["incorrect"]]
        if not 0 < sum(flags) < len(flags):
            continue
        kept = [row for row, flag in zip(sides["incorrect"], flags, strict=True) if not flag]
        rate = [
            mean(c["logp"] > i["logp"] for c in sides["correct"] for i in side) for side in (sides["incorrect"], kept)
        ]
        found.setdefault((model, granularity), {})[fact] = (mean(flags), *rate)
    for model, _, _ in RUNS:
        three = [found[model, granularity] for granularity in ("year", "month", "day")]
        shared = [fact for fact in three[0] if all(fact in one for one in three)]
        found[model, "global"] = {
            fact: tuple(mean(values) for values in zip(*(one[fact] for one in three), strict=True)) for fact in shared
        }
    return found


@pytest.mark.parametrize("seed", [0, 1])
def test_lifespans_equal_the_loop(seed):
    scores, about = synthetic(seed)
    expected = looped(scores, about)
    table = lifespans(scores, about)
    assert dict(table.schema) == LIFESPAN_SCHEMA
    assert {(row["model"], row["granularity"]) for row in table.iter_rows(named=True)} == set(expected)
    for row in table.iter_rows(named=True):
        facts = expected[row["model"], row["granularity"]]
        assert row["facts"] == len(facts) < 24
        for name, values in zip(
            ("outside", "win_rate", "win_rate_inside"), zip(*facts.values(), strict=True), strict=True
        ):
            assert row[name] == pytest.approx(mean(values))
        differences = pl.Series([every - inside for _, every, inside in facts.values()]).to_numpy()
        assert row["difference"] == pytest.approx(differences.mean())
        assert (row["low"], row["high"]) == pytest.approx(of_differences(differences), abs=1e-9)
        assert row["low"] < row["difference"] < row["high"]


def test_a_president_before_his_birth_and_after_his_death():
    """Born in 1809, president to 1865 and dead: 1700 and 1900 say nothing about when he was president; 1850 does."""
    dates = [
        ("1863", "correct", -2.0), ("1700", "incorrect", -9.0), ("1900", "incorrect", -8.0),
        ("1850", "incorrect", -1.0), ("1809", "incorrect", -3.0),
    ]  # fmt: skip
    about = pl.DataFrame({"fact_id": ["f"], "object_from": ["1809"], "object_until": ["1865"]})
    scores = table_of(rows_of("f", RUNS[0], dates))
    assert outside_lives(scores, about).to_list() == [False, True, True, False, False]
    row = lifespans(scores, about).row(0, named=True)
    assert (row["facts"], row["outside"], row["win_rate"], row["win_rate_inside"]) == (1, 0.5, 0.75, 0.5)


def test_a_date_that_overlaps_with_the_birth_is_inside():
    about = pl.DataFrame({"fact_id": ["f"], "subject_from": ["1809-02-12"]})
    times = ["1809", "1809-02", "1809-02-11", "1809-02-12", "1808", "1809-01"]
    scores = table_of(rows_of("f", RUNS[0], [(time, "incorrect", 0.0) for time in times]))
    assert outside_lives(scores, about).to_list() == [False, False, True, False, True, True]


def test_nothing_known_rules_nothing_out():
    scores = table_of(rows_of("f", RUNS[0], [("1863", "correct", 0.0), ("1700", "incorrect", 0.0)]))
    about = pl.DataFrame({"fact_id": ["f"]})
    assert not outside_lives(scores, about).any() and not lifespans(scores, about).height


def test_a_birth_that_is_no_date_is_refused():
    scores = table_of(rows_of("f", RUNS[0], [("1863", "correct", 0.0)]))
    with pytest.raises(DataError, match="long ago"):
        outside_lives(scores, pl.DataFrame({"fact_id": ["f"], "object_until": ["long ago"]}))


def test_mini_knows_the_lives_of_persons(mini: Dataset):
    lincoln = mini.table.filter(pl.col("object_label") == "Abraham Lincoln").row(0, named=True)
    assert (lincoln["object_from"], lincoln["object_until"], lincoln["subject_from"]) == ("1809", "1865", None)
