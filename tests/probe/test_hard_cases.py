"""Unusual studies that a reviewer once got wrong numbers or crashes from."""

import numpy as np
import polars as pl
import pytest

from anachron.analysis.analyses.sizes import size_to_perfection
from anachron.analysis.catalogue import make_tables
from anachron.analysis.metrics import check_scores, fact_metrics
from anachron.analysis.statistics import pearson
from anachron.analysis.study import make_study
from anachron.core.errors import DataError
from anachron.report.outputs import study_notes
from support.synthetic_studies import RUNS, synthetic_models, synthetic_scores

RAW = tuple(run for run in RUNS if run[1:3] == ("raw", "none"))


@pytest.fixture(scope="module")
def scores():
    return synthetic_scores(20, seed=1, runs=RAW)


def tables_of(scores, **options):
    return make_tables(make_study([scores], models=synthetic_models(), resamples=100, **options))


@pytest.mark.full
def test_runs_with_a_prefix_change_nothing_of_those_without(scores):
    best = scores.filter(pl.col("model") == "fir-7b-it")
    more = pl.concat([scores, *(best.with_columns(pl.lit(p).alias("prefix")) for p in ("hierarchy", "transfer"))])
    before, after = tables_of(scores)[0], tables_of(more)[0]
    for name in ("relations", "correlations", "factor_bins"):
        assert before[name].equals(after[name])


def test_clustered_p_says_nothing_where_there_is_nothing():
    x, y = np.repeat([1.0, 2.0], 8), np.tile([0.0, 1.0, 1.0, 0.0], 4)
    assert np.isnan(pearson(x, y, x).p_clustered)  # two facts, and scores that cancel in each
    x, y = np.repeat(np.arange(12.0), 2), np.tile([0.0, 1.0], 12)
    assert np.isnan(pearson(x, y, x).p_clustered)
    assert pearson(x, 3 * x, x).p_clustered == 0


@pytest.mark.full
def test_missing_popularity_may_be_written_as_pandas_writes_it(scores):
    nulls = tables_of(scores)[0]["correlations"]
    nan = tables_of(scores.with_columns(pl.col("popularity").fill_null(float("nan"))))[0]["correlations"]
    text = tables_of(scores.with_columns(pl.col("popularity").cast(pl.String).fill_null("")))[0]["correlations"]
    assert nulls.equals(nan) and nulls.equals(text)


@pytest.mark.parametrize("value", [float("inf"), "1,234", "many"])
def test_a_popularity_that_is_no_number_is_named(scores, value):
    kind = pl.String if isinstance(value, str) else pl.Float64
    broken = scores.with_columns(
        pl.when(pl.int_range(pl.len()) == 4).then(pl.lit(value, kind)).otherwise(pl.col("popularity").cast(kind))
        .alias("popularity")
    )  # fmt: skip
    with pytest.raises(DataError, match=r"row 5: popularity .* is not a finite number"):
        make_study([broken])


def test_one_table_of_runs_that_were_asked_other_facts_says_so(scores):
    half = pl.col("fact_id") < "fact0010"
    apart = scores.filter(((pl.col("model") == "fir-1b") & half) | ((pl.col("model") == "fir-7b") & ~half))
    study = make_study([apart], resamples=100)
    assert any("not all asked the same contexts" in note for note in study_notes(study))
    _, left_out = make_tables(study)
    assert left_out["overlap"] == "no two models have a fact in common"
    assert not any("not all asked" in note for note in study_notes(make_study([scores], resamples=100)))


def test_a_run_has_one_noise(scores):
    two = scores.with_columns(pl.when(pl.int_range(pl.len()) % 2 == 0).then(0.1).otherwise(0.2).alias("noise"))
    with pytest.raises(DataError, match="fir-1b, raw, prefix none has 2 values of noise; a run has one"):
        fact_metrics(two)


