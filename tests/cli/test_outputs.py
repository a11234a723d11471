"""What commands write: never an input, no other command's file, by one process at a time, whole or not at all."""

import inspect
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from anachron.cli.main import command_tree, run_command
from anachron.cli.outputs import BUNDLED, FILE, HeldOutput, Output, guarded
from anachron.core.errors import ConfigError

GROUPS = {
    "property": "P6",
    "relation_type": "temp",
    "subject_is_new": False,
    "subject_only_in_old": False,
    "triples": [
        {"diff": "new", "value_time": None, "object_is_new_entity": False, "qualifiers_new": {}, "qualifiers_old": None}
    ],
}
FACTS = "subject,relation,object,start,end\nFrance,president,Jacques Chirac,1995-05-17,2007-05-16\n"
# Parameters that are paths and yet nothing that a command writes as its result: what it reads, and caches
READ = {
    "answers", "baseline", "cache", "chat_template", "cloze", "dump", "dumps", "earlier", "edit", "entities", "facts",
    "files", "folders", "import_", "input", "instructions", "judged", "mend", "models", "new", "old", "page",
    "page_views", "pageviews", "passages", "query", "questions", "redirect", "redirects", "reuse", "run", "runs",
    "scores", "snapshot", "text",
}  # fmt: skip


def commands(tree: Any = None, before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in (command_tree() if tree is None else tree).commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*before, name))
        else:
            yield (*before, name), command


def annotations(command: Any) -> dict[str, Any]:
    return {name: p.annotation for name, p in inspect.signature(command.callback).parameters.items()}


def is_path(annotation: Any) -> bool:
    base, *_ = get_args(annotation) or (annotation,)
    return Path in (base, *get_args(base))


def written(kinds: tuple[str, ...]) -> list[tuple[tuple[str, ...], str]]:
    """(command, parameter) of all that commands write, as the command line itself has it."""
    return [
        (words, name)
        for words, command in commands()
        for name, annotation in annotations(command).items()
        for mark in get_args(annotation)
        if isinstance(mark, Output) and mark.kind in kinds
    ]


def line(words: tuple[str, ...], parameter: str, out: Path, given: Path) -> list[str]:
    """A command line with all that is required; its inputs are one file, and one parameter names an output."""
    command = dict(commands())[words]
    marks = {name: any(isinstance(m, Output) for m in get_args(a)) for name, a in annotations(command).items()}
    arguments, options = [], []
    for asked in command.params:
        value = str(out) if asked.name == parameter else str(out) + ".other" if marks.get(asked.name) else str(given)
        if asked.param_type_name == "argument":
            arguments.append(value)
        elif asked.name == parameter or asked.required:
            number = not is_path(annotations(command)[asked.name]) and int in get_args(annotations(command)[asked.name])
            options += [asked.opts[0], "2" if number else value]
    return [*words, *arguments, *options]


def run(*words: object) -> int:
    return run_command([str(word) for word in words], debug=False)


def test_every_path_of_every_command_is_known_as_read_or_written():
    unknown = [
        (words, name)
        for words, command in commands()
        for name, annotation in annotations(command).items()
        if (is_path(annotation) or name in ("out", "folder"))
        and not any(isinstance(mark, Output) for mark in get_args(annotation))
        and name not in READ
    ]
    assert unknown == []
    assert len(written(("file",))) >= 14 and len(written(("file", "kept", "folder", "run"))) >= 30


@pytest.mark.parametrize(
    "words, parameter", written(("file",)), ids=lambda v: " ".join(v) if isinstance(v, tuple) else v
)
def test_a_file_of_somebody_else_is_not_replaced(words, parameter, tmp_path: Path, capsys):
    given, out = tmp_path / "given.csv", tmp_path / "notes.txt"
    given.write_text(FACTS)
    out.write_text("mine")
    assert run(*line(words, parameter, out, given)) == 2
    told = capsys.readouterr().err
    assert "is there already, and no manifest beside it" in told and "--overwrite" in told and told.count("\n") == 1
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"given.csv": FACTS, "notes.txt": "mine"}


