"""The format of ``docs/add-a-data-format.md``, added to the list as the page says."""

import json
from pathlib import Path
from typing import Any

import pytest

from anachron.core.errors import DataError
from anachron.data.updates import cases
from anachron.data.updates.cases import load_cases

PAGE = (Path(__file__).parents[2] / "docs" / "add-a-data-format.md").read_text("utf-8")
RECORD = {"who": "France", "says": "The capital of France is", "now": "Lyon", "before": "Paris"}


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, Any] = {}
    exec(compile(PAGE.split("```python\n")[1].split("```")[0], "add-a-data-format.md", "exec"), found)
    monkeypatch.setattr(cases, "FORMATS", (*cases.FORMATS, found["NEWS"]))


def test_the_record_of_the_page_is_an_update(tmp_path: Path) -> None:
    assert json.dumps(RECORD) in PAGE
    path = tmp_path / "news.json"
    path.write_text(json.dumps([RECORD, RECORD | {"since": "2026-03-01", "also": ["France is ruled from"]}]))
    found = load_cases(str(path))
    assert found.format == "news" and found.latest_change == "2026-03-01"
    first, second = found.cases
    assert (first.subject, first.text, first.new, first.old) == tuple(RECORD.values())
    assert first.start is None and second.start == "2026-03-01" and second.generalization == ("France is ruled from",)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"now": 3}, r"record 1 \(case_id 0\): now is 3; it must be a text"),
        ({"since": "soon"}, "record 1 .*since.*soon"),
        ({"who": ""}, "who is ''; give a text that is not empty"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    path = tmp_path / "news.json"
    path.write_text(json.dumps([RECORD | change]))
    with pytest.raises(DataError, match=says):
        load_cases(str(path))
