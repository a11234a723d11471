"""How every figure looks: sizes, colours, markers, and the sheet that a figure is drawn on.

Colours are those of Okabe and Ito (Color Universal Design, 2008), which people with any colour vision tell apart. No
figure relies on them: what differs in colour also differs in marker, line style, filling or hatching.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from anachron.analysis.plots.words import prefix_name
from anachron.core.errors import ConfigError, DataError, how_to_install
from anachron.io.schemas import refuse_missing

if TYPE_CHECKING:  # named here for all that draw
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure

COLUMN, PAGE = 3.3, 6.9  # widths of a column and of a page, inches
SMALL = 7.0  # the smallest text, points
LETTER = 0.054  # about how wide a letter of it is, inches

BLACK, GREY, PALE = "#000000", "#7F7F7F", "#E6E6E6"
ORANGE, SKY, GREEN = "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILLION, PURPLE = "#0072B2", "#D55E00", "#CC79A7"

STYLE: dict[str, Any] = {
    # It comes with matplotlib, so a figure is the same on every machine; an SVG names both, for readers without it.
    "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"],
    "font.size": 7.5, "axes.titlesize": 7.5, "axes.labelsize": 7.5, "legend.fontsize": SMALL,
    "xtick.labelsize": SMALL, "ytick.labelsize": SMALL, "figure.labelsize": 7.5,
    "text.parse_math": False,  # a $ in a name is a dollar
    "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.6, "axes.titlelocation": "left",
    "axes.axisbelow": True, "axes.formatter.useoffset": False, "axes.unicode_minus": True,
    "xtick.major.width": 0.6, "ytick.major.width": 0.6, "xtick.major.size": 2.5, "ytick.major.size": 2.5,
    "lines.linewidth": 1.0, "lines.markersize": 4.0, "lines.markeredgewidth": 0.8, "hatch.linewidth": 0.5,
    "grid.color": PALE, "grid.linewidth": 0.5, "legend.frameon": False, "legend.handlelength": 2.2,
    "legend.columnspacing": 1.4, "figure.constrained_layout.h_pad": 0.05, "figure.constrained_layout.w_pad": 0.03,
    # Fonts are embedded whole glyphs in PDF; SVG has its text as text, to be searched, edited and read aloud.
    "pdf.fonttype": 42, "svg.fonttype": "none", "svg.hashsalt": "anachron", "savefig.dpi": 300,
}  # fmt: skip


@dataclass(frozen=True)
class Look:
    """How one kind of thing is drawn wherever it occurs."""

    colour: str
    marker: str
    line: Any = "-"  # a line style of matplotlib
    hollow: bool = False

    @property
    def filling(self) -> str:
        return "white" if self.hollow else self.colour


GRANULARITIES = {
    "year": Look(BLUE, "o", "-"),
    "month": Look(ORANGE, "s", "--"),
    "day": Look(GREEN, "^", "-."),
    "global": Look(BLACK, "D", ":", hollow=True),
}
GRANULARITY_NAMES = {"global": "all three"}
SCORES = {"win_rate": "win rate W", "robustness": "robustness R"}
FORMATS = {"raw": Look(BLUE, "o", "-"), "chat": Look(VERMILLION, "s", "--", hollow=True), "all": Look(BLACK, "D", ":")}
STATUSES = {
    "correct": Look(BLUE, "o"),
    "transitional": Look(PURPLE, "D", hollow=True),
    "incorrect": Look(VERMILLION, "v"),
}
HATCHES = {"correct": "", "transitional": "xxxx", "incorrect": "////"}
# Things without a meaning of their own (families, models, thresholds), in this order.
LOOKS = (
    Look(BLUE, "o", "-"), Look(VERMILLION, "s", "--"), Look(GREEN, "^", "-."), Look(BLACK, "D", ":"),
    Look(PURPLE, "v", (0, (5, 1, 1, 1, 1, 1))), Look(SKY, "P", (0, (6, 2))), Look(ORANGE, "X", (0, (2, 1))),
    Look(GREY, "<", (0, (1, 2))),
)  # fmt: skip


def look(number: int) -> Look:
    """The look of the thing of this number; past the eighth they come again, hollow, and past the sixteenth anew."""
    plain = LOOKS[number % len(LOOKS)]
    return Look(plain.colour, plain.marker, plain.line, hollow=number // len(LOOKS) % 2 == 1)


def check_matplotlib() -> None:
    """Raise `ConfigError` where matplotlib is not installed."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise ConfigError(f"figures need matplotlib ({error}); {how_to_install('report')}") from error


