"""Small cases of updates that random pairs of snapshots have brought to light."""

import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from anachron.updates.diff import align
from anachron.updates.groups import Sieve, without_duplicates
from anachron.updates.popularity import find_levels, log_popularity
from anachron.updates.triples import KEPT
from anachron.wikidata.snapshot import open_snapshot
from wikidata.made import STATEMENTS, entity, statement, write_snapshot


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
