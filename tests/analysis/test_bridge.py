"""W by log-probabilities against answers: tables against plain loops over rows, closed forms, and SciPy."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import linregress, pearsonr

from anachron.analysis.analyses.bridge import bridge, bridge_facts, conversion, fit_line, left_out_errors
from anachron.analysis.answers import Answers, answers_of
from anachron.analysis.catalogue import make_tables
from anachron.analysis.statistics import bootstrap_pearson
from anachron.analysis.study import Study, make_study
from anachron.core.errors import ConfigError
from anachron.probe.ask.tables import FACT_SCHEMA
from support.synthetic_studies import RUNS, synthetic_scores

SHARES = [0.0, 0.25, 0.5, 0.75, 1.0]
OUTCOMES = ("right", "other period", "somebody else")


def summary(**known: object) -> dict:
    return {"open": dict.fromkeys(OUTCOMES, 0), "facts": 1, "facts_with_choices": 1, **known}


def asked_rows(study: Study, model: str, choice, opened, **known) -> pl.DataFrame:
    """What a run that asked says of the facts of a study. choice, opened: from W by log-probabilities by year."""
    years = study.facts.filter(pl.col("model") == model, pl.col("granularity") == "year", pl.col("format") == "raw")
    rows = []
    for number, row in enumerate(years.iter_rows(named=True)):
        right = opened(row["win_rate"], number)
        named = {} if right is None else {"open_right": right, "open_other_period": 2 - right, "open_somebody_else": 1}
        rows.append(
            {"fact_id": row["fact_id"], "win_rate": choice(row["win_rate"], number), "matches_of": row["matches"]}
            | named | known
        )  # fmt: skip
    return pl.DataFrame(rows, schema={name: FACT_SCHEMA[name] for name in FACT_SCHEMA})


@pytest.fixture(scope="module")
def scored() -> Study:
    return make_study([synthetic_scores(12, seed=5, runs=[run for run in RUNS if run[2] == "none"])], resamples=100)


def with_answers(scored: Study, *runs) -> Study:
    answers = answers_of((model, "chat", summary(), facts) for model, facts in runs)
    return replace(scored, answers=answers)


def some_study(scored: Study) -> Study:
    """Three models whose answers differ from W in their own ways; of one fact nothing was read, of another other
    years were asked about, a third has no name in its answers."""
    random = np.random.default_rng(0)
    runs = []
    for model, gain in (("fir-1b", 0.5), ("fir-7b", 0.8), ("oak-3b", 0.2)):
        facts = asked_rows(
            scored, model,
            lambda w, n, g=gain: None if n == 3 else float(np.clip(g * w + random.normal(0.1, 0.1), 0, 1)),
            lambda w, n: None if n == 5 else int(random.integers(0, 3)),
        )  # fmt: skip
        runs.append((model, facts.with_columns(pl.col("matches_of") + (pl.int_range(pl.len()) == 7))))
    return with_answers(scored, *runs)


def test_facts_of_both_stand_side_by_side(scored: Study):
    study = some_study(scored)
    found = bridge_facts(study)
    years = {
        (row["model"], row["format"], row["fact_id"]): row
        for row in scored.facts.filter(pl.col("granularity") == "year").iter_rows(named=True)
    }
    expected = {}
    for row in study.answers.facts.iter_rows(named=True):
        for form in ("raw", "chat"):
            year = years.get((row["model"], form, row["fact_id"]))
            if year is None or year["matches"] != row["matches_of"]:
                continue
            named = None if row["open_right"] is None else row["open_right"] / 3
            expected[row["model"], form, row["fact_id"]] = (year["win_rate"], row["win_rate"], named)
    rows = {
        (row["model"], row["format"], row["fact_id"]): (row["win_rate"], row["choice"], row["open"])
        for row in found.iter_rows(named=True)
    }
    assert rows == expected and len(rows) == 3 * 11
    assert found["subject_label"].null_count() == 0


def test_correlation_and_bias_are_those_of_numpy_and_scipy(scored: Study):
    facts = bridge_facts(some_study(scored))
    table = bridge(facts, resamples=100)
    assert table.height == 2 * 4 and set(table["models"]) == {1, 3}
    for row in table.iter_rows(named=True):
        own = facts if row["model"] == "pooled" else facts.filter(model=row["model"])
        own = own.drop_nulls(row["asked"])
        x, y = own[row["asked"]].to_numpy(), own["win_rate"].to_numpy()
        assert row["facts"] == len(x) and row["value"] == pytest.approx(np.mean(x))
        assert row["bias"] == pytest.approx(np.mean(x) - np.mean(y)) and row["win_rate"] == pytest.approx(np.mean(y))
        assert row["correlation"] == pytest.approx(pearsonr(x, y).statistic)
        assert row["correlation_low"] <= row["correlation"] <= row["correlation_high"]
        assert row["bias_low"] <= row["bias"] <= row["bias_high"]


def test_the_interval_of_r_is_that_of_resampling_row_by_row():
    random = np.random.default_rng(3)
    x = random.normal(size=12)
    y = x + random.normal(size=12)
    ids = np.repeat(np.arange(6), 2)
    found = bootstrap_pearson(x, y, ids, resamples=400, seed=7)
    draws = np.random.Generator(np.random.PCG64(7)).integers(0, 6, (400, 6))
    rs = []
    for drawn in draws:
        places = np.concatenate([np.flatnonzero(ids == one) for one in drawn])
        rs.append(np.corrcoef(x[places], y[places])[0, 1])
    assert found == pytest.approx(tuple(np.quantile(rs, [0.025, 0.975])))
    near = bootstrap_pearson(1e6 + x, 5 * y - 1e6, ids, resamples=400, seed=7)
    assert near == pytest.approx(found, abs=1e-6)


def test_r_of_what_never_varies_is_not_known():
    assert np.isnan(bootstrap_pearson([1, 1, 1], [1, 2, 3], [0, 1, 2])).all()
    assert np.isnan(bootstrap_pearson([], [], [])).all()


@pytest.mark.full
def test_the_interval_of_r_covers():
    """300 samples of 60 pairs from a normal distribution with r = 0.6."""
    random, covered = np.random.default_rng(0), 0
    for _ in range(300):
        x = random.normal(size=60)
        low, high = bootstrap_pearson(x, 0.6 * x + 0.8 * random.normal(size=60), np.arange(60))
        covered += low <= 0.6 <= high
    assert 0.90 <= covered / 300 <= 0.98


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=20))
def test_the_line_is_that_of_scipy(points: list[tuple[float, float]]):
    x, y = map(np.array, zip(*points, strict=True))
    line = fit_line(x, y)
    if np.ptp(x) > 1e-3:
        expected = linregress(x, y)
        assert (line.start, line.slope) == pytest.approx((expected.intercept, expected.slope), abs=1e-6)
    elif not np.ptp(x):
        assert line.at(x) == pytest.approx(y.mean())


@pytest.mark.parametrize("sizes", [(1, 1, 1), (1, 1, 1, 1), (5, 3, 8), (4, 4)])
def test_each_model_is_told_from_the_others_alone(sizes: tuple[int, ...]):
    random = np.random.default_rng(sum(sizes))
    models = [(random.random(n), random.random(n)) for n in sizes]
    expected = []
    for place, (asked, true) in enumerate(models):
        xs = np.concatenate([x for other, (x, _) in enumerate(models) if other != place])
        ys = np.concatenate([y for other, (_, y) in enumerate(models) if other != place])
        slope, start = np.polyfit(xs, ys, 1) if len(xs) > 1 else (0, ys[0])
        expected += [start + slope * x - y for x, y in zip(asked, true, strict=True)]
    assert left_out_errors(models) == pytest.approx(np.array(expected))


def facts_of(models: dict[str, list[tuple[float, float]]]) -> pl.DataFrame:
    """A table of `bridge_facts` from (asked, W) pairs."""
    rows = [
        {"model": name, "asked_by": "chat", "format": "raw", "prefix": "none", "fact_id": f"f{i}", "choice": x}
        | {"win_rate": y, "open": None}
        for name, pairs in models.items()
        for i, (x, y) in enumerate(pairs)
    ]
    return pl.DataFrame(rows, schema_overrides={"open": pl.Float64})


def rows_of(models: dict[str, list[tuple[float, float]]]) -> dict[str, dict]:
    return {row["level"]: row for row in conversion(facts_of(models)).iter_rows(named=True)}


def test_a_straight_line_converts_without_error():
    models = {f"m{n}": [(x / 4 + n / 20, 0.2 + 0.6 * (x / 4 + n / 20)) for x in range(4)] for n in range(4)}
    for row in rows_of(models).values():
        assert row["converts"] and row["error"] == pytest.approx(0, abs=1e-12)
        assert (row["start"], row["slope"]) == pytest.approx((0.2, 0.6))
        assert "0.200 +0.600 × W by choice" in row["words"]


@given(st.lists(st.floats(0, 1), min_size=3, max_size=12, unique=True), st.floats(0, 1))
def test_who_tells_all_models_the_same_is_refused(means: list[float], constant: float):
    """The answers of all are alike; then the mean of the others is all there is, n / (n - 1) deviations off."""
    row = rows_of({f"m{i}": [(constant, w)] for i, w in enumerate(means)})["model"]
    count = len(means)
    assert row["error"] == pytest.approx(np.std(means) * count / (count - 1), abs=1e-9)
    assert row["differences"] == pytest.approx(np.std(means), abs=1e-12)
    assert not row["converts"] and row["start"] is None and "is not converted" in row["words"]


def test_errors_as_large_as_the_differences_are_refused_in_words():
    models = {"a": [(0.9, 0.50)], "b": [(0.1, 0.55)], "c": [(0.5, 0.60)], "d": [(0.2, 0.45)]}
    row = rows_of(models)["model"]
    assert row["error"] > row["differences"] and not row["converts"]
    assert f"{100 * row['error']:.1f} points off" in row["words"]
    assert f"models lie {100 * row['differences']:.1f} points apart" in row["words"]


def test_too_few_models_are_refused():
    rows = rows_of({"a": [(0.1, 0.2), (0.3, 0.4)]})
    assert "takes at least 2 models with both; found 1 model" in rows["fact"]["words"]
    assert "takes at least 3 models with both; found 1 model" in rows["model"]["words"]
    assert not rows["fact"]["converts"] and rows["fact"]["error"] is None
    two = rows_of({"a": [(0.1, 0.2), (0.3, 0.4)], "b": [(0.1, 0.2), (0.3, 0.4)]})
    assert two["fact"]["converts"] and not two["model"]["converts"]


@pytest.mark.full
def test_what_cannot_be_bridged_is_said(scored: Study):
    def reason(*runs) -> str:
        return make_tables(with_answers(scored, *runs))[1]["bridge"]

    facts = asked_rows(scored, "fir-1b", lambda w, n: w, lambda w, n: 1)
    assert "no model was both asked (gpt) and scored (fir-1b" in reason(("gpt", facts))
    assert "no fact was both" in reason(("fir-1b", facts.with_columns(pl.lit("elsewhere").alias("fact_id"))))
    assert "other years than were scored" in reason(("fir-1b", facts.with_columns(pl.col("matches_of") + 1)))
    with pytest.raises(ConfigError, match="both called 'fir-1b', asked by chat"):
        with_answers(scored, ("fir-1b", facts), ("fir-1b", facts))


def test_answers_alone_are_a_study(scored: Study):
    facts = asked_rows(scored, "fir-1b", lambda w, n: w, lambda w, n: 1)
    answers = answers_of([("gpt", "chat", summary(calls=7), facts)])
    assert isinstance(answers, Answers)
    made, left_out = make_tables(make_study([], answers=answers))
    assert set(made) == {"asked", "asked_facts"} and set(left_out) == {"bridge_facts", "bridge", "conversion"}
    assert made["asked"]["calls"].to_list() == [7] and made["asked_facts"].height == facts.height
