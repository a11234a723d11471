"""Timelines: merged columns, the errors chosen, and the marks drawn."""

import polars as pl
import pytest

from anachron.analysis.analyses.timelines import worst_errors
from anachron.analysis.plots.words import year_name
from anachron.probe.check.verdicts import BARS, columns_of, short_timeline, timeline

RUN = {"model": "m", "format": "raw", "prefix": "none"}
LABELS = {
    "fact_id": "f", "subject_label": "Springfield", "relation_label": "mayor", "object_label": "Quimby",
    "start": "2000", "end": "2001",
}  # fmt: skip


def year(time, status="incorrect", alpha=0.6, logp=-9.0, lost=False):
    far = lost and abs(alpha) >= 1
    return {"time": time, "status": status, "alpha": alpha, "logp": logp, "lost": lost, "far": far}


def timelines_of(*years, **values):
    """Rows of one rank of the table ``timelines``."""
    rows = [RUN | LABELS | {"rank": 1, "win_rate": 0.95, "prior": None} | y | values for y in years]
    return pl.DataFrame(rows, infer_schema_length=None)


def lost(*rows):
    """Rows (fact, alpha, W, time) as of `lost_matches`."""
    return pl.DataFrame([
        RUN | {"fact_id": fact, "alpha": alpha, "win_rate": win_rate, "time": time, "logp": -1.0, "lost": 1}
        for fact, alpha, win_rate, time in rows
    ])  # fmt: skip


def test_columns_keep_every_year_when_there_is_room():
    years = [year("2001", logp=-2.0), year("0090"), year("-0044", "correct", logp=-1.0), year("-0100")]
    found = columns_of(years, 4)
    assert [(c["first"], c["last"]) for c in found] == [(y, y) for y in ("-0100", "-0044", "0090", "2001")]
    assert [c["logp"] for c in found] == [-9.0, -1.0, -9.0, -2.0]
    assert [c["valid"] for c in found] == [False, True, False, False]


@pytest.mark.parametrize(("count", "width"), [(5, 2), (201, 100), (7, 7), (3, 100), (10, 1)])
def test_columns_split_the_years_evenly(count, width):
    found = columns_of([year(str(1000 + n)) for n in reversed(range(count))], width)
    assert len(found) == min(count, width)
    sizes = [int(c["last"]) - int(c["first"]) + 1 for c in found]
    assert sum(sizes) == count
    assert max(sizes) - min(sizes) <= 1
    assert [int(c["first"]) for c in found[1:]] == [int(c["last"]) + 1 for c in found[:-1]]


def test_merged_columns_take_the_best_score_and_the_worst_mark():
    years = [
        year("2000", "correct", 0.0, -5.0), year("2001", lost=True, alpha=0.9, logp=-3.0),
        year("2002", lost=False, alpha=3.0, logp=-1.0), year("2003", lost=True, alpha=-1.0),
        year("2004", alpha=2.0), year("2005", "transitional", 0.5),
    ]  # fmt: skip
    found = columns_of(years, 3)
    assert [c["logp"] for c in found] == [-3.0, -1.0, -9.0]
    assert [c["valid"] for c in found] == [True, False, False]
    assert [c["lost"] for c in found] == [True, True, False]
    assert [c["far"] for c in found] == [False, True, False]


def test_no_years_no_columns():
    assert columns_of([]) == []


def test_worst_errors_are_far_known_and_one_a_fact():
    table = lost(
        ("near", 0.9, 0.95, "2010"), ("unknown", 4.5, 0.89, "2040"), ("perfect", 4.0, 1.0, "2030"),
        ("one", 1.0, 0.9, "2012"), ("two", 2.0, 0.95, "2014"), ("two", -3.0, 0.95, "1970"), ("two", 2.5, 0.95, "2015"),
    )  # fmt: skip
    assert worst_errors(table, 10).select("rank", "fact_id", "win_rate").rows() == [(1, "two", 0.95), (2, "one", 0.9)]
    assert worst_errors(table, 1)["fact_id"].to_list() == ["two"]


def test_worst_errors_of_each_run():
    table = lost(("one", 2.0, 0.95, "2014"))
    both = pl.concat([table, table.with_columns(pl.lit("n").alias("model"), pl.lit(-4.0).alias("alpha"))])
    assert worst_errors(both, 10).select("rank", "model").rows() == [(1, "n"), (2, "m")]
    assert worst_errors(table.clear(), 10).height == 0


