"""Statements against a naive rebuild with `datetime` and NumPy, and their determinism."""

import hashlib
import os
import subprocess
import sys
from calendar import monthrange
from collections import Counter, defaultdict
from datetime import date, timedelta

import numpy as np
import polars as pl
import pytest

from anachron.core.errors import DataError
from anachron.core.facts import Fact
from anachron.core.periods import Period
from anachron.data.bundled.mini import mini_facts
from anachron.data.columns import PUBLISHED, STATEMENT_SCHEMA, to_published
from anachron.data.dataset import Dataset
from anachron.data.statements import FactWithQuestion, make_statements

OBAMA = Fact("United States", "head of state", "Barack Obama", Period("2009-01-20", "2017-01-20"), relation_id="P35")
COARSE = Fact("Peru", "currency", "inti", Period("1985-02", "1991"), "Q419", "P38", "Q1", 12.5)
QUESTION = "who was it?"


def days_of(text: str) -> tuple[date, date]:
    parts = [int(part) for part in text.split("-")]
    year, month, day = (*parts, None, None)[:3]
    first = date(year, month or 1, day or 1)
    last = date(year, month or 12, day or monthrange(year, month or 12)[1])
    return first, last


def middle(first: date, last: date) -> date:
    return first + timedelta((last - first).days // 2)


def bounds(fact: Fact, boundaries: str) -> tuple[date, date, date, date, date, date]:
    """Outer first and last day, inner first and last day, and the two ends that length is measured between."""
    (start, start_last), (end_first, end) = days_of(str(fact.period.start)), days_of(str(fact.period.end))
    if boundaries == "released":
        return start, end, start, end, start, end
    inner_first = start if start == start_last else start_last + timedelta(1)
    inner_last = end if end == end_first else end_first - timedelta(1)
    return start, end, inner_first, inner_last, middle(start, start_last), middle(end_first, end)


def naive_status(fact: Fact, boundaries: str, time: str) -> str:
    first, last = days_of(time)
    outer_first, outer_last, inner_first, inner_last, _, _ = bounds(fact, boundaries)
    inside = {"outer": 0, "inner": 0}
    for n in range((last - first).days + 1):
        day = first + timedelta(n)
        inside["outer"] += outer_first <= day <= outer_last
        inside["inner"] += inner_first <= day <= inner_last
    if inside["outer"] == 0:
        return "incorrect"
    return "correct" if inside["inner"] == (last - first).days + 1 else "transitional"


def naive_years(fact: Fact, boundaries: str) -> list[int]:
    *_, start, end = bounds(fact, boundaries)
    length = (end - start).days
    offsets = [int(alpha * length) for alpha in np.arange(-5, 5.0001, 0.05)]
    years = dict.fromkeys((middle(start, end) + timedelta(offset)).year for offset in offsets)
    return [year for year in years if year <= 2020]


def naive_opening(time: str | None) -> str:
    if time is None:
        return ""
    first, _ = days_of(time)
    return {
        4: f"In {first.year}, ",
        7: f"In {first:%B} {first.year}, ",
        10: f"On {first:%B} {first.day}, {first.year}, ",
    }[len(time)]


@pytest.mark.parametrize("boundaries", ["released", "paper"])
@pytest.mark.parametrize("fact", [OBAMA, COARSE], ids=["days", "coarse"])
def test_a_fact_against_its_naive_rebuild(fact: Fact, boundaries: str) -> None:
    table = make_statements([FactWithQuestion(fact, QUESTION, 4)], boundaries=boundaries, seed=5)  # type: ignore[arg-type]
    years = naive_years(fact, boundaries)
    year_status = {year: naive_status(fact, boundaries, f"{year:04d}") for year in years}
    *_, start, end = bounds(fact, boundaries)
    times = defaultdict(list)
    for row in table.iter_rows(named=True):
        assert row["prompt"] == naive_opening(row["time"]) + QUESTION
        assert row["answer"] == fact.object
        if row["time"] is None:
            assert (row["status"], row["alpha"]) == ("none", None)
            times[row["granularity"]].append(None)
            continue
        times[row["granularity"]].append(row["time"])
        assert len(row["time"]) == {"year": 4, "month": 7, "day": 10}[row["granularity"]]
        top = year_status[int(row["time"][:4])]
        finer = top == "transitional" and row["granularity"] != "year"
        assert row["status"] == ("discarded" if finer else naive_status(fact, boundaries, row["time"])), row
        distance = (middle(*days_of(row["time"])) - middle(start, end)).days
        assert row["alpha"] == distance / (end - start).days
    assert times["year"] == [None, *(f"{year:04d}" for year in years)]
    assert [t and t[:4] for t in times["month"]] == times["year"]
    assert [t and t[:7] for t in times["day"]] == times["month"]
    counts = Counter(table.select("granularity", "status").iter_rows())
    tops = Counter(year_status.values())
    for granularity in ("year", "month", "day"):
        assert counts[granularity, "none"] == 1
        assert counts[granularity, "correct"] == tops["correct"] > 0
        assert counts[granularity, "incorrect"] == tops["incorrect"] > 0
    assert counts["month", "discarded"] == counts["day", "discarded"] == tops["transitional"] > 0


def test_columns_carry_the_fact() -> None:
    table = make_statements([FactWithQuestion(COARSE, QUESTION, 4)])
    assert dict(table.schema) == STATEMENT_SCHEMA
    expected = {
        "fact_id": COARSE.id, "subject_id": "Q419", "subject_label": "Peru", "relation_id": "P38",
        "relation_label": "currency", "object_id": "Q1", "object_label": "inti", "start": "1985-02", "end": "1991",
        "popularity": 12.5, "other_objects": 4,
    }  # fmt: skip
    for name, value in expected.items():
        assert table[name].unique().to_list() == [value], name


def test_the_style_is_an_option() -> None:
    table = make_statements([FactWithQuestion(OBAMA, QUESTION)], style="classic")
    days = table.filter((pl.col("granularity") == "day") & pl.col("time").is_not_null())
    first = days.row(0, named=True)
    day, _ = days_of(first["time"])
    assert first["prompt"] == f"On {day.day} {day:%B} {day.year}, {QUESTION}"


def test_a_question_word_goes_on_in_lower_case_behind_a_date() -> None:
    table = make_statements([FactWithQuestion(OBAMA, "Who was president?")])
    opened = table.filter(pl.col("time").is_not_null())["prompt"]
    assert opened.str.ends_with(", who was president?").all() and len(opened)
    assert set(table.filter(pl.col("time").is_null())["prompt"]) == {"Who was president?"}


def test_the_seed_changes_the_finer_dates_alone() -> None:
    tables = [make_statements([FactWithQuestion(OBAMA, QUESTION)], seed=seed) for seed in (0, 0, 1)]
    years = [table.filter(pl.col("granularity") == "year") for table in tables]
    assert tables[0].equals(tables[1]) and not tables[0].equals(tables[2])
    assert years[0].equals(years[2])


def test_facts_share_no_random_stream() -> None:
    alone = make_statements([FactWithQuestion(OBAMA, QUESTION)])
    both = make_statements([FactWithQuestion(COARSE, QUESTION), FactWithQuestion(OBAMA, QUESTION)])
    assert both["fact_id"].unique(maintain_order=True).to_list() == [COARSE.id, OBAMA.id]
    assert both.filter(pl.col("fact_id") == OBAMA.id).equals(alone)


def test_no_facts_make_an_empty_table() -> None:
    table = make_statements([])
    assert table.height == 0 and dict(table.schema) == STATEMENT_SCHEMA


def test_an_open_period_is_refused() -> None:
    with pytest.raises(DataError, match="open"):
        make_statements([FactWithQuestion(Fact("s", "r", "o", Period("2000", None)), QUESTION)])


def test_the_bundled_statements_keep_the_bounds_of_the_sampler(mini: Dataset) -> None:
    counts = mini.table.group_by("fact_id", "granularity").agg(
        *((pl.col("status") == s).sum().alias(s) for s in ("correct", "incorrect", "transitional", "none"))
    )
    assert counts.height == 3 * mini.facts
    assert counts["none"].unique().to_list() == [1]
    assert counts["correct"].min() >= 1 and counts["correct"].max() <= 21
    assert counts["incorrect"].min() >= 1 and counts["incorrect"].max() <= 180
    assert counts["transitional"].max() <= 2
    per_fact = counts.group_by("fact_id").agg(pl.col("correct", "incorrect").n_unique())
    assert per_fact["correct"].max() == per_fact["incorrect"].max() == 1


def test_the_bundled_statements_ask_every_probed_fact_one_question(mini: Dataset) -> None:
    assert set(mini.table["fact_id"]) == {m.fact.id for m in mini_facts() if m.probed}
    bare = mini.table.filter(pl.col("status") == "none").select("fact_id", question="prompt")
    assert bare.group_by("fact_id").agg(pl.col("question").n_unique())["question"].max() == 1
    dated = mini.table.filter(pl.col("status") != "none").join(bare.unique(), on="fact_id")
    assert dated.filter(~pl.col("prompt").str.ends_with(pl.col("question"))).height == 0
    assert dated.filter(~pl.col("prompt").str.contains("^(In|On) ")).height == 0


def test_the_bundled_statements_count_the_other_objects(mini: Dataset) -> None:
    objects = defaultdict(set)
    for item in mini_facts():
        objects[item.fact.subject, item.fact.relation].add(item.fact.object)
    found = mini.table.select("subject_label", "relation_label", "other_objects").unique()
    wrong = [row for row in found.iter_rows() if row[2] != len(objects[row[0], row[1]]) - 1]
    assert not wrong


REBUILD = """
import hashlib
from anachron.data.columns import to_published
from anachron.data.bundled.mini import mini_statements
print(hashlib.sha256(to_published(mini_statements(), "released").write_csv().encode()).hexdigest())
"""


@pytest.mark.full
def test_the_bundled_statements_are_the_same_in_another_process(mini: Dataset) -> None:
    published = to_published(mini.table, mini.boundaries)
    lives = ("SubjectFrom", "ObjectFrom", "SubjectUntil", "ObjectUntil")
    assert tuple(published.columns) == (*PUBLISHED, *lives)
    here = hashlib.sha256(published.write_csv().encode()).hexdigest()
    environment = os.environ | {"PYTHONHASHSEED": "1"}
    there = subprocess.run(
        [sys.executable, "-c", REBUILD], env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    assert there.stdout.strip() == here
