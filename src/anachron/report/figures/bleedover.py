"""Figure of bleedover by how similar a neighbour is to the updated fact, and how popular."""

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from anachron.analysis.plots import marks, style
from anachron.analysis.plots.style import COLUMN, PAGE, PALE
from anachron.evaluate.measures.dated_metrics import EDGES
from anachron.evaluate.results import METHOD, NEIGHBOUR_KINDS, method_label
from anachron.report.figures.present_and_past import method_looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ACROSS = 3  # heat maps side by side
TITLE = 34  # letters a line above a map
LIGHTEST, DARKEST = 2.0, 4.0  # times a method's mean, that the darkest colour stands for at least and at most
AXES = ("similarity", "popularity")


def bleedover(table: pl.DataFrame) -> "Figure":
    """Bleedover in bins of similarity (up) and popularity (right), a map a method, 1 being the method's own mean.

    table: rows of `bleedover_bins`; each mode begins a line of maps. All maps share bins and colours, from white at 0
    to the darkest at the largest value, though at 2 at least, so that small differences look small, and at 4 at most,
    so that one cell of few neighbours does not pale all others. Ticks stand at the edges of bins. Grey is a cell
    without neighbours, or a method without any bleedover. Source: WikiFactDiff, figure 2.
    """
    made_by = "anachron.evaluate.by_popularity.bleedover_bins"
    shown = style.check("bleedover", table, "normalised", made_by=made_by)["normalised"].to_list()
    rows = style.check(
        "bleedover", table, *(f"{name}_{part}" for name in AXES for part in ("bin", "low", "high")), made_by=made_by
    )
    top = min(max(*shown, LIGHTEST), DARKEST)
    lines = _lines(rows.with_columns(method_label()))
    across, down = max(map(len, lines)), len(lines)
    taller = max(marks.lines_of([title], TITLE) for line in lines for title, _ in line) - 1
    size = (COLUMN if across == 1 else PAGE, down * (1.9 + marks.PITCH * taller) + 0.6)
    with style.sheet(*size, down, across, sharex=True, sharey=True) as (figure, axes):
        figure.get_layout_engine().set(wspace=0.05)
        for number, line in enumerate(lines):
            below = len(lines[number + 1]) if number + 1 < down else 0
            for place, (title, cells) in enumerate(line):
                panel = axes[number, place]
                panel.set_title(style.folded(title, TITLE))
                _map(panel, rows, cells, top)
                if place >= below:  # nothing is drawn below that would have the ticks
                    panel.xaxis.set_tick_params(labelbottom=True)
            marks.blank(axes[number, len(line) :])
        figure.suptitle("bleedover / mean bleedover of the method", x=0.01, ha="left", fontsize=7.5)
        figure.supxlabel("popularity of the neighbour")
        figure.supylabel("similarity to the updated subject")
    return figure


def _lines(rows: pl.DataFrame) -> list[list[tuple[str, pl.DataFrame]]]:
    """Titles and rows of the maps, line by line."""
    modes = rows["mode"].unique(maintain_order=True)
    lines = []
    for mode in modes:
        part = rows.filter(pl.col("mode") == mode)
        methods = part["method"].unique(maintain_order=True)
        maps = [(f"{m}, {mode}" if len(modes) > 1 else m, part.filter(pl.col("method") == m)) for m in methods]
        lines += [maps[first : first + ACROSS] for first in range(0, len(maps), ACROSS)]
    return lines


