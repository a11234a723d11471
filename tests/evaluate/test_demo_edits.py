"""What editing does to the bundled model, on real replacements: the pattern that the paper found on GPT-J.

Thresholds are those the project set itself; the paper's own numbers are for a model of six billion weights.
"""

from pathlib import Path

import polars as pl
import pytest

from anachron.data.updates.cases import CaseSet, load_cases
from anachron.edit.covariance.collect import collect_covariance
from anachron.edit.plan import plan_edits
from anachron.evaluate.measure import Measures
from anachron.evaluate.metrics import UNEDITED, summarise, update_metrics
from anachron.evaluate.run import EvaluateSettings, run_evaluation
from anachron.evaluate.stages import Evaluation
from anachron.lm.loading import load_model
from anachron.lm.model import LanguageModel

METHODS = (
    "FT", "FT+L", "ROME", "MEMIT", "AlphaEdit", "EMMET", "UltraEdit", "LoRA", "LoRA-Merge", "GRACE", "PROMPT",
    "RETRIEVAL",
)  # fmt: skip


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return load_model("demo")


def evaluated(lm: LanguageModel, out: Path, methods: tuple[str, ...], cases: CaseSet, tokens: int) -> Evaluation:
    planned = plan_edits(lm, methods, collect=lambda modules: collect_covariance(lm, modules, "mini"))
    return run_evaluation(lm, cases, planned, out, EvaluateSettings(measures=Measures(fluency_tokens=tokens)))


def rows_of(result: Evaluation) -> dict[str, dict[str, float]]:
    summary = summarise(update_metrics(result.tables["targets"], result.tables["neighbours"], result.tables["updates"]))
    return {row["method"]: row for row in summary.iter_rows(named=True)}


def every(cases: CaseSet, step: int) -> CaseSet:
    return CaseSet(f"every {step}th", cases.format, cases.cases[::step], {})


def check_pattern(rows: dict[str, dict[str, float]], slack: float) -> None:
    """slack: what a sample may miss the shares by that are asked of all updates."""
    assert rows[UNEDITED]["efficacy_success"] <= 0.05
    least = {"FT": 0.95, "ROME": 0.95, "MEMIT": 0.95, "AlphaEdit": 0.90, "EMMET": 0.90}
    for method in least.keys() & rows.keys():
        assert rows[method]["efficacy_success"] >= least[method] - slack, method
    assert rows["ROME"]["generalization_success"] >= 0.80 - slack
    for method in ("ROME", "MEMIT"):
        assert rows[method]["bleedover_nearest"] < rows["FT"]["bleedover_nearest"], method
    assert rows["PROMPT"]["failed"] == 0


@pytest.mark.slow
def test_pattern_on_a_sample(lm: LanguageModel, tmp_path: Path):
    before = lm.fingerprint()
    result = evaluated(lm, tmp_path / "run", ("FT", "ROME", "MEMIT", "PROMPT"), every(load_cases("mini-updates"), 4), 0)
    check_pattern(rows_of(result), slack=0.1)
    assert lm.fingerprint() == before


@pytest.mark.slow
def test_pattern_on_all_updates(lm: LanguageModel, tmp_path: Path):
    result = evaluated(lm, tmp_path / "run", METHODS, load_cases("mini-updates"), 0)
    rows = rows_of(result)
    check_pattern(rows, slack=0.0)
    assert all(rows[method]["failed"] == 0 for method in METHODS)


@pytest.mark.slow
def test_the_demo_model_writes_varied_text_and_goes_on_after_an_edit(lm: LanguageModel, tmp_path: Path):
    rows = rows_of(evaluated(lm, tmp_path / "run", ("ROME", "MEMIT"), every(load_cases("mini-updates"), 25), 100))
    assert rows[UNEDITED]["fluency"] > 5.5
    for method in ("ROME", "MEMIT"):
        assert abs(rows[method]["fluency"] - rows[UNEDITED]["fluency"]) < 0.3


@pytest.mark.full
def test_the_demo_model_knows_the_old_values_and_the_neighbours(lm: LanguageModel, tmp_path: Path):
    result = evaluated(lm, tmp_path / "run", ("PROMPT",), every(load_cases("mini-updates"), 4), 0)
    update = result.tables["targets"].filter(pl.col("kind") == "update")
    assert (update["old_before"] > 0.5).mean() >= 0.9
    assert (result.tables["targets"]["old_before"] > 0.5).mean() >= 0.9
    assert (result.tables["neighbours"]["before"] > 0.5).mean() >= 0.9
    assert (update["new_before"] < update["old_before"]).mean() >= 0.95
