"""One table of printed cells, three renderers: a terminal of any width, Markdown, LaTeX.

On a terminal no column ever disappears. What does not fit is folded: first headings, then words; numbers never. Where
that does not suffice, the table goes on below with its further columns, behind the columns that name the rows.
"""

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.table import Table as Grid
from rich.text import Text

if TYPE_CHECKING:  # not loaded for a list on a terminal
    import polars as pl

FOLDED = 14  # letters to which words are folded at most where there is room for the other columns
WORD = 8  # letters that words keep at least while a column can go below
UP, DOWN = 1, -1  # higher is better, lower is better
ARROWS = {"↑": r"$\uparrow$", "↓": r"$\downarrow$"}
SIGNS = {">": "$>$", "<": "$<$", "±": r"$\pm$", "×": r"$\times$", "≥": r"$\geq$", "≤": r"$\leq$", "−": "$-$", **ARROWS}


@dataclass(frozen=True, slots=True)
class Column:
    """number: set to the right and never folded. joined: stays beside the column before it, as its interval does.
    once: a terminal shows it in the first row of a section alone.

    The rest is of a column of means. of: what a table of numbers calls them, beside the bounds of their 95 % intervals
    (``OF_low`` and ``OF_high``). They are printed multiplied by ``factor``, with so many ``digits`` behind the point.
    direction: `UP` or `DOWN`, which an arrow behind the title says, 0 where neither end is better. half: the interval
    is printed as half its width in place of its bounds. sign: a plus before what is above 0, as of differences.
    """

    title: str
    number: bool = False
    joined: bool = False
    once: bool = False
    of: str = ""
    factor: int = 1
    digits: int = 1
    direction: int = 0
    half: bool = False
    sign: bool = False

    @property
    def heading(self) -> str:
        return self.title + {UP: " ↑", DOWN: " ↓"}.get(self.direction, "")

    def cell(self, mean: float | None, low: float | None = None, high: float | None = None) -> str:
        """``97.1 [93.0, 98.9]``, or ``97.1 ± 2.9``; without an interval the mean alone, without a mean a dash."""
        if mean is None:
            return "-"
        text = f"{self.factor * mean:{'+' if self.sign else ''}z.{self.digits}f}"  # z: no minus before a zero
        if low is None or high is None:
            return text
        if self.half:
            return f"{text} ± {self.factor * (high - low) / 2:.{self.digits}f}"
        return f"{text} [{self.factor * low:z.{self.digits}f}, {self.factor * high:z.{self.digits}f}]"

    def cells(self, table: "pl.DataFrame", ends: tuple[str, str] | None = None) -> list[str]:
        """The numbers of a table as they are printed. ends: its columns with the bounds, where their names differ."""
        low, high = ends or (f"{self.of}_low", f"{self.of}_high")
        return [self.cell(*row) for row in table.select(self.of, low, high).iter_rows()]


def measured(title: str, of: str, direction: int = 0, factor: int = 100, digits: int = 1, half: bool = False) -> Column:
    """A column of means, of shares in per cent by default."""
    return Column(title, number=True, of=of, direction=direction, factor=factor, digits=digits, half=half)


