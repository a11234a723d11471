"""Everything that is written about a finished run of lifelong editing: metrics, the table and the figure."""

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from anachron.evaluate.lifelong_metrics import OF_MODEL, lifelong_by_age
from anachron.evaluate.results import METHOD, method_label
from anachron.evaluate.summaries import of_lifelong
from anachron.io.tables import write_table
from anachron.report.edits.evaluation import drawn
from anachron.report.edits.tables import EDITS, Layout, metric, write_edits
from anachron.report.figures.lifelong import lifelong
from anachron.report.table import DOWN, UP, measured


def _notes(summary: pl.DataFrame) -> list[str]:
    notes = [
        "mean ± half the 95 % interval (Student's t) or [its bounds] (Korn and Graubard) over the updates made so far, "
        "× 100 except for perplexity, fluency (bits) and seconds per update",
        "Locality loss: loss in p of neighbour facts of all updates, made or not; Perplexity, Fluency: of the model",
    ]
    if "Undone old p" in {column.title for column in LIFELONG.measured(summary)}:
        notes.append(
            "Undone: the middle update taken out again; p of its old object, and how far p(new) of the others changed"
        )
    if lost := collapses(summary):
        notes.append(
            f"collapsed (perplexity at least twice, or fluency at most half, that of the unedited model): {lost}"
        )
    return notes


def collapses(summary: pl.DataFrame) -> str:
    """Each method that collapsed with the least number of edits after which it had."""
    first = (
        summary.filter(pl.col("collapsed"))
        .group_by("mode", *METHOD, maintain_order=True)
        .agg(pl.col("edits").min())
        .select("mode", method_label(), "edits")
    )
    several = summary["mode"].n_unique() > 1
    return ", ".join(
        f"{method}{f' ({mode})' if several else ''} after {edits:,}" for mode, method, edits in first.iter_rows()
    )


LIFELONG = Layout(
    name="lifelong",
    title="Lifelong editing",
    source="anachron.evaluate.lifelong_metrics; metrics of updates as in WikiFactDiff, section 5",
    columns=(
        *EDITS.named("Efficacy-D", "Efficacy-S", "Gen.-S"),
        metric("Locality loss", "locality_loss", DOWN),
        metric("Perplexity", "perplexity", DOWN, 1),
        *EDITS.named("Fluency", "Seconds"),
    ),
    notes=_notes,
    more=(
        *EDITS.named("Neighb.-D", "Neighb.-S", "S", "Token acc.", "Exact"),
        metric("Undone old p", "undone_old", UP),
        metric("Undone others", "undone_others", DOWN),
        measured("Updated", "present_updated_global", UP),
        measured("Kept", "past_kept_global", UP),
        *EDITS.named("Output new", "Output old", "Answer new", "Answer old", "Answer neither", "No stop"),
    ),
    of_model=OF_MODEL,
)


def write_lifelong(tables: Mapping[str, pl.DataFrame], out: Path) -> tuple[pl.DataFrame, list[str]]:
    """Write what the tables of a run say; returns the summary, and notes on what could not be made.

    ``lifelong_metrics.parquet`` has one row per number of edits, method and update, ``lifelong.*`` the table and the
    figure, ``lifelong_by_age.csv`` success by when an update was made.
    """
    metrics, summary = of_lifelong(tables)
    write_table(out / "lifelong_metrics.parquet", metrics)
    write_edits(summary, out, LIFELONG)
    write_table(out / "lifelong_by_age.csv", lifelong_by_age(metrics))
    return summary, drawn(out, LIFELONG.name, lambda: lifelong(summary))