def test_no_model_is_called_like_all_of_them(scores):
    with pytest.raises(DataError, match="row 1: model 'pooled' is the name of all models together"):
        fact_metrics(scores.with_columns(pl.lit("pooled").alias("model")))


def test_labels_of_facts_without_a_global_row_alone(scores):
    lonely = pl.col("fact_id") == "fact0003"
    label = pl.when(lonely).then("relation_label").alias("relation_label")
    dates = [pl.when(lonely).then(name).alias(name) for name in ("start", "end", "popularity", "other_objects")]
    cut = scores.filter(~(lonely & (pl.col("granularity") == "day"))).with_columns(label, *dates)
    made, left_out = tables_of(cut)
    assert {"relations", "correlations", "factor_bins"} <= set(left_out) and "summary" in made


@pytest.mark.full
def test_incorrect_dates_that_are_all_beyond_five_periods(scores):
    far = scores.with_columns(
        pl.when(pl.col("status") == "incorrect").then(pl.col("alpha").sign() * 7).otherwise("alpha").alias("alpha")
    )
    assert "agreement" in tables_of(far)[1]


@pytest.mark.full
def test_a_baseline_is_found_in_each_format(scores):
    chat = synthetic_scores(20, seed=1, runs=(("fir-1b", "raw", "none", 0.5), *RUNS[2:3], *RUNS[6:7]))
    made, _ = tables_of(chat)
    assert set(made["comparison"].select("against_model", "model", "format").rows()) == {
        ("fir-1b-it", "fir-7b-it", "chat")
    }
    _, left_out = tables_of(chat, baseline="fir-1b")
    assert left_out["comparison"] == "the baseline fir-1b has no run in the format and prefix of another model"


def test_an_end_before_its_start_is_named(scores):
    with pytest.raises(DataError, match=r"fact fact0000: the end 1700 lies before the start"):
        make_study([scores.filter(pl.col("fact_id") == "fact0000").with_columns(
            pl.lit("1990").alias("start"), pl.lit("1700").alias("end")
        )])  # fmt: skip


@pytest.mark.full
def test_years_that_are_no_years_leave_out_what_needs_them(scores):
    odd = scores.with_columns(
        pl.when(pl.col("granularity") == "year").then("y" + pl.col("time")).otherwise("time").alias("time")
    )
    made, left_out = tables_of(odd)
    assert {"years", "timelines", "believed", "believed_summary"} <= set(left_out) and "is not a year" in left_out[
        "years"
    ]
    assert made["summary"].equals(tables_of(scores)[0]["summary"])


def test_common_facts_are_enough_to_agree_on(scores):
    first, second = (scores.filter(pl.col("model") == m) for m in ("fir-1b", "fir-7b"))
    other = pl.col("fact_id") == "fact0002"
    second = second.filter(~(other & (pl.col("status") == "incorrect"))).with_columns(
        pl.when(other).then(pl.lit("1500")).otherwise("start").alias("start")
    )
    study = make_study([first, second], sharing="common", resamples=100)
    assert study.about.height == 19


@pytest.mark.full
def test_years_alone_are_compared_and_pooled(scores):
    made, left_out = tables_of(scores.filter(pl.col("granularity") == "year"))
    assert set(made["comparison"]["granularity"]) == {"year"} and "overlap" in left_out
    assert "pooled" in made["far_errors"]["model"]
    two, _ = tables_of(scores.filter(pl.col("granularity") != "month"))
    assert set(two["transfer"].filter(pl.col("rate").is_not_null()).select("a", "b").rows()) <= {
        (a, b) for a in ("year", "day") for b in ("year", "day")
    }
    assert "pooled" in two["transfer"]["model"]


