"""The statements of mini are the same on every machine."""

import json
from pathlib import Path

from anachron.data.dataset import Dataset

GOLDEN = Path(__file__).parent.parent / "golden" / "mini.json"


def test_statements_of_mini_are_the_golden_ones(mini: Dataset):
    assert {"fingerprint": mini.fingerprint(), "facts": mini.facts, "statements": mini.table.height} == json.loads(
        GOLDEN.read_text()
    )
