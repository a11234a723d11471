"""Backends: which options each takes, and the one of ``docs/add-a-backend.md``, added as the page says."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import polars as pl
import pytest

import anachron
from anachron.cli.asking import AskOptions
from anachron.cli.options import ModelOptions
from anachron.cli.scorer_options import ReplicaOptions, ScorerOptions, TextOptions
from anachron.core.errors import ConfigError
from anachron.probe.backends import BACKENDS, Backend, open_answerer, open_scorer, refuse_unfit, respondent_of
from anachron.probe.by_answers import ByAnswers
from anachron.probe.by_scores import ByScores
from anachron.probe.run import ProbeSettings
from support.asked_runs import FACTS, Scripted, known

RECIPE = Path(__file__).parents[2] / "docs" / "add-a-backend.md"
OPTIONS = [
    one.name
    for group in (TextOptions, ScorerOptions, ReplicaOptions, ModelOptions, AskOptions)
    for one in fields(group)
    if one.name != "backend"
]


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", RECIPE.read_text("utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def test_every_option_is_for_some_backend_and_every_backend_knows_its_options() -> None:
    assert {name for one in BACKENDS for name in one.takes} == set(OPTIONS)
    assert len({one.name for one in BACKENDS}) == len(BACKENDS)


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda one: one.name)
def test_what_a_backend_has_no_use_for_is_refused_and_the_refusal_says_who_has(backend) -> None:
    """Each option is let through, or refused with those backends that do let it through."""
    for name in OPTIONS:
        value = ["http://a/v1"] if name == "same_as" else "http://a/v1" if name == "base_url" else "X"
        others = [one.name for one in BACKENDS if name in one.takes]
        if backend.name in others:
            refuse_unfit(backend.name, {name: value})
            continue
        with pytest.raises(ConfigError) as refused:
            refuse_unfit(backend.name, {name: value})
        option = name.replace("_", "-")
        assert f"--{option} " in str(refused.value) and f"is not for --backend {backend.name}; " in str(refused.value)
        assert str(refused.value).endswith(f"; it is for {' or '.join(others)}: leave it out")


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: Backend(backend="vllm"), "backend 'vllm': choose one of transformers, openai, llama.cpp, chat, gen"),
        (lambda: Backend(base_url="http://u:secret@a/v1"), "--base-url http://a/v1 is not for --backend transformers"),
        (lambda: Backend(backend="generate", workers=2), "--workers 2 is not for --backend generate; it is for transf"),
        (lambda: Backend(backend="chat"), "--backend chat needs the server's address: --base-url"),
        (lambda: Backend(backend="openai"), "--backend openai needs the server's address: --base-url"),
        (lambda: Backend(gpus_per_replica=1), "--gpus-per-replica 1 is for replicas"),
    ],
)
def test_places_that_cannot_be(made, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)) as refused:
        made()
    assert "secret" not in str(refused.value)


def test_who_is_asked_is_not_scored_and_the_other_way_round(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gives answers and no log-prob.*transformers, openai, llama.cpp$"):
        open_scorer("demo", Backend(backend="generate")).__enter__()
    with pytest.raises(ConfigError, match=r"gives log-probabilities; to be asked choose one of chat, generate$"):
        open_answerer("demo", Backend(), answers=tmp_path).__enter__()
    with pytest.raises(ConfigError, match=r"--edit e.safetensors is not for --backend openai"):
        server = Backend(backend="openai", base_url="http://127.0.0.1:9/v1")
        open_scorer("demo", server, edit="e.safetensors").__enter__()
    with pytest.raises(ConfigError, match=r"--temperature 0.0 is not for --backend generate; it is for chat"):
        open_answerer("demo", Backend(backend="generate"), answers=tmp_path, asking={"temperature": 0.0}).__enter__()


def test_settings_of_scores_are_refused_beside_who_is_asked() -> None:
    model = ByAnswers(Scripted("m", known))
    assert respondent_of(model) is model
    with pytest.raises(ConfigError, match="settings are for a model that is scored; give them to ByAnswers instead"):
        respondent_of(model, ProbeSettings())
    scored = respondent_of("demo", ProbeSettings(seed=3))
    assert isinstance(scored, ByScores) and (scored.model, scored.settings.seed) == ("demo", 3)


@pytest.mark.full
def test_the_backend_of_the_recipe_is_added_by_a_file_and_a_line(tmp_path: Path) -> None:
    """In a copy of the package. Whoever takes the later year wins every match of a fact that still holds, and loses
    those of an earlier object against a year after it."""
    copy = tmp_path / "src" / "anachron"
    shutil.copytree(Path(anachron.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "probe" / "latest_year.py").write_text(block("python"), "utf-8")
    backends = (copy / "probe" / "backends.py").read_text("utf-8")
    for place, line in (
        ("from anachron.probe.opening import", "from anachron.probe.latest_year import LATEST_YEAR\n"),
        ('    BackendType(name="transformers"', "    LATEST_YEAR,\n"),
    ):
        backends = backends.replace(place, line + place, 1)
    (copy / "probe" / "backends.py").write_text(backends, "utf-8")
    (tmp_path / "anachron").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m anachron "$@"\n')
    (tmp_path / "anachron").chmod(0o755)
    (tmp_path / "facts.csv").write_text(FACTS)
    where = os.environ | {"PYTHONPATH": str(tmp_path / "src"), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block("bash")], cwd=tmp_path, env=where, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    run = tmp_path / "runs" / "latest-year"
    answers = pl.read_ndjson(run / "answers.jsonl", infer_schema_length=None).filter(pl.col("kind") == "choice")
    assert answers.height and all(
        row["text"] == max(re.findall(r"\b\d{4}\b", row["prompt"])) for row in answers.iter_rows(named=True)
    )
    verdicts = {row["object"]: row for row in pl.read_csv(run / "verdicts.csv").iter_rows(named=True)}
    assert verdicts["Astana"]["win_rate"] == 1.0
    assert verdicts["Gerhard Schröder"]["win_rate"] < 1
