"""What many tests need, built once for all workers; how Hypothesis draws its examples; what runs when.

Three tiers. On every change (``make test``): all tests without a mark, under the profile ``quick``, whose examples are
the same in every run, so that a failure is a change of the code. In the full run (``make test-all``): what is marked
``full`` or ``trial``, and all tests by Hypothesis once more under the profile ``full``, which draws other examples each
time and prints the line that repeats a failure. By ``make test-slow``: what is marked ``slow``.

Two marks move variants of a test to the full run. Of a test marked ``families("gpt2", ...)`` those of these families
are left for every change, and tests name different ones, so that all are met; of one marked ``few(n)``, n variants,
from the first to the last at even distances. ``share(n)`` leaves all but every nth variant to the slow tests.
"""

import gc
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import polars as pl
import pytest
from filelock import FileLock
from hypothesis import settings

from anachron.data import loaders
from anachron.data.dataset import Dataset
from anachron.data.loaders import load_dataset
from support.slow_parts import parsed, piece

settings.register_profile("quick", max_examples=15, derandomize=True, deadline=None, database=None)
settings.register_profile("full", max_examples=200, deadline=None, database=None, print_blob=True)
settings.load_profile("quick")  # another: pytest --hypothesis-profile full
gc.disable()  # until all tests are collected: nothing that is imported goes away
TRIAL = "trial:"


@pytest.fixture(scope="session", autouse=True)
def _mini_is_built_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The bundled statements, which take seconds to build, are built by one worker and read by the others."""
    folder = tmp_path_factory.getbasetemp()  # of a worker of xdist, in that of the run
    path = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "mini.parquet"
    bundled = loaders.BUNDLED["mini"]

    @cache
    def shared() -> pl.DataFrame:
        with FileLock(path.with_suffix(".lock")):
            if not path.exists():
                bundled(None).write_parquet(path)
        return pl.read_parquet(path)

    loaders.BUNDLED["mini"] = lambda limit: shared()
    yield
    loaders.BUNDLED["mini"] = bundled


@pytest.fixture(scope="session", autouse=True)
def _no_power_cut() -> Iterator[None]:
    """Files of this process wait for no disk: kills leave what was written without it, and no test cuts the power."""

    def checked(descriptor: int) -> None:
        os.fstat(descriptor)  # raises for one that is not open, as fsync does

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", checked)
        yield


@pytest.fixture(scope="session")
def mini() -> Dataset:
    """The bundled statements."""
    return load_dataset("mini")


@pytest.fixture(scope="session")
def brief(mini: Dataset) -> Dataset:
    """The five facts of ``mini`` with the fewest statements: whole successions of contexts that are soon scored."""
    shortest = mini.table["fact_id"].value_counts().sort("count", "fact_id")["fact_id"].head(5)
    return Dataset("brief", mini.table.filter(pl.col("fact_id").is_in(shortest.to_list())), mini.boundaries)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", metavar="K/N", help="run one of N pieces of the tests, which take about equal time")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Mark variants before marks choose what runs; of what they chose leave the piece that ``--part`` names.

    The trial goes first: its tests are the longest, and no worker shall wait for another one's at the end.
    """
    _mark_variants(items)
    yield
    items.sort(key=lambda item: item.get_closest_marker("trial") is None)
    if part := config.getoption("part"):
        try:
            number, of = parsed(part)
        except ValueError as error:
            raise pytest.UsageError(str(error)) from None
        file = {item: item.path.relative_to(Path(__file__).parent).as_posix() for item in items}
        chosen = piece(file.values(), number, of)
        config.hook.pytest_deselected(items=[item for item in items if file[item] not in chosen])
        items[:] = [item for item in items if file[item] in chosen]


def _mark_variants(items: Sequence[pytest.Item]) -> None:
    """Leave the families that a test names, or n variants of one marked few(n); the rest gets the mark ``full``, and of
    one marked share(n) all but every nth ``slow``."""
    few: dict[str, list[pytest.Item]] = defaultdict(list)  # test -> its variants
    seen: dict[str, int] = defaultdict(int)
    for item in items:
        if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
            continue
        test = item.nodeid.partition("[")[0]
        if share := item.get_closest_marker("share"):
            if seen[test] % share.args[0]:
                item.add_marker("slow")
            seen[test] += 1
        if any(item.get_closest_marker(mark) for mark in ("slow", "trial")):
            continue
        if named := item.get_closest_marker("families"):
            if item.callspec.params["family"] not in named.args:
                item.add_marker("full")
        elif item.get_closest_marker("few"):
            few[test].append(item)
    for variants in few.values():
        marker = variants[0].get_closest_marker("few")
        assert marker is not None
        stay = _spread(len(variants), marker.args[0])
        for place, item in enumerate(variants):
            if place not in stay:
                item.add_marker("full")


def pytest_collection_finish() -> None:
    """Let the collector of garbage pass over what stays: modules and tests are some millions of objects."""
    gc.collect()
    gc.freeze()
    gc.enable()


def _spread(size: int, count: int) -> set[int]:
    """Places of count of size variants, from the first to the last: their distance is seldom that of a parameter."""
    return {round(step * (size - 1) / max(count - 1, 1)) for step in range(count)}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show the lines of the trial, how many were tried and survived, which pytest captures where tests pass."""
    lines = [
        f"{line.removeprefix(TRIAL).strip()} ({report.nodeid.rpartition('/')[2]}, {outcome})"
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, [])
        for line in report.capstdout.splitlines()
        if report.when == "call" and line.startswith(TRIAL)
    ]
    if lines:
        terminalreporter.section("trial")
    for line in lines:
        terminalreporter.write_line(line)
