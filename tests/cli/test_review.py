"""Mistakes a reviewer found once, kept from coming back."""

import json
from pathlib import Path

import polars as pl
import pytest
import torch

from anachron.cli.main import _code
from anachron.data.columns import to_published
from anachron.data.loaders import load_dataset
from anachron.lm.model import load_model


@pytest.fixture
def small(tmp_path: Path) -> Path:
    data = load_dataset("mini").sample(2)
    to_published(data.table, data.boundaries).write_csv(tmp_path / "small.csv")
    return tmp_path / "small.csv"


def test_fingerprint_sees_a_few_elements():
    lm = load_model("demo")
    before = lm.fingerprint()
    with torch.no_grad():
        lm.model.get_input_embeddings().weight[5, 1:8] += 9
    assert lm.fingerprint() != before


def test_several_models_into_a_run_folder_are_refused(small: Path, tmp_path: Path, capsys):
    run = str(tmp_path / "run")
    assert _code(["probe", "demo", "--dataset", str(small), "--out", run, "--label", "x[/b]"], False) == 0
    assert "x[/b]" in capsys.readouterr().out
    assert _code(["probe", "demo", "demo-untrained", "--dataset", str(small), "--out", run], False) == 2
    assert _code(["probe", "a/final", "b/final", "--dataset", str(small), "--out", run + "2"], False) == 2
    assert "--label" in capsys.readouterr().err


def test_an_older_run_beside_is_left_out(small: Path, tmp_path: Path, capsys):
    (tmp_path / "runs" / "old").mkdir(parents=True)
    (tmp_path / "runs" / "old" / "run.json").write_text(json.dumps({"settings": {"label": "old"}}))
    out = str(tmp_path / "runs")
    assert _code(["probe", "demo", "demo-untrained", "--dataset", str(small), "--out", out, "--json"], False) == 0
    assert {r["model"] for r in json.loads(capsys.readouterr().out)["summary"]} == {"demo", "demo-untrained"}


def test_tables_of_one_model_are_not_merged(small: Path, tmp_path: Path, capsys):
    assert _code(["probe", "demo", "--dataset", str(small), "--out", str(tmp_path / "run")], False) == 0
    scores = pl.read_parquet(tmp_path / "run" / "scores.parquet")
    for name, part in (("a", scores.head(200)), ("b", scores.tail(200))):
        part.write_parquet(tmp_path / f"{name}.parquet")
    tables = [str(tmp_path / f"{name}.parquet") for name in "ab"]
    assert _code(["metrics", *tables, "--out", str(tmp_path / "t")], False) == 2
    assert "two sources" in capsys.readouterr().err
