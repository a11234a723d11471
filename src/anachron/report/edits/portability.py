"""The table of what follows from updates (RippleEdits, MQuAKE), for the terminal and as files."""

from collections.abc import Mapping
from pathlib import Path

import polars as pl
from rich.markup import escape
from rich.table import Table

from anachron.evaluate.measures.portability import portability_summary, portability_tests
from anachron.evaluate.results import check_portability, check_updates, method_label
from anachron.io.tables import markdown_table
from anachron.report.outputs import latex_table, write_data, write_printed

NAME = "portability"
TITLE = "Portability: what follows from the updates"
NOTES = (
    "means × 100 over updates, each the mean of its tests, [bounds of the 95 % interval] (Wilson)",
    "Right: what the model generates, by the rule of the format (RippleEdits: contains every answer; MQuAKE: begins "
    "with one); Begins: begins with one; p: of the likeliest name of an answer; p > old: where the old answer is known",
    "If edited: Right, only over updates whose own object the model generates",
    "not counted: tests with a condition that the unedited model does not know",
)
WORDS = ("mode", "method", "kind")
COLUMNS = {
    "Right ↑": "right",
    "If edited ↑": "right_if_edited",
    "Begins ↑": "begins",
    "p > old ↑": "success",
    "p ↑": "p",
}


def write_portability(tables: Mapping[str, pl.DataFrame], out: Path) -> pl.DataFrame:
    """Write ``portability_tests.parquet``, a row a test, and the summary that is returned, as numbers and to print."""
    tests = portability_tests(check_portability(tables["portability"], check_updates(tables["updates"])))
    summary = portability_summary(tests)
    cells = printed_portability(summary)
    tex = latex_table(
        NAME, "; ".join([TITLE, *NOTES]), cells.columns, cells.rows(), [name not in WORDS for name in cells.columns]
    )
    for letter, command in {">": "$>$", "±": r"$\pm$", "×": r"$\times$", "↑": r"$\uparrow$"}.items():
        tex = tex.replace(letter, command)
    notes = "".join(f"- {note}\n" for note in NOTES)
    write_data(out, f"{NAME}_tests", tests)
    write_data(out, NAME, summary)
    write_printed(out, NAME, f"## {TITLE}\n\n{markdown_table(cells.columns, cells.rows())}\n{notes}", tex)
    return summary


def printed_portability(summary: pl.DataFrame, *, brief: bool = False) -> pl.DataFrame:
    """The cells as text; columns that nothing is known of are left out. brief: the interval of the first mean alone."""
    rows = summary.with_columns(method_label())
    cells = {name: rows[name].to_list() for name in WORDS if name != "mode" or rows[name].n_unique() > 1}
    cells |= {name.replace("_", " "): [f"{n:,}" for n in rows[name]] for name in ("updates", "tests", "not_counted")}
    for heading, name in COLUMNS.items():
        if rows[name].count():
            ends = rows.select(name, f"{name}_low", f"{name}_high").iter_rows()
            with_bounds = name == "right" or not brief
            cells[heading] = [_cell(*(row if with_bounds else (row[0], None, None))) for row in ends]
    return pl.DataFrame(cells)


def _cell(mean: float | None, low: float | None, high: float | None) -> str:
    bounds = "" if low is None or high is None else f" [{100 * low:z.1f}, {100 * high:z.1f}]"
    return "-" if mean is None else f"{100 * mean:z.1f}{bounds}"


def portability_table(summary: pl.DataFrame) -> Table:
    """The same for a terminal, with fewer intervals."""
    cells = printed_portability(summary, brief=True)
    table = Table(title=TITLE, caption=escape("\n".join(NOTES)), caption_justify="left")
    for name in cells.columns:
        words = name in WORDS
        table.add_column(name, justify="left" if words else "right", overflow="fold", no_wrap=words)
    for row in cells.rows():
        table.add_row(*map(escape, row))
    return table
