"""The commands edit, evaluate and train-mend as scripts use them, on the demo model with fast settings."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from anachron.cli.main import run_command
from anachron.core.errors import ModelError
from anachron.data.bundled.mini_updates import mini_updates
from anachron.data.columns import to_published
from anachron.data.dataset import Dataset
from anachron.edit.base import edited
from anachron.edit.covariance import own_text
from anachron.edit.storage import load_edit
from anachron.evaluate import editing
from anachron.evaluate import stages as stages_module
from anachron.evaluate.old_and_new import PREFERENCES
from anachron.io.run_folder import RUN_FILE, RunFolder
from anachron.lm.loading import load_model
from anachron.report.terminal.old_and_new import preferred, preferred_lines
from support.portability_rows import ripple

ROME = ["--no-covariance", "--set", "ROME.steps=2", "--set", "ROME.contexts=[]"]
FT = ["--set", "FT.steps=2"]
QUICK = ["--fluency-tokens", "0"]
COUNTERFACT = Path(__file__).parents[2] / ".." / "shared" / "data" / "editing" / "counterfact-edit-1k.json"


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    """Three of mini-updates, each with two neighbours of a kind."""
    few = mini_updates().head(3).to_dicts()
    for row in few:
        for kind in ("neighborhood", "random_neighborhood"):
            row[kind] = row[kind][:2]
    return few


@pytest.fixture(scope="module")
def updates(rows: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("updates") / "three.json", rows)


def write(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content), "utf-8")
    return path


def run(*words: object) -> int:
    return run_command([str(word) for word in words], debug=False)


def content(folder: Path) -> dict[str, Any]:
    tables = {name: pl.read_parquet(folder / f"{name}.parquet") for name in ("targets", "neighbours", "updates")}
    return {name: table.drop("seconds", strict=False).to_dicts() for name, table in tables.items()}


def request(row: dict[str, Any]) -> tuple[str, str]:
    new = next(o["label"] for o in row["objects"] if o["decision"] == "new")
    return row["update_prompt"].removesuffix("____").strip(), new


# edit


@pytest.mark.full
def test_an_edit_is_a_file_with_its_origin(
    rows: list[dict[str, Any]], updates: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    out = tmp_path / "rome.safetensors"
    assert run("edit", "demo", "--updates", updates, "--method", "rome", "--out", out, *ROME, "--json") == 0
    printed, said = capsys.readouterr()
    found = json.loads(printed)
    assert said == ""
    assert (found["method"], found["edits"], found["skipped"], found["edit"]) == ("ROME", 3, 0, str(out))
    assert found["settings"]["steps"] == 2 and found["settings_from"].endswith("changed: steps, contexts")
    manifest = json.loads(Path(f"{out}.manifest.json").read_text())
    assert manifest["parameters"]["updates"] == str(updates) and manifest["counts"]["edits"] == 3
    assert manifest["parameters"]["settings_from"] == found["settings_from"]
    edit, lm = load_edit(out), load_model("demo")
    ask = [request(row) for row in rows]
    before = lm.log_probs(ask)
    with edited(lm, edit):
        assert not np.array_equal(lm.log_probs(ask), before)
    assert np.array_equal(lm.log_probs(ask), before)
    with pytest.raises(ModelError, match="load the model it was made on"), edited(load_model("demo-untrained"), edit):
        pass


def test_an_edited_model_is_a_folder_like_any_other(
    rows: list[dict[str, Any]], updates: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    out, folder = tmp_path / "ft.safetensors", tmp_path / "edited"
    folder.mkdir()
    command = ["edit", "demo", "--updates", updates, "--method", "FT", "--out", out, *FT, "--save-model", folder]
    assert run(*command) == 0
    printed, said = capsys.readouterr()
    assert "Before and after the edit" in printed and f"written to {out}; edited model in {folder}" in said
    assert "it changes model.layers.4.mlp.down_proj (dense)" in said
    pairs = tmp_path / "pairs.jsonl"
    asked = [request(row) for row in rows]
    pairs.write_text("".join(json.dumps({"prompt": p, "answer": a}) + "\n" for p, a in asked), "utf-8")
    assert run("score", folder, "--input", pairs, "--out", tmp_path / "scores.parquet") == 0
    lm = load_model("demo")
    with edited(lm, load_edit(out)):
        wanted = lm.log_probs(asked)
    np.testing.assert_allclose(pl.read_parquet(tmp_path / "scores.parquet")["logp"].to_numpy(), wanted, atol=1e-5)
    capsys.readouterr()
    assert run(*command) == 2
    assert "already exists; choose another folder" in capsys.readouterr().err


def test_prompt_changes_no_weights_and_saves_no_model(
    updates: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    command = ["edit", "demo", "--updates", updates, "--method", "PROMPT", "--out", tmp_path / "p.safetensors"]
    assert run(*command) == 0
    assert "no weights: it is a text put before every prompt" in capsys.readouterr().err
    assert load_edit(tmp_path / "p.safetensors").prefix.count(". ") == 3
    (tmp_path / "p.safetensors").unlink()
    assert run(*command, "--save-model", tmp_path / "folder") == 2
    assert "PROMPT is not in weights alone" in capsys.readouterr().err
    assert not (tmp_path / "p.safetensors").exists() and not (tmp_path / "folder").exists()


def test_updates_that_cannot_be_asked_for(
    rows: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """The command edit stops, or leaves them out on request; evaluate makes them records with the reason."""
    bad = rows[0] | {"subject": rows[0]["subject"] | {"label": "Atlantis"}, "case_id": 99}
    mixed = write(tmp_path / "mixed.json", [bad, *rows[1:]])
    command = ["edit", "demo", "--method", "ROME", "--out", tmp_path / "rome.safetensors", *ROME]
    assert run(*command, "--updates", mixed) == 2
    said = capsys.readouterr().err
    assert "1 of 3 updates cannot be made" in said and "'Atlantis' is not in the prompt" in said and "--skip" in said
    assert run(*command, "--updates", mixed, "--skip") == 0
    said = capsys.readouterr().err
    assert "warning: 1 of 3 updates are left out" in said and "making 2 updates" in said
    assert run(*command, "--updates", write(tmp_path / "none.json", [bad]), "--skip", "--overwrite") == 2
    assert "none of its 1 updates can be made" in capsys.readouterr().err
    endless = [o | {"label": "Paris " * 300 + "Paris"} for o in rows[0]["objects"] if o["decision"] == "new"]
    long = write(tmp_path / "long.json", [*rows[1:], rows[0] | {"objects": endless, "case_id": 98}])
    assert run(*command, "--updates", long, "--overwrite") == 2
    said = capsys.readouterr().err
    assert "1 of 3 updates cannot be made, for instance: update 98: an update's text has" in said and "--skip" in said
    assert run(*command, "--updates", long, "--skip", "--overwrite") == 0
    assert "making 2 updates" in capsys.readouterr().err
    out = tmp_path / "run"
    assert run("evaluate", "demo", "--updates", mixed, "--methods", "ROME", "--out", out, *ROME, *QUICK, "--json") == 0
    printed, said = capsys.readouterr()
    assert "ROME: 1 of 3 updates failed, 1 of them: the subject 'Atlantis'" in said
    assert {row["method"]: (row["done"], row["failed"]) for row in json.loads(printed)["summary"]} == {
        "unedited": (3, 0), "r-ROME": (2, 1),
    }  # fmt: skip
    failed = pl.read_parquet(out / "updates.parquet").row(0, named=True)
    assert failed["status"] == "failed" and "Atlantis" in failed["reason"]
    targets = pl.read_parquet(out / "targets.parquet")
    assert not targets.filter(case_id="99")["new_after"].count()  # never given the clean model's


# evaluate


def test_evaluate_end_to_end(updates: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "run"
    base = ["evaluate", "demo", "--updates", updates, "--out", out, "--fluency-tokens", "24", *FT]
    assert run(*base, "--methods", "FT,PROMPT") == 0
    printed, said = capsys.readouterr()
    assert "Edited models, mode independent, 3 updates" in printed and "mean ± half the 95 % interval" in printed
    assert re.search(r"│ FT +│", printed) and re.search(r"│ PROMPT +│", printed)
    assert "FT: settings: ours, chosen for the demo model, changed: steps" in said
    assert "no figure of bleedover: none of 12 neighbours" in said and "(popularity of none is known)" in said
    assert f"run folder: {out}; tables: {out / 'report'}" in said
    assert {p.name for p in (out / "report").iterdir()} == {
        "edits.csv", "edits.parquet", "paired_tests.csv", "paired_tests.parquet", "markdown", "latex",
        "metrics.parquet",
    }  # fmt: skip
    assert "Neighb.-S ↑" in printed and "Against the unedited model" in printed
    summary = pl.read_csv(out / "report" / "edits.csv")
    assert summary["fluency"].min() > 0 and summary["fluency_n"].to_list() == [3, 3, 3]
    before = {path: path.stat().st_mtime_ns for path in out.rglob("part-*.parquet")}
    # another method into the finished run: what is there is kept, and is in the table again
    assert run(*base[:-2], *ROME, "--methods", "ROME", "--json") == 0
    printed, said = capsys.readouterr()
    assert [row["method"] for row in json.loads(printed)["summary"]] == ["unedited", "FT", "PROMPT", "r-ROME"]
    assert {path: path.stat().st_mtime_ns for path in before} == before
    # other settings are refused with the difference, of a method and of the run
    assert run(*base[:-1], "FT.steps=3", "--methods", "FT") == 2
    assert "holds FT with other settings (settings.steps: 2 -> 3)" in said_by(capsys)
    assert run(*base, "--methods", "FT", "--mode", "batch") == 2
    assert "mode: 'independent' -> 'batch'" in said_by(capsys)
    assert run(*base, "--methods", "FT", "--limit", "2") == 2
    assert "number_of_updates: 3 -> 2" in said_by(capsys)
    other = write(tmp_path / "renamed.json", json.loads(updates.read_text()))  # the same updates from another file
    printed = out / "report" / "markdown" / "edits.md"
    assert "±" in printed.read_text("utf-8")
    again = ["evaluate", "demo", "--updates", other, *base[4:], "--methods", "FT", "--json"]
    assert run(*again, "--style", "paper") == 0
    assert "±" not in printed.read_text("utf-8") and "3 updates" in printed.read_text("utf-8")
    assert "S[table-format" in (out / "report" / "latex" / "edits.tex").read_text("utf-8")
    assert run(*again) == 0 and "±" in printed.read_text("utf-8")


@pytest.mark.full
def test_a_saved_edit_is_put_on_for_scores_and_probes(
    updates: Path, rows: list[dict[str, Any]], brief: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "ft.safetensors"
    assert run("edit", "demo", "--updates", updates, "--method", "FT", *FT, "--out", file) == 0
    pairs = [request(row) for row in rows]
    asked = tmp_path / "pairs.jsonl"
    asked.write_text("".join(json.dumps({"prompt": p, "answer": a}) + "\n" for p, a in pairs))
    assert run("score", "demo", "--input", asked, "--out", tmp_path / "scores.parquet", "--edit", file) == 0
    lm = load_model("demo")
    with edited(lm, load_edit(file)):
        wanted = lm.log_probs(pairs)
    assert pl.read_parquet(tmp_path / "scores.parquet")["logp"].to_list() == pytest.approx(wanted.tolist(), abs=1e-6)
    assert not np.allclose(wanted, lm.log_probs(pairs))
    few = tmp_path / "few.csv"
    to_published(brief.table, brief.boundaries).write_csv(few)
    out = tmp_path / "run"
    assert run("probe", "demo", "--dataset", few, "--out", out, "--edit", file, "--resamples", 100) == 0
    record = json.loads((out / "run.json").read_text())
    assert record["settings"]["label"] == "demo + ft" and record["settings"]["weights"] != lm.fingerprint()
    capsys.readouterr()
    assert run("probe", "demo", "--dataset", few, "--out", out, "--resamples", 100) == 2
    assert "weights" in said_by(capsys)
    assert run("probe", "demo-untrained", "--dataset", few, "--out", tmp_path / "other", "--edit", file) == 2
    assert "was made for the model with fingerprint" in said_by(capsys)
    assert run("probe", "demo", "demo-untrained", "--dataset", few, "--out", tmp_path / "two", "--edit", file) == 2
    assert "an edit belongs to one model" in said_by(capsys)


def said_by(capsys: pytest.CaptureFixture[str]) -> str:
    """What was said on one line, without anything on stdout."""
    printed, said = capsys.readouterr()
    assert printed == "" and len(said.strip().splitlines()[-1]) == len(said.strip().splitlines()[-1].strip())
    return " ".join(said.split())


@pytest.mark.parametrize("mode", ["batch", "sequential"])
def test_other_modes(mode: str, updates: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    command = ["evaluate", "demo", "--updates", updates, "--methods", "ROME", "--mode", mode, "--size", 2]
    assert run(*command, "--out", tmp_path / "run", *ROME, *QUICK, "--json") == 0
    summary = json.loads(capsys.readouterr().out)["summary"]
    assert {(row["mode"], row["done"]) for row in summary} == {(mode, 3)}
    seconds = pl.read_parquet(tmp_path / "run" / "updates.parquet")["seconds"]
    assert seconds[0] == seconds[1] != seconds[2]


@pytest.mark.full
def test_dated_questions_and_requests(
    rows: list[dict[str, Any]], updates: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    out = tmp_path / "run"
    command = ["evaluate", "demo", "--methods", "FT,ft dated", *FT, *QUICK]
    assert run(*command, "--updates", updates, "--dated", "--until", "2024", "--out", out, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    methods = [(row["method"], row["variant"]) for row in found["dated"]]
    assert methods == [("unedited", "plain"), ("FT", "plain"), ("FT", "dated")]
    assert all(row["past_kept_global_n"] == row["win_rate_global_n"] == 3 for row in found["dated"])
    assert found["not_asked"] == {}
    asked = pl.read_parquet(out / "dated.parquet").filter(case_id="0", granularity="year", method="FT")
    years = [str(y) for y in (*range(2010, 2017), 2018, 2019, 2020)]  # from Obama to Biden
    for way in ("prompt", "paraphrase", "question"):
        assert asked.filter(variant="plain", way=way)["time"].to_list() == years
    assert pl.read_parquet(out / "dated_neighbours.parquet").height == 2 * 3 * 4 * 2
    assert (out / "report" / "present_and_past.svg").is_file()
    unknown = write(tmp_path / "unknown.json", [rows[0], rows[1] | {"start": None, "objects": [
        o | {"start": None} for o in rows[1]["objects"]]}])  # fmt: skip
    assert run(*command, "--updates", unknown, "--dated", "--out", tmp_path / "unknown") == 0
    printed, said = capsys.readouterr()
    assert "Present updated, past kept" in printed
    assert "no dated questions: the date of change is not known: 1 update" in said
    assert "FT dated: 1 of 2 updates failed" in " ".join(said.split())
    for option in (("--until", "2024"), ("--ways", "question")):
        assert run(*command, "--updates", updates, *option, "--out", tmp_path / "no") == 2
        assert "add --dated" in said_by(capsys)
    command = [*command, "--updates", updates, "--dated", "--out", tmp_path / "questions", "--until", "2018"]
    assert run(*command, "--ways", "song") == 2
    assert "way 'song': dates are asked about by prompt, paraphrase, question" in said_by(capsys)
    assert run(*command, "--ways", "question") == 0
    assert set(pl.read_parquet(tmp_path / "questions" / "dated.parquet")["way"]) == {"question"}
    file = tmp_path / "p.safetensors"
    assert run("edit", "demo", "--updates", updates, "--method", "prompt dated", "--limit", 1, "--out", file) == 0
    assert load_edit(file).prefix.startswith("On January 21, 2017, the head of state of the United States is Donald")


def kill_when(folder: Path, name: str, code: str, *words: str) -> None:
    """Run Python code with these words, and kill it by SIGKILL as soon as the record of its run names this file.

    The file is there a moment before; killed in between, the run would rightly make it again.
    """
    child = subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 120
    while not ((folder / RUN_FILE).is_file() and name in json.loads((folder / RUN_FILE).read_text())["files"]):
        assert child.poll() is None and time.monotonic() < deadline, child.stderr.read() if child.stderr else ""
        time.sleep(0.002)
    os.kill(child.pid, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL


@pytest.mark.full
def test_a_killed_run_goes_on_with_the_same_command(
    updates: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(stages_module, "PART", 1)  # updates that a killed run can lose
    command = ["evaluate", "demo", "--updates", str(updates), "--methods", "FT,ROME", *FT, *ROME, *QUICK]
    cut, whole = tmp_path / "cut", tmp_path / "whole"
    code = (
        "import sys, anachron.evaluate.stages as stages; stages.PART = 1\n"
        "from anachron.cli.main import run_command; sys.exit(run_command(sys.argv[1:], True))"
    )
    kill_when(cut, "FT/part-00001.parquet", code, *command, "--out", str(cut))
    assert not (cut / "targets.parquet").exists()
    files = RunFolder.read(cut).record["files"]  # without the last part, where it was killed before its checksum
    kept = {cut / name: (cut / name).stat().st_mtime_ns for name in files if "/part-" in name}
    assert len(kept) >= 4
    assert run(*command, "--out", cut) == 0
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert run(*command, "--out", whole) == 0
    assert content(cut) == content(whole)
    assert len(json.loads((cut / "run.json").read_text())["sessions"]) == 2


LIFELONG = ["--mode", "sequential", "--after", "1,3", "--text", "mini", "--text-tokens", "100", *QUICK]


@pytest.mark.full
def test_lifelong_editing(updates: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    command = ["evaluate", "demo", "--updates", updates, "--methods", "FT", *FT, *LIFELONG, "--out", tmp_path / "run"]
    assert run(*command, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [(row["method"], row["edits"], row["done"]) for row in found["summary"]] == [
        ("unedited", 1, 1), ("unedited", 3, 3), ("FT", 1, 1), ("FT", 3, 3),
    ]  # fmt: skip
    assert all(row["perplexity"] > 1 for row in found["summary"]) and found["dated"] is None
    assert run(*command) == 0
    printed = capsys.readouterr().out
    assert "Lifelong editing, mode sequential" in printed and "Undone" in printed
    assert (tmp_path / "run" / "report" / "lifelong.svg").is_file()


@pytest.mark.slow
def test_killed_lifelong_editing_goes_on_with_the_same_command(updates: Path, tmp_path: Path):
    """Killed behind the first number of updates, while the sequence is made."""
    command = ["evaluate", "demo", "--updates", str(updates), "--methods", "ROME", *ROME, *LIFELONG]
    cut, whole = tmp_path / "cut", tmp_path / "whole"
    code = "import sys; from anachron.cli.main import run_command; sys.exit(run_command(sys.argv[1:], True))"
    kill_when(cut, "ROME/after-00001.json", code, *command, "--out", str(cut))
    assert not (cut / "targets.parquet").exists()
    first = (cut / "ROME" / "after-00001.json").stat().st_mtime_ns
    assert run(*command, "--out", cut) == 0
    assert (cut / "ROME" / "after-00001.json").stat().st_mtime_ns == first
    assert run(*command, "--out", whole) == 0
    assert content(cut) == content(whole)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--after", "1,x"], "'x' is not a number of updates"),
        (["--after", "1,2"], "add up in the modes batch and sequential only"),
        (["--after", "2,4", "--mode", "batch", "--size", "2"], "for the mode sequential only"),
        (["--after", "1,2", "--mode", "sequential", "--size", "2"], "after 1: not a multiple of size 2"),
        (["--after", "2,1", "--mode", "batch"], "give increasing numbers"),
        (["--after", "1,9", "--mode", "batch", "--no-covariance"], "there are 3 updates; leave that number out"),
        (["--text", "mini"], "go with --after"),
        (["--after", "1", "--mode", "batch", "--text", "no.txt"], "no such file"),
    ],
)
def test_wrong_numbers_of_updates_are_refused(
    words: list[str], said: str, updates: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    command = ["evaluate", "demo", "--updates", updates, "--methods", "FT", *words, "--out", tmp_path / "run"]
    assert run(*command) == 2
    assert said in said_by(capsys)
    assert not (tmp_path / "run").exists()


def test_one_pass_over_the_text_serves_all_methods(
    updates: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    asked: list[list[str]] = []
    real = editing.collect_covariance

    def counted(lm: Any, modules: Any, *rest: Any, **more: Any) -> Any:
        asked.append(list(modules))
        return real(lm, modules, *rest, **more)

    monkeypatch.setattr(editing, "collect_covariance", counted)
    text = tmp_path / "text.txt"
    text.write_text(
        "\n".join(f"In {n}, the {n * 37 % 1009} of place {n % 11} met {n * 7919 % 997}." for n in range(300))
    )
    steps = [f"--set={name}.steps=1" for name in ("ROME", "MEMIT")] + [
        f"--set={name}.contexts=[]" for name in ("ROME", "MEMIT")
    ]
    command = ["evaluate", "demo", "--updates", updates, "--limit", "1", "--methods", "ROME,MEMIT,PROMPT", *QUICK]
    command += ["--corpus", text, "--corpus-tokens", "2000", "--regularise", "0.01", "--cache", tmp_path / "cache"]
    assert run(*command, *steps, "--out", tmp_path / "run", "--json") == 0
    assert [len(set(modules)) for modules in asked] == [2]
    methods = json.loads((tmp_path / "run" / "run.json").read_text())["methods"]
    assert {name: len(about["identity"]["covariance"]) for name, about in methods.items()} == {
        "ROME": 1, "MEMIT": 2, "PROMPT": 0,
    }  # fmt: skip


@pytest.mark.skipif(not COUNTERFACT.is_file(), reason="needs the CounterFact file")
def test_counterfact_as_it_comes(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    command = ["evaluate", "demo", "--updates", COUNTERFACT, "--limit", "2", "--methods", "FT,PROMPT", *FT, *QUICK]
    assert run(*command, "--out", tmp_path / "run", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["done"] for row in found["summary"]] == [2, 2, 2]
    assert found["left_out"] == {"beyond the limit": 998}
    ft = found["summary"][1]
    assert ft["efficacy_difference"] is not None and ft["bleedover_nearest"] is not None


def test_scenarios_left_out_are_said(rows: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    other = rows[2] | {
        "objects": [o for o in rows[2]["objects"] if o["decision"] == "obsolete"], "scenario": "Archive",
        "is_replace": False,
    }  # fmt: skip
    path = write(tmp_path / "two.json", [rows[0], other])
    command = ["evaluate", "demo", "--updates", path, "--methods", "PROMPT", "--out", tmp_path / "run", *QUICK]
    assert run(*command) == 0
    assert "left out: 1 update, scenario Archive" in capsys.readouterr().err


def test_groups_of_a_scenario_are_made_judged_and_shown(
    rows: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    for row in rows[:2]:
        row = row | {"objects": [o for o in row["objects"] if o["decision"] == "obsolete"], "is_replace": False}
        rows = [*rows, row | {"scenario": "Archive", "case_id": row["case_id"] + 1000}]
    path, out = write(tmp_path / "five.json", rows), tmp_path / "run"
    command = ["evaluate", "demo", "--updates", path, "--out", out, *FT, *QUICK]
    assert run(*command, "--methods", "FT", "--scenario", "Archive") == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "Edited models, mode independent, scenario Archive, 2 updates" in printed and "Others'" in printed
    assert {"objects.parquet", "targets.parquet"} <= {p.name for p in out.iterdir()}
    summary = pl.read_csv(out / "report" / "edits.csv")
    assert summary["scenario"].to_list() == ["Archive"] * 2 and summary["efficacy_change"][1] > 0
    assert "| Change ↑ |" in (out / "report" / "markdown" / "edits.md").read_text("utf-8")
    assert run(*command, "--methods", "FT,rome dated", "--no-covariance", "--scenario", "Archive") == 2
    able = "FT, FT+L, LoRA, LoRA-Merge, PROMPT, RETRIEVAL can"
    assert f"ROME cannot make updates of the scenario Archive; {able}" in said_by(capsys)
    assert run(*command, "--methods", "FT", "--scenario", "Archived") == 2
    assert "unknown scenario 'Archived'; use one of ReplaceObject, Archive" in said_by(capsys)
    assert run(*command, "--methods", "FT", "--scenario", ",") == 2
    assert "no scenario is named" in said_by(capsys)
    made = tmp_path / "archive.safetensors"
    assert run("edit", "demo", "--updates", path, "--method", "FT", *FT, "--scenario", "Archive", "--out", made) == 0
    assert "FT: making 2 updates" in capsys.readouterr().err and load_edit(made).count == 2


@pytest.mark.full
def test_models_are_let_to_go_on_where_asked(updates: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "run"
    command = ["evaluate", "demo", "--updates", updates, "--methods", "FT", "--out", out, *QUICK]
    assert run(*command, "--generate") == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "Output: the text that the model generates begins with the object" in printed
    generations = pl.read_parquet(out / "generations.parquet")
    assert generations["old_before"].mean() > 0.5  # the demo model gives what it was taught
    assert generations["new_before"].sum() == 0 and generations.filter(kind="update")["new_after"].mean() == 1
    assert pl.read_csv(out / "report" / "edits.csv")["generated_new"].to_list() == [0, 1]
    assert "| Output new ↑ | Output old ↓ |" in (out / "report" / "markdown" / "edits.md").read_text("utf-8")
    assert run(*command) == 2
    assert "generate: True -> False" in said_by(capsys)


@pytest.mark.full
def test_what_follows_from_an_update_is_judged_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file, out = write(tmp_path / "ripple.json", [ripple()]), tmp_path / "run"
    command = ["evaluate", "demo", "--updates", file, "--methods", "FT", *FT, *QUICK, "--out", out]
    assert run(*command) == 0
    told = capsys.readouterr()
    assert "Portability: what follows" in told.out and "subject aliasing" in told.out
    assert "tests not asked: 1 of forgetfulness: it has no question" in told.out + told.err
    assert run(*command, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    kinds = {row["kind"]: row for row in said["portability"] if row["method"] == "FT"}
    assert kinds["relation specificity"]["not_counted"] == 2 and sum(said["tests_not_asked"].values()) == 2
    assert pl.read_csv(out / "report" / "portability.csv")["kind"].n_unique() == len(kinds) == 5


# train-mend


@pytest.mark.full
def test_mend_learns_from_no_subject_that_is_judged(
    rows: list[dict[str, Any]], updates: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    network = tmp_path / "mend.safetensors"
    judged = write(tmp_path / "judged.json", rows[:1])
    train = ["train-mend", "demo", "--updates", updates, "--steps", "2", "--batch", "1", "--rank", "4"]
    assert run(*train, "--without", judged, "--out", network, "--json") == 0
    printed, said = capsys.readouterr()
    assert json.loads(printed)["examples"] == 2
    assert f"1 of 3 updates are about subjects of {judged}: left out" in said
    assert run(*train, "--without", updates, "--out", tmp_path / "n") == 2
    assert "nothing is left to learn from" in capsys.readouterr().err
    assert run(*train, "--scenario", "Archive", "--out", tmp_path / "n") == 2
    assert "no update of the scenario Archive" in capsys.readouterr().err
    judge = ["--updates", judged, "--methods", "MEND", "--out", tmp_path / "run", *QUICK]
    assert run("evaluate", "demo", *judge, "--mend", network, "--json") == 0
    assert json.loads(capsys.readouterr().out)["summary"][1]["done"] == 1
    assert run("evaluate", "demo-untrained", *judge, "--mend", network) == 2
    assert "train one for it with anachron train-mend" in capsys.readouterr().err
    assert run("evaluate", "demo", *judge, "--mend", network, "--set", "MEND.rate=1") == 2
    assert "the settings of MEND are those of its network" in capsys.readouterr().err


# wrong use


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no json", "as JSON: Expecting value"),
        ('{"subject": "France"}', "holds one dict, not a list of records"),
        ("[]", "has no records"),
        ('[{"topic": "France", "claim": "Paris"}]', "not a known kind of update; give those of one of WikiFactDiff"),
        ('[{"prompt": "The capital of France is", "target_new": "Lyon"}]', "lacks subject"),
        ('[{"prompt": "The capital of France is", "target_new": 7, "subject": "France"}]', "target_new is 7"),
    ],
)
def test_wrong_files(text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "updates.json"
    path.write_text(text)
    for command in (
        ["edit", "demo", "--method", "FT", "--out", tmp_path / "e.safetensors"],
        ["evaluate", "demo", "--methods", "FT", "--out", tmp_path / "run"],
        ["train-mend", "demo", "--out", tmp_path / "network"],
    ):
        assert run(*command, "--updates", path) == 2
        assert said in said_by(capsys)
    assert [p.name for p in tmp_path.iterdir()] == ["updates.json"]


EARLY = [  # said before anything is loaded
    (["--methods", "ROAM"], "method 'ROAM': choose one of FT, FT+L, MEND"),
    (["--methods", ","], "no method is named"),
    (
        ["--methods", "FT", "--mode", "parallel"],
        "mode 'parallel': choose one of independent, batch, entity, sequential",
    ),
    (["--methods", "FT", "--size", "2"], "for the modes batch and sequential only"),
    (["--methods", "FT", "--set", "steps=3"], "write METHOD.NAME=VALUE, for instance ROME.layer=5"),
    (["--methods", "FT", "--set", "FT.steps"], "write METHOD.NAME=VALUE"),
    (["--methods", "FT", "--site", "bloks=h"], "write blocks=NAME, mlp_in=NAME or mlp_out=NAME"),
    (["--methods", "ROME", "--corpus", "mini", "--no-covariance"], "either --corpus or --no-covariance"),
    (["--methods", "ROME", "--corpus", "none.txt"], "corpus none.txt: no such file"),
    (["--methods", "ROME", "--regularise", "0"], "give a number above 0"),
    (["--methods", "FT,rome METO"], "rome METO needs a covariance, and for no/model none is at hand: give a text with"),
    (["--methods", "FT,ft"], "are not all different"),
    (["--methods", "MEND"], "MEND needs its trained network"),
    (["--methods", "MEND", "--mend", "none.safetensors"], "no such file; train a network with anachron train-mend"),
]
LATE = [
    (["--methods", "FT", "--set", "ROME.steps=3"], 2, "settings are given for ROME, which is not among FT"),
    (["--methods", "FT", "--set", "FT.stepps=3"], 2, "FT has no setting 'stepps'; it has layer, steps"),
    (["--methods", "FT", "--set", "FT.steps=many"], 2, 'FT.steps "many" must be a whole number, such as 25'),
    (["--methods", "FT", "--set", "FT.steps=-1"], 2, "FT.steps -1 must be above 0"),
    (["--methods", "FT", "--set", "FT.eps=wide"], 2, 'FT.eps "wide" must be a number or null'),
    (["--methods", "FT", "--set", "FT.eps=-1"], 2, "FT.eps -1 must be 0 or more"),
    (["--methods", "FT", "--set", "FT.layer=9"], 2, "layer 9: the model has 6 layers, numbered from 0"),
    (["--methods", "LoRA", "--set", "LoRA.layers=[9]"], 2, "layer 9: the model has 6 layers"),
    (["--methods", "MEMIT", "--set", "MEMIT.layers=1"], 2, "MEMIT.layers 1 must be a list, such as [3, 4"),
    (["--methods", "ROME", "--set", "ROME.averaged_key=1"], 2, "must be true or false, such as true"),
    (["--methods", "FT", "--site", "blocks=transformer.h"], 2, "no blocks under the names transformer.h"),
    (["--methods", "FT", "--site", "mlp_out=fc2"], 2, "give both mlp_in, the projections into the MLP, and mlp_out"),
]


@pytest.mark.parametrize(("options", "said"), EARLY, ids=[said for _, said in EARLY])
def test_wrong_options_are_refused_before_anything_is_loaded(
    options: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    assert run("evaluate", "no/model", "--updates", "no-file.json", "--out", "run", *options) == 2
    assert said in said_by(capsys)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("method", "said"),
    [("ROME", "ROME needs a covariance, and for no/model none is at hand"), ("MEND", "MEND needs its trained network")],
)
def test_an_edit_that_lacks_what_it_needs_is_refused_before_anything_is_loaded(
    method: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    assert run("edit", "no/model", "--updates", "no-file.json", "--out", "e.safetensors", "--method", method) == 2
    told = said_by(capsys)
    assert said in told and (method == "MEND" or "--corpus auto" in told) and not list(tmp_path.iterdir())


@pytest.mark.few(7)
@pytest.mark.parametrize(("options", "code", "said"), LATE, ids=[said for *_, said in LATE])
def test_wrong_options_are_refused_before_the_first_update(
    options: list[str], code: int, said: str, updates: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    command = ["evaluate", "demo", "--updates", updates, "--out", tmp_path / "run", "--no-covariance"]
    assert run(*command, *options) == code
    assert said in said_by(capsys)
    assert not (tmp_path / "run").exists()


def test_sites_by_hand(updates: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    sites = ["blocks=model.layers", "mlp_in=mlp.gate_proj+mlp.up_proj", "mlp_out=mlp.up_proj"]
    command = ["edit", "demo", "--updates", updates, "--limit", "1", "--method", "FT", *FT]
    words = [word for site in sites for word in ("--site", site)]
    assert run(*command, *words, "--out", tmp_path / "ft.safetensors", "--json") == 0
    assert list(json.loads(capsys.readouterr().out)["modules"]) == ["model.layers.4.mlp.up_proj"]


@pytest.mark.parametrize("command", ["covariance", "train-mend", "edit", "evaluate"])
def test_help_has_an_example_and_loses_no_word(command: str, capsys: pytest.CaptureFixture[str]):
    assert run(command, "--help") == 0
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert f"Example: anachron {command} " in shown
    assert {"covariance": "name[:config[:split]]", "train-mend": "--without", "edit": "RippleEdits, MQuAKE, AToKe"}.get(
        command, "--methods"
    ) in shown


# what a model lacks, and what an edit did to it


@pytest.mark.full
def test_updates_that_a_model_lacks(
    rows: list[dict[str, Any]], updates: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """The files and the table say the same, and the updates that are lacking can be edited as they stand."""
    out, lacking = tmp_path / "updates.csv", tmp_path / "lacking.jsonl"
    command = ["updates", "demo", "--updates", updates, "--out", out, "--lacking", lacking]
    assert run(*command, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    table = pl.read_csv(out)
    assert found["lacks"] + found["has"] + found["partly"] == table.height == 3 and found["passed"]
    lm = load_model("demo")
    for row, update in zip(table.iter_rows(named=True), rows, strict=True):
        prompts = [update["update_prompt"], *update["generalization_prompts"]]
        asked = [prompt.removesuffix("____").strip() for prompt in prompts]
        old, new = (lm.log_probs([(p, row[name]) for p in asked]) for name in ("old", "new"))
        lengths = [len(lm.encode([(asked[0], row[name], None)])[0].targets) for name in ("old", "new")]
        assert row["old_likelier"] == int((old / lengths[0] > new / lengths[1]).sum())
        assert row["prompts"] == 5
    absent = [row for row, state in zip(rows, table["state"], strict=True) if state == "lacks"]
    assert [json.loads(line) for line in lacking.read_text("utf-8").splitlines()] == absent
    for file in (out, lacking):
        manifest = json.loads(Path(f"{file}.manifest.json").read_text())
        assert manifest["command"] == "updates" and str(updates) in manifest["inputs"]
    assert run(*command[:4], "--max-lacking", len(absent)) == 0
    printed, said = capsys.readouterr()
    assert f"of 3 updates the model lacks {len(absent)}, has {found['has']}" in said
    assert ("Updates that the model lacks" in printed) == (found["has"] < 3)
    if absent:
        assert run(*command[:4], "--max-lacking", len(absent) - 1, "--json") == 1
        assert not json.loads(capsys.readouterr().out)["passed"]
    assert run(*command[:4], "--lacking", tmp_path / "lacking.json") == 2
    assert "the updates are always written as .jsonl" in capsys.readouterr().err
    assert run(*command[:4], "--out", tmp_path / "updates.xlsx") == 2


def test_an_edit_tells_of_its_objects_before_and_after(
    rows: list[dict[str, Any]], updates: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    out = tmp_path / "ft.safetensors"
    command = ["edit", "demo", "--updates", updates, "--method", "FT", "--out", out]
    assert run(*command, "--shown", "2", "--json") == 0
    told = json.loads(capsys.readouterr().out)["objects"]
    assert [(row["case_id"], row["role"]) for row in told] == [
        (str(row["case_id"]), role) for row in rows[:2] for role in ("new", "obsolete")
    ]
    lm = load_model("demo")
    asked = [(row["prompt"], row["object"]) for row in told]
    tokens = [len(text.targets) for text in lm.encode([(*pair, None) for pair in asked])]
    np.testing.assert_allclose([row["before"] for row in told], np.exp(lm.log_probs(asked) / tokens), rtol=1e-3)
    with edited(lm, load_edit(out)):
        np.testing.assert_allclose([row["after"] for row in told], np.exp(lm.log_probs(asked) / tokens), rtol=1e-3)
    assert all(row["after"] > row["before"] for row in told if row["role"] == "new")
    assert run(*command, *FT) == 0
    printed = capsys.readouterr().out
    assert "rank before" in printed and all(request(row)[1].split()[0] in printed for row in rows)
    assert run(*command, *FT, "--shown", "0") == 0
    assert capsys.readouterr().out == ""


def test_an_edit_says_how_many_updates_prefer_the_new_object(
    rows: list[dict[str, Any]], updates: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Counted again by a plain loop over log-probabilities; two steps of FT turn some of three updates, or none."""
    out = tmp_path / "ft.safetensors"
    command = ["edit", "demo", "--updates", updates, "--method", "FT", *FT, "--out", out, "--shown", "0"]
    assert run(*command, "--json") == 0
    told = json.loads(capsys.readouterr().out)["preferred"]
    lm, expected = load_model("demo"), []
    with edited(lm, load_edit(out)):
        for row in rows:
            prompt, new = request(row)
            old = next(o["label"] for o in row["objects"] if o["decision"] == "obsolete")
            mean = [lm.log_probs([(prompt, o)])[0] / len(lm.encode([(prompt, o, None)])[0].targets) for o in (new, old)]
            if mean[0] <= mean[1]:
                expected.append((str(row["case_id"]), new, old))
    assert [(row["case_id"], row["new"], row["old"]) for row in told.pop("others")] == expected
    assert told == {
        "compared": 3, "prefer_new": 3 - len(expected), "without_old": 0, "first_choice": 0, "without_new": 0,
    }  # fmt: skip
    assert run(*command) == 0
    printed = capsys.readouterr().err
    assert f"{3 - len(expected)} of 3 now prefer the new object\n" in printed
    assert all(f"{new} behind {old}" in printed for _, new, old in expected) and ("not so:" in printed) == bool(
        expected
    )