@pytest.mark.few(8)
@pytest.mark.parametrize(
    "words, parameter",
    written(("file", "kept", "folder", "run")),
    ids=lambda v: " ".join(v) if isinstance(v, tuple) else v,
)
def test_an_input_is_never_an_output(words, parameter, tmp_path: Path, capsys):
    given, link = tmp_path / "given.csv", tmp_path / "link.csv"
    given.write_text(FACTS)
    link.symlink_to(given)
    if len(line(words, parameter, link, given)) == len(words) + 2 or words == ("wikidata", "download"):
        pytest.skip("it reads nothing")
    overwrite = ["--overwrite"] if "overwrite" in annotations(dict(commands())[words]) else []
    for more in ([], overwrite):
        assert run(*line(words, parameter, link, given), *more) == 2
        told = capsys.readouterr().err
        assert "is the input itself" in told and told.count("\n") == 1
    assert given.read_text() == FACTS and len([*tmp_path.iterdir()]) == 2


@pytest.mark.few(8)
@pytest.mark.parametrize(
    "words, parameter",
    written(("file", "kept", "folder", "run")),
    ids=lambda v: " ".join(v) if isinstance(v, tuple) else v,
)
def test_a_name_that_no_disk_takes_is_one_line(words, parameter, tmp_path: Path, capsys):
    (tmp_path / "given.csv").write_text(FACTS)
    for out in (tmp_path / ("x" * 300), tmp_path / ("x" * 300) / "out.csv", tmp_path / ("x" * 230)):
        assert run(*line(words, parameter, out, tmp_path / "given.csv")) == 2
        told = capsys.readouterr().err
        assert "is too long" in told and told.count("\n") == 1 and "unexpected" not in told
    assert [path.name for path in tmp_path.iterdir()] == ["given.csv"]


def test_every_bundled_name_is_known_as_one():
    """A folder that is called like one, in which a command is run, is not taken for its input."""
    from anachron.data import loaders
    from anachron.data.bundled.mini import MINI_CHANGES
    from anachron.data.updates.cases import MINI_UPDATES
    from anachron.lm.tokenizers import DEMO, DEMO_UNTRAINED

    assert {*loaders.BUNDLED, MINI_UPDATES, MINI_CHANGES, DEMO, DEMO_UNTRAINED} == BUNDLED


def test_a_device_is_no_output(tmp_path: Path, capsys):
    assert run("datasets", "mini-changes", "--out", "/dev/null", "--overwrite") == 2
    assert "is a device, pipe or socket; name a file" in capsys.readouterr().err
    assert not Path("/dev/null").is_file()


def test_the_same_command_may_be_repeated_and_no_other(tmp_path: Path, capsys, monkeypatch):
    groups = [GROUPS | {"property": name} for name in ("P6", "P35")]
    for name, group in zip(("a.jsonl", "b.jsonl"), groups, strict=True):
        (tmp_path / name).write_text(json.dumps(group) + "\n")
    out = tmp_path / "labels.jsonl"

    def label(name: object, *more: object) -> int:
        return run(
            "label", "--input", name, "--old-date", "2021-01-04", "--new-date", "2023-02-27", "--out", out, *more
        )

    assert label(tmp_path / "a.jsonl") == 0
    manifest = json.loads((tmp_path / "labels.jsonl.manifest.json").read_text())
    assert manifest["made_by"] == {"command": "label", "input": ["a.jsonl"]}
    first = out.read_bytes()
    assert label(tmp_path / "a.jsonl") == 0  # the same
    (tmp_path / "a.jsonl").write_text(json.dumps(groups[0]) + "\n" + json.dumps(groups[1]) + "\n")
    assert label(tmp_path / "a.jsonl") == 0  # the same file with other content, as in continuous integration
    assert out.read_bytes() != first
    monkeypatch.chdir(tmp_path)
    assert label("a.jsonl") == 0  # the same file by another way
    capsys.readouterr()
    assert label("b.jsonl") == 2
    assert "other inputs made it (input[0]: 'a.jsonl' -> 'b.jsonl'); choose another name" in capsys.readouterr().err
    assert run("datasets", "mini-changes", "--out", out) == 2
    assert "command: 'label' -> 'datasets'" in capsys.readouterr().err
    assert label("b.jsonl", "--overwrite") == 0
    assert label("b.jsonl") == 0
    out.write_text("filled in by hand")
    assert label("b.jsonl") == 2
    assert "it was changed since it was made" in capsys.readouterr().err
    out.unlink()
    assert label("a.jsonl") == 0  # what is left of a file that was removed is no hindrance
    assert {path.name for path in tmp_path.iterdir()} == {"a.jsonl", "b.jsonl", out.name, f"{out.name}.manifest.json"}


