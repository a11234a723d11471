"""What the page draws of each table: Plotly traces and layouts as plain records, without Plotly.

A chart has one view or more, of which the page shows one at a time. Colours are names such as ``@0`` or ``@ink``,
which the page turns into those of its light or dark theme; texts that come from data are escaped, for Plotly reads
a little HTML. A table without an entry in `CHARTS` is shown as a table.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import polars as pl

from anachron.io import Json
from anachron.plots.traces import Looks
from anachron.report.page import charts_of_facts as of_facts
from anachron.report.page import charts_of_runs as of_runs


@dataclass(frozen=True)
class Chart:
    """How a table is drawn (its views) and how that is read, in a sentence."""

    draw: Callable[[pl.DataFrame, Looks], list[Json]]
    note: str


INTERVALS = "Bars are 95 % intervals over facts."
CHARTS: Mapping[str, Chart] = {
    "summary": Chart(of_runs.summary, f"A random scorer has W 50 % and R near 0. {INTERVALS}"),
    "alpha": Chart(
        of_facts.alpha,
        "Filled: dates when the fact held; open: dates when it did not; diamonds: undecided ones. A model that knows "
        f"peaks in the middle. {INTERVALS}",
    ),
    "alpha_fine": Chart(of_facts.alpha_fine, "The shaded part is the period itself, from start to end."),
    "far_errors": Chart(
        of_runs.far_errors,
        "Of the matches that a fact lost although it seems known, the share that went to a date so far away. One "
        "length of the period away is alpha 1.",
    ),
    "formats": Chart(of_runs.differences, f"Chat minus raw: above the line, chat is better. {INTERVALS}"),
    "transfer": Chart(
        of_runs.transfer, "Of the facts known (R = 1) by the dates of a column, the share known by those of a row."
    ),
    "transfer_mean": Chart(of_runs.transfer_mean, "Bars reach from the lowest to the highest of the six."),
    "agreement": Chart(of_facts.agreement, "Of wrong dates, how often year, month and day are judged alike."),
    "prefixes": Chart(of_runs.differences, f"With the prefix minus without: above the line, it helps. {INTERVALS}"),
    "granularity_variance": Chart(of_runs.granularity_variance, "Below 1, the prefix makes granularities more alike."),
    "sizes": Chart(of_runs.sizes, f"Each line is a family; dashed: base models. {INTERVALS}"),
    "base_and_instruct": Chart(of_runs.base_and_instruct, "A win is a fact that the instruct model holds better."),
    "correlations": Chart(of_facts.correlations, "Right of 0: the larger, the better known."),
    "factor_bins": Chart(of_facts.factor_bins, f"Facts in up to ten groups of like value. {INTERVALS}"),
    "relations": Chart(of_facts.relations, "The ten relations with the highest R; few facts make wide bars."),
    "overlap": Chart(of_runs.overlap, "Jaccard index of the robust facts: 1 where two models know the same ones."),
    "comparison": Chart(of_runs.differences, f"Each model minus the baseline, on the same facts. {INTERVALS}"),
    "margins": Chart(of_runs.margins, "At 0 this is R; further right, every match must be won more clearly."),
    "years": Chart(of_facts.years, "Where on the calendar the data set asks."),
}


def views_of(name: str, table: pl.DataFrame, looks: Looks) -> list[Json]:
    """What the page draws of a table: views with ``label, data, layout``; none where there is nothing to draw."""
    if name not in CHARTS or not table.height:
        return []
    return [view for view in CHARTS[name].draw(table, looks) if view["data"]]
