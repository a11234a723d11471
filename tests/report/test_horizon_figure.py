"""The figure of a horizon shows what its table holds."""

import polars as pl
import pytest

from anachron.core.errors import DataError
from anachron.probe.horizon.summary import CURVE_SCHEMA
from anachron.report.figures.horizon import horizon_figure


def curve(months: int) -> pl.DataFrame:
    rows = [
        {
            "month": f"{2010 + i // 12}-{i % 12 + 1:02d}", "changes": i % 3, "share": float(i < 24) if i % 3 else None,
            "chance": 0.5, "low": 0.4, "high": 0.6,
        }
        for i in range(months)
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=CURVE_SCHEMA)


def test_dots_are_means_of_half_years_and_the_claim_is_marked() -> None:
    figure = horizon_figure(curve(48), "m", halving=(2012.0, 2011.5, 2012.5), claim=2013.25)
    panel = figure.axes[0]
    (dots,) = [c for c in panel.collections if c.get_label() == "changes of half a year"]
    places = dots.get_offsets()
    assert len(places) == 8
    assert places[:4, 1].tolist() == [1.0] * 4
    assert places[4:, 1].tolist() == [0.0] * 4
    (claim,) = [line for line in panel.lines if line.get_label() == "claimed cut-off"]
    assert set(claim.get_xdata()) == {2013.25}
    (drawn,) = [line for line in panel.lines if line.get_label() == "curve"]
    assert drawn.get_xdata()[0] == pytest.approx(2010 + 0.5 / 12)


def test_a_table_without_rows_is_refused() -> None:
    with pytest.raises(DataError, match="nothing to draw"):
        horizon_figure(curve(0), "m")
