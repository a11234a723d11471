"""Figure of how methods keep the past: present updated (right) against past kept (up), a point a method."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from anachron.analysis.plots import marks, style
from anachron.analysis.plots.style import COLUMN, Look
from anachron.core.labels import PLAIN, Variant, label_of
from anachron.evaluate.results import METHOD, UNEDITED, method_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ACROSS, UP = "present_updated_global", "past_kept_global"
HEIGHT = 2.6  # of a panel, inches
RING = 7.0  # the clean model's marker, points: a method that changes nothing can be seen inside it


def present_and_past(summary: pl.DataFrame) -> "Figure":
    """Shares of dates after the change on which the new object wins, and of dates before it on which the old one does.

    summary: rows of `anachron.evaluate.metrics.summarise` of dated metrics; each mode is a panel. Lines are the 95 %
    intervals. Top right is where an update belongs; a method that erases the past lies at the bottom right, and a
    model that never heard of the change at the top left.
    """
    made_by = "anachron.evaluate.measures.dated_metrics.dated_metrics and summarise"
    rows = style.check("present_and_past", summary, ACROSS, UP, made_by=made_by)
    looks = method_looks(rows.sort(pl.col("method") != UNEDITED, maintain_order=True).select(*METHOD).rows())
    methods, rows = list(looks), rows.with_columns(method_label())
    modes = rows["mode"].unique(maintain_order=True).to_list()
    width = COLUMN if len(modes) == 1 else style.PAGE
    height = HEIGHT + 0.3 + marks.legend_height(methods, width)
    with style.sheet(width, height, 1, len(modes), sharex=True, sharey=True) as (figure, axes):
        for panel, mode in zip(axes[0], modes, strict=True):
            if len(modes) > 1:
                panel.set_title(mode)
            for row in rows.filter(pl.col("mode") == mode).iter_rows(named=True):
                x, y, look = [row[ACROSS]], [row[UP]], looks[row["method"]]
                ends = {name: ([row[f"{name}_low"]], [row[f"{name}_high"]]) for name in (ACROSS, UP)}
                size = RING if row["method"] == UNEDITED else None
                low, high = ends[UP]
                marks.dots(panel, x, y, look, low=low, high=high, upright=True, size=size)
                low, high = ends[ACROSS]
                marks.dots(panel, y, x, look, low=low, high=high, label=row["method"], size=size)
            panel.set_xlim(-0.02, 1.02)
            panel.set_ylim(-0.02, 1.02)
            for axis in ("x", "y"):
                marks.in_percent(panel, axis)
            panel.set_xlabel("present updated")
        axes[0, 0].set_ylabel("past kept")
        marks.legend(figure)
    return figure


def method_looks(methods: Sequence[tuple[str, Variant]]) -> dict[str, Look]:
    """By label a colour and marker a method, hollow where its requests say dates, METO's a star."""
    names = list(dict.fromkeys(name for name, _ in methods if name != UNEDITED))
    looks = {}
    for name, variant in methods:
        look = Look(style.GREY, "o") if name == UNEDITED else style.look(names.index(name))
        look = replace(look, marker="*") if variant == "METO" else look
        looks[label_of(name, variant)] = replace(look, hollow=variant != PLAIN or name == UNEDITED)
    return looks