def test_timeline_marks_and_bars():
    table = timelines_of(
        year("1990", alpha=-2.0, logp=-4.0, lost=True), year("1998", alpha=-0.9, logp=-4, lost=True),
        year("1999", "transitional", -0.5, -6), year("2000", "correct", -0.1, -1.0),
        year("2001", "correct", 0.1, -4.0), year("2002", alpha=0.7, logp=-8.0), year("2010", alpha=3.0, logp=-4.5),
    )  # fmt: skip
    lines = timeline(table.reverse()).plain.split("\n")
    assert lines[0] == "Springfield | mayor | Quimby   held 2000 to 2001   m, W 95.0 %"
    assert lines[1] == "".join(BARS[round(7 * (x + 8) / 7)] for x in (-4, -4, -6, -1, -4, -8, -4.5))
    assert (lines[1][3], lines[1][5]) == ("█", "▁")
    assert lines[2] == "!x ==  "
    assert lines[3].startswith("1990")
    assert lines[3].endswith("2010")
    assert lines[4] == "the farthest: 1990, 2.0 periods from the middle of its own"


def test_the_farthest_is_named_not_the_first():
    table = timelines_of(
        year("1990", alpha=-2.0, lost=True), year("2000", "correct", 0.0, -1.0), year("2040", alpha=4.0, lost=True),
        year("2050", alpha=5.0),
    )  # fmt: skip
    assert "the farthest: 2040, 4.0 periods" in timeline(table).plain


def test_timeline_colours_the_bars():
    table = timelines_of(
        year("1990", alpha=-2.0, logp=-1.0, lost=True), year("1999", logp=-9.0), year("2000", "correct", 0.0, -4.0),
    )  # fmt: skip
    text = timeline(table)
    first = text.plain.index("\n") + 1
    assert {span.start - first: span.style for span in text.spans if first <= span.start < first + 3} == {
        0: "red", 1: "dim", 2: "green",
    }  # fmt: skip
    assert any(span.style == "bold red" for span in text.spans)


def test_timeline_of_equal_scores_is_flat():
    table = timelines_of(year("2000", "correct", logp=-2.0), year("2001", alpha=1.0, logp=-2.0, lost=True))
    assert timeline(table).plain.split("\n")[1:3] == [BARS[0] * 2, "=!"]


def test_timeline_of_many_years_fits_the_width():
    years = (
        year(str(n), "correct" if n == 1950 else "incorrect", lost=n == 1900, alpha=2.0) for n in range(1900, 2001)
    )
    lines = timeline(timelines_of(*years), width=40).plain.split("\n")
    assert [len(line) for line in lines[1:4]] == [40, 40, 40]
    assert lines[2].count("=") == 1
    assert lines[3] == "1900" + "2000".rjust(36)


def test_timeline_before_the_common_era():
    far = year("-0050", alpha=-1.5, lost=True)
    table = timelines_of(far, year("-0044", "correct"), *(year(f"{n:04d}") for n in range(1, 30)))
    lines = timeline(table).plain.split("\n")
    assert lines[3].startswith("50 BCE")
    assert lines[3].endswith(" 29")
    assert lines[4].startswith("the farthest: 50 BCE, ")


@pytest.mark.parametrize(("year", "words"), [(2011, "2011"), (476, "476"), (-44, "44 BCE"), (-1, "1 BCE"), (0, "1")])
def test_years_in_words(year, words):
    assert year_name(year) == words


def year_scores(*pairs):
    """Year contexts from 2000 on: (nats, whether correct)."""
    rows = [
        {"time": str(2000 + n), "status": "correct" if held else "incorrect", "logp": logp}
        for n, (logp, held) in enumerate(pairs)
    ]
    return pl.DataFrame([*rows, {"time": None, "status": "none", "logp": -99.0}])


def test_a_short_timeline_brackets_the_period() -> None:
    assert short_timeline(year_scores((-8.0, False), (-1.0, True), (-4.5, True), (-8.0, False))) == "▁[█▅]▁"
    assert short_timeline(year_scores((-8.0, False), (-1.0, True))) == "▁[█]"
    assert short_timeline(year_scores((-1.0, True), (-8.0, False), (-1.0, True))) == "[█]▁[█]"
    assert short_timeline(year_scores((-2.0, False))) == "▁"
    assert short_timeline(year_scores()) == ""


def test_a_short_timeline_has_at_most_its_width_of_bars() -> None:
    line = short_timeline(year_scores(*((-float(n), 40 <= n < 60) for n in range(100))), width=20)
    assert len(line) == 22 and line.index("[") == 8 and line.index("]") == 13
