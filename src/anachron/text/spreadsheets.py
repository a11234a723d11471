"""Texts in tables that people open in a spreadsheet, which would run some of them as formulas."""

import polars as pl

_BEGINS = r"^[=+\-@＝＋－＠\t\r]"
_NUMBER = r"^[+-]?[0-9][0-9.,:-]*$"  # also a date, such as -0044-03-15: these stay as they are


def harmless(table: pl.DataFrame) -> pl.DataFrame:
    """A table for people's CSV files: an apostrophe stands before each text that a spreadsheet would run.

    That is a text which begins with ``=``, ``+``, ``-``, ``@``, a tabulator or a carriage return and is no number and
    no date. Numbers, dates and all other texts are unchanged, and so is what was made harmless before.
    """
    texts = [name for name, dtype in table.schema.items() if dtype == pl.String]
    run = {name: pl.col(name).str.contains(_BEGINS) & ~pl.col(name).str.contains(_NUMBER) for name in texts}
    return table.with_columns(
        pl.when(test).then("'" + pl.col(name)).otherwise(name).alias(name) for name, test in run.items()
    )
