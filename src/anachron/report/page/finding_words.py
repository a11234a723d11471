"""How findings put numbers: shares, intervals, differences, and which of two intervals lies above the other."""

from typing import Any

from anachron.analysis.metrics import GLOBAL
from anachron.analysis.plots.charts import LEVELS

Row = dict[str, Any]
Rows = list[Row]
Run = dict[str, str]  # model, format and prefix

FEW = 10  # facts below which nothing is said of a group of them
LEVEL = 0.05  # of a test
MINUS = "\N{MINUS SIGN}"


def widest(rows: Rows) -> Any:
    """The row of all granularities together, else of the coarsest."""
    by_level = {row["granularity"]: row for row in rows}
    return next(by_level[level] for level in (GLOBAL, *LEVELS) if level in by_level)


def difference(words: str, row: Row, other: str) -> str | None:
    """``W is above that of b: +2.4 points (+0.1 to +6.7)``, by the interval of the paired difference of W.

    None of fewer than `FEW` facts, whose intervals are too narrow.
    """
    low, high = row["win_rate_difference_low"], row["win_rate_difference_high"]
    if row["win_rate_difference"] is None or low is None or high is None or row["facts"] < FEW:
        return None
    side = "above" if low > 0 else "below" if high < 0 else "not significantly different from"
    return f"{words} {side} {other}: {points(row['win_rate_difference'])} points ({points(low)} to {points(high)})"


def ends(row: Row, name: str) -> tuple[float | None, float | None]:
    return row[f"{name}_low"], row[f"{name}_high"]


def apart(one: tuple[float | None, float | None], other: tuple[float | None, float | None]) -> int:
    """1 where the first of two intervals lies above the other, -1 where below, 0 where they meet or one is unknown."""
    if one[0] is None or one[1] is None or other[0] is None or other[1] is None:
        return 0
    return 1 if one[0] > other[1] else -1 if one[1] < other[0] else 0


def interval(row: Row, name: str) -> str:
    return f"{percent(row[name])} ({percent(row[f'{name}_low'])} to {percent(row[f'{name}_high'])})"


def after_colon(text: str) -> str:
    """A finding as it goes on behind a name and a colon; W and R stay capitals."""
    return text[0].lower() + text[1:] if text[1:2].islower() else text


def nats(mean: float) -> str:
    return f"{mean:.1f}".replace("-", MINUS)


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def points(difference: float) -> str:
    return f"{100 * difference:+.1f}".replace("-", MINUS)