def _map(panel: "Axes", rows: pl.DataFrame, cells: pl.DataFrame, top: float) -> None:
    """rows: of all methods, which have the bins of any. cells: of one."""
    up, right = (_edges(rows, name) for name in AXES)
    high, wide = len(up) - 1, len(right) - 1
    values = np.full((high, wide), np.nan)
    texts = [[""] * wide for _ in range(high)]
    for row in cells.drop_nulls("normalised").iter_rows(named=True):
        i, j = high - row["similarity_bin"], row["popularity_bin"] - 1  # the most similar at the top
        values[i, j] = min(row["normalised"] / top, 1.0)
        texts[i][j] = f"{row['normalised']:.1f}"
    panel.set_facecolor(PALE)
    marks.heat_map(panel, values, texts, aspect="auto")
    if not np.isfinite(values).any():
        panel.text((wide - 1) / 2, (high - 1) / 2, "no bleedover", ha="center", va="center", fontsize=style.SMALL)
    panel.set_xticks(np.arange(wide + 1) - 0.5, [_short(edge) for edge in right])
    panel.set_yticks(np.arange(high + 1) - 0.5, [f"{edge:z.2f}" for edge in reversed(up)])
    panel.tick_params(axis="x", pad=6)  # clear of the lowest tick at the left
    ticks = panel.xaxis.get_major_ticks()
    ticks[0].label1.set_horizontalalignment("left")  # clear of the map beside
    ticks[-1].label1.set_horizontalalignment("right")


def _edges(rows: pl.DataFrame, name: str) -> list[float]:
    bins = rows.select(f"{name}_bin", f"{name}_low", f"{name}_high").unique().sort(f"{name}_bin")
    return [*bins[f"{name}_low"], bins[f"{name}_high"][-1]]


def _short(value: float) -> str:
    """Two digits that count, as 8.3, 120, 45k."""
    return marks.short_count(float(f"{value:.2g}"))


HEIGHT = 1.9  # of a line of panels, inches
APART, WIDEST = 2.5, 8.0  # points on paper between the marks of two methods at one date, and of all together at most
CHANGE = "the change"


def bleedover_by_date(table: pl.DataFrame) -> "Figure":
    """Mean bleedover (up) against years from the change (right), with 95 % intervals; nearest and random side by side.

    table: rows of `anachron.evaluate.measures.dated_metrics.bleedover_by_date`; each mode is a line of panels. A mark
    stands at the mean of its bin's dates, and is moved a little on paper where there are several methods, so that all
    intervals can be seen; ticks stand at the edges of bins. Panels share their axes, so that methods that change near
    facts more than random ones are seen to. The axis begins at 0, which symmetric intervals may reach beyond.
    """
    made_by = "anachron.evaluate.measures.dated_metrics.bleedover_by_date"
    rows = style.check("bleedover_by_date", table, "bleedover", "years", made_by=made_by)
    looks = method_looks(rows.select(*METHOD).unique(maintain_order=True).rows())
    methods, rows = list(looks), rows.with_columns(method_label())
    apart = min(APART, WIDEST / max(len(methods) - 1, 1))
    modes = rows["mode"].unique(maintain_order=True).to_list()
    kinds = style.in_order(rows["kind"], NEIGHBOUR_KINDS)
    width = COLUMN if len(kinds) == 1 else PAGE
    height = HEIGHT * len(modes) + 0.25 + marks.legend_height([*methods, CHANGE], width)
    with style.sheet(width, height, len(modes), len(kinds), sharex=True, sharey=True) as (figure, axes):
        for line, mode in zip(axes, modes, strict=True):
            for panel, kind in zip(line, kinds, strict=True):
                panel.set_title(f"{kind} facts, {mode}" if len(modes) > 1 else f"{kind} facts")
                marks.reference(panel, 0, label=CHANGE)
                panel.set_xticks(EDGES, [f"{edge:+g}".replace("-", marks.MINUS) if edge else "0" for edge in EDGES])
                for number, method in enumerate(methods):
                    shift = apart * (number - (len(methods) - 1) / 2)
                    bins = rows.filter(mode=mode, kind=kind, method=method).sort("bin")
                    marks.dots(
                        panel, bins["years"], bins["bleedover"], looks[method], low=bins["bleedover_low"],
                        high=bins["bleedover_high"], label=method, upright=True, joined=True, shift=shift,
                    )  # fmt: skip
            line[0].set_ylabel("bleedover")
            marks.in_percent(line[0], "y")
        axes[0, 0].set_ylim(bottom=0)
        for panel in axes[-1]:
            panel.set_xlabel("years from the change")
        marks.legend(figure)
    return figure
