"""Numbers as a terminal, a page and tables print them."""

from collections.abc import Iterable, Mapping
from typing import Any


def percent(share: float | None, digits: int = 1, *, floor: bool = False, missing: str = "-") -> str:
    """A share in per cent, ``97.1``. floor: what is above 0 and would be printed as 0 is said to be below, ``<0.1``."""
    if share is None:
        return missing
    smallest = 10.0**-digits
    return f"<{smallest:.{digits}f}" if floor and 0 < 100 * share < smallest / 2 else f"{100 * share:.{digits}f}"


def interval(low: float | None, high: float | None) -> str:
    """Two shares in per cent, ``93.0 to 98.9``; nothing where there is no interval."""
    return "" if low is None or high is None else f"{percent(low)} to {percent(high)}"


def share_cells(row: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """Of each named share of a row two cells: the share, and its interval (``NAME_low`` to ``NAME_high``)."""
    pairs = ((percent(row[name]), interval(row[f"{name}_low"], row[f"{name}_high"])) for name in names)
    return [cell for pair in pairs for cell in pair]


def p_value(p: float) -> str:
    """To three decimals, as papers print it."""
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def text_of(value: object) -> str:
    """A whole number with marks at the thousands; anything else as it is."""
    return f"{value:,}" if isinstance(value, int) else str(value)
