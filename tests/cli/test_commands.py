"""The command line as scripts use it: exit codes, stdout against stderr, files, one-line errors."""

import json
import subprocess
import sys
from dataclasses import fields
from inspect import signature
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import typer

from anachron.analysis.metrics import fact_metrics
from anachron.cli import main
from anachron.cli.main import run_command
from anachron.cli.output import print_json
from anachron.data.columns import to_published
from anachron.data.dataset import Dataset
from anachron.data.loaders import load_dataset
from anachron.lm.loading import load_model
from anachron.probe.horizon.read import read_changes
from anachron.probe.run import ProbeSettings


@pytest.fixture(scope="module")
def small(brief: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three facts of mini as a file in the published columns."""
    data = brief.sample(3)
    path = tmp_path_factory.mktemp("data") / "small.csv"
    to_published(data.table, data.boundaries).write_csv(path)
    return path


@pytest.fixture(scope="module")
def run_folder(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "demo"
    assert run_command(["probe", "demo", "--dataset", str(small), "--out", str(folder)], debug=False) == 0
    return folder


def all_commands(group, before: str = "") -> dict[str, object]:
    """Every command, groups included, by its full name."""
    found = {}
    for name, command in group.commands.items():
        found[before + name] = command
        if hasattr(command, "commands"):
            found |= all_commands(command, f"{before}{name} ")
    return found


def options_of(command: str) -> dict[str, typer.models.OptionInfo]:
    tree = typer.main.get_command(main.app)
    return {p.name: p for p in tree.commands[command].params}  # type: ignore[attr-defined]


def test_every_command_explains_itself_with_an_example(capsys: pytest.CaptureFixture[str]):
    tree = typer.main.get_command(main.app)
    found = all_commands(tree)
    assert {"demo", "contexts", "datasets", "audit", "score", "probe", "metrics", "export"} <= set(found)
    assert {"export lm-eval", "export hub", "export counterfact"} <= set(found)
    for name, command in found.items():
        assert run_command([*name.split(), "--help"], debug=False) == 0
        assert f"Example: anachron {name}" in " ".join(capsys.readouterr().out.replace("│", " ").split())
        for parameter in command.params:
            assert parameter.name == "help" or parameter.help, f"{name} {parameter.name} has no help"


def test_settings_and_options_agree():
    options = options_of("probe")
    for field in fields(ProbeSettings):
        assert field.name in options, f"probe lacks --{field.name}"
        assert options[field.name].default == field.default, field.name
    for name, parameter in signature(load_model).parameters.items():
        if name != "name":
            assert options[name].default == parameter.default, name
            assert options_of("score")[name].default == parameter.default, name


def test_contexts_prints_json_lines(capsys: pytest.CaptureFixture[str]):
    assert run_command(["contexts", "--start", "2009-01-20", "--end", "2017-01-20"], debug=False) == 0
    out, err = capsys.readouterr()
    rows = [json.loads(line) for line in out.splitlines()]
    assert set(rows[0]) == {"granularity", "time", "status", "alpha"}
    assert {"granularity": "year", "time": "2011", "status": "correct"}.items() <= next(
        r for r in rows if r["time"] == "2011"
    ).items()
    assert sum(r["status"] == "none" for r in rows) == 3
    assert err == ""


def test_boundaries_option_reaches_the_sampler(capsys: pytest.CaptureFixture[str]):
    statuses = {}
    for boundaries in ("released", "paper"):
        assert (
            run_command(["contexts", "--start", "2017", "--end", "2019", "--boundaries", boundaries], debug=False) == 0
        )
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        statuses[boundaries] = next(r["status"] for r in rows if r["time"] == "2017")
    assert statuses == {"released": "correct", "paper": "transitional"}


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (["contexts", "--start", "2011-02-30", "--end", "2012"], 2, "day 30"),
        (["contexts", "--start", "2012", "--end", "2011"], 2, "lies before"),
        (["contexts", "--start", "2011", "--end", "2012", "--boundaries", "both"], 2, "'released' or 'paper'"),
        (["contexts", "--start", "2011"], 2, "--end"),
        (["probe", "demo", "--dataset", "no-such.csv", "--out", "x"], 2, "no such file"),
        (["probe", "/no/such/model", "--dataset", "mini", "--out", "x"], 2, "/no/such/model"),
        (["probe", "demo", "--dataset", "mini", "--out", "x", "--prefix", "nothing"], 2, "prefix 'nothing'"),
        (["probe", "demo", "--dataset", "mini", "--out", "x", "--dtype", "int4"], 2, "dtype 'int4'"),
        (["probe", "demo", "--dataset", "mini", "--out", "x", "--backend", "abacus"], 2, "abacus"),
        (["metrics", "no-such-run", "--out", "x"], 2, "no run here"),
        (["datasets", "mini"], 2, "--out"),
        (["nonsense"], 2, "nonsense"),
    ],
)
def test_wrong_use_is_one_line_and_a_code(argv, code, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run_command(argv, debug=False) == code
    out, err = capsys.readouterr()
    assert words in " ".join(err.replace("│", " ").split())
    assert "Traceback" not in err
    assert out == ""
    if err.startswith("error:"):
        assert len(err.strip().splitlines()) == 1


def test_debug_shows_the_traceback():
    with pytest.raises(ValueError, match="lies before"):
        run_command(["contexts", "--start", "2012", "--end", "2011"], debug=True)


@pytest.mark.full
def test_datasets_lists_and_writes(mini: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert run_command(["datasets", "--json"], debug=False) == 0
    listing, updates, changes = json.loads(capsys.readouterr().out)
    assert (listing["name"], listing["kind"]) == ("mini", "statements")
    assert listing["facts"] >= 400
    assert (updates["name"], updates["kind"]) == ("mini-updates", "updates")
    assert updates["updates"] >= 120
    assert (changes["name"], changes["kind"]) == ("mini-changes", "changes")
    assert run_command(["datasets", "mini-changes", "--out", str(tmp_path / "changes.csv")], debug=False) == 0
    assert read_changes(tmp_path / "changes.csv").equals(read_changes())
    assert run_command(["datasets", "mini-updates", "--out", str(tmp_path / "updates.jsonl")], debug=False) == 0
    assert len((tmp_path / "updates.jsonl").read_text().splitlines()) == updates["updates"]
    assert run_command(["datasets", "mini-updates", "--out", str(tmp_path / "updates.csv")], debug=False) == 2
    capsys.readouterr()
    assert run_command(["datasets", "mini", "--out", str(tmp_path / "mini.parquet")], debug=False) == 0
    written = load_dataset(str(tmp_path / "mini.parquet"))
    assert written.fingerprint() == mini.fingerprint()
    manifest = json.loads((tmp_path / "mini.parquet.manifest.json").read_text())
    assert manifest["counts"] == {"statements": written.table.height, "facts": listing["facts"]}


def test_audit_reports(small: Path, capsys: pytest.CaptureFixture[str]):
    assert run_command(["audit", str(small), "--tokenizer", "demo", "--json"], debug=False) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["statements"] == pl.read_csv(small).height
    assert found["bos"] == {"1": found["statements"]}
    assert found["unscorable"] == found["status_differs"] == 0
    assert run_command(["audit", str(small), "--tokenizer", "demo"], debug=False) == 0
    assert "longer than the context length" in capsys.readouterr().out


@pytest.mark.full
def test_audit_with_a_model_tells_what_its_run_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    facts = ["mini", "--limit", "4"]
    assert run_command(["audit", *facts], debug=False) == 2
    assert "give --tokenizer" in capsys.readouterr().err
    assert run_command(["audit", *facts, "--tokenizer", "demo", "--dtype", "bfloat16"], debug=False) == 2
    assert "--dtype is for --model" in capsys.readouterr().err
    assert run_command(["audit", *facts, "--model", "demo", "--dtype", "bfloat16", "--json"], debug=False) == 0
    found = json.loads(capsys.readouterr().out)["prefix_tree"]
    assert found["used"] and found["refusal"] is None and found["dtype"] == "bfloat16"
    trial = found["trial"]
    assert trial["difference"] <= trial["allowed"] and trial["texts"] == 40
    assert trial["difference"] < trial["errors"]["tree"] <= trial["errors"]["allowed"]
    run = ["probe", "demo", "--dataset", *facts, "--dtype", "bfloat16", "--out", str(tmp_path / "run")]
    assert run_command(run, debug=False) == 0
    assert json.loads((tmp_path / "run" / "run.json").read_text())["trial"] == trial
    capsys.readouterr()
    assert run_command(["audit", *facts, "--model", "demo", "--dtype", "bfloat16"], debug=False) == 0
    shown = capsys.readouterr().out
    assert "computed only once" in " ".join(shown.split()) and f"{trial['errors']['padded']:.3g}" in shown


def test_score_keeps_input_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    pairs = [("In 1998, who led France?", "Jacques Chirac"), ("Hi", "there"), ("In 1998, who led France?", "Bach")]
    lines = [json.dumps({"prompt": p, "answer": a}) for p, a in pairs]
    lines.append(json.dumps({"prompt": "A", "answer": "B", "separator": " - "}))
    (tmp_path / "pairs.jsonl").write_text("\n".join(lines) + "\n")
    out = tmp_path / "scores.parquet"
    assert run_command(["score", "demo", "--input", str(tmp_path / "pairs.jsonl"), "--out", str(out)], debug=False) == 0
    table = pl.read_parquet(out)
    assert table.columns == ["row", "prompt", "answer", "logp", "n_tokens"]
    assert table["row"].to_list() == [0, 1, 2, 3]
    expected = load_model("demo").log_probs([*pairs, ("A", "B", " - ")])
    np.testing.assert_allclose(table["logp"].to_numpy(), expected, atol=1e-5)
    manifest = json.loads(Path(f"{out}.manifest.json").read_text())
    assert manifest["counts"] == {"pairs": 4}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"prompt": "", "answer": "x"}', "row 2: empty prompt"),
        ('{"prompt": "x", "answer": " "}', "row 2: answer ' '"),
        ('{"prompt": "x"}', "row 2: answer is None"),
        ('{"prompt": "x", "answer": "y", "seperator": ""}', "row 2: unknown field 'seperator'"),
        ("{broken", "line 2: not valid JSON"),
    ],
)
def test_bad_pairs_name_their_row(line: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "p.jsonl").write_text('{"prompt": "a", "answer": "b"}\n' + line + "\n")
    argv = ["score", "demo", "--input", str(tmp_path / "p.jsonl"), "--out", str(tmp_path / "s.parquet")]
    assert run_command(argv, debug=False) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "s.parquet").exists()


def test_probe_writes_a_run_and_its_tables(run_folder: Path):
    scores = pl.read_parquet(run_folder / "scores.parquet")
    assert {
        "model",
        "format",
        "prefix",
        "fact_id",
        "granularity",
        "time",
        "status",
        "alpha",
        "logp",
        "n_tokens",
    } <= set(scores.columns)
    written = {p.name for p in (run_folder / "metrics").iterdir()}
    assert written > {
        "facts.parquet",
        "summary.csv",
        "transfer.csv",
        "far_errors.csv",
        "manifest.json",
        "markdown",
        "latex",
    }
    facts = pl.read_parquet(run_folder / "metrics" / "facts.parquet")
    assert facts["win_rate"].to_list() == fact_metrics(scores)["win_rate"].to_list()


def test_metrics_reads_runs_and_bare_tables(run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert run_command(["metrics", str(run_folder), "--out", str(tmp_path / "a"), "--json"], debug=False) == 0
    from_run = json.loads(capsys.readouterr().out)
    bare = str(run_folder / "scores.parquet")
    assert run_command(["metrics", bare, "--out", str(tmp_path / "b"), "--json"], debug=False) == 0
    from_table = json.loads(capsys.readouterr().out)
    assert [r["win_rate"] for r in from_run["summary"]] == [r["win_rate"] for r in from_table["summary"]]
    assert from_run["summary"][0]["near_ties"] is not None
    assert from_table["summary"][0]["near_ties"] is None
    assert any("--noise" in note for note in from_table["notes"])


@pytest.mark.full
def test_several_models_make_several_runs(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    argv = ["probe", "demo", "demo-untrained", "--dataset", str(small), "--out", str(tmp_path / "runs"), "--json"]
    assert run_command(argv, debug=False) == 0
    shown = json.loads(capsys.readouterr().out)
    assert {row["model"] for row in shown["summary"]} == {"demo", "demo-untrained"}
    assert (tmp_path / "runs" / "demo" / "run.json").is_file()
    assert run_command(["metrics", str(tmp_path / "runs"), "--out", str(tmp_path / "t"), "--json"], debug=False) == 0


@pytest.mark.full
def test_chat_probe_and_switches(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    base = ["probe", "demo", "--dataset", str(small), "--format", "chat", "--json"]
    assert run_command([*base, "--out", str(tmp_path / "a")], debug=False) == 0
    assert json.loads(capsys.readouterr().out)["summary"][0]["format"] == "chat"
    assert (
        run_command([*base, "--out", str(tmp_path / "b"), "--answer-in-user-turn", "--all-occurrences"], debug=False)
        == 0
    )
    a, b = (pl.read_parquet(tmp_path / name / "scores.parquet") for name in "ab")
    assert (b["n_tokens"] > a["n_tokens"]).all()


def test_same_run_with_other_settings_is_refused(run_folder: Path, small: Path, capsys: pytest.CaptureFixture[str]):
    argv = ["probe", "demo", "--dataset", str(small), "--out", str(run_folder), "--format", "chat"]
    assert run_command(argv, debug=False) == 2
    assert "format: 'raw' -> 'chat'" in capsys.readouterr().err


def test_import_is_quick_and_loads_no_torch():
    code = (
        "import sys, time; t = time.perf_counter(); import anachron; s = time.perf_counter() - t;"
        "anachron.Period('2009', '2010'); print(s, sorted({'torch', 'transformers', 'polars'} & set(sys.modules)))"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(3)]
    assert all("[]" in run.stdout for run in runs)
    assert min(float(run.stdout.split()[0]) for run in runs) < 0.2


def test_contexts_and_help_load_no_torch():
    code = (
        "import sys; from anachron.cli.main import run_command;"
        "run_command(['contexts', '--start', '2009', '--end', '2012'], False); run_command(['--help'], False);"
        "sys.exit(int(bool({'torch', 'transformers'} & set(sys.modules))))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_numbers_that_json_has_no_word_for_are_null(capsys: pytest.CaptureFixture[str]):
    print_json({"a": [1.5, float("inf"), (float("nan"),)], "b": {"c": float("-inf"), "d": None, "e": "inf"}})
    assert json.loads(capsys.readouterr().out) == {"a": [1.5, None, [None]], "b": {"c": None, "d": None, "e": "inf"}}
