"""The table of paired tests of edited models against the unedited one, for the terminal and as files."""

from pathlib import Path

import polars as pl

from anachron.evaluate.results import method_label
from anachron.report.numbers import p_value
from anachron.report.outputs import write_data, write_printed
from anachron.report.table import Column, Table

TITLE = "Against the unedited model"
NOTE = (
    "means × 100 over updates that both models have, paired difference with its 95 % interval, two-sided p "
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
    difference = Column("difference", number=True, of="difference", factor=100, sign=True)
    cells["difference"] = difference.cells(rows, ("low", "high"))
    cells["p"] = list(map(p_value, rows["p"]))
    return pl.DataFrame(cells)


def paired_tests_table(tests: pl.DataFrame) -> Table:
    """The same as a table to be shown."""
    cells = printed_tests(tests)
    columns = [Column(name, number=name not in (*SAME, "method", "metric")) for name in cells.columns]
    return Table(TITLE, columns, cells.rows(), [NOTE])


def write_tests(tests: pl.DataFrame, out: Path, name: str) -> None:
    """Write all numbers (``NAME.parquet``, ``NAME.csv``) and the table (``markdown/NAME.md``, ``latex/NAME.tex``)."""
    table = paired_tests_table(tests)
    write_data(out, name, tests)
    tex = table.latex(name, f"{TITLE}; {NOTE}")
    write_printed(out, name, f"## {TITLE}\n\n{table.markdown()}\n- {NOTE}\n", tex)
