"""Figure of bleedover by date: what neighbours lose on dates before and after the change, a line a method."""

from typing import TYPE_CHECKING

import polars as pl

from anachron.analysis.plots import marks, style
from anachron.analysis.plots.style import COLUMN, PAGE
from anachron.evaluate.measures.dated_metrics import EDGES
from anachron.evaluate.results import METHOD, NEIGHBOUR_KINDS, method_label
from anachron.report.figures.present_and_past import method_looks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
