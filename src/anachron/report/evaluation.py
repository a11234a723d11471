"""Everything that is written about a finished evaluation of edits: metrics, tables and the figure of bleedover."""

from pathlib import Path

import polars as pl

from anachron.errors import ConfigError, DataError
from anachron.evaluate.metrics import bleedover_bins, summarise, update_metrics
from anachron.io import write_table
from anachron.report.edits import write_edits
from anachron.report.figures import write_figure
from anachron.report.figures.bleedover import bleedover

FIGURE = "bleedover"


def write_evaluation(
    targets: pl.DataFrame, neighbours: pl.DataFrame, updates: pl.DataFrame, out: Path,
    objects: pl.DataFrame | None = None, said: pl.DataFrame | None = None,
) -> tuple[pl.DataFrame, list[str]]:  # fmt: skip
    """Write what the tables of a run (`anachron.evaluate.results`) say; returns the summary, and notes.

    ``metrics.parquet`` has one row per method and update, ``edits.*`` the table of paper 003, ``bleedover.csv`` and the
    figure of that name bleedover by similarity and popularity. What cannot be made is left out, and a note says why.
    """
    metrics = update_metrics(targets, neighbours, updates, objects, said)
    write_table(out / "metrics.parquet", metrics)
    summary = summarise(metrics)
    write_edits(summary, out)
    notes = []
    for stale in (f"{FIGURE}.csv", f"{FIGURE}.svg", f"{FIGURE}.pdf"):
        (out / stale).unlink(missing_ok=True)
    try:
        bins = bleedover_bins(neighbours)
        write_table(out / f"{FIGURE}.csv", bins)
        write_figure(bleedover(bins), out, FIGURE)
    except (DataError, ConfigError) as error:  # popularity is unknown, or the extra is not installed
        notes.append(f"no figure of bleedover: {error}")
    return summary, notes
