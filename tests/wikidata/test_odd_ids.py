"""Single values that cannot be read, as an object that can be the id of no entity: set aside with their subject."""

import json

import pytest

from anachron.wikidata.reading.ingest import ingest
from anachron.wikidata.reading.settings import IngestSettings
from anachron.wikidata.reading.snapshot import open_snapshot
from anachron.wikidata.selection.explain import explain_entity
from anachron.wikidata.selection.rules import Selection
from anachron.wikidata.selection.select import select_facts
from anachron.wikidata.updates.build import UpdateSettings, build_updates
from anachron.wikidata.updates.explain import explain_changes
from wikidata.dumps import NOVALUE, entity, item, statement, time, write_dump
from wikidata.made import write_snapshot
from wikidata.updates.world import NEW, NEW_DATE, OLD, OLD_DATE, PROPERTIES, VIEWS, entities, fact

ODD = "Q9223372036854775808"  # one more than 64 bits with a sign hold


def test_the_ingest_names_its_subject_and_counts_it(tmp_path, capsys):
    period = {"P580": time("1990"), "P582": time("2000")}
    claims = [statement("P39", entity(ODD), qualifiers=period), statement("P39", entity("Q2"), qualifiers=period)]
    made = [item("Q1", "one", title="One", claims=claims), item("Q2", "two")]
    path = write_dump(tmp_path / "d.json", made)
    counts = ingest(path, tmp_path / "s", IngestSettings("2021", buckets=1))["counts"]
    assert (counts["values_left_out"], counts["bad"], counts["items"], counts["statements"]) == (1, 0, 2, 2)
    [row] = [json.loads(line) for line in (tmp_path / "s" / "bad.jsonl").read_text().splitlines()]
    assert (row["id"], row["lost"]) == ("Q1", "value") and ODD in row["reason"] and "P39" in row["reason"]
    selected = select_facts(open_snapshot(tmp_path / "s"), Selection(popularity=False))
    steps = {step["step"]: step["dropped"] for step in selected.steps}
    assert steps["known values"]["its value is unknown"] == 1
    whole = ingest(write_dump(tmp_path / "e.json", made[1:]), tmp_path / "t", IngestSettings("2021", buckets=1))
    assert "values_left_out" not in whole["counts"]


def test_the_ingest_names_a_time_of_a_strange_precision_and_counts_it(tmp_path):
    claims = [statement("P39", entity("Q2")), statement("P571", time("2000", 77))]
    made = [item("Q1", "one", title="One", claims=claims), item("Q2", "two", claims=claims)]
    counts = ingest(write_dump(tmp_path / "d.json", made), tmp_path / "s", IngestSettings("2021", buckets=1))["counts"]
    assert (counts["values_left_out"], counts["bad"], counts["items"], counts["statements"]) == (2, 0, 2, 2)
    rows = [json.loads(line) for line in (tmp_path / "s" / "bad.jsonl").read_text().splitlines()]
    assert [(row["id"], row["lost"]) for row in rows] == [("Q1", "value"), ("Q2", "value")]
    assert all("P571" in row["reason"] and "precision 77" in row["reason"] for row in rows)


@pytest.mark.full
@pytest.mark.parametrize("odd", [ODD, "Q99999999999999", "Z1"])
def test_a_snapshot_that_holds_one_is_compared_and_selected_from(tmp_path, odd):
    """`build updates` once ended by it after all buckets were compared, and named neither subject nor snapshot."""
    period = ("1990", "2000")
    more = [fact("Q3$odd", "Q3", "P54", odd, *period), fact("Q70$odd", "Q70", "P35", odd, *period)]
    sides = []
    for name, rows in (("plain", []), ("odd", more)):
        old = write_snapshot(tmp_path / name / "old", entities(True), OLD + rows, PROPERTIES, date=OLD_DATE)
        new = write_snapshot(
            tmp_path / name / "new", entities(False), NEW + rows, PROPERTIES, date=NEW_DATE, popularity=VIEWS
        )
        sides.append((old, new))
    (old, new) = sides[1]
    plain, built = (build_updates(*pair, tmp_path / f"{n}.parquet", UpdateSettings()) for n, pair in enumerate(sides))
    assert plain.updates.drop("neighborhood").equals(built.updates.drop("neighborhood"), null_equal=True)
    for side in ("old", "new"):
        known = {step["step"]: step["dropped"] for step in built.steps[side]}["known values"]
        assert known["its value is unknown"] == 2
    told = [change for change in explain_changes(old, new, "Q3").changes if change.value == odd]
    assert [(change.side, change.dropped) for change in told] == [("both", "known values: its value is unknown")]
    verdicts = explain_entity(old, "Q3", Selection(popularity=False)).verdicts
    assert [verdict.reason for verdict in verdicts if verdict.value_id == odd] == ["its value is unknown"]
    selected = select_facts(open_snapshot(old), Selection(popularity=False))
    steps = {step["step"]: step["dropped"] for step in selected.steps}
    assert steps["known values"]["its value is unknown"] == 2


@pytest.mark.full
def test_explain_calls_an_unknown_value_unknown(tmp_path):
    made = [item("Q1", "one", title="One", claims=[statement("P39", entity(ODD)), statement("P40", NOVALUE)])]
    path = write_dump(tmp_path / "d.json", made)
    sides = [tmp_path / year for year in ("2021", "2023")]
    for side in sides:
        ingest(path, side, IngestSettings(side.name, buckets=1))
    told = {change.property_id: change.value for change in explain_changes(*sides, "Q1").changes}
    assert told == {"P39": "unknown", "P40": "no value"}
