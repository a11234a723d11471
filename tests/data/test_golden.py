"""The statements of mini are the same on every machine."""

import json
from pathlib import Path

from anachron.data.loaders import load_dataset

GOLDEN = Path(__file__).parent.parent / "golden" / "mini.json"


def test_statements_of_mini_are_the_golden_ones():
    data = load_dataset("mini")
    assert {"fingerprint": data.fingerprint(), "facts": data.facts, "statements": data.table.height} == json.loads(
        GOLDEN.read_text()
    )
