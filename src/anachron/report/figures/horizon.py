"""Figure of a horizon: what a model prefers by the date of changes, the curve with its band, and the claim."""

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from anachron.analysis.plots import marks, style
from anachron.analysis.plots.style import BLACK, BLUE, GREY, PAGE, PALE, VERMILLION

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BIN = 6  # months that a dot stands for


def horizon_figure(
    curve: pl.DataFrame, title: str, *, halving: tuple[float, float, float] | None = None, claim: float | None = None
) -> "Figure":
    """The share of new values preferred in half years (dots, larger for more changes) and the curve with its 95 %.

    curve: rows of `anachron.probe.horizon.summary.curve_table`. halving: the date with its interval, claim: the claimed
    cut-off, in years.
    """
    rows = style.check("horizon", curve, "chance", "low", "high", made_by="anachron horizon")
    year = rows["month"].str.slice(0, 4).cast(pl.Float64) + (rows["month"].str.slice(5, 2).cast(pl.Float64) - 0.5) / 12
    rows = rows.with_columns(year.alias("year")).with_row_index()
    dots = (
        rows.filter(pl.col("changes") > 0)
        .group_by(pl.col("index") // BIN, maintain_order=True)
        .agg(
            ((pl.col("year") * pl.col("changes")).sum() / pl.col("changes").sum()).alias("year"),
            ((pl.col("share") * pl.col("changes")).sum() / pl.col("changes").sum()).alias("share"),
            pl.col("changes").sum(),
        )
    )
    with style.sheet(PAGE, 2.6) as (figure, axes):
        panel = axes[0, 0]
        x = rows["year"].to_numpy()
        panel.fill_between(x, rows["low"].to_numpy(), rows["high"].to_numpy(), color=PALE, label="95 % of the curve")
        panel.plot(x, rows["chance"].to_numpy(), color=BLUE, label="curve")
        size = 4 + 26 * np.sqrt(dots["changes"].to_numpy() / dots["changes"].max())
        panel.scatter(
            dots["year"].to_numpy(),
            dots["share"].to_numpy(),
            s=size,
            color=BLACK,
            zorder=3,
            label="changes of half a year",
        )
        if halving is not None:
            middle, low, high = halving
            panel.axvspan(low, high, color=GREY, alpha=0.25, lw=0)
            panel.axvline(middle, color=GREY, label="halving date, 95 %")
        if claim is not None:
            panel.axvline(claim, color=VERMILLION, ls="--", label="claimed cut-off")
        marks.name_years(panel)
        panel.set(ylim=(-0.02, 1.02), xlabel="date of the change", ylabel="new value preferred", title=title)
        figure.legend(loc="outside lower center", ncols=5)
    return figure
