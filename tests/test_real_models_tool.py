"""tools/real_models.py with made-up wheels: parts in order, sums, nothing left of what failed."""

import hashlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from anachron.lm.loading import load_model
from support.gguf_models import make_gguf_lm, write_gguf

TOOL = Path(__file__).parents[1] / "tools" / "real_models.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("real_models", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["real_models"] = module
    spec.loader.exec_module(module)
    return module


def wheels(tool: ModuleType, folder: Path) -> object:
    """A tiny model in two parts, in the place of a wheel."""
    folder.mkdir()
    data = Path(write_gguf(make_gguf_lm(), folder / "whole.gguf")).read_bytes()
    for part, piece in enumerate((data[:1000], data[1000:])):
        (folder / f"x.part0{part}").write_bytes(piece)
    files = ("x.part00", "x.part01")
    return tool.RealModel("tiny", {"no-such-package": "0"}, files, hashlib.sha256(data).hexdigest())


def test_parts_become_a_file_and_a_folder_that_score_alike(tool: ModuleType, tmp_path: Path):
    model, folder = wheels(tool, tmp_path / "packages"), tmp_path / "models"
    folder.mkdir()
    tool.provide(model, folder, tmp_path / "packages")
    assert {path.name for path in folder.iterdir()} == {"tiny.gguf", "tiny"}
    pair = [("In 1998, who was it?", "Paris")]
    file, plain = load_model(str(folder / "tiny.gguf")), load_model(str(folder / "tiny"))
    assert file.file == model.sha256 and file.log_probs(pair)[0] == plain.log_probs(pair)[0]
    tool.provide(model, folder, tmp_path / "nowhere")  # nothing is fetched twice


def test_another_sum_is_refused_and_leaves_nothing(tool: ModuleType, tmp_path: Path):
    model, folder = wheels(tool, tmp_path / "packages"), tmp_path / "models"
    folder.mkdir()
    (tmp_path / "packages" / "x.part01").write_bytes(b"other")
    with pytest.raises(ValueError, match="get the packages again"):
        tool.provide(model, folder, tmp_path / "packages")
    assert not any(folder.iterdir())
    (folder / "tiny.gguf").write_bytes(b"other")
    with pytest.raises(ValueError, match="remove it"):
        tool.provide(model, folder, tmp_path / "packages")


def test_without_the_wheels_one_line_says_so(tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "empty").mkdir()
    assert tool.main([str(tmp_path / "models"), "--packages", str(tmp_path / "empty")]) == 1
    told = capsys.readouterr().err
    assert told.startswith("no real models in") and told.count("\n") == 1
    assert not any((tmp_path / "models").iterdir())


def test_one_model_alone(tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made = []
    monkeypatch.setattr(tool, "provide", lambda model, folder, packages: made.append(model.name))
    assert tool.main([str(tmp_path / "models"), "--only", "gemma3-270m"]) == 0 and made == ["gemma3-270m"]
    assert tool.main([str(tmp_path / "models")]) == 0 and made[1:] == ["smollm2", "gemma3-270m"]
