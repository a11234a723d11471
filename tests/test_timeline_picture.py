"""tools/timeline_picture.py: one fact's years as bars, with the wrong ones that beat a right one in red."""

import sys
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

from timeline_picture import marked, picture, years_of

SVG = "{http://www.w3.org/2000/svg}"
# year, status, log-probability: 2004 is wrong and beats 2002, the weakest right year; so does 2003, which is neither
ROWS = [
    (None, "none", -9.0), (2000, "incorrect", -8.0), (2001, "transitional", -7.0), (2002, "correct", -3.0),
    (2003, "transitional", -1.0), (2004, "incorrect", -2.5), (2005, "incorrect", -3.5),
]  # fmt: skip


def scores() -> pl.DataFrame:
    rows = [
        {
            "model": "m", "fact_id": "f", "granularity": granularity, "time": time and str(time), "status": status,
            "logp": logp, "subject_label": "<S>", "object_label": "A & B", "question": "who was it?",
        }
        for granularity in ("day", "year") for time, status, logp in reversed(ROWS)
    ]  # fmt: skip
    return pl.DataFrame(rows)


def test_bars_are_the_scores_and_red_ones_beat_the_weakest_right_year():
    drawn = ElementTree.fromstring(picture(years_of(scores(), "A & B"), "who was it?", "model <m>"))
    bars = [rect for rect in drawn.iter(f"{SVG}rect") if rect.get("class") != "held"]
    assert [bar.get("class") for bar in bars] == ["wrong", "part", "right", "part", "lost", "wrong"]
    assert [bar[0].text for bar in bars] == [f"{time}: {logp:.2f} nats" for time, _, logp in ROWS[1:]]
    heights = [float(bar.attrib["height"]) for bar in bars]
    slopes = [  # pixels a nat, the same between all neighbours
        (heights[i + 1] - heights[i]) / (ROWS[i + 2][2] - ROWS[i + 1][2]) for i in range(len(heights) - 1)
    ]
    assert slopes == pytest.approx([slopes[0]] * 5, abs=0.2) and slopes[0] > 0
    words = " | ".join("".join(text.itertext()) for text in drawn.iter(f"{SVG}text"))
    for said in ("Who was it?", "A & B: log-probability", "from 2001 to 2003", "1 wrong year at or above", "model <m>"):
        assert said in words
    legend = {path.get("class") for path in drawn.iter(f"{SVG}path")}
    assert legend == {bar.get("class") for bar in bars}
    for said in ("a year when it held", "when it began or ended", "a wrong year that beats a right one"):
        assert said in words
    prior = next(line for line in drawn.iter(f"{SVG}line") if line.get("class") == "prior")
    assert float(prior.attrib["y1"]) > max(float(bar.attrib["y"]) for bar in bars)  # lower than every bar's top


def test_one_fact_is_named():
    with pytest.raises(SystemExit, match="0 facts of 0 models have the object 'C'"):
        years_of(scores(), "C")
    two = pl.concat([scores(), scores().with_columns(fact_id=pl.lit("g"), subject_label=pl.lit("T"))])
    with pytest.raises(SystemExit, match="2 facts of 1 models"):
        years_of(two, "A & B")
    assert years_of(two, "A & B", "T").height == len(ROWS)


@pytest.mark.parametrize("first, last, count", [(2000, 2005, 6), (1900, 2000, 11), (1815, 2010, 10)])
def test_marked_years(first: int, last: int, count: int):
    years = marked([first, last])
    assert len(years) == count and all(first <= year <= last for year in years)
