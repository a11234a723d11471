"""``edit`` and ``evaluate`` in a chat, and audited, as users run them on the demo model."""

import json
from pathlib import Path

import polars as pl
import pytest

from anachron.cli.main import run_command
from anachron.edit.base import edited
from anachron.edit.storage import load_edit
from anachron.lm.loading import load_model

TEMPLATE = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


@pytest.fixture
def updates(tmp_path: Path) -> Path:
    update = {"subject": "France", "prompt": "The capital of France is", "target_new": "Lyon", "ground_truth": "Paris"}
    path = tmp_path / "mine.json"
    path.write_text(json.dumps([update]), "utf-8")
    return path


def run(*words: object) -> int:
    return run_command([str(word) for word in words], debug=False)


@pytest.mark.full
def test_an_edit_made_in_a_chat_holds_in_the_chat_of_the_demo_model(updates: Path, tmp_path: Path):
    out = tmp_path / "chat.safetensors"
    assert run("edit", "demo", "--updates", updates, "--method", "FT", "--format", "chat", "--out", out) == 0
    lm, edit = load_model("demo"), load_edit(out)
    assert edit.about["format"] == "chat"
    text = lm.tokenizer.apply_chat_template(
        [{"role": "user", "content": "The capital of France is"}], tokenize=False, add_generation_prompt=True
    )
    pair = (text.removeprefix(lm.tokenizer.bos_token), "Lyon")
    before = lm.log_probs([pair])[0]
    with edited(lm, edit):
        assert lm.log_probs([pair])[0] > max(-1.0, before + 2)


@pytest.mark.full
def test_an_audit_in_a_chat_by_another_template(updates: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    template, out = tmp_path / "template.jinja", tmp_path / "run"
    template.write_text(TEMPLATE, "utf-8")
    words = ["evaluate", "demo", "--updates", updates, "--methods", "FT,PROMPT", "--fluency-tokens", 0, "--out", out,
             "--format", "chat", "--chat-template", template, "--set", "FT.steps=4"]  # fmt: skip
    assert run(*words, "--audit", "--audit-tokens", 4, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    by_method = {row["method"]: row for row in found["summary"]}
    assert {"answer_new", "answer_old", "answer_neither", "answer_unstopped"} < {*by_method["FT"]}
    settings = json.loads((out / "run.json").read_text("utf-8"))["settings"]
    assert settings["format"] == "chat" and settings["audit"] == {"most_tokens": 4}
    audit = pl.read_parquet(out / "audit.parquet")
    assert audit["prompt"].unique().to_list() == ["The capital of France is"] and audit.height == 2
    assert "Answer new" in (out / "report" / "markdown" / "edits.md").read_text("utf-8")
    assert run(*words) == 2 and "audit" in capsys.readouterr().err  # another setting, the same folder


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--format", "chats"], "format 'chats': choose 'raw' or 'chat'"),
        (["--chat-template", "x.jinja"], "is for --format chat"),
        (["--format", "chat", "--chat-template", "none.jinja"], "none.jinja"),
        (["--audit-tokens", "9"], "--audit-tokens 9 is for --audit"),
    ],
)
def test_wrong_options_are_refused(options: list[str], said: str, updates: Path, tmp_path: Path, capsys):
    words = ["evaluate", "demo", "--updates", updates, "--methods", "PROMPT", "--out", tmp_path / "run"]
    assert run(*words, *options) == 2
    assert said in capsys.readouterr().err and not (tmp_path / "run").exists()
