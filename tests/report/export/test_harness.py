"""The metrics that run inside lm-evaluation-harness, against those of this package and plain loops; no harness here."""

import math
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anachron.analysis.metrics import GLOBAL, check_scores, fact_metrics
from anachron.data.dataset import Dataset
from anachron.io.tables import read_table
from anachron.report.export import harness
from anachron.report.export.lm_eval import documents, export_lm_eval

GRANULARITIES = ("year", "month", "day")
STATUSES = ("correct", "incorrect", "transitional", "discarded", "none")


def counted(rows):
    """(fact, granularity, status, logp) -> the items of `harness.process_results`."""
    sizes = {}
    for fact, granularity, _, _ in rows:
        sizes[fact, granularity] = sizes.get((fact, granularity), 0) + 1
    return [(fact, g, status, sizes[fact, g], logp) for fact, g, status, logp in rows]


def as_scores(rows):
    """The same rows as a score table of this package."""
    return pl.DataFrame(
        [
            {
                "model": "m", "format": "raw", "prefix": "none", "fact_id": fact, "granularity": granularity,
                "time": None if status == "none" else f"{n:04d}", "status": status,
                "alpha": None if status == "none" else 0.5, "logp": logp,
            }
            for n, (fact, granularity, status, logp) in enumerate(rows, 1)
        ],
        infer_schema_length=None,
    )  # fmt: skip


def ours(rows):
    return {
        (row["fact_id"], row["granularity"]): (row["win_rate"], row["robustness"])
        for row in fact_metrics(as_scores(rows)).iter_rows(named=True)
    }


@st.composite
def tables(draw):
    """A few facts with ties, with granularities and whole sides missing, in any order."""
    rows = []
    for fact in "abc":
        for granularity in GRANULARITIES:
            for status in STATUSES[:4]:
                for logp in draw(st.lists(st.integers(-4, 0), max_size=4)):
                    rows.append((fact, granularity, status, logp / 4))
            if draw(st.booleans()):
                rows.append((fact, granularity, "none", 0.0))
    return draw(st.permutations(rows))


@given(tables())
def test_facts_have_the_metrics_of_this_package(rows):
    expected = ours(rows) if rows else {}
    found = harness.fact_metrics(counted(rows))
    assert found.keys() == expected.keys()
    for key, pair in found.items():
        assert pair == pytest.approx(expected[key], abs=1e-12)


def test_facts_against_a_double_loop():
    draw = random.Random(5)
    rows = [
        (fact, g, status, draw.randint(-8, 0) / 4)
        for fact in "abcd"
        for g in GRANULARITIES
        for status, times in (("correct", 3), ("incorrect", 5), ("transitional", 2))
        for _ in range(times)
    ]
    draw.shuffle(rows)
    found = harness.fact_metrics(counted(rows))
    for fact in "abcd":
        rates = []
        for g in GRANULARITIES:
            mine = [(status, logp) for f, h, status, logp in rows if (f, h) == (fact, g)]
            won = [c > i for s, c in mine if s == "correct" for t, i in mine if t == "incorrect"]
            rates.append(sum(won) / len(won))
            assert found[fact, g] == (rates[-1], float(all(won)))
        assert found[fact, GLOBAL][0] == pytest.approx(sum(rates) / 3)


def test_aggregates_are_means_over_facts_of_what_there_is():
    rows = [("a", g, "correct", -1.0) for g in GRANULARITIES] + [("a", g, "incorrect", -2.0) for g in GRANULARITIES]
    rows += [("b", "year", "correct", -1.0), ("b", "year", "incorrect", -1.0), ("b", "year", "incorrect", -3.0)]
    rows += [("c", "year", "correct", -1.0)]  # no incorrect date: no match
    items = counted(rows)
    assert harness.win_rate_year(items) == 0.75
    assert harness.robustness_year(items) == 0.5
    assert harness.win_rate_day(items) == harness.robustness_day(items) == 1.0
    assert harness.win_rate_global(items) == harness.robustness_global(items) == 1.0
    assert harness.facts(items) == 2
    only_years = counted([row for row in rows if row[0] == "b"])
    assert math.isnan(harness.win_rate_month(only_years))
    assert math.isnan(harness.robustness_global(only_years))


def test_a_fact_that_was_scored_in_part_is_left_out(five: Dataset, caplog: pytest.LogCaptureFixture):
    docs = documents(five.table).to_dicts()
    scored = list(np.random.default_rng(0).normal(size=len(docs)))
    items = [harness.process_results(d, [(x, False)])["facts"] for d, x in zip(docs, scored, strict=True)]
    whole = harness.fact_metrics(items)
    assert harness.facts(items) == 5
    assert not caplog.records
    cut = next(n for n, d in enumerate(docs) if d["fact_id"] != docs[0]["fact_id"]) + 10  # ten into the second fact
    of_first = {key: value for key, value in whole.items() if key[0] == docs[0]["fact_id"]}
    assert harness.fact_metrics(items[:cut]) == of_first
    assert "left out" in caplog.text


def test_a_score_that_is_no_number_is_refused():
    doc = {
        "fact_id": "f",
        "granularity": "year",
        "status": "correct",
        "statements": 1,
        "prompt": "Who?",
        "target": " X",
    }
    assert harness.process_results(doc, [(-1.5, True)])["win_rate_year"] == ("f", "year", "correct", 1, -1.5)
    for bad in (math.nan, -math.inf):
        with pytest.raises(ValueError, match=r"Who\? X"):
            harness.process_results(doc, [(bad, True)])


def test_every_metric_has_its_aggregation():
    assert len(harness.METRICS) == len(set(harness.METRICS)) == 9
    assert all(callable(getattr(harness, name)) for name in harness.METRICS)


def test_documents_make_the_text_that_probe_scores(five: Dataset):
    docs = documents(five.table)
    texts = (docs["prompt"] + docs["target"]).to_list()
    assert texts == [f"{p} {a}" for p, a in five.table.select("prompt", "answer").iter_rows()]
    assert docs["status"].to_list() == five.table["status"].to_list()


def test_documents_keep_what_the_tables_need(five: Dataset):
    """Whatever a run's scores say of a fact: popularity, and from when on its subject exists, where it is known."""
    table = five.table.with_columns(pl.lit("1850").alias("subject_from"))
    assert documents(table)["subject_from"].unique().to_list() == ["1850"]
    for column in ("popularity", "other_objects"):
        assert documents(table)[column].equals(table[column])
    assert "subject_from" not in documents(five.table).columns


def test_logged_samples_become_a_score_table(five: Dataset, tmp_path: Path):
    """The script beside the task runs without this package, and its table is one of ours."""
    import json

    docs = documents(five.table).to_dicts()
    logps = np.random.default_rng(1).normal(-5, 1, len(docs))
    samples = tmp_path / "samples.jsonl"
    lines = [
        json.dumps({"doc": doc, **harness.process_results(doc, [(logp, False)])}, ensure_ascii=False)
        for doc, logp in zip(docs, logps, strict=True)
    ]
    samples.write_text("\n".join(lines) + "\n", "utf-8")
    export_lm_eval(five, tmp_path / "task")
    out = tmp_path / "scores.jsonl"
    argv = [sys.executable, "-I", tmp_path / "task" / "metrics.py", samples, "--model", "m", "--out", out]
    subprocess.run(argv, check=True)
    table = check_scores(read_table(out))
    assert table["logp"].to_list() == logps.tolist()
    assert table["status"].to_list() == five.table["status"].to_list()
    assert fact_metrics(table).height == 4 * 5
