"""Run folders with a bit flipped, an end cut off, or a file of another run: refused, or no number is another one."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from anachron.core.errors import AnachronError
from anachron.data.dataset import Dataset
from anachron.data.updates.cases import load_cases
from anachron.edit.plan import plan_edits
from anachron.evaluate.measure import Measures
from anachron.evaluate.run import EvaluateSettings, run_evaluation
from anachron.io.run_folder import RunFolder
from anachron.lm.loading import load_model
from anachron.lm.model import LanguageModel
from anachron.probe.run import run_probe
from anachron.probe.runs import read_runs
from support.small_runs import in_small_parts

pytestmark = pytest.mark.trial
FLIPS, CUTS = 200, 30  # over the three folders


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return load_model("demo")


@pytest.fixture(scope="module")
def data(brief: Dataset) -> Dataset:
    facts = brief.table["fact_id"].unique(maintain_order=True).head(2).to_list()
    return Dataset("two facts", brief.table.filter(pl.col("fact_id").is_in(facts)), brief.boundaries)


@pytest.fixture(autouse=True, scope="module")
def small_parts():
    with pytest.MonkeyPatch.context() as patch:
        in_small_parts(patch, 50)
        yield


class Kind:
    """A folder that is there whole, the command that made it, and what it says."""

    def __init__(self, folder: Path, repeat: Callable[[Path], Any], done: bool) -> None:
        self.folder, self.repeat, self.done = folder, repeat, done
        finished = Path(shutil.copytree(folder, folder.with_name(f"{folder.name}-finished")))
        repeat(finished)
        self.tables = tables(finished)

    def files(self) -> list[str]:
        return sorted(p.relative_to(self.folder).as_posix() for p in self.folder.rglob("*") if is_file_of_run(p))

    def survives(self, damaged: Path) -> bool:
        """Whether reading, and the command that made it, refuse in one line or give the very same numbers."""
        if self.done and (self.folder / "scores.parquet").exists():
            whole = read_runs([self.folder])
            try:
                if not read_runs([damaged]).equals(whole):
                    return False
            except AnachronError as error:
                if "\n" in str(error):
                    return False
        try:
            self.repeat(damaged)
        except AnachronError as error:
            return "\n" not in str(error)
        return tables(damaged) == self.tables and not list(damaged.rglob("*.tmp"))


def is_file_of_run(path: Path) -> bool:
    return path.is_file() and path.name != ".lock"


def tables(folder: Path) -> dict[str, list]:
    """All tables but for how long edits took."""
    found = {p.relative_to(folder).as_posix(): pl.read_parquet(p) for p in folder.rglob("*.parquet")}
    return {name: table.drop("seconds", strict=False).to_dicts() for name, table in found.items()}


@pytest.fixture(scope="module")
def kinds(lm: LanguageModel, data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> list[Kind]:
    place = tmp_path_factory.mktemp("runs")
    cases = load_cases("mini-updates", limit=3)
    methods = plan_edits(lm, ["FT", "PROMPT"], changes={"FT": {"steps": 2}})

    def probe(folder: Path) -> None:
        run_probe(lm, data, folder)

    def evaluate(folder: Path) -> None:
        run_evaluation(lm, cases, methods, folder, EvaluateSettings(measures=Measures(fluency_tokens=0)))

    probe(place / "done")
    evaluate(place / "edits")
    half = RunFolder.read(Path(shutil.copytree(place / "done", place / "half")))
    half.record["status"] = "running"
    half.forget(["scores.parquet", "scores/part-00001.parquet"])
    return [
        Kind(place / "done", probe, True),
        Kind(place / "half", probe, False),
        Kind(place / "edits", evaluate, True),
    ]


def flip(file: Path, chooser: random.Random) -> None:
    held = bytearray(file.read_bytes())
    held[chooser.randrange(len(held))] ^= 1 << chooser.randrange(8)
    file.write_bytes(held)


def cut(file: Path, chooser: random.Random) -> None:
    held = file.read_bytes()
    file.write_bytes(held[: chooser.randrange(len(held))])


def tried(kind: Kind, name: str, damage: Callable[[Path], None], tmp_path: Path) -> bool:
    damaged = Path(shutil.copytree(kind.folder, tmp_path / "damaged"))
    damage(damaged / name)
    survived = kind.survives(damaged)
    shutil.rmtree(damaged)
    return survived


@pytest.mark.share(2)
@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.parametrize(("damage", "times"), [(flip, FLIPS), (cut, CUTS)])
def test_damaged_files(kinds: list[Kind], tmp_path: Path, damage: Callable, times: int, part: int):
    """In turn every file of every folder, so that small ones get as many as large ones; of each part every other."""
    chooser = random.Random(times + part)
    places = [(kind, name) for kind in kinds for name in kind.files()]
    lost = []
    for number in (numbers := range(part, times, 2)):
        kind, name = places[number % len(places)]
        if not tried(kind, name, lambda file: damage(file, chooser), tmp_path):
            lost.append((kind.folder.name, name, number))
    whole = len(numbers) - len(lost)
    print(f"trial: {len(numbers)} files damaged ({damage.__name__}), {whole} refused or without another number")
    assert not lost


def test_files_of_another_run(kinds: list[Kind], data: Dataset, tmp_path: Path):
    """Each file but the record is that of a run of another model, with the same name, statements and parts."""
    other = load_model("demo-untrained")
    other.name = "demo"
    foreign = tmp_path / "foreign"
    run_probe(other, data, foreign)
    places = [
        (kind, name) for kind in kinds for name in kind.files() if (foreign / name).is_file() and name != "run.json"
    ]
    lost = [
        (kind.folder.name, name)
        for kind, name in places
        if not tried(kind, name, lambda file, name=name: shutil.copy(foreign / name, file), tmp_path)
    ]
    print(f"trial: {len(places)} files of another run, {len(places) - len(lost)} found")
    assert places and not lost
