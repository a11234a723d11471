"""Portability against a naive recount: one question at a time, words counted by hand, and whole runs."""

import json
import math

import polars as pl
import pytest
import torch
from polars.testing import assert_frame_equal

from anachron.analysis.statistics import korn_graubard
from anachron.core.errors import DataError
from anachron.data.updates.case_records import EditCase, PortabilityQuestion, Rewrite
from anachron.data.updates.cases import CaseSet, load_cases
from anachron.edit.base import edited
from anachron.edit.make import make_edit
from anachron.evaluate.lifelong import LifelongSettings, run_lifelong
from anachron.evaluate.measure import Measures
from anachron.evaluate.measures.portability import (
    PORTABILITY,
    TOKENS,
    is_right,
    portability_summary,
    portability_tests,
)
from anachron.evaluate.requests import requests_of
from anachron.evaluate.run import EvaluateSettings, run_evaluation
from anachron.lm.model import LanguageModel
from anachron.report.edits.evaluated import evaluate_updates
from support.edit_models import make_edit_lm, plan_fast
from support.portability_rows import mquake, ripple
from support.tiny_models import naive_sum

FAST = {"ROME": {"steps": 4, "contexts": [], "layer": 1}, "FT": {"steps": 20, "layer": 2, "rate": 1e-2}}
QUIET = Measures(fluency_tokens=0)


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return make_edit_lm("gpt2")


def continuation(lm, prompt):
    """Greedy text, token by token."""
    ids = lm.tokenizer(prompt)["input_ids"]
    new = []
    with torch.inference_mode():
        while len(new) < TOKENS and (not new or new[-1] != lm.tokenizer.eos_token_id):
            new.append(int(lm.model(input_ids=torch.tensor([ids + new])).logits[0, -1].argmax()))
    return lm.tokenizer.decode(new, skip_special_tokens=True)


def p_of(lm, prompt, name):
    """Geometric mean over the tokens of a name, all of one space and itself."""
    ids, start = lm.tokenizer(f"{prompt} {name}")["input_ids"], lm.tokenizer(prompt)["input_ids"]
    assert ids[: len(start)] == start
    return math.exp(naive_sum(lm.model, ids, list(range(len(start), len(ids)))) / (len(ids) - len(start)))


def cases_about(lm, tmp_path):
    """RippleEdits' rows with a condition that the model knows, being what it writes, and one that it does not."""
    first = ripple()
    known = first["Relation_Specificity"][0]["condition_queries"][0]
    text = continuation(lm, known["prompt"]).strip()
    known["answers"] = [{"value": text[:6], "aliases": []}]
    path = tmp_path / "ripple.json"
    path.write_text(json.dumps([first]), encoding="utf-8")
    return load_cases(str(path))


def naive_rows(lm, case, *, conditions):
    """(kind, place among its kind) -> right, begins, success and p of each test, and whether its conditions are."""
    rows, seen = {}, {}
    for test in case.tests:
        place = seen.setdefault(test.kind, 0)
        seen[test.kind] += 1
        if test.unusable:
            continue
        combine = any if test.needed == "any" else all
        texts = [continuation(lm, q.prompt) for q in test.questions]
        best = [max(p_of(lm, q.prompt, n) for names in q.answers for n in names) for q in test.questions]
        old = [max((p_of(lm, q.prompt, n) for n in q.old), default=None) for q in test.questions]
        won = [b > o for b, o in zip(best, old, strict=True) if o is not None]
        rows[test.kind, place] = {
            "right": combine(is_right(test.rule, t, q) for t, q in zip(texts, test.questions, strict=True)),
            "success": combine(won) if won else None,
            "p": max(best) if test.needed == "any" else min(best),
            "counts": all(is_right(test.rule, continuation(lm, c.prompt), c) for c in test.conditions)
            if conditions else None,
        }  # fmt: skip
    return rows


