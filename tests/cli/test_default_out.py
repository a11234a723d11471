"""Where a run goes that is given no --out: the same place for the same command, safe as a name, and said."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anachron.cli.main import run_command
from anachron.cli.outputs import default_out

FACTS = "subject,relation,object,start,end\nKazakhstan,capital,Almaty,1991,1997\nKazakhstan,capital,Astana,1997,\n"


@pytest.mark.parametrize(
    "command, values, name",
    [
        ("check", {"model": "gpt2", "facts": Path("data/facts.csv")}, "check-gpt2-facts"),
        ("probe", {"model": ["google/gemma-2-2b"], "dataset": "Orange/TimeStress"}, "probe-gemma-2-2b-TimeStress"),
        ("probe", {"model": ["a,b", "c"], "dataset": "mini"}, "probe-a-b-c-mini"),
        ("horizon", {"model": ["demo"], "changes": None}, "horizon-demo"),
        ("evaluate", {"model": "models/my model/", "updates": Path("u.jsonl")}, "evaluate-my_model-u"),
    ],
)
def test_a_run_is_called_by_command_model_and_data(command, values, name):
    assert default_out(command, values) == Path("runs") / name


@given(st.lists(st.text(min_size=1), min_size=1, max_size=4), st.text(min_size=1))
def test_any_names_give_one_folder_in_runs(models, data):
    path = default_out("probe", {"model": models, "dataset": data})
    assert path.parent == Path("runs") and re.fullmatch(r"probe-[\w.-]*", path.name) and len(path.name) <= 80
    assert path == default_out("probe", {"model": models, "dataset": data})


def test_long_names_stay_apart():
    one, two = (default_out("probe", {"model": ["m" * 200 + end], "dataset": "mini"}) for end in "ab")
    assert one != two and len(one.name) == len(two.name) == 80


@pytest.mark.full
def test_a_check_without_out_goes_on_where_it_was_and_refuses_other_settings(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("facts.csv").write_text(FACTS)
    words = ["check", "demo", "--facts", "facts.csv", "--decoys", "1", "--as-of", "1999", "--set", "page=false"]
    assert run_command(words, debug=True) == 0
    assert "run folder: runs/check-demo-facts (--out names another)" in capsys.readouterr().err
    record = Path("runs/check-demo-facts/run.json").read_text()
    assert run_command(words, debug=True) == 0  # read again: nothing is scored
    assert Path("runs/check-demo-facts/run.json").read_text() == record
    capsys.readouterr()
    assert run_command([*words, "--dtype", "bfloat16"], debug=False) == 2
    assert "holds a run with other settings (" in capsys.readouterr().err
    assert run_command([*words, "--out", "elsewhere", "--json"], debug=True) == 0
    told = capsys.readouterr()
    assert "run folder" not in told.err and json.loads(told.out)["run"] == "elsewhere"


def test_a_command_that_fails_leaves_no_folder(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run_command(["check", "demo", "--facts", "none.csv"], debug=False) == 2
    assert "none.csv" in capsys.readouterr().err and not Path("runs").exists()
