"""Lines of the trial that begin with ``trial:`` are shown at the end, whatever else is captured."""

from collections.abc import Iterator

import pytest

SIGN = "trial:"


def said(report: pytest.TestReport) -> list[str]:
    """What a test printed of how many were tried and how many survived."""
    return [line for line in report.capstdout.splitlines() if line.startswith(SIGN)]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Also with pytest-xdist, which brings the reports of its workers here."""
    lines = list(_lines(terminalreporter))
    if lines:
        terminalreporter.section("trial")
    for line in lines:
        terminalreporter.write_line(line)


def _lines(reporter: pytest.TerminalReporter) -> Iterator[str]:
    for outcome in ("passed", "failed"):
        for report in reporter.stats.get(outcome, []):
            for line in said(report) if report.when == "call" else []:
                yield f"{line.removeprefix(SIGN).strip()} ({report.nodeid.rpartition('/')[2]}, {outcome})"