def test_the_facts_are_not_replaced_by_the_junit_file(tmp_path: Path, capsys):
    facts = tmp_path / "facts.csv"
    facts.write_text(FACTS)
    for more in ([], ["--overwrite"]):
        command = ["check", "demo", "--facts", facts, "--out", tmp_path / "run", "--junit", facts, *more]
        assert run(*command) == 2
        assert f"--junit {facts} is the input itself, which --facts names" in capsys.readouterr().err
    assert facts.read_text() == FACTS
    weights = tmp_path / "model" / "model.safetensors"
    weights.parent.mkdir()
    weights.write_bytes(b"weights")
    command = ["edit", weights.parent, "--updates", "mini-updates", "--method", "ROME", "--out", weights, "--overwrite"]
    assert run(*command) == 2
    assert "is a file of the input" in capsys.readouterr().err
    assert weights.read_bytes() == b"weights"


@pytest.mark.parametrize("out", [".", "..", "../out/"])
def test_a_folder_may_be_named_by_dots(out: str, tmp_path: Path, monkeypatch):
    """What is beside it for a while lies beside the folder, not in it."""
    known = annotations(dict(commands())[("metrics",)])
    here = tmp_path / "out" if out != ".." else tmp_path / "out" / "below"
    here.mkdir(parents=True)
    monkeypatch.chdir(here)
    with guarded("metrics", known, dict.fromkeys(known) | {"out": Path(out)}, overwrite=False):
        assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [".out.making.lock"]
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == []
    assert run("datasets", "mini-changes", "--out", ".") == run("datasets", "mini-changes", "--out", "/") == 2


def test_a_folder_beside_which_nothing_may_be_written_can_be_filled(tmp_path: Path, monkeypatch):
    """A volume of a container, say; the system's answer is put in, as root may write everywhere."""
    known, volume = annotations(dict(commands())[("metrics",)]), tmp_path / "volume"
    volume.mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
    with guarded("metrics", known, dict.fromkeys(known) | {"out": volume}, overwrite=False):
        assert [path.name for path in tmp_path.iterdir()] == ["volume"]


