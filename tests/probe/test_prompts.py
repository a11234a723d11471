"""Prompt beside score: each exported text scored in a plain way gives its log-probability."""

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from anachron.cli.main import run_command
from anachron.core.errors import DataError
from anachron.data.dataset import Dataset
from anachron.data.decoys import with_decoys
from anachron.data.loaders import load_dataset
from anachron.data.own.reading import Reading
from anachron.data.wordings import with_wordings
from anachron.io.run_folder import RunFolder
from anachron.probe.check.check import check
from anachron.probe.check.questions import read_facts
from anachron.probe.prompts import export_run, prompts_of_run
from anachron.probe.run import ProbeSettings, run_probe
from support.asked_runs import ask, known
from support.tiny_models import make_lm, naive_log_prob

FACTS = """subject,relation,object,start,end
Kazakhstan,capital,Almaty,1991-12-16,1997-12-10
Kazakhstan,capital,Astana,1997-12-10,
"""
FIRST = ["prompt", "answer", "time", "granularity", "status", "alpha", "logp", "n_tokens", "model", "format", "prefix"]


@pytest.fixture(scope="module")
def lm():
    return make_lm()


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("facts") / "facts.csv"
    path.write_text(FACTS)
    return path


@pytest.fixture(scope="module")
def data(facts: Path) -> Dataset:
    return load_dataset(str(facts), as_of="2003")


def agrees(lm, table: pl.DataFrame, prefix: str = "", rows: int = 40) -> None:
    """A sample of the rows, each text by itself through the whole model."""
    for row in table.sample(min(rows, table.height), seed=0).iter_rows(named=True):
        assert naive_log_prob(lm, prefix + row["prompt"], row["answer"]) == pytest.approx(row["logp"], abs=2e-4)


@pytest.mark.full
def test_a_text_that_is_exported_has_the_score_beside_it(lm, data: Dataset, tmp_path: Path):
    """Facts, decoys and wordings behind a prefix: those of the data set, in its order."""
    (tmp_path / "prefix.txt").write_text("Dates matter here. ")
    both = with_wordings(with_decoys(data.sample(1), 1))
    run_probe(lm, both, tmp_path / "run", ProbeSettings(prefix=str(tmp_path / "prefix.txt"), label="tiny"))
    table = prompts_of_run(tmp_path / "run")
    assert table.columns[: len(FIRST)] == FIRST
    assert table.select("prompt", "answer").equals(both.statements().select("prompt", "answer"))
    assert table["decoy"].count() and table["wording"].count()
    assert set(table.filter(pl.col("decoy").is_not_null()).select("answer", "decoy").iter_rows()) == {
        (name, name) for name in table["decoy"].drop_nulls()
    }
    assert set(table["model"]) == {"tiny"}
    agrees(lm, table, "Dates matter here. ")


@pytest.mark.full
def test_a_check_is_exported_without_its_file_and_so_is_what_it_asks_about_today(lm, facts: Path, tmp_path: Path):
    moved = tmp_path / "moved.csv"
    moved.write_text(FACTS)
    asked = read_facts(moved, as_of="2003")
    check(lm, replace(asked, data=with_decoys(asked.data, 1)), tmp_path / "run")
    moved.unlink()
    table = prompts_of_run(tmp_path / "run")
    assert table.filter(pl.col("decoy").is_null()).height == pl.read_parquet(tmp_path / "run" / "scores.parquet").height
    agrees(lm, table)
    today = prompts_of_run(tmp_path / "run" / "present")
    assert set(today["prompt"]) == {"what is the capital of Kazakhstan?"} and today["time"].null_count() == today.height
    agrees(lm, today)


