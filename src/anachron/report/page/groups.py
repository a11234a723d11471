"""In what order the page shows analyses, and the finding that each is headed with."""

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from anachron.metrics import GLOBAL, RUN_KEYS
from anachron.plots.charts import LEVELS

GROUPS = {
    "Is it right?": (
        "summary", "sizes", "size_to_perfection", "formats", "prefixes", "comparison", "base_and_instruct", "margins",
        "overlap", "shared_knowledge", "asked", "asked_facts",
    ),
    "Where is it wrong?": (
        "believed_summary", "believed", "far_errors", "transfer", "transfer_mean", "agreement", "granularity_variance",
        "anachronism_summary", "anachronisms", "relations", "facts", "timelines",
    ),
    "What explains it?": (
        "alpha", "alpha_fine", "correlations", "factor_bins", "lifespans", "years", "dataset", "bridge", "bridge_facts",
        "conversion",
    ),
}  # fmt: skip

OTHERS = "What explains it?"  # where an analysis stands that is listed nowhere


def finding(name: str, table: pl.DataFrame, run: Sequence[str]) -> str | None:
    """What a table says of one run (model, format, prefix), in a line whose numbers all stand in the table.

    None for analyses that have no such line, and where the table says nothing of the run.
    """
    make = FINDINGS.get(name)
    if make is None:
        return None
    kept = table.filter(
        *(pl.col(key) == value for key, value in zip(RUN_KEYS, run, strict=True) if key in table.columns)
    )
    return make(kept.rows(named=True)) if kept.height else None


Rows = list[dict[str, Any]]


def _summary(rows: Rows) -> str | None:
    by_level = {row["granularity"]: row for row in rows}
    row = next(by_level[level] for level in (GLOBAL, *LEVELS) if level in by_level)
    robust, facts = round(row["robustness"] * row["facts"]), row["facts"]
    return f"Wins {_percent(row['win_rate'])} of matches, and every match of {robust:,} of {facts:,} facts"


def _transfer(rows: Rows) -> str | None:
    row = next((row for row in rows if (row["a"], row["b"]) == ("day", "year")), None)
    if row is None or not row["known_b"]:
        return None
    lost = row["known_b"] - row["known_both"]
    if not lost:
        return f"Knows the day wherever it knows the year: {row['known_b']:,} of {row['known_b']:,}"
    return f"Knows the year, not the day: {lost:,} of {row['known_b']:,}"


def _far_errors(rows: Rows) -> str | None:
    kept = [row for row in rows if row["average"] == "facts" and row["share"] is not None]
    if not kept:
        return None
    row = min(kept, key=lambda row: (row["threshold"], row["alpha"]))
    return f"{_percent(row['share'])} of the errors on facts that seem known are far from the period"


def _believed_summary(rows: Rows) -> str | None:
    (row,) = rows
    believed = round(row["believed"] * row["facts"])
    told = f"Ties {believed:,} of {row['facts']:,} facts to some period"
    if row["overlap"] is None:
        return told
    return f"{told}; where both ends are known, it overlaps the true one by {_percent(row['overlap'])}"


def _anachronism_summary(rows: Rows) -> str | None:
    (row,) = rows
    return f"Prefers an impossible or far date to a true one for {row['facts_with']:,} of {row['facts']:,} facts"


def _relations(rows: Rows) -> str | None:
    row = max(rows, key=lambda row: row["win_rate"])
    return f"W is highest for {row['relation']}: {_percent(row['win_rate'])} over {row['facts']:,} facts"


FINDINGS: dict[str, Callable[[Rows], str | None]] = {
    "summary": _summary, "transfer": _transfer, "far_errors": _far_errors, "believed_summary": _believed_summary,
    "anachronism_summary": _anachronism_summary, "relations": _relations,
}  # fmt: skip


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