@pytest.mark.parametrize(
    "command, option",
    [("probe", "label"), ("probe", "format"), ("check", "language"), ("evaluate", "methods"), ("metrics", "baseline"),
     ("judge", "llm"), ("train-mend", "split"), ("horizon", "prefix")],
)  # fmt: skip
def test_a_word_that_a_folder_is_called_by_is_no_input(command: str, option: str, tmp_path: Path, monkeypatch):
    """As of the second ``probe gemma --format chat --out chat``: the folder is that of the first."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "chat").mkdir()
    known = annotations(dict(commands())[(command,)])
    values = dict.fromkeys(known) | {option: "chat", "out": Path("chat")}
    with guarded(command, known, values, overwrite=False):
        pass


def test_another_baseline_each_day_may_make_the_same_junit_file(tmp_path: Path):
    known = annotations(dict(commands())[("check",)])
    given = dict.fromkeys(known) | {"model": "demo", "facts": tmp_path / "facts.csv", "junit": tmp_path / "junit.xml"}
    for day in ("monday", "tuesday"):
        values = given | {"baseline": tmp_path / day, "out": tmp_path / f"after-{day}"}
        with guarded("check", known, values, overwrite=False):
            given["junit"].write_text(f"<testsuites>{day}</testsuites>")
    for changed, fault in (
        ({"model": "gpt2"}, r"other inputs made it \(model\[0\]: 'demo' -> 'gpt2'\)"),
        ({"baseline": given["junit"]}, "is the input itself, which --baseline names"),
    ):
        refused = guarded("check", known, values | changed, overwrite=False)
        with pytest.raises(ConfigError, match=fault), refused:
            pass


def test_a_command_that_was_killed_may_be_repeated_over_what_it_left(tmp_path: Path, capsys):
    """Killed by SIGKILL between the file and its manifest, over the file of an earlier call."""
    (tmp_path / "a.jsonl").write_text(json.dumps(GROUPS) + "\n")
    (tmp_path / "b.jsonl").write_text(json.dumps(GROUPS) + "\n")
    out = tmp_path / "labels.jsonl"
    words = ["label", "--old-date", "2021-01-04", "--new-date", "2023-02-27", "--out", str(out), "--input"]
    program = (
        "import os, signal, sys\n"
        "from anachron.wikidata.updates import given\n"
        "given.write_manifest = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)\n"
        "from anachron.cli.entry import run\n"
        "run(sys.argv[1:])\n"
    )
    done = subprocess.run([sys.executable, "-c", program, *words, str(tmp_path / "a.jsonl")], timeout=120)
    assert done.returncode == -signal.SIGKILL and out.is_file()
    assert run(*words, tmp_path / "b.jsonl") == 2
    capsys.readouterr()
    assert run(*words, tmp_path / "a.jsonl") == 0
    names = {"a.jsonl", "b.jsonl", out.name, f"{out.name}.manifest.json"}
    assert {path.name for path in tmp_path.iterdir()} == names


def test_nothing_stays_of_a_command_that_is_refused(tmp_path: Path, capsys):
    days = ["--old-date", "2021-01-04", "--new-date", "2023-02-27"]
    assert run("label", "--input", tmp_path / "no.jsonl", *days, "--out", tmp_path / "new" / "deep" / "s.jsonl") == 2
    assert [*tmp_path.iterdir()] == []
    told = capsys.readouterr().err
    assert told.startswith("error: ") and told.count("\n") == 1


def test_secrets_of_an_address_are_not_recorded(tmp_path: Path):
    held = HeldOutput(
        tmp_path / "x", "--out", FILE, "verbalize", {"base_url": ["http://me:key@host:1/v1?key=hidden"]}, []
    )
    assert held._made_by() == {"command": "verbalize", "base_url": ["http://host:1/v1"]}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", [["contexts", "--start", "1000", "--end", "2010"], ["label", "--help"]])
def test_results_that_cannot_be_written_are_one_line(words: list[str]):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "anachron", *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120
        )
    lost = "error: the output is lost: No space left on device; send stdout somewhere else\n"
    assert (done.returncode, done.stderr) == (1, lost)


@pytest.mark.parametrize(
    "error, words",
    [
        (MemoryError(), "error: out of memory (MemoryError); take a smaller model or input"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), "error: out of memory (DefaultCPU"),
        (IsADirectoryError(21, "Is a directory", "x"), "error: x: Is a directory; that is a folder; name a file"),
        (PermissionError(13, "Permission denied", "x"), "error: x: Permission denied; choose a folder that you may"),
    ],
)
def test_what_a_machine_lacks_is_no_unexpected_error(error: Exception, words: str, monkeypatch, capsys):
    def failing(**_: object) -> None:
        raise error

    monkeypatch.setattr("anachron.cli.main.command_tree", lambda installed: failing)
    assert run("score") == 1
    told = capsys.readouterr().err
    assert told.startswith(words) and "unexpected" not in told and told.count("\n") == 1


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems do not hold processes to RLIMIT_AS")
def test_a_limit_below_what_torch_takes_is_one_line(tmp_path: Path):
    """Torch itself would end the process while it is imported (``ulimit -v``: 134 or 127)."""
    (tmp_path / "facts.csv").write_text(FACTS)
    done = subprocess.run(
        [sys.executable, "-m", "anachron", "score", "demo", "--input", "facts.csv", "--out", "o.csv"], cwd=tmp_path,
        capture_output=True, text=True, timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1_400_000 << 10,) * 2),
    )  # fmt: skip
    said = "error: out of memory (ulimit -v 1400000 leaves less than 1,536 MiB to torch and a model); take a smaller"
    assert done.stderr.startswith(said) and done.stderr.count("\n") == 1 and done.returncode == 1


def limited(size: int) -> Any:
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.share(2)
@pytest.mark.full
@pytest.mark.parametrize("command", ["save", "edit"])
def test_a_model_that_does_not_fit_on_the_disk_leaves_nothing(command: str, tmp_path: Path):
    """The system itself refuses to write more, at any size: within the weights, the tokenizer, the edit."""
    words = {
        "save": ["save", "demo", "model"],
        "edit": ["edit", "demo", "--updates", "mini-updates", "--limit", "1", "--method", "FT", "--set", "FT.steps=1",
                 "--out", "e.safetensors", "--save-model", "model"],
    }  # fmt: skip
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    for size in (50_000, 2_000_000):
        done = subprocess.run(
            [sys.executable, "-m", "anachron", *words[command]], cwd=tmp_path, capture_output=True, text=True,
            timeout=300, preexec_fn=limited(size), env=environment,
        )  # fmt: skip
        last = done.stderr.splitlines()[-1]
        assert done.returncode == 1 and "cannot write" in last and "File too large" in last, done.stderr
        assert "unexpected" not in done.stderr and "shards" not in done.stderr
        assert not [p for p in tmp_path.iterdir() if p.name.startswith(".") or p.name == "model"], size


@pytest.mark.full
def test_stderr_of_a_saved_model_holds_our_lines_alone(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-m", "anachron", "save", "demo", str(tmp_path / "model")], capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0
    assert done.stderr == f"LlamaForCausalLM with 1,627,776 parameters in float32 written to {tmp_path / 'model'}\n"
