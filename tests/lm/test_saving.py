"""Models written as plain Hugging Face folders."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import transformers
from peft import LoraConfig

import anachron
from anachron.cli.main import run_command
from anachron.core.errors import BackendError, ConfigError
from anachron.lm import saving
from anachron.lm.loading import load_model
from support.gguf_models import Q8_0, make_gguf_lm, write_gguf
from support.tiny_models import make_lm

PAIRS = [("In 1998, who was the president of France?", "Jacques Chirac"), ("x", "Zürich")]


def test_the_folder_of_a_gguf_file_scores_as_the_file(tmp_path: Path):
    file = write_gguf(make_gguf_lm(), tmp_path / "tiny.gguf", kind=Q8_0)
    from_file = load_model(file)
    anachron.save_model(from_file, tmp_path / "plain")
    from_folder = load_model(str(tmp_path / "plain"))
    assert np.array_equal(from_file.log_probs(PAIRS), from_folder.log_probs(PAIRS))
    assert from_folder.fingerprint() == from_file.fingerprint()
    assert from_folder.tokenizer_fingerprint() == from_file.tokenizer_fingerprint()
    files = {path.name for path in (tmp_path / "plain").iterdir()}
    assert files >= {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "generation_config.json",
        "chat_template.jinja",
    }
    assert "quantization_config" not in (tmp_path / "plain" / "config.json").read_text()
    alone = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "plain")  # by nothing of ours
    assert not getattr(alone, "is_quantized", False)


def test_a_dtype_that_was_asked_for_is_kept(tmp_path: Path):
    anachron.save_model(load_model("demo", dtype="bfloat16"), tmp_path / "half")
    assert load_model(str(tmp_path / "half")).dtype == "bfloat16"


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path):
    mine, link = tmp_path / "mine", tmp_path / "link"
    (tmp_path / "empty").mkdir()
    link.symlink_to(tmp_path / "empty")
    mine.mkdir()
    (mine / "kept.txt").write_text("kept")
    for folder in (mine, mine / "kept.txt", link):
        with pytest.raises(ConfigError, match="already exists; choose another folder for the model, new or empty"):
            anachron.save_model(make_lm(), folder)
    assert (mine / "kept.txt").read_text() == "kept" and not any((tmp_path / "empty").iterdir())


def test_an_empty_folder_is_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    lm, folder = make_lm(), tmp_path / "model"
    folder.mkdir()
    anachron.save_model(lm, folder)
    np.testing.assert_allclose(load_model(str(folder)).log_probs(PAIRS), lm.log_probs(PAIRS), atol=1e-5)
    (tmp_path / "late").mkdir()
    monkeypatch.setattr(saving, "write_folder", lambda lm, folder: (tmp_path / "late" / "theirs").write_text("theirs"))
    with pytest.raises(BackendError):
        anachron.save_model(lm, tmp_path / "late")
    assert (tmp_path / "late" / "theirs").read_text() == "theirs"


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: Any):
    lm = make_lm()

    def full(folder: Path) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(lm.tokenizer, "save_pretrained", full)
    with pytest.raises(BackendError, match="No space left on device; finished files are intact"):
        anachron.save_model(lm, tmp_path / "model")
    assert not any(tmp_path.iterdir())


# Saves a model, and says so and waits before its folder gets its name
SAVING = """
import sys
from pathlib import Path
import anachron
from anachron.lm import saving
whole = saving.write_folder
def slow(lm, folder):
    whole(lm, folder)
    print("written", flush=True)
    sys.stdin.readline()
saving.write_folder = slow
anachron.save_model(anachron.load_model("demo-untrained"), sys.argv[1])
"""


@pytest.mark.slow
@pytest.mark.full
def test_two_processes_do_not_mix_their_models(tmp_path: Path):
    """While one process writes a folder another is refused; killed, it leaves nothing that is taken for a model."""
    folder = tmp_path / "model"
    lm = load_model("demo")
    for kill in (True, False):
        other = subprocess.Popen(
            [sys.executable, "-c", SAVING, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert other.stdin is not None and other.stdout is not None
        assert other.stdout.readline() == "written\n"
        with pytest.raises(ConfigError, match="is being written by another process; choose another folder"):
            anachron.save_model(lm, folder)
        if kill:
            other.kill()
            other.wait()
            assert not folder.exists()
        else:
            other.communicate("\n", timeout=300)
    assert load_model(str(folder)).fingerprint() == load_model("demo-untrained").fingerprint()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_what_is_no_plain_model_is_refused(tmp_path: Path):
    adapted = make_lm("llama")
    adapted.model.add_adapter(LoraConfig(target_modules=["q_proj"], r=2))
    with pytest.raises(ConfigError, match="is an adapter beside its model"):
        anachron.save_model(adapted, tmp_path / "model")
    quantised = make_lm("llama")
    quantised.model.is_quantized = True
    with pytest.raises(ConfigError, match="are quantised"):
        anachron.save_model(quantised, tmp_path / "model")
    assert not any(tmp_path.iterdir())


@pytest.mark.full
def test_commands_take_a_file_and_the_folder_made_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = write_gguf(make_gguf_lm(), tmp_path / "tiny.gguf")
    assert run_command(["save", file, str(tmp_path / "plain"), "--json"], debug=True) == 0
    saved = json.loads(capsys.readouterr().out)
    assert (saved["architecture"], saved["family"], saved["dtype"]) == ("LlamaForCausalLM", "llama", "float32")
    pairs, scores = tmp_path / "pairs.jsonl", tmp_path / "scores.parquet"
    pairs.write_text("".join(json.dumps({"prompt": p, "answer": a}) + "\n" for p, a in PAIRS))
    scored = []
    for model in (file, str(tmp_path / "plain")):
        assert (
            run_command(["score", model, "--input", str(pairs), "--out", str(scores), "--overwrite"], debug=True) == 0
        )
        scored.append(pl.read_parquet(scores)["logp"].to_list())
        scores.unlink()
    assert scored[0] == scored[1] and len(scored[0]) == len(PAIRS)
    assert run_command(["save", file, str(tmp_path / "plain")], debug=False) == 2
    assert "choose another folder for the model" in capsys.readouterr().err
