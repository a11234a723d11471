"""Formulas in labels: none is run by a spreadsheet, and nothing else changes."""

import csv
import io
import random
from pathlib import Path

import polars as pl
import pytest

from anachron.core.dates import Date
from anachron.core.errors import DataError
from anachron.data.question_tables import draw_sample, read_judged
from anachron.io.tables import harmless

RUN = [
    "=",
    "=1+1",
    '=HYPERLINK("http://x","y")',
    "+cmd|' /C calc'!A0",
    "-1+cmd|x",
    "@SUM(1)",
    "\t=1",
    "-",
    "＝1",
    "-5 %",
]
KEPT = ["Paris", "", " =1", "a=b", "'=1", "-0044", "-0044-03-15", "-3", "+1.5", "-1,000", "2011-03", "100", "+44"]


def test_only_what_a_spreadsheet_would_run_gets_an_apostrophe():
    assert harmless(pl.DataFrame({"x": RUN}))["x"].to_list() == [f"'{text}" for text in RUN]
    assert harmless(pl.DataFrame({"x": KEPT}))["x"].to_list() == KEPT
    table = pl.DataFrame({"number": [-1.5, None], "text": ["=1", None], "list": [["=1"], []]})
    found = harmless(table)
    assert found.drop("text").equals(table.drop("text")) and found["text"].to_list() == ["'=1", None]
    assert harmless(found).equals(found)


@pytest.mark.parametrize("seed", range(5))
def test_no_cell_of_the_file_begins_a_formula_and_every_date_is_kept(seed: int):
    draw = random.Random(seed)
    texts = ["".join(draw.choices("=+-@'\t 1a(|", k=draw.randint(1, 6))) for _ in range(200)]
    dates = [str(Date(draw.choice([-1, 1]) * draw.randint(1, 20_000), draw.randint(1, 12))) for _ in range(200)]
    written = harmless(pl.DataFrame({"text": texts, "date": dates})).write_csv()
    rows = list(csv.reader(io.StringIO(written, newline="")))[1:]
    for (text, date), was, day in zip(rows, texts, dates, strict=True):
        assert date == day and text in (was, f"'{was}")
        if text[0] in "=+-@\t":  # what is left is a number, which holds no letter, sign or call
            assert set(text) <= set("+-1")


def test_a_sample_that_was_judged_in_a_spreadsheet_is_read_back(tmp_path: Path):
    questions = pl.DataFrame({
        "fact_id": ["-a", "b"], "question": ["=In which year?", "Who?"], "object_label": ["-x", "y"],
    })  # fmt: skip
    sample = harmless(draw_sample(questions, 2, 0)).with_columns(good=pl.lit("yes"))
    assert sample.sort("question")["question"].to_list() == ["'=In which year?", "Who?"]
    assert read_judged(sample, questions, "s").good == 2
    with pytest.raises(DataError, match="is not the question of fact"):
        read_judged(sample.with_columns(question=pl.lit("Other?")), questions, "s")
