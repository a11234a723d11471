"""What notebooks show: read back by an HTML parser, the texts are what they were."""

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from anachron.core.facts import Fact
from anachron.core.notebook import html_record, html_table
from anachron.core.periods import Period


class Cells(HTMLParser):
    """The texts of a table's cells, its title and how often each tag begins."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.cells, self.tags, self.title, self.inside = [], [], "", ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.inside = tag
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        if self.inside in ("td", "th"):
            self.cells[-1] += data
        elif self.inside == "caption":
            self.title += data


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)


@given(TEXT, st.lists(TEXT, min_size=1, max_size=3), st.integers(0, 3))
def test_every_text_comes_back_whatever_is_in_it(title, header, count):
    rows = [[name + "<b>" for name in header] for _ in range(count)]
    seen = Cells(html_table(title, header, rows))
    assert seen.title == title and seen.cells == header + [cell for row in rows for cell in row]
    assert set(seen.tags) <= {"table", "caption", "thead", "tbody", "tr", "th", "td"}


def test_what_is_not_known_is_left_out():
    seen = Cells(html_record("t", {"a": 1, "b": None, "c": "x & y"}))
    assert seen.cells == ["a", "1", "c", "x & y"] and "th" not in seen.tags


def test_a_fact():
    fact = Fact("the <USA>", "president", "Barack Obama", Period("2009-01-20", "2017-01-20"), subject_id="Q30")
    seen = Cells(fact._repr_html_())
    assert seen.title == f"Fact {fact.id}"
    assert dict(zip(seen.cells[::2], seen.cells[1::2], strict=True)) == {
        "subject": "the <USA> (Q30)", "relation": "president", "object": "Barack Obama", "start": "2009-01-20",
        "end": "2017-01-20",
    }  # fmt: skip
