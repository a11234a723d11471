"""Unusual studies that a reviewer once got wrong numbers or crashes from."""

import numpy as np
import polars as pl
import pytest

from anachron.errors import DataError
from anachron.probe.catalogue import make_tables
from anachron.probe.metrics import fact_metrics
from anachron.probe.statistics import pearson
from anachron.probe.study import make_study
from anachron.report.outputs import study_notes
from studies import RUNS, synthetic_models, synthetic_scores

RAW = tuple(run for run in RUNS if run[1:3] == ("raw", "none"))


@pytest.fixture(scope="module")
def scores():
    return synthetic_scores(20, seed=1, runs=RAW)


def tables_of(scores, **options):
    return make_tables(make_study([scores], models=synthetic_models(), resamples=100, **options))


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
    made, _ = make_tables(study)
    assert made["overlap"].select("robust_any", "jaccard").rows() == [
        (0, None)
    ]  # no fact in common, so nothing is said
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


def test_incorrect_dates_that_are_all_beyond_five_periods(scores):
    far = scores.with_columns(
        pl.when(pl.col("status") == "incorrect").then(pl.col("alpha").sign() * 7).otherwise("alpha").alias("alpha")
    )
    assert "agreement" in tables_of(far)[1]


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


def test_years_that_are_no_years_leave_out_what_needs_them(scores):
    odd = scores.with_columns(
        pl.when(pl.col("granularity") == "year").then("y" + pl.col("time")).otherwise("time").alias("time")
    )
    made, left_out = tables_of(odd)
    assert {"years", "timelines", "believed", "believed_summary"} <= set(left_out) and "is no year" in left_out["years"]
    assert made["summary"].equals(tables_of(scores)[0]["summary"])


def test_common_facts_are_enough_to_agree_on(scores):
    first, second = (scores.filter(pl.col("model") == m) for m in ("fir-1b", "fir-7b"))
    other = pl.col("fact_id") == "fact0002"
    second = second.filter(~(other & (pl.col("status") == "incorrect"))).with_columns(
        pl.when(other).then(pl.lit("1500")).otherwise("start").alias("start")
    )
    study = make_study([first, second], sharing="common", resamples=100)
    assert study.about.height == 19


def test_years_alone_are_compared_and_pooled(scores):
    made, left_out = tables_of(scores.filter(pl.col("granularity") == "year"))
    assert set(made["comparison"]["granularity"]) == {"year"} and "overlap" in left_out
    assert "pooled" in made["far_errors"]["model"]
    two, _ = tables_of(scores.filter(pl.col("granularity") != "month"))
    assert set(two["transfer"].filter(pl.col("rate").is_not_null()).select("a", "b").rows()) <= {
        (a, b) for a in ("year", "day") for b in ("year", "day")
    }
    assert "pooled" in two["transfer"]["model"]
