"""The table of paired tests of edited models against the unedited one, for the terminal and as files."""

from pathlib import Path

import polars as pl
from rich.markup import escape
from rich.table import Table

from anachron.evaluate.results import method_label
from anachron.io.tables import markdown_table
from anachron.report.outputs import latex_table, write_data, write_printed

TITLE = "Against the unedited model"
NOTE = (
    "means × 100 over updates that both models have, difference with its paired 95 % bootstrap interval, two-sided p "
    "(exact McNemar for yes or no, sign flips otherwise), not corrected for the number of tests"
)
SAME = ("mode", "scenario")  # columns that are shown only where rows differ


def printed_tests(tests: pl.DataFrame) -> pl.DataFrame:
    """Rows of `anachron.evaluate.paired_tests.paired_tests` as cells of text."""
    rows = tests.with_columns(method_label())
    cells = {name: rows[name].to_list() for name in SAME if rows[name].n_unique() > 1}
    cells |= {name: rows[name].to_list() for name in ("method", "metric")}
    cells["updates"] = [f"{count:,}" for count in rows["updates"]]
    for name in ("unedited", "edited"):
        cells[name] = [f"{100 * mean:.1f}" for mean in rows[name]]
    ends = rows.select("difference", "low", "high").iter_rows()
    cells["difference"] = [_difference(*row) for row in ends]
    cells["p"] = ["< 0.001" if p < 0.001 else f"{p:.3f}" for p in rows["p"]]
    return pl.DataFrame(cells)


def _difference(mean: float, low: float | None, high: float | None) -> str:
    bounds = "" if low is None or high is None else f" [{100 * low:z.1f}, {100 * high:z.1f}]"
    return f"{100 * mean:+z.1f}{bounds}"


def paired_tests_table(tests: pl.DataFrame) -> Table:
    """The same for a terminal."""
    cells = printed_tests(tests)
    table = Table(title=TITLE, caption=escape(NOTE), caption_justify="left")
    for name in cells.columns:
        table.add_column(name, justify="left" if name in (*SAME, "method", "metric") else "right", overflow="fold")
    for row in cells.rows():
        table.add_row(*map(escape, row))
    return table


def write_tests(tests: pl.DataFrame, out: Path, name: str) -> None:
    """Write all numbers (``NAME.parquet``, ``NAME.csv``) and the table (``markdown/NAME.md``, ``latex/NAME.tex``)."""
    cells = printed_tests(tests)
    body = markdown_table(cells.columns, cells.rows())
    right = [column not in (*SAME, "method", "metric") for column in cells.columns]
    tex = latex_table(name, f"{TITLE}; {NOTE}", cells.columns, cells.rows(), right)
    write_data(out, name, tests)
    write_printed(out, name, f"## {TITLE}\n\n{body}\n- {NOTE}\n", tex.replace("×", r"$\times$"))