def test_updates_without_an_old_or_a_new_object_are_counted_apart():
    columns = ("case_id", "subject", "prompt", "new", "old", "p_new", "p_old", "prefers")
    made = [
        ("1", "A", "a is", "x", "y", 0.5, 0.1, True), ("2", "B", "b is", "x", "", 0.5, None, True),
        ("3", "C", "c is", "x", "", 0.5, None, False), ("4", "D", "d is", "", "y", None, 0.1, None),
        *[(str(n), f"E{n}", "e is", "x", "y", 0.1, 0.5, False) for n in range(5, 12)],
    ]  # fmt: skip
    counts = preferred(pl.DataFrame(made, schema=PREFERENCES, orient="row"))
    assert {name: value for name, value in counts.items() if name != "others"} == {
        "compared": 8, "prefer_new": 1, "without_old": 2, "first_choice": 1, "without_new": 1,
    }  # fmt: skip
    assert [row["subject"] for row in counts["others"]] == ["C", *(f"E{n}" for n in range(5, 12))]
    assert list(PREFERENCES) == [*columns]
    assert preferred_lines(counts) == [
        "1 of 8 now prefer the new object",
        "1 of 2 without an old object now have the new one's first token as the model's first choice",
        "1 without a new object are not compared",
        "not so: C: x; E5: x behind y; E6: x behind y; E7: x behind y; E8: x behind y and 3 more",
    ]


