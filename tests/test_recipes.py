"""Recipes: their commands are real, their models are the papers', and each runs from nothing to the tables."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
import typer

from anachron.cli.main import app
from anachron.data.columns import to_published
from anachron.data.loaders import load_dataset
from anachron.lm.formats import ChatTemplate
from anachron.lm.model import demo_folder, load_tokenizer

RECIPES = Path(__file__).parent.parent / "recipes"
SCRIPTS = sorted(RECIPES.glob("*.sh"))
# Paper 002, section 4, and 001, section 4.1: the pretrained ones, and "instruction-tuned versions" of each.
PRETRAINED = {
    "Mistral-Nemo-Base-2407", "Mistral-7B-v0.3", "OpenELM-450M", "OpenELM-3B", "gemma-2-2b", "gemma-2-9b",
    "gemma-2-27b", "Llama-3.1-8B", "Llama-3.1-70B",
}  # fmt: skip
INSTRUCT = {
    "Mistral-Nemo-Instruct-2407", "Mistral-7B-Instruct-v0.3", "OpenELM-450M-Instruct", "OpenELM-3B-Instruct",
    "gemma-2-2b-it", "gemma-2-9b-it", "gemma-2-27b-it", "Llama-3.1-8B-Instruct", "Llama-3.1-70B-Instruct",
}  # fmt: skip
OWNERS = {"Mistral": "mistralai", "OpenELM": "apple", "gemma": "google", "Llama": "meta-llama"}
# Stands in for anachron: writes down its words, and gives the larger robustness to the larger number in a model's name.
RECORDER = """#!{python}
import csv, json, pathlib, re, sys
words = sys.argv[1:]
with open({log!r}, "a") as log:
    log.write(json.dumps(words) + "\\n")
if words[0] == "metrics":
    out = pathlib.Path(words[words.index("--out") + 1])
    out.mkdir(parents=True, exist_ok=True)
    with (out / "summary.csv").open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\\n")
        table.writerow(["model", "format", "prefix", "granularity", "facts", "win_rate", "robustness"])
        for run in [w for w in words[1:words.index("--out")]]:
            form, prefix = pathlib.Path(run).parent.name.split("-", 1)
            size = max(map(int, re.findall("[0-9]+", run)))
            for granularity, robustness in (("year", 1 / size), ("global", size / 10000)):
                table.writerow([pathlib.Path(run).name, form, prefix, granularity, 5, 0.5, robustness])
