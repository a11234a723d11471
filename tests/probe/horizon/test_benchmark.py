"""benchmarks/horizon.py: that it runs, and that what it says of a few answerers is what their rows say."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "horizon.py"


@pytest.mark.slow
def test_the_table_of_a_few_answerers_is_that_of_their_rows(tmp_path: Path):
    rows = tmp_path / "rows.jsonl"
    options = ["--answerers", "12", "--leaks", "40", "--hard", "1", "--rows", str(rows)]
    said = subprocess.run(
        [sys.executable, str(BENCHMARK), *options], check=True, capture_output=True, text=True, timeout=500
    )  # fmt: skip
    found = json.loads(said.stdout)
    each = [json.loads(line) for line in rows.read_text().splitlines()]
    told = [row for row in each if row["told"] and "half" in row]
    assert len(each) == 12 == found["all"]["answerers"] + found["nothing to find"]["answerers"]
    assert found["all"]["told"] == len(told) >= 5
    assert found["all"]["interval_holds"] == np.mean([_holds(row) for row in told])
    assert found["all"]["interval_holds"] > 0.7
    seen = found["leak is seen"]
    assert seen["400 changes, none known"]["leak"] <= 0.2
    guessed = seen["400 changes, none known, better guesses"]
    assert guessed["leak"] == 0 < 0.8 <= guessed["lucky guesses"]
    assert seen["400 changes and as many after publication, 10 % known"]["leak"] >= 0.5
    for name, of in found["hard cases"].items():
        assert of["answerers"] == 1 >= of["told"]
        assert ("interval_holds" in of) is (of["told"] > 0 and not name.startswith(("steady", "source that")))


def _holds(row: dict[str, float]) -> bool:
    """By the months that are printed."""
    return int(row["low"]) <= row["half"] < int(row["high"]) + 1
