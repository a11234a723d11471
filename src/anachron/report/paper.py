r"""Tables as papers print them (``--style paper``), in LaTeX and Markdown.

A number has its interval as bounds in brackets, below it in LaTeX and behind it in Markdown; the best of the rows that
are compared is bold; what all rows have in common, and how many facts or updates they are over, stands in the caption.
The LaTeX needs the packages booktabs and siunitx (3 or later), whose ``S`` columns line the numbers up at the point.
"""

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite

from anachron.io.tables import markdown_table
from anachron.report.numbers import p_value
from anachron.report.table import ARROWS, SIGNS

Value = tuple[float | None, float | None, float | None]  # a mean and the bounds of its interval; None: not known
SHORT = 12  # letters of a heading that stays on one line
LINES = 40  # of a table that fit a page
WIDE = 1e9  # numbers from here on are printed by their power of ten
PREAMBLE = r"\usepackage{booktabs,siunitx}"
PLAIN = re.compile(r"-?[\d.]+")
ESCAPED = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    **{letter: f"\\{letter}" for letter in "&%$#_"}, **SIGNS,
}  # fmt: skip


@dataclass(frozen=True)
class Numbers:
    """A column of numbers. best: whether ``high`` or ``low`` ones are better, None where neither is. p: p values, of
    which those that three decimals cannot show are printed as ``<0.001``."""

    heading: str
    values: Sequence[Value]
    decimals: int = 1
    best: str | None = None
    p: bool = False

    def mean(self, place: int) -> str:
        """How the number of a row is printed; empty where it is not known."""
        mean = self.values[place][0]
        if mean is None or not isfinite(mean):
            return ""
        if self.p and mean < 0.001:
            return p_value(mean)
        return f"{mean:.1e}" if abs(mean) >= WIDE else f"{mean:z.{self.decimals}f}"  # z: no minus before a zero

    def bounds(self, place: int) -> str:
        _, low, high = self.values[place]
        return "" if low is None or high is None else f"[{low:z.{self.decimals}f}, {high:z.{self.decimals}f}]"


@dataclass(frozen=True)
class PaperTable:
    """name: of the files and the label. words: heading -> cells of text, what tells the rows apart. compared: of each
    row, with which others its numbers are compared, None for none. sections: of each row, which it belongs to; a rule
    goes between two. notes: below the table."""

    name: str
    caption: str
    words: Mapping[str, Sequence[str]]
    numbers: Sequence[Numbers]
    compared: Sequence[Hashable | None]
    sections: Sequence[Hashable]
    notes: Sequence[str] = field(default_factory=tuple)


def best_rows(column: Numbers, compared: Sequence[Hashable | None]) -> set[int]:
    """The rows with the best number of those they are compared with; several where they print alike.

    None is where there is no other row to compare with, or all print alike.
    """
    if column.best is None:
        return set()
    sign = 1 if column.best == "high" else -1
    rows: dict[Hashable, list[tuple[float, int]]] = {}
    for place, (group, (mean, *_)) in enumerate(zip(compared, column.values, strict=True)):
        if group is not None and mean is not None and isfinite(mean):
            rows.setdefault(group, []).append((sign * float(f"{mean:z.{column.decimals}f}"), place))
    best: set[int] = set()
    for means in rows.values():
        top = max(mean for mean, _ in means)
        if any(mean != top for mean, _ in means):
            best |= {place for mean, place in means if mean == top}
    return best


def paper_markdown(table: PaperTable) -> str:
    """As GitHub's Markdown: the caption, the table, the notes."""
    columns = [list(cells) for cells in table.words.values()]
    for column in table.numbers:
        best = best_rows(column, table.compared)
        cells = []
        for place in range(len(column.values)):
            mean, bounds = column.mean(place) or "-", column.bounds(place)
            cells.append((f"**{mean}**" if place in best else mean) + (f" {bounds}" if bounds else ""))
        columns.append(cells)
    header = [*table.words, *(column.heading for column in table.numbers)]
    notes = "".join(f"- {note}\n" for note in table.notes)
    return f"{table.caption}\n\n{markdown_table(header, zip(*columns, strict=True))}" + (f"\n{notes}" if notes else "")


def paper_latex(table: PaperTable) -> str:
    """As a float with a caption and a label; its first line names the packages that it needs. What is longer than a
    page goes on in further floats."""
    best = [best_rows(column, table.compared) for column in table.numbers]  # of all rows, whatever page they are on
    floats = [
        _float(table, rows, best, continued=number > 0)
        for number, rows in enumerate(_pages(table))
        if rows or not number
    ]
    return f"% {PREAMBLE}\n" + "\n".join(floats)