"""


def hub_name(model):
    return f"{OWNERS[model.split('-')[0]]}/{model}"


def record(script, tmp_path, *arguments, **environment):
    """The commands that a recipe gives, without running them: ``anachron`` is a stand-in that writes them down."""
    log, binary = tmp_path / "log", tmp_path / "bin" / "anachron"
    binary.parent.mkdir(exist_ok=True)
    binary.write_text(RECORDER.format(python=sys.executable, log=str(log)))
    binary.chmod(0o755)
    path = f"{binary.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [RECIPES / script, *arguments], cwd=tmp_path, env={**os.environ, "PATH": path, **environment},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in log.read_text().splitlines()]


def option(words, name):
    return words[words.index(name) + 1] if name in words else None


def run_of(words):
    return words[1], option(words, "--format"), option(words, "--prefix")


def check_command(words):
    """Parse a command line as the program does; an unknown command, option or a missing one is an error."""
    commands = typer.main.get_command(app).commands
    name = words[0]
    if name == "report" and "report" not in commands:
        name = "metrics"  # its options are those of metrics
    commands[name].make_context(name, list(words[1:]))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_valid_and_executable(script):
    subprocess.run(["bash", "-n", script], check=True)
    assert os.access(script, os.X_OK) == (script.name != "models.sh")


def test_models_are_those_of_the_papers():
    text = (RECIPES / "models.sh").read_text()
    listed = re.search(r'PAPER_MODELS="(.*?)"', text, re.DOTALL)[1].split()
    assert sorted(listed) == sorted(map(hub_name, PRETRAINED | INSTRUCT)) and len(listed) == 18


def test_timestress_probes_what_the_paper_probed(tmp_path):
    commands = record("timestress.sh", tmp_path)
    for words in commands:
        check_command(words)
    probes = [words for words in commands if words[0] == "probe"]
    runs = {run_of(words) for words in probes}
    for form, plain in (("raw", PRETRAINED | INSTRUCT), ("chat", INSTRUCT)):
        assert {m for m, f, p in runs if (f, p) == (form, "none")} == set(map(hub_name, plain))
        for prefix in ("hierarchy", "transfer"):
            own = {m for m, f, p in runs if (f, p) == (form, prefix)}
            sizes = {m: max(map(int, re.findall("[0-9]+", m))) for m in map(hub_name, plain)}
            assert len(own) == 5 and min(sizes[m] for m in own) >= max(sizes[m] for m in sizes if m not in own)
    assert len(probes) == len(runs) == 18 + 9 + 2 * 5 * 2
    assert {option(words, "--dataset") for words in probes} == {"Orange/TimeStress"}
    folders = [option(words, "--out") for words in probes]
    assert len(set(folders)) == len(folders)
    assert [words[0] for words in commands if words[0] != "probe"] == ["metrics", "metrics", "report"]
    for words in commands[-2:]:
        assert words[1 : words.index("--out")] == folders


def test_robustness_2025_probes_what_the_paper_probed(tmp_path):
    commands = record("robustness-2025.sh", tmp_path, "facts.parquet")
    for words in commands:
        check_command(words)
    runs = {run_of(words) for words in commands if words[0] == "probe"}
    assert runs == {
        (hub_name(m), form, prefix)
        for form, models in (("raw", PRETRAINED | INSTRUCT), ("chat", INSTRUCT))
        for m in models
        for prefix in ("none", "few-shot")
    }
    assert {option(words, "--dataset") for words in commands if words[0] == "probe"} == {"facts.parquet"}
    assert [words[0] for words in commands if words[0] != "probe"] == ["metrics", "report"]


def test_robustness_2025_says_what_it_needs():
    done = subprocess.run([RECIPES / "robustness-2025.sh"], capture_output=True, text=True)
    assert done.returncode == 2 and "usage" in done.stderr and "mini" in done.stderr


def test_special_cases_and_overrides(tmp_path):
    settings = {"MODELS": "apple/OpenELM-3B apple/OpenELM-3B-Instruct meta-llama/Llama-3.1-70B google/gemma-2-2b-it"}
    prefix = tmp_path / "own words.txt"
    commands = record("robustness-2025.sh", tmp_path, "mini", DTYPE="float32", FEW_SHOT=str(prefix), **settings)
    template = str(RECIPES / "openelm_chat.jinja")
    for words in [w for w in commands if w[0] == "probe"]:
        model, form, used = run_of(words)
        assert used in ("none", str(prefix)) and option(words, "--dtype") == "float32"
        openelm = model.startswith("apple/")
        assert option(words, "--tokenizer") == ("meta-llama/Llama-2-7b-hf" if openelm else None)
        assert ("--trust-remote-code" in words) == openelm
        assert option(words, "--chat-template") == (template if openelm and form == "chat" else None)
        assert option(words, "--device-map") == ("auto" if "70B" in model else None)
    runs = {run_of(w)[:2] for w in commands if w[0] == "probe"}
    assert {m for m, f in runs if f == "chat"} == {"apple/OpenELM-3B-Instruct", "google/gemma-2-2b-it"}


def test_the_template_for_openelm_shows_both_turns_once():
    tokenizer = load_tokenizer("demo")
    tokenizer.chat_template = (RECIPES / "openelm_chat.jinja").read_text()
    text, start = ChatTemplate(tokenizer).fill("In 2011, who?", "Nobody")
    assert text == "<|text|>USER: In 2011, who? ASSISTANT: Nobody<|end|>" and text[start:].startswith("Nobody")
    turns = [{"role": "user", "content": "In 2011, who?"}]
    prompt = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    assert text.startswith(prompt)


# From nothing to the tables


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A folder in which hub names are folders: the bundled model for each model, three facts for the data set."""
    few = load_dataset("mini").sample(3)
    names = [*map(hub_name, PRETRAINED | INSTRUCT), "meta-llama/Llama-2-7b-hf"]
    for name in names:
        (tmp_path / name).mkdir(parents=True)
        for file in demo_folder().iterdir():
            (tmp_path / name / file.name).symlink_to(file)
    (tmp_path / "Orange" / "TimeStress").mkdir(parents=True)
    to_published(few.table, few.boundaries).write_csv(tmp_path / "Orange" / "TimeStress" / "data.csv")
    binary = tmp_path / "bin" / "anachron"
    binary.parent.mkdir()
    there = "report" in typer.main.get_command(app).commands
    leave_out = "" if there else 'if [ "$1" = report ]; then exit 0; fi\n'
    binary.write_text(f'#!/bin/sh\n{leave_out}exec {shlex.quote(sys.executable)} -m anachron.cli.main "$@"\n')
    binary.chmod(0o755)
    monkeypatch.setenv("PATH", f"{binary.parent}:{os.environ['PATH']}")
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    return tmp_path


