"""Putting runs together: what is shared, what contradicts, what is known of facts and models."""

import polars as pl
import pytest

from anachron.analysis.metrics import fact_metrics
from anachron.analysis.models import MODEL_SCHEMA, describe_models, merge_models, read_models, recorded_models
from anachron.analysis.study import make_study
from anachron.core.errors import ConfigError, DataError
from support.synthetic_studies import RUNS, about_facts, synthetic_models, synthetic_scores, synthetic_study

TWO = (("a", "raw", "none", 1.0), ("b", "raw", "none", 0.5))


@pytest.fixture(scope="module")
def scores():
    return synthetic_scores(8, runs=TWO)


def parts(scores):
    return [scores.filter(pl.col("model") == name) for name in "ab"]


def test_every_run_is_a_table_of_its_own(scores):
    study = make_study([scores], resamples=100)
    assert [(r["model"][0], r["format"][0], r["prefix"][0]) for r in study.runs] == [k[:3] for k in TWO]
    assert sum(run.height for run in study.runs) == scores.height
    columns = ["model", "fact_id", "granularity"]
    found = study.facts.sort(columns)
    assert found.equals(fact_metrics(scores).sort(columns))


def test_one_table_or_two_are_the_same_study(scores):
    one, two = make_study([scores], resamples=100), make_study(parts(scores), resamples=100)
    assert one.facts.equals(two.facts) and one.about.equals(two.about)


def test_what_is_known_of_a_fact_is_one_row(scores):
    first, second = parts(scores)
    study = make_study([first.drop("popularity", "start"), second.drop("object_label")], resamples=100)
    given = {f["fact_id"]: f for f in about_facts(8)}
    assert study.about.height == 8
    for row in study.about.iter_rows(named=True):
        fact = given[row["fact_id"]]
        assert {k: row[k] for k in ("start", "end", "popularity", "object_label", "relation_id")} == {
            k: fact[k] for k in ("start", "end", "popularity", "object_label", "relation_id")
        }
    assert study.about["subject_popularity"].null_count() == 8


def test_numbers_of_a_csv_are_read(scores, tmp_path):
    scores.write_csv(tmp_path / "s.csv")
    study = make_study([pl.read_csv(tmp_path / "s.csv", infer_schema=False)], resamples=100)
    assert study.about["popularity"].to_list() == make_study([scores], resamples=100).about["popularity"].to_list()


def test_contradictions_are_refused(scores):
    first, second = parts(scores)
    changed = second.with_columns(pl.lit("1999").alias("end"))
    with pytest.raises(DataError, match=r"fact fact000\d has more than one end: .*'1999'.*different data sets"):
        make_study([first, changed])


def test_runs_of_other_contexts_are_refused_or_cut_to_what_they_share(scores):
    first, second = parts(scores)
    fewer = second.filter(pl.col("fact_id") != "fact0003")
    moved = second.with_columns(
        pl.when((pl.col("fact_id") == "fact0005") & (pl.col("status") == "incorrect"))
        .then(pl.lit("transitional")).otherwise("status").alias("status")
    )  # fmt: skip
    for other, lost in ((fewer, {"fact0003"}), (moved, {"fact0005"})):
        with pytest.raises(ConfigError, match=r"do not share their data set: of 8 facts, only 7 .*--common-facts"):
            make_study([first, other], sharing="refuse")
        common = make_study([first, other], sharing="common", resamples=100)
        for run in common.runs:
            assert {f["fact_id"] for f in about_facts(8)} - set(run["fact_id"]) == lost
        assert common.about.height == 7
        assert {run["fact_id"].n_unique() for run in make_study([first, other]).runs} >= {8}
    with pytest.raises(ConfigError, match="no fact in common"):
        make_study([first, second.with_columns(pl.col("fact_id") + "x")], sharing="common")
    assert make_study([first, second.sample(fraction=1, shuffle=True, seed=0)], sharing="refuse").runs


def test_an_unknown_baseline_is_refused(scores):
    with pytest.raises(ConfigError, match="baseline 'c' is not one of the models a, b"):
        make_study([scores], baseline="c")
    assert make_study([scores], baseline="b", resamples=100).baseline == "b"


def test_nothing_is_no_study():
    with pytest.raises(DataError, match="no score table"):
        make_study([])


def test_top_is_counted_within_a_format_and_prefix():
    study = synthetic_study(12, top=2)
    counts = study.most_robust.group_by("format", "prefix").len()
    assert dict(zip(counts.select("format", "prefix").rows(), counts["len"], strict=True)) == {
        ("raw", "none"): 2, ("chat", "none"): 2, ("raw", "hierarchy"): 1,
    }  # fmt: skip


# Models


def test_instruct_models_find_their_base_by_name():
    names = {
        "gemma-2-27b-it": "gemma-2-27b", "Llama-3.1-70B-Instruct": "Llama-3.1-70B",
        "Mistral-7B-Instruct-v0.3": "Mistral-7B-v0.3", "Mistral-Nemo-Instruct-2407": "Mistral-Nemo-Base-2407",
        "OpenELM-3B-Instruct": "OpenELM-3B", "apple/OpenELM-1_1B-Instruct": "apple/OpenELM-1_1B",
        "Phi-3-Instruct, bfloat16": "Phi-3, bfloat16",
    }  # fmt: skip
    table = describe_models([*names, *names.values(), "gpt2"])
    for row in table.iter_rows(named=True):
        assert row["instruct"] == (row["model"] in names)
        assert row["base"] == names.get(row["model"])


def test_a_base_that_is_not_here_or_not_the_only_one_is_not_guessed():
    assert describe_models(["gemma-2-9b-it", "gemma-2-2b"])["base"].to_list() == [None, None]
    assert describe_models(["x-it", "x", "x-base"])["base"].to_list() == [None, None, None]


def test_the_users_table_overrides_names_and_records(tmp_path):
    records = [("m-it", {"model": {"family": "llama", "parameters": 7}}), ("n", {})]
    (tmp_path / "models.csv").write_text("model,parameters,instruct,base,family\nm-it,8e9,no,,\nn,,,m-it,oak\n")
    known = merge_models(recorded_models(records), read_models(tmp_path / "models.csv"))
    assert describe_models(["m-it", "n"], known).rows() == [
        ("m-it", "llama", 8e9, False, None), ("n", "oak", None, False, "m-it"),
    ]  # fmt: skip
    assert describe_models(["n"], synthetic_models()).schema == MODEL_SCHEMA


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,family\nx,y\n", "columns name, family; use model and any of"),
        ("model,size\nx,1\n", "columns model, size"),
        ("model,parameters\nx,many\n", "row 1: parameters 'many'; write how many"),
        ("model,parameters\nx,-3\n", "row 1: parameters '-3'"),
        ("model,instruct\nx,maybe\n", "row 1: instruct 'maybe'; write true or false"),
        ("model,family\nx,y\nx,z\n", "a model is listed twice"),
        ("model,family\n,y\n", "row 1: model is empty"),
    ],
)
def test_a_bad_table_of_models_is_refused(tmp_path, text, message):
    (tmp_path / "models.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        read_models(tmp_path / "models.csv")


def test_what_analyses_share_is_computed_once_a_study():
    calls = []

    def rows_of(study):
        calls.append(study)
        return study.facts.height

    one, two = (synthetic_study(2, seed=seed, runs=RUNS[:1], resamples=10) for seed in (0, 1))
    assert one.once(rows_of) == one.once(rows_of) == one.facts.height
    assert two.once(rows_of) == two.facts.height
    assert len(calls) == 2 and calls[0] is one and calls[1] is two
