"""How findings put numbers: shares, intervals, differences, and which of two intervals lies above the other.

A finding is the line that the page heads an analysis with. It says of counts and shares what stands in the table. It
says that one thing is above another only where an interval or a test bears that out; where several are tested at once,
each must pass at a level divided by their number. Else there is none, and the analysis keeps its neutral title.
"""

from math import isfinite
from typing import Any

from anachron.analysis.metrics import GLOBAL, POOLED
from anachron.analysis.plots.charts import LEVELS

Row = dict[str, Any]
Rows = list[Row]
Run = dict[str, str]  # model, format and prefix

FEW = 10  # facts below which nothing is said of a group of them
SIGNIFICANCE = 0.05  # of a test
MINUS = "\N{MINUS SIGN}"


def widest(rows: Rows) -> Any:
    """The row of all granularities together, else of the coarsest."""
    by_level = {row["granularity"]: row for row in rows}
    return next(by_level[level] for level in (GLOBAL, *LEVELS) if level in by_level)


def difference(words: str, row: Row, other: str, name: str = "win_rate_difference") -> str | None:
    """``W is above that of b: +2.4 points (+0.1 to +6.7)``, by the interval of the paired difference of this name.

    None of fewer than `FEW` facts, whose intervals are too narrow.
    """
    low, high = ends(row, name)
    if row[name] is None or low is None or high is None or row["facts"] < FEW:
        return None
    side = "above" if low > 0 else "below" if high < 0 else "not significantly different from"
    return f"{words} {side} {other}: {points(row[name])} points ({points(low)} to {points(high)})"


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


def same(rows: Rows, run: Run, *keys: str) -> Rows:
    return [row for row in rows if row.get("model") != POOLED and all(row[key] == run[key] for key in keys)]


def about(rows: Rows, run: Run, text: str | None) -> str | None:
    """A line that begins with the name of the model where the table is about several."""
    if text is None:
        return None
    several = len({row["model"] for row in rows}) > 1
    return f"{run['model']}: {text}" if several else text[0].upper() + text[1:]


def below(p: float | None, level: float) -> bool:
    return p is not None and isfinite(p) and p < level


def p_words(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p {p:.3f}"
