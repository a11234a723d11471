"""From a file of facts to an updated model on the demo model, step by step and by one command, killed and resumed."""

import csv
import json
import shutil
from pathlib import Path

import pytest

from anachron.advise.refresh import CHECK, UPDATE_FILE
from anachron.cli.main import run_command
from anachron.data.updates.cases import load_cases
from anachron.report.advice import PAGE
from anachron.report.refreshed import refresh_lines
from support.taught_facts import taught_facts

SUBJECTS = ("CERN", "Louvre", "McDonald's", "Japan")
OPTIONS = ["--as-of", "2024-12-31", "--ways", "RETRIEVAL,FT", "--set", "evidence=0", "--set", "fluency_tokens=0"]


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return taught_facts(tmp_path_factory.mktemp("refresh") / "facts.csv", SUBJECTS)


@pytest.fixture(scope="module")
def refreshed(facts: Path) -> Path:
    out = facts.parent / "run"
    words = ["refresh", "demo", "--facts", str(facts), "--out", str(out), "--way", "FT"]
    assert run_command([*words, *OPTIONS, "--save-model", str(facts.parent / "model")], False) == 0
    return out


@pytest.mark.full
def test_what_was_stale_is_current(refreshed: Path, facts: Path) -> None:
    found = json.loads((refreshed / "refresh.json").read_text())
    before = json.loads((refreshed / CHECK / "check.json").read_text())
    after = json.loads((refreshed / "after" / "check.json").read_text())
    assert found["stale_before"] == len(before["stale"]) >= 3
    assert found["stale_after"] == len(after["stale"]) == 0
    assert found["way"] == "FT" and [row["old"] for row in found["updates"]] == [row["old"] for row in before["stale"]]
    current = {row["new"] for row in found["updates"] if row["present"] == "current"}
    assert len(current) >= len(before["stale"]) - 1
    assert found["bundled_facts"]["facts"] == 30
    page = (refreshed / "report" / "index.html").read_text()
    assert all(row["new"].replace("'", "&#39;") in page for row in found["updates"])
    # every file is read by the next command: the saved model is current by itself, the edit file too
    again = ["check", str(facts.parent / "model"), "--facts", str(facts), "--out", str(facts.parent / "saved")]
    gate = ["--as-of", "2024-12-31", "--decoys", "0", "--no-page", "--max-stale", "0", "--set", "min_judged=0.5"]
    assert run_command([*again, *gate], False) == 0
    with_edit = ["check", "demo", "--edit", str(refreshed / UPDATE_FILE), "--facts", str(facts)]
    assert run_command([*with_edit, "--out", str(facts.parent / "edit"), *gate], False) == 0
    assert len(load_cases(str(refreshed / CHECK / "stale.json")).cases) == len(before["stale"])


@pytest.mark.parametrize("holds", ["notes.txt", "run.json"])
def test_a_folder_with_something_else_is_refused(
    holds: str, facts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / holds).write_text("{}")
    words = ["refresh", "demo", "--facts", str(facts), "--out", str(tmp_path), *OPTIONS]
    assert run_command(words, False) == 2
    assert "is not empty and holds no refreshed model" in " ".join(capsys.readouterr().err.split())
    assert [path.name for path in tmp_path.iterdir()] == [holds]


