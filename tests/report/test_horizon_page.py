"""The page of horizons: what stands in its tables, that nothing of the data is markup, and that it loads nothing."""

import base64
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from anachron.probe.horizon.summary import KINDS_SCHEMA
from anachron.report.horizon_page import HorizonPart, horizon_page
from support.browser import wider

COUNTS = {
    "changes": 1200, "known_subjects": 900, "new_preferred": 0.5, "decoys_preferred": 0.1,
    "still": {"rows": 0, "new_preferred": None}, "invented": {"rows": 0, "new_preferred": None},
}  # fmt: skip
TOLD = {
    "model": "one", "told": True, "plateau": 0.8, "floor": 0.1, "counts": COUNTS,
    "halving": {"date": "2019-03", "low": "2018-11", "high": "2019-08"},
    "end": {"date": "2019-12", "no_later_than": "2020-04"}, "curves": {"one fall": 0.9, "two falls": 0.1, "gap": 0.0},
    "chance_of_horizon_of_decoys": 0.03,
}  # fmt: skip
LEAK = {
    "claim": "2020-12", "told": True, "leaked": True, "changes": 40, "new_preferred": 0.4, "decoys_preferred": 0.0,
    "ahead_without_knowing": 0.0, "p": 0.001, "asked": 44, "judged": 44, "error": None,
    "likeliest_decoys_preferred": 0.1, "p_likeliest": 0.004, "smallest_seen": 0.2,
    "gave_away": [{"subject": "<b>X</b>", "relation": "mayor", "old": "A & B", "new": "C", "date": "2021-05"}],
}  # fmt: skip
KINDS = pl.DataFrame(
    [["mayor", 1100, 0.5, "2019-02", "2018-10", "2019-09"], ["owner", 100, 0.4, "2019-04", "2018-01", "2020-09"]],
    schema=KINDS_SCHEMA, orient="row",
)  # fmt: skip
APART = {
    "first": "one", "second": "two", "changes": 700, "only_first": 12, "only_second": 30, "p": 0.0081, "later": 7.4,
    "low": -1.2, "high": 15.6,
}  # fmt: skip


class Reader(HTMLParser):
    """Rows of tables as texts, and every attribute that could load something."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: set[str] = set()
        self.sources: list[str] = []
        self.regions: list[dict[str, str | None]] = []
        self.cell = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.sources += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "data")]
        if ("class", "wide") in attrs:
            self.regions.append(dict(attrs))
        if tag == "tr":
            self.rows.append([])
        if tag == "td":
            self.rows[-1].append("")
        self.cell = tag == "td"

    def handle_data(self, text: str) -> None:
        if self.cell:
            self.rows[-1][-1] += text.strip()


def test_the_tables_say_what_was_found_and_nothing_is_loaded() -> None:
    picture = b"<svg xmlns='http://www.w3.org/2000/svg'/>"
    parts = [HorizonPart(TOLD | {"leak": LEAK}, KINDS, picture), HorizonPart(TOLD | {"model": "two"}, KINDS)]
    page = horizon_page(parts, [APART, APART | {"later": None, "low": None, "high": None}])
    read = Reader(page)
    rows = [row for row in read.rows if row]
    kinds = [["mayor", "1,100", "2019-02", "2018-10", "2019-09"], ["owner", "100", "2019-04", "2018-01", "2020-09"]]
    apart = ["one", "two", "700", "12", "30", "0.008"]
    assert rows == [
        *kinds, ["2021-05", "<b>X</b>", "mayor", "A & B", "C"], *kinds, [*apart, "7", "-1", "16"],
        [*apart, "–", "–", "–"],
    ]  # fmt: skip
    assert re.findall('class="lead">(.*)</p>', page) == [
        f"{name} learned until March 2019 (November 2018 to August 2019)" for name in ("one", "two")
    ]
    assert "halving date: 2019-03 (95 %: 2018-11 to 2019-08)" in page
    assert "<h1>Until when did one and two learn?</h1>" in page
    assert len(re.findall('class="leak">claimed cut-off 2020-12: LEAK', page)) == 1
    assert read.sources == [f"data:image/svg+xml;base64,{base64.b64encode(picture).decode()}"]
    assert not read.tags & {"script", "b", "link", "iframe"}
    # What may be wider than the screen is reached by the keyboard and has a name.
    assert len(read.regions) == page.count("<table") + page.count("<img") == 5
    assert all(region["tabindex"] == "0" and region["aria-label"] for region in read.regions)
    assert '<meta name="color-scheme" content="light dark">' in page


def test_what_cannot_be_told_is_said() -> None:
    page = horizon_page([HorizonPart({"model": "<i>", "told": False, "reason": "too few", "counts": COUNTS})])
    assert "cannot tell until when it learned: too few" in page
    assert "<i>" not in page
    assert not [row for row in Reader(page).rows if row]


@pytest.mark.full
def test_nothing_is_clipped(tmp_path: Path, browser: Any) -> None:
    picture = b"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 800 300'/>"
    parts = [HorizonPart(TOLD | {"leak": LEAK}, KINDS, picture), HorizonPart(TOLD | {"model": "two" * 30}, KINDS)]
    (tmp_path / "index.html").write_text(horizon_page(parts, [APART]), "utf-8")
    for width in (390, 1400):
        page = browser.new_context(viewport={"width": width, "height": 844}).new_page()
        page.goto((tmp_path / "index.html").as_uri())
        assert wider(page) == [] and page.evaluate("document.documentElement.scrollWidth") <= width
