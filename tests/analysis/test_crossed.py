"""Crossed matches against loops over objects and dates, and what no preference may win."""

from collections import defaultdict
from itertools import combinations, pairwise, product
from statistics import mean

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anachron
from anachron.analysis.analyses.comparison import compare
from anachron.analysis.analyses.crossed import crossed_matches, crossed_table, likeliest_objects
from anachron.analysis.metrics import RUN_KEYS, is_run
from anachron.analysis.statistics import korn_graubard, sign_flips
from anachron.core.errors import DataError
from anachron.report.studies import write_metrics
from support.synthetic_studies import RUNS, synthetic_scores

KEYS = ("model", "format", "prefix", "granularity", "subject_label", "relation_id")
YEARS = range(1980, 2020)


def table_of(scores, periods, subject="France", relation="head of state", model="m"):
    """A score table of one succession: log P of each object at each year by a function of both; `None`: not asked.

    periods: of each object the years in which it held.
    """
    rows = [
        {
            "model": model, "format": "raw", "prefix": "none", "fact_id": f"{subject} {name}", "granularity": "year",
            "time": str(year), "status": "correct" if year in held else "incorrect", "alpha": 0.0, "logp": logp,
            "subject_label": subject, "relation_label": relation, "object_label": name,
        }
        for (name, held), year in product(periods.items(), YEARS)
        if (logp := scores(name, year)) is not None
    ]  # fmt: skip
    return pl.DataFrame(rows)


def recount(scores):
    """(run, granularity, subject, relation, object, other) -> matches, ties, share won, W; by loops alone."""
    asked = defaultdict(dict)
    for row in scores.iter_rows(named=True):
        if row["status"] in ("correct", "incorrect"):
            asked[tuple(row[k] for k in KEYS)].setdefault(row["object_label"], {})[row["time"]] = row
    found = {}
    for key, objects in asked.items():
        for one, other in combinations(objects, 2):
            both = [(objects[one][t], objects[other][t]) for t in objects[one] if t in objects[other]]
            mine = [(a["logp"], b["logp"]) for a, b in both if (a["status"], b["status"]) == ("correct", "incorrect")]
            its = [(a["logp"], b["logp"]) for a, b in both if (a["status"], b["status"]) == ("incorrect", "correct")]
            results, plain = [], []
            for (o_d, p_d), (o_e, p_e) in product(mine, its):
                straight, crossed = o_d + p_e, o_e + p_d
                results.append(0.5 if abs(straight - crossed) < 1e-9 else float(straight > crossed))
                plain += [float(o_d > o_e), float(p_e > p_d)]
            if results:
                found[(*key, one, other)] = len(results), results.count(0.5), mean(results), mean(plain)
    return found


def test_pairs_are_those_of_loops_over_objects_and_dates():
    scores = synthetic_scores(40, seed=5, runs=RUNS[:3])
    table, expected = crossed_matches(scores), recount(scores)
    assert len(expected) > 12
    assert any(ties for _, ties, _, _ in expected.values())
    columns = [*KEYS, "object_label", "other_label"]
    counts = ["matches", "ties", "crossed", "win_rate"]
    found = {
        row[:8]: row[8:] for row in table.filter(pl.col("granularity") != "global").select(*columns, *counts).rows()
    }
    assert found.keys() == expected.keys()
    for key, numbers in expected.items():
        assert found[key] == pytest.approx(numbers), key


def test_global_is_the_mean_of_the_three_granularities_of_a_pair():
    periods = {"A": range(1990, 1995), "B": range(1995, 2003)}
    years = table_of(lambda name, year: float(ord(name) * year % 5), periods)
    months = years.with_columns(granularity=pl.lit("month"), time=pl.col("time") + "-05", logp=-pl.col("logp"))
    days = years.with_columns(granularity=pl.lit("day"), time=pl.col("time") + "-05-06", logp=2 * pl.col("logp"))
    table = crossed_matches(pl.concat([years, months, days]))
    levels = dict(table.select("granularity", "crossed").rows())
    assert list(levels) == ["year", "month", "day", "global"]
    assert levels["global"] == pytest.approx((levels["year"] + levels["month"] + levels["day"]) / 3)
    assert table["matches"].to_list() == [40, 40, 40, 120]
    assert "global" not in crossed_matches(pl.concat([years, months]))["granularity"]


