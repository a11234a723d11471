"""One table of changes, whoever tells of them: the package, a user's file, two snapshots."""

from pathlib import Path

import polars as pl
import pytest

from anachron.core.errors import DataError
from anachron.io.jobs import Callbacks
from anachron.probe.horizon.changes import GRADES, changes_of_table
from anachron.probe.horizon.find import TWO_VALUED, read_horizon_changes
from anachron.probe.horizon.questions import changes_to_ask
from anachron.probe.horizon.read import CHANGE_SCHEMA, read_changes
from anachron.wikidata.reading.snapshot import open_snapshot
from anachron.wikidata.updates.build import UpdateSettings, build_updates
from wikidata.updates.world import write_world

NEEDED = ["subject", "relation", "old", "new", "date"]


def test_the_bundled_table_has_all_columns() -> None:
    table = read_changes()
    assert dict(table.schema) == CHANGE_SCHEMA
    assert table.select(NEEDED).drop("new").null_count().sum_horizontal().item() == 0


@pytest.mark.full
def test_nearly_all_of_the_bundled_changes_can_be_asked_and_seen_to_be_known() -> None:
    table, changes = read_changes(), read_horizon_changes()
    asked = changes_to_ask(changes)
    assert len(asked) == len(changes) == table.filter(~pl.col("relation").is_in(TWO_VALUED)).height
    assert {change.relation for change in changes}.isdisjoint(TWO_VALUED)
    real = [one for one in asked if not one.change.control]
    assert sum(len(one.others) < 3 for one in real) < len(real) / 100  # nearly all can be seen to be known
    assert all(len(one.names) <= 11 for one in asked)


def test_grades_of_the_bundled_table_are_those_of_its_changes() -> None:
    table = read_changes()
    assert [one.predictable or None for one in changes_of_table(table)] == table["predictable"].to_list()
    assert set(table["predictable"]) == {None, *GRADES}


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """The updates between two snapshots of the made-up world, in which Sylvania has another president."""
    folder = tmp_path_factory.mktemp("built")
    old, new = write_world(folder, buckets=3)
    build_updates(open_snapshot(old), open_snapshot(new), folder / "u.parquet", UpdateSettings())
    return folder / "u.parquet"


def test_what_build_updates_writes_gives_the_table_that_a_file_by_hand_gives(built: Path, tmp_path: Path) -> None:
    told: list[str] = []
    table = read_changes(built, callbacks=Callbacks(warn=told.append))
    assert dict(table.schema) == CHANGE_SCHEMA
    replaced = pl.read_parquet(built).filter("is_replace")
    expected = []
    for row in replaced.iter_rows(named=True):
        labels = {one["decision"]: one for one in row["objects"]}
        start = labels["new"]["start"] or labels["new"]["point_in_time"]
        if start is not None and len(start) >= 7:
            expected.append(
                {"subject": row["subject"]["label"], "relation": row["relation"]["label"],
                 "old": labels["obsolete"]["label"], "new": labels["new"]["label"], "date": start}
            )  # fmt: skip
    assert expected, "the made-up world has no replacement with a date"
    assert table.select(NEEDED).to_dicts() == expected
    assert bool(told) == (len(expected) < replaced.height)
    by_hand = tmp_path / "mine.csv"
    pl.DataFrame(expected).write_csv(by_hand)
    assert read_changes(by_hand).select(NEEDED).equals(table.select(NEEDED))
    with_ids = changes_of_table(table)
    assert [one.relation_id for one in with_ids] == table["relation_id"].to_list()
    assert changes_to_ask(with_ids)


def test_bundled_updates_give_changes_with_their_dates(tmp_path: Path) -> None:
    from anachron.data.bundled.mini_updates import mini_replacements, mini_updates

    mini_updates().write_parquet(tmp_path / "updates.parquet")
    table = read_changes(tmp_path / "updates.parquet")
    dated = [one for one in mini_replacements() if one.date.month is not None]
    assert table.select("subject", "old", "new", "date").rows() == [
        (one.old.subject, one.old.object, one.new.object, str(one.date)) for one in dated
    ]


def test_facts_that_follow_each_other_give_the_same_table_as_their_changes(tmp_path: Path) -> None:
    facts, changes = tmp_path / "facts.csv", tmp_path / "changes.csv"
    facts.write_text("subject,relation,object,start,end\nX,mayor,A,2001-01-01,2008-05-01\nX,mayor,B,2008-05-02,\n")
    changes.write_text("subject,relation,old,new,date\nX,mayor,A,B,2008-05-02\n")
    assert read_changes(facts).equals(read_changes(changes))


def test_the_changes_of_the_bundled_facts_have_a_name() -> None:
    table = read_changes("mini")
    assert table.height > 500
    assert table["relation_id"].null_count() == 0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("subject,relation,old,new\nX,mayor,A,B\n", "lacks the column date"),
        ("subject,relation,old,new,date\nX,mayor,A,B,2020\n", "row 1: date 2020: give the month too"),
        ("subject,relation,object,start,end\nX,mayor,A,2001-01-01,\n", "nothing changes"),
    ],
)
def test_a_file_with_a_fault_is_refused_by_name(content: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(content)
    with pytest.raises(DataError, match=words) as error:
        read_changes(path)
    assert str(error.value).count("mine.csv") == 1


def test_updates_without_dates_are_refused(built: Path, tmp_path: Path) -> None:
    undated = pl.read_parquet(built).with_columns(
        pl.col("objects").list.eval(
            pl.element().struct.with_fields(start=pl.lit(None, pl.String), point_in_time=pl.lit(None, pl.String))
        )
    )
    undated.write_parquet(tmp_path / "undated.parquet")
    with pytest.raises(DataError, match=r"undated.parquet: none of \d+ updates replaces one value by another"):
        read_changes(tmp_path / "undated.parquet")
