"""The page of a check: prompts that are rebuilt, and verdicts beside the facts."""

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anachron.core.dates import Date
from anachron.core.errors import DataError
from anachron.io.tables import read_table
from anachron.probe.check.verdicts import VERDICT_SCHEMA
from anachron.report.page.periods import openings
from anachron.report.page.verdicts import FIRST, CheckOnPage, read_verdicts, still_holding, verdict_columns
from anachron.text.dates import date_in_words, wordings

years = st.integers(-600, 2100).filter(bool)
dates = st.builds(Date, years) | st.builds(Date, years, st.integers(1, 12)) | st.builds(
    Date, years, st.integers(1, 12), st.integers(1, 28)
)  # fmt: skip


@given(st.lists(dates, min_size=1), st.sampled_from(sorted(wordings())))
def test_openings_make_the_words_of_every_date(some: list[Date], style: str):
    found = openings(map(str, some), style)
    assert found is not None
    for date in some:
        pattern = found["patterns"][f"{date.month or 0}-{date.day or 0}"]
        assert pattern.replace("{}", found["years"][str(date.year)]) == date_in_words(date, style)


def row(fact: str, verdict: str | None, **known: object) -> dict[str, object]:
    about = {"fact_id": fact, "verdict": verdict, "win_rate": None if verdict is None else 0.75}
    words = dict.fromkeys(("present", "answer", "answer_until", "left_out"))
    labels = {"subject": "S", "relation": "r", "object": fact, "periods": "1990-05/1999"}
    return dict.fromkeys(VERDICT_SCHEMA) | about | labels | words | known


STALE = {"present": "stale", "answer": "a", "answer_until": "1999", "periods": "1985/1986; 2001-02-03/"}
ROWS = [
    row("a", "known"),
    row("b", "wrong period", believed_end="1990", end_error_years=-9.2),
    row("d", "unknown", chance=0.0712),
    row("e", "robust", present="current", answer="e"),
    row("f", "known", **STALE),
    row("g", "shaky", present="does not know"),
    row("c", None, left_out="no question", present="current"),
    row("h", None, left_out="no question", **STALE),
]  # fmt: skip
DEMANDS = [
    {"demand": "at most 0 stale", "passed": False, "words": "2 of 4 facts judged are stale", "error": None},
    {"demand": "win rate at least 10 %", "passed": True, "words": "mean W 75.0 %", "error": None},
    {"demand": "no loss", "passed": False, "words": "W is higher", "error": "only 1 of 4 facts"},
]
RUN, OTHER = ("m", "raw", "none"), ("other", "raw", "none")


def columns(path: Path, rows: list[dict[str, object]], ids: list[str]) -> dict | None:
    pl.DataFrame(rows, infer_schema_length=None).write_csv(path)
    check = CheckOnPage(read_verdicts(read_table(path), path), {"as_of": "2024-06-30", "demands": DEMANDS})
    return verdict_columns({RUN: check}, {RUN: "m, raw", OTHER: "other"}, ids, {}, {})


def test_verdicts_are_read_and_stand_with_their_facts(tmp_path: Path):
    found = columns(tmp_path / "verdicts.csv", ROWS, ["b", "x", "a", "d", "e", "f", "g"])
    assert found is not None and found["runs"][1] is None
    own = found["runs"][0]
    assert own["name"] == "m, raw" and own["place"] == 0
    assert own["sentence"] == (
        "8 facts checked: 1 robust, 2 known, 1 shaky, 1 wrong period, 1 unknown, 2 not asked with dates; of those that "
        "still hold, 2 current and 2 stale, 1 not known to the model."
    )
    assert own["verdict"] == ["wrong period", None, "known", "unknown", "robust", "known", "shaky"]
    assert own["present"] == [None, None, None, None, "current", "stale", "does not know"]
    assert own["answer"] == [None, None, None, None, "e", "a", None]
    kinds = [None if rank is None else found["kinds"][rank] for rank in own["rank"]]
    assert kinds == ["wrong period", None, "known", "unknown", "robust", "stale", "shaky"]
    assert own["told"] == [
        "W 75 %. It is believed to 1990; that ends 9 years too early.", None, "W 75 %.",
        "W 75 %: 7 % of decoys do as well.", *["W 75 %."] * 3
    ]  # fmt: skip
    stale = "Asked about today, the model says a (held until 1999); {} has held since 3 February 2001."
    assert own["today"] == [
        None, None, None, None, "Asked about today, the model gives the right name, e.", stale.format("f"),
        "Asked about today, the model does not know.",
    ]  # fmt: skip
    assert found["left_out"] == [
        {"fact": "S | r | c", "reason": "no question. Asked about today, the model gives the right name."},
        {"fact": "S | r | h", "reason": f"no question. {stale.format('h')}"},
    ]
    assert verdict_columns({}, {RUN: "m"}, ["a"], {}, {}) is None


def test_what_is_stale_comes_first_then_wrong_periods_and_the_gate_is_told(tmp_path: Path):
    found = columns(tmp_path / "verdicts.csv", ROWS, [row["fact_id"] for row in ROWS[:-2]])
    own = found["runs"][0]
    assert [demand["said"] for demand in own["demands"]] == ["failed", "passed", "no verdict"]
    assert [(one["kind"], one["fact"]) for one in own["first"]] == [
        ("stale", "f"), ("stale", None), ("wrong period", "b"),  # the second was not asked with dates
    ]  # fmt: skip
    assert own["first"][0]["words"] == "the model says a (held until 1999); f has held since 3 February 2001"
    wrong = "b, May 1990 to 1999, is believed to 1990; that ends 9 years too early"
    assert own["first"][2]["words"] == wrong and own["more"] == 0
    many = [row(f"n{i}", "known", **STALE) for i in range(FIRST + 3)]
    found = columns(tmp_path / "verdicts.csv", [*ROWS, *many], [])
    assert len(found["runs"][0]["first"]) == FIRST and found["runs"][0]["more"] == 3 + 3
    assert {one["kind"] for one in found["runs"][0]["first"]} == {"stale"}


def test_facts_without_an_end_hold_still():
    table = pl.DataFrame([ROWS[0], ROWS[4]], infer_schema_length=None)
    assert still_holding([CheckOnPage(table, {})]) == {"f"}


@pytest.mark.parametrize("broken", ["fact_id,verdict\na,known\n", "win_rate"])
def test_a_file_that_no_check_wrote_is_refused(tmp_path: Path, broken: str):
    path = tmp_path / "verdicts.csv"
    table = pl.DataFrame(ROWS, infer_schema_length=None)
    path.write_text(broken) if "," in broken else table.with_columns(pl.lit("much").alias(broken)).write_csv(path)
    with pytest.raises(DataError, match=r"repeat the check|row 1: win_rate 'much' is no number"):
        read_verdicts(read_table(path), path)
