"""Tables of judged edits: for the terminal, and as files to compute with and print.

`EDITS` is shaped as table 4 of paper 003, `DATED` says how past and present fare (`anachron.evaluate.dated_metrics`).
Every cell is a mean over updates and half the width of its 95 % interval, to the paper's one decimal (two of seconds,
as small models are edited in less than a tenth of one). The clean model comes first in each mode.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from rich.markup import escape
from rich.table import Table

from anachron.core.dates import GRANULARITIES
from anachron.errors import DataError
from anachron.io import write_bytes, write_table
from anachron.report.outputs import latex_table
from anachron.text.markdown import markdown_table


@dataclass(frozen=True)
class Layout:
    """What a table shows. columns: heading -> metric of a summary, factor, decimals. notes: units and intervals. wide:
    letters that a terminal needs for one line a row."""

    name: str
    title: str
    source: str
    columns: Mapping[str, tuple[str, int, int]]
    notes: tuple[str, ...]
    wide: int


EDITS = Layout(
    "edits",
    "Edited models",
    "paper 003, section 5, table 4",
    {
        "Efficacy-D ↑": ("efficacy_difference", 100, 1),
        "Efficacy-S ↑": ("efficacy_success", 100, 1),
        "Gen.-D ↑": ("generalization_difference", 100, 1),
        "Gen.-S ↑": ("generalization_success", 100, 1),
        "Bleedover random ↓": ("bleedover_random", 100, 1),
        "Bleedover nearest ↓": ("bleedover_nearest", 100, 1),
        "Fluency ↑": ("fluency", 1, 1),
        "Seconds ↓": ("seconds", 1, 2),
    },
    (
        "mean ± half of the 95 % interval over updates (normal; Efficacy-S: Wilson)",
        "× 100 but for fluency (bits) and seconds an update (the edit alone)",
    ),
    120,
)
DATED = Layout(
    "present_and_past",
    "Present updated, past kept",
    "anachron.evaluate.dated_metrics; W and R as in paper 002, section 3.1",
    {
        **{f"Updated {name} ↑": (f"present_updated_{name}", 100, 1) for name in GRANULARITIES},
        **{f"Kept {name} ↑": (f"past_kept_{name}", 100, 1) for name in GRANULARITIES},
        "W past ↑": ("win_rate_global", 100, 1),
        "R past ↑": ("robustness_global", 100, 1),
    },
    (
        "mean ± half of the 95 % interval over updates (normal; R: Wilson), × 100",
        "Updated: p(new) > p(old) on dates after the change; Kept: p(old) > p(new) on dates before it",
        "W, R: of the past fact, dates before the change against dates after it, over year, month and day",
    ),
    132,
)
WORDS = ("mode", "method")
IN_LATEX = {">": "$>$", "±": r"$\pm$", "×": r"$\times$", "↑": r"$\uparrow$", "↓": r"$\downarrow$"}


def edits_table(summary: pl.DataFrame, layout: Layout = EDITS, *, narrow: bool = False) -> Table:
    """Rows of `anachron.evaluate.metrics.summarise` for the terminal, a section a mode.

    Mode and number of updates have columns only where they differ between rows, otherwise the title says them; failed
    updates have one where there are any. narrow: two lines a cell, so that a terminal of 80 letters has room for it.
    Raises `DataError` for a table that lacks a column or has no rows.
    """
    cells = printed(summary, layout)
    if narrow:
        cells = cells.with_columns(pl.all().str.replace(" ±", "\n±", literal=True))
    table = Table(
        padding=(0, 0 if narrow else 1),
        title=escape(_titled(summary, layout)),
        caption="\n".join(map(escape, edit_notes(summary, layout))),
        caption_justify="left",
    )
    for name in cells.columns:
        heading = name.replace(" ", "\n", name.count(" ") == 2)  # so that eight columns fit a terminal of 120 letters
        if narrow and "\n" not in heading:
            heading = heading.replace("-" if "-" in heading else " ", "\n")
        table.add_column(heading, justify="left" if name in WORDS else "right", overflow="fold")
    last = None
    for mode, row in zip(summary["mode"], cells.rows(named=True), strict=True):
        if last not in (None, mode):
            table.add_section()
        shown = {name: "" if name == "mode" and mode == last else cell for name, cell in row.items()}
        table.add_row(*map(escape, shown.values()))
        last = mode
    return table


def printed(summary: pl.DataFrame, layout: Layout = EDITS) -> pl.DataFrame:
    """The cells as text, a row per mode and method, under the headings of the table."""
    _check(summary, layout)
    columns = {"updates" if c == "done" else c: list(map(_text, summary[c])) for c in _leading(summary)}
    for heading, (metric, factor, decimals) in layout.columns.items():
        ends = summary.select(metric, f"{metric}_low", f"{metric}_high")
        columns[heading] = [_cell(mean, low, high, factor, decimals) for mean, low, high in ends.iter_rows()]
    if summary["failed"].sum():
        columns["failed"] = list(map(_text, summary["failed"]))
    return pl.DataFrame(columns)


def _leading(summary: pl.DataFrame) -> list[str]:
    """Columns before the metrics: mode and number of updates only where they differ."""
    return [c for c in ("mode", "method", "done") if c == "method" or summary[c].n_unique() > 1]


def edit_notes(summary: pl.DataFrame, layout: Layout = EDITS) -> list[str]:
    """What a reader of the table must know: units, intervals, and means over fewer updates than were done."""
    _check(summary, layout)
    notes = list(layout.notes)
    absent = [name for name, (metric, *_) in layout.columns.items() if not summary[f"{metric}_n"].sum()]
    if absent and summary["done"].sum():
        notes.append(f"not measured: {', '.join(heading[:-2] for heading in absent)}")
    lacking: dict[tuple[int, tuple[str, ...]], list[str]] = {}
    for row in summary.iter_rows(named=True):
        gaps: dict[int, list[str]] = {}
        for heading, (metric, *_) in layout.columns.items():
            if heading not in absent:
                gaps.setdefault(row["done"] - row[f"{metric}_n"], []).append(heading[:-2])
        name = f"{row['method']} ({row['mode']})" if "mode" in _leading(summary) else row["method"]
        for gap, headings in gaps.items():
            if gap:
                lacking.setdefault((gap, tuple(headings)), []).append(name)
    for (gap, missing), names in lacking.items():
        whose = "every row" if len(names) == summary.height > 1 else ", ".join(names)
        updates = "1 update" if gap == 1 else f"{gap:,} updates"
        notes.append(f"without {', '.join(missing)}, and left out of the mean: {updates} of {whose}")
    return notes


def edits_markdown(summary: pl.DataFrame, layout: Layout = EDITS) -> str:
    """The table with its title, notes and source, as GitHub's Markdown."""
    cells = printed(summary, layout)
    notes = "".join(f"- {note}\n" for note in edit_notes(summary, layout))
    table = markdown_table(cells.columns, cells.rows())
    return f"## {_titled(summary, layout)}\n\n{table}\n{notes}\nSource: {layout.source}.\n"


