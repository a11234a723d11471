"""Recipes: their commands are real, their models are the papers', and each runs from nothing to the tables."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from anachron.lm.formats import ChatTemplate
from anachron.lm.model import load_tokenizer
from staging import Stage, parse

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
        parse(words)
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
        parse(words)
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
        assert option(words, "--label") == model.rpartition("/")[2]
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
def stage(tmp_path):
    """Hub names are folders here: the bundled model for each model, three facts for the data set."""
    models = [*map(hub_name, PRETRAINED | INSTRUCT), "meta-llama/Llama-2-7b-hf"]
    return Stage(tmp_path / "stage", models, ["Orange/TimeStress"])


def run_recipe(stage, script, *arguments, **environment):
    done = subprocess.run(
        [RECIPES / script, *arguments], cwd=stage.folder, capture_output=True, text=True,
        env={**stage.environment, "DTYPE": "float32", **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_timestress_runs_from_nothing_to_the_tables(stage):
    chosen = "apple/OpenELM-450M apple/OpenELM-450M-Instruct meta-llama/Llama-3.1-70B"
    settings = {"MODELS": chosen, "TOP": "2", "OUT": "all"}
    run_recipe(stage, "timestress.sh", **settings)
    summary = pl.read_csv(stage.folder / "all" / "tables" / "summary.csv")
    runs = set(summary.select("model", "format", "prefix").iter_rows())
    names = [name.rpartition("/")[2] for name in chosen.split()]
    assert {m for m, f, p in runs if (f, p) == ("raw", "none")} == set(names)
    assert {m for m, f, p in runs if (f, p) == ("chat", "none")} == {"OpenELM-450M-Instruct"}
    for prefix in ("hierarchy", "transfer"):
        assert len([m for m, f, p in runs if (f, p) == ("raw", prefix)]) == 2
        assert len([m for m, f, p in runs if (f, p) == ("chat", prefix)]) == 1
    manifest = json.loads((stage.folder / "all" / "tables" / "manifest.json").read_text())
    assert {"formats", "prefixes", "base_and_instruct", "overlap"}.isdisjoint(manifest["left_out"])
    record = json.loads((stage.folder / "all" / "chat-none" / "OpenELM-450M-Instruct" / "run.json").read_text())
    assert record["settings"]["dataset"] == "Orange/TimeStress"
    # Raw text does not see the chat template; the model behind every name is the same, and so are its scores.
    scores = [pl.read_parquet(stage.folder / "all" / "raw-none" / name / "scores.parquet")["logp"] for name in names]
    assert scores[0].equals(scores[1]) and scores[0].equals(scores[2])


@pytest.mark.slow
def test_robustness_2025_runs_from_nothing_to_the_tables(stage):
    settings = {"MODELS": "google/gemma-2-2b-it", "OUT": "first"}
    run_recipe(stage, "robustness-2025.sh", "mini", **settings)
    variance = pl.read_csv(stage.folder / "first" / "tables" / "granularity_variance.csv")
    assert set(variance.select("model", "format", "prefix").iter_rows()) == {
        ("gemma-2-2b-it", "raw", "few-shot"),
        ("gemma-2-2b-it", "chat", "few-shot"),
    }
    before = {path: path.stat().st_mtime_ns for path in (stage.folder / "first").rglob("scores.parquet")}
    run_recipe(stage, "robustness-2025.sh", "mini", **settings)  # again: nothing is scored twice
    assert {path: path.stat().st_mtime_ns for path in (stage.folder / "first").rglob("scores.parquet")} == before
    assert len(before) == 4
