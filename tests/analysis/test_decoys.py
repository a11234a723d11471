"""Facts beside their decoys: against loops, and what no preference may win."""

from itertools import product
from statistics import mean

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anachron
from anachron.analysis.analyses.decoys import decoys_of_run
from anachron.analysis.decoys import beside_decoys, chance, chances_among_alike, decoy_metrics, later_wins
from anachron.analysis.metrics import check_scores
from anachron.core.errors import DataError
from anachron.report.studies import write_metrics

RUN = {"model": "m", "format": "raw", "prefix": "none"}
YEARS = tuple(range(1990, 2006))


def tables(score, facts=1, decoys=("d", "e", "f"), held=range(1996, 2001), levels=("year", "month", "day")):
    """Scores and decoys of facts f0, f1, ...: nats by a function of fact, object (None: its own), granularity, year."""
    own, others = [], []
    for number, level, year in product(range(facts), levels, YEARS):
        time = {"year": f"{year}", "month": f"{year}-03", "day": f"{year}-03-04"}[level]
        row = RUN | {"fact_id": f"f{number}", "granularity": level, "time": time}
        row["status"] = "correct" if year in held else "incorrect"
        own.append(row | {"alpha": 0.0, "subject_label": f"s{number}", "logp": float(score(number, None, level, year))})
        others += [
            row | {"decoy": name, "n_tokens": 1, "logp": float(score(number, name, level, year))} for name in decoys
        ]
    return pl.DataFrame(own), pl.DataFrame(others)


def noise(seed):
    """Independent scores, the same at each call."""
    drawn: dict = {}
    random = np.random.default_rng(seed)
    return lambda *key: drawn.setdefault(key, random.normal(-20, 3))


def recount(own, others, fact, levels):
    """W of the fact and of each decoy, and the crossed shares of each against the decoys, by loops."""
    scores: dict = {}
    for row in [*own.iter_rows(named=True), *others.iter_rows(named=True)]:
        if row["fact_id"] == fact and row["granularity"] in levels:
            one = scores.setdefault(row.get("decoy"), {}).setdefault(row["granularity"], {})
            one.setdefault(row["status"], []).append((row["time"], row["logp"]))

    def wins(name):
        return mean(
            mean((a > b) + (a == b) / 2 for (_, a), (_, b) in product(by["correct"], by["incorrect"]))
            for by in scores[name].values()
        )

    def crossed(name):
        shares = []
        for level, by in scores[name].items():
            for rival in scores:
                if rival in (None, name):
                    continue
                its = {time: logp for side in scores[rival][level].values() for time, logp in side}
                gaps = [(a + its[e]) - (b + its[d]) for (d, a), (e, b) in product(by["correct"], by["incorrect"])]
                shares.append(mean(0.5 if abs(gap) < 1e-9 else float(gap > 0) for gap in gaps))
        return mean(shares)

    return {name: wins(name) for name in scores}, {name: crossed(name) for name in scores}


def test_every_number_is_that_of_loops() -> None:
    own, others = tables(noise(1), facts=3)
    found = decoy_metrics(own, others)
    assert found.height == 3 * 4
    for level in ("year", "month", "day", "global"):
        levels = ("year", "month", "day") if level == "global" else (level,)
        rows = found.filter(granularity=level)
        counted = {fact: recount(own, others, fact, levels) for fact in rows["fact_id"]}
        rivals = [crossed[name] for _, crossed in counted.values() for name in crossed if name is not None]
        for row in rows.iter_rows(named=True):
            wins, crossed = counted[row["fact_id"]]
            decoys = [wins[name] for name in wins if name is not None]
            assert row["win_rate"] == pytest.approx(wins[None]) and row["decoy_win_rate"] == pytest.approx(mean(decoys))
            assert row["place"] == 1 + sum(rate >= wins[None] for rate in decoys) and row["decoys"] == 3
            assert row["crossed"] == pytest.approx(crossed[None])
            reached = sum(share >= crossed[None] - 1e-9 for share in rivals)
            assert row["chance"] == pytest.approx((1 + reached) / (1 + len(rivals)))


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.floats(-30, 30), min_size=4, max_size=4),
    st.lists(st.floats(-5, 5), min_size=len(YEARS), max_size=len(YEARS)),
)
def test_a_preference_for_objects_and_dates_wins_half(objects, dates) -> None:
    by_object = dict(zip([None, "d", "e", "f"], objects, strict=True))
    by_year = dict(zip(YEARS, dates, strict=True))
    found = decoy_metrics(*tables(lambda fact, name, level, year: by_object[name] + by_year[year]))
    assert found["crossed"].to_list() == pytest.approx([0.5] * 4) and set(found["chance"]) == {1.0}


def test_who_is_known_leads_and_who_is_not_does_not() -> None:
    drawn = noise(2)

    def score(fact, name, level, year):
        return drawn(fact, name, level, year) + (15 if name is None and fact < 10 and 1996 <= year <= 2000 else 0)

    found = decoy_metrics(*tables(score, facts=30)).filter(granularity="global")
    assert (found["chance"].head(10) <= 0.02).all() and found["chance"].tail(20).mean() > 0.3


@pytest.mark.parametrize("drift", [0.0, 0.9])
def test_the_chance_of_facts_that_nothing_is_known_of_is_as_said(drift: float) -> None:
    """Whether years score independently or much like their neighbours; and however all prefer late years."""
    random, found = np.random.default_rng(5), []
    for _ in range(8):
        curves: dict = {}

        def score(fact, name, level, year, curves=curves):
            key = fact, name
            if key not in curves:
                steps = random.normal(size=len(YEARS))
                for i in range(1, len(YEARS)):
                    steps[i] = drift * steps[i - 1] + (1 - drift**2) ** 0.5 * steps[i]
                curves[key] = steps
            return curves[key][year - YEARS[0]] + random.normal() / 2 + 0.3 * year

        own, others = tables(score, facts=40, decoys=tuple("abcde"), levels=("year",))
        found += decoy_metrics(own, others)["chance"].to_list()
    for level in (0.05, 0.2, 0.5):
        assert abs(np.mean(np.array(found) <= level) - level) < 3.5 * (level * (1 - level) / len(found)) ** 0.5


