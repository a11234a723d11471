"""Figures of W and R: per model and granularity, and by the margin that matches are won by."""

from typing import TYPE_CHECKING

import polars as pl

from anachron.metrics import GLOBAL
from anachron.plots import marks, style
from anachron.plots.style import GRANULARITIES, GRANULARITY_NAMES, PAGE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MANY, TOP = 8, 5  # with more models than MANY, the TOP most robust have a block of their own
SCORES = {"win_rate": "win rate W", "robustness": "robustness R"}


def summary(table: pl.DataFrame) -> "Figure":
    """W and R of each model at each granularity with intervals, the most robust model first.

    One block of rows a format and prefix; where there are more than eight models, the five most robust have a block of
    their own before it. Source: paper 002, figures 2 and 12.
    """
    rows = style.check("summary", table, *SCORES)
    blocks = []
    for title, part in style.sections(rows):
        models = by_robustness(part)
        if len(models) > MANY:
            blocks.append((f"{title}: the {TOP} most robust models", part, models[:TOP]))
            title = f"{title}: all models"
        blocks.append((title, part, models))
    found = style.in_order(rows["granularity"], list(GRANULARITIES))
    heights = [
        marks.rows_height(models, least=(0.09 if len(models) <= MANY else 0.07) * len(found)) for _, _, models in blocks
    ]
    height = sum(heights) + 0.26 * len(blocks) + 0.65
    with style.sheet(
        PAGE, height, len(blocks), 2, sharex="col", sharey="row", gridspec_kw={"height_ratios": heights}
    ) as (figure, axes):
        for across, (title, part, models) in zip(axes, blocks, strict=True):
            across[0].set_title(title)
            for panel, score in zip(across, SCORES, strict=True):
                marks.name_rows(panel, models)
                for granularity, offset in zip(found, marks.spread(len(found)), strict=True):
                    own = part.filter(pl.col("granularity") == granularity, pl.col("model").is_in(models))
                    marks.dots(
                        panel, [models.index(m) + offset for m in own["model"]], own[score],
                        GRANULARITIES[granularity], low=own[f"{score}_low"], high=own[f"{score}_high"],
                        label=GRANULARITY_NAMES.get(granularity, granularity),
                    )  # fmt: skip
            marks.reference(across[0], 0.5, label="random scorer")
        for panel, name in zip(axes[-1], SCORES.values(), strict=True):
            panel.set_xlabel(name)
            marks.in_percent(panel)
        axes[-1, 1].set_xlim(left=0)
        marks.legend(figure)
    return figure


def by_robustness(part: pl.DataFrame) -> list[str]:
    """Models by R over all granularities (their mean where no fact has all three), then W, then name."""
    together = part.filter(pl.col("granularity") == GLOBAL)
    ranked = (together if together.height else part).group_by("model").agg(pl.col("robustness", "win_rate").mean())
    return ranked.sort(["robustness", "win_rate", "model"], descending=[True, True, False])["model"].to_list()


def margins(table: pl.DataFrame) -> "Figure":
    """R against the margin (nats) that every match of a fact has to be won by, over all granularities.

    A panel a format and prefix; the eight most robust models have a look each, the others are thin grey lines. Where no
    fact has all three granularities, the one that is there.
    """
    rows, said = one_granularity(style.check("margins", table, "robustness", "margin"))
    panels = style.sections(rows)
    columns = min(2, len(panels))
    down = -(-len(panels) // columns)
    leaders = [_by_first(part)[:MANY] for _, part in panels]
    models = list(dict.fromkeys(model for group in leaders for model in group))
    width = style.COLUMN if columns == 1 else PAGE
    height = 2.2 * down + marks.legend_height([*models, "other models"], width)
    with style.sheet(width, height, down, columns, sharex=True, sharey=True) as (figure, axes):
        for panel, (title, part), leading in zip(axes.flat, panels, leaders, strict=False):
            panel.set_title(title)
            for model in [*leading, *(m for m in part["model"].unique(maintain_order=True) if m not in leading)]:
                own = part.filter(pl.col("model") == model).sort("margin")
                if model in leading:
                    seen = style.look(models.index(model))
                    marks.dots(panel, own["margin"], own["robustness"], seen, label=model, upright=True, joined=True)
                else:
                    panel.plot(own["margin"], own["robustness"], color=style.GREY, lw=0.5, label="other models")
            panel.locator_params(axis="x", nbins=5)
            panel.xaxis.set_tick_params(labelbottom=True)
            panel.set_xlabel("margin of every match (nats)")
        marks.blank(axes.flat[len(panels) :])
        for panel in axes[:, 0]:
            panel.set_ylabel(f"robustness R\n({said})")
            marks.in_percent(panel, "y")
        axes[0, 0].set_ylim(bottom=0)
        marks.legend(figure)
    return figure


def one_granularity(table: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """The rows over all granularities, or else of the coarsest that there is, and how to call them."""
    for granularity in (GLOBAL, *(g for g in GRANULARITIES if g != GLOBAL)):
        rows = table.filter(pl.col("granularity") == granularity)
        if rows.height:
            return rows, "all granularities" if granularity == GLOBAL else granularity
    return table, "granularity unknown"


def _by_first(part: pl.DataFrame) -> list[str]:
    """Models by R at the smallest margin, the highest first."""
    first = part.filter(pl.col("margin") == part["margin"].min())
    return first.sort(["robustness", "model"], descending=[True, False])["model"].to_list()
