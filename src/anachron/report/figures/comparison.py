"""Figures that set runs against each other on the same facts: formats, prefixes, models, instruct against base."""

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from anachron.plots import marks, style
from anachron.plots.style import COLUMN, FORMATS, GRANULARITIES, GRANULARITY_NAMES, PAGE, Look
from anachron.report.figures.summary import SCORES, one_granularity

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OUTCOMES = {  # colour, hatching and the colour of the number on it
    "win": (style.BLUE, "", "white"),
    "tie": ("white", "", "black"),
    "loss": (style.ORANGE, "/////", "black"),
}


def formats(table: pl.DataFrame) -> "Figure":
    """W and R of each model in raw text and in chat, over all granularities, and the paired differences.

    The intervals are those of the differences: both formats are asked about the same facts. Rows by R in raw text.
    Source: paper 002, figure 5; 001, figure 5.
    """
    rows, said = one_granularity(style.check("formats", table, *SCORES))
    rows = rows.sort("against_robustness", descending=True, maintain_order=True)
    labels = style.run_labels(rows, "prefix")
    places = np.arange(len(labels))
    height = marks.rows_height(labels, least=0.22) + 0.95
    with style.sheet(PAGE, height, 1, 4, sharey=True, gridspec_kw={"width_ratios": [1.2, 1, 1.2, 1]}) as (figure, axes):
        for (score, name), (panel, beside) in zip(SCORES.items(), (axes[0, :2], axes[0, 2:]), strict=True):
            for between in (panel, beside):
                marks.name_rows(between, labels)
            marks.dots(panel, places - 0.15, rows[f"against_{score}"], FORMATS["raw"], label="raw text")
            marks.dots(panel, places + 0.15, rows[score], FORMATS["chat"], label="chat")
            panel.set_xlabel(name)
            marks.at_least(panel, 0.1, within=(-0.02, 1.02))
            marks.in_percent(panel)
            marks.reference(beside, 0)
            marks.dots(
                beside, places, rows[f"{score}_difference"], Look(style.BLACK, "D"),
                low=rows[f"{score}_difference_low"], high=rows[f"{score}_difference_high"], label="chat minus raw text",
            )  # fmt: skip
            beside.set_xlabel("difference (points)")
            marks.at_least(beside, 0.1)
            marks.in_percent(beside, points=True)
        figure.suptitle(said, x=0.01, ha="left", fontsize=7.5)
        marks.legend(figure)
    return figure


def prefixes(table: pl.DataFrame) -> "Figure":
    """Differences in W and R that a prefix makes, with intervals, at each granularity.

    Source: paper 002, figure 10; 001, section 4.6.
    """
    return _differences("prefixes", table, [f"{row}, {p}" for row, p in _with_prefix(table)], "no prefix")


def _with_prefix(table: pl.DataFrame) -> list[tuple[str, str]]:
    rows = style.check("prefixes", table, *(f"{score}_difference" for score in SCORES))
    return list(zip(style.run_labels(rows, "format"), rows["prefix"], strict=True))


def comparison(table: pl.DataFrame) -> "Figure":
    """Differences in W and R of every model from the baseline, with intervals, at each granularity."""
    rows = style.check("comparison", table, *(f"{score}_difference" for score in SCORES))
    return _differences("comparison", table, style.run_labels(rows, "format", "prefix"), rows["against_model"][0])


