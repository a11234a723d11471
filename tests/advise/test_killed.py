"""``advise`` and ``refresh`` killed by SIGKILL in every step: the same command, repeated, ends as if it had never been.

One folder is killed at one place after the other, so that every repeat goes on from another state.
"""

import json
import signal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from safetensors.torch import load_file

from anachron.data.dataset import Dataset
from support.killed_commands import MOMENTS, NAMED, run_killed
from support.taught_facts import taught_facts

pytestmark = pytest.mark.full
SUBJECTS = ("CERN", "Louvre")
FEW = ["--set", "evidence=0", "--set", "fluency_tokens=0", "--set", "text=none"]
ADVICE = [  # files in the order in which they are first written by a call that goes on
    "run.json", "at-00001/run.json", "at-00001/clean/part-00000.parquet", "at-00001/FT/part-00000.parquet",
    "at-00001/updates.parquet", "at-00002/run.json", "costs.json", "at-00002/FT/part-00000.parquet", "costs.json",
    "ways.csv", "advice.json",
]  # fmt: skip
PROBE = ["run.json", "scores/part-00000.parquet", "scores.parquet"]
CHECK = [*PROBE, "present/scores.parquet", "stale.json", "check.json"]
PLACES = {
    "advise": [f"run/{name}" for name in (*ADVICE, "report/index.html")],
    "refresh": [
        *(f"run/check/{name}" for name in CHECK),
        *(f"run/advice/{name}" for name in ("run.json", "at-00002/FT/part-00000.parquet", "costs.json", "advice.json")),
        "run/update.safetensors",
        *(f"run/bundled/{name}" for name in PROBE),
        *(f"run/after/{name}" for name in CHECK),
        *(f"run/bundled-after/{name}" for name in PROBE),
        "run/report/index.html", "run/refresh.json", "model",
    ],
}  # fmt: skip
BOTH = ("run/costs.json", "run/update.safetensors", "model")  # killed there at both moments, at others in turn
OF_TIME = ("seconds", "milliseconds", "memory", "cost")


@pytest.fixture(scope="module")
def inputs(mini: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Facts and a few bundled statements."""
    folder = tmp_path_factory.mktemp("inputs")
    taught_facts(folder / "facts.csv", SUBJECTS)
    few = mini.table["fact_id"].unique(maintain_order=True).head(5).to_list()
    mini.table.filter(pl.col("fact_id").is_in(few)).write_parquet(folder / "mini.parquet")
    return folder


def words(job: str, inputs: Path, folder: Path) -> list[str]:
    out = ["--out", str(folder / "run")]
    if job == "advise":
        return ["advise", "demo", "--updates", "mini-updates", "--limit", "2", "--ways", "RETRIEVAL,FT", *out, *FEW]
    facts = ["--facts", str(inputs / "facts.csv"), "--as-of", "2024-12-31"]
    ways = ["--ways", "PROMPT,FT", "--way", "FT", "--save-model", str(folder / "model")]
    return ["refresh", "demo", *facts, *ways, *out, *FEW]


def numbers(folder: Path) -> dict[str, Any]:
    """What every file below a folder says, but for times, memory and where the folder is; of a page only its name."""
    made: dict[str, Any] = {}
    for path in (p for p in sorted(folder.rglob("*")) if p.is_file() and not p.name.endswith("lock")):
        name = path.relative_to(folder).as_posix()
        if path.suffix in (".parquet", ".csv"):
            table = pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_csv(path, infer_schema_length=None)
            made[name] = table.drop(OF_TIME, strict=False).to_dicts()
        elif path.suffix == ".safetensors":
            made[name] = {key: tensor.tolist() for key, tensor in load_file(path).items()}
        elif path.suffix == ".json" and not name.endswith("manifest.json"):
            told = json.loads(path.read_text().replace(str(folder), ""))
            record = {key: told[key] for key in ("kind", "status", "settings")} if path.name == "run.json" else None
            made[name] = lasting(record or told)
        else:
            made[name] = path.read_text() if "gains" in name else ""
    return made


def lasting(value: Any) -> Any:
    """Without what another run measures otherwise."""
    if isinstance(value, dict):
        value = {key: lasting(one) for key, one in value.items() if key not in OF_TIME}
        return value | {"tied": sorted(value["tied"])} if "tied" in value else value  # they go by what they cost
    return [lasting(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("job", PLACES)
def test_killed_in_every_step(job: str, inputs: Path, tmp_path: Path) -> None:
    log, mini = tmp_path / "log.txt", inputs / "mini.parquet"
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    assert run_killed(words(job, inputs, tmp_path / "whole"), tmp_path / "whole", mini, None, NAMED, log) == 0
    folder = tmp_path / "killed"
    command = words(job, inputs, folder)
    for number, place in enumerate(PLACES[job]):
        for moment in MOMENTS if place in BOTH else MOMENTS[number % 2 :][:1]:
            ended = run_killed(command, folder, mini, place, moment, log)
            assert ended == -signal.SIGKILL, f"{place}, {moment}: ended with {ended}\n{log.read_text()[-3000:]}"
    ended = run_killed(command, folder, mini, None, NAMED, log)
    assert ended == 0, log.read_text()[-3000:]
    whole, again = numbers(tmp_path / "whole"), numbers(folder)
    assert [name for name in sorted({*whole, *again}) if again.get(name) != whole.get(name)] == []