@given(
    st.lists(st.floats(-40, 0), min_size=3, max_size=3),
    st.lists(st.floats(-40, 0), min_size=len(YEARS), max_size=len(YEARS)),
)
def test_no_preference_for_dates_or_objects_wins_more_than_half(of_objects, of_years):
    prior, late = dict(zip("ABC", of_objects, strict=True)), dict(zip(YEARS, of_years, strict=True))
    periods = {"A": range(1985, 1994), "B": range(1994, 2001), "C": range(2001, 2020)}
    table = crossed_matches(table_of(lambda name, year: prior[name] + late[year], periods))
    assert table.height == 3
    assert table["ties"].to_list() == table["matches"].to_list() == [9 * 7, 9 * 19, 7 * 19]
    assert table["crossed"].to_list() == [0.5, 0.5, 0.5]


def test_later_beats_earlier_wins_plain_matches_of_what_still_holds_and_no_crossed_ones():
    late = table_of(lambda name, year: 0.05 * year, {"false old": range(1985, 2000), "false new": range(2000, 2020)})
    standing = late.filter(pl.col("object_label") == "false new")
    assert anachron.fact_metrics(standing)["win_rate"].to_list() == [1.0]
    assert crossed_matches(late)["crossed"].to_list() == [0.5]


def test_what_is_known_wins_all_and_exchanged_periods_lose_it():
    periods = {"A": range(1985, 1999), "B": range(1999, 2010)}
    scores = table_of(lambda name, year: (year in periods[name]) - 3.0 - (name == "B") + year / 9, periods)
    assert crossed_matches(scores)["crossed"].to_list() == [1.0]
    exchanged = table_of(lambda name, year: float(year in periods[name]), {"A": periods["B"], "B": periods["A"]})
    assert crossed_matches(exchanged)["crossed"].to_list() == [0.0]


def test_dates_at_which_both_held_or_one_was_not_asked_make_no_match():
    periods = {"A": range(1985, 1999), "B": range(1995, 2010)}
    table = crossed_matches(table_of(lambda name, year: 0.0 if (name, year) != ("B", 1990) else None, periods))
    assert table["matches"].to_list() == [(10 - 1) * 11]
    together = table_of(lambda name, year: 0.0, {"A": range(1985, 1999), "B": range(1985, 1999)})
    assert crossed_matches(together).height == 0


def test_objects_of_other_subjects_or_relations_are_no_pair():
    parts = [
        table_of(lambda name, year: 0.0, {"A": range(1985, 1999)}, subject, relation)
        for subject, relation in (("France", "capital"), ("France", "head of state"), ("Italy", "capital"))
    ]
    assert crossed_matches(pl.concat([p.with_columns(fact_id=pl.lit(str(n))) for n, p in enumerate(parts)])).height == 0


def test_a_relation_is_the_same_by_its_id_however_it_is_worded():
    periods = {"A": range(1985, 1999), "B": range(1999, 2010)}
    scores = table_of(lambda name, year: 0.0, periods).with_columns(relation_id=pl.lit("P35"))
    worded = scores.with_columns(
        pl.when(pl.col("object_label") == "B")
        .then(pl.lit("President"))
        .otherwise("relation_label")
        .alias("relation_label")
    )
    (row,) = crossed_table(worded).rows(named=True)
    assert (row["successions"], row["pairs"], row["relation"]) == (1, 1, "all")
    assert crossed_matches(worded.drop("relation_id")).height == 0


def test_objects_that_are_numbers_in_a_csv_are_names(tmp_path):
    scores = table_of(lambda name, year: float(ord(name) * year % 5), {"1": range(1985, 1999), "2": range(1999, 2010)})
    scores.write_csv(tmp_path / "scores.csv")
    read = pl.read_csv(tmp_path / "scores.csv")
    assert read["object_label"].dtype.is_integer()
    assert crossed_matches(read).equals(crossed_matches(scores))


def test_a_table_that_does_not_name_its_facts_is_refused():
    scores = table_of(lambda name, year: 0.0, {"A": range(1985, 1999)})
    with pytest.raises(DataError, match="subject_label"):
        crossed_matches(scores.drop("subject_label"))
    with pytest.raises(DataError, match="relation_label"):
        crossed_matches(scores.drop("relation_label"))


def test_means_count_each_pair_and_each_succession_once():
    scores = synthetic_scores(64, seed=2, runs=RUNS[:2])
    pairs, table = crossed_matches(scores), crossed_table(scores)
    assert {"year"} <= {*table["granularity"]}
    for row in table.iter_rows(named=True):
        own = pairs.filter(*(pl.col(k) == row[k] for k in KEYS[:4]))
        if row["relation"] != "all":
            own = own.filter(pl.col("relation_label") == row["relation"])
        successions = defaultdict(list)
        for pair in own.iter_rows(named=True):
            successions[pair["subject_label"], pair["relation_id"]].append(pair)
        means = [mean(pair["crossed"] for pair in part) for part in successions.values()]
        assert row["crossed"] == pytest.approx(mean(means))
        assert row["win_rate"] == pytest.approx(
            mean(mean(pair["win_rate"] for pair in part) for part in successions.values())
        )
        assert (row["successions"], row["pairs"]) == (len(successions), own.height)
        assert (row["matches"], row["ties"]) == (own["matches"].sum(), own["ties"].sum() / own["matches"].sum())
        subjects = defaultdict(float)
        for (subject, _), share in zip(successions, means, strict=True):
            subjects[subject] += share - 0.5
        assert row["subjects"] == len(subjects)
        assert row["p"] == pytest.approx(sign_flips([0.0] * len(subjects), [*subjects.values()]))
        ends = korn_graubard(means, [subject for subject, _ in successions])
        assert (row["crossed_low"], row["crossed_high"]) == pytest.approx(ends)


