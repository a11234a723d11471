"""What is said of a job's progress, under a clock of the test's own."""

from io import StringIO

import pytest
from rich.console import Console

from anachron.cli.progress import Pace, in_words, progress_bar


def lines_of(told, *, terminal=False, unit="items"):
    """What is printed by a job that tells (seconds, done, total) or (seconds, done, total, words)."""
    now = [0.0]
    out = StringIO()
    console = Console(file=out, force_terminal=terminal, width=200, soft_wrap=True, highlight=False)
    with progress_bar("gpt2", console, unit, clock=lambda: now[0]) as update:
        for seconds, *counts in told:
            now[0] = seconds
            update(*counts)
    return out.getvalue().splitlines()


def test_a_log_has_a_line_a_minute() -> None:
    told = [(second, second, 200) for second in range(201)]
    assert lines_of(told) == [
        "gpt2: 60 of 200 (30 %), about 2 minutes left",
        "gpt2: 120 of 200 (60 %), about 80 seconds left",
        "gpt2: 180 of 200 (90 %), about 20 seconds left",
    ]


def test_a_short_job_says_nothing() -> None:
    assert lines_of([(second, second, 59) for second in range(60)]) == []


def test_what_will_take_long_is_said_once_some_seconds_after_the_first_step() -> None:
    (first, *rest) = lines_of([(second, second, 4000) for second in range(120)])
    assert first == "gpt2: this will take about 67 minutes (6 of 4,000 so far)"
    assert rest == ["gpt2: 66 of 4,000 (2 %), about 66 minutes left"]


def test_a_first_step_with_work_that_is_done_once_tells_nothing_of_the_others() -> None:
    """A long job is one whose further steps are long: here the first takes 105 seconds and 44 others 8 or 20 each."""
    for each, minutes in ((8, None), (20, 14)):
        lines = lines_of([(0, 0, 45)] + [(105 + each * step, step + 1, 45) for step in range(45)])
        assert lines[0] == "gpt2: 1 of 45 (2 %)"
        assert [line for line in lines if "this will take" in line] == (
            [] if minutes is None else [f"gpt2: this will take about {minutes} minutes (2 of 45 so far)"]
        )
        assert all("left" in line or "this will take" in line for line in lines[1:])


def test_a_terminal_is_warned_too() -> None:
    assert any(
        "this will take about 67 minutes" in line for line in lines_of([(s, s, 4000) for s in range(9)], terminal=True)
    )


def test_a_resumed_run_is_judged_by_what_it_does_itself() -> None:
    pace = Pace()
    assert pace.left(900, 1000, 0.0) is None
    assert pace.left(900, 1000, 100.0) is None  # nothing yet
    assert pace.left(905, 1000, 100.0) is None  # the first step
    assert pace.left(910, 1000, 150.0) == pytest.approx(900.0)


def test_a_count_that_begins_anew_is_a_job_of_its_own() -> None:
    pace = Pace()
    assert [pace.left(done, 10, 10.0 * done) for done in (0, 1, 10)] == [None, None, 0]
    assert pace.left(0, 10, 101.0) is None
    assert pace.left(1, 10, 141.0) is None
    assert pace.left(2, 10, 151.0) == pytest.approx(80.0)


def test_bytes_are_said_in_megabytes() -> None:
    (line,) = lines_of([(0, 0, 10_000_000), (1, 1_000_000, 10_000_000), (61, 5_000_000, 10_000_000)], unit="bytes")
    assert line == "gpt2: 5 of 10 MB (50 %), about 75 seconds left"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(1, "1 seconds"), (89, "89 seconds"), (90, "2 minutes"), (7200, "2.0 hours"), (260000, "3.0 days")],
)
def test_spans_of_time(seconds: float, words: str) -> None:
    assert in_words(seconds) == words
