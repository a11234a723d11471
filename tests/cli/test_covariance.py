"""The commands around editing as scripts use them."""

import json
import random
from pathlib import Path
from types import SimpleNamespace

import pytest

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
