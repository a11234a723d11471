"""The commands around editing as scripts use them."""

import json
import random
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from anachron.cli.main import run_command

MODULES = "model.layers.1.mlp.down_proj,model.layers.2.mlp.down_proj"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lines of made-up words: no input of the demo model comes twice."""
    chooser = random.Random(0)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(chooser.choice(letters) for _ in range(chooser.randint(2, 9))) for _ in range(4000)]
    path = tmp_path_factory.mktemp("text") / "words.txt"
    path.write_text("\n".join(" ".join(words[i : i + 10]) for i in range(0, len(words), 10)), "utf-8")
    return path


def run(*words: object) -> int:
    return run_command([str(word) for word in words], debug=False)


def test_covariance_end_to_end(corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    command = ["covariance", "demo", "--corpus", corpus, "--modules", MODULES, "--tokens", 3000, "--cache", tmp_path]
    assert run(*command, "--factors", "both", "--json") == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert err == ""
    assert [row["module"] for row in found["modules"]] == MODULES.split(",")
    for row in found["modules"]:
        assert (row["size"], row["tokens"], row["rank"], row["regularise"]) == (336, 3000, 336, None)
        assert 0 < row["smallest_eigenvalue"] < row["largest_eigenvalue"]
    folder = Path(found["folder"])
    assert folder.parent.parent == tmp_path
    assert len(list(folder.glob("*.safetensors"))) == 6
    assert run(*command) == 0  # found again
    out, err = capsys.readouterr()
    assert out.splitlines() == [f"{name}: 336 inputs, 3,000 tokens" for name in MODULES.split(",")]
    assert err == f"kept in {folder}\n"


def test_covariance_says_that_the_text_is_too_short(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ANACHRON_CACHE", str(tmp_path))
    command = ["covariance", "demo", "--corpus", corpus, "--modules", MODULES, "--tokens", 300]
    assert run(*command) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "rank at most 300, size 336; 300 tokens were read" in err
    assert run(*command, "--factors", "eigen") == 0  # which AlphaEdit can use
    out, err = capsys.readouterr()
    assert "it has no inverse" in err
    assert "smallest eigenvalue" in out
    assert run(*command, "--regularise", 0.01, "--json") == 0
    assert [row["regularise"] for row in json.loads(capsys.readouterr().out)["modules"]] == [0.01, 0.01]
    assert list(tmp_path.rglob("*.cholesky-*"))


def test_covariance_by_layers(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    sites = SimpleNamespace(layers=4, mlp_out=lambda layer: f"model.layers.{layer}.mlp.down_proj")
    monkeypatch.setattr("anachron.edit.covariance.prepare.find_sites", lambda model: sites)
    command = ["covariance", "demo", "--corpus", corpus, "--tokens", 500, "--cache", tmp_path, "--factors", "none"]
    assert run(*command, "--layers", "0,2-3,3", "--json") == 0
    names = [row["module"] for row in json.loads(capsys.readouterr().out)["modules"]]
    assert names == [f"model.layers.{layer}.mlp.down_proj" for layer in (0, 2, 3)]
    assert run(*command, "--layers", "3-4") == 2
    assert "has layers 0 to 3" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ([], "give either --layers, such as 3-8, or --modules"),
        (["--layers", "1", "--modules", "m"], "give either"),
        (["--layers", "8-3"], "write 3 or 1,2,3 or 3-8"),
        (["--layers", "one"], "write 3 or 1,2,3 or 3-8"),
        (["--modules", "model.layers.7.mlp.down_proj"], "near names: model.layers."),
        (["--modules", "m", "--factors", "all"], "choose inverse, eigen, both or none"),
        (["--modules", "m", "--precision", "half"], "choose one of float64, float32"),
        (["--modules", "m", "--regularise", "-1"], "give a number above 0"),
        (["--modules", "m", "--import", "a.npz"], "give either --corpus or --import, not both"),
    ],
)
def test_covariance_refuses_wrong_use(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: list[str], why: str
):
    assert run("covariance", "demo", "--corpus", corpus, "--cache", tmp_path, *change) == 2
    assert why in capsys.readouterr().err


def test_covariance_of_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "empty.txt").write_text(" \n")
    command = ["covariance", "demo", "--modules", MODULES, "--cache", tmp_path / "cache"]
    assert run(*command, "--corpus", tmp_path / "empty.txt") == 2
    assert "it contains no text" in capsys.readouterr().err
    assert run(*command, "--corpus", tmp_path / "none.txt") == 2
    assert "no such file" in capsys.readouterr().err


def second_moments(path: Path) -> Path:
    """As ROME saves them, of inputs in all directions."""
    inputs = np.random.default_rng(0).normal(size=(1000, 336))
    np.savez(path, **{"mom2.mom2": inputs.T @ inputs, "mom2.count": 1000, "sample_size": 10})
    return path


def test_statistics_of_others_are_imported_and_edit_takes_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    cache, file = tmp_path / "cache", second_moments(tmp_path / "stats.npz")
    command = ["covariance", "demo", "--import", file, "--layers", 1, "--cache", cache]
    assert run(*command, "--json") == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert err == "" and found["corpus"] == "imported"
    (row,) = found["modules"]
    assert (row["module"], row["size"], row["tokens"]) == ("model.layers.1.mlp.down_proj", 336, 1000)
    folder = Path(found["folder"])
    assert folder.name == "imported" and folder.parent.parent == cache and list(folder.glob("*.cholesky-*"))
    assert run(*command, "--factors", "both", "--regularise", 0.5) == 0
    assert "336 inputs, 1,000 tokens, regularise 0.5" in capsys.readouterr().out
    changes = [word for one in ("layer=1", "steps=2", "contexts=[]") for word in ("--set", f"ROME.{one}")]
    make = ["edit", "demo", "--updates", "mini-updates", "--limit", 1, "--method", "ROME", *changes, "--cache", cache]
    made = [tmp_path / f"{corpus}.safetensors" for corpus in ("imported", "mini")]
    for out_file in made:
        assert run(*make, "--corpus", out_file.stem, "--out", out_file) == 0
    assert made[0].read_bytes() != made[1].read_bytes()
    capsys.readouterr()
    assert run(*make, "--corpus", "imported", "--set", "ROME.layer=2", "--out", tmp_path / "none.safetensors") == 2
    assert "no covariance of model.layers.2.mlp.down_proj was imported" in capsys.readouterr().err


def test_projections_of_others_are_imported(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    basis = torch.linalg.qr(torch.randn(336, 40, generator=torch.Generator().manual_seed(0), dtype=torch.float64))[0]
    torch.save(torch.stack([(basis @ basis.T).float()] * 2), tmp_path / "null_space_project.pt")
    command = ["covariance", "demo", "--import", tmp_path / "null_space_project.pt", "--cache", tmp_path]
    assert run(*command, "--layers", "1-2") == 0
    lines = [f"model.layers.{layer}.mlp.down_proj: 336 inputs, projection on 40 directions" for layer in (1, 2)]
    assert capsys.readouterr().out.splitlines() == lines


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (["--layers", "1", "--modules", "m"], "give either --layers, such as 3-8, or --modules"),
        (["--layers", "1", "--tokens", "9"], "--import takes statistics as they are"),
        (["--layers", "1,2"], "number of its matrices is 1, that of the modules named 2"),
        ([], "no module given"),
    ],
)
def test_an_import_refuses_wrong_use(tmp_path: Path, capsys: pytest.CaptureFixture[str], change: list[str], why: str):
    file = second_moments(tmp_path / "stats.npz")
    assert run("covariance", "demo", "--import", file, "--cache", tmp_path, *change) == 2
    assert why in capsys.readouterr().err


def test_an_import_of_no_file_and_neither_text_nor_import(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert run("covariance", "demo", "--import", tmp_path / "none.npz", "--layers", 1) == 2
    assert "none.npz: no such file" in capsys.readouterr().err
    assert run("covariance", "demo", "--layers", 1) == 2
    assert "--corpus is missing; give a text, or what others have computed with --import" in capsys.readouterr().err
