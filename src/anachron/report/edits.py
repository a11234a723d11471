"""The table of judged edits, shaped as table 4 of paper 003: for the terminal, and as files to compute with and print.

Every cell is a mean over updates and half the width of its 95 % interval, to the paper's one decimal (two of seconds,
as small models are edited in less than a tenth of one). The clean model comes first in each mode and scenario.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl
from rich.markup import escape
from rich.table import Table

from anachron.errors import DataError
from anachron.io import write_bytes, write_table
from anachron.report.outputs import latex_table
from anachron.text.markdown import markdown_table

NAME = "edits"
TITLE = "Edited models"
SOURCE = "paper 003, section 5, table 4"
COLUMNS = {  # heading: metric of `anachron.evaluate.metrics.summarise`, factor, decimals
    "Efficacy-D ↑": ("efficacy_difference", 100, 1),
    "Efficacy-S ↑": ("efficacy_success", 100, 1),
    "Gen.-D ↑": ("generalization_difference", 100, 1),
    "Gen.-S ↑": ("generalization_success", 100, 1),
    "Bleedover random ↓": ("bleedover_random", 100, 1),
    "Bleedover nearest ↓": ("bleedover_nearest", 100, 1),
    "Fluency ↑": ("fluency", 1, 1),
    "Seconds ↓": ("seconds", 1, 2),
}
MORE_COLUMNS = {  # the same, of what a run has only where its updates or its options ask for it
    "Change ↑": ("efficacy_change", 100, 1),
    "Gen. change ↑": ("generalization_change", 100, 1),
    "New win ↑": ("new_win", 100, 1),
    "Static win ↑": ("static_win", 100, 1),
    "Static lost ↓": ("static_loss", 100, 1),
    "Others' rise ↓": ("others_rise", 100, 1),
    "Says new ↑": ("says_new", 100, 1),
    "Says old ↓": ("says_old", 100, 1),
    "Gen. says new ↑": ("generalization_says_new", 100, 1),
    "Gen. says old ↓": ("generalization_says_old", 100, 1),
}
Columns = Mapping[str, tuple[str, int, int]]
SECTION = ("mode", "scenario")
WORDS = (*SECTION, "method")
REPLACEMENT = "ReplaceObject"
WIDE = 120  # letters that a terminal needs for one line a row
IN_LATEX = {"±": r"$\pm$", "×": r"$\times$", "↑": r"$\uparrow$", "↓": r"$\downarrow$"}


def edits_tables(summary: pl.DataFrame, width: int) -> list[Table]:
    """Rows of `anachron.evaluate.metrics.summarise` for a terminal of so many letters: one would be too wide.

    One table for each scenario, and behind it one of what `MORE_COLUMNS` say, where it was measured. Notes on all are
    under the last scenario's first table.
    """
    tables, narrow = [], width < WIDE
    parts = summary.partition_by("scenario", maintain_order=True)
    for part in parts:
        tables.append(edits_table(part, narrow=narrow, notes=edit_notes(summary) if part is parts[-1] else ()))
        if more := _measured(part, MORE_COLUMNS):
            tables.append(edits_table(part, narrow=narrow, columns=more, notes=()))
    return tables


def edits_table(
    summary: pl.DataFrame, *, narrow: bool = False, columns: Columns = COLUMNS, notes: Sequence[str] | None = None
) -> Table:
    """Rows of `anachron.evaluate.metrics.summarise` for the terminal, a section a mode and scenario.

    Mode, scenario and number of updates have columns only where they differ between rows, otherwise the title says
    them; failed updates have one where there are any. narrow: two lines a cell, so that a terminal of 80 letters has
    room for it. columns: which to show. notes: under the table; by default those of these rows.
    Raises `DataError` for a table that lacks a column or has no rows.
    """
    cells = printed(summary, columns)
    if narrow:
        cells = cells.with_columns(pl.all().str.replace(" ±", "\n±", literal=True))
    table = Table(
        padding=(0, 0 if narrow else 1),
        title=escape(f"{TITLE}, {_same(summary)}" if _same(summary) else TITLE),
        caption="\n".join(map(escape, edit_notes(summary) if notes is None else notes)) or None,
        caption_justify="left",
    )
    for name in cells.columns:
        heading = name.replace("Bleedover ", "Bleedover\n")  # so that eight columns fit a terminal of 120 letters
        if narrow and "\n" not in heading:
            heading = heading.replace("-" if "-" in heading else " ", "\n")
        table.add_column(heading, justify="left" if name in WORDS else "right", overflow="fold")
    last = None
    for section, row in zip(summary.select(SECTION).rows(), cells.rows(named=True), strict=True):
        if last not in (None, section):
            table.add_section()
        shown = {name: "" if name in SECTION and section == last else cell for name, cell in row.items()}
        table.add_row(*map(escape, shown.values()))
        last = section
    return table


def printed(summary: pl.DataFrame, columns: Columns | None = None) -> pl.DataFrame:
    """The cells as text, a row per mode, scenario and method, under the headings of the table.

    columns: some of `COLUMNS` and `MORE_COLUMNS`; by default the former, and of the latter what was measured.
    """
    _check(summary)
    wanted = {**COLUMNS, **_measured(summary, MORE_COLUMNS)} if columns is None else columns
    cells = {"updates" if c == "done" else c: list(map(_text, summary[c])) for c in _leading(summary)}
    for heading, (metric, factor, decimals) in wanted.items():
        ends = summary.select(metric, f"{metric}_low", f"{metric}_high")
        cells[heading] = [_cell(mean, low, high, factor, decimals) for mean, low, high in ends.iter_rows()]
    if summary["failed"].sum():
        cells["failed"] = list(map(_text, summary["failed"]))
    return pl.DataFrame(cells)


def _measured(summary: pl.DataFrame, columns: Columns) -> dict[str, tuple[str, int, int]]:
    """Those of the columns that the summary has and that are the mean of anything."""
    return {
        heading: column
        for heading, column in columns.items()
        if f"{column[0]}_n" in summary.columns and summary[f"{column[0]}_n"].sum()
    }


def _leading(summary: pl.DataFrame) -> list[str]:
    """Columns before the metrics: mode, scenario and number of updates only where they differ."""
    return [c for c in ("mode", "scenario", "method", "done") if c == "method" or summary[c].n_unique() > 1]


def edit_notes(summary: pl.DataFrame) -> list[str]:
    """What a reader of the table must know: units, intervals, and means over fewer updates than were done."""
    _check(summary)
    more = _measured(summary, MORE_COLUMNS)
    says = any(name.startswith("Says") for name in more)
    shares = ["Efficacy-S", *["New win, Static win"] * ("New win ↑" in more), *["Says"] * says]
    notes = [
        f"mean ± half of the 95 % interval over updates (normal; {', '.join(shares)}: Wilson)",
        "× 100 but for fluency (bits) and seconds an update (the edit alone)",
    ]
    if groups := [name for name in summary["scenario"].unique(maintain_order=True) if name != REPLACEMENT]:
        notes.append(f"{', '.join(groups)}: objects that hold against those that do not; Change: since the clean model")
    if says:
        notes.append("Says: the model's own text begins with the object, by any of its names")
    absent = [name for name, (metric, *_) in COLUMNS.items() if not summary[f"{metric}_n"].sum()]
    if absent and summary["done"].sum():
        notes.append(f"not measured: {', '.join(heading[:-2] for heading in absent)}")
    lacking: dict[tuple[int, tuple[str, ...]], list[str]] = {}
    for row in summary.iter_rows(named=True):
        gaps: dict[int, list[str]] = {}
        own = summary.filter(pl.col("scenario") == row["scenario"])
        for heading, (metric, *_) in {**COLUMNS, **more}.items():
            if heading not in absent and own[f"{metric}_n"].sum():  # nothing of the scenario has it: "-" says so
                gaps.setdefault(row["done"] - row[f"{metric}_n"], []).append(heading[:-2])
        apart = [row[name] for name in SECTION if name in _leading(summary)]
        name = f"{row['method']} ({', '.join(apart)})" if apart else row["method"]
        for gap, headings in gaps.items():
            if gap:
                lacking.setdefault((gap, tuple(headings)), []).append(name)
    for (gap, missing), names in lacking.items():
        whose = "every row" if len(names) == summary.height > 1 else ", ".join(names)
        updates = "1 update" if gap == 1 else f"{gap:,} updates"
        notes.append(f"without {', '.join(missing)}, and left out of the mean: {updates} of {whose}")
    return notes


def edits_markdown(summary: pl.DataFrame) -> str:
    """The table with its title, notes and source, as GitHub's Markdown."""
    cells = printed(summary)
    said = f"{TITLE}, {_same(summary)}" if _same(summary) else TITLE
    notes = "".join(f"- {note}\n" for note in edit_notes(summary))
    return f"## {said}\n\n{markdown_table(cells.columns, cells.rows())}\n{notes}\nSource: {SOURCE}.\n"


