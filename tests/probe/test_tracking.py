"""Numbers of runs in trackers: those of the tables, under names that MLflow takes; and runs as notebooks show them."""

import re
from dataclasses import replace
from types import SimpleNamespace

import polars as pl
import pytest

import anachron
from anachron.analysis.metrics import fact_metrics, summarise
from anachron.core.errors import ConfigError, DataError
from anachron.edit.base import Dense, Edit
from anachron.io.run_folder import RunFolder
from anachron.probe.check.check import Check
from anachron.probe.run import ProbeResult, ProbeSettings
from anachron.report.edits.evaluated import EvaluatedUpdates
from anachron.report.edits.tables import EDITS
from anachron.report.outputs import Written
from support.synthetic_studies import synthetic_scores


class MlflowLike:
    """As mlflow behaves: it refuses names with other letters than these, and values that are no numbers."""

    def __init__(self) -> None:
        self.metrics, self.params = {}, {}

    def log_metrics(self, metrics) -> None:
        for name, value in metrics.items():
            assert re.fullmatch(r"[\w.\- :/]+", name) and isinstance(value, float), name
        self.metrics |= metrics

    def log_params(self, params) -> None:
        assert all(len(str(value)) <= 500 for value in params.values())
        self.params |= params


@pytest.fixture(scope="module")
def probed(tmp_path_factory) -> ProbeResult:
    scores = synthetic_scores(6, runs=(("fir-1b", "raw", "none", 0.8),))
    settings = {"label": "fir-1b", "model": "fir", "format": "raw", "prefix": "none", "long": "x" * 900, "no": None}
    record = {"settings": settings, "noise": {"largest": 1e-6}, "finished": "2026-11-23T10:00:00"}
    return ProbeResult(tmp_path_factory.mktemp("run"), record, scores)


def summary() -> pl.DataFrame:
    metrics = [column.of for column in EDITS.columns]
    rows = []
    for place, method in enumerate(("unedited", "FT+L")):
        row = {"mode": "independent", "scenario": "ReplaceObject", "method": method, "variant": "plain"}
        row |= {"done": 4, "failed": 0}
        for metric in metrics:
            unknown = metric == "fluency"
            ends = dict.fromkeys((metric, f"{metric}_low", f"{metric}_high"), None if unknown else (place + 1) / 4)
            row |= ends | {f"{metric}_n": 0 if unknown else 4}
        rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)


def test_a_run_of_probe_in_both_trackers(probed):
    mlflow = MlflowLike()
    numbers = anachron.log_to(probed, mlflow)
    table = summarise(fact_metrics(probed.scores))
    for row in table.iter_rows(named=True):
        for name in ("win_rate", "robustness"):
            assert mlflow.metrics[f"{name}/{row['granularity']}"] == row[name]
    assert len(numbers) == 2 * table.height and mlflow.metrics == numbers
    assert mlflow.params["model"] == "fir" and len(mlflow.params["long"]) == 500 and "no" not in mlflow.params
    seen, config = {}, {}
    assert anachron.log_to(probed, SimpleNamespace(log=seen.update, config=config)) == seen == numbers
    assert config == mlflow.params
    assert anachron.log_to(probed, SimpleNamespace(log=seen.update)) == numbers


