"""What the page's charts are made of: views, traces and layouts of Plotly as plain records, without Plotly.

A chart has one view or more, of which the page shows one at a time. Colours are names such as ``@0`` or ``@ink``,
which the page turns into those of its light or dark theme; texts that come from data are escaped, for Plotly reads
a little HTML.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import isfinite
from typing import Any

import polars as pl

from anachron.analysis.metrics import GLOBAL, RUN_KEYS
from anachron.analysis.plots.words import prefix_name
from anachron.core.dates import GRANULARITIES
from anachron.io.files import Json

SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "star", "triangle-down")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
COLOURS = 8
LEVELS = (*GRANULARITIES, GLOBAL)
NAMED_ROWS = {"type": "category", "autorange": "reversed", "automargin": True}  # an axis of names, the first above
PERCENT = {"tickformat": ".0%", "rangemode": "tozero"}
NAMES = {"win_rate": "W", "robustness": "R"}
Views = list[Json]  # each with ``label, data, layout``
Traces = list[Json]
INTERVALS = "Bars are 95 % intervals over facts."


@dataclass(frozen=True)
class Looks:
    """The same name, colour, symbol and dash for a run in every chart."""

    runs: Sequence[tuple[str, str, str]]

    def name(self, key: Sequence[str]) -> str:
        """Model, and format and prefix where runs differ in them."""
        model, form, prefix = key
        varied = [len({run[i] for run in self.runs}) > 1 for i in (1, 2)]
        rest = [text for text, tell in zip((form, prefix_name(prefix)), varied, strict=True) if tell]
        return ", ".join([model, *rest])

    def trace(self, key: Sequence[str], **more: Any) -> Json:
        """A scatter trace in the look of a run; pooled models are drawn in ink, thicker, by format and prefix."""
        runs = [tuple(run) for run in self.runs]
        pooled = tuple(key) not in runs
        index = list(dict.fromkeys(run[1:] for run in runs)).index(tuple(key[1:])) if pooled else runs.index(tuple(key))
        colour = "@ink" if pooled else f"@{index % COLOURS}"
        line = {"color": colour, "dash": DASHES[index % len(DASHES)], "width": 3 if pooled else 2}
        marker = {"color": colour, "symbol": SYMBOLS[index % len(SYMBOLS)], "size": 9}
        return {"type": "scatter", "name": escape(self.name(key), quote=False), "line": line, "marker": marker} | more


def numbered(number: int) -> Json:
    """Line and marker of the thing of this number, where things are not runs."""
    line = {"color": f"@{number % COLOURS}", "dash": DASHES[number % len(DASHES)]}
    return {"line": line, "marker": {"symbol": SYMBOLS[number % len(SYMBOLS)], "size": 8}}


def numbers(values: Iterable[Any], digits: int = 6) -> list[float | None]:
    """Numbers as JSON has them: rounded, and nothing for NaN and infinities."""
    return [None if v is None or not isfinite(v) else round(float(v), digits) for v in values]


def texts(values: Iterable[Any]) -> list[str]:
    return [escape(str(value), quote=False) for value in values]


def bars(table: pl.DataFrame, value: str, low: str = "low", high: str = "high") -> Json:
    """Error bars from the two ends of an interval."""
    up = numbers((table[high] - table[value]).to_list())
    down = numbers((table[value] - table[low]).to_list())
    return {"type": "data", "symmetric": False, "array": up, "arrayminus": down, "thickness": 1.5, "width": 4}


def axis(title: str, **more: Any) -> Json:
    return {"title": {"text": title}, **more}


def view(label: str, traces: list[Json], **layout: Any) -> Json:
    return {"label": label, "data": traces, "layout": layout}


def shows(view: Json) -> bool:
    """Whether a view has a number to draw: a heat map any, others one that is not 0, as a value or an interval."""
    across = "x" if "rows" in view["layout"] else "y"
    for trace in view["data"]:
        if trace["type"] == "heatmap":
            drawn = any(number is not None for line in trace["z"] for number in line)
        else:
            ends = trace.get(f"error_{across}", {"array": (), "arrayminus": ()})
            drawn = any(number for numbers in (trace[across], ends["array"], ends["arrayminus"]) for number in numbers)
        if drawn:
            return True
    return False


def by_run(table: pl.DataFrame) -> Iterable[tuple[tuple[str, str, str], pl.DataFrame]]:
    for key, group in table.group_by(RUN_KEYS, maintain_order=True):
        yield (str(key[0]), str(key[1]), str(key[2])), group


def groups(table: pl.DataFrame, *columns: str) -> Iterable[tuple[tuple[Any, ...], pl.DataFrame]]:
    yield from table.group_by(columns, maintain_order=True)


def rows(table: pl.DataFrame, *columns: str) -> list[list[Any]]:
    """Rows for hover texts; NaN becomes nothing."""
    return [
        [(numbers([v])[0] if isinstance(v, float) else escape(v, quote=False) if isinstance(v, str) else v) for v in r]
        for r in table.select(columns).iter_rows()
    ]


def by_granularity(
    table: pl.DataFrame, looks: Looks, *, value: str, low: str, high: str, label: str, title: str, of: str = "facts"
) -> Json:
    """A value with its interval at each granularity, the runs side by side. of: the column of what is counted."""
    traces = []
    for key, group in by_run(table):
        ends = [list(pair) for pair in zip(numbers(group[low]), numbers(group[high]), group[of], strict=True)]
        traces.append(
            looks.trace(
                key, mode="markers", x=group["granularity"].to_list(), y=numbers(group[value]), customdata=ends,
                error_y=bars(group, value, low, high),
                hovertemplate="%{x}: %{y:.1%} (%{customdata[0]:.1%} to %{customdata[1]:.1%}), %{customdata[2]:,} " + of,
            )
        )  # fmt: skip
    order = [level for level in LEVELS if level in table["granularity"]]
    return view(
        label, traces, scattermode="group", scattergap=0.6, yaxis=axis(title, **PERCENT),
        xaxis={"type": "category", "categoryorder": "array", "categoryarray": order, "title": {"text": "dates"}},
    )  # fmt: skip


def row_a_run(table: pl.DataFrame, looks: Looks, *, value: str, low: str, high: str, title: str, **scale: Any) -> Json:
    """One value a run with its range, one below the other."""
    traces = []
    for key, group in by_run(table):
        traces.append(
            looks.trace(
                key, mode="markers", x=numbers(group[value]), y=texts([looks.name(key)]),
                error_x=bars(group, value, low, high), customdata=rows(group, low, high),
                hovertemplate="%{x:.3f} (%{customdata[0]:.3f} to %{customdata[1]:.3f})",
            )
        )  # fmt: skip
    across = axis(title, **(scale or PERCENT))
    return view("all", traces, showlegend=False, xaxis=across, rows=len(traces), yaxis=NAMED_ROWS)
