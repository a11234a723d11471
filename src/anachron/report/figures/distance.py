"""Figures by relative distance from the period: probability of the answer, far errors, agreement of granularities."""

from typing import TYPE_CHECKING

import polars as pl

from anachron.plots import marks, style
from anachron.plots.style import COLUMN, FORMATS, GRANULARITIES, PAGE, STATUSES
from anachron.plots.words import prefix_name
from anachron.probe.analyses.transfer import POOLED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOG_PROBABILITY = "mean log Pr(answer)\n(nats)"
AT_MOST, AT_LEAST = "\N{LESS-THAN OR EQUAL TO}", "\N{GREATER-THAN OR EQUAL TO}"
DISTANCE = "relative distance from the period \N{GREEK SMALL LETTER ALPHA}"


def alpha(table: pl.DataFrame) -> "Figure":
    """Mean log-probability of the answer in each bin of alpha, over all models, by the status of the year.

    A panel a format and prefix; the number above a mark is that of its statements; the bins of the period are shaded.
    Source: paper 002, figure 3.
    """
    rows = style.check("alpha", pooled(table), "logp")
    bins = rows.select("bin", "alpha").unique().sort("alpha")["bin"].to_list()
    panels = style.sections(rows)
    with style.sheet(PAGE, 1.9 * len(panels) + 0.6, len(panels), 1, sharex=True) as (figure, axes):
        for panel, (title, part) in zip(axes.flat, panels, strict=True):
            panel.set_title(title)
            _shade(panel, bins, part)
            statuses = style.in_order(part["status"], list(STATUSES))
            crowded = part["bin"].is_duplicated().any()
            for status in statuses:
                own = part.filter(pl.col("status") == status)
                offset = (statuses.index(status) - 1) * 0.25 if crowded else 0.0
                places = [bins.index(b) + offset for b in own["bin"]]
                marks.dots(
                    panel, places, own["logp"], STATUSES[status], low=own["low"], high=own["high"], label=status,
                    upright=True,
                )  # fmt: skip
                for place, row in zip(places, own.iter_rows(named=True), strict=True):
                    panel.annotate(
                        compact(row["statements"]), (place, row["logp"] if row["high"] is None else row["high"]),
                        xytext=(0, 4), textcoords="offset points", ha="center", va="bottom", fontsize=style.SMALL,
                        rotation=90 if crowded else 0,
                    )  # fmt: skip
            panel.set_xticks(
                range(len(bins)),
                [b.replace("<=", AT_MOST).replace("-", marks.MINUS) for b in bins],
                rotation=40,
                ha="right",
                rotation_mode="anchor",
            )
            panel.set_xlim(-0.5, len(bins) - 0.5)
            panel.margins(y=0.2)
            panel.set_ylabel(LOG_PROBABILITY)
        axes[-1, 0].set_xlabel(DISTANCE)
        marks.legend(figure)
    return figure


def _shade(panel: "Axes", bins: list[str], part: pl.DataFrame) -> None:
    """The bins from -0.5 to 0.5, which is the period."""
    inside = part.filter(pl.col("alpha").abs() <= 0.5)["bin"].unique()
    places = [bins.index(b) for b in inside]
    if places:
        panel.axvspan(min(places) - 0.5, max(places) + 0.5, color=style.PALE, lw=0, zorder=0, label="the period")


def compact(count: int) -> str:
    """A count in at most six characters: 950, 12,345, 144k, 1.4M."""
    if count < 100_000:
        return f"{count:,}"
    return f"{count / 1000:.0f}k" if count < 999_500 else f"{count / 1e6:.1f}M"


def alpha_fine(table: pl.DataFrame) -> "Figure":
    """Mean log-probability of the answer in fine bins of alpha at each granularity, over all models, with bands.

    A panel a format and prefix; the line is broken where a bin has no contexts. Source: paper 002, figure 15.
    """
    rows = style.check("alpha_fine", pooled(table), "logp", "alpha")
    panels = style.sections(rows)
    with style.sheet(PAGE, 1.9 * len(panels) + 0.45, len(panels), 1, sharex=True) as (figure, axes):
        for panel, (title, part) in zip(axes.flat, panels, strict=True):
            panel.set_title(title)
            panel.axvspan(-0.5, 0.5, color=style.PALE, lw=0, zorder=0, label="the period")
            for granularity in style.in_order(part["granularity"], list(GRANULARITIES)):
                own = part.filter(pl.col("granularity") == granularity).sort("alpha")
                marks.line(
                    panel, own["alpha"], own["logp"], GRANULARITIES[granularity], low=own["low"], high=own["high"],
                    label=granularity, step=0.15, markersize=2.2,
                )  # fmt: skip
            panel.set_xlim(-5, 5)
            panel.set_ylabel(LOG_PROBABILITY)
        axes[-1, 0].set_xlabel(DISTANCE)
        marks.legend(figure)
    return figure


