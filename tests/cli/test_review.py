"""Mistakes a reviewer found once, kept from coming back."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
import torch
from accelerate import cpu_offload, disk_offload

from anachron.cli.main import run_command
from anachron.core.errors import ModelError
from anachron.data.columns import to_published
from anachron.data.dataset import Dataset
from anachron.io.files import file_fingerprint
from anachron.lm.loading import check_model, load_model
from anachron.lm.tokenizers import demo_folder
from anachron.probe.audit import Audit, tell
from anachron.probe.prefixes import prefix_text


@pytest.fixture
def small(brief: Dataset, tmp_path: Path) -> Path:
    data = brief.sample(2)
    to_published(data.table, data.boundaries).write_csv(tmp_path / "small.csv")
    return tmp_path / "small.csv"


def test_fingerprint_sees_a_few_elements():
    lm = load_model("demo")
    before = lm.fingerprint()
    with torch.no_grad():
        lm.model.get_input_embeddings().weight[5, 1:8] += 9
    assert lm.fingerprint() != before


@pytest.mark.full
def test_several_models_into_a_run_folder_are_refused(small: Path, tmp_path: Path, capsys):
    run = str(tmp_path / "run")
    assert run_command(["probe", "demo", "--dataset", str(small), "--out", run, "--label", "x[/b]"], False) == 0
    assert "x[/b]" in capsys.readouterr().out
    assert run_command(["probe", "demo", "demo-untrained", "--dataset", str(small), "--out", run], False) == 2
    assert "itself a run folder" in capsys.readouterr().err


@pytest.mark.full
def test_models_of_one_name_are_told_apart(small: Path, tmp_path: Path, capsys):
    for parent in "ab":
        shutil.copytree(demo_folder(), tmp_path / parent / "final")
    models = [str(tmp_path / parent / "final") for parent in "ab"]
    out = str(tmp_path / "runs")
    assert run_command(["probe", *models, "--dataset", str(small), "--out", out, "--json"], False) == 0
    assert {r["model"] for r in json.loads(capsys.readouterr().out)["summary"]} == {"a/final", "b/final"}


@pytest.mark.parametrize("missing", ["gone", "gone.gguf", "broken"])
def test_a_missing_model_is_told_before_the_first_is_scored(
    missing: str, small: Path, tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("anachron.lm.loading.load_model", lambda *_, **__: pytest.fail("a model was loaded"))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{")
    command = ["probe", "demo", str(tmp_path / missing), "--dataset", str(small), "--out", str(tmp_path / "runs")]
    assert run_command(command, False) == 2
    assert str(tmp_path / missing) in capsys.readouterr().err and not (tmp_path / "runs").exists()


def test_every_kind_of_model_that_is_there_is_found(tmp_path: Path):
    shutil.copytree(demo_folder(), tmp_path / "model")
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter" / "adapter_config.json").write_text("{}")
    for name in ("demo", "demo-untrained", str(tmp_path / "model"), str(tmp_path / "adapter")):
        check_model(name)


@pytest.mark.full
def test_a_refused_command_leaves_no_run_behind(small: Path, tmp_path: Path, capsys):
    (tmp_path / "long.txt").write_text("word " * 500)
    command = ["probe", "demo", "--dataset", str(small), "--out", str(tmp_path / "run")]
    assert run_command([*command, "--prefix", str(tmp_path / "long.txt")], False) == 2
    assert "shorten the prompt or the prefix" in capsys.readouterr().err
    assert run_command(command, False) == 0


def test_a_prefix_file_does_not_pass_for_a_built_in(tmp_path: Path):
    (tmp_path / "hierarchy").write_text("Mine.")
    assert prefix_text(str(tmp_path / "hierarchy")) == (str(tmp_path / "hierarchy"), "Mine.")
    (tmp_path / "mine.txt").write_text("Mine.")
    assert prefix_text(str(tmp_path / "mine.txt")) == ("mine.txt", "Mine.")


def test_score_looks_at_its_output_first(tmp_path: Path, capsys):
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text('{"prompt": "Who?", "answer": "Paris"}\n')
    before = pairs.read_bytes()
    for out, words in ((pairs, "is the input itself"), (tmp_path / "scores.xlsx", "unknown ending '.xlsx'")):
        assert run_command(["score", "no/model", "--input", str(pairs), "--out", str(out)], False) == 2
        assert words in capsys.readouterr().err
    assert pairs.read_bytes() == before
    assert run_command(["score", "demo", "--input", str(pairs), "--out", str(tmp_path / "s.csv"), "--json"], False) == 0
    assert json.loads(capsys.readouterr().out) == {
        "pairs": 1, "model": "demo", "dtype": "float32", "scores": str(tmp_path / "s.csv"),
    }  # fmt: skip


def test_half_a_character_is_refused(tmp_path: Path, capsys):
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text('{"prompt": "Who?", "answer": "Paris"}\n{"prompt": "Who \\ud83d?", "answer": "Paris"}\n')
    assert run_command(["score", "demo", "--input", str(pairs), "--out", str(tmp_path / "s.csv")], False) == 2
    assert "row 2: prompt 'Who \\ud83d?' holds half a character" in capsys.readouterr().err


def test_a_chat_template_that_is_no_text(small: Path, tmp_path: Path, capsys):
    (tmp_path / "template.jinja").write_bytes(b"\xff\xfe{{")
    command = ["probe", "demo", "--dataset", str(small), "--out", str(tmp_path / "run"), "--format", "chat"]
    assert run_command([*command, "--chat-template", str(tmp_path / "template.jinja")], False) == 2
    assert "cannot be read as UTF-8" in capsys.readouterr().err


def test_a_tokenizer_larger_than_the_model_is_refused():
    lm = load_model("demo")
    lm.tokenizer.add_tokens(["Paris"])
    with pytest.raises(
        ModelError, match=r"the tokenizer gives token \d+, but demo knows only \d+; use the model's own"
    ):
        lm.log_probs([("Where?", "Paris")])


def test_offloaded_weights_are_fingerprinted_in_full(tmp_path: Path):
    whole = load_model("demo").fingerprint()
    for offload in (cpu_offload, lambda model, device: disk_offload(model, tmp_path / "weights", device)):
        lm = load_model("demo")
        offload(lm.model, torch.device("cpu"))
        assert any(parameter.device.type == "meta" for parameter in lm.model.parameters())
        assert lm.fingerprint() == whole
    with torch.no_grad():
        lm = load_model("demo")
        lm.model.get_input_embeddings().weight[5, 1] += 1
    cpu_offload(lm.model, torch.device("cpu"))
    assert lm.fingerprint() != whole


@pytest.mark.full
def test_manifest_of_tables_fingerprints_the_scores(small: Path, tmp_path: Path):
    assert run_command(["probe", "demo", "--dataset", str(small), "--out", str(tmp_path / "run")], False) == 0
    scores = tmp_path / "run" / "scores.parquet"
    manifest = json.loads((tmp_path / "run" / "metrics" / "manifest.json").read_text())
    assert manifest["inputs"] == {str(scores): file_fingerprint(scores)}


@pytest.mark.full
def test_an_older_run_beside_is_left_out(small: Path, tmp_path: Path, capsys):
    (tmp_path / "runs" / "old").mkdir(parents=True)
    (tmp_path / "runs" / "old" / "run.json").write_text(json.dumps({"settings": {"label": "old"}}))
    out = str(tmp_path / "runs")
    assert run_command(["probe", "demo", "demo-untrained", "--dataset", str(small), "--out", out, "--json"], False) == 0
    assert {r["model"] for r in json.loads(capsys.readouterr().out)["summary"]} == {"demo", "demo-untrained"}


@pytest.mark.full
def test_tables_of_one_model_are_not_merged(small: Path, tmp_path: Path, capsys):
    assert run_command(["probe", "demo", "--dataset", str(small), "--out", str(tmp_path / "run")], False) == 0
    scores = pl.read_parquet(tmp_path / "run" / "scores.parquet")
    for name, part in (("a", scores.head(60)), ("b", scores.tail(60))):
        part.write_parquet(tmp_path / f"{name}.parquet")
    tables = [str(tmp_path / f"{name}.parquet") for name in "ab"]
    assert run_command(["metrics", *tables, "--out", str(tmp_path / "t")], False) == 2
    assert "two sources" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--dtype", "float13"], "dtype 'float13': choose one of"),
        (["--format", "html"], "format 'html'"),
        (["--prefix", "no-such-file.txt"], "no-such-file.txt"),
    ],
)
def test_a_wrong_command_is_refused_before_anything_is_loaded(wrong, said, tmp_path: Path, monkeypatch, capsys):
    def unwanted(*_args, **_options):
        raise AssertionError("loaded something")

    monkeypatch.setattr("anachron.data.loaders.load_dataset", unwanted)
    monkeypatch.setattr("anachron.lm.loading.load_model", unwanted)
    assert run_command(["probe", "demo", "--dataset", "mini", "--out", str(tmp_path / "run"), *wrong], False) in (1, 2)
    assert said in capsys.readouterr().err


def test_a_quantised_model_that_cannot_be_moved_is_refused_in_a_line(monkeypatch):
    model = load_model("demo").model

    def stays(*_args, **_options):
        raise ValueError("`.to` is not supported for `8-bit` bitsandbytes models.\nMore words.")

    monkeypatch.setattr(model, "to", stays)
    monkeypatch.setattr("anachron.lm.loading._load_weights", lambda *_: model)
    with pytest.raises(ModelError, match=r"cannot put demo on device 'cpu': `\.to` is not supported for `8-bit`"):
        load_model("demo", device="cpu")


def test_probe_warns_of_answers_inside_a_token_of_the_question():
    heard: list[str] = []
    found = Audit(statements=9, straddling=2, examples={"straddling": ["who? Quimby"]})
    tell(found, heard.append)
    assert heard == [
        "2 answers start inside a token that also holds the end of the question, for instance: who? Quimby"
    ]


def test_a_byte_order_mark_is_no_part_of_a_prefix(tmp_path: Path):
    (tmp_path / "prefix.txt").write_bytes(b"\xef\xbb\xbfAnswer briefly.\n")
    assert prefix_text(str(tmp_path / "prefix.txt")) == ("prefix.txt", "Answer briefly.\n")
