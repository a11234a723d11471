r"""Tables as papers print them (``--style paper``), in LaTeX and Markdown.

A number has its interval as bounds in brackets, below it in LaTeX and behind it in Markdown; the best of the rows that
are compared is bold; what all rows have in common, and how many facts or updates they are over, stands in the caption.
The LaTeX needs the packages booktabs and siunitx (3 or later), whose ``S`` columns line the numbers up at the point.
"""

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite

from anachron.text.markdown import markdown_table

Value = tuple[float | None, float | None, float | None]  # a mean and the bounds of its interval; None: not known
SHORT = 12  # letters of a heading that stays on one line
PREAMBLE = r"\usepackage{booktabs,siunitx}"
ARROWS = {"↑": r"$\uparrow$", "↓": r"$\downarrow$"}
SIGNS = {">": "$>$", "<": "$<$", "±": r"$\pm$", "×": r"$\times$", "≥": r"$\geq$", "≤": r"$\leq$", "−": "$-$", **ARROWS}
ESCAPED = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    **{letter: f"\\{letter}" for letter in "&%$#_"}, **SIGNS,
}  # fmt: skip


@dataclass(frozen=True)
class Numbers:
    """A column of numbers. best: whether ``high`` or ``low`` ones are better, None where neither is."""

    heading: str
    values: Sequence[Value]
    decimals: int = 1
    best: str | None = None


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
        for place, value in enumerate(column.values):
            mean = _mean(value, column.decimals) or "-"
            bounds = _bounds(value, column.decimals)
            cells.append((f"**{mean}**" if place in best else mean) + (f" {bounds}" if bounds else ""))
        columns.append(cells)
    header = [*table.words, *(column.heading for column in table.numbers)]
    notes = "".join(f"- {note}\n" for note in table.notes)
    return f"{table.caption}\n\n{markdown_table(header, zip(*columns, strict=True))}" + (f"\n{notes}" if notes else "")


def paper_latex(table: PaperTable) -> str:
    """As a float with a caption and a label; its first line names the packages that it needs."""
    widths = "".join("l" for _ in table.words) + "".join(f"S[{_format(column)}]" for column in table.numbers)
    best = [best_rows(column, table.compared) for column in table.numbers]
    header = [_escaped(name) for name in table.words] + [f"{{{_heading(column.heading)}}}" for column in table.numbers]
    lines = [f"{' & '.join(header)} \\\\", "\\midrule"]
    last: list[str] | None = None
    for place, section in enumerate(table.sections):
        if place and section != table.sections[place - 1]:
            lines.append("\\midrule")
            last = None
        named = [_escaped(cells[place]) for cells in table.words.values()]
        shown = _changed(named, last)
        last = named
        means = [
            _bold(_mean(column.values[place], column.decimals) or "{--}", place in best[number])
            for number, column in enumerate(table.numbers)
        ]
        lines.append(f"{' & '.join([*shown, *means])} \\\\")
        bounds = [_bounds(column.values[place], column.decimals) for column in table.numbers]
        if any(bounds):
            below = [f"{{\\scriptsize {text}}}" if text else "" for text in bounds]
            lines.append(f"{' & '.join(['' for _ in named] + below)} \\\\")
    body = "\n".join(lines)
    notes = "".join(f"\n\\par\\smallskip\\footnotesize {_escaped(note)}" for note in table.notes)
    return (
        f"% {PREAMBLE}\n\\begin{{table*}}\n\\centering\\small\\setlength{{\\tabcolsep}}{{4pt}}\n"
        "\\sisetup{reset-text-series=false, text-series-to-math=true}\n"
        f"\\caption{{{_escaped(table.caption)}}}\n\\label{{tab:{table.name.replace('_', '-')}}}\n"
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


def _mean(value: Value, decimals: int) -> str:
    mean = value[0]
    return "" if mean is None or not isfinite(mean) else f"{mean:z.{decimals}f}"  # z: no minus before a zero


def _bounds(value: Value, decimals: int) -> str:
    _, low, high = value
    return "" if low is None or high is None else f"[{low:z.{decimals}f}, {high:z.{decimals}f}]"


def _format(column: Numbers) -> str:
    """The room that siunitx keeps: signs, letters before and behind the point."""
    printed = [text for value in column.values if (text := _mean(value, column.decimals))]
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


def counted(counts: Iterable[int], what: str) -> str | None:
    """``n = 41 facts`` where all rows have one count, else None."""
    distinct = set(counts)
    return f"n = {distinct.pop():,} {what}" if len(distinct) == 1 else None
