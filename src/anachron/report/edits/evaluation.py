"""Everything that is written about a finished evaluation of edits: metrics, tables and figures."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from anachron.core.errors import ConfigError, DataError
from anachron.evaluate.by_entity import by_entity
from anachron.evaluate.by_popularity import bleedover_bins, bleedover_by_popularity, by_popularity
from anachron.evaluate.measures.dated_metrics import bleedover_by_date, by_way
from anachron.evaluate.paired_tests import OF_DATED, OF_EDITS, paired_tests
from anachron.evaluate.summaries import of_dates, of_edits
from anachron.io.tables import write_table
from anachron.report.edits.dated import DATED, DATED_WAYS
from anachron.report.edits.paired_tests import write_tests
from anachron.report.edits.tables import write_edits
from anachron.report.figures import remove_figure, write_figure
from anachron.report.figures.bleedover import bleedover
from anachron.report.figures.bleedover import bleedover_by_date as draw_by_date
from anachron.report.figures.present_and_past import present_and_past

FIGURE, BY_DATE, BY_POPULARITY = "bleedover", "bleedover_by_date", "by_popularity.csv"
NEIGHBOURS_BY_POPULARITY, BY_ENTITY = "bleedover_by_popularity.csv", "by_entity.csv"
TESTS, DATED_TESTS = "paired_tests", "present_and_past_tests"


def write_evaluation(tables: Mapping[str, pl.DataFrame], out: Path) -> tuple[pl.DataFrame, list[str]]:
    """Write what the tables of a run (`anachron.evaluate.results`) say; returns the summary, and notes.

    ``metrics.parquet`` has one row per method and update, ``edits.*`` the table of WikiFactDiff, ``paired_tests.*`` the
    methods against the unedited model, ``bleedover.csv`` and the figure of that name bleedover by similarity and
    popularity. What cannot be made is left out, and a note says why. ``by_popularity.csv`` is the summary by the
    popularity of the subject, ``bleedover_by_popularity.csv`` bleedover by that of the neighbours, each where one is
    known; ``by_entity.csv``, in the mode entity, how many entities have all their updates.
    """
    metrics, summary = of_edits(tables)
    write_table(out / "metrics.parquet", metrics)
    for name in (BY_POPULARITY, NEIGHBOURS_BY_POPULARITY, BY_ENTITY):
        (out / name).unlink(missing_ok=True)
    if metrics["popularity"].is_not_null().any():
        write_table(out / BY_POPULARITY, by_popularity(metrics))
    if tables["neighbours"]["popularity"].is_not_null().any():
        by_neighbour = bleedover_by_popularity(tables["neighbours"], tables["updates"])
        write_table(out / NEIGHBOURS_BY_POPULARITY, by_neighbour)
    if (of_entities := metrics.filter(pl.col("mode") == "entity")).height:
        write_table(out / BY_ENTITY, by_entity(of_entities))
    write_edits(summary, out)
    write_tests(paired_tests(metrics, OF_EDITS), out, TESTS)
    (out / f"{FIGURE}.csv").unlink(missing_ok=True)

    def draw() -> Any:
        bins = bleedover_bins(tables["neighbours"])
        write_table(out / f"{FIGURE}.csv", bins)
        return bleedover(bins)

    return summary, drawn(out, FIGURE, draw)


def write_dated(tables: Mapping[str, pl.DataFrame], out: Path) -> tuple[pl.DataFrame, list[str]]:
    """Write what the dated tables of a run say; returns the summary, and notes.

    ``dated_metrics.parquet`` has one row per method and update, ``present_and_past.*`` the table and the figure,
    ``present_and_past_by_way.*`` the table by way of asking,
    ``present_and_past_tests.*`` the methods against the unedited model,
    ``bleedover_by_date.csv`` and the figure of that name bleedover by the date's distance from the change.
    """
    metrics, summary = of_dates(tables)
    write_table(out / "dated_metrics.parquet", metrics)
    write_edits(summary, out, DATED)
    write_edits(by_way(summary), out, DATED_WAYS)
    write_tests(paired_tests(metrics, OF_DATED), out, DATED_TESTS)
    by_date = bleedover_by_date(tables["dated_neighbours"], tables["updates"])
    write_table(out / f"{BY_DATE}.csv", by_date)
    notes = drawn(out, DATED.name, lambda: present_and_past(summary))
    return summary, notes + drawn(out, BY_DATE, lambda: draw_by_date(by_date))


def drawn(out: Path, name: str, draw: Callable[[], Any]) -> list[str]:
    """Write a figure, or leave none of an earlier run and say why."""
    remove_figure(out, name)
    try:
        write_figure(draw(), out, name)
    except (DataError, ConfigError) as error:  # popularity is unknown, or the extra is not installed
        return [f"no figure of {name.replace('_', ' ')}: {error}"]
    return []
