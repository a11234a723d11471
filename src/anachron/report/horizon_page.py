"""Horizons as one page: a self-contained HTML file without code, which asks the network nothing."""

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from anachron.io.files import Json
from anachron.report.page.render import in_page
from anachron.report.terminal.horizon import horizon_lines, leak_lines

KINDS = ("kind", "changes", "halving", "low", "high")
GAVE_AWAY = ("date", "subject", "relation", "old", "new")
APART = ("first", "second", "changes", "only_first", "only_second", "p", "later", "low", "high")


@dataclass(frozen=True)
class HorizonPart:
    """One model on the page. summary: ``horizon.json``. kinds: the table of kinds, of a horizon that has one. figure:
    its picture as SVG."""

    summary: Json
    kinds: pl.DataFrame | None = None
    figure: bytes | None = None


def horizon_page(parts: Sequence[HorizonPart], apart: Sequence[Json] = ()) -> str:
    """The page of some models. apart: every two of them, `anachron.probe.horizon.summary.HorizonComparison` as JSON."""
    data = {
        "title": f"Until when did {_named([part.summary['model'] for part in parts])} learn?",
        "models": [*map(_model, parts)],
        "apart": [_cells(one, APART) for one in apart],
    }
    return in_page("horizon.html", data)


def _model(part: HorizonPart) -> dict[str, Any]:
    summary = part.summary
    leak = summary.get("leak")
    without = {name: value for name, value in summary.items() if name != "leak"}
    several = summary["told"] and part.kinds is not None and part.kinds.height > 1
    kinds = part.kinds.iter_rows(named=True) if several and part.kinds is not None else ()
    half = f", halving date {summary['halving']['date']}" if summary["told"] else ""
    return {
        "summary": summary,
        "lines": [*horizon_lines(without)],
        "claim": None if leak is None else next(leak_lines(leak)),
        "gave_away": [] if leak is None else [_cells(row, GAVE_AWAY) for row in leak["gave_away"]],
        "kinds": [_cells(row, KINDS) for row in kinds],
        "figure": None if part.figure is None else base64.b64encode(part.figure).decode(),
        "alt": f"share of new values preferred, by date of the change{half}",
    }


def _cells(row: Json, names: Iterable[str]) -> list[str]:
    return [_cell(row[name], 3 if name == "p" else 0) for name in names]


def _cell(value: str | float | None, digits: int) -> str:
    if isinstance(value, float):
        return f"{value:.{digits}f}"
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else value


def _named(models: Sequence[str]) -> str:
    """Their names as a sentence lists them: "one, two and three"."""
    return " and ".join([", ".join(models[:-1]), models[-1]] if len(models) > 1 else models)
