"""Small cases of updates that random pairs of snapshots have brought to light."""

from typing import Any

import polars as pl
import pytest

from anachron.updates.groups import Sieve, without_duplicates


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