def edits_latex(summary: pl.DataFrame, layout: Layout = EDITS) -> str:
    """The table as a float with a caption and a label, for LaTeX with the package booktabs."""
    cells = printed(summary, layout)
    right = [name not in WORDS for name in cells.columns]
    said = "; ".join([layout.title, *([_same(summary)] if _same(summary) else []), *edit_notes(summary, layout)])
    text = latex_table(layout.name, said, cells.columns, cells.rows(), right)
    for letter, command in IN_LATEX.items():  # after the escaping, which would show them letter by letter
        text = text.replace(letter, command)
    return text


def write_edits(summary: pl.DataFrame, out: Path, layout: Layout = EDITS) -> None:
    """Write all numbers (``edits.parquet``, ``edits.csv``) and the table (``markdown/edits.md``, ``latex/edits.tex``).

    The folder is laid out as `anachron.report.outputs.write_tables` does it for a study.
    """
    _check(summary, layout)
    write_table(out / f"{layout.name}.parquet", summary)
    write_table(out / f"{layout.name}.csv", summary)
    write_bytes(out / "markdown" / f"{layout.name}.md", edits_markdown(summary, layout).encode())
    write_bytes(out / "latex" / f"{layout.name}.tex", edits_latex(summary, layout).encode())


def _titled(summary: pl.DataFrame, layout: Layout) -> str:
    return f"{layout.title}, {_same(summary)}" if _same(summary) else layout.title


def _same(summary: pl.DataFrame) -> str:
    """What all rows have in common."""
    leading = _leading(summary)
    said = [] if "mode" in leading else [f"mode {summary['mode'][0]}"]
    done = summary["done"][0]
    return ", ".join(said if "done" in leading else [*said, "1 update" if done == 1 else f"{done:,} updates"])


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _cell(mean: float | None, low: float | None, high: float | None, factor: int, decimals: int) -> str:
    if mean is None:
        return "-"
    text = f"{factor * mean:z.{decimals}f}"  # z: no minus before a zero
    return text if low is None or high is None else f"{text} ± {factor * (high - low) / 2:.{decimals}f}"


def _check(summary: pl.DataFrame, layout: Layout) -> None:
    metrics = [f"{metric}{end}" for metric, *_ in layout.columns.values() for end in ("", "_low", "_high", "_n")]
    missing = [name for name in ("mode", "method", "done", "failed", *metrics) if name not in summary.columns]
    if missing:
        raise DataError(
            f"the table of {layout.name} lacks {', '.join(missing)}; make it with anachron.evaluate.metrics.summarise"
        )
    if not summary.height:
        raise DataError(
            f"the table of {layout.name} has 0 rows; it needs one mode and method at least, so judge an edit first"
        )
