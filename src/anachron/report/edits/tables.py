"""Tables of evaluated edits: for the terminal, and as files to compute with and print.

`EDITS` is shaped as table 4 of WikiFactDiff; other tables are of the same kind with a `Layout` of their own
(`anachron.report.edits.dated`, `anachron.report.edits.dated`, `anachron.report.edits.lifelong`).
Every cell is a mean over updates and half the width of its 95 % interval, to the paper's one decimal (two of seconds,
as small models are edited in less than a tenth of one). Of shares, from 0 to 1, the interval is not symmetric, so its
bounds are printed: ``97.1 [93.0, 98.9]``. The clean model comes first in each mode and scenario.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import polars as pl

from anachron.analysis.plots.words import counted
from anachron.core.errors import DataError
from anachron.core.facts import REPLACEMENT
from anachron.evaluate.metrics import BOUNDED
from anachron.evaluate.results import METHOD, UNEDITED, method_label
from anachron.io.schemas import refuse_missing
from anachron.report.outputs import write_data, write_printed
from anachron.report.table import Column, Table, with_bounds

Columns = Mapping[str, tuple[str, int, int]]  # heading -> metric of a summary, factor, decimals


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What a table shows. notes: units and intervals, of a summary. more: columns of what a run has only where its
    updates or its options ask for it. shares: metrics from 0 to 1, with the bounds of Wilson's interval. of_model:
    metrics that are no mean over updates."""

    name: str
    title: str
    source: str
    columns: Columns
    notes: Callable[[pl.DataFrame], list[str]]
    more: Columns = field(default_factory=dict)
    shares: tuple[str, ...] = BOUNDED
    of_model: tuple[str, ...] = ()

    def measured(self, summary: pl.DataFrame) -> Columns:
        """Those of ``more`` that the summary has and that are the mean of anything."""
        return {
            heading: column
            for heading, column in self.more.items()
            if f"{column[0]}_n" in summary.columns and summary[f"{column[0]}_n"].sum()
        }

    def shown(self, summary: pl.DataFrame) -> Columns:
        """All columns that a summary has: its own, and those of ``more`` that were measured."""
        return {**self.columns, **self.measured(summary)}


def _notes_on_edits(summary: pl.DataFrame) -> list[str]:
    more = EDITS.measured(summary)
    generated = any(name.startswith("Output") for name in more)
    notes = [
        "mean ± half the 95 % interval over updates (normal); for shares, 0 to 100: mean [interval bounds] (Wilson)",
        "× 100, except fluency (bits) and seconds per update (the edit alone)",
    ]
    if "S ↑" in more:
        notes.append(
            "Neighb.: p(true) against p(new) on nearest facts; S: harmonic mean of Efficacy-S, Gen.-S and Neighb.-S"
        )
    if "Token acc. ↑" in more:
        notes.append("Token acc.: tokens of the object that are the model's first choice; Exact: all of them are")
    if "Answer new ↑" in more:
        notes.append("Answer: to the bare prompt, until the model stops; counts if all of it is the object")
    timed = summary.filter(pl.col("method") != UNEDITED, pl.col("seconds_n") > 1)
    if timed["seconds_low"].null_count():
        notes.append("Seconds have no interval where edits made together share their time")
    if groups := [name for name in summary["scenario"].unique(maintain_order=True) if name != REPLACEMENT]:
        notes.append(
            f"{', '.join(groups)}: objects that hold against those that do not; Change: relative to the unedited model"
        )
    if generated:
        notes.append("Output: the text that the model generates begins with the object, by any of its names")
    return notes