def edits_latex(summary: pl.DataFrame) -> str:
    """The table as a float with a caption and a label, for LaTeX with the package booktabs."""
    cells = printed(summary)
    right = [name not in WORDS for name in cells.columns]
    said = "; ".join([TITLE, *([_same(summary)] if _same(summary) else []), *edit_notes(summary)])
    text = latex_table(NAME, said, cells.columns, cells.rows(), right)
    for letter, command in IN_LATEX.items():  # after the escaping, which would show them letter by letter
        text = text.replace(letter, command)
    return text


def write_edits(summary: pl.DataFrame, out: Path) -> None:
    """Write all numbers (``edits.parquet``, ``edits.csv``) and the table (``markdown/edits.md``, ``latex/edits.tex``).

    The folder is laid out as `anachron.report.outputs.write_tables` does it for a study.
    """
    _check(summary)
    write_table(out / f"{NAME}.parquet", summary)
    write_table(out / f"{NAME}.csv", summary)
    write_bytes(out / "markdown" / f"{NAME}.md", edits_markdown(summary).encode())
    write_bytes(out / "latex" / f"{NAME}.tex", edits_latex(summary).encode())


def _same(summary: pl.DataFrame) -> str:
    """What all rows have in common."""
    leading = _leading(summary)
    said = [] if "mode" in leading else [f"mode {summary['mode'][0]}"]
    if "scenario" not in leading and summary["scenario"][0] != REPLACEMENT:
        said.append(f"scenario {summary['scenario'][0]}")
    done = summary["done"][0]
    return ", ".join(said if "done" in leading else [*said, "1 update" if done == 1 else f"{done:,} updates"])


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _cell(mean: float | None, low: float | None, high: float | None, factor: int, decimals: int) -> str:
    if mean is None:
        return "-"
    text = f"{factor * mean:z.{decimals}f}"  # z: no minus before a zero
    return text if low is None or high is None else f"{text} ± {factor * (high - low) / 2:.{decimals}f}"


def _check(summary: pl.DataFrame) -> None:
    metrics = [f"{metric}{end}" for metric, *_ in COLUMNS.values() for end in ("", "_low", "_high", "_n")]
    missing = [
        name for name in ("mode", "scenario", "method", "done", "failed", *metrics) if name not in summary.columns
    ]
    if missing:
        raise DataError(
            f"the table of edits lacks {', '.join(missing)}; make it with anachron.evaluate.metrics.summarise"
        )
    if not summary.height:
        raise DataError("the table of edits has 0 rows; it needs one mode and method at least, so judge an edit first")