@dataclass(frozen=True)
class Table:
    """rows: the cells, as text. notes: below the table. sections: of each row, to which it belongs; a rule goes between
    two. padding: spaces beside a cell."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    sections: Sequence[Hashable] = ()
    padding: int = 1

    @property
    def titles(self) -> list[str]:
        return [column.heading for column in self.columns]

    def markdown(self) -> str:
        """The cells alone, as GitHub's Markdown."""
        from anachron.io.tables import markdown_table  # loads Polars, which a list on a terminal does not need

        return markdown_table(self.titles, self.rows)

    def latex(self, name: str, caption: str) -> str:
        """A float with a caption and a label, for LaTeX with the package booktabs."""
        from tabulate import tabulate

        aligned = ["right" if column.number else "left" for column in self.columns] if self.rows else None
        body = tabulate(self.rows, self.titles, tablefmt="latex_booktabs", disable_numparse=True, colalign=aligned)
        body = _signs(body, {sign: SIGNS[sign] for sign in SIGNS if sign not in "<>"})  # tabulate has set those two
        caption = _signs(re.sub(r"([&%#$_])", r"\\\1", caption), SIGNS)
        label = name.replace("_", "-")
        return (
            f"\\begin{{table}}\n\\centering\n\\caption{{{caption}}}\n\\label{{tab:{label}}}\n{body}\n\\end{{table}}\n"
        )

    def fits(self, room: int) -> bool:
        """Whether a terminal of so many letters shows all columns side by side."""
        return len(self._blocks(room)) == 1

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Grid | Text]:
        for number, block in enumerate(self._blocks(options.max_width)):
            yield self._grid(block, options.max_width, None if number else Text(self.title))
        if self.notes:
            yield Text("\n".join(self.notes), style="table.caption")

    def _grid(self, places: list[int], room: int, title: Text | None) -> Grid:
        grid = Grid(title=title, padding=(0, self.padding), box=box.HEAVY_HEAD)
        for place, width in zip(places, self._widths(places, room), strict=True):
            column = self.columns[place]
            grid.add_column(
                Text(_folded(column.heading, width)),
                justify="right" if column.number else "left",
                width=width,
                overflow="fold",
            )
        for number, row in enumerate(self.rows):
            begins = number == 0 or (bool(self.sections) and self.sections[number] != self.sections[number - 1])
            if begins and number:
                grid.add_section()
            grid.add_row(*(Text("" if self.columns[p].once and not begins else row[p]) for p in places))
        return grid

    def _blocks(self, room: int) -> list[list[int]]:
        """The places of the columns of each table that is drawn: one where all fit.

        The columns of words before the first number name the rows and are in all of them.
        """
        numbers = [place for place, column in enumerate(self.columns) if column.number]
        names = list(range(numbers[0] if numbers else 1)) or [0]
        blocks = [list(names)]
        for place in range(len(names), len(self.columns)):
            together = [place]
            while together[-1] + 1 < len(self.columns) and self.columns[together[-1] + 1].joined:
                together.append(together[-1] + 1)
            full = self._lines(len(blocks[-1]) + len(together)) + sum(map(self._least, [*blocks[-1], *together])) > room
            if not self.columns[place].joined and full and len(blocks[-1]) > len(names):
                blocks.append(list(names))
            blocks[-1].append(place)
        return blocks

    def _lines(self, columns: int) -> int:
        """Letters for the lines and spaces between so many columns."""
        return 1 + columns * (2 * self.padding + 1)

    def _widths(self, places: Sequence[int], room: int) -> list[int]:
        """Letters for each column: all on one line where that fits; else headings are folded, then words."""
        left = room - self._lines(len(places))
        widths = [max(self._longest(place), _longest(self.columns[place].heading)) for place in places]
        if sum(widths) <= left:
            return widths
        least = [self._longest(p) if self.columns[p].number else 0 for p in places]
        widths = [max(self._longest(place), *map(cell_len, _words(self.columns[place].heading))) for place in places]
        while sum(widths) > left and any(width > max(floor, 1) for width, floor in zip(widths, least, strict=True)):
            # of the columns that may still be folded the widest gives way: first words, then headings of numbers
            open_ = [i for i, width in enumerate(widths) if width > max(least[i], 1)]
            wordy = [i for i in open_ if not self.columns[places[i]].number and widths[i] > WORD] or open_
            widths[max(wordy, key=lambda i: widths[i])] -= 1
        return widths

    def _longest(self, place: int) -> int:
        return max((_longest(row[place]) for row in self.rows), default=1)

    def _least(self, place: int) -> int:
        """Letters to which a column is folded before another goes below: words of a name stay whole up to a length."""
        title = max(map(cell_len, _words(self.columns[place].heading)))
        if self.columns[place].number:
            return max(self._longest(place), title)
        words = [cell_len(word) for row in self.rows for word in _words(row[place])]
        return max(min(max(words, default=1), FOLDED), min(self._longest(place), WORD), min(title, FOLDED))


def _longest(text: str) -> int:
    return max(map(cell_len, text.split("\n")))


def _words(text: str) -> list[str]:
    """What stays on one line: words, an arrow with the word before it."""
    return re.findall(r"\S+(?: [↑↓](?!\S))?", text) or [""]


def _folded(title: str, width: int) -> str:
    """A heading on lines of at most so many letters; words that are longer are left to rich."""
    lines = [""]
    for line in title.split("\n"):
        for word in _words(line):
            joined = f"{lines[-1]} {word}".lstrip()
            lines[-1:] = [joined] if cell_len(joined) <= width else [*filter(None, lines[-1:]), word]
        lines.append("")
    return "\n".join(lines[:-1])


def _signs(text: str, commands: Mapping[str, str]) -> str:
    """A text in which signs that LaTeX's text fonts lack are its commands; what it escapes is escaped before."""
    return re.sub("|".join(map(re.escape, commands)), lambda found: commands[found[0]], text)
