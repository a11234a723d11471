"""Recipes: their commands are real, their models are the papers', and each runs from nothing to the tables."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from anachron.data.bundled.mini_updates import mini_updates
from anachron.lm.formats import ChatTemplate
from anachron.lm.tokenizers import load_tokenizer
from support.doc_stage import Stage, parse

RECIPES = Path(__file__).parent.parent / "recipes"
SCRIPTS = sorted(RECIPES.glob("*.sh"))
# TimeStress, section 4, and TimeStress v1, section 4.1: the pretrained ones, and "instruction-tuned versions" of each.
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
            form, _, prefix = pathlib.Path(run).parent.name.partition("-")
            size = max(map(int, re.findall("[0-9]+", run)), default=1)
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


@pytest.mark.full
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


@pytest.mark.full
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


TABLE_4 = ["FT", "FT+L", "MEND", "ROME", "MEMIT", "PROMPT"]  # WikiFactDiff, section 5, in the order of its rows


def test_wikifactdiff_judges_what_the_paper_judged(tmp_path):
    commands = record("wikifactdiff.sh", tmp_path, UPDATES="a.parquet", TRAIN_UPDATES="all.parquet")
    for words in commands:
        parse(words)
    train, judge = commands
    assert (train[0], judge[0]) == ("train-mend", "evaluate") and train[1] == judge[1] == "EleutherAI/gpt-j-6b"
    assert option(judge, "--methods").split(",") == TABLE_4
    assert option(judge, "--updates") == option(train, "--without") == "a.parquet"
    assert option(train, "--updates") == "all.parquet"
    assert option(judge, "--mend") == option(train, "--out")
    assert option(judge, "--mode") is None and option(judge, "--limit") is None  # independent, all of them
    assert option(judge, "--corpus") == "wikimedia/wikipedia:20231101.en"
    changed = [judge[place + 1] for place, word in enumerate(judge) if word == "--set"]
    assert changed == ["FT.last_position_loss=true", "FT+L.last_position_loss=true", "ROME.averaged_key=false"]


def test_wikifactdiff_without_files_never_trains_on_what_it_judges(tmp_path):
    train, judge = record("wikifactdiff.sh", tmp_path)
    assert {option(train, "--updates"), option(train, "--without"), option(judge, "--updates")} == {
        "Orange/WikiFactDiff"
    }
    assert option(train, "--scenario") == "AddRelation"


def test_wikifactdiff_with_other_methods_and_settings(tmp_path):
    (judge,) = record("wikifactdiff.sh", tmp_path, METHODS="ROME,EMMET", LIMIT="5", TOKENS="20", OUT="there")
    assert option(judge, "--set") == "ROME.averaged_key=false" and "--mend" not in judge
    assert option(judge, "--limit") == "5" and option(judge, "--corpus-tokens") == "20"
    assert option(judge, "--out") == "there/run"
    (tmp_path / "log").unlink()
    (judge,) = record("wikifactdiff.sh", tmp_path, METHODS="ROME", SET="")
    assert "--set" not in judge


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


@pytest.mark.slow
def test_wikifactdiff_runs_from_nothing_to_the_table_and_the_figure(stage, tmp_path):
    table = updates_with_popularity()
    table.head(2).write_parquet(stage.folder / "judged.parquet")
    table.write_parquet(stage.folder / "all.parquet")
    settings = {
        "MODEL": "demo", "UPDATES": "judged.parquet", "TRAIN_UPDATES": "all.parquet", "CORPUS": "mini",
        "TOKENS": "20000", "TRAIN_SCENARIO": "ReplaceObject", "MEND_STEPS": "5", "FLUENCY_TOKENS": "40", "OUT": "wfd",
        "ANACHRON_CACHE": str(tmp_path / "cache"),
    }  # fmt: skip
    run_recipe(stage, "wikifactdiff.sh", **settings)
    report = stage.folder / "wfd" / "run" / "report"
    summary = pl.read_csv(report / "edits.csv")
    assert summary["method"].to_list() == ["unedited", *TABLE_4]
    assert summary["done"].to_list() == [2] * 7 and summary["failed"].sum() == 0
    assert all(f"| {method} |" in (report / "markdown" / "edits.md").read_text() for method in TABLE_4)
    assert "<svg" in (report / "bleedover.svg").read_text() and (report / "bleedover.pdf").stat().st_size > 1000
    about = json.loads((stage.folder / "wfd" / "run" / "run.json").read_text())["methods"]
    assert about["ROME"]["identity"]["settings"]["averaged_key"] is False
    before = {path: path.stat().st_mtime_ns for path in (stage.folder / "wfd").rglob("part-*.parquet")}
    run_recipe(stage, "wikifactdiff.sh", **settings)  # again: nothing is made twice
    assert {path: path.stat().st_mtime_ns for path in (stage.folder / "wfd").rglob("part-*.parquet")} == before
    assert len(before) == 7


@pytest.mark.slow
def test_wikifactdiff_runs_on_the_bundled_updates(stage, tmp_path):
    """Nobody knows how popular their neighbours are, so there is a table and no figure."""
    settings = {
        "MODEL": "demo", "UPDATES": "mini-updates", "LIMIT": "2", "METHODS": "FT,PROMPT", "FLUENCY_TOKENS": "0",
        "OUT": "wfd", "ANACHRON_CACHE": str(tmp_path / "cache"), "CORPUS": "mini",
    }  # fmt: skip
    run_recipe(stage, "wikifactdiff.sh", **settings)
    report = stage.folder / "wfd" / "run" / "report"
    assert pl.read_csv(report / "edits.csv")["method"].to_list() == ["unedited", "FT", "PROMPT"]
    assert not list(report.glob("bleedover*"))


def updates_with_popularity():
    """The first of mini-updates, with made-up popularities: a neighbour's is the place of its label in the alphabet."""
    rows = mini_updates().head(12).to_dicts()
    for row in rows:
        for neighbour in (*row["neighborhood"], *row["random_neighborhood"]):
            neighbour["popularity"] = float(ord(neighbour["subject"]["label"][0].upper()))
    return pl.DataFrame(rows, schema=mini_updates().schema)


def test_quantisations_compares_every_kind_with_the_first(tmp_path):
    kinds = ("F16", "Q8_0", "Q4_1", "Q4_0")
    (tmp_path / "runs/quantisations/files").mkdir(parents=True)
    for kind in kinds:
        (tmp_path / f"runs/quantisations/files/{kind}.gguf").touch()
    commands = record("quantisations.sh", tmp_path, "model.gguf", LIMIT="3")
    for words in commands:
        parse(words)
    assert [words[0] for words in commands] == ["check"] * 4 + ["metrics"]
    assert [option(words, "--label") for words in commands[:4]] == list(kinds)
    assert {option(words, "--backend") for words in commands[:4]} == {"llama.cpp"}
    assert commands[4][1:5] == [option(words, "--out") for words in commands[:4]]
    assert option(commands[4], "--baseline") == "F16"
