"""Small cases of updates that random pairs of snapshots have brought to light."""

import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from anachron.core.errors import DataError
from anachron.text.cloze import Cloze
from anachron.wikidata.reading.snapshot import open_snapshot
from anachron.wikidata.selection.tally import alive_rows
from anachron.wikidata.updates.build import UpdateSettings, build_updates, open_comparison
from anachron.wikidata.updates.diff import align
from anachron.wikidata.updates.groups import Sieve, without_duplicates
from anachron.wikidata.updates.popularity import find_levels, log_popularity
from anachron.wikidata.updates.triples import KEPT, clean_triples
from wikidata.made import STATEMENTS, boundary, entity, property_, statement, write_snapshot


@pytest.mark.parametrize(("labels", "stays"), [
    (["new", "new"], [0]), (["static", "new"], [1]), (["new", "static", "new"], [0]), (["obsolete", "obsolete"], [0]),
    (["static", "static"], [0]), (["obsolete", "new"], []), (["static", "obsolete"], []),
])  # fmt: skip
def test_of_objects_with_one_label_one_stays(labels: list[str], stays: list[int]):
    rows: list[dict[str, Any]] = [
        {"group": 0, "object_label": "Springfield", "label": name, "n": n} for n, name in enumerate(labels)
    ]
    rows.append({"group": 0, "object_label": "Shelbyville", "label": "new", "n": 8})
    rows.append({"group": 1, "object_label": "Springfield", "label": "obsolete", "n": 9})
    sieve = Sieve(pl.DataFrame(rows))
    without_duplicates(sieve)
    assert sieve.done()["n"].to_list() == [*stays, *([8] if stays else []), 9]


def test_without_views_of_its_own_or_its_classes_an_entity_has_the_median_of_all(tmp_path: Path):
    """Published is log(median + 1); between two numbers of views the median is half way, not so between their logs."""
    entities = [entity("Q1"), entity("Q2"), entity("Q3")]
    folder = write_snapshot(tmp_path / "s", entities, [], [], popularity={"Q1": 10.0, "Q2": 1000.0})
    new = open_snapshot(folder)
    assert log_popularity(new, ["Q3"], find_levels(new)) == {"Q3": pytest.approx(math.log(505 + 1))}


def test_a_time_written_otherwise_is_the_same_time():
    """The raw text of a year is +1990-00-00 or +1990-01-01: only its precision says what is meant."""
    made = {"value_type": "time", "value_precision": 9, "value_calendar": "gregorian"}
    one, other = (
        statement("Q1", "P569", "1990", value_extra=f"+1990-{rest}T00:00:00Z", **made) for rest in ("00-00", "01-01")
    )
    full = dict.fromkeys(STATEMENTS)
    rows = [
        pl.DataFrame([full | row], schema=STATEMENTS).with_row_index("position").select(KEPT) for row in (one, other)
    ]
    assert align(*rows)["flag"].to_list() == ["both"]


def pair_of_snapshots(
    folder: Path, old: list[Any], new: list[Any], buckets: int = 4, gone: tuple[str, ...] = ()
) -> Any:
    """Snapshots of Q1 to Q9 with views (``gone``: not in the new one), and the relations P27 and P742."""
    relations = [property_("P27"), property_("P742", datatype="string")]
    entities = [entity(f"Q{n}") for n in range(1, 10)]
    left = [e for e in entities if e["id"] not in gone]
    views = {e["id"]: 10.0 for e in left}
    before = write_snapshot(folder / "old", entities, old, relations, buckets=buckets)
    after = write_snapshot(folder / "new", left, new, relations, popularity=views, buckets=buckets, date="2023-02-27")
    return open_snapshot(before), open_snapshot(after)


TEMPLATES = {id: Cloze(id, (f"The {id} of [SUBJ] is [OBJ]",)) for id in ("P27", "P742")}


def text(subject: str, value: str, number: int, **more: Any) -> dict[str, Any]:
    kind = {"value_type": "text", "datatype": "string"}
    return statement(subject, "P742", value, statement_id=f"{subject}${number}", **kind, **more)


def test_a_subject_that_had_no_items_is_described_by_the_new_snapshot(tmp_path: Path):
    """003, A.4: the document is of the new snapshot where no triple of the old one has the subject and an item."""
    shared = [statement("Q2", "P27", "Q9"), statement("Q3", "P27", "Q8"), text("Q2", "two", 2), text("Q3", "three", 2)]
    old = [*shared, text("Q1", "one", 2, start="2010")]
    new = [*old, text("Q1", "other", 3, start="2022"), statement("Q1", "P27", "Q9")]
    pair = pair_of_snapshots(tmp_path, old, new)
    (row,) = build_updates(*pair, tmp_path / "u.jsonl", UpdateSettings(), templates=TEMPLATES).updates.to_dicts()
    assert [n["subject"]["id"] for n in row["neighborhood"]] == ["Q2", "Q3"]


