"""The page's chart of transfer says which way its cells are to be read."""

import polars as pl

from anachron.analysis.analyses.transfer import TRANSFER, transfer
from anachron.analysis.plots import charts


def test_the_words_below_the_map_name_its_rows_and_columns_as_its_cells_are():
    known = {"year": [1, 1, 1, 1], "month": [1, 1, 0, 0], "day": [1, 0, 0, 0]}  # R of four facts
    run = {"model": "m", "format": "raw", "prefix": "none"}
    facts = pl.DataFrame(
        [
            {**run, "fact_id": str(n), "granularity": g, "robustness": float(r)}
            for g, column in known.items()
            for n, r in enumerate(column)
        ]
    )  # fmt: skip
    assert TRANSFER.chart is not None
    (view, *_) = TRANSFER.chart.draw(transfer(facts), charts.Looks([("m", "raw", "none")]))
    (trace,) = view["data"]
    row, column = trace["y"].index("day"), trace["x"].index("year")
    assert trace["z"][row][column] == 1 and trace["z"][column][row] == 0.25
    assert "(R = 1) at a row's granularity, the share also known at a column's" in TRANSFER.chart.note
