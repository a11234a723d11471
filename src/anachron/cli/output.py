"""What commands share: words and progress to stderr, results to stdout.

Also what they say of a file of facts: what was noticed, and which facts cannot be asked, and why.
"""

import json
import math
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from anachron.analysis.plots.words import counted

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import polars as pl

    from anachron.data.dataset import Dataset
    from anachron.io.jobs import Callbacks, Progress

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
    from anachron.io.jobs import Callbacks

    return Callbacks(warn, notice=say, open_bar=progress_bar)


def progress_bar(title: str, unit: str = "items") -> "AbstractContextManager[Progress]":
    """See `anachron.cli.progress.progress_bar`; on stderr."""
    from anachron.cli import progress

    return progress.progress_bar(title, stderr(), unit)


SHOWN = 10


def tell_facts(data: "Dataset") -> None:
    """Say what was noticed in a file of facts; nothing of another data set."""
    tell_notes(data.notes)
    if data.left_out is not None and data.as_of is not None:
        tell_left_out(data.left_out, data.facts, data.as_of)
        if data.limit is not None:
            say("  with --limit, facts that cannot be asked are neither looked for nor listed")


def tell_notes(notes: tuple[str, ...]) -> None:
    """Say what was noticed; of each kind a file's reader tells the first few and how many there are."""
    for note in notes:
        say(f"note: {note}")


def tell_left_out(left_out: "pl.DataFrame", asked: int, as_of: str) -> None:
    """Say how many facts are asked, and list those that are not."""
    say(
        f"{counted(asked, 'fact')} {'is' if asked == 1 else 'are'} asked about, as of {as_of}"
        + (f"; {left_out.height:,} cannot be:" if left_out.height else "")
    )
    kinds = Counter(reason.partition(":")[0] for reason in left_out["reason"])
    for row in left_out.head(SHOWN).iter_rows(named=True):
        fact = ", ".join((row["subject"], row["relation"], row["object"]))
        say(f"  row {row['rows']}, {fact} [{row['periods']}]: {row['reason']}")
    if left_out.height > SHOWN:
        say(f"  and more; in total {', '.join(f'{count:,} {kind}' for kind, count in kinds.most_common())}")


def run_folders(out: Path, models: list[str]) -> list[Path]:
    """The run folder of each model: the one given, or for several one below it for each."""
    from anachron.core.errors import ConfigError

    if len(models) == 1:
        return [out]
    if (out / "run.json").exists():
        raise ConfigError(f"{out} is itself a run folder; choose another --out for several models")
    names = [re.sub(r"[^\w.-]+", "_", name.strip("/")) for name in models]
    if any(name.strip(".") == "" for name in names):
        raise ConfigError(f"the models {', '.join(models)} cannot all name a folder; give paths instead of . or ..")
    if len(set(names)) != len(names):
        raise ConfigError(f"the models {', '.join(models)} are not all different")
    return [out / name for name in names]


RESULTS = "standard output"