@contextmanager
def sheet(width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> Iterator[tuple[Any, Any]]:
    """A figure of so many inches with an array of axes (rows, columns), in our style and nobody else's.

    options: of ``Figure.subplots``. The style holds within the block only: the reader's own settings of matplotlib
    neither change the figure nor are changed. Raises `ConfigError` where matplotlib is not installed.
    """
    check_matplotlib()
    from matplotlib.figure import Figure
    from matplotlib.style import context

    with context(STYLE, after_reset=True):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False, **options)
        yield figure, axes
        figure.draw_without_rendering()  # what matplotlib makes late (ticks) is made now, in this style


def check(name: str, table: pl.DataFrame, *columns: str, made_by: str = "anachron metrics") -> pl.DataFrame:
    """The rows that have a finite number in every one of ``columns``.

    made_by: what makes such a table. Raises `DataError` where a column is missing and where no row is left.
    """
    refuse_missing(table.columns, columns, f"the table for figure {name}", f"make it with {made_by}")
    rows = table.filter(pl.all_horizontal(pl.col(c).cast(pl.Float64).is_finite().fill_null(False) for c in columns))
    if not rows.height:
        raise DataError(
            f"figure {name}: nothing to draw; none of the {table.height} rows has a number in each of "
            f"{', '.join(columns)}"
        )
    return rows


def sections(table: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
    """The rows of each format and prefix with a title, raw text before chat, without a prefix before with one."""
    keys = table.select("format", "prefix").unique(maintain_order=True).rows()
    prefixes = any(prefix != "none" for _, prefix in keys)
    titled = []
    for form, prefix in sorted(keys, key=lambda key: (key[0] != "raw", key[1] != "none")):
        title = f"{format_name(form)}, {prefix_name(prefix)}" if prefixes else format_name(form)
        titled.append((title, table.filter(pl.col("format") == form, pl.col("prefix") == prefix)))
    return titled


def one_granularity(table: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """The rows over all granularities, or else of the coarsest that there is, and how to call them."""
    for granularity in ("global", *(g for g in GRANULARITIES if g != "global")):
        rows = table.filter(pl.col("granularity") == granularity)
        if rows.height:
            return rows, "all granularities" if granularity == "global" else granularity
    return table, "granularity unknown"


def format_name(form: str) -> str:
    return {"raw": "raw text", "all": "both formats"}.get(form, form)


def in_order(values: Iterable[str], order: Sequence[str]) -> list[str]:
    """Distinct values, those of ``order`` first and in that order."""
    known = list(dict.fromkeys(values))
    return [v for v in dict.fromkeys(order) if v in known] + [v for v in known if v not in order]


def run_labels(table: pl.DataFrame, *columns: str) -> list[str]:
    """What to call each row: the model, and of ``columns`` (of format, prefix) those that differ within the table."""
    telling = [c for c in columns if table[c].n_unique() > 1]
    names = {"format": format_name, "prefix": prefix_name}
    return [
        ", ".join([row["model"], *(names[c](row[c]) for c in telling)])
        for row in table.select("model", *telling).iter_rows(named=True)
    ]


def grid(panels: int, most: int = 2) -> tuple[int, int]:
    """Rows and columns of a sheet with so many panels, at most so many side by side."""
    return -(-panels // most), min(most, panels)


def folded(text: str, width: int) -> str:
    """A name on as many lines as it needs: names are never cut, as two may differ in their ends only."""
    lines = [""]
    for part in re.findall(r"[^-_/ ]+[-_/ ]*|[-_/ ]+", " ".join(text.split())):
        for piece in (part[i : i + width] for i in range(0, len(part), width)):
            if lines[-1] and len((lines[-1] + piece).rstrip()) > width:
                lines.append("")
            lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines)
