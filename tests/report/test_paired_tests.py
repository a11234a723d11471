"""The table of paired tests: every cell against the number it stands for, in each form."""

from io import StringIO
from pathlib import Path

import polars as pl
from rich.console import Console

from anachron.evaluate.paired_tests import TESTS
from anachron.report.edits.paired_tests import paired_tests_table, printed_tests, write_tests

ROWS = [
    ("independent", "ReplaceObject", "FT", "plain", "efficacy_success", 1200, 0.25, 0.995, 0.745, 0.72, 0.77, 1e-9,
     "exact McNemar"),
    ("independent", "ReplaceObject", "ROME", "dated", "neighbourhood_success", 7, 0.5, 0.4996, -0.0004, -0.02, 0.0, 0.8,
     "sign flips"),
    ("independent", "ReplaceObject", "PROMPT", "plain", "efficacy_success", 3, 0.0, 1.0, 1.0, None, None, 0.25,
     "exact McNemar"),
]  # fmt: skip
TABLE = pl.DataFrame(ROWS, schema=TESTS, orient="row")


def test_cells():
    assert printed_tests(TABLE).rows() == [
        ("FT", "efficacy_success", "1,200", "25.0", "99.5", "+74.5 [72.0, 77.0]", "<0.001"),
        ("ROME dated", "neighbourhood_success", "7", "50.0", "50.0", "+0.0 [-2.0, 0.0]", "0.800"),
        ("PROMPT", "efficacy_success", "3", "0.0", "100.0", "+100.0", "0.250"),
    ]
    two_modes = pl.concat([TABLE, TABLE.with_columns(mode=pl.lit("batch"))])
    assert printed_tests(two_modes).columns[:3] == ["mode", "method", "metric"]


def test_every_form_says_the_same(tmp_path: Path):
    console = Console(file=StringIO(), width=140)
    console.print(paired_tests_table(TABLE))
    write_tests(TABLE, tmp_path, "paired_tests")
    markdown = (tmp_path / "markdown" / "paired_tests.md").read_text()
    tex = (tmp_path / "latex" / "paired_tests.tex").read_text()
    for text in (console.file.getvalue(), markdown, tex):
        assert "+74.5 [72.0, 77.0]" in text and "not corrected" in " ".join(text.split())
    assert "<0.001" in markdown and r"\label{tab:paired-tests}" in tex and "×" not in tex
    assert pl.read_parquet(tmp_path / "paired_tests.parquet").equals(TABLE)


def test_no_rows(tmp_path: Path):
    write_tests(TABLE.clear(), tmp_path, "paired_tests")
    assert printed_tests(TABLE.clear()).height == 0
