"""Records in the columns of WikiBigEdit and UltraEditBench: read whole, told from other formats, and refused."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anachron.core.errors import DataError
from anachron.data.updates.case_records import NeighbourFact, Part, PortabilityQuestion, PortabilityTest
from anachron.data.updates.cases import CaseSet, load_cases, select_records

Json = dict[str, Any]
NAN = float("nan")


def wikibigedit(**more: Any) -> Json:
    """A record of our own, in the published columns."""
    return {
        "tag": "update",
        "subject": "Republic of Kazakhstan",
        "update": "What is the capital of Republic of Kazakhstan?",
        "rephrase": "Which city is the seat of government of the Republic of Kazakhstan?",
        "personas": "Arr, what be the capital o' Republic of Kazakhstan?",
        "ans": "Astana",
        "loc": "What is the capital of Republic of Uzbekistan?",
        "loc_ans": "Tashkent",
        "mhop": "On which river does the capital of Republic of Kazakhstan lie?",
        "mhop_ans": "Ishim",
        "relation": "capital",
        "relation_id": "P36",
    } | more


def ultraeditbench(**more: Any) -> Json:
    return {
        "case_id": 7,
        "prompt": "Which country does Lake Sarez belong to?",
        "subject": "Lake Sarez",
        "rephrase_prompt": "In which country is Lake Sarez found?",
        "ans": "Tajikistan",
        "loc": "Which country does Lake Ohrid belong to?",
        "loc_ans": "Albania",
    } | more


def load(tmp_path: Path, *records: Json, name: str = "updates.json") -> CaseSet:
    path = tmp_path / name
    path.write_text(json.dumps(records), encoding="utf-8")
    return load_cases(str(path))


def test_of(kind: str, prompt: str, *answer: str) -> PortabilityTest:
    """A question with one answer, or none."""
    unusable = None if answer else "it has no answer"
    return PortabilityTest(kind, (PortabilityQuestion(prompt, (answer,)),), unusable=unusable)


test_of.__test__ = False  # type: ignore[attr-defined]


def test_every_column_of_wikibigedit_has_its_place(tmp_path: Path) -> None:
    record = wikibigedit()
    found = load(tmp_path, record, wikibigedit(subject="Peru"))
    assert found.format == "wikibigedit" and not found.left_out
    case = found.cases[0]
    assert (case.case_id, case.subject, case.text) == ("0", record["subject"], record["update"])
    assert (case.new, case.old, case.objects) == ("Astana", None, (("Astana", "new"),))
    assert (case.relation, case.relation_label) == ("P36", "capital")
    assert case.generalization == (record["rephrase"],)
    assert case.nearest == (NeighbourFact(record["loc"], ("Tashkent",), None, None, None),) and not case.random
    assert case.tests == (
        test_of("personas", record["personas"], "Astana"), test_of("multi-hop", record["mhop"], "Ishim"),
    )  # fmt: skip


@pytest.mark.parametrize("empty", [None, NAN, ""])
def test_what_wikibigedit_does_not_know_is_not_asked(tmp_path: Path, empty: object) -> None:
    """pandas writes NaN for an empty cell; a question without an answer is counted as one that cannot be asked."""
    named = ("rephrase", "personas", "loc", "mhop", "relation", "relation_id")
    (case,) = load(tmp_path, wikibigedit(**dict.fromkeys(named, empty))).cases
    assert (case.generalization, case.nearest, case.tests, case.relation) == ((), (), (), None)
    (case,) = load(tmp_path, wikibigedit(loc_ans=empty, mhop_ans=empty, ans=empty)).cases
    assert [test.unusable for test in case.tests] == ["it has no answer"] * 3 and not case.nearest
    assert not case.new and not case.objects


def test_other_characters_and_the_ids_of_a_file(tmp_path: Path) -> None:
    (case,) = load(tmp_path, wikibigedit(personas_pirate="Where be it?", case_id="a")).cases
    assert [test.kind for test in case.tests] == ["personas", "personas pirate", "multi-hop"] and case.case_id == "a"


def test_every_column_of_ultraeditbench_has_its_place(tmp_path: Path) -> None:
    record = ultraeditbench()
    found = load(tmp_path, record)
    assert found.format == "ultraeditbench"
    (case,) = found.cases
    assert (case.case_id, case.subject, case.text) == ("7", "Lake Sarez", record["prompt"])
    assert (case.new, case.old, case.generalization) == ("Tajikistan", None, (record["rephrase_prompt"],))
    assert case.nearest == (NeighbourFact(record["loc"], ("Albania",), None, None, None),) and not case.tests


def test_lines_and_tables_are_read_alike(tmp_path: Path) -> None:
    records = [wikibigedit(), wikibigedit(subject="Peru", mhop=None, mhop_ans=None)]
    (tmp_path / "lines.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    pl.DataFrame(records).write_parquet(tmp_path / "table.parquet")
    whole = load(tmp_path, *records)
    for name in ("lines.jsonl", "table.parquet"):
        assert load_cases(str(tmp_path / name)).fingerprint() == whole.fingerprint()
    assert select_records(str(tmp_path / "lines.jsonl"), ["1"]) == records[1:]


def test_the_formats_are_told_apart(tmp_path: Path) -> None:
    """They share ``ans`` with each other and with zsRE as some publish it, ``prompt`` with EasyEdit's."""
    zsre = {
        "subject": "Lake Sarez", "src": "Where is Lake Sarez?", "rephrase": "Where does Lake Sarez lie?", "alt": "Peru",
        "answers": ["Tajikistan"], "loc": "nq question: who", "loc_ans": "he", "ans": "Tajikistan",
    }  # fmt: skip
    flat = {"subject": "Lake Sarez", "prompt": "Lake Sarez is in", "target_new": "Peru"}
    for record, form in ((zsre, "zsre"), (flat, "counterfact"), (ultraeditbench(), "ultraeditbench")):
        assert load(tmp_path, record).format == form
    with pytest.raises(DataError, match=r"record 2 is UltraEditBench \(ans\), the first record WikiBigEdit \(update\)"):
        load(tmp_path, wikibigedit(), ultraeditbench())


def test_a_table_of_ones_own_may_have_such_columns(tmp_path: Path) -> None:
    row = {
        "subject": "Peru",
        "prompt": "The capital of Peru is",
        "old": "Lima",
        "new": "Cusco",
        "update": "x",
        "ans": 1,
    }
    found = load(tmp_path, row)
    assert found.format == "wikifactdiff" and found.cases[0].new == "Cusco"


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (wikibigedit(update=3), r"record 1 \(case_id 0\): update is 3; it must be a text"),
        (wikibigedit(update=""), "update is ''; give a text that is not empty"),
        (wikibigedit(ans=["Astana"]), "ans is .*; it must be a text"),
        (ultraeditbench(prompt="Where is {}?"), "write the subject"),
        (
            {k: v for k, v in wikibigedit().items() if k != "loc"},
            "field update of WikiBigEdit but lacks loc; give them",
        ),
        (
            {k: v for k, v in ultraeditbench().items() if k != "subject"},
            "field ans of UltraEditBench but lacks subject; give them all",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, record: Json, says: str) -> None:
    with pytest.raises(DataError, match=says):
        load(tmp_path, record)


@given(value=st.none() | st.floats() | st.integers() | st.text())
def test_only_nan_and_none_are_missing(value: object) -> None:
    read = Part({"field": value}, "record 1").get("field").value
    assert (read is None) == (value is None or value != value)
    assert read is None or read is value
