"""A data set of the hub as a benchmark: read by the hub's own reader, and by what Inspect makes of ``eval.yaml``."""

from pathlib import Path

import pytest

from anachron.cli.main import run_command
from anachron.data.dataset import Dataset
from anachron.data.loaders import load_dataset
from anachron.io.files import file_fingerprint
from anachron.probe.questions import questions_of_data
from anachron.report.export.benchmark import EVAL, choices_table
from anachron.report.export.hub import export_hub


def test_the_choices_are_those_of_a_run(five: Dataset):
    table = choices_table(questions_of_data(five))
    status = {(f, t): s for f, t, s in five.table.select("fact_id", "time", "status").rows()}
    assert table.height > 0
    for fact, prompt, year, other in table.rows():
        assert (status[fact, year], status[fact, other]) == ("correct", "incorrect")
        assert f"{year} or {other}?" in prompt or f"{other} or {year}?" in prompt
    pairs = table.group_by("fact_id", "year", "other_year").len()
    assert set(pairs["len"]) == {2}  # both orders
    assert table["prompt"].n_unique() == table.height


def test_the_hub_reads_statements_and_choices(five: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    questions = questions_of_data(five)
    manifest = export_hub(five, tmp_path / "set", questions=questions)
    assert manifest["files"] == {name: file_fingerprint(tmp_path / "set" / name) for name in manifest["files"]}
    assert load_dataset(str(tmp_path / "set")).table.equals(five.table)  # the statements, as without a benchmark
    loaded = datasets.load_dataset(str(tmp_path / "set"), "choices", split="test")
    assert loaded.to_list() == choices_table(questions).to_dicts()
    assert manifest["counts"]["choices"] == len(loaded)
    without = export_hub(five, tmp_path / "set")
    assert not (tmp_path / "set" / EVAL).exists() and EVAL not in without["files"]
    assert not (tmp_path / "set" / "choices").exists()


def test_eval_yaml_names_what_is_there(file: Path, tmp_path: Path):
    yaml = pytest.importorskip("yaml")
    argv = ["export", "hub", str(file), "--out", str(tmp_path / "set"), "--benchmark", "--licence", "mit"]
    assert run_command(argv, debug=False) == 0
    read = yaml.safe_load((tmp_path / "set" / EVAL).read_text("utf-8"))
    assert read["evaluation_framework"] == "inspect-ai"
    assert read["name"] == "Dated statements: five.parquet"
    (task,) = read["tasks"]
    front = yaml.safe_load((tmp_path / "set" / "README.md").read_text("utf-8").split("---")[1])
    (config,) = (one for one in front["configs"] if one["config_name"] == task["config"])
    (data,) = config["data_files"]
    assert data["split"] == task["split"] and (tmp_path / "set" / data["path"]).is_file()


@pytest.mark.slow
def test_inspect_takes_the_task(five: Dataset, tmp_path: Path):
    pytest.importorskip("inspect_ai", reason="pip install 'anachron[export-test]'")
    import yaml
    from inspect_ai._eval.task.hf import HFTask, _record_to_sample_hf

    questions = questions_of_data(five)
    export_hub(five, tmp_path, questions=questions)
    read = yaml.safe_load((tmp_path / EVAL).read_text("utf-8"))
    (task,) = (HFTask.model_validate(one) for one in read["tasks"])
    row = choices_table(questions).row(0, named=True)
    sample = _record_to_sample_hf(row, task.field_spec)
    assert (sample.input, sample.target) == (row["prompt"], row["year"])
