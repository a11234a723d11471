"""Every write killed, by SIGKILL and at four moments: what goes on from there ends as if it had never been killed."""

import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch

from anachron.data.columns import to_published
from anachron.data.dataset import Dataset
from anachron.data.loaders import load_dataset
from anachron.data.updates.cases import CaseSet, load_cases
from anachron.edit.covariance.collect import collect_covariance
from anachron.edit.plan import plan_edits
from anachron.evaluate import joint_edits
from anachron.evaluate.measure import Measures
from anachron.evaluate.run import EvaluateSettings, run_evaluation
from anachron.io import files as io
from anachron.io.tables import write_table
from anachron.lm.loading import load_model
from anachron.lm.model import LanguageModel
from anachron.probe.run import run_probe
from support.resumable_runs import JOBS, result, tiny_lm
from support.small_runs import in_small_parts

pytestmark = pytest.mark.trial
Work = Callable[[LanguageModel, Path, str], None]
MOMENTS = ("before", "half-way", "synced", "renamed")


def probe(lm: LanguageModel, folder: Path, data: str) -> None:
    run_probe(lm, load_dataset(data), folder)


def evaluate(lm: LanguageModel, folder: Path, data: str) -> None:
    settings = EvaluateSettings("sequential", measures=Measures(fluency_tokens=0))
    methods = plan_edits(lm, ["FT"], changes={"FT": {"steps": 1}})
    run_evaluation(lm, two_updates(), methods, folder, settings)


@cache
def two_updates() -> CaseSet:
    return load_cases("mini-updates", limit=2)


def covariance(lm: LanguageModel, folder: Path, data: str) -> None:
    text = folder.parent / "text.txt"
    text.write_text("Paris is the capital of France. " * 40)
    collect_covariance(
        lm, ["model.layers.1.mlp.down_proj"], text, tokens=200, window=32, batch_tokens=64, cache=folder,
        checkpoint_seconds=0,
    )  # fmt: skip


def other(name: str) -> Work:
    return lambda lm, folder, data: JOBS[name].run(folder, folder.parent)


WORK: dict[str, Work] = {
    "probe": probe, "evaluate": evaluate, "covariance": covariance,
    **{name: other(name) for name in ("train-mend", "ingest", "build updates")},
}  # fmt: skip


def kill_at(number: int, moment: str) -> None:
    """Let this process be killed at a moment of the write of this number, from 1."""
    os_fsync, replace, token_hex = os.fsync, Path.replace, io.secrets.token_hex
    count = dict.fromkeys(("before", "half-way", "synced", "renamed"), 0)

    def now(at: str) -> bool:
        count[at] += 1
        return at == moment and count[at] == number

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def begun(size: int) -> str:
        if now("before"):
            die()
        return token_hex(size)

    def synced(descriptor: int) -> None:
        if now("half-way"):
            os.ftruncate(descriptor, os.fstat(descriptor).st_size // 2)
            die()
        os_fsync(descriptor)
        if now("synced"):
            die()

    def renamed(self: Path, target: Any) -> Path:
        found = replace(self, target)
        if now("renamed"):
            die()
        return found

    io.secrets.token_hex, os.fsync, Path.replace = begun, synced, renamed


def parts_to_break_between(patch: pytest.MonkeyPatch) -> None:
    """Both the process that is killed and the one that goes on: other batches are rounded otherwise."""
    in_small_parts(patch, 100)
    patch.setattr(joint_edits, "SAVE_EVERY", 1)


def serve(orders: Connection) -> None:
    """Do what is ordered in a copy of this process, which has the model loaded; answer how the copy ended."""
    torch.set_num_threads(1)  # a copy has none of the threads
    parts_to_break_between(pytest.MonkeyPatch())
    lm = load_model("demo")
    tiny_lm("gpt2")
    two_updates()
    while order := orders.recv():
        kind, folder, data, number, moment = order
        copy = os.fork()
        if not copy:
            try:
                kill_at(number, moment)
                WORK[kind](lm, Path(folder), data)
            except BaseException:  # noqa: BLE001  # nothing may reach the code of the process that was copied
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        orders.send(os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1]))


@pytest.fixture(scope="module")
def server() -> Iterator[Connection]:
    context = multiprocessing.get_context("spawn")
    mine, its = context.Pipe()
    process = context.Process(target=serve, args=(its,))
    process.start()
    yield mine
    mine.send(None)
    process.join()


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return load_model("demo")


# some hundred kills of up to a second each, and as many calls that go on
SLOW = dict.fromkeys(("build updates", "evaluate", "ingest", "probe"), pytest.mark.slow)


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=SLOW.get(kind, ())) for kind in WORK])
def test_every_write_killed(server: Connection, lm: LanguageModel, brief: Dataset, tmp_path: Path, kind: str):
    data = tmp_path / "data.parquet"
    facts = brief.table["fact_id"].unique(maintain_order=True).head(2).to_list()
    write_table(data, to_published(brief.table.filter(pl.col("fact_id").is_in(facts)), brief.boundaries))
    with pytest.MonkeyPatch.context() as patch:
        parts_to_break_between(patch)
        if kind in JOBS:
            JOBS[kind].prepare(tmp_path)
        (tmp_path / "whole").mkdir()
        WORK[kind](lm, tmp_path / "whole", str(data))
        wanted, kills, lost, number = result(tmp_path / "whole"), 0, [], 0
        while number >= 0:
            number += 1
            for moment in MOMENTS:
                folder = tmp_path / f"{number}-{moment}"
                folder.mkdir()
                server.send((kind, str(folder), str(data), number, moment))
                ended = server.recv()
                if ended == 0:  # there are not so many writes
                    number = -1
                    break
                assert ended == -signal.SIGKILL
                kills += 1
                WORK[kind](lm, folder, str(data))
                if result(folder) != wanted or list(folder.rglob("*.tmp")):
                    lost.append((number, moment))
    print(f"trial: {kills} kills of {kind}, {kills - len(lost)} ended as if there had been none")
    assert kills > 8 and not lost