def fact(name, model, scores, prefix="none", form="raw", **about):
    """Rows of one fact at all granularities: one correct date and incorrect ones, each with its (time, alpha, logp)."""
    keys = {"model": model, "format": form, "prefix": prefix, "fact_id": name, **about}
    return [
        keys | {"granularity": g, "time": f"{year}{tail}", "alpha": alpha, "logp": logp,
                "status": "correct" if abs(alpha) < 0.5 else "incorrect"}
        for g, tail in (("year", ""), ("month", "-03"), ("day", "-03-04")) for year, alpha, logp in scores
    ]  # fmt: skip


WON = [(2000, 0.0, -1.0), (2010, 1.5, -2.0)]
LOST = [(2000, 0.0, -3.0), (2010, 1.5, -2.0)]


def test_with_a_prefix_the_models_that_are_pooled_are_those_without_it():
    rows = [*fact("f", "a", WON), *fact("f", "b", LOST)]
    rows += [*fact("f", "a", LOST, "p"), *fact("f", "b", WON, "p")]  # the prefix helps b alone
    study = make_study([pl.DataFrame(rows)], resamples=100, top=1)
    assert study.most_robust.rows() == [("a", "raw", "none"), ("a", "raw", "p")]
    only = make_study([pl.DataFrame(rows).filter(pl.col("prefix") == "p")], resamples=100, top=1)
    assert only.most_robust.rows() == [("b", "raw", "p")]


def test_a_format_without_global_rows_has_its_own_most_robust():
    years = [row for row in fact("f", "a", WON, form="chat") if row["granularity"] == "year"]
    study = make_study([pl.DataFrame([*fact("f", "a", WON), *years])], resamples=100)
    assert study.most_robust.rows() == [("a", "raw", "none"), ("a", "chat", "none")]


def test_the_order_of_granularities_wins_and_loses_nothing():
    """Base and instruct have the same three win rates, at other granularities: a tie (TimeStress v1, figure 9)."""
    rows = []
    for n in range(30):
        shares = [(n * k % 7 + 1) / 10 for k in (1, 2, 3)]
        for model, turn in (("x-base", 0), ("x-it", 1)):
            for place, granularity in enumerate(("year", "month", "day")):
                won = round(10 * shares[(place + turn) % 3])
                logps = [-2.0 if i < won else 0.0 for i in range(10)]
                own = [(2000, 0.0, -1.0), *((2010 + i, 1.5 + i, logp) for i, logp in enumerate(logps))]
                rows += [row for row in fact(f"f{n}", model, own) if row["granularity"] == granularity]
    made, _ = make_tables(make_study([pl.DataFrame(rows)], resamples=100))
    found = made["base_and_instruct"].filter(pl.col("score") == "win_rate").select("win", "tie", "loss")
    assert found.rows() == [(0, 30, 0)]


def test_no_growth_has_no_size_of_perfection():
    table = pl.DataFrame({"family": ["fir"] * 3, "instruct": [False] * 3, "format": ["raw"] * 3, "prefix": ["none"] * 3,
                          "parameters": [1e9, 2e9, 7e9], "robustness": [0.1 + 0.2, 0.3, 0.3]})  # fmt: skip
    assert size_to_perfection(table)["parameters_at_1"].to_list() == [None]


def test_a_prior_is_there_once_and_dates_are_spelt_in_one_way():
    prior = {"granularity": "year", "alpha": None, "logp": -3.0, "status": "none"}
    base = fact("f", "a", WON)
    keys = {k: base[0][k] for k in ("model", "format", "prefix", "fact_id")}
    with pytest.raises(DataError, match="the same as row"):
        check_scores(pl.DataFrame([*base, *(keys | prior | {"time": time} for time in (None, "x"))]))
    with pytest.raises(DataError, match="the same as row"):
        check_scores(pl.DataFrame([*base, base[0] | {"time": "02000"}]))
    for time in (None, " "):
        with pytest.raises(DataError, match=f"row 7: time {time!r} is empty"):
            check_scores(pl.DataFrame([*base, base[0] | {"time": time}]))
    assert check_scores(pl.DataFrame([base[0] | {"time": "-044"}]))["time"].to_list() == ["-0044"]


