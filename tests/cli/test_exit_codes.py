"""A file that cannot be used has code 2 in every command, work that failed code 1."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anachron.cli.main import command_tree, execute

OUT = ("--out", "out.csv")
# Each command with an input that cannot be used, of every kind that it takes; what takes none is told.
BAD: dict[tuple[str, ...], list[list[str]]] = {
    ("check",): [["demo", "--facts", file, "--out", "o"] for file in ("facts.csv", "none.csv")]
    + [["nothing/here", "--facts", "good.csv", "--out", "o"], ["./broken", "--facts", "good.csv", "--out", "o"]]
    + [["demo", "--facts", "good.csv", "--out", "o", "--baseline", "broken"]],
    ("horizon",): [["demo", "--changes", file, "--out", "o"] for file in ("facts.csv", "none.csv")]
    + [["./broken", "--changes", "changes.csv", "--out", "o"]],
    ("audit",): [[file, "--tokenizer", "demo"] for file in ("facts.csv", "statements.csv", "none.csv")]
    + [["mini", "--tokenizer", "./broken"]],
    ("verbalize",): [["facts.csv", "--templates", "--out", "q.jsonl"], ["none.csv", "--templates", "--out", "q.jsonl"]],
    ("label",): [["--input", file, "--old-date", "2021-01-04", "--new-date", "2023-02-27"] for file in
                 ("broken.json", "none.json")],
    ("score",): [["demo", "--input", file, *OUT] for file in ("broken.json", "none.jsonl", "empty.jsonl")]
    + [["./broken", "--input", "pairs.jsonl", *OUT], ["demo", "--input", "pairs.jsonl", "--edit", "broken.json", *OUT]],
    ("runs", "list"): [["none"]],
    ("runs", "show"): [["none"], ["broken"]],
    ("runs", "compare"): [["none", "broken"], ["broken"]],
    ("runs", "export"): [["none", "scores.csv"], ["broken", "scores.csv"]],
    ("probe",): [["demo", "--dataset", file, "--out", "o"] for file in ("facts.csv", "statements.csv", "none.csv")]
    + [["./broken", "--dataset", "mini", "--out", "o"]],
    ("metrics",): [[file, "--out", "o"] for file in ("broken", "facts.csv", "none")],
    ("report",): [[file, "--out", "o"] for file in ("broken", "facts.csv", "none")],
    ("covariance",): [["demo", "--corpus", file, "--modules", "model.layers.0.mlp.down_proj"] for file in
                      ("empty.jsonl", "none.txt")],
    ("train-mend",): [["demo", "--updates", file, "--out", "o"] for file in ("broken.json", "none.json")],
    ("updates",): [["demo", "--updates", file] for file in ("broken.json", "none.json")],
    ("edit",): [["demo", "--updates", file, "--method", "FT", "--out", "e.safetensors"] for file in
                ("broken.json", "none.json")],
    ("evaluate",): [["demo", "--updates", file, "--methods", "FT", "--out", "o"] for file in
                    ("broken.json", "none.json")],
    ("advise",): [["demo", "--updates", file, "--ways", "FT", "--out", "o"] for file in ("broken.json", "none.json")],
    ("refresh",): [["demo", "--facts", file, "--ways", "FT", "--out", "o"] for file in ("facts.csv", "none.csv")],
    ("judge",): [[file, "--llm", "m", "--base-url", "http://127.0.0.1:9/v1"] for file in ("broken", "none")],
    ("save",): [["./broken", "saved"], ["demo", "saved", "--edit", "broken.json"]],
    ("build", "facts"): [[file, "--out", "f.parquet"] for file in ("broken", "none")],
    ("build", "statements"): [[file, *OUT] for file in ("facts.csv", "none.csv")],
    ("build", "timestress"): [["broken.json", "none", "--date", "2021-01-04", "--out", "o"]],
    ("build", "updates"): [["--old", "broken", "--new", "none", "--out", "u.parquet"]],
    ("build", "cloze"): [["broken", "--llm", "m", "--base-url", "http://127.0.0.1:9/v1", "--out", "c.csv"]],
    ("export", "lm-eval"): [[file, "--out", "o"] for file in ("facts.csv", "statements.csv")],
    ("export", "inspect"): [[file, "--out", "o"] for file in ("facts.csv", "statements.csv")],
    ("export", "hub"): [[file, "--out", "o"] for file in ("facts.csv", "statements.csv")],
    ("export", "counterfact"): [[file, "--out", "c.json"] for file in ("facts.csv", "statements.csv")],
    ("wikidata", "fetch"): [["--items", file, "--contact", "me@example.org", "--out", "o"] for file in
                            ("facts.csv", "none.csv")],
    ("wikidata", "pageviews"): [["broken", "none"]],
    ("wikidata", "ingest"): [["none.json.gz", "--date", "2021-01-04", "--out", "o"]],
    ("wikidata", "rebucket"): [["broken", "--buckets", "2", "--out", "o"]],
    ("wikidata", "redirects"): [["facts.csv", "none.sql", "--out", "r.csv"]],
    ("wikidata", "explain"): [["Q1", "--old", "broken", "--new", "none"]],
    ("runs", "rename"): [["broken", "label"], ["none", "label"]],
}  # fmt: skip
NO_FILES = {("demo",), ("contexts",), ("datasets",), ("wikidata", "download"), ("wikidata", "example")}


def paths(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command that does something itself."""
    below = getattr(command, "commands", {})
    for name, one in below.items():
        yield from paths(one, (*path, name))
    if not below:
        yield path


