"""The lines of a check on screens of 80 and 160 columns."""

import polars as pl
import pytest

from anachron.probe.check.present import STALE
from anachron.probe.check.verdicts import doubt_in_words, verdict_in_words
from anachron.report.terminal.verdicts import verdict_lines

ROW = {
    "subject": "France", "relation": "head of state", "object": "François Hollande",
    "periods": "2012-05-15/2017-05-14", "verdict": "shaky", "win_rate": 0.81, "timeline": "▂" * 30 + "[]",
    "left_out": None, "present": None, "answer": None, "answer_until": None, "believed_start": "1990",
    "believed_end": None, "start_error_years": -22.0, "end_error_years": None,
}  # fmt: skip
WRONG = ROW | {"verdict": "wrong period"}
HELD = ROW | {"present": STALE, "answer": "Nicolas Sarkozy", "answer_until": "2012-05-15"}
UNKNOWN = ROW | {"verdict": "unknown", "win_rate": 0.93, "chance": 0.0712, "decoys": 5}
NONE = ROW | {"verdict": None, "win_rate": None, "timeline": None, "left_out": "no question: give one"}


def lines_of(*rows, width):
    return [line.plain for line in verdict_lines(pl.DataFrame(rows, infer_schema_length=None), width)]


@pytest.mark.parametrize("row", [ROW, WRONG, HELD, UNKNOWN, NONE])
def test_no_line_is_wider_than_a_small_screen(row: dict) -> None:
    lines = lines_of(row, width=80)
    assert all(len(line) <= 80 for line in lines) and lines[0] == "France, head of state"


def test_a_timeline_that_does_not_fit_beside_stands_below() -> None:
    (_, narrow, below, said) = lines_of(WRONG, width=80)
    assert narrow.endswith("2012-05-15 to 2017-05-14  W  81 %  wrong period")
    assert (below.strip(), said.strip()) == (ROW["timeline"], "believed from 1990 on, begins 22 years too early")
    (_, wide) = lines_of(WRONG, width=160)
    assert ROW["timeline"] in wide and "wrong period: believed from 1990 on" in wide


def test_what_is_said_of_a_fact_stands_behind_its_verdict_or_below() -> None:
    assert lines_of(HELD, width=200)[1].endswith("shaky; today stale, says Nicolas Sarkozy (held until 2012-05-15)")
    assert lines_of(HELD, width=80)[3].strip() == "today stale, says Nicolas Sarkozy (held until 2012-05-15)"
    assert lines_of(ROW, NONE, width=160)[2].endswith("2017-05-14  not asked with dates: no question: give one")


def test_an_unknown_fact_with_a_high_win_rate_says_why() -> None:
    told = "7 % of decoys do as well"
    assert lines_of(UNKNOWN, width=160)[1].endswith(f"W  93 %  unknown: {told}")
    assert any(line.strip().endswith(told) for line in lines_of(UNKNOWN, width=80)[2:])
    assert verdict_in_words(UNKNOWN) == f"unknown, W 93 %; {told}"
    alone = UNKNOWN | {"chance": None, "decoys": None}
    assert lines_of(alone, width=160)[1].endswith("unknown: no decoys to compare with")
    asked = UNKNOWN | {"chance": 0.02, "win_rate_low": 0.6, "win_rate_lost": 0.5, "weaker_side": 0.44}
    assert lines_of(asked, width=160)[1].endswith("unknown: W may be as low as 44 %")
    few = UNKNOWN | {"chance": 1 / 11, "ranked_among": 10}
    assert doubt_in_words(few) == "no decoy does as well, but 10 are too few"
    assert doubt_in_words(few | {"chance": 2 / 11}) == "18 % of decoys do as well"
    # Nothing is to be explained of a fact that wins no more than half, or that is not unknown.
    for row in (UNKNOWN | {"win_rate": 0.5}, ROW | {"chance": 0.03}):
        assert doubt_in_words(row) == ""


@pytest.mark.parametrize("letters", [*range(30, 38), 80])
@pytest.mark.parametrize("width", [60, 120, 400])
def test_a_name_longer_than_its_column_stands_apart_from_its_dates(letters, width):
    rows = [ROW | {"object": "n" * letters, "timeline": ""}, ROW | {"object": "Quimby", "timeline": ""}]
    lines = [line.plain for line in verdict_lines(pl.DataFrame(rows, infer_schema_length=None), width)]
    assert any(line.startswith(f"  {'n' * letters}  2012-05-15 to 2017-05-14  W ") for line in lines)