def test_evaluated_updates_and_a_check(probed):
    evaluated = EvaluatedUpdates({"settings": {"mode": "independent"}}, {"summary": (summary(), EDITS)}, [])
    mlflow = MlflowLike()
    numbers = anachron.log_to(evaluated, mlflow)
    assert numbers["FT_L/efficacy_success"] == 0.5 and numbers["unedited/efficacy_success"] == 0.25
    assert not any(name.endswith("fluency") for name in numbers) and mlflow.params == {"mode": "independent"}
    dated = replace(evaluated, summaries={"dated": (summary(), EDITS)})
    assert anachron.log_to(dated, MlflowLike())["dated/FT_L/efficacy_success"] == 0.5
    about = dict.fromkeys(("subject", "relation", "object", "answer", "answer_until"), "x") | {"periods": "2001/"}
    verdicts = pl.DataFrame({
        "verdict": ["known", "robust", "known", None], "win_rate": [0.9, 1.0, 0.8, None],
        "robustness": [0.0, 1.0, 0.0, None], "present": ["current", None, "stale", None],
    }).with_columns(**{name: pl.lit(text) for name, text in about.items()})  # fmt: skip
    present = pl.DataFrame([about | {"question": "what is x?"}])
    check = Check(probed.folder, "fir", verdicts, present, [], anachron.Date.parse("2024-06-30"))
    numbers = anachron.log_to(check, mlflow)
    assert numbers["verdicts/known"] == 2 and numbers["win_rate"] == pytest.approx(0.9)
    assert mlflow.params["as_of"] == "2024-06-30"


@pytest.mark.full
def test_a_finished_run_may_be_given_by_its_folder(tmp_path):
    """The same numbers and settings as of the object; an unfinished run and another folder are refused."""
    facts = tmp_path / "facts.csv"
    facts.write_text(
        "subject,relation,object,start,end\nUSA,president,Barack Obama,2009-01-20,2017-01-20\n"
        "France,president,Jacques Chirac,1995-05-17,2007-05-16\n"
    )
    settings = ProbeSettings(label="demo, small")
    check = anachron.check("demo", facts, tmp_path / "check", settings=settings)
    data = anachron.load_dataset(str(facts), as_of="2024-06-30", sampling="near")
    probed = anachron.run_probe(anachron.load_model("demo"), data, tmp_path / "probe", settings)
    for run, folder in ((check, tmp_path / "check"), (probed, str(tmp_path / "probe"))):
        by_object, by_folder = MlflowLike(), MlflowLike()
        assert anachron.log_to(run, by_object) == anachron.log_to(folder, by_folder) != {}
        assert by_object.params == by_folder.params
    with pytest.raises(DataError, match="No such file"):
        anachron.log_to(tmp_path, MlflowLike())
    unfinished = RunFolder.read(tmp_path / "probe")
    unfinished.record["status"] = "running"
    unfinished.save()
    with pytest.raises(DataError, match="not finished"):
        anachron.log_to(tmp_path / "probe", MlflowLike())


def test_what_is_no_run_or_no_tracker(probed):
    with pytest.raises(ConfigError, match="object has neither log_metrics nor log"):
        anachron.log_to(probed, object())
    with pytest.raises(ConfigError, match="DataFrame is not a run"):
        anachron.log_to(probed.scores, MlflowLike())


def test_runs_summaries_and_edits_show_themselves(probed):
    import torch

    assert "Run of fir-1b" in probed._repr_html_() and f"{probed.scores.height:,}" in probed._repr_html_()
    table = summarise(fact_metrics(probed.scores))
    written = Written({"summary": table}, [], {}, {}, {})
    for row in table.iter_rows(named=True):
        ends = f"{100 * row['win_rate_low']:.1f} to {100 * row['win_rate_high']:.1f}"
        assert f"<td>{100 * row['win_rate']:.1f}</td><td>{ends}</td>" in written._repr_html_()
    assert "3 rows" in Written({"asked": pl.DataFrame({"a": [1, 2, 3]})}, [], {}, {}, {})._repr_html_()
    evaluated = EvaluatedUpdates({}, {"summary": (summary(), EDITS)}, [])
    assert "<td>FT+L</td>" in evaluated._repr_html_() and EDITS.title in evaluated._repr_html_()
    edit = Edit({"a.b": Dense(torch.zeros(2, 3))}, about={"method": "FT", "edits": 4}, prefix="<now> ")
    shown = edit._repr_html_()
    assert "Edit by FT" in shown and "<td>a.b</td>" in shown and "<td>4</td>" in shown and "&lt;now&gt; " in shown
