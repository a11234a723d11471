"""How a pipeline tells the outside what it does."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

Progress = Callable[..., None]  # told (done, total), and perhaps words


@contextmanager
def no_bar(title: str, unit: str = "items") -> Iterator[Progress]:
    yield lambda done, total, note="": None


@contextmanager
def bars(bar: Callable[..., AbstractContextManager[Progress]], unit: str) -> Iterator[Callable[[str, int, int], None]]:
    """A bar for each thing that is worked on, one after another: to be told (what, done, total)."""
    opened: dict[str, Progress] = {}
    with ExitStack() as stack:

        def progress(what: str, done: int, total: int) -> None:
            if what not in opened:
                stack.close()  # the bar before is complete
                opened[what] = stack.enter_context(bar(what, unit=unit))
            opened[what](done, total)

        yield progress


@dataclass(frozen=True)
class Listener:
    """Who is told. The default hears nothing.

    notice, warn: words for people. bar: opens a progress bar of a title and a unit (``items`` or ``bytes``) and gives
    what is to be told of (done, total). finished: told a step's name and its result.
    """

    notice: Callable[[str], None] = lambda message: None
    warn: Callable[[str], None] = lambda message: None
    bar: Callable[..., AbstractContextManager[Progress]] = no_bar
    finished: Callable[[str, Any], None] = lambda step, result: None