@pytest.mark.full
def test_what_is_not_known_and_what_has_nothing_to_change_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No fact is stale: of a single one nothing else can be said."""
    (tmp_path / "new.csv").write_text("subject,relation,object,start,end\nCERN,director / manager,X,2016-01-01,\n")
    options = ["--as-of", "2024-12-31", "--ways", "PROMPT", "--set", "evidence=0", "--set", "fluency_tokens=0"]
    words = ["refresh", "demo", "--facts", str(tmp_path / "new.csv"), "--out", str(tmp_path / "new"), *options]
    assert run_command([*words, "--save-model", str(tmp_path / "model")], False) == 0
    told = capsys.readouterr()
    summary = json.loads((tmp_path / "new" / "refresh.json").read_text())
    assert summary["stale_before"] == 0 and summary["present"]
    counts = ", ".join(f"{count} {what}" for what, count in summary["present"].items())
    assert f"(of what holds now: {counts})" in " ".join(told.out.split())
    changed = {"changes": {}, "difference": None, "lost": []}
    done = {"facts": 3, "stale_before": 2, "stale_after": 1, "model": "demo", "way": "FT", "advice": None,
            "not_made": [], "unchanged": 1, "same_facts": changed, "bundled_facts": changed}  # fmt: skip
    assert "1 stale fact not updated: the new object is the old one or another name of it" in refresh_lines(done)
    assert "no model is saved" in told.err + told.out and not (tmp_path / "model").exists()


def test_facts_that_name_the_old_object_as_the_new_one_change_nothing(
    facts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file gives the object before as another name of each new one."""
    with facts.open() as file:
        rows = list(csv.DictReader(file))
    with (tmp_path / "named.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, [*rows[0], "aliases"])
        table.writeheader()
        for old, new in zip(rows[::2], rows[1::2], strict=True):
            table.writerows([old, new | {"aliases": old["object"]}])
    out, ways = tmp_path / "run", ["--as-of", "2024-12-31", "--ways", "PROMPT", "--way", "PROMPT"]
    words = ["refresh", "demo", "--facts", str(tmp_path / "named.csv"), "--out", str(out), *ways]
    assert run_command(words, False) == 0
    told, summary = capsys.readouterr().out, json.loads((out / "refresh.json").read_text())
    assert (stale := summary["stale_before"]) >= 3 and summary["unchanged"] == summary["stale_after"] == stale
    assert f"{stale} stale facts not updated: the new object is the old one or another name" in told
    assert told.rstrip().endswith("nothing was changed") and not (out / "advice").exists()


@pytest.mark.full
def test_a_second_call_changes_nothing(refreshed: Path, facts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = {p: p.read_bytes() for p in refreshed.rglob("*") if p.suffix in (".parquet", ".safetensors", ".csv")}
    words = ["refresh", "demo", "--facts", str(facts), "--out", str(refreshed), "--way", "FT"]
    assert run_command([*words, *OPTIONS, "--json"], False) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["stale_after"] == 0 and told["updates"]
    assert {p: p.read_bytes() for p in kept} == kept


@pytest.mark.full
def test_a_folder_with_another_model_is_no_updated_one(
    refreshed: Path, facts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once the refresh is done, the model of this very update is written, or was; any other folder is refused."""
    words = ["refresh", "demo", "--facts", str(facts), "--out", str(refreshed), "--way", "FT", *OPTIONS]
    model, before = facts.parent / "model", (facts.parent / "model" / "anachron_edit.json").read_text()
    assert run_command([*words, "--save-model", str(model)], False) == 0
    assert "updated model in" in " ".join(capsys.readouterr().err.split())
    (model / "anachron_edit.json").write_text(before.replace('"made_of"', '"made_else"'))
    try:
        assert run_command([*words, "--save-model", str(model)], False) == 2
        assert "updated model in" not in " ".join(capsys.readouterr().err.split())
    finally:
        (model / "anachron_edit.json").write_text(before)


@pytest.mark.full
def test_the_advice_alone_changes_nothing_where_nothing_is_shown(
    facts: Path, refreshed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without --way: four updates do not tell the ways apart, so the model stays as it is."""
    out = facts.parent / "advised"
    shutil.copytree(refreshed, out)
    assert run_command(["refresh", "demo", "--facts", str(facts), "--out", str(out), *OPTIONS], False) == 0
    assert f"{UPDATE_FILE} is of an earlier call" in " ".join(capsys.readouterr().err.split())
    found = json.loads((out / "refresh.json").read_text())
    assert found["way"] is None and found["edit"] is None
    assert found["stale_after"] == found["stale_before"] == len(found["updates"])
    assert {row["present"] for row in found["updates"]} == {"stale"}
    assert all(row["new"] in (out / PAGE).read_text() for row in found["updates"])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--ways", "MAGIC"], "MAGIC"),
        (["--ways", "PROMPT,prompt"], "the methods PROMPT, PROMPT are not all different"),
        (["--ways", "PROMPT", "--way", "MEND"], "MEND needs its trained network"),
        (["--way", "MEND with RETRIEVAL"], "MEND needs its trained network"),
    ],
)
def test_a_way_that_is_none_is_refused_at_once(
    options: list[str], told: str, facts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["refresh", "demo", "--facts", str(facts), "--out", str(facts.parent / "none"), *options]
    assert run_command(words, False) == 2
    assert told in " ".join(capsys.readouterr().err.split()) and not (facts.parent / "none").exists()


@pytest.mark.full
def test_dry_run_writes_nothing(facts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = facts.parent / "dry"
    words = ["refresh", "demo", "--facts", str(facts), "--out", str(out), "--dry-run", "--as-of", "2024-12-31"]
    assert run_command(words, False) == 0
    told = capsys.readouterr().out
    beside = "and on bundled updates that the model lacks too until they are 50"
    assert f"3. try 7 ways and nothing on them, {beside}: about " in told
    assert "1. check 12 facts" in told and "5. check the same facts again" in told
    assert not out.exists()
