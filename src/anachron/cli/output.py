"""What commands share: words and progress to stderr, results to stdout."""

import json
import math
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from anachron.jobs import Callbacks, Progress

# What a terminal obeys instead of showing it: control characters but for the end of a line and the tabulator, and the
# signs that turn the direction of writing round, with which a label could change the order of the numbers beside it.
_OBEYED = [*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_SHOWN = {code: f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" for code in _OBEYED if chr(code) not in "\n\t"}
_IN_JSON = {code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)}


def visible(text: str) -> str:
    """A text of any origin with the characters that a terminal would obey written as escapes, such as ``\\x1b``."""
    return text.translate(_SHOWN)


class SafeConsole(Console):
    """A console that obeys its own colours and lines alone, never what labels, names or errors hold."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, emoji=False, **options)  # of "at 12:100:30" emoji would make another text

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)  # before the layout, which counts what will be shown

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


def stderr() -> Console:
    return SafeConsole(stderr=True, soft_wrap=True)


def stdout() -> Console:
    """Results for people. Without a terminal they are not squeezed into eighty columns."""
    return SafeConsole(width=None if sys.stdout.isatty() else 140)


def say(message: str) -> None:
    stderr().print(message, markup=False)


def warn(message: str) -> None:
    stderr().print(f"warning: {message}", markup=False)


def print_json(value: Any) -> None:
    """Print JSON; a number that is none or infinite, for which JSON has no word, is null."""
    ascii_only = not (sys.stdout.encoding or "").lower().startswith("utf")
    print(json.dumps(_finite(value), ensure_ascii=ascii_only, indent=2, allow_nan=False).translate(_IN_JSON))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def on_screen() -> "Callbacks":
    """What a job tells, as words and bars on stderr."""
    from anachron.jobs import Callbacks

    return Callbacks(warn, notice=say, open_bar=progress_bar)


def progress_bar(title: str, unit: str = "items") -> "AbstractContextManager[Progress]":
    """See `anachron.cli.progress.progress_bar`; on stderr."""
    from anachron.cli import progress

    return progress.progress_bar(title, stderr(), unit)
