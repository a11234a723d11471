"""Figures along the calendar: single facts year by year, and the years that were asked about."""

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from anachron.core.dates import Date
from anachron.plots import marks, style
from anachron.plots.style import PAGE, Look
from anachron.plots.words import year_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHOWN = 6
FILLINGS = {"correct": style.BLUE, "transitional": "white", "incorrect": style.ORANGE}
SPAN = 10  # years of a span, where there is one only
FAR = "far error: beats one from |\N{GREEK SMALL LETTER ALPHA}| \N{GREATER-THAN OR EQUAL TO} 1"
KINDS = {  # in the order that they are drawn: the errors last, on top of all
    "discarded": (Look(style.GREY, "|"), 3.0),
    "incorrect, beats no correct year": (Look(style.GREY, "."), 3.0),
    "transitional": (Look(style.PURPLE, "D", hollow=True), 3.2),
    "correct": (Look(style.BLUE, "o"), 3.2),
    "incorrect, beats a correct year": (Look(style.ORANGE, "s"), 3.2),
    FAR: (
        Look(style.VERMILLION, "X"),
        5.5,
    ),
}


def timelines(table: pl.DataFrame) -> "Figure":
    """Log-probability of the answer year by year, of the six facts with the most absurd far errors.

    The period is shaded, the prior (the statement without a date) is a line, years that beat a correct one are marked,
    and most those at least one period away. Source: paper 002, figure 17.
    """
    rows = style.check("timelines", table, "logp").with_columns(pl.col("time").cast(pl.Int64).alias("year"))
    facts = [part for _, part in rows.sort("rank", "year", maintain_order=True).group_by("rank", maintain_order=True)]
    facts = facts[:SHOWN]
    columns = min(2, len(facts))
    down = -(-len(facts) // columns)
    titles = [_title(part.row(0, named=True)) for part in facts]
    height = down * (1.6 + 0.13 * max(title.count("\n") for title in titles)) + 0.6
    with style.sheet(PAGE, height, down, columns) as (figure, axes):
        for panel, part, title in zip(axes.flat, facts, titles, strict=False):
            panel.set_title(title)
            _timeline(panel, part)
        marks.blank(axes.flat[len(facts) :])
        figure.supylabel("log Pr(answer) (nats)")
        marks.legend(figure)
    return figure


def _timeline(panel: "Axes", part: pl.DataFrame) -> None:
    first, last = period(part)
    panel.axvspan(first - 0.5, last + 0.5, color=style.PALE, lw=0, zorder=0, label="period")
    prior = part["prior"][0]
    if prior is not None:
        panel.axhline(prior, color=style.BLACK, lw=0.8, ls="--", label="without a date")
    panel.plot(part["year"], part["logp"], color=style.GREY, lw=0.4, zorder=1, label="_line")
    kinds = part.with_columns(
        pl.when("far").then(pl.lit(FAR))
        .when("lost").then(pl.lit("incorrect, beats a correct year"))
        .when(pl.col("status") == "incorrect").then(pl.lit("incorrect, beats no correct year"))
        .otherwise("status").alias("kind")
    )  # fmt: skip
    for kind, (seen, size) in KINDS.items():
        own = kinds.filter(pl.col("kind") == kind)
        if own.height:
            marks.dots(panel, own["year"], own["logp"], seen, label=kind, upright=True, size=size)
    name_years(panel)


def period(part: pl.DataFrame) -> tuple[int, int]:
    """First and last year of the fact; of its correct years where its dates are unknown."""
    start, end = part["start"][0], part["end"][0]
    correct = part.filter(pl.col("status") == "correct")["year"]
    first = correct.min() if start is None else Date.parse(start).year
    last = correct.max() if end is None else Date.parse(end).year
    return int(first), int(last)  # type: ignore[arg-type]  # a fact with lost matches has correct years


def _title(row: dict[str, object]) -> str:
    labels = [str(row[name]) for name in ("subject_label", "relation_label", "object_label") if row[name] is not None]
    fact = style.folded(" | ".join(labels) or str(row["fact_id"]), 54)
    prefix = "" if row["prefix"] == "none" else f", prefix {row['prefix']}"
    return fact + "\n" + style.folded(f"{row['model']}, {style.format_name(str(row['format']))}{prefix}", 54)


def name_years(panel: "Axes") -> None:
    """Years below the panel in words, so that -44 reads 44 BCE."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    panel.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, steps=[1, 2, 5, 10]))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda year, _: year_name(int(year)) if year else "BCE | CE"))


def years(table: pl.DataFrame) -> "Figure":
    """How many year contexts of each status lie in each span of years. Source: paper 002, figure 14."""
    rows = style.check("years", table, "first_year", *style.STATUSES).sort("first_year")
    starts = rows["first_year"].to_numpy()
    width = int(np.diff(starts).min()) if len(starts) > 1 else SPAN
    edges = np.arange(starts[0], starts[-1] + 2 * width, width)  # spans without contexts are not in the table
    with style.sheet(PAGE, 2.2) as (figure, axes):
        panel = axes[0, 0]
        below = np.zeros(len(edges) - 1)
        for status in ("correct", "transitional", "incorrect"):
            above = below.copy()
            above[(starts - starts[0]) // width] += rows[status].to_numpy()
            panel.stairs(
                above, edges, baseline=below, fill=True, facecolor=FILLINGS[status], hatch=style.HATCHES[status],
                edgecolor="black", lw=0.4, label=status,
            )  # fmt: skip
            below = above
        name_years(panel)
        panel.set_ylim(bottom=0)
        panel.set_ylabel(f"year contexts in {width} years")
        marks.legend(figure)
    return figure