@pytest.mark.few(2)
@pytest.mark.parametrize("buckets", [1, 2, 3, 5])
def test_facts_of_merged_subjects_come_by_their_number(tmp_path: Path, buckets: int):
    """A neighbour tells its first fact: its own, else that of the first item merged into it, in any bucket."""
    merged = [text("Q7", "seven", 1), text("Q6", "six", 1), text("Q5", "five", 1), text("Q4", "four", 1)]
    old = [*merged, statement("Q1", "P27", "Q9"), statement("Q2", "P27", "Q9"), text("Q2", "two", 2, start="2010")]
    new = [*old[4:], text("Q2", "other", 3, start="2022")]
    gone = ("Q4", "Q5", "Q6", "Q7")
    pair = pair_of_snapshots(tmp_path, old, new, buckets, gone)
    redirects = dict.fromkeys(gone, "Q1")
    built = build_updates(*pair, tmp_path / "u.jsonl", UpdateSettings(), templates=TEMPLATES, redirects=redirects)
    ((near,),) = built.updates["neighborhood"].to_list()
    assert near["subject"]["id"] == "Q1" and near["objects"][0]["object"]["label"] == "four"


def test_no_neighbours_may_be_asked_for(tmp_path: Path):
    rows = [text("Q2", "two", 2, start="2010"), text("Q3", "three", 1)]
    pair = pair_of_snapshots(tmp_path, rows, [*rows, text("Q2", "other", 3, start="2022")])
    (row,) = build_updates(
        *pair, tmp_path / "u.jsonl", UpdateSettings(neighbours=0), templates=TEMPLATES
    ).updates.to_dicts()
    assert row["neighborhood"] == row["random_neighborhood"] == []


def test_clean_triples_are_in_the_order_of_the_dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A streaming join gives rows in any order; of equal triples the first counts, so the order must not be chance."""
    rows = [text("Q2", value, n) for n, value in enumerate("cabcab")]
    old, new = pair_of_snapshots(tmp_path, rows, rows, buckets=1)
    comparison = open_comparison(old, new, UpdateSettings(), tmp_path)

    def shuffled(*given: Any) -> tuple[Any, pl.DataFrame]:
        tally, alive = alive_rows(*given)
        return tally, alive.sample(fraction=1, shuffle=True, seed=3)

    monkeypatch.setattr("anachron.wikidata.updates.triples.alive_rows", shuffled)
    triples = clean_triples(comparison.old, 0, comparison.steps, comparison.relations)[1]
    assert triples["statement_id"].to_list() == [row["statement_id"] for row in rows]


def test_of_two_counts_of_one_day_the_preferred_stays(tmp_path: Path):
    point = {"point": boundary("2020"), "value_type": "quantity", "datatype": "quantity"}
    rows = [
        statement("Q1", "P1082", "+5", **point),
        statement("Q1", "P1082", "+6", **point, rank="preferred"),
        statement("Q2", "P1082", "+7", **point),
        statement("Q2", "P1082", "+8", **point),
    ]
    single = property_("P1082", datatype="quantity", single_value=True, separators=["P585"])
    folder = write_snapshot(tmp_path / "s", [entity("Q1"), entity("Q2")], rows, [single], buckets=1)
    later = write_snapshot(tmp_path / "t", [entity("Q1"), entity("Q2")], rows, [single], buckets=1, date="2022-01-01")
    comparison = open_comparison(open_snapshot(folder), open_snapshot(later), UpdateSettings(), tmp_path / "work")
    kept = clean_triples(comparison.old, 0, comparison.steps, comparison.relations)[1]
    assert kept["value"].to_list() == ["+6", "+7"]


def test_times_that_cannot_be_read_are_the_same_only_where_they_are_written_the_same():
    made = {"value_type": "time", "value_precision": 11, "value_calendar": "gregorian"}
    one, other = (statement("Q1", "P569", None, value_extra=f"+1990-02-{day}T00:00:00Z", **made) for day in (30, 31))
    frames = [pl.DataFrame([dict.fromkeys(STATEMENTS) | row], schema=STATEMENTS) for row in (one, other)]
    old, new, again = (f.with_columns(position=pl.lit(0, pl.Int64)).select(KEPT) for f in (*frames, frames[0]))
    assert align(old, new)["flag"].to_list() == ["old", "new"]
    assert align(old, again)["flag"].to_list() == ["both"]


@pytest.mark.full
def test_a_merge_that_makes_two_facts_one_loses_none_that_the_new_snapshot_has_twice(tmp_path: Path):
    """Old: Q7 and Q8, both clubs of Q1. Q7 was merged into Q8, and the new snapshot names Q8 twice: nothing is new."""
    entities = [entity(id) for id in ("Q1", "Q8")]
    clubs = [statement("Q1", "P54", id, statement_id=id) for id in ("Q7", "Q8")]
    twice = [row | {"value": "Q8"} for row in clubs]
    old = write_snapshot(tmp_path / "old", [*entities, entity("Q7")], clubs, [property_("P54")])
    new = write_snapshot(tmp_path / "new", entities, twice, [property_("P54")], date="2022-01-01")
    sides, settings = (open_snapshot(old), open_snapshot(new)), UpdateSettings(popularity=False)
    with pytest.raises(DataError, match="no group of one subject and relation differs"):
        build_updates(*sides, tmp_path / "u.parquet", settings, redirects={"Q7": "Q8"})
    once = write_snapshot(tmp_path / "once", entities, twice[:1], [property_("P54")], date="2022-01-01")
    with pytest.raises(DataError, match="no group of one subject and relation differs"):
        build_updates(sides[0], open_snapshot(once), tmp_path / "v.parquet", settings, redirects={"Q7": "Q8"})