def test_a_chance_is_a_rank() -> None:
    decoys = np.array([1.0, 2.0, 3.0, np.nan])
    assert [chance(value, decoys) for value in (3.0, 1.0, 9.0, np.nan)] == [0.5, 1.0, 0.25, 1.0]
    assert chance(5.0, np.array([])) == 1.0


def test_the_taste_for_late_years_is_that_of_decoys() -> None:
    own, others = tables(lambda fact, name, level, year: -year if name is None else year)
    assert later_wins(others)["later"].item() == 1.0
    row = decoys_of_run(own, others)
    assert row["later"] == 1.0 and row["granularity"] == "global" and row["facts"] == row["subjects"] == 1
    drawn = noise(3)
    _, others = tables(drawn, levels=("year",))
    by_name = {name: [drawn(0, name, "year", year) for year in YEARS] for name in "def"}
    shares = [mean(float(b > a) for i, a in enumerate(v) for b in v[i + 1 :]) for v in by_name.values()]
    assert later_wins(others)["later"].item() == pytest.approx(mean(shares))


def test_means_are_over_facts_and_paired() -> None:
    own, others = tables(noise(7), facts=12)
    facts = decoy_metrics(own, others).filter(granularity="global")
    row = decoys_of_run(own, others)
    gaps = (facts["win_rate"] - facts["decoy_win_rate"]).to_list()
    assert (
        row["difference"] == pytest.approx(mean(gaps)) and row["difference_low"] < mean(gaps) < row["difference_high"]
    )
    assert row["win_rate"] == pytest.approx(facts["win_rate"].mean())
    assert row["first"] == pytest.approx((facts["place"] == 1).mean()) and row["first_by_chance"] == 0.25


def test_decoys_of_other_dates_are_refused() -> None:
    own, others = tables(noise(1))
    with pytest.raises(DataError, match="decoys were not asked about at its own years"):
        decoy_metrics(own, others.filter(pl.col("time") != "1994"))
    with pytest.raises(DataError, match="give the scores and the decoys of one run"):
        decoy_metrics(own, others.filter((pl.col("granularity") == "year") | (pl.col("decoy") != "d")))


def test_years_before_the_common_era_stand_in_order() -> None:
    own, others = tables(lambda fact, name, level, year: year, levels=("year",))
    signs = {str(year): f"-0{2980 - year}" for year in YEARS[:-3]}  # the last three stay in the common era
    own, others = (table.with_columns(pl.col("time").replace(signs)) for table in (own, others))
    assert later_wins(others)["later"].item() == 1.0
    (one,) = beside_decoys(check_scores(own), others)
    assert one.times["year"] == [*signs.values(), *map(str, YEARS[-3:])]
    assert one.shape[2] == pytest.approx(2 * 5 / 11)  # 2001 to 2005 of the eleven incorrect ones


@pytest.mark.full
def test_a_run_with_decoys_has_its_tables_and_one_without_says_so(tmp_path) -> None:
    data = anachron.with_decoys(anachron.load_dataset("mini", limit=2), 2)
    run = anachron.run_probe("demo-untrained", data, tmp_path / "run")
    written = write_metrics([tmp_path / "run"], tmp_path / "tables", resamples=100)
    assert written.tables["decoy_facts"].height == 8 == written.tables["facts"].height
    assert run.decoys.height == 2 * run.scores.filter(pl.col("status").is_in(["correct", "incorrect"])).height
    again = anachron.run_probe("demo-untrained", data, tmp_path / "run")
    assert again.decoys.equals(run.decoys) and again.scores.equals(run.scores)
    alone = anachron.run_probe("demo-untrained", anachron.load_dataset("mini", limit=2), tmp_path / "alone")
    assert alone.decoys is None
    both = run.scores.join(alone.scores, on=["fact_id", "granularity", "time"], nulls_equal=True)
    assert (both["logp"] - both["logp_right"]).abs().max() < 1e-4  # other batches
    without = write_metrics([tmp_path / "alone"], tmp_path / "alone-tables", resamples=100)
    assert "decoys" not in without.tables and "no run has decoys" in str(without.notes) + str(without.left_out)


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 3), st.integers(20, 60), st.integers(0, 2)), min_size=1, max_size=12
    )
)
def test_a_fact_is_ranked_among_the_decoys_of_the_facts_most_like_it(facts) -> None:
    """By lists: whole facts in order of likeness, equally alike ones together, until there are a hundred decoys."""
    own = [value / 9 for value, *_ in facts]
    shapes = [(float(shape), 0.0, 0.0) for _, shape, _, _ in facts]
    decoys = [[(n + shift) % 10 / 9 for n in range(number)] for _, _, number, shift in facts]
    wanted = []
    for value, shape in zip(own, shapes, strict=True):
        among: list[float] = []
        for distance in range(4):
            if len(among) < 100:
                alike = [i for i, other in enumerate(shapes) if abs(other[0] - shape[0]) == distance]
                among += [share for i in alike for share in decoys[i]]
        wanted.append((1 + sum(share >= value - 1e-9 for share in among)) / (1 + len(among)))
    assert chances_among_alike(own, decoys, shapes).tolist() == pytest.approx(wanted)
