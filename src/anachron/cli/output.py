"""What commands share: words to stderr, results to stdout, progress that vanishes without a terminal."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


def stderr() -> Console:
    return Console(stderr=True, highlight=False, soft_wrap=True)


def stdout() -> Console:
    """Results for people. Without a terminal they are not squeezed into eighty columns."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else 130)


def say(message: str) -> None:
    stderr().print(message, markup=False)


def warn(message: str) -> None:
    stderr().print(f"warning: {message}", markup=False)


def print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=2))


def quiet_loading() -> None:
    """Keep transformers' own bars out of logs: they are drawn even where stderr is no terminal."""
    if not sys.stderr.isatty():
        from transformers.utils import logging

        logging.disable_progress_bar()


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """A function to be told (done, total). It draws a bar on a terminal, and nothing anywhere else."""
    console = stderr()
    if not console.is_terminal:
        yield lambda done, total: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        task = bars.add_task(title, total=None)
        last = [0.0]

        def update(done: int, total: int) -> None:
            if done >= total or time.monotonic() - last[0] > 0.1:
                last[0] = time.monotonic()
                bars.update(task, completed=done, total=total)

        yield update
