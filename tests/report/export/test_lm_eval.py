"""The task folder, and the real lm-evaluation-harness running it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from anachron.analysis.metrics import GLOBAL, fact_metrics
from anachron.cli.main import run_command
from anachron.core.errors import ConfigError
from anachron.core.facts import Fact
from anachron.core.periods import Period
from anachron.data.dataset import Dataset
from anachron.data.statements import FactWithQuestion, make_statements
from anachron.io.files import file_fingerprint, read_json
from anachron.io.tables import read_table
from anachron.lm.loading import load_model
from anachron.lm.tokenizers import demo_folder
from anachron.probe.run import run_probe
from anachron.report.export.lm_eval import export_lm_eval, task_config, task_name
from support.tiny_models import make_lm

TOLERANCE = 1e-4


def test_the_folder_and_its_manifest(five: Dataset, tmp_path: Path):
    manifest = export_lm_eval(five, tmp_path)
    name = manifest["parameters"]["task"]
    files = {"statements.parquet", "metrics.py", f"{name}.yaml", "README.md"}
    assert {p.name for p in tmp_path.iterdir()} == {*files, "manifest.json"}
    assert read_json(tmp_path / "manifest.json") == manifest
    assert manifest["files"] == {file: file_fingerprint(tmp_path / file) for file in manifest["files"]}
    assert manifest["counts"]["statements"] == five.table.height == sum(manifest["counts"]["statuses"].values())
    assert list(manifest["inputs"].values()) == [five.fingerprint()]
    table = read_table(tmp_path / "statements.parquet")
    assert (table["target"].str.slice(0, 1) == " ").all()
    sizes = five.table.group_by("fact_id", "granularity").len()
    assert table.select("fact_id", "granularity", "statements").unique().height == sizes.height
    assert table["statements"].sum() == (sizes["len"] ** 2).sum()


def test_the_task_is_yaml_that_names_functions_of_the_module(five: Dataset):
    yaml = pytest.importorskip("yaml")
    from anachron.report.export import harness

    class Loader(yaml.SafeLoader):
        pass

    Loader.add_constructor("!function", lambda loader, node: loader.construct_scalar(node))
    config = yaml.load(task_config("odd_name", Dataset('q"uo:te # \n', five.table, "released")), Loader)
    assert config["task"] == "odd_name"
    assert config["metadata"]["dataset"] == 'q"uo:te # \n'
    named = [config["process_results"], config["custom_dataset"], *(m["aggregation"] for m in config["metric_list"])]
    assert all(module == "metrics" and hasattr(harness, f) for module, _, f in (n.partition(".") for n in named))
    assert config["target_delimiter"] == ""
    assert config["num_fewshot"] == 0


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("mini", "anachron_mini"),
        ("Orange/TimeStress", "anachron_orange_timestress"),
        ("mini, 5 facts", "anachron_mini_5_facts"),
        ("no/such/My Facts.parquet", "anachron_no_such_my_facts"),
    ],
)
def test_names_of_tasks(name: str, task: str, five: Dataset):
    assert task_name(Dataset(name, five.table, "released")) == task


def test_a_local_path_stays_private(five: Dataset, tmp_path: Path):
    path = tmp_path / "Facts of mine.parquet"
    path.touch()
    export_lm_eval(Dataset(str(path), five.table, "released"), tmp_path / "task")
    assert (tmp_path / "task" / "anachron_facts_of_mine.yaml").is_file()
    for file in (tmp_path / "task").iterdir():
        assert str(tmp_path).encode() not in file.read_bytes(), file.name


def test_only_an_earlier_export_is_overwritten(five: Dataset, tmp_path: Path):
    with pytest.raises(ConfigError, match="task 'a,b'"):
        export_lm_eval(five, tmp_path / "new", task="a,b")
    assert not (tmp_path / "new").exists()
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="is a file"):
        export_lm_eval(five, tmp_path / "file")
    full = tmp_path / "full"
    full.mkdir()
    (full / "thesis.txt").write_text("precious")
    with pytest.raises(ConfigError, match="not empty"):
        export_lm_eval(five, full)
    assert (full / "thesis.txt").read_text() == "precious"
    export_lm_eval(five, tmp_path / "task", task="first")
    export_lm_eval(five, tmp_path / "task", task="second")
    assert [p.name for p in (tmp_path / "task").glob("*.yaml")] == ["second.yaml"]


def test_the_command(five: Dataset, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    argv = ["export", "lm-eval", str(file), "--out", str(tmp_path / "task")]
    assert run_command([*argv, "--json"], debug=False) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["task"], shown["facts"], shown["statements"]) == ("anachron_five", 5, five.table.height)
    assert run_command([*argv, "--task", "mine"], debug=False) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "--tasks mine" in err
    assert (tmp_path / "task" / "mine.yaml").is_file()
    assert run_command([*argv, "--boundaries", "paper"], debug=False) == 2
    assert "boundaries 'released', not 'paper'" in capsys.readouterr().err


def run_harness(task: Path, name: str, out: Path) -> tuple[dict[str, float], list[dict]]:
    """Metrics and logged samples of the real harness, run where neither this package nor the hub can be reached."""
    code = "import sys; sys.modules['anachron'] = None\nfrom lm_eval.__main__ import cli_evaluate\ncli_evaluate()"
    model = f"pretrained={demo_folder()},dtype=float32"
    argv = ["--model", "hf", "--model_args", model, "--include_path", task, "--tasks", name, "--log_samples"]
    argv += ["--output_path", out, "--device", "cpu", "--batch_size", "32"]
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(out / "hf")}
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | offline
    done = subprocess.run(
        [sys.executable, "-c", code, *argv], env=environment, cwd=out.parent, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (results,) = out.glob("*/results_*.json")
    (samples,) = out.glob("*/samples_*.jsonl")
    metrics = {
        key.removesuffix(",none"): value
        for key, value in json.loads(results.read_text())["results"][name].items()
        if key.endswith(",none") and "_stderr" not in key
    }
    return metrics, [json.loads(line) for line in samples.read_text("utf-8").splitlines()]


@pytest.mark.slow
def test_the_real_harness_scores_and_measures_as_probe_does(five: Dataset, tmp_path: Path):
    pytest.importorskip("lm_eval", reason="pip install 'anachron[export-test]'")
    from anachron.report.export import harness

    task = tmp_path / "task"
    name = export_lm_eval(five, task)["parameters"]["task"]
    (tmp_path / "moved").mkdir()
    task = task.rename(tmp_path / "moved" / "task")  # the folder finds its data wherever it lies
    metrics, samples = run_harness(task, name, tmp_path / "out")

    ours = run_probe(load_model("demo", dtype="float32", device="cpu"), five, tmp_path / "run").scores
    theirs = pl.DataFrame(harness.scores(samples, "demo"), infer_schema_length=None)
    keys = ["fact_id", "granularity", "time"]
    both = ours.join(theirs, on=keys, how="inner", nulls_equal=True, suffix="_theirs")
    assert both.height == ours.height == five.table.height
    differences = (both["logp"] - both["logp_theirs"]).abs()
    print(f"largest difference of a log-probability: {differences.max():.2g}")
    assert differences.max() < TOLERANCE

    mine = fact_metrics(ours)
    inside = harness.fact_metrics([sample[harness.METRICS[0]] for sample in samples])
    assert len(inside) == mine.height == 4 * 5
    moved = 0
    for row in mine.filter(pl.col("granularity") != GLOBAL).iter_rows(named=True):
        difference = abs(inside[row["fact_id"], row["granularity"]][0] - row["win_rate"])
        here = ours.filter((pl.col("fact_id") == row["fact_id"]) & (pl.col("granularity") == row["granularity"]))
        correct, incorrect = (here.filter(pl.col("status") == s)["logp"].to_numpy() for s in ("correct", "incorrect"))
        close = int((np.abs(correct[:, None] - incorrect[None, :]) < TOLERANCE).sum())
        assert difference * row["matches"] <= close + 1e-9
        moved += difference > 0
    print(f"fact-granularities whose W differs: {moved} of 15")

    assert metrics["facts"] == 5
    again = fact_metrics(theirs)  # this package's metrics from the harness's scores are the harness's own
    for granularity, group in again.group_by("granularity"):
        for what in ("win_rate", "robustness"):
            assert metrics[f"{what}_{granularity[0]}"] == pytest.approx(group[what].mean(), abs=1e-12)
    assert 0 < metrics["win_rate_global"] < 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "tokenizer"), [("gpt2", "gpt2"), ("neox", "pythia"), ("llama", "llama"), ("gemma2", "mistral")]
)
def test_other_tokenizers_differ_by_the_space_and_nothing_else(
    family: str, tokenizer: str, five: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Start tokens or none, bytes or pieces; where the space is a token of its own, its score is the difference."""
    pytest.importorskip("lm_eval", reason="pip install 'anachron[export-test]'")
    import datasets
    import torch
    from lm_eval import simple_evaluate
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    learned = Fact("France", "head of state", "Jacques Chirac", Period("1995", "2007"))  # by the tiny tokenizers
    digits = Fact("San Francisco", "member of", "49 of them", Period("1950", "1960"))
    own = make_statements(
        [FactWithQuestion(learned, "who led France?"), FactWithQuestion(digits, "which team was theirs?")]
    )
    table = pl.concat([five.table, own]).gather_every(3)
    name = export_lm_eval(Dataset("some", table, "released"), tmp_path / "task")["parameters"]["task"]
    lm = make_lm(family, tokenizer)
    done = simple_evaluate(
        HFLM(pretrained=lm.model, tokenizer=lm.tokenizer, batch_size=16),
        tasks=[name],
        task_manager=TaskManager(include_path=str(tmp_path / "task"), include_defaults=False),
        bootstrap_iters=0,
    )
    theirs = np.array([sample["facts"][-1] for sample in done["samples"][name]])
    pairs = list(table.select("prompt", "answer").iter_rows())
    spaces = np.zeros(len(pairs))
    for row, ((prompt, _), encoded) in enumerate(zip(pairs, lm.encode([(p, a, None) for p, a in pairs]), strict=True)):
        first = len(lm.tokenizer(prompt).input_ids)
        if first != encoded.targets[0]:
            assert lm.tokenizer.decode(encoded.ids[first : encoded.targets[0]]).strip() == ""
            with torch.inference_mode():
                logits = lm.model(input_ids=torch.tensor([encoded.ids])).logits[0].log_softmax(-1)
            spaces[row] = sum(float(logits[i - 1, encoded.ids[i]]) for i in range(first, encoded.targets[0]))
    print(f"{family}, {tokenizer}: {np.count_nonzero(spaces)} of {len(pairs)} with a space of its own")
    assert np.abs(lm.log_probs(pairs) + spaces - theirs).max() < TOLERANCE
    assert 0 < np.count_nonzero(spaces) < len(pairs)
