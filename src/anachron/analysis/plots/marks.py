"""The few ways in which numbers are drawn: dots with intervals, lines with bands, heat maps, named rows, legends."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from anachron.analysis.plots.style import (
    COLUMN,
    GRANULARITIES,
    GRANULARITY_NAMES,
    GREY,
    LETTER,
    PALE,
    SMALL,
    Look,
    folded,
    look,
    run_labels,
    sheet,
)
from anachron.analysis.plots.words import year_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MINUS = "\N{MINUS SIGN}"
PITCH = 0.125  # inches that a line of small text takes
LETTERS = 38  # a line of a row's name
Numbers = Sequence[float | None] | pl.Series | np.ndarray


def dots(
    axes: "Axes", places: Numbers, values: Numbers, look: Look, *, low: Numbers | None = None,
    high: Numbers | None = None, label: str = "", upright: bool = False, joined: bool = False, shift: float = 0.0,
    size: float | None = None,
) -> None:  # fmt: skip
    """A marker at each value, and a line from low to high where both ends are known.

    places: rows (from the top), or columns where ``upright``, so that values go up. joined: a line from each marker to
    the next. shift: moved right by so many points on paper, which leaves the numbers as they are, so that two intervals
    at one place can both be seen. What is null is not drawn.
    """
    drawn: list[Any] = []
    place, value = _floats(places), _floats(values)
    if low is not None and high is not None:
        ends = np.column_stack([_floats(low), _floats(high)])
        known = np.isfinite(ends).all(axis=1) & np.isfinite(value)
        if known.any():
            draw = axes.vlines if upright else axes.hlines
            start, end = ends[known].T
            drawn.append(draw(place[known], start, end, color=look.colour, lw=0.9, label=f"_interval {label}"))
    x, y = (place, value) if upright else (value, place)
    known = np.isfinite(value)
    if known.any():
        drawn += axes.plot(
            x[known], y[known], color=look.colour, marker=look.marker, markerfacecolor=look.filling, markersize=size,
            ls=look.line if joined else "", lw=0.8, label=label or "_dots", clip_on=False, zorder=3,
        )  # fmt: skip
    if shift:
        _move(axes, drawn, shift)


def _move(axes: "Axes", drawn: Sequence[Any], points: float) -> None:
    """Move what is drawn to the right on paper; only now, when its numbers have set the limits of the axes."""
    from matplotlib.transforms import ScaledTranslation

    inches = axes.figure.dpi_scale_trans
    for artist in drawn:
        artist.set_transform(axes.transData + ScaledTranslation(points / 72, 0, inches))


def line(
    axes: "Axes", x: Numbers, y: Numbers, look: Look, *, label: str, low: Numbers | None = None,
    high: Numbers | None = None, step: float | None = None, **options: Any,
) -> None:  # fmt: skip
    """A line through known values, with a band from low to high.

    It is broken where a value is null, and where x jumps by more than ``step`` (a bin without contexts).
    """
    across, up = _floats(x), _floats(y)
    bottom, top = (_floats(np.full(across.size, np.nan) if ends is None else ends) for ends in (low, high))
    if step is not None:
        gaps = np.flatnonzero(np.diff(across) > step) + 1
        across, up, bottom, top = (np.insert(part, gaps, np.nan) for part in (across, up, bottom, top))
    axes.plot(
        across, up, color=look.colour, ls=look.line, marker=look.marker,
        markerfacecolor=look.filling, label=label, **options,
    )  # fmt: skip
    if np.isfinite(bottom).any():
        axes.fill_between(across, bottom, top, color=look.colour, alpha=0.15, lw=0, label=f"_interval {label}")


def spread(count: int, width: float = 0.6) -> np.ndarray:
    """Offsets of ``count`` things side by side around the middle of their row."""
    return (np.arange(count) - (count - 1) / 2) * (width / max(count - 1, 2))


def heat_map(axes: "Axes", values: np.ndarray, texts: Sequence[Sequence[str]], aspect: Any = "equal") -> None:
    """Fields from white (0) to dark (1) with a text in each; NaN is left white."""
    down, across = (np.arange(count + 1) - 0.5 for count in values.shape)
    axes.pcolormesh(across, down, np.ma.masked_invalid(values), cmap="Blues", vmin=0, vmax=1.15)
    axes.set_ylim(down[-1], down[0])  # the first row at the top
    axes.set_aspect(aspect)
    for i, row in enumerate(texts):
        for j, text in enumerate(row):
            dark = np.isfinite(values[i, j]) and values[i, j] > 0.6
            axes.text(j, i, text, ha="center", va="center", color="white" if dark else "black", fontsize=SMALL)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def reference(axes: "Axes", value: float, *, label: str = "", upright: bool = False) -> None:
    """A thin dotted line to compare with: no difference, chance, the same variance."""
    draw = axes.axhline if upright else axes.axvline
    draw(value, color=GREY, lw=0.8, ls=(0, (1, 1.5)), zorder=0, label=label or "_reference")


def in_percent(axes: "Axes", which: str = "x", *, points: bool = False) -> None:
    """Shares of 0 to 1 written in per cent (or in percentage points, without the sign)."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis = axes.xaxis if which == "x" else axes.yaxis
    sign = "" if points else " %"
    axis.set_major_locator(MaxNLocator(nbins=4, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda share, _: f"{round(100 * share, 6):g}{sign}".replace("-", MINUS)))


