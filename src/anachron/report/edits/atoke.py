"""The table of AToKe's scores (`anachron.evaluate.measures.atoke_metrics`), beside that of present and past."""

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from anachron.evaluate.measures.atoke_metrics import ATOKE_METRICS, SCORES, SUCCESS
from anachron.evaluate.summaries import of_atoke
from anachron.io.tables import write_table
from anachron.report.edits.tables import Layout, write_edits

HEADINGS = {name: name.upper().replace("_", "-") for name in SCORES} | {"extent": "Extent"}


def _notes(summary: pl.DataFrame) -> list[str]:
    return [
        "mean over updates [bounds of the 95 % interval] (Wilson); × 100",
        "every token of the right object is the model's first choice; C: the new one, H: the old one; ES: after its "
        "period, RS: without a date, H after Previously; -P: on the other prompts",
        "Extent: the period of each object, after the statement with the object; not one of AToKe's scores",
        "-S: the right answer is likelier than the other one",
    ]


ATOKE = Layout(
    name="atoke",
    title="AToKe's scores",
    source="anachron.evaluate.measures.atoke_metrics; Yin and others, AAAI 2024",
    columns={f"{heading} ↑": (name, 100, 1) for name, heading in HEADINGS.items()},
    notes=_notes,
    more={f"{heading}-S ↑": (f"{name}{SUCCESS}", 100, 1) for name, heading in HEADINGS.items()},
    shares=ATOKE_METRICS,
)


def write_atoke(tables: Mapping[str, pl.DataFrame], out: Path) -> pl.DataFrame:
    """Write ``atoke_metrics.parquet``, a row a method and update, and the table ``atoke.*``; returns the summary."""
    metrics, summary = of_atoke(tables)
    write_table(out / "atoke_metrics.parquet", metrics)
    write_edits(summary, out, ATOKE)
    return summary