def test_flipping_the_sign_of_two_objects_is_to_exchange_their_periods():
    random = np.random.default_rng(7)
    noise = {(name, year): random.normal() for name in "AB" for year in YEARS}
    periods = {"A": range(1985, 1999), "B": range(1999, 2010)}
    swapped = {"A": periods["B"], "B": periods["A"]}
    one, other = (crossed_matches(table_of(lambda *key: noise[key], p))["crossed"][0] for p in (periods, swapped))
    assert one == pytest.approx(1 - other)
    assert one not in (0.0, 0.5, 1.0)


@pytest.mark.parametrize("subjects", [10, 30, 100])
@pytest.mark.parametrize("level", [0.5, 0.9])
def test_intervals_hold_the_truth_of_clustered_shares(subjects, level):
    """Shares of beta distributions whose mean differs by subject; one to four successions a subject."""
    random, held, trials = np.random.default_rng(1), 0, 400
    for _ in range(trials):
        sizes = random.integers(1, 5, subjects)
        means = random.beta(3 * level, 3 * (1 - level), subjects)
        clusters = np.repeat(np.arange(subjects), sizes)
        values = random.beta(4 * means[clusters] + 1e-6, 4 * (1 - means[clusters]) + 1e-6)
        low, high = korn_graubard(values, clusters)
        held += low <= level <= high
    assert held / trials >= 0.93 - 0.02  # of 93 %, by two standard errors and a half of 400 draws


@pytest.mark.share(2)
@pytest.mark.full
@pytest.mark.parametrize("recency", [0.0, 0.2, -0.2])
def test_smooth_scorers_without_knowledge_are_told_apart_from_half_one_time_in_twenty(recency):
    """Each object's scores wander from year to year (autocorrelation 0.8), with a preference for late or early years;
    25 subjects, some with two relations, of two to four objects."""
    random, apart, significant, trials = np.random.default_rng(3), 0, 0, 80
    for _ in range(trials):
        parts = []
        for number in range(33):
            cuts = [1982, *sorted(random.choice(range(1986, 2016), random.integers(1, 4), replace=False)), 2019]
            noise = random.normal(size=(len(cuts) - 1, len(YEARS)))
            for year in range(1, len(YEARS)):
                noise[:, year] = 0.8 * noise[:, year - 1] + 0.6 * noise[:, year]
            periods = {f"{number} {n}": range(first, last) for n, (first, last) in enumerate(pairwise(cuts))}
            places = {name: n for n, name in enumerate(periods)}
            parts.append(
                table_of(
                    lambda name, year, n=noise, p=places: float(n[p[name], year - 1980] + recency * year), periods,
                    f"subject {number % 25}", f"relation {number // 25}",
                )
            )  # fmt: skip
        row = crossed_table(pl.concat(parts)).filter(relation="all").row(0, named=True)
        assert row["subjects"] == 25
        apart += not row["crossed_low"] <= 0.5 <= row["crossed_high"]
        significant += row["p"] < 0.05
    most = trials * 0.05 + 3 * (trials * 0.05 * 0.95) ** 0.5
    assert max(apart, significant) <= most


def test_it_is_among_the_tables_and_public(tmp_path):
    scores = synthetic_scores(16, seed=4, runs=RUNS[:1])
    scores.write_parquet(tmp_path / "scores.parquet")
    write_metrics([tmp_path / "scores.parquet"], tmp_path / "tables")
    pairs = anachron.crossed_matches(scores)
    assert pl.read_parquet(tmp_path / "tables" / "crossed_pairs.parquet").equals(pairs)
    assert pl.read_parquet(tmp_path / "tables" / "crossed.parquet").equals(crossed_table(scores))
    assert "| crossed |" in (tmp_path / "tables" / "markdown" / "crossed.md").read_text("utf-8")
    assert not (tmp_path / "tables" / "markdown" / "crossed_pairs.md").exists()


