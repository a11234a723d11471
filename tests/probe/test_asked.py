"""The facts of a run in words: questions, and the wording of dates by which every prompt can be rebuilt."""

import polars as pl
import pytest

from anachron.core.dates import Date
from anachron.data.dataset import Dataset
from anachron.data.own.statements import own_facts
from anachron.probe.questions import ASKED, date_style, questions_of_run
from anachron.text.dates import date_in_words, wordings

FACTS = """subject,relation,object,start,end
Kazakhstan,capital,Almaty,1991-12-16,1997-12-10
Kazakhstan,capital,Astana,1997-12-10,
Germany,head of government,Angela Merkel,2005-11-22,2021-12-08
"""


@pytest.fixture
def data(tmp_path) -> Dataset:
    """Statements as any data set has them, without what a file says besides."""
    (tmp_path / "facts.csv").write_text(FACTS)
    return Dataset("statements", own_facts(tmp_path / "facts.csv", as_of="2024").table, "released")


def test_the_question_of_a_fact_is_its_statement_without_a_date(data: Dataset):
    asked = questions_of_run(data)
    expected = {}
    for row in data.table.iter_rows(named=True):
        words = (row["subject_label"], row["relation_label"], row["object_label"])
        if row["time"] is None:
            expected.setdefault(row["fact_id"], (row["prompt"], *words))
    assert asked.columns == list(ASKED) and {row[0]: row[1:] for row in asked.rows()} == expected
    questions = dict(asked.select("fact_id", "question").rows())
    style = date_style(data.table)
    for row in data.table.drop_nulls("time").iter_rows(named=True):
        assert row["prompt"] == date_in_words(Date.parse(row["time"]), style) + questions[row["fact_id"]]


@pytest.mark.parametrize("style", wordings())
def test_the_wording_of_dates_is_found(tmp_path, style: str):
    path = tmp_path / "facts.csv"
    path.write_text("subject,relation,object,start,end,question\nX,r,Y,1990,1999,what was X?\n")
    table = own_facts(path, as_of="2024", style=style).table
    found = date_style(table)
    made = [date_in_words(Date.parse(time), found) + "what was X?" for time in table["time"].drop_nulls()]
    assert made == table.drop_nulls("time")["prompt"].to_list()  # two styles of one wording need no telling apart


def test_prompts_that_no_wording_rebuilds_have_none(data: Dataset):
    table = data.table
    assert date_style(table) == "american"
    assert date_style(table.with_columns(pl.col("prompt").str.replace("On ", "on "))) is None
    assert date_style(table.filter(pl.col("time").is_null())) is None
    undated = table.filter(pl.col("time").is_not_null())
    assert (
        date_style(undated) is None
        and questions_of_run(Dataset("x", undated, "released"))["question"].null_count() == 3
    )
