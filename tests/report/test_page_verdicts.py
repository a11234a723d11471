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
from anachron.report.page.verdicts import read_verdicts, verdict_columns
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
    return dict.fromkeys(VERDICT_SCHEMA) | about | {"subject": "S", "relation": "r", "object": fact} | words | known


ROWS = [
    row("a", "known"),
    row("b", "wrong period", believed_end="1990", end_error_years=-9.2, present="stale", answer="a")
    | {"answer_until": "1999"},
    row("d", "unknown", chance=0.0712),
    row("c", None, left_out="no question", present="current"),
]  # fmt: skip


def test_verdicts_are_read_and_stand_with_their_facts(tmp_path: Path):
    path = tmp_path / "verdicts.csv"
    pl.DataFrame(ROWS, infer_schema_length=None).write_csv(path)
    runs = [("m", "raw", "none"), ("other", "raw", "none")]
    found = verdict_columns({runs[0]: read_verdicts(read_table(path), path)}, runs, ["b", "x", "a", "d"])
    assert found is not None and found["runs"][1] is None
    own = found["runs"][0]
    assert own["sentence"] == (
        "4 facts checked: 1 known, 1 wrong period, 1 unknown, 1 not asked with dates; of those that still hold, "
        "1 current and 1 stale."
    )
    assert own["verdict"] == ["wrong period", None, "known", "unknown"] and own["present"] == [
        "stale",
        None,
        None,
        None,
    ]
    assert own["words"] == [
        "wrong period: believed to 1990, ends 9 years too early, W 75 %", None, "known, W 75 %",
        "unknown, W 75 %; 7 % of decoys do as well",
    ]  # fmt: skip
    assert own["today"] == ["today stale, says a (held until 1999)", None, None, None]
    assert found["left_out"] == [{"fact": "S | r | c", "reason": "no question; today current"}]
    assert verdict_columns({}, runs, ["a"]) is None
    unsure = [row("e", "unknown", present="does not know"), *ROWS]
    pl.DataFrame(unsure, infer_schema_length=None).write_csv(path)
    told = verdict_columns({runs[0]: read_verdicts(read_table(path), path)}, runs, ["e"])
    assert told["runs"][0]["sentence"].endswith("hold, 1 current and 1 stale, 1 not known to the model.")


@pytest.mark.parametrize("broken", ["fact_id,verdict\na,known\n", "win_rate"])
def test_a_file_that_no_check_wrote_is_refused(tmp_path: Path, broken: str):
    path = tmp_path / "verdicts.csv"
    table = pl.DataFrame(ROWS, infer_schema_length=None)
    path.write_text(broken) if "," in broken else table.with_columns(pl.lit("much").alias(broken)).write_csv(path)
    with pytest.raises(DataError, match=r"repeat the check|row 1: win_rate 'much' is no number"):
        read_verdicts(read_table(path), path)
