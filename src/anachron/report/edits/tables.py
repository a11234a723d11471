"""Tables of evaluated edits: for the terminal, and as files to compute with and print.

`EDITS` is shaped as table 4 of WikiFactDiff; other tables are of the same kind with a `Layout` of their own
(`anachron.report.edits.dated`, `anachron.report.edits.dated`, `anachron.report.edits.lifelong`).
Every cell is a mean over updates and half the width of its 95 % interval, to the paper's one decimal (two of seconds,
as small models are edited in less than a tenth of one). Of shares, from 0 to 1, the interval is not symmetric, so its
bounds are printed: ``97.1 [93.0, 98.9]``. The clean model comes first in each mode and scenario.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from anachron.analysis.plots.words import counted
from anachron.core.errors import DataError
from anachron.core.facts import REPLACEMENT
from anachron.evaluate.metrics import BOUNDED
from anachron.evaluate.results import METHOD, UNEDITED, method_label
from anachron.io.schemas import refuse_missing
from anachron.report.numbers import text_of
from anachron.report.outputs import write_data, write_printed
from anachron.report.table import DOWN, UP, Column, Table, measured


def metric(title: str, of: str, direction: int, factor: int = 100, digits: int = 1) -> Column:
    """A column of a metric of edits: shares, from 0 to 1, have the bounds of their interval."""
    return measured(title, of, direction, factor, digits, half=of not in BOUNDED)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What a table shows. notes: units and intervals, of a summary. more: columns of what a run has only where its
    updates or its options ask for it. of_model: metrics that are no mean over updates."""

    name: str
    title: str
    source: str
    columns: Sequence[Column]
    notes: Callable[[pl.DataFrame], list[str]]
    more: Sequence[Column] = ()
    of_model: tuple[str, ...] = ()

    def measured(self, summary: pl.DataFrame) -> list[Column]:
        """Those of ``more`` that the summary has and that are the mean of anything."""
        return [one for one in self.more if f"{one.of}_n" in summary.columns and summary[f"{one.of}_n"].sum()]

    def shown(self, summary: pl.DataFrame) -> list[Column]:
        """All columns that a summary has: its own, and those of ``more`` that were measured."""
        return [*self.columns, *self.measured(summary)]

    def named(self, *titles: str) -> list[Column]:
        """Some of all its columns."""
        found = {column.title: column for column in (*self.columns, *self.more)}
        return [found[title] for title in titles]


def _notes_on_edits(summary: pl.DataFrame) -> list[str]:
    more = {column.title for column in EDITS.measured(summary)}
    generated = any(title.startswith("Output") for title in more)
    notes = [
        "mean ± half the 95 % interval (Student's t); for shares, 0 to 100: mean [interval bounds] (Korn and Graubard)",
        "× 100, except fluency (bits) and seconds per update (the edit alone)",
    ]
    if "S" in more:
        notes.append(
            "Neighb.: p(true) against p(new) on nearest facts; S: harmonic mean of Efficacy-S, Gen.-S and Neighb.-S"
        )
    if "Token acc." in more:
        notes.append("Token acc.: tokens of the object that are the model's first choice; Exact: all of them are")
    if "Answer new" in more:
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
    columns=(
        metric("Efficacy-D", "efficacy_difference", UP),
        metric("Efficacy-S", "efficacy_success", UP),
        metric("Gen.-D", "generalization_difference", UP),
        metric("Gen.-S", "generalization_success", UP),
        metric("Bleedover random", "bleedover_random", DOWN),
        metric("Bleedover nearest", "bleedover_nearest", DOWN),
        metric("Fluency", "fluency", UP, 1),
        metric("Seconds", "seconds", DOWN, 1, 2),
    ),
    notes=_notes_on_edits,
    more=(
        metric("Neighb.-D", "neighbourhood_difference", UP),
        metric("Neighb.-S", "neighbourhood_success", UP),
        metric("S", "score", UP),
        metric("Token acc.", "efficacy_accuracy", UP),
        metric("Exact", "efficacy_exact", UP),
        metric("Gen. token acc.", "generalization_accuracy", UP),
        metric("Gen. exact", "generalization_exact", UP),
        metric("Neighb. token acc.", "neighbourhood_accuracy", UP),
        metric("Neighb. exact", "neighbourhood_exact", UP),
        metric("Answer new", "answer_new", UP),
        metric("Answer old", "answer_old", DOWN),
        metric("Answer neither", "answer_neither", DOWN),
        metric("No stop", "answer_unstopped", DOWN),
        metric("Gen. answer new", "generalization_answer_new", UP),
        metric("Gen. answer old", "generalization_answer_old", DOWN),
        metric("Gen. answer neither", "generalization_answer_neither", DOWN),
        metric("Gen. no stop", "generalization_answer_unstopped", DOWN),
        metric("Change", "efficacy_change", UP),
        metric("Gen. change", "generalization_change", UP),
        metric("New win", "new_win", UP),
        metric("Static win", "static_win", UP),
        metric("Static lost", "static_loss", DOWN),
        metric("Others' rise", "others_rise", DOWN),
        metric("Output new", "generated_new", UP),
        metric("Output old", "generated_old", DOWN),
        metric("Gen. output new", "generalization_generated_new", UP),
        metric("Gen. output old", "generalization_generated_old", DOWN),
    ),
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
        more = layout.measured(part)
        for columns in (layout.columns, *(more[first : first + BESIDE] for first in range(0, len(more), BESIDE))):
            table = edits_table(part, layout, columns=columns, notes=notes)
            if not table.fits(width):
                table = edits_table(part, layout, narrow=True, columns=columns, notes=notes)
            tables.append(table)
            notes = ()
    return tables