def _differences(name: str, table: pl.DataFrame, labels: list[str], against: str) -> "Figure":
    """labels: of the rows that have both differences."""
    rows = style.check(name, table, *(f"{score}_difference" for score in SCORES))
    order = list(dict.fromkeys(labels))
    named = rows.with_columns(pl.Series("row", [order.index(label) for label in labels]))
    found = style.in_order(rows["granularity"], list(GRANULARITIES))
    height = marks.rows_height(order, least=0.09 * len(found) + 0.06) + 0.95
    with style.sheet(PAGE, height, 1, 2, sharey=True) as (figure, axes):
        for panel, (score, said) in zip(axes.flat, SCORES.items(), strict=True):
            marks.name_rows(panel, order)
            marks.reference(panel, 0)
            for granularity, offset in zip(found, marks.spread(len(found)), strict=True):
                own = named.filter(pl.col("granularity") == granularity)
                marks.dots(
                    panel, own["row"] + offset, own[f"{score}_difference"], GRANULARITIES[granularity],
                    low=own[f"{score}_difference_low"], high=own[f"{score}_difference_high"],
                    label=GRANULARITY_NAMES.get(granularity, granularity),
                )  # fmt: skip
            panel.set_xlabel(f"difference in {said} (points)")
            marks.in_percent(panel, points=True)
            marks.at_least(panel, 0.1)
        figure.suptitle(f"against {style.folded(against, 110)}", x=0.01, ha="left", fontsize=7.5)
        marks.legend(figure)
    return figure


def granularity_variance(table: pl.DataFrame) -> "Figure":
    """Variance of R between granularities with a prefix over that without, with intervals; left of 1 it is reduced.

    Source: paper 001, figure 6.
    """
    rows = style.check("granularity_variance", table, "ratio")
    labels = style.run_labels(rows, "format")
    order = list(dict.fromkeys(labels))
    named = rows.with_columns(pl.Series("row", [order.index(label) for label in labels]))
    found = list(dict.fromkeys(rows["prefix"]))
    width = COLUMN if max(map(len, order)) <= 20 else PAGE
    height = marks.rows_height(order, least=0.1 + 0.1 * len(found)) + 0.55 + marks.legend_height(found, width)
    with style.sheet(width, height) as (figure, axes):
        panel = axes[0, 0]
        marks.name_rows(panel, order)
        marks.reference(panel, 1)
        for number, (prefix, offset) in enumerate(zip(found, marks.spread(len(found)), strict=True)):
            own = named.filter(pl.col("prefix") == prefix)
            marks.dots(
                panel, own["row"] + offset, own["ratio"], style.look(number), low=own["low"], high=own["high"],
                label=f"prefix {prefix}",
            )  # fmt: skip
        marks.at_least(panel, 0.5)
        panel.set_xlabel("variance of R between granularities,\nwith the prefix / without")
        marks.legend(figure)
    return figure


def base_and_instruct(table: pl.DataFrame) -> "Figure":
    """Shares of facts that an instruct model wins, ties and loses against its base, by W and by R.

    Source: paper 001, figure 9.
    """
    rows = style.check("base_and_instruct", table.filter(pl.col("facts") > 0), "win", "tie", "loss")
    rows = rows.with_columns(pl.Series("row", style.run_labels(rows, "format", "prefix")))
    order = list(dict.fromkeys(rows["row"]))
    height = marks.rows_height(order, least=0.24) + 0.95
    with style.sheet(PAGE, height, 1, 2, sharey=True) as (figure, axes):
        for panel, (score, said) in zip(axes.flat, SCORES.items(), strict=True):
            own = rows.filter(pl.col("score") == score)
            places = [order.index(row) for row in own["row"]]
            panel.set_title(f"by {said}")
            marks.name_rows(panel, order)
            left = np.zeros(own.height)
            for outcome, (colour, hatch, ink) in OUTCOMES.items():
                share = (own[outcome] / own["facts"]).to_numpy()
                bars = panel.barh(
                    places, share, 0.7, left, color=colour, hatch=hatch, edgecolor="black", lw=0.5, label=outcome
                )
                for bar, part in zip(bars, share, strict=True):
                    if part >= 0.08:  # room for two digits
                        panel.text(
                            bar.get_x() + part / 2, bar.get_y() + 0.35, f"{100 * part:.0f}", color=ink, ha="center",
                            va="center", fontsize=style.SMALL, bbox=_paper(hatch),
                        )  # fmt: skip
                left += share
            panel.set_xlim(0, 1)
            panel.set_xlabel("share of facts, against the base model")
            marks.in_percent(panel)
        marks.legend(figure)
    return figure


def _paper(hatch: str) -> dict[str, object] | None:
    """White under a number that would otherwise stand on hatching."""
    return {"boxstyle": "square,pad=0.1", "fc": "white", "ec": "none"} if hatch else None