def test_an_edit_says_what_else_it_changed(
    rows: list[dict[str, Any]], updates: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """The mean over the neighbours of the file, by a plain loop over log-probabilities."""
    out = tmp_path / "ft.safetensors"
    command = ["edit", "demo", "--updates", updates, "--method", "FT", "--out", out, "--shown", "0"]
    assert run(*command, "--json") == 0
    told = json.loads(capsys.readouterr().out)["others"]
    updated = {row["subject"]["label"] for row in rows}
    pairs = {
        (item["prompt"].removesuffix("____").strip(), item["object"]["label"])
        for row in rows for kind in ("neighborhood", "random_neighborhood") for fact in row[kind]
        for item in fact["objects"] if fact["subject"]["label"] not in updated
    }  # fmt: skip
    lm = load_model("demo")
    tokens = {pair: len(lm.encode([(*pair, None)])[0].targets) for pair in pairs}

    def mean() -> float:
        return float(np.mean([np.exp(lm.log_probs([pair])[0] / tokens[pair]) for pair in pairs]))

    assert told["neighbours"]["facts"] == told["neighbours"]["asked"] == len(pairs)
    assert told["neighbours"]["mean_before"] == pytest.approx(mean(), rel=1e-3)
    with edited(lm, load_edit(out)):
        assert told["neighbours"]["mean_after"] == pytest.approx(mean(), rel=1e-3)
    assert told["same subject"]["asked"] > 0 and {w["subject"] for w in told["same subject"]["worst"]} <= updated
    assert run(*command) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert f"of {len(pairs)} neighbours {told['neighbours']['as_likely']} kept their true object as likely" in said
    assert "other facts about the subjects" in said and "fell most: " in said


@pytest.mark.full
def test_the_model_writes_the_text_for_its_covariance(
    updates: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(own_text, "LENGTH", 40)
    steps = ["--set", "ROME.steps=2", "--set", "ROME.contexts=[]", "--cache", tmp_path / "cache", "--corpus", "auto"]
    command = ["edit", "demo", "--updates", updates, "--method", "ROME", "--shown", "0", *steps]
    assert run(*command, "--out", tmp_path / "r.safetensors", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    (matrix,) = (path for path in (tmp_path / "cache").rglob("*.mlp.down_proj.safetensors"))
    inputs = load_model("demo").model.get_submodule(found["modules"].popitem()[0]).in_features
    assert matrix.parent.name.endswith(f"-{10 * inputs}")  # tokens
    layer = ["--layers", matrix.name.split(".")[2], "--tokens", 10 * inputs, "--cache", tmp_path / "cache", "--json"]
    before = matrix.stat().st_mtime_ns
    assert run("covariance", "demo", "--corpus", "auto", *layer) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["corpus"] == "auto" and matrix.stat().st_mtime_ns == before  # the same text, which is not sampled again


def test_a_method_is_recommended_with_the_reason(updates: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "r.safetensors"
    quick = ["--set", "ROME.steps=1", "--set", "ROME.contexts=[]", "--shown", "0"]
    assert run("edit", "demo", "--updates", updates, "--out", out, *quick, "--no-covariance") == 0
    said = capsys.readouterr().err
    assert (
        "ROME, for 3 updates, and a covariance is not wanted; --method chooses another" in said
        and "r-ROME: making" in said
    )
    assert json.loads(Path(f"{out}.manifest.json").read_text())["parameters"]["method"] == "ROME"
    assert run("edit", "demo", "--updates", updates, "--out", tmp_path / "out.bin") == 2
    assert "an edit is a .safetensors file" in capsys.readouterr().err


def test_updates_that_change_nothing_or_exclude_each_other(
    rows: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    new = next(o for o in rows[0]["objects"] if o["decision"] == "new")
    same = rows[0] | {"case_id": 90, "objects": [new, new | {"decision": "obsolete"}]}
    other = rows[1] | {"case_id": 91, "start": "1999", "objects": [
        o | {"label": f"{o['label']} II", "start": None} for o in rows[1]["objects"]]}  # fmt: skip
    path = write(tmp_path / "u.json", [*rows, same, other])
    command = ["edit", "demo", "--updates", path, "--method", "PROMPT", "--out", tmp_path / "p.safetensors", "--json"]
    assert run(*command) == 2
    said = said_by(capsys)
    assert "1 of 5 updates cannot be made" in said and "update 91:" in said and "update 1 makes" in said
    assert run(*command, "--skip") == 0
    printed, said = capsys.readouterr()
    assert "left out: 1 update, nothing to change" in said and "warning: 1 of 4 updates are left out" in said
    found = json.loads(printed)
    assert (found["unchanged"], found["skipped"], found["edits"]) == (1, 1, 3)


def test_an_edit_that_leaves_no_room_for_its_prompts_is_kept(
    updates: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    def too_long(*given: object) -> None:
        raise ModelError("text 1 has 900 tokens, more than the 512 that demo reads")

    monkeypatch.setattr(editing, "before_and_after", too_long)
    out = tmp_path / "p.safetensors"
    assert run("edit", "demo", "--updates", updates, "--method", "PROMPT", "--out", out) == 0
    assert "the edit was made, but its objects cannot be compared: text 1 has 900" in capsys.readouterr().err
    assert out.is_file()
