"""What commands share: words to stderr, results to stdout, progress that vanishes without a terminal."""

import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)


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
    """Print JSON; a number that is none or infinite, for which JSON has no word, is null."""
    print(json.dumps(_finite(value), ensure_ascii=False, indent=2, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def quiet_loading() -> None:
    """Keep transformers' own bars out of logs: they are drawn even where stderr is no terminal."""
    if not sys.stderr.isatty():
        from transformers.utils import logging

        logging.disable_progress_bar()


@contextmanager
def progress_bar(title: str, unit: str = "items") -> Iterator[Callable[..., None]]:
    """A function to be told (done, total) and perhaps words, which stand behind the title.

    It draws a bar with the time left on a terminal, and nothing anywhere else. ``unit`` is items or bytes.
    """
    console = stderr()
    if not console.is_terminal:
        yield lambda done, total, note="": None
        return
    amount: ProgressColumn = DownloadColumn() if unit == "bytes" else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), amount, TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        task = bars.add_task(title, total=None)
        last = [0.0]

        def update(done: int, total: int, note: str = "") -> None:
            if done >= total or time.monotonic() - last[0] > 0.1:
                last[0] = time.monotonic()
                bars.update(task, completed=done, total=total, description=f"{title}  {note}" if note else title)

        yield update