def edits_table(
    summary: pl.DataFrame, layout: Layout = EDITS, *, narrow: bool = False, columns: Sequence[Column] | None = None,
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
        ", ".join(filter(None, (layout.title, same_in_all(summary)))),
        [
            Column(name.replace("-", "-\n") if narrow else name, number=name not in WORDS, once=name in SECTION)
            for name in cells.columns
        ],
        cells.rows(),
        edit_notes(summary, layout) if notes is None else notes,
        sections=summary.select(SECTION).rows(),
        padding=0 if narrow else 1,
    )


def printed(summary: pl.DataFrame, layout: Layout = EDITS, columns: Sequence[Column] | None = None) -> pl.DataFrame:
    """The cells as text, a row per mode, scenario and method, under the headings of the table.

    columns: some of the layout's; by default all, but of its ``more`` only what was measured.
    """
    _check(summary, layout)
    wanted = layout.shown(summary) if columns is None else columns
    labelled = summary.with_columns(method_label())
    cells = {"updates" if c == "done" else c: list(map(text_of, labelled[c])) for c in leading(summary)}
    cells |= {column.heading: column.cells(summary) for column in wanted}
    if summary["failed"].sum():
        cells["failed"] = list(map(text_of, summary["failed"]))
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
    absent = [column.title for column in layout.columns if not summary[f"{column.of}_n"].sum()]
    if absent and summary["done"].sum():
        notes.append(f"not measured: {', '.join(absent)}")
    lacking: dict[tuple[int, tuple[str, ...]], list[str]] = {}
    for row in summary.with_columns(method_label()).iter_rows(named=True):
        gaps: dict[int, list[str]] = {}
        of_scenario = summary.filter(pl.col("scenario") == row["scenario"])
        for column in layout.shown(summary):
            if column.of in layout.of_model:
                continue
            if column.title not in absent and of_scenario[f"{column.of}_n"].sum():  # else "-" says that nothing has it
                gaps.setdefault(row["done"] - row[f"{column.of}_n"], []).append(column.title)
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
    return table.latex(layout.name, "; ".join(filter(None, (layout.title, same_in_all(summary), *table.notes))))


def write_edits(summary: pl.DataFrame, out: Path, layout: Layout = EDITS) -> None:
    """Write all numbers (``edits.parquet``, ``edits.csv``) and the table (``markdown/edits.md``, ``latex/edits.tex``).

    The folder is laid out as `anachron.report.outputs.write_tables` does it for a study.
    """
    _check(summary, layout)
    write_data(out, layout.name, summary)
    write_printed(out, layout.name, edits_markdown(summary, layout), edits_latex(summary, layout))


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


def _check(summary: pl.DataFrame, layout: Layout) -> None:
    metrics = [f"{column.of}{end}" for column in layout.columns for end in ("", "_low", "_high", "_n")]
    needed = ("mode", "scenario", *METHOD, "done", "failed", *metrics)
    remedy = "make it with anachron.evaluate.metrics.summarise"
    refuse_missing(summary.columns, needed, f"the table of {layout.name}", remedy)
    if not summary.height:
        raise DataError(
            f"the table of {layout.name} has 0 rows; it needs at least one mode and method, so evaluate an edit first"
        )