def run_recipe(hub, script, *arguments, **environment):
    done = subprocess.run(
        [RECIPES / script, *arguments], cwd=hub, env={**os.environ, "DTYPE": "float32", **environment},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.slow
def test_timestress_runs_from_nothing_to_the_tables(hub):
    chosen = "apple/OpenELM-450M apple/OpenELM-450M-Instruct meta-llama/Llama-3.1-70B"
    settings = {"MODELS": chosen, "TOP": "2", "OUT": "all"}
    run_recipe(hub, "timestress.sh", **settings)
    summary = pl.read_csv(hub / "all" / "tables" / "summary.csv")
    runs = set(summary.select("model", "format", "prefix").iter_rows())
    names = [name.rpartition("/")[2] for name in chosen.split()]
    assert {m for m, f, p in runs if (f, p) == ("raw", "none")} == set(names)
    assert {m for m, f, p in runs if (f, p) == ("chat", "none")} == {"OpenELM-450M-Instruct"}
    for prefix in ("hierarchy", "transfer"):
        assert len([m for m, f, p in runs if (f, p) == ("raw", prefix)]) == 2
        assert len([m for m, f, p in runs if (f, p) == ("chat", prefix)]) == 1
    manifest = json.loads((hub / "all" / "tables" / "manifest.json").read_text())
    assert {"formats", "prefixes", "base_and_instruct", "overlap"}.isdisjoint(manifest["left_out"])
    record = json.loads((hub / "all" / "chat-none" / "OpenELM-450M-Instruct" / "run.json").read_text())
    assert record["settings"]["dataset"] == "Orange/TimeStress"
    # Raw text does not see the chat template; the model behind every name is the same, and so are its scores.
    scores = [pl.read_parquet(hub / "all" / "raw-none" / name / "scores.parquet")["logp"] for name in names]
    assert scores[0].equals(scores[1]) and scores[0].equals(scores[2])


@pytest.mark.slow
def test_robustness_2025_runs_from_nothing_to_the_tables(hub):
    few = hub / "Orange" / "TimeStress" / "data.csv"
    settings = {"MODELS": "google/gemma-2-2b-it", "OUT": "first"}
    run_recipe(hub, "robustness-2025.sh", str(few), **settings)
    variance = pl.read_csv(hub / "first" / "tables" / "granularity_variance.csv")
    assert set(variance.select("model", "format", "prefix").iter_rows()) == {
        ("gemma-2-2b-it", "raw", "few-shot"),
        ("gemma-2-2b-it", "chat", "few-shot"),
    }
    before = {path: path.stat().st_mtime_ns for path in (hub / "first").rglob("scores.parquet")}
    run_recipe(hub, "robustness-2025.sh", str(few), **settings)  # again: nothing is scored twice
    assert {path: path.stat().st_mtime_ns for path in (hub / "first").rglob("scores.parquet")} == before
    assert len(before) == 4
