"""After a change of ``config.json`` nothing that was computed before is taken up again, whichever command asks."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from anachron.cli.main import run_command
from anachron.data.bundled.mini_updates import mini_updates
from anachron.data.columns import to_published
from anachron.data.dataset import Dataset
from anachron.io.run_folder import RunFolder
from anachron.lm.tokenizers import demo_folder

CHANGED = "config.rope_parameters.rope_theta: 10000.0 -> 500000.0"
MODULE = "model.layers.2.mlp.down_proj"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return shutil.copytree(demo_folder(), tmp_path / "model")


def change(model: Path) -> None:
    content = json.loads((model / "config.json").read_text("utf-8"))
    content["rope_parameters"] = {"rope_type": "default", "rope_theta": 500000.0}
    (model / "config.json").write_text(json.dumps(content), "utf-8")


def run(*words: object) -> int:
    return run_command([str(word) for word in words], debug=False)


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.suffix != ".lock"
    }


def refused(command: list[Any], code: int, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert run(*command) == code
    (line,) = (line for line in capsys.readouterr().err.splitlines() if CHANGED in line)
    return line


@pytest.mark.few(1)
@pytest.mark.parametrize("finished", [True, False])
def test_a_probe_run(finished: bool, model: Path, brief: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    data = brief.sample(2)
    to_published(data.table, data.boundaries).write_csv(tmp_path / "small.csv")
    command = ["probe", model, "--dataset", tmp_path / "small.csv", "--out", tmp_path / "run"]
    assert run(*command) == 0
    if not finished:
        folder = RunFolder.read(tmp_path / "run")
        folder.record["status"] = "running"
        folder.forget(["scores.parquet", "scores/part-00000.parquet"])
    before = content(tmp_path / "run")
    change(model)
    assert "holds a run with other settings" in refused(command, 2, capsys)
    assert content(tmp_path / "run") == before


@pytest.mark.full
def test_an_edit_and_an_evaluation(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    row = mini_updates().head(1).to_dicts()[0]
    (tmp_path / "one.json").write_text(json.dumps([row]), "utf-8")
    (tmp_path / "pairs.jsonl").write_text('{"prompt": "Paris is in", "answer": "France"}\n', "utf-8")
    fast = ["--set", "FT.steps=1"]
    edit = tmp_path / "edit.safetensors"
    evaluate = ["evaluate", model, "--updates", tmp_path / "one.json", "--methods", "FT", *fast, "--fluency-tokens", 0,
                "--out", tmp_path / "run"]  # fmt: skip
    score = ["score", model, "--input", tmp_path / "pairs.jsonl", "--out", tmp_path / "s.parquet", "--edit", edit]
    assert run("edit", model, "--updates", tmp_path / "one.json", "--method", "FT", *fast, "--out", edit) == 0
    assert run(*evaluate) == 0 and run(*score) == 0
    before = content(tmp_path / "run")
    change(model)
    assert "holds a run with other settings" in refused(evaluate, 2, capsys)
    assert content(tmp_path / "run") == before
    assert "load the model it was made on" in refused(score, 2, capsys)


def test_a_covariance(model: Path, tmp_path: Path):
    command = ["covariance", model, "--corpus", "mini", "--modules", MODULE, "--tokens", 500, "--factors", "eigen",
               "--cache", tmp_path / "cache"]  # fmt: skip
    assert run(*command) == 0
    before = content(tmp_path / "cache")
    change(model)
    assert run(*command) == 0
    after = content(tmp_path / "cache")
    assert before.items() < after.items() and len(after) == 2 * len(before)
    first, second = (p.read_bytes() for p in sorted((tmp_path / "cache").rglob(f"{MODULE}.safetensors")))
    assert first[-1000:] != second[-1000:]


def test_a_network_for_mend(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "u.json").write_text(json.dumps(mini_updates().head(3).to_dicts()), "utf-8")
    train = ["train-mend", model, "--updates", tmp_path / "u.json", "--steps", 1, "--out", tmp_path / "network"]
    use = ["edit", model, "--updates", tmp_path / "u.json", "--method", "MEND", "--mend", tmp_path / "network",
           "--out", tmp_path / "e.safetensors"]  # fmt: skip
    assert run(*train) == 0
    change(model)
    assert "holds a network with other settings" in refused(train, 2, capsys)
    assert "train one for it" in refused(use, 2, capsys)
    assert not (tmp_path / "e.safetensors").exists()
