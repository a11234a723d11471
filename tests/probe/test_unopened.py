"""A finished run is read again without its model's weights; a model that may be another one is opened and compared."""

import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from anachron.cli.main import execute
from anachron.io.run_folder import RunFolder
from anachron.lm.tokenizers import demo_folder

FACTS = """subject,relation,object,start,end
Kazakhstan,capital,Almaty,1991-12-16,1997-12-10
Kazakhstan,capital,Astana,1997-12-10,
"""
AS_OF = "2025-11-22"


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What transformers was asked to read weights from."""
    import transformers

    read: list[str] = []
    whole = transformers.AutoModelForCausalLM.from_pretrained

    def counted(source, *args, **named):
        read.append(str(source))
        return whole(source, *args, **named)

    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", counted)
    yield read


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("facts.csv").write_text(FACTS)
    return Path(shutil.copytree(demo_folder(), tmp_path / "model"))


def check(model: Path, *words: str) -> int:
    line = ["check", str(model), "--facts", "facts.csv", "--as-of", AS_OF, "--out", "run", "--no-page", "--limit", "1",
            "--decoys", "0"]  # fmt: skip
    return execute([*line, *words])


def flip(path: Path) -> None:
    """One bit of the last number of the weights."""
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))


@pytest.mark.full
def test_a_finished_check_is_repeated_without_weights(model: Path, loaded: list[str], capsys) -> None:
    assert check(model) == 0 and len(loaded) == 1
    before = {path: path.read_bytes() for path in Path("run").rglob("*.*") if path.is_file()}
    said = capsys.readouterr().out
    assert check(model) == 0 and len(loaded) == 1
    assert capsys.readouterr().out == said and all(path.read_bytes() == old for path, old in before.items())
    assert check(model, "--dtype", "float32") == 0 and len(loaded) == 2  # the same, which only its weights can tell
    Path("run", "scores.parquet").unlink()
    assert check(model) == 0 and len(loaded) == 3  # something is to be computed
    assert Path("run", "scores.parquet").read_bytes() == before[Path("run/scores.parquet")]
    flip(model / "model.safetensors")
    assert check(model) == 2 and len(loaded) == 4
    assert "weights of the model (weights):" in capsys.readouterr().err


@pytest.mark.full
def test_a_baseline_of_other_facts_is_refused_before_weights_are_read(model: Path, loaded: list[str], capsys) -> None:
    assert check(model) == 0 and len(loaded) == 1
    Path("facts.csv").write_text(FACTS.replace("1997", "1996"))
    line = ["check", str(model), "--facts", "facts.csv", "--as-of", AS_OF, "--out", "other", "--baseline", "run"]
    assert execute(line) == 2 and len(loaded) == 1 and not Path("other").exists()
    assert "no fact and date in common" in capsys.readouterr().err


@pytest.mark.full
def test_a_run_without_a_source_is_opened_once_more_and_keeps_it_then(model: Path, loaded: list[str]) -> None:
    """As runs of before have none."""
    assert check(model) == 0 and len(loaded) == 1
    for folder in (Path("run"), Path("run/present")):
        run = RunFolder.read(folder)
        del run.record["opened"]
        run.save()
    assert check(model) == 0 and len(loaded) == 2
    assert check(model) == 0 and len(loaded) == 2


@pytest.mark.full
@pytest.mark.parametrize("change", ["config.json", "tokenizer.json", "a new file"])
def test_another_file_of_the_model_is_looked_at(change: str, model: Path, loaded: list[str]) -> None:
    assert check(model) == 0 and len(loaded) == 1
    if change == "a new file":
        (model / "added_tokens.json").write_text("{}")
    else:
        (model / change).write_text(json.dumps(json.loads((model / change).read_text()), indent=7))
    assert check(model) == 0 and len(loaded) == 2


@pytest.mark.full
def test_a_finished_probe_and_horizon_are_repeated_without_weights(model: Path, loaded: list[str]) -> None:
    lines = [
        ["probe", str(model), "--dataset", "facts.csv", "--as-of", AS_OF, "--out", "probed"],
        ["horizon", str(model), "--changes", "mini", "--limit", "30", "--out", "found", "--no-figure"],
    ]
    for number, line in enumerate(lines, 1):
        assert execute(line) == 0 and execute(line) == 0 and len(loaded) == number


@pytest.mark.full
def test_a_model_opened_late_leaves_nothing_behind(model: Path, loaded: list[str]) -> None:
    def state() -> tuple[object, bool]:
        return signal.getsignal(signal.SIGINT), torch.are_deterministic_algorithms_enabled()

    before = state()
    line = ["probe", str(model), "--dataset", "facts.csv", "--as-of", AS_OF, "--out", "probed", "--deterministic"]
    assert execute(line) == 0 and len(loaded) == 1
    for path in Path("probed").rglob("*.parquet"):
        path.unlink()
    assert execute(line) == 0 and len(loaded) == 2
    assert state() == before