@pytest.mark.full
def test_a_run_against_a_naive_recount(lm, tmp_path):
    cases = cases_about(lm, tmp_path)
    (case,) = cases.cases
    planned = plan_fast(lm, FAST, "FT")
    done = run_evaluation(lm, cases, planned, tmp_path / "run", EvaluateSettings(measures=QUIET))
    assert done.record["tests_not_asked"] == {
        "compositionality I: a question has no answer, or one of a single letter": 1,
        "forgetfulness: it has no question": 1,
    }
    tests = portability_tests(PORTABILITY.check(done.tables["portability"], done.tables["updates"]))
    clean = naive_rows(lm, case, conditions=True)
    edit = make_edit(lm, "FT", requests_of(case, "FT"), planned[0].settings)
    with edited(lm, edit):
        after = naive_rows(lm, case, conditions=False)
    assert [row["counts"] for row in clean.values()].count(False) == 1
    for method, expected in (("unedited", clean), ("FT", after)):
        of_method = tests.filter(pl.col("method") == method)
        assert of_method.height == len(expected) == 7
        for row in of_method.iter_rows(named=True):
            key = row["kind"], row["number"]
            naive = expected[key]
            assert row["counts"] == clean[key]["counts"], key
            assert row["right"] == naive["right"] and row["success"] == naive["success"], key
            assert row["p"] == pytest.approx(naive["p"], rel=1e-4)
    made = tests.filter(pl.col("method") == "FT", pl.col("kind") == "edit")
    assert made["right"].item() == 1  # the edit is one that the model has learned, so that not all is 0
    assert tests.filter(pl.col("method") == "unedited", pl.col("kind") == "edit")["right"].item() == 0


def test_all_rewrites_of_a_case_are_made_together(lm, tmp_path):
    path = tmp_path / "mquake.json"
    path.write_text(json.dumps([mquake()]), encoding="utf-8")
    cases = load_cases(str(path))
    (case,) = cases.cases
    requests = requests_of(case, "ROME")
    assert [(one.text, one.target) for one in requests] == [
        ("Emmanuel Macron is the head of state of", "Germany"), ("The capital of Germany is", "Lyon"),
    ]  # fmt: skip
    planned = plan_fast(lm, FAST, "FT")
    told = evaluate_updates(lm, cases, planned, tmp_path / "run", EvaluateSettings(measures=QUIET))
    assert told.portability is not None
    ft = {row["kind"]: row for row in told.portability.filter(pl.col("method") == "FT").iter_rows(named=True)}
    assert (ft["edit-wise"]["tests"], ft["edit-wise"]["updates"]) == (2, 1)
    assert ft["edit-wise"]["right"] == 1.0 == ft["instance-wise"]["right"]  # both rewrites, by generation
    assert ft["multi-hop"]["tests"] == 1 and ft["multi-hop"]["right_if_edited_n"] == 1
    for name in ("portability.csv", "portability_tests.csv", "markdown/portability.md", "latex/portability.tex"):
        assert (tmp_path / "run" / "report" / name).is_file()
    again = evaluate_updates(lm, cases, planned, tmp_path / "run", EvaluateSettings(measures=QUIET)).portability
    assert_frame_equal(again, told.portability)


def test_a_rewrite_that_cannot_be_made_fails_its_case(lm, tmp_path):
    case = EditCase("a", "France", "The capital of France is", "Lyon", "Paris", rewrites=(Rewrite("Peru", "Its", "X"),))
    with pytest.raises(DataError, match="'Peru' is not in the prompt"):
        requests_of(case, "ROME")
    assert len(requests_of(case, "FT")) == 2


@pytest.mark.full
def test_lifelong_editing_says_that_it_asks_no_tests(lm, tmp_path):
    cases = cases_about(lm, tmp_path)
    settings = LifelongSettings((1,), "batch", QUIET)
    done = run_lifelong(lm, cases, plan_fast(lm, FAST, "FT"), tmp_path / "run", settings)
    assert sum(done.record["tests_not_asked"].values()) == len(cases.cases[0].tests)
    assert not (tmp_path / "run" / "portability.parquet").exists()


def test_updates_without_tests_have_no_table(lm, tmp_path):
    case = EditCase("a", "France", "The capital of France is", "Lyon", "Paris")
    told = evaluate_updates(
        lm, CaseSet("x", "zsre", (case,)), plan_fast(lm, FAST, "FT"), tmp_path / "run", EvaluateSettings(measures=QUIET)
    )
    assert told.portability is None and not (tmp_path / "run" / "report" / "portability.csv").exists()
    assert told.record["tests_not_asked"] == {}


