"""Changes from tables and from facts."""

from pathlib import Path

import polars as pl
import pytest

from anachron.core.dates import Date
from anachron.core.errors import DataError
from anachron.core.facts import Fact
from anachron.core.periods import Period
from anachron.probe.horizon.changes import Change, changes_of_facts, changes_of_table, month_of, month_text, sample
from anachron.probe.horizon.find import read_horizon_changes
from anachron.probe.horizon.questions import bundled_wordings, changes_to_ask
from anachron.probe.horizon.read import mini_changes_of_facts


def fact(object: str, start: str, end: str | None, subject: str = "Ruritania") -> Fact:
    return Fact(subject, "head of state", object, Period(start, end), relation_id="P35")


def table(**columns: list[object]) -> pl.DataFrame:
    given = {"subject": ["A"], "relation": ["mayor"], "old": ["X"], "new": ["Y"], "date": ["2020-05"]}
    return pl.DataFrame(given | columns)


def test_months_are_counted_and_written() -> None:
    assert month_of(Date(2020, 1)) == 2020 * 12
    assert [month_text(month_of(Date.parse(text))) for text in ("2020-12-31", "2021-01")] == ["2020-12", "2021-01"]


def test_facts_that_follow_each_other_are_changes() -> None:
    facts = [
        fact("C", "2015-03-02", None),
        fact("A", "2001-01-01", "2008-05-01"),
        fact("B", "2008-05-02", "2015-03-01"),
    ]
    found = changes_of_facts(facts)
    assert [(c.old, c.new, str(c.date), c.before) for c in found] == [
        ("A", "B", "2008-05-02", ()), ("B", "C", "2015-03-02", ("A",)),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "second",
    [
        fact("B", "2012-01-01", None),  # years after the first ended
        fact("B", "2006-01-01", None),  # years before: two hold together
        fact("B", "2008", None),  # the month is not known
        fact("A", "2008-05-02", None),  # nothing changed
        fact("B", "2008-05-02", None, "Syldavia"),  # of another subject
    ],
)
def test_facts_that_do_not_follow_each_other_are_none(second: Fact) -> None:
    assert changes_of_facts([fact("A", "2001-01-01", "2008-05-01"), second]) == []


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"date": ["2020"]}, "row 1: date 2020: give the month too"),
        ({"date": ["soon"]}, "row 1: 'soon' is not a date"),
        ({"new": ["X"]}, "row 1, new: 'X' is also the old value"),
        ({"old": [""]}, "row 1, old: it is empty"),
        ({"control": ["dead"]}, "row 1, control: 'dead' is not one of still, invented"),
        ({"predictable": ["maybe"]}, "row 1, predictable: 'maybe' is not one of low, medium, high, yes or no"),
        ({"control": ["still"]}, "the rows contain no change"),
    ],
)
def test_a_table_with_a_fault_is_refused_with_its_place(columns: dict[str, list[object]], words: str) -> None:
    with pytest.raises(DataError, match=words):
        changes_of_table(table(**columns))


def test_a_table_without_a_column_is_refused() -> None:
    with pytest.raises(DataError, match="lacks the column old"):
        changes_of_table(table().drop("old"))


def test_values_before_come_from_earlier_changes_of_the_subject() -> None:
    rows = table(
        subject=["A", "A", "B"], relation=["mayor"] * 3, old=["Y", "X", "Q"], new=["Z", "Y", "X"],
        date=["2020-05", "2015-01", "2021-01"], predictable=["yes", "Medium", None], popularity=[3, None, 1],
    )  # fmt: skip
    found = changes_of_table(rows)
    assert [c.before for c in found] == [("X",), (), ()]
    assert [c.predictable for c in found] == ["high", "medium", ""]
    assert [c.popularity for c in found] == [3.0, None, 1.0]


def test_a_sample_is_fixed_and_keeps_the_share_of_controls() -> None:
    changes = [
        Change(f"S{i}", "mayor", "X", "Y", Date(2020, 5), control="still" if i % 3 == 0 else "") for i in range(300)
    ]
    few = sample(changes, 20)
    assert sum(not c.control for c in few) == 20
    assert sum(bool(c.control) for c in few) == 10
    assert sample(list(reversed(changes)), 20) == list(reversed(few))
    assert sample(changes, None) == changes