def far_errors(table: pl.DataFrame) -> "Figure":
    """Share of lost matches at least 1, 2, 3 and 4 periods away, by how well a fact seems known, over the models.

    A panel a format and prefix; the mean over facts (the papers' average) with bootstrap intervals; the number of
    facts is that of pairs of model and fact. Source: paper 002, figures 4 and 7.
    """
    chosen = style.check("far_errors", pooled(table).filter(pl.col("average") == "facts"), "share")
    panels = style.sections(chosen)
    columns = min(2, len(panels))
    down = -(-len(panels) // columns)
    thresholds = sorted(chosen["threshold"].unique())
    distances = sorted(chosen["alpha"].unique())
    offsets = dict(zip(thresholds, marks.spread(len(thresholds), 0.5), strict=True))
    size = (COLUMN if columns == 1 else PAGE, 2.6 * down)
    with style.sheet(*size, down, columns, sharex=True, sharey=True) as (_, axes):
        for panel, (title, part) in zip(axes.flat, panels, strict=False):
            panel.set_title(title)
            for threshold in thresholds:
                own = part.filter(pl.col("threshold") == threshold).sort("alpha")
                if own.height:
                    seen = style.look(thresholds.index(threshold))
                    marks.dots(
                        panel, own["alpha"] + offsets[threshold], own["share"], seen, low=own["low"], high=own["high"],
                        label=f"{AT_LEAST} {100 * threshold:g} % ({own['facts'][0]:,})",
                        upright=True, joined=True,
                    )  # fmt: skip
            panel.set_xticks(distances, [f"{AT_LEAST} {d:g}" for d in distances])
            panel.xaxis.set_tick_params(labelbottom=True)
            panel.set_xlabel(f"|{DISTANCE[-1]}| of the incorrect year")
            panel.legend(
                loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=2, borderpad=0,
                title="win rate W, below 100 % (number of facts)", title_fontsize=style.SMALL,
            )  # fmt: skip
        marks.blank(axes.flat[len(panels) :])
        for panel in axes[:, 0]:
            panel.set_ylabel("share of lost matches")
            marks.in_percent(panel, "y")
        axes[0, 0].set_ylim(bottom=0)
    return axes[0, 0].figure


def agreement(table: pl.DataFrame) -> "Figure":
    """How often two granularities agree on an incorrect context, by alpha, raw text and chat, with bands.

    A panel a prefix. Source: paper 002, figure 8.
    """
    rows = style.check("agreement", table, "accuracy", "alpha_low", "alpha_high")
    prefixes = style.in_order(rows["prefix"], ["none"])
    with style.sheet(COLUMN, 1.8 * len(prefixes) + 0.45, len(prefixes), 1, sharex=True, sharey=True) as (figure, axes):
        for panel, prefix in zip(axes.flat, prefixes, strict=True):
            if len(prefixes) > 1:
                panel.set_title(prefix_name(prefix))
            panel.axvspan(-0.5, 0.5, color=style.PALE, lw=0, zorder=0, label="the period")
            part = rows.filter(pl.col("prefix") == prefix)
            for form in style.in_order(part["format"], list(FORMATS)):
                own = part.filter(pl.col("format") == form).sort("alpha_low")
                marks.line(
                    panel, (own["alpha_low"] + own["alpha_high"]) / 2, own["accuracy"], FORMATS[form],
                    low=own["low"], high=own["high"], label=style.format_name(form), step=0.75,
                )  # fmt: skip
            panel.set_xlim(-5, 5)
            panel.set_ylabel("agreement")
            marks.in_percent(panel, "y")
        axes[-1, 0].set_xlabel(DISTANCE)
        marks.legend(figure)
    return figure


def pooled(table: pl.DataFrame) -> pl.DataFrame:
    """The rows over all models that were pooled."""
    return table.filter(pl.col("model") == POOLED)
