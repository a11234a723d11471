"""Figures of transfer between granularities and of overlap between models: heat maps with their numbers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from anachron.core.dates import GRANULARITIES
from anachron.plots import marks, style
from anachron.plots.style import PAGE
from anachron.plots.words import prefix_name
from anachron.probe.analyses.transfer import POOLED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NARROW = 6  # models whose overlaps fit a column
ACROSS = 4  # heat maps side by side
TITLE = 19  # letters a line above a map
SINGLE = 7  # models shown beside the pooled ones, so two lines of heat maps a format and prefix


def transfer(table: pl.DataFrame) -> "Figure":
    """Share of the facts known at one granularity that are known at another, with intervals, in per cent.

    Per format and prefix a 3 x 3 map of the pooled models, then of the seven models with the most known facts at
    most. Source: paper 002, figures 6, 9 and 10.
    """
    style.check("transfer", table, "rate")
    lines: list[list[tuple[str, str, pl.DataFrame]]] = []
    for title, part in style.sections(table):
        models = _most_known(part)
        shown = [POOLED, *models[:SINGLE]] if POOLED in part["model"] else models[:SINGLE]
        few = f", {SINGLE} of {len(models)} models" if len(models) > SINGLE else ""
        maps = [(model, part.filter(pl.col("model") == model)) for model in shown]
        for first in range(0, len(maps), ACROSS):
            heads = [style.folded(f"{title}{few}", TITLE) + "\n" if first == n == 0 else "" for n in range(ACROSS)]
            lines.append([(head, *m) for head, m in zip(heads, maps[first : first + ACROSS], strict=False)])
    return _grid(lines)


def _grid(lines: Sequence[Sequence[tuple[str, str, pl.DataFrame]]]) -> "Figure":
    tallest = [max(marks.lines_of([name], TITLE) + head.count("\n") for head, name, _ in line) for line in lines]
    with style.sheet(PAGE, sum(1.65 + 0.13 * n for n in tallest), len(lines), ACROSS) as (figure, axes):
        for across, line in zip(axes, lines, strict=True):
            for panel, (head, name, part) in zip(across, line, strict=False):
                panel.set_title(head + style.folded(name, TITLE))
                _three_by_three(panel, part)
            across[0].set_ylabel("known at")
            across[0].set_xlabel("also known at")
            marks.blank(across[len(line) :])
    return figure


def _three_by_three(panel: "Axes", part: pl.DataFrame) -> None:
    """Rows are the granularity at which facts are known (b), columns the one at which they are too (a)."""
    rates = np.full((3, 3), np.nan)
    texts = [["\N{EN DASH}"] * 3 for _ in GRANULARITIES]
    for row in part.iter_rows(named=True):
        i, j = GRANULARITIES.index(row["b"]), GRANULARITIES.index(row["a"])
        if row["rate"] is not None:
            rates[i, j] = row["rate"]
            texts[i][j] = f"{100 * row['rate']:.0f}"
            if row["low"] is not None:
                texts[i][j] += f"\n{100 * row['low']:.0f}\N{EN DASH}{100 * row['high']:.0f}"
    marks.heat_map(panel, rates, texts)
    panel.set_xticks(range(3), GRANULARITIES)
    panel.set_yticks(range(3), GRANULARITIES)


def _most_known(part: pl.DataFrame) -> list[str]:
    """Single models by how many facts they know at the three granularities together."""
    own = part.filter(pl.col("model") != POOLED, pl.col("a") == pl.col("b"))
    known = own.group_by("model").agg(pl.col("known_b").sum())
    return known.sort(["known_b", "model"], descending=[True, False])["model"].to_list()


def transfer_mean(table: pl.DataFrame) -> "Figure":
    """Mean transfer between two different granularities with each prefix, and the lowest and highest of the six.

    The pooled models first. Rows of a model without a mean are left out. Source: paper 002, figures 6 and 10.
    """
    rows = style.check("transfer_mean", table, "rate")
    named = rows.with_columns(pl.Series("row", style.run_labels(rows, "format")))
    order = style.in_order(named["row"], [r for r in named["row"] if r.split(",")[0] == POOLED])
    prefixes = style.in_order(named["prefix"], ["none"])
    height = marks.rows_height(order, least=0.1 + 0.1 * len(prefixes)) + 0.6
    width = style.COLUMN if max(map(len, order)) <= 20 else PAGE
    with style.sheet(width, height) as (figure, axes):
        panel = axes[0, 0]
        marks.name_rows(panel, order)
        for number, (prefix, offset) in enumerate(zip(prefixes, marks.spread(len(prefixes)), strict=True)):
            own = named.filter(pl.col("prefix") == prefix)
            marks.dots(
                panel, [order.index(name) + offset for name in own["row"]], own["rate"], style.look(number),
                low=own["lowest"], high=own["highest"], label=prefix_name(prefix),
            )  # fmt: skip
        panel.set_xlabel("mean transfer (line: lowest to highest of six)")
        marks.in_percent(panel)
        marks.at_least(panel, 0.1, within=(0, 1.02))
        if len(prefixes) > 1:
            marks.legend(figure)
    return figure


def overlap(table: pl.DataFrame) -> "Figure":
    """Jaccard index, in per cent, of the globally robust facts of every two models of a format and prefix.

    Source: paper 002, section 4.2.
    """
    style.check("overlap", table, "jaccard")
    panels = style.sections(table)
    orders = [list(dict.fromkeys([*part["model"], *part["other"]])) for _, part in panels]
    most = max(map(len, orders))
    heights = [marks.rows_height(order, least=0.24) for order in orders]
    size = (style.COLUMN if most <= NARROW else PAGE, sum(heights) + 0.45 * len(panels))
    with style.sheet(*size, len(panels), 1, gridspec_kw={"height_ratios": heights}) as (figure, axes):
        for panel, (title, part), order in zip(axes.flat, panels, orders, strict=True):
            values = np.full((len(order), len(order)), np.nan)
            texts = [[""] * len(order) for _ in order]
            for row in part.iter_rows(named=True):
                j, i = sorted((order.index(row["model"]), order.index(row["other"])))
                values[i, j] = np.nan if row["jaccard"] is None else row["jaccard"]
                texts[i][j] = "\N{EN DASH}" if row["jaccard"] is None else f"{100 * row['jaccard']:.0f}"
            marks.heat_map(panel, values, texts, aspect="auto")
            panel.set_title(title)
            panel.set_yticks(
                range(len(order)), [f"{style.folded(m, marks.LETTERS)}  {n}" for n, m in enumerate(order, 1)]
            )
            panel.set_xticks(range(len(order)), [str(n) for n in range(1, len(order) + 1)])
            panel.set_xlim(-0.5, most - 0.5)  # so that a model has the same width in all panels
    return figure
