"""The command ``report``: its files, its words, its refusals."""

import json
import re
import sys
from pathlib import Path

import polars as pl
import pytest

from anachron.cli.main import run_command
from anachron.io.files import file_fingerprint
from support.synthetic_studies import RUNS, synthetic_scores


@pytest.fixture(scope="module")
def scores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A score table of two models on a few facts."""
    path = tmp_path_factory.mktemp("scores") / "scores.parquet"
    synthetic_scores(6, runs=(RUNS[0], RUNS[4])).write_parquet(path)
    return path


def report(scores: Path, out: Path, *more: str) -> int:
    return run_command(["report", str(scores), "--out", str(out), "--resamples", "100", *more], debug=False)


@pytest.mark.full
def test_it_writes_a_page_its_tables_and_manifests(scores, tmp_path, capsys):
    out = tmp_path / "report"
    assert report(scores, out, "--seed", "3") == 0
    printed, said = capsys.readouterr()
    assert printed == f"page: {out / 'index.html'}\n"
    assert re.search(r"\d+ analyses do not apply to these runs; .*manifest\.json says why", " ".join(said.split()))
    assert "formats" not in said and f"tables written to {out / 'tables'}, figures to {out / 'figures'}" in said
    page = out / "index.html"
    assert page.read_text("utf-8").startswith("<!doctype html>")
    manifest = json.loads((out / "index.html.manifest.json").read_text())
    assert manifest["sha256"] == file_fingerprint(page)
    assert manifest["command"] == "report"
    assert manifest["parameters"]["seed"] == 3
    assert manifest["counts"]["facts"] == 6
    assert manifest["counts"]["runs"] == 2
    tables = json.loads((out / "tables" / "manifest.json").read_text())
    assert tables["inputs"] == manifest["inputs"] == {str(scores): file_fingerprint(scores)}
    assert tables["command"] == "report"
    drawn = {path.name for path in (out / "figures").iterdir()}
    assert {"summary.svg", "summary.pdf", "alpha.svg", "transfer.pdf"} <= drawn and "formats.svg" not in drawn
    assert pl.read_csv(out / "tables" / "summary.csv")["model"].unique().sort().to_list() == ["fir-1b", "fir-7b"]


@pytest.mark.full
def test_json_names_the_files(scores, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("anachron.report.studies.write_figures", lambda *_: {})  # drawn in the test above
    assert report(scores, tmp_path / "report", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert Path(found["page"]).is_file()
    assert Path(found["tables"], "facts.parquet").is_file()
    assert {row["model"] for row in found["summary"]} == {"fir-1b", "fir-7b"}
    assert "formats" in found["left_out"]


def test_a_missing_extra_is_wrong_use_in_one_line_before_any_work(scores, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    assert report(scores, tmp_path / "report") == 2
    said = capsys.readouterr().err
    assert said.strip().endswith("pip install 'matplotlib>=3.9' 'plotly>=6'")
    assert len(said.strip().splitlines()) == 1
    assert not (tmp_path / "report").exists()


def test_no_run_is_a_failure(tmp_path, capsys):
    assert report(tmp_path / "nothing", tmp_path / "report") == 2
    assert "no run here" in capsys.readouterr().err
