"""Runs of edits whose files are not as they were written: made again, or refused where nobody asks for their method."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from anachron.core.errors import DataError
from anachron.data.updates.case_records import EditCase, NeighbourFact
from anachron.data.updates.cases import CaseSet
from anachron.evaluate import stages as stages_module
from anachron.evaluate.lifelong import LifelongSettings, run_lifelong
from anachron.evaluate.measure import Measures
from anachron.evaluate.run import EvaluateSettings, run_evaluation
from anachron.io.files import write_json
from anachron.io.jobs import Callbacks
from anachron.io.run_folder import RunFolder
from anachron.lm.model import LanguageModel
from support.edit_models import killed_after, make_edit_lm, plan_fast

SETTINGS = EvaluateSettings(measures=Measures(fluency_tokens=0))
LIFELONG = LifelongSettings((1, 3), measures=Measures(fluency_tokens=12))
FAST = {"FT": {"steps": 2, "layer": 2, "rate": 1e-2}}


def case(number: int, subject: str) -> EditCase:
    near = (NeighbourFact("The capital of France is", ("Paris",), 0.2, 10.0 + number, "France"),)
    return EditCase(
        f"case {number}", subject, f"The president of {subject} is", "Angela Merkel", "Jacques Chirac", (), near, (),
        "P35", popularity=float(number),
    )  # fmt: skip


CASES = CaseSet("three updates", "wikifactdiff", (case(1, "France"), case(2, "Zürich"), case(3, "Berlin")), {})


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return make_edit_lm("llama")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages_module, "PART", 2)
    monkeypatch.setattr(stages_module, "PART", 2)


@pytest.fixture(scope="module")
def whole(lm: LanguageModel, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Finished runs: of edits one by one, and of lifelong editing."""
    place = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages_module, "PART", 2)
        patch.setattr(stages_module, "PART", 2)
        run_evaluation(lm, CASES, plan_fast(lm, FAST, "FT", "PROMPT"), place / "one", SETTINGS)
        run_lifelong(lm, CASES, plan_fast(lm, FAST, "FT"), place / "lifelong", LIFELONG)
    return {"one": place / "one", "lifelong": place / "lifelong"}


def tables(folder: Path) -> dict[str, list]:
    """All tables but for how long edits took."""
    found = {path.name: pl.read_parquet(path) for path in folder.glob("*.parquet")}
    return {name: table.drop("seconds", strict=False).to_dicts() for name, table in found.items()}


def flip(file: Path) -> None:
    held = bytearray(file.read_bytes())
    held[len(held) // 2] ^= 16
    file.write_bytes(held)


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-30])


@pytest.mark.full
def test_every_file_of_a_run_has_its_checksum(whole: dict[str, Path]):
    for folder in whole.values():
        files = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()} - {"run.json", ".lock"}
        assert files == set(RunFolder.read(folder).record["files"])


@pytest.mark.few(4)
@pytest.mark.parametrize("damage", [flip, truncate, Path.unlink])
@pytest.mark.parametrize("name", ["clean/part-00001.parquet", "FT/part-00000.parquet", "targets.parquet"])
def test_what_is_damaged_is_made_again(
    lm: LanguageModel, whole: dict[str, Path], tmp_path: Path, name: str, damage: Callable
):
    folder, said = Path(shutil.copytree(whole["one"], tmp_path / "run")), []
    damage(folder / name)
    run_evaluation(
        lm, CASES, plan_fast(lm, FAST, "FT", "PROMPT"), folder, SETTINGS, callbacks=Callbacks(said.append)
    )  # fmt: skip
    assert tables(folder) == tables(whole["one"])
    if name != "targets.parquet":  # tables are always made again
        assert [line for line in said if name in line and "made again" in line] == said


def test_a_damaged_part_of_a_method_that_is_not_asked_for_is_refused(
    lm: LanguageModel, whole: dict[str, Path], tmp_path: Path
):
    """Not left out, as one that was never finished: the tables would lack a method without a word."""
    for damage in (flip, Path.unlink):
        folder = Path(shutil.copytree(whole["one"], tmp_path / damage.__name__))
        damage(folder / "FT" / "part-00000.parquet")
        with pytest.raises(DataError, match=r"FT.part-00000\.parquet"):
            run_evaluation(lm, CASES, plan_fast(lm, FAST, "PROMPT"), folder, SETTINGS)


@pytest.mark.parametrize("name", [
    "clean.json", "clean/part-00000.parquet", "FT/after-00003.json", "FT/after-00003/part-00001.parquet",
    "FT/undone-00003/part-00000.parquet",
])  # fmt: skip
def test_what_is_damaged_of_lifelong_editing_is_made_again(
    lm: LanguageModel, whole: dict[str, Path], tmp_path: Path, name: str
):
    folder, said = Path(shutil.copytree(whole["lifelong"], tmp_path / "run")), []
    flip(folder / name)
    run_lifelong(lm, CASES, plan_fast(lm, FAST, "FT"), folder, LIFELONG, callbacks=Callbacks(said.append))
    assert tables(folder) == tables(whole["lifelong"])
    assert any(name in line and "made again" in line for line in said)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["sequence", "undo-00003"])
@pytest.mark.parametrize("damage", [flip, truncate, Path.unlink])
def test_a_damaged_sequence_is_made_again(
    lm: LanguageModel, whole: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str,
    damage: Callable,
):  # fmt: skip
    """Also where only the update that is to be undone is: it lies in the middle of what is saved."""
    from anachron.evaluate import joint_edits

    monkeypatch.setattr(joint_edits, "SAVE_EVERY", 1)
    folder, said = tmp_path / "run", []
    undo = f"FT/{name}.safetensors"
    stop = 1
    while not ((folder / undo).exists() and (folder / "FT" / "after-00003").exists()):
        with pytest.raises(KeyboardInterrupt):
            run_lifelong(lm, CASES, plan_fast(lm, FAST, "FT"), folder, LIFELONG, callbacks=killed_after(stop))
        stop += 1
    damage(folder / undo)
    run_lifelong(lm, CASES, plan_fast(lm, FAST, "FT"), folder, LIFELONG, callbacks=Callbacks(said.append))
    assert any(undo in line for line in said)
    assert tables(folder) == tables(whole["lifelong"])


def test_an_earlier_version_and_broken_methods_are_refused(lm: LanguageModel, whole: dict[str, Path], tmp_path: Path):
    folder = Path(shutil.copytree(whole["one"], tmp_path / "run"))
    run = RunFolder.read(folder)
    run.record["methods"] = {"FT": {"settings_from": "nowhere"}}
    run.save()
    with pytest.raises(DataError, match="its methods are broken"):
        run_evaluation(lm, CASES, plan_fast(lm, FAST, "FT"), folder, SETTINGS)
    record = {k: v for k, v in run.record.items() if k not in ("format", "files")}
    write_json(folder / "run.json", record)
    with pytest.raises(DataError, match="earlier version"):
        run_evaluation(lm, CASES, plan_fast(lm, FAST, "FT"), folder, replace(SETTINGS))
