"""In what order the page shows analyses, and the finding that each is headed with."""

from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any

import polars as pl

from anachron.core.dates import DAYS_A_YEAR
from anachron.metrics import GLOBAL, RUN_KEYS
from anachron.plots.charts import LEVELS
from anachron.report.page.periods import median_miss

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

FEW = 10  # facts of a relation below which nothing is said of it
LEVEL = 0.05  # of a test
OTHERS = "What explains it?"  # where an analysis stands that is listed nowhere


def finding(name: str, table: pl.DataFrame, run: Sequence[str]) -> str | None:
    """What a table says of one run (model, format, prefix), or of all if it is about all, in a line.

    All its numbers stand in the table. What an interval does not bear out is not said.

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
    row = _widest(rows)
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


def _believed(rows: Rows) -> str | None:
    miss = median_miss(rows)
    if miss is None or miss["facts"] < FEW:
        return None
    size, unit = (DAYS_A_YEAR, "years") if miss["high"] >= DAYS_A_YEAR else (1, "days")
    middle, low, high = (f"{miss[name] / size:.{unit == 'years':d}f}" for name in ("median", "low", "high"))
    of = f"{miss['ends']:,} ends of {miss['facts']:,} facts"
    return f"The ends of believed periods miss the true ones by {middle} {unit} (median; {low} to {high}; {of})"


def _anachronism_summary(rows: Rows) -> str | None:
    (row,) = rows
    return f"Prefers an impossible or far date to a true one for {row['facts_with']:,} of {row['facts']:,} facts"


def _relations(rows: Rows) -> str | None:
    kept = [row for row in rows if row["facts"] >= FEW and row["robustness"] > 0]
    if not kept:
        return None
    row = max(kept, key=lambda row: row["robustness"])
    share = f"{_percent(row['robustness'])} ({_percent(row['low'])} to {_percent(row['high'])})"
    return f"R is highest for {row['relation']}: {share} over {row['facts']:,} facts"


def _comparison(rows: Rows) -> str | None:
    row = _widest(rows)
    against = ", ".join(
        [row["against_model"], *(row[f"against_{key}"] for key in RUN_KEYS[1:] if row[f"against_{key}"] != row[key])]
    )
    low, high = row["win_rate_difference_low"], row["win_rate_difference_high"]
    if row["win_rate_difference"] is None or low is None:
        return None
    words = "above" if low > 0 else "below" if high < 0 else "not surely apart from"
    interval = f"{_points(low)} to {_points(high)}"
    return f"W is {words} that of {against}: {_points(row['win_rate_difference'])} points ({interval})"


def _margins(rows: Rows) -> str | None:
    level = _widest(rows)["granularity"]
    kept = sorted((row["margin"], row["robustness"]) for row in rows if row["granularity"] == level)
    plain, later = next((r for m, r in kept if m == 0), None), next(((m, r) for m, r in kept if m > 0), None)
    if not plain or later is None:
        return None
    return f"R is {_percent(plain)}, and {_percent(later[1])} if each match must be won by more than {later[0]:g} nats"


def _lifespans(rows: Rows) -> str | None:
    row = _widest(rows)
    if row["low"] <= 0 <= row["high"]:
        return None
    low, high = sorted(abs(100 * row[name]) for name in ("low", "high"))
    points = f"{abs(100 * row['difference']):.1f} points {'lower' if row['low'] > 0 else 'higher'}"
    return f"Without dates outside the lives of those named W is {points} ({low:.1f} to {high:.1f})"


def _correlations(rows: Rows) -> str | None:
    """Of all models in the run's format. Of several tests at once each must pass at a level divided by their number."""
    known = [row for row in rows if row["models"] == "all" and row["p_clustered"] is not None]
    tested = [row for row in known if isfinite(row["p_clustered"])]
    sure = [row for row in tested if row["p_clustered"] < LEVEL / len(tested)]
    if not sure:
        return None
    row = max(sure, key=lambda row: abs(row["r"]))
    score = {"win_rate": "W", "robustness": "R"}[row["score"]]
    r = f"{row['r']:+.2f}".replace("-", "\N{MINUS SIGN}")
    return f"{score} goes most with {row['factor']}: r {r} over {row['facts']:,} facts"


def _widest(rows: Rows) -> Any:
    """The row of all granularities together, else of the coarsest."""
    by_level = {row["granularity"]: row for row in rows}
    return next(by_level[level] for level in (GLOBAL, *LEVELS) if level in by_level)


FINDINGS: dict[str, Callable[[Rows], str | None]] = {
    "summary": _summary, "transfer": _transfer, "far_errors": _far_errors, "believed_summary": _believed_summary,
    "believed": _believed, "anachronism_summary": _anachronism_summary, "relations": _relations,
    "comparison": _comparison, "margins": _margins, "lifespans": _lifespans, "correlations": _correlations,
}  # fmt: skip


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _points(difference: float) -> str:
    return f"{100 * difference:+.1f}".replace("-", "\N{MINUS SIGN}")