def test_every_command_is_tried() -> None:
    assert {*BAD} | NO_FILES == {*paths(command_tree())}


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    head = "subject,relation,object,start,end\n"
    for name, text in {
        "facts.csv": f"{head}Kazakhstan,capital,Astana,01/02/2009,\n",
        "good.csv": f"{head}Kazakhstan,capital,Almaty,1991,1997\nKazakhstan,capital,Astana,1997,\n",
        "changes.csv": "subject,relation,old,new,date\nX,mayor,A,B,2020-01\n",
        "statements.csv": "SubjectLabel,RelationLabel\nFrance,capital\n", "broken.json": '[{"subject": ',
        "empty.jsonl": "", "pairs.jsonl": '{"prompt": "Paris is in", "answer": "France"}\n',
    }.items():  # fmt: skip
        Path(name).write_text(text)
    Path("broken").mkdir()
    Path("broken", "run.json").write_text("{")
    Path("broken", "config.json").write_text("{")
    return tmp_path


@pytest.mark.parametrize("command", BAD, ids=" ".join)
def test_an_input_that_cannot_be_used_has_code_2(command: tuple[str, ...], inputs: Path, capsys) -> None:
    for words in BAD[command]:
        code = execute([*command, *words])
        (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
        assert (code, "unexpected" in line) == (2, False), (words, line)


READ_FIRST = [
    ["check", "demo", "--out", "o", "--facts", "facts.csv"], ["probe", "demo", "--out", "o", "--dataset", "facts.csv"],
    ["check", "m", "--backend", "chat", "--base-url", "http://127.0.0.1:9/v1", "--out", "o", "--facts", "facts.csv"],
    ["horizon", "demo", "--out", "o", "--changes", "facts.csv"], ["audit", "facts.csv", "--tokenizer", "demo"],
    ["build", "statements", "facts.csv", "--out", "s.csv"], ["export", "inspect", "facts.csv", "--out", "o"],
    ["export", "lm-eval", "facts.csv", "--out", "o"], ["export", "hub", "facts.csv", "--out", "o"],
]  # fmt: skip
PROGRAM = """
import json, sys
from anachron.cli.main import execute
for command in json.loads(sys.argv[1]):
    print(execute(command), sorted({"torch", "transformers"} & {*sys.modules}), flush=True)
"""


def test_facts_are_read_before_torch_is_there(inputs: Path) -> None:
    """In a process where nothing else has loaded it."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(READ_FIRST)], capture_output=True, text=True, timeout=120
    )
    assert done.stdout.splitlines() == ["2 []"] * len(READ_FIRST), done.stderr


def test_asking_a_server_for_answers_needs_no_torch(inputs: Path) -> None:
    server = ["--backend", "chat", "--base-url", "http://127.0.0.1:9/v1", "--out", "o", "--dry-run"]
    commands = [["check", "m", "--facts", "good.csv", *server], ["probe", "m", "--dataset", "good.csv", *server]]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(commands)], capture_output=True, text=True, timeout=120
    )
    assert [line for line in done.stdout.splitlines() if line[1:] == " []"] == ["0 []"] * 2, done.stdout + done.stderr


def test_a_backend_that_is_none_is_named(inputs: Path, capsys) -> None:
    for command in (["check", "--facts", "good.csv"], ["probe", "--dataset", "good.csv"], ["horizon"]):
        code = execute([*command[:1], "m", *command[1:], "--out", "o", "--backend", "chta", "--dry-run"])
        assert code == 2 and "backend 'chta': choose one of transformers," in capsys.readouterr().err
    assert not Path("o").exists()
