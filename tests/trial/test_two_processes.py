"""Two processes with one output, started together: one makes it, whole and its own, and the other is refused in a line.

Over the commands that need no server and no dump; the others are locked by the same lines (`anachron.cli.outputs`).
"""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from anachron.cli.main import execute

pytestmark = pytest.mark.trial
FACTS = "subject,relation,object,start,end\n{0},president,Ann A,1995-05-17,2007-05-16\n{0},president,Bob B,2007,2012\n"
GROUP = {
    "property": "P6", "relation_type": "temp", "subject_is_new": False, "subject_only_in_old": False,
    "triples": [{"diff": "new", "value_time": None, "object_is_new_entity": False, "qualifiers_new": {},
                 "qualifiers_old": None}],
}  # fmt: skip
EDIT = ["edit", "demo", "--updates", "mini-updates", "--method", "FT", "--shown", "0", "--limit", "1"]
# Command -> its words but for the output, for each of the two processes; the output's option and name
COMMANDS: dict[str, tuple[list[str], list[str], list[str]]] = {
    "save": (["save", "demo"], ["save", "demo-untrained"], ["", "out"]),
    "save in another dtype": (["save", "demo"], ["save", "demo", "--dtype", "bfloat16"], ["", "out"]),
    "edit": ([*EDIT, "--set", "FT.steps=1"], [*EDIT, "--method", "FT+L", "--set", "FT+L.steps=1"],
             ["--out", "out.safetensors"]),
    "edit --save-model": (
        [*EDIT, "--set", "FT.steps=1", "--out", "1.safetensors"],
        [*EDIT, "--set", "FT.steps=3", "--out", "2.safetensors"],
        ["--save-model", "out"],
    ),
    "label": (
        ["label", "--input", "1.jsonl", "--old-date", "2021-01-04", "--new-date", "2023-02-27"],
        ["label", "--input", "2.jsonl", "--old-date", "2021-01-04", "--new-date", "2023-02-27"],
        ["--out", "out.jsonl"],
    ),
    "datasets": (["datasets", "mini"], ["datasets", "mini-changes"], ["--out", "out.parquet"]),
    "score": (["score", "demo", "--input", "p1.jsonl"], ["score", "demo", "--input", "p2.jsonl"],
              ["--out", "out.parquet"]),
    "updates": (["updates", "demo", "--updates", "mini-updates", "--limit", "2"],
                ["updates", "demo-untrained", "--updates", "mini-updates", "--limit", "2"], ["--out", "out.csv"]),
    "build statements": (["build", "statements", "1.csv"], ["build", "statements", "2.csv"], ["--out", "out.parquet"]),
    "verbalize": (["verbalize", "1.csv", "--templates"], ["verbalize", "2.csv", "--templates"],
                  ["--out", "out.parquet"]),
    "export hub": (["export", "hub", "1.csv"], ["export", "hub", "2.csv"], ["--out", "out"]),
    "export lm-eval": (["export", "lm-eval", "1.csv"], ["export", "lm-eval", "2.csv"], ["--out", "out"]),
    "probe": (["probe", "demo", "--dataset", "1.csv"], ["probe", "demo", "--dataset", "2.csv"], ["--out", "out"]),
    "check": (["check", "demo", "--facts", "1.csv", "--no-page"], ["check", "demo", "--facts", "2.csv", "--no-page"],
              ["--out", "out"]),
}  # fmt: skip
CHANGING = ("versions", "started", "finished", "sessions")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    for number, name in ((1, "France"), (2, "Chile")):
        (folder / f"{number}.csv").write_text(FACTS.format(name))
        (folder / f"{number}.jsonl").write_text((json.dumps(GROUP) + "\n") * number)
        pairs = [{"prompt": f"The president of {name} is", "answer": "Ann A"}] * number
        (folder / f"p{number}.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    return folder


def started(words: list[str], output: list[str], folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "anachron", *words, *(word for word in output if word)]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def content(path: Path) -> dict[str, str]:
    """The bytes of what is data: no record holds the time or names a folder in the same way twice."""
    files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    kinds = (".safetensors", ".parquet", ".csv", ".jsonl", ".yaml")
    return {
        str(p.relative_to(path.parent)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in files
        if p.suffix in kinds and not p.name.startswith(".") and p.suffix != ".safetensors"
    } | {
        str(p.relative_to(path.parent)): tensors(p)
        for p in files
        if p.suffix == ".safetensors" and not p.name.startswith(".")
    }


def tensors(path: Path) -> str:
    """An edit's file holds the seconds that it took; its tensors do not."""
    from safetensors import safe_open

    digest = hashlib.sha256()
    with safe_open(path, framework="np") as file:
        for name in sorted(file.keys()):
            digest.update(name.encode() + str(file.get_slice(name).get_dtype()).encode())
            if file.get_slice(name).get_dtype() != "BF16":
                digest.update(file.get_tensor(name).tobytes())
    return digest.hexdigest()


@pytest.mark.share(2)
@pytest.mark.parametrize("name", COMMANDS)
def test_one_of_two_processes_makes_the_output(
    name: str, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    *both, output = COMMANDS[name]
    alone = []
    for number, words in enumerate(both):
        folder = shutil.copytree(inputs, tmp_path / f"alone{number}")
        monkeypatch.chdir(folder)
        assert execute([*words, *(word for word in output if word)]) == 0
        alone.append(content(folder / output[1]))
    assert alone[0] != alone[1]
    folder = shutil.copytree(inputs, tmp_path / "together")
    processes = [started(words, output, folder) for words in both]
    ends = [(process.communicate(timeout=500)[1], process.returncode) for process in processes]
    codes = [code for _, code in ends]
    if name.startswith("export") and codes == [0, 0]:  # one after the other: it may write its own folder anew
        assert content(folder / output[1]) in alone
    else:
        assert sorted(codes) == [0, 2], ends
        refused = ends[codes.index(2)][0].splitlines()
        assert refused[-1].startswith("error: ") and not any("Traceback" in line for line in refused)
        assert content(folder / output[1]) == alone[codes.index(0)]
    hidden = [path.name for path in folder.iterdir() if path.name.startswith(".")]
    assert hidden == []
    print(f"trial: 2 processes with one output of {name} tried, 1 refused or later, the output survived whole")