def test_wordings_of_relations_and_of_roles() -> None:
    known = bundled_wordings(Change("France", "head of state", "A", "B", Date(2020, 5)))
    assert known[0] == "The head of state of France is"
    assert known[-1] == "who is the head of state of France?"
    role = bundled_wordings(Change("Acme", "head coach", "A", "B", Date(2020, 5)))
    assert role[0] == "The head coach of Acme is"
    assert bundled_wordings(Change("Acme", "sound of", "A", "B", Date(2020, 5))) == ()


def test_others_and_decoys_are_never_values_of_the_subject() -> None:
    changes = [Change(f"S{i}", "mayor", f"O{i}", f"N{i}", Date(2020, 5)) for i in range(6)]
    asked = changes_to_ask(changes)
    assert len(asked) == 6
    for one in asked:
        own, drawn = {one.change.old, one.change.new}, [*one.others, *one.decoys]
        assert len(set(drawn)) == len(drawn) == 6
        assert not own & set(drawn)
    assert changes_to_ask(list(reversed(changes))) == list(reversed(asked))


def test_bundled_facts_make_changes_each_once() -> None:
    changes = mini_changes_of_facts()
    keys = [(c.subject, c.relation_id, c.old, c.new, str(c.date)) for c in changes]
    assert len(set(keys)) == len(keys) > 500
    france = [(c.old, c.new) for c in changes if (c.subject, c.relation_id) == ("France", "P35")]
    assert ("François Hollande", "Emmanuel Macron") in france


def test_a_file_of_facts_or_of_changes_is_read(tmp_path) -> None:
    facts, changes = tmp_path / "facts.csv", tmp_path / "changes.csv"
    facts.write_text("subject,relation,object,start,end\nX,mayor,A,2001-01-01,2008-05-01\nX,mayor,B,2008-05-02,\n")
    changes.write_text("subject,relation,old,new,date\nX,mayor,A,B,2008-05-02\n")
    (one,), (other,) = read_horizon_changes(facts), read_horizon_changes(changes)
    assert (one.subject, one.old, one.new, one.date) == (other.subject, other.old, other.new, other.date)


@pytest.mark.parametrize(
    ("first", "delimiter", "encoding"), [("", ";", "utf-8"), ("sep=|\n", "|", "utf-8-sig"), ("", "\t", "utf-16")]
)
def test_a_file_of_facts_is_read_as_all_commands_read_it(
    tmp_path: Path, first: str, delimiter: str, encoding: str
) -> None:
    rows = (("subject", "relation", "object", "start", "end"), ("X", "mayor", "Ä", "2001-01-01", "2008-05-01"))
    lines = [*rows, ("X", "mayor", "B, C", "2008-05-02", "")]
    text = "\n".join(delimiter.join(f'"{cell}"' for cell in line) for line in lines)
    (tmp_path / "facts.csv").write_bytes((first + text).encode(encoding))
    (change,) = read_horizon_changes(tmp_path / "facts.csv")
    assert (change.old, change.new, str(change.date)) == ("Ä", "B, C", "2008-05-02")


def test_a_file_that_cannot_be_read_is_refused_in_the_words_of_all_commands(tmp_path: Path) -> None:
    (tmp_path / "facts.csv").write_bytes("subject,relation,object\nX,mayor,東京\n".encode("shift_jis"))
    with pytest.raises(DataError, match=r"facts.csv: line 2: the byte 0x93 is not UTF-8.* save the file as UTF-8"):
        read_horizon_changes(tmp_path / "facts.csv")


def test_decoys_are_about_as_popular_as_the_subject_where_that_is_known() -> None:
    """Six subjects that hardly anybody reads about, six that everybody does, and six of which it is not known."""
    sorts = {"few": 10.0, "many": 1e6, "some": None}
    changes = [
        Change(f"S{sort}{i}", "mayor", f"{sort} old {i}", f"{sort} new {i}", Date(2020, 5), popularity=popularity)
        for sort, popularity in sorts.items() for i in range(6)
    ]  # fmt: skip
    for one in changes_to_ask(changes):
        sort = one.change.old.split()[0]
        assert len(one.decoys) == 3
        assert not set(one.decoys) & {*one.others, one.change.old, one.change.new}
        assert sort == "some" or {name.split()[0] for name in one.decoys} == {sort}
    drawn = {name.split()[0] for one in changes_to_ask(changes) if one.change.popularity is None for name in one.decoys}
    assert drawn == {*sorts}  # where it is not known, anybody's