QUESTION = PortabilityQuestion("q", (("Paris", "Lutetia"), ("Rome",)))


@pytest.mark.parametrize(
    ("text", "begins", "contains"),
    [
        (" Paris, then Rome", True, True),
        (" the city of Lutetia and of Rome", False, True),
        (" paris and Rome", True, False),  # letter by letter, as published
        (" Paris", True, False),  # every answer is wanted
        (" Parisian Romes", False, True),  # inside words too, as published
        ("", False, False),
    ],
)
def test_rules(text, begins, contains):
    assert is_right("begins", text, QUESTION) is begins
    assert is_right("contains", text, QUESTION) is contains


def rows_of(values):
    """A table of questions from (case_id, kind, number, place, needed, right before, right after, known)."""
    columns = ["case_id", "kind", "number", "prompt_number", "needed", "right_before", "right_after", "known_before"]
    table = pl.DataFrame(values, columns, orient="row").with_columns(
        pl.lit("independent").alias("mode"), pl.lit("FT").alias("method"), pl.lit("plain").alias("variant"),
        before=pl.lit(0.2), after=pl.lit(0.4), old_before=pl.lit(0.3), old_after=pl.lit(None, pl.Float64),
        text_before=pl.lit(""), text_after=pl.lit(""), begins_before=pl.lit(0.0), begins_after=pl.lit(1.0),
    )  # fmt: skip
    return table


def test_means_are_over_updates_and_over_tests_that_count():
    """Three updates with 1, 2 and 4 tests of a kind; one test does not count, and one update's edit failed."""
    values = [
        ("a", "edit", 0, 0, "all", 0.0, 1.0, 1.0), ("b", "edit", 0, 0, "all", 0.0, 0.0, 1.0),
        ("c", "edit", 0, 0, "all", 0.0, 1.0, 1.0),
        ("a", "hop", 0, 0, "any", 0.0, 0.0, 1.0), ("a", "hop", 0, 1, "any", 0.0, 1.0, 1.0),
        ("b", "hop", 0, 0, "all", 1.0, 1.0, 1.0), ("b", "hop", 1, 0, "all", 0.0, 1.0, 0.0),
        *(("c", "hop", n, 0, "all", 0.0, float(n == 0), 1.0) for n in range(4)),
    ]  # fmt: skip
    summary = portability_summary(portability_tests(rows_of(values)))
    assert summary["method"].to_list() == ["unedited", "unedited", "FT", "FT"]
    hop = summary.filter(pl.col("method") == "FT", pl.col("kind") == "hop").row(0, named=True)
    assert (hop["updates"], hop["tests"], hop["not_counted"]) == (3, 6, 1)
    assert hop["right"] == pytest.approx((1 + 1 + 0.25) / 3)
    assert hop["right_if_edited"] == pytest.approx((1 + 0.25) / 2) and hop["right_if_edited_n"] == 2
    assert (hop["right_low"], hop["right_high"]) == pytest.approx(korn_graubard([1, 1, 0.25]))
    assert hop["success"] is None and hop["success_n"] == 0
    edit = summary.filter(pl.col("method") == "FT", pl.col("kind") == "edit").row(0, named=True)
    assert (edit["right_low"], edit["right_high"]) == korn_graubard([1, 1, 0])
    clean = summary.filter(pl.col("method") == "unedited", pl.col("kind") == "hop").row(0, named=True)
    assert clean["right"] == pytest.approx(1 / 3) and clean["success"] == 0.0 and clean["begins"] == 0.0


def test_a_table_with_a_question_twice_is_refused(lm):
    table = rows_of([("a", "edit", 0, 0, "all", 0.0, 1.0, 1.0)] * 2)
    updates = pl.DataFrame({"mode": ["independent"], "method": ["FT"], "case_id": ["a"], "status": ["done"]})
    with pytest.raises(DataError, match="row 2: the same as row 1"):
        PORTABILITY.check(table, updates)