def _pages(table: PaperTable) -> list[range]:
    """The rows of each page."""
    pages, first, lines = [], 0, 0
    for place in range(len(table.sections)):
        more = 2 if any(column.bounds(place) for column in table.numbers) else 1
        if lines + more > LINES:
            pages.append(range(first, place))
            first, lines = place, 0
        lines += more
    return [*pages, range(first, len(table.sections))]


def _float(table: PaperTable, rows: range, best: Sequence[set[int]], *, continued: bool) -> str:
    widths = "".join("l" for _ in table.words) + "".join(f"S[{_format(column)}]" for column in table.numbers)
    header = [_escaped(name) for name in table.words] + [f"{{{_heading(column.heading)}}}" for column in table.numbers]
    lines = [f"{' & '.join(header)} \\\\", "\\midrule"]
    last: list[str] | None = None
    for place in rows:
        if place > rows.start and table.sections[place] != table.sections[place - 1]:
            lines.append("\\midrule")
            last = None
        named = [_escaped(cells[place]) for cells in table.words.values()]
        shown = _changed(named, last)
        last = named
        means = [
            _bold(_number(column.mean(place)), place in best[number]) for number, column in enumerate(table.numbers)
        ]
        lines.append(f"{' & '.join([*shown, *means])} \\\\")
        bounds = [column.bounds(place) for column in table.numbers]
        if any(bounds):
            below = [f"{{\\scriptsize {text}}}" if text else "" for text in bounds]
            lines.append(f"{' & '.join(['' for _ in named] + below)} \\\\")
    body = "\n".join(lines)
    notes = "".join(f"\n\\par\\smallskip\\footnotesize {_escaped(note)}" for note in table.notes)
    caption = f"{_escaped(table.caption)}{' (continued)' if continued else ''}"
    label = "" if continued else f"\\label{{tab:{table.name.replace('_', '-')}}}\n"
    return (
        "\\begin{table*}\n\\centering\\small\\setlength{\\tabcolsep}{4pt}\n"
        "\\sisetup{reset-text-series=false, text-series-to-math=true}\n"
        f"\\caption{{{caption}}}\n{label}"
        f"\\begin{{tabular}}{{{widths}}}\n\\toprule\n{body}\n\\bottomrule\n\\end{{tabular}}{notes}\n\\end{{table*}}\n"
    )


def _changed(named: Sequence[str], last: Sequence[str] | None) -> list[str]:
    """The words of a row without those that the row above has too, from the left; the last word is always there."""
    shown = list(named)
    if last is not None:
        for place in range(len(named) - 1):
            if named[place] != last[place]:
                break
            shown[place] = ""
    return shown


def _number(text: str) -> str:
    """A number in a siunitx column; what is none, or no plain one, stands in braces."""
    if not text:
        return "{--}"
    return text if PLAIN.fullmatch(text) else f"{{{_escaped(text)}}}"


def _format(column: Numbers) -> str:
    """The room that siunitx keeps: signs, letters before and behind the point."""
    texts = map(column.mean, range(len(column.values)))
    printed = [text for text in texts if PLAIN.fullmatch(text)]
    before = max((len(text.lstrip("-").partition(".")[0]) for text in printed), default=1)
    sign = "-" if any(text.startswith("-") for text in printed) else ""
    return f"table-format={sign}{before}" + (f".{column.decimals}" if column.decimals else "")


def _bold(text: str, best: bool) -> str:
    return f"\\bfseries {text}" if best else text


def _heading(text: str) -> str:
    """On two lines where it is long and has several words."""
    words = text.split(" ")
    arrow = [words.pop()] if words[-1] in ARROWS else []
    if len(words) < 2 or len(text) <= SHORT:
        return _escaped(text)
    middle = (len(words) + 1) // 2
    lines = [" ".join(words[:middle]), " ".join([*words[middle:], *arrow])]
    return "\\shortstack{" + "\\\\".join(map(_escaped, lines)) + "}"


def _escaped(text: str) -> str:
    """A text as LaTeX prints it, letter by letter."""
    return re.sub("|".join(map(re.escape, ESCAPED)), lambda found: ESCAPED[found[0]], text)


def same_count(counts: Iterable[int], what: str) -> str | None:
    """``n = 41 facts`` where all rows have one count, else None. what: in the plural."""
    distinct = set(counts)
    if len(distinct) != 1:
        return None
    count = distinct.pop()
    return f"n = {count:,} {what.removesuffix('s') if count == 1 else what}"
