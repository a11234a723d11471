"""Replicas of a model on a real Ray cluster of this machine: the bytes of one process, also where one is killed."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
import torch

from anachron.cli.main import run_command
from anachron.core.errors import BackendError, ConfigError, DataError
from anachron.data.columns import to_published
from anachron.data.dataset import Dataset
from anachron.io.jobs import Callbacks
from anachron.io.tables import write_table
from anachron.probe.run import ProbeSettings, run_probe

pytest.importorskip("ray")

from anachron.io.crew import Crew
from anachron.lm.replicas import Replicas

pytestmark = pytest.mark.slow
SETTINGS = ProbeSettings(batch_tokens=256)


class Counter:
    """Something that lives on a worker."""

    def __init__(self, start: int) -> None:
        self.value = start

    def add(self, number: int) -> int:
        self.value += number
        return number * 10

    def fail(self, number: int) -> int:
        raise DataError(f"no {number}")

    def die(self, number: int) -> int:
        os._exit(3)


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As many as Ray gives a worker, so that sums are in the same order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def data(mini: Dataset) -> Dataset:
    return mini.sample(12)


def bytes_of(folder: Path) -> dict[str, bytes]:
    files = [*folder.glob("scores/*.parquet"), folder / "scores.parquet", folder / "plan.parquet"]
    return {str(f.relative_to(folder)): f.read_bytes() for f in files}


def replica_processes() -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if entry.read_bytes().startswith(b"ray::_Replica"):
                found.append(int(entry.parent.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def test_two_replicas_of_which_one_is_killed_give_the_same_bytes(data: Dataset, tmp_path: Path):
    run_probe("demo-untrained", data, tmp_path / "alone", SETTINGS)
    killed: list[int] = []

    def kill_one(done: int, total: int, note: str = "") -> None:
        running = replica_processes()
        if done and not killed and len(running) == 2:
            os.kill(running[-1], signal.SIGKILL)
            killed.append(running[-1])

    with Replicas("demo-untrained", {"device": "cpu"}, ray="local", workers=2) as replicas:
        result = run_probe(replicas, data, tmp_path / "spread", SETTINGS, callbacks=Callbacks(progress=kill_one))
        assert killed and killed[0] not in replica_processes()
    assert bytes_of(tmp_path / "spread") == bytes_of(tmp_path / "alone")
    assert result.record["sessions"][0]["hardware"]["replicas"] == 2
    assert result.record["sessions"][0]["tokens_computed"] == result.record["tokens_planned"]


def test_the_command_spreads_a_run(data: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_table(tmp_path / "data.parquet", to_published(data.sample(2).table, data.boundaries))
    how = ["--dataset", str(tmp_path / "data.parquet"), "--device", "cpu"]
    assert run_command(["probe", "demo-untrained", *how, "--out", str(tmp_path / "one")], debug=True) == 0
    assert (
        run_command(["probe", "demo-untrained", *how, "--out", str(tmp_path / "two"), "--workers", "2"], debug=True)
        == 0
    )
    one, two = (pl.read_parquet(tmp_path / name / "scores.parquet") for name in ("one", "two"))
    assert one.equals(two)
    capsys.readouterr()
    for more, what in (
        (["--workers", "2", "--edit", "x.safetensors"], "not for replicas"),
        (["--gpus-per-replica", "1"], "--workers or --ray"),
    ):
        assert run_command(["probe", "demo-untrained", *how, "--out", str(tmp_path / "three"), *more], debug=False) == 2
        assert what in capsys.readouterr().err


def test_work_is_shared_and_errors_come_through():
    with Crew("local", Counter, {"start": 1}, size=2) as crew:
        tasks = {f"task {n}": (n,) for n in range(20)}
        assert dict(crew.share("add", tasks)) == {f"task {n}": n * 10 for n in range(20)}
        with pytest.raises(DataError, match="no 7"):
            crew.call("fail", 7)
        with pytest.raises(BackendError, match="3 workers were lost over one task"):
            crew.call("die", 1)
        assert crew.call("add", 2) == 20


def test_more_workers_than_there_is_room_for():
    with Crew("local", Counter, {"start": 1}, size=1) as crew:
        with pytest.raises(ConfigError, match="room for 1"):
            Crew("local", Counter, {"start": 1}, size=2)
        assert crew.size == 1


def test_no_worker_at_all_is_refused():
    with pytest.raises(ConfigError, match="at least 1"):
        Crew("local", Counter, {"start": 1}, size=0)
