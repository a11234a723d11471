"""What many tests need, built once for each worker; how hypothesis draws its examples; what the trial says.

``quick``: the same examples in every run, so that a failure is a change of the code. ``full``, of the long run: other
examples each time; a failure prints the line that repeats it.
"""

import polars as pl
import pytest
from hypothesis import settings

from anachron.data.loaders import Dataset, load_dataset

settings.register_profile("quick", derandomize=True, deadline=None, database=None)
settings.register_profile("full", max_examples=400, deadline=None, database=None, print_blob=True)
settings.load_profile("quick")  # another: pytest --hypothesis-profile full
TRIAL = "trial:"


@pytest.fixture(scope="session")
def mini() -> Dataset:
    """The bundled statements, which take seconds to build."""
    return load_dataset("mini")


@pytest.fixture(scope="session")
def brief(mini: Dataset) -> Dataset:
    """The five facts of ``mini`` with the fewest statements: whole successions of contexts that are soon scored."""
    shortest = mini.table["fact_id"].value_counts().sort("count", "fact_id")["fact_id"].head(5)
    return Dataset("brief", mini.table.filter(pl.col("fact_id").is_in(shortest.to_list())), mini.boundaries)


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