EDITS = Layout(
    name="edits",
    title="Edited models",
    source="WikiFactDiff, section 5, table 4",
    columns={
        "Efficacy-D ↑": ("efficacy_difference", 100, 1),
        "Efficacy-S ↑": ("efficacy_success", 100, 1),
        "Gen.-D ↑": ("generalization_difference", 100, 1),
        "Gen.-S ↑": ("generalization_success", 100, 1),
        "Bleedover random ↓": ("bleedover_random", 100, 1),
        "Bleedover nearest ↓": ("bleedover_nearest", 100, 1),
        "Fluency ↑": ("fluency", 1, 1),
        "Seconds ↓": ("seconds", 1, 2),
    },
    notes=_notes_on_edits,
    more={
        "Neighb.-D ↑": ("neighbourhood_difference", 100, 1),
        "Neighb.-S ↑": ("neighbourhood_success", 100, 1),
        "S ↑": ("score", 100, 1),
        "Token acc. ↑": ("efficacy_accuracy", 100, 1),
        "Exact ↑": ("efficacy_exact", 100, 1),
        "Gen. token acc. ↑": ("generalization_accuracy", 100, 1),
        "Gen. exact ↑": ("generalization_exact", 100, 1),
        "Neighb. token acc. ↑": ("neighbourhood_accuracy", 100, 1),
        "Neighb. exact ↑": ("neighbourhood_exact", 100, 1),
        "Answer new ↑": ("answer_new", 100, 1),
        "Answer old ↓": ("answer_old", 100, 1),
        "Answer neither ↓": ("answer_neither", 100, 1),
        "No stop ↓": ("answer_unstopped", 100, 1),
        "Gen. answer new ↑": ("generalization_answer_new", 100, 1),
        "Gen. answer old ↓": ("generalization_answer_old", 100, 1),
        "Gen. answer neither ↓": ("generalization_answer_neither", 100, 1),
        "Gen. no stop ↓": ("generalization_answer_unstopped", 100, 1),
        "Change ↑": ("efficacy_change", 100, 1),
        "Gen. change ↑": ("generalization_change", 100, 1),
        "New win ↑": ("new_win", 100, 1),
        "Static win ↑": ("static_win", 100, 1),
        "Static lost ↓": ("static_loss", 100, 1),
        "Others' rise ↓": ("others_rise", 100, 1),
        "Output new ↑": ("generated_new", 100, 1),
        "Output old ↓": ("generated_old", 100, 1),
        "Gen. output new ↑": ("generalization_generated_new", 100, 1),
        "Gen. output old ↓": ("generalization_generated_old", 100, 1),
    },
)
BESIDE = 10  # columns of a further table that a terminal has room for
SECTION = ("mode", "scenario")
WORDS = (*SECTION, "method", "way")


def edits_tables(summary: pl.DataFrame, width: int, layout: Layout = EDITS) -> list[Table]:
    """Rows of `anachron.evaluate.metrics.summarise` for a terminal of so many letters: one would be too wide.

    One table for each scenario, and behind it those of the layout's ``more`` that was measured, `BESIDE` columns each.
    A table that is wider than that has two lines a cell. Notes on all are under the last scenario's first table.
    """
    tables = []
    parts = summary.partition_by("scenario", maintain_order=True)
    for part in parts:
        notes = edit_notes(summary, layout) if part is parts[-1] else ()
        more = list(layout.measured(part).items())
        for columns in (layout.columns, *(dict(more[first : first + BESIDE]) for first in range(0, len(more), BESIDE))):
            table = edits_table(part, layout, columns=columns, notes=notes)
            if not table.fits(width):
                table = edits_table(part, layout, narrow=True, columns=columns, notes=notes)
            tables.append(table)
            notes = ()
    return tables


def edits_table(
    summary: pl.DataFrame, layout: Layout = EDITS, *, narrow: bool = False, columns: Columns | None = None,
    notes: Sequence[str] | None = None,
) -> Table:  # fmt: skip
    """Rows of `anachron.evaluate.metrics.summarise` for the terminal, a section a mode and scenario.

    Mode, scenario and number of updates have columns only where they differ between rows, otherwise the title says
    them; failed updates have one where there are any. narrow: two lines a cell, so that a terminal of 80 letters has
    room for it. columns: which to show; by default the layout's own. notes: under the table; by default those of
    these rows. Raises `DataError` for a table that lacks a column or has no rows.
    """
    cells = printed(summary, layout, layout.columns if columns is None else columns)
    if narrow:
        cells = cells.with_columns(pl.all().str.replace(r" (±|\[)", "\n$1").str.replace(r"(\[[^ ]*), ", "$1,\n"))
    return Table(
        _titled(summary, layout),
        [
            Column(name.replace("-", "-\n") if narrow else name, number=name not in WORDS, once=name in SECTION)
            for name in cells.columns
        ],
        cells.rows(),
        edit_notes(summary, layout) if notes is None else notes,
        sections=summary.select(SECTION).rows(),
        padding=0 if narrow else 1,
    )


def printed(summary: pl.DataFrame, layout: Layout = EDITS, columns: Columns | None = None) -> pl.DataFrame:
    """The cells as text, a row per mode, scenario and method, under the headings of the table.

    columns: some of the layout's; by default all, but of its ``more`` only what was measured.
    """
    _check(summary, layout)
    wanted = layout.shown(summary) if columns is None else columns
    labelled = summary.with_columns(method_label())
    cells = {"updates" if c == "done" else c: list(map(_text, labelled[c])) for c in leading(summary)}
    for heading, (metric, factor, decimals) in wanted.items():
        cell = partial(_cell, factor=factor, decimals=decimals, bounds=metric in layout.shares)
        cells[heading] = [cell(*ends) for ends in summary.select(metric, f"{metric}_low", f"{metric}_high").iter_rows()]
    if summary["failed"].sum():
        cells["failed"] = list(map(_text, summary["failed"]))
    return pl.DataFrame(cells)