def at_least(axes: "Axes", span: float, *, within: tuple[float, float] | None = None) -> None:
    """Widen the axis below to this span around what it shows, so that no tiny difference fills a panel.

    within: limits that the axis must keep to, as shares have.
    """
    low, high = axes.get_xlim()
    missing = max(0.0, span - (high - low)) / 2
    low, high = low - missing, high + missing
    if within is not None:
        low, high = max(low - max(0.0, high - within[1]), within[0]), min(high + max(0.0, within[0] - low), within[1])
    axes.set_xlim(low, high)


def name_years(panel: "Axes") -> None:
    """Years below the panel in words, so that -44 reads 44 BCE."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    panel.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, steps=[1, 2, 5, 10]))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda year, _: year_name(int(year)) if year else "BCE | CE"))


def in_counts(axes: "Axes") -> None:
    """A logarithmic axis of counts below, as 500M, 1B, 10B."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=8))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda count, _: short_count(count)))
    axes.xaxis.set_minor_formatter(NullFormatter())


def short_count(count: float, digits: int = 6) -> str:
    """7e9 as 7B."""
    for size, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.{digits}g}{unit}"
    return f"{count:.{digits}g}"


def _floats(values: Numbers) -> np.ndarray:
    return np.array([np.nan if v is None else v for v in values], dtype=float)


def by_granularity(axes: "Axes", rows: pl.DataFrame, score: str, granularities: Sequence[str]) -> None:
    """Dots with intervals (``SCORE_low``, ``SCORE_high``) at each ``row``, one granularity below the other."""
    for granularity, offset in zip(granularities, spread(len(granularities)), strict=True):
        chosen = rows.filter(pl.col("granularity") == granularity)
        dots(
            axes, chosen["row"] + offset, chosen[score], GRANULARITIES[granularity], low=chosen[f"{score}_low"],
            high=chosen[f"{score}_high"], label=GRANULARITY_NAMES.get(granularity, granularity),
        )  # fmt: skip


def rows_height(labels: Sequence[str], least: float = 0.2, letters: int = LETTERS) -> float:
    """Inches that rows with these names take."""
    return max(least, 0.06 + PITCH * lines_of(labels, letters)) * len(labels) + 0.1


def lines_of(labels: Sequence[str], letters: int = LETTERS) -> int:
    """Lines of the name that takes most of them."""
    return max(folded(label, letters).count("\n") + 1 for label in labels)


def name_rows(axes: "Axes", labels: Sequence[str], letters: int = LETTERS) -> None:
    """Rows 0, 1, 2 and so on from the top, with their names at the left, so many letters a line."""
    axes.set_yticks(range(len(labels)), [folded(label, letters) for label in labels])
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    for between in range(1, len(labels)):
        axes.axhline(between - 0.5, color=PALE, lw=0.5, zorder=0, label="_between")


def two_a_run(rows: pl.DataFrame, named: Mapping[str, str], title: str, *, chance: float | None = None) -> "Figure":
    """Shares of each run in a row of a figure: the first with its interval, the second without.

    rows: of a table, one a run. named: their columns, with the words of the legend. title: of the axis. chance: what is
    reached without knowledge, as a line.
    """
    labels = run_labels(rows, "format", "prefix")
    with sheet(COLUMN, rows_height(labels, 0.25) + 0.9) as (figure, axes):
        panel = axes[0, 0]
        name_rows(panel, labels)
        if chance is not None:
            reference(panel, chance, label="chance")
        (first, words), (second, other) = named.items()
        places, low, high = range(rows.height), rows[f"{first}_low"], rows[f"{first}_high"]
        dots(panel, places, rows[first], look(0), low=low, high=high, label=words)
        dots(panel, places, rows[second], look(1), label=other)
        in_percent(panel)
        panel.set_xlabel(title)
        legend(figure)
    return figure


def legend(figure: "Figure") -> None:
    """One legend below all axes, each label once, in as many columns as the width has room for."""
    handles: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if handles:
        columns = _legend_columns(list(handles), figure.get_figwidth())
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns)


def legend_height(labels: Sequence[str], width: float) -> float:
    """Inches that `legend` takes for these labels at the foot of a figure of this width."""
    return 0.15 + 0.15 * -(-len(labels) // _legend_columns(labels, width))


def _legend_columns(labels: Sequence[str], width: float) -> int:
    """As many columns as fit; matplotlib fills them from the top, the first ones with one more where they differ."""
    for columns in range(len(labels), 1, -1):
        parts = np.array_split(np.array(labels, dtype=object), columns)
        if sum(max(map(len, part)) * LETTER + 0.55 for part in parts) <= width - 0.2:
            return columns
    return 1


def blank(axes: Iterable["Axes"], reason: str = "") -> None:
    """Panels of a grid that are left over, or left out for a reason."""
    for panel in axes:
        panel.set_axis_off()
        if reason:
            panel.text(0.5, 0.5, reason, transform=panel.transAxes, ha="center", va="center", fontsize=SMALL)
