"""How far a job is: a bar on a terminal, a line a minute in a log, and a warning of what will take long."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

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

from anachron.lm.temporary import Temporary

FIRST = 5.0  # seconds from the first step to the first estimate
LONG = 600.0  # seconds from which on a job is warned of
BETWEEN = 60.0  # seconds between two lines in a log


@dataclass
class Pace:
    """How long a job still takes, from how fast it went since its first step was done: that step often holds work that
    is done once. What a resumed run found done, and what was done before the count began anew, is no part of that."""

    found: int | None = None
    started: float | None = None  # when the first step was done
    first: int = 0  # what was done then
    last: int = 0

    def left(self, done: int, total: int, now: float) -> float | None:
        """Seconds left; None until a second step is done and `FIRST` seconds have passed since the first."""
        if self.found is None or done < self.last:
            self.found, self.started = done, None
        self.last = done
        if self.started is None:
            if done > self.found:
                self.started, self.first = now, done
            return None
        elapsed = now - self.started
        if elapsed < FIRST or done <= self.first:
            return None
        return elapsed / (done - self.first) * (total - done)


def in_words(seconds: float) -> str:
    """A span of time as people say it: ``40 seconds``, ``12 minutes``, ``3.5 hours``."""
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.1f} hours" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} days"


@contextmanager
def progress_bar(
    title: str, console: Console, unit: str = "items", clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[..., None]]:
    """A function to be told (done, total) and perhaps words, which stand behind the title.

    On a terminal it draws a bar with the time left, which vanishes. Elsewhere it prints a line a minute. On both, one
    line warns of a job that will take more than ten minutes, once two steps or more tell. unit: items or bytes.
    """
    pace, warned, printed = Pace(), False, [clock()]

    def spoken(done: int, total: int, note: str) -> None:
        nonlocal warned
        now = clock()
        left = pace.left(done, total, now)
        amount = f"{done:,} of {total:,}" if unit == "items" else f"{done / 1e6:,.0f} of {total / 1e6:,.0f} MB"
        name = f"{title} {note}".strip()
        if left is not None and left > LONG and not warned:
            warned = True
            console.print(f"{name}: this will take about {in_words(left)} ({amount} so far)", markup=False)
            printed[0] = now
        elif not console.is_terminal and now - printed[0] >= BETWEEN:
            printed[0] = now
            behind = "" if left is None else f", about {in_words(left)} left"
            console.print(f"{name}: {amount} ({100 * done / max(total, 1):.0f} %){behind}", markup=False)

    if not console.is_terminal:
        yield lambda done, total, note="": spoken(done, total, note)
        return
    counted: ProgressColumn = DownloadColumn() if unit == "bytes" else MofNCompleteColumn()
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), counted, TimeRemainingColumn())
    bars = Progress(*columns, console=console, transient=True)

    def drawn() -> Callable[[], None]:
        bars.start()
        return bars.stop

    with Temporary(drawn):  # Ctrl-C in the middle of either would leave a terminal without its cursor
        task = bars.add_task(title, total=None)
        last = [0.0]

        def update(done: int, total: int, note: str = "") -> None:
            if done >= total or clock() - last[0] > 0.1:
                last[0] = clock()
                bars.update(task, completed=done, total=total, description=f"{title}  {note}" if note else title)
            spoken(done, total, note)

        yield update
