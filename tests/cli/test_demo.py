"""The command demo, on a few facts: what it prints and leaves behind."""

import json
from pathlib import Path

import pytest

from anachron.cli.main import run_command
from anachron.report import demo as demo_module


@pytest.mark.full
def test_demo_runs_to_its_end_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.setattr(demo_module, "DEMO_FACTS", 12)
    monkeypatch.setattr(demo_module, "DEMO_UPDATES", 2)
    monkeypatch.setattr(demo_module, "DEMO_METHODS", ("FT", "PROMPT"))
    out = tmp_path / "demo"
    assert run_command(["demo", "--out", str(out)], debug=True) == 0
    printed, said = capsys.readouterr()
    assert "probing a fixed sample of 12 of the" in said
    assert all(name in printed for name in ("demo, taught", "demo, not taught", "demo-untrained"))
    assert "the farthest:" in printed  # a timeline of a far error
    assert "2 updates of mini-updates, each made in demo by FT, PROMPT" in said and "Efficacy" in printed
    assert "Ten facts of a file" in printed and "demo, 10 of 10 facts asked with dates" in printed
    for line, made in (
        ("run folder of demo: ", out / "sample" / "demo"), ("tables: ", out / "sample" / "metrics"),
        ("report: ", out / "sample" / "report.html"),
        ("check of demo: ", out / "check"),
    ):  # fmt: skip
        assert f"{line}{made}" in printed and made.exists()
    assert run_command(["demo", "--out", str(out), "--json"], debug=True) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["report"] == str(out / "sample" / "report.html")
    assert {row["model"] for row in found["summary"]} == {"demo, taught", "demo, not taught", "demo-untrained"}
    assert found["check"]["facts"] == 10 and sum(found["check"]["verdicts"].values()) == 10
    assert [row["method"] for row in found["edits"]] == ["unedited", "FT", "PROMPT"]