@pytest.mark.parametrize(("granularity", "time"), [("year", "0000"), ("year", "2001-05"), ("month", "1985-99")])
def test_a_broken_date_leaves_out_only_what_needs_it(granularity, time):
    rows = [*fact("f", "a", LOST, subject_from="1950", start="1999", end="2001"), *fact("g", "a", WON)]
    rows.append(rows[0] | {"granularity": granularity, "time": time, "alpha": 4.0, "status": "incorrect"})
    made, left_out = make_tables(make_study([pl.DataFrame(rows, infer_schema_length=None)], resamples=100))
    assert {"summary", "alpha", "far_errors"} <= set(made)
    assert time in left_out["anachronisms"] and time in left_out["anachronism_summary"]
    assert ("believed" in left_out) == (granularity == "year")


def test_runs_without_a_fact_in_common_leave_out_what_compares_them():
    rows = [*fact("f", "a", WON), *fact("g", "a", WON, form="chat"), *fact("h", "a", WON, "p"), *fact("k", "b", WON)]
    made, left_out = make_tables(make_study([pl.DataFrame(rows)], resamples=100))
    assert left_out["formats"] == "no fact has scores both raw and in chat"
    assert left_out["prefixes"] == "no fact has scores both with a prefix and without"
    assert left_out["comparison"] == "no model has a fact in common with the baseline"
    assert {"overlap", "shared_knowledge", "granularity_variance"} <= set(left_out)
    assert all(table.height for table in made.values())


def test_agreement_needs_a_date_within_five_periods():
    rows = fact("f", "a", [(2000, 0.0, -1.0), (1900, -5.0, -2.0)])
    _, left_out = make_tables(make_study([pl.DataFrame(rows)], resamples=100))
    assert left_out["agreement"] == "no date of a known fact lies within five periods of it"


def test_intervals_of_a_run_do_not_depend_on_the_runs_beside_it(scores):
    one, other = (scores.filter(pl.col("model") == m) for m in ("fir-7b", "oak-3b"))
    alone = make_tables(make_study([one], resamples=100))[0]["alpha"]
    beside = make_tables(make_study([other.reverse(), one], resamples=100))[0]["alpha"]
    own = pl.col("model") == "fir-7b"
    assert alone.filter(own).equals(beside.filter(own))


def test_relations_of_one_label_are_told_apart_by_their_ids():
    rows = [
        *fact("f", "a", WON, relation_id="P1", relation_label="part of"),
        *fact("g", "a", LOST, relation_id="P2", relation_label="part of"),
    ]
    made, _ = make_tables(make_study([pl.DataFrame(rows)], resamples=100))
    assert made["relations"].select("relation", "robustness").rows() == [("part of (P1)", 1.0), ("part of (P2)", 0.0)]
    assert dict(made["dataset"].rows())["relations"] == 2


@pytest.mark.full
def test_matches_a_fact_are_counted(scores):
    dataset = dict(tables_of(scores)[0]["dataset"].rows())
    own = fact_metrics(scores).filter((pl.col("model") == "fir-7b") & (pl.col("granularity") == "month"))
    assert dataset["month matches a fact"] == pytest.approx(own["matches"].sum() / dataset["facts"])


def test_common_facts_say_what_they_left_and_take_the_first_number():
    one = pl.DataFrame([*fact("f", "a", WON, popularity=5.0), *fact("g", "a", WON, popularity=7.0)])
    two = pl.DataFrame(fact("f", "b", WON, popularity=6.0))
    with pytest.raises(DataError, match="more than one popularity"):
        make_study([one, two], resamples=100)
    notes = study_notes(make_study([one, two], sharing="common", resamples=100))
    assert "compared on 1 of 2 facts: those that every run was asked about in the same contexts" in notes
    assert "popularity of 1 facts differs between the sources; the first one is used" in notes