def likeliest_of(scores):
    """(subject, relation, granularity) of one run -> dates, chance, share right, share right less the objects' own."""
    asked = defaultdict(lambda: defaultdict(dict))
    for row in scores.iter_rows(named=True):
        if row["subject_label"] and row["object_label"] and row["relation_id"]:
            key = row["subject_label"], row["relation_id"], row["granularity"]
            asked[key][row["time"]][row["fact_id"]] = (row["status"], row["logp"])
    found = {}
    for key, times in asked.items():
        kept = [
            of for of in times.values()
            if len(of) > 1 and sorted(s for s, _ in of.values()) == ["correct"] + ["incorrect"] * (len(of) - 1)
        ]  # fmt: skip
        if kept:
            own = {fact: mean(of[fact][1] for of in kept if fact in of) for of in kept for fact in of}
            shares = []
            for prior in (dict.fromkeys(own, 0.0), own):
                right = []
                for of in kept:
                    lead = {fact: logp - prior[fact] for fact, (_, logp) in of.items()}
                    best = [fact for fact in lead if lead[fact] >= max(lead.values()) - 1e-9]
                    right.append(sum(of[fact][0] == "correct" for fact in best) / len(best))
                shares.append(mean(right))
            found[key] = (len(kept), mean(1 / len(of) for of in kept), *shares)
    return found


def test_the_likeliest_object_of_each_date_is_that_of_loops():
    scores = synthetic_scores(40, seed=5, runs=RUNS[:1])
    about = scores.unique("fact_id", maintain_order=True)
    table = likeliest_objects(scores, about)
    expected = likeliest_of(scores)
    columns = ["of_subject", "of_relation", "granularity", "dates", "chance", "likeliest", "likeliest_less_prior"]
    found = {row[:3]: row[3:] for row in table.select(columns).iter_rows()}
    assert len(expected) > 8
    assert found.keys() == expected.keys()
    for key, numbers in expected.items():
        assert found[key] == pytest.approx(numbers), key


def test_a_preference_for_objects_is_right_by_chance_alone_once_it_is_taken_off():
    periods = {"A": range(1980, 1990), "B": range(1990, 2010), "C": range(2010, 2020)}
    fame = {"A": -9.0, "B": -1.0, "C": -5.0}

    def row_of(score):
        scores = table_of(score, periods)
        return crossed_table(scores).row(0, named=True)

    famous = row_of(lambda name, year: fame[name] + year / 50)
    assert (famous["dates"], famous["chance"]) == (40, pytest.approx(1 / 3))
    assert famous["likeliest"] == 0.5  # B holds in half of the years
    assert famous["likeliest_less_prior"] == pytest.approx(1 / 3)
    knowing = row_of(lambda name, year: fame[name] + (year in periods[name]))
    assert knowing["likeliest"] == 0.5
    assert knowing["likeliest_less_prior"] == 1
    assert knowing["likeliest_less_prior_low"] < 1 == knowing["likeliest_less_prior_high"]


def test_runs_are_compared_on_the_pairs_that_both_have():
    """By loops over successions and pairs; a run that lacks an object has fewer pairs, and is compared on those."""
    scores = synthetic_scores(40, seed=5, runs=RUNS[:2])
    first, second = (tuple(scores.select(RUN_KEYS).unique(maintain_order=True).row(place)) for place in (0, 1))
    lacking = scores.filter(pl.col("object_label").is_not_null())["object_label"].unique().sort().to_list()[::7]
    scores = scores.filter(~(is_run(second) & pl.col("object_label").is_in(lacking)))
    pairs = crossed_matches(scores)
    table = compare(anachron.fact_metrics(scores), [(first, second)], pairs)
    shares: dict[tuple, float] = {
        tuple(row[name] for name in (*RUN_KEYS, "granularity", "subject_label", "relation_id", "object_label",
                                     "other_label")): row["crossed"]
        for row in pairs.iter_rows(named=True)
    }  # fmt: skip
    compared = 0
    for row in table.iter_rows(named=True):
        gaps: dict[tuple, list[float]] = {}
        for key, share in shares.items():
            if key[:3] == first and key[3] == row["granularity"] and (*second, *key[3:]) in shares:
                gaps.setdefault(key[4:6], []).append(shares[*second, *key[3:]] - share)
        means = [sum(of) / len(of) for of in gaps.values()]
        assert row["successions"] == len(means)
        compared += len(means)
        if means:
            assert row["crossed_difference"] == pytest.approx(sum(means) / len(means))
            assert row["crossed"] - row["against_crossed"] == pytest.approx(row["crossed_difference"])
            assert row["crossed_difference_low"] <= row["crossed_difference"] <= row["crossed_difference_high"]
            assert 0 < row["crossed_difference_p"] <= 1
        else:
            assert row["crossed_difference"] is None
    assert compared > 5
    assert len(shares) > 2 * compared  # some pairs are of one run only
