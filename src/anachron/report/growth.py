"""Everything that is written about a finished run of growing edits: metrics, the table and the figure."""

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from anachron.evaluate.growth_metrics import OF_MODEL, growth_by_age, growth_metrics, growth_summary
from anachron.io import write_table
from anachron.report.edits import EDITS, Layout, write_edits
from anachron.report.evaluation import drawn
from anachron.report.figures.growth import growth


def _notes(summary: pl.DataFrame) -> list[str]:
    notes = [
        "mean ± half of the 95 % interval (normal; Efficacy-S: Wilson) over the updates made so far, × 100 but for "
        "perplexity, fluency (bits) and seconds an update",
        "Untouched lost: p of neighbour facts of all updates, made or not; Perplexity, Fluency: the whole model's",
    ]
    if "Undone old p ↑" in GROWTH.measured(summary):
        notes.append(
            "Undone: with the middle update taken out again, p of its old object; how far p(new) of the others moved"
        )
    if lost := collapses(summary):
        notes.append(f"collapsed (perplexity at least twice, or fluency at most half, the unedited model's): {lost}")
    return notes


def collapses(summary: pl.DataFrame) -> str:
    """Each method that collapsed with the least number of edits after which it had."""
    first = (
        summary.filter(pl.col("collapsed")).group_by("mode", "method", maintain_order=True).agg(pl.col("edits").min())
    )
    several = summary["mode"].n_unique() > 1
    return ", ".join(
        f"{method}{f' ({mode})' if several else ''} after {edits:,}" for mode, method, edits in first.iter_rows()
    )


GROWTH = Layout(
    "growth",
    "Growing edits",
    "anachron.evaluate.growth_metrics; metrics of updates as in paper 003, section 5",
    {
        **{name: EDITS.columns[name] for name in ("Efficacy-D ↑", "Efficacy-S ↑", "Gen.-S ↑")},
        "Untouched lost ↓": ("untouched_loss", 100, 1),
        "Perplexity ↓": ("perplexity", 1, 1),
        **{name: EDITS.columns[name] for name in ("Fluency ↑", "Seconds ↓")},
    },
    _notes,
    120,
    {
        "Undone old p ↑": ("undone_old", 100, 1),
        "Undone others ↓": ("undone_others", 100, 1),
        "Updated ↑": ("present_updated_global", 100, 1),
        "Kept ↑": ("past_kept_global", 100, 1),
        **{name: EDITS.more[name] for name in ("Says new ↑", "Says old ↓")},
    },
    OF_MODEL,
)


def write_growth(tables: Mapping[str, pl.DataFrame], out: Path) -> tuple[pl.DataFrame, list[str]]:
    """Write what the tables of a run say; returns the summary, and notes on what could not be made.

    ``growth_metrics.parquet`` has one row per number of edits, method and update, ``growth.*`` the table and the
    figure, ``growth_by_age.csv`` success by when an update was made.
    """
    metrics = growth_metrics(tables)
    write_table(out / "growth_metrics.parquet", metrics)
    summary = growth_summary(metrics, tables["untouched"], tables["stages"])
    write_edits(summary, out, GROWTH)
    write_table(out / "growth_by_age.csv", growth_by_age(metrics))
    return summary, drawn(out, GROWTH.name, lambda: growth(summary))