@pytest.mark.full
@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_every_format_holds_the_same(ending: str, lm, data: Dataset, tmp_path: Path, monkeypatch):
    run_probe(lm, data, tmp_path / "run")
    out = tmp_path / f"scores.{ending}"
    assert run_command(["runs", "export", str(tmp_path / "run"), str(out)], debug=True) == 0
    read = {"csv": pl.read_csv, "parquet": pl.read_parquet, "jsonl": pl.read_ndjson}[ending](out)
    written = prompts_of_run(tmp_path / "run")
    columns = ["prompt", "answer", "logp", "n_tokens", "status"]
    assert read.select(columns).rows() == written.select(columns).rows()
    assert (tmp_path / f"scores.{ending}.manifest.json").is_file()


@pytest.mark.full
def test_prompts_that_cannot_be_rebuilt_are_not_guessed(lm, data: Dataset, facts: Path, tmp_path: Path):
    """Prompts in other words than the date and the question, of a data set that is gone, or is another by now."""
    reworded = data.table.with_columns(
        pl.when(pl.col("time").is_null()).then("prompt").otherwise("Well, " + pl.col("prompt")).alias("prompt")
    )
    run_probe(lm, replace(data, name="gone.csv", table=reworded, about=None), tmp_path / "run")
    with pytest.raises(DataError, match=r"cannot be rebuilt .*gone\.csv.*--dataset"):
        prompts_of_run(tmp_path / "run")
    with pytest.raises(DataError, match="is not what the run scored; name the file"):
        prompts_of_run(tmp_path / "run", str(facts))

    run_probe(lm, with_wordings(data), tmp_path / "worded")  # which needs the file, where it lies now
    run = RunFolder.read(tmp_path / "worded")
    run.record["settings"]["dataset"] = "gone.csv"
    run.save()
    moved = tmp_path / "moved.csv"
    moved.write_text(FACTS)
    agrees(lm, prompts_of_run(tmp_path / "worded", str(moved)), rows=10)
    moved.write_text(FACTS.replace("Almaty", "Alma-Ata"))
    with pytest.raises(DataError, match="is not what the run scored"):
        prompts_of_run(tmp_path / "worded", str(moved))


def test_a_run_by_answers_gives_its_questions_with_what_was_said(tmp_path: Path):
    ask(tmp_path / "run", "somebody", known, rounds=1)
    out = tmp_path / "answers.csv"
    assert export_run(tmp_path / "run", out) == pl.read_ndjson(tmp_path / "run" / "answers.jsonl").height
    table = pl.read_csv(out)
    assert table.columns[:3] == ["prompt", "answer", "kind"] and set(table["asked_by"]) == {"generate"}
    for row in table.iter_rows(named=True):
        assert row["answer"] == known(row["prompt"])
    assert set(table["subject"].drop_nulls()) == {"Kazakhstan", "Germany"}


@pytest.mark.full
def test_a_run_that_is_not_done_or_not_of_prompts_says_so(lm, data: Dataset, tmp_path: Path, capsys):
    run_probe(lm, data, tmp_path / "run")
    run = RunFolder.read(tmp_path / "run")
    run.record["status"] = "running"
    run.save()
    with pytest.raises(DataError, match="is not finished"):
        prompts_of_run(tmp_path / "run")
    run.record |= {"status": "done", "kind": "edits"}
    run.forget(["scores.parquet"])
    with pytest.raises(DataError, match="holds no scores of prompts"):
        prompts_of_run(tmp_path / "run")
    assert run_command(["runs", "export", str(tmp_path / "run"), str(tmp_path / "scores.txt")], debug=False) == 2
    assert "unknown ending" in capsys.readouterr().err


@pytest.mark.full
def test_a_file_is_read_again_as_the_run_read_it(lm, tmp_path: Path):
    file = tmp_path / "facts.csv"
    file.write_text("Land;Amt;Wer;von;bis\nFrance;head of state;Jacques Chirac;17/05/1995;16/05/2007\n")
    reading = Reading({"object": "Wer"})
    data = with_wordings(load_dataset(str(file), as_of="2009", reading=reading))
    run_probe(lm, data, tmp_path / "run")
    table = prompts_of_run(tmp_path / "run")
    assert table["prompt"].to_list() == data.statements()["prompt"].to_list()
    agrees(lm, table, rows=10)