def leading(summary: pl.DataFrame) -> list[str]:
    """Columns before the metrics: mode, scenario and number of updates only where they differ.

    Where a model was measured after several numbers of edits, that number stands for the number of updates.
    """
    number = "edits" if "edits" in summary.columns else "done"
    names = (*WORDS, number) if "way" in summary.columns else (*SECTION, "method", number)
    return [c for c in names if c in ("method", "way", "edits") or summary[c].n_unique() > 1]


def edit_notes(summary: pl.DataFrame, layout: Layout = EDITS) -> list[str]:
    """What a reader of the table must know: units, intervals, and means over fewer updates than were done."""
    _check(summary, layout)
    notes = layout.notes(summary)
    absent = [name for name, (metric, *_) in layout.columns.items() if not summary[f"{metric}_n"].sum()]
    if absent and summary["done"].sum():
        notes.append(f"not measured: {', '.join(heading[:-2] for heading in absent)}")
    lacking: dict[tuple[int, tuple[str, ...]], list[str]] = {}
    for row in summary.with_columns(method_label()).iter_rows(named=True):
        gaps: dict[int, list[str]] = {}
        of_scenario = summary.filter(pl.col("scenario") == row["scenario"])
        for heading, (metric, *_) in layout.shown(summary).items():
            if metric in layout.of_model:
                continue
            if heading not in absent and of_scenario[f"{metric}_n"].sum():  # else "-" says that nothing has it
                gaps.setdefault(row["done"] - row[f"{metric}_n"], []).append(heading[:-2])
        apart = [str(row[name]) for name in (*SECTION, "way", "edits") if name in leading(summary)]
        name = f"{row['method']} ({', '.join(apart)})" if apart else row["method"]
        for gap, headings in gaps.items():
            if gap:
                lacking.setdefault((gap, tuple(headings)), []).append(name)
    for (gap, missing), names in lacking.items():
        whose = "every row" if len(names) == summary.height > 1 else ", ".join(names)
        updates = counted(gap, "update")
        notes.append(f"no {', '.join(missing)}, so left out of the mean: {updates} of {whose}")
    return notes


def edits_markdown(summary: pl.DataFrame, layout: Layout = EDITS) -> str:
    """The table with its title, notes and source, as GitHub's Markdown."""
    table = edits_table(summary, layout, columns=layout.shown(summary))
    notes = "".join(f"- {note}\n" for note in table.notes)
    return f"## {table.title}\n\n{table.markdown()}\n{notes}\nSource: {layout.source}.\n"


def edits_latex(summary: pl.DataFrame, layout: Layout = EDITS) -> str:
    """The table as a float with a caption and a label, for LaTeX with the package booktabs."""
    table = edits_table(summary, layout, columns=layout.shown(summary))
    same = same_in_all(summary)
    return table.latex(layout.name, "; ".join([layout.title, *([same] if same else []), *table.notes]))


def write_edits(summary: pl.DataFrame, out: Path, layout: Layout = EDITS) -> None:
    """Write all numbers (``edits.parquet``, ``edits.csv``) and the table (``markdown/edits.md``, ``latex/edits.tex``).

    The folder is laid out as `anachron.report.outputs.write_tables` does it for a study.
    """
    _check(summary, layout)
    write_data(out, layout.name, summary)
    write_printed(out, layout.name, edits_markdown(summary, layout), edits_latex(summary, layout))


def _titled(summary: pl.DataFrame, layout: Layout) -> str:
    return f"{layout.title}, {same_in_all(summary)}" if same_in_all(summary) else layout.title


def same_in_all(summary: pl.DataFrame) -> str:
    """What all rows have in common."""
    apart = leading(summary)
    same = [] if "mode" in apart else [f"mode {summary['mode'][0]}"]
    if "scenario" not in apart and summary["scenario"][0] != REPLACEMENT:
        same.append(f"scenario {summary['scenario'][0]}")
    done = summary["done"][0]
    if not {"done", "edits"} & set(apart):
        same.append(counted(done, "update"))
    return ", ".join(same)


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _cell(
    mean: float | None, low: float | None, high: float | None, *, factor: int, decimals: int, bounds: bool
) -> str:
    """A mean with its interval: as bounds, or as half its width."""
    if bounds or mean is None or low is None or high is None:
        return with_bounds(mean, low, high, factor=factor, decimals=decimals)
    return f"{factor * mean:z.{decimals}f} ± {factor * (high - low) / 2:.{decimals}f}"


def _check(summary: pl.DataFrame, layout: Layout) -> None:
    metrics = [f"{metric}{end}" for metric, *_ in layout.columns.values() for end in ("", "_low", "_high", "_n")]
    needed = ("mode", "scenario", *METHOD, "done", "failed", *metrics)
    remedy = "make it with anachron.evaluate.metrics.summarise"
    refuse_missing(summary.columns, needed, f"the table of {layout.name}", remedy)
    if not summary.height:
        raise DataError(
            f"the table of {layout.name} has 0 rows; it needs at least one mode and method, so evaluate an edit first"
        )
