"""Draws which parts of the package import which: pictures and tables of ``docs/architecture.md``.

A component is a module or a sub-package, first of ``anachron``, then of ``anachron.edit``. An arrow says that some
module of one component imports some module of another, and points down; imports inside functions and for type checks
count. Arrows implied by others (a to c where a leads to b and b to c) are counted but not drawn.
``anachron/__init__.py`` is not a component: it only exports the public names. If components or files import each other
in a circle, the tool exits with the lines of code.

python tools/architecture.py          # write them
python tools/architecture.py --check  # exit 1 if one is out of date
"""

import re
import sys
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from math import fsum
from pathlib import Path

import grimp

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "architecture.md"
PICTURES = {"anachron": "architecture.svg", "anachron.edit": "architecture-edit.svg"}
PLACE = re.compile(r"(<!-- imports of (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
WIDTH, HEIGHT, GAP, ROW = 112, 30, 22, 84  # of a box, between boxes, and from row to row, in pixels
Arrows = Mapping[str, set[str]]  # component -> the components that it imports


def imports(graph: grimp.ImportGraph, package: str) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """(importing component, imported component) -> its (importing module, imported module), inside one package."""
    inside = [name for name in sorted(graph.modules) if name.startswith(f"{package}.")]
    behind: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for module in inside:
        for other in sorted(graph.find_modules_directly_imported_by(module)):
            ends = component(module, package), component(other, package)
            if other in inside and ends[0] != ends[1]:
                behind.setdefault(ends, []).append((module, other))
    return behind


def component(module: str, package: str) -> str:
    return module.removeprefix(f"{package}.").partition(".")[0]


def arrows_of(graph: grimp.ImportGraph, package: str) -> dict[str, set[str]]:
    """The components of a package and what each imports. Exits where they form a circle, with its lines of code."""
    behind = imports(graph, package)
    arrows: dict[str, set[str]] = {component(name, package): set() for name in sorted(graph.find_children(package))}
    for importer, imported in behind:
        arrows[importer].add(imported)
    refuse_circles(graph, arrows, behind, f"components of {package}")
    return arrows


def file_arrows(graph: grimp.ImportGraph, package: str) -> dict[str, set[str]]:
    """The files of a package and what each imports of it. Exits where they form a circle, with its lines of code."""
    inside = {name for name in graph.modules if name.startswith(f"{package}.")}
    arrows = {name: graph.find_modules_directly_imported_by(name) & inside for name in sorted(inside)}
    behind = {(name, other): [(name, other)] for name, others in arrows.items() for other in others}
    refuse_circles(graph, arrows, behind, f"files of {package}")
    return arrows


def refuse_circles(
    graph: grimp.ImportGraph, arrows: Arrows, behind: Mapping[tuple[str, str], list[tuple[str, str]]], what: str
) -> None:
    """Exit where arrows form a circle. behind: the imports that an arrow stands for."""
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        circle = [(a, b) for b, a in pairwise(error.args[1])]
        lines = [
            f"{importer}:{found['line_number']}: {found['line_contents']}"
            for ends in circle
            for importer, imported in behind[ends]
            for found in graph.get_import_details(importer=importer, imported=imported)
        ]
        sys.exit("\n".join([f"{what} import each other: {', '.join(error.args[1])}", *lines]))


def reduced(arrows: Arrows) -> dict[str, set[str]]:
    """Without the arrows that follow from others."""
    reached: dict[str, set[str]] = {}
    for name in TopologicalSorter(arrows).static_order():
        reached[name] = arrows[name].union(*(reached[other] for other in arrows[name]))
    return {name: others - set().union(*(reached[o] for o in others)) for name, others in arrows.items()}


def rows_of(arrows: Arrows) -> tuple[list[list[str]], dict[str, set[str]]]:
    """Rooms in rows, each above all that it imports, and arrows that lead from one row to the next.

    A longer arrow passes the rows between through places of its own, named ``from>to>row``. Within a row, what stands
    near to each other in the rows beside stands near to each other.
    """
    height: dict[str, int] = {}
    for name in TopologicalSorter(arrows).static_order():
        height[name] = 1 + max((height[other] for other in arrows[name]), default=-1)
    steps: dict[str, set[str]] = {}
    for name, others in arrows.items():
        for other in others:
            between = [f"{name}>{other}>{level}" for level in range(height[name] - 1, height[other], -1)]
            for one, next_one in pairwise([name, *between, other]):
                steps.setdefault(one, set()).add(next_one)
    places = height | {name: int(name.rpartition(">")[2]) for name in steps if ">" in name}
    rows = [sorted(name for name in places if places[name] == level) for level in range(max(places.values()), -1, -1)]
    near = {name: steps.get(name, set()) | {other for other in steps if name in steps[other]} for name in places}
    for _ in range(20):
        where = {name: (n + 0.5) / len(row) for row in rows for n, name in enumerate(row)}
        for row in rows:
            row.sort(key=lambda name: (fsum(where[other] for other in near[name]) / max(1, len(near[name])), name))
            where |= {name: (n + 0.5) / len(row) for n, name in enumerate(row)}
    return rows, steps


def picture(arrows: Arrows, title: str) -> str:
    """The components and their reduced arrows as SVG."""
    rows, steps = rows_of(reduced(arrows))
    lengths = [sum(width(name) + GAP for name in row) + GAP for row in rows]
    middle: dict[str, float] = {}
    top: dict[str, int] = {}
    for n, row in enumerate(rows):
        x = (max(lengths) - lengths[n]) / 2 + GAP
        for name in row:
            middle[name], top[name] = x + width(name) / 2, GAP + n * ROW
            x += width(name) + GAP
    size = f"{max(lengths)} {(len(rows) - 1) * ROW + HEIGHT + 2 * GAP}"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" font-family="sans-serif" font-size="13">',
        f"<title>{title}</title>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#667"/></marker></defs>',
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    for name in sorted(steps):
        for other in sorted(steps[name]):
            x, y = middle[name], top[name] + HEIGHT
            u, v = middle[other], top[other]
            start = f"M{x:.0f} {top[name]}V{y}" if ">" in name else f"M{x:.0f} {y}"
            head = "" if ">" in other else ' marker-end="url(#head)"'
            curve = f"C{x:.0f} {y + 30} {u:.0f} {v - 30} {u:.0f} {v}"
            lines.append(f'<path d="{start}{curve}" fill="none" stroke="#889"{head}/>')
    for name in sorted(arrows):
        x, y = middle[name], top[name]
        box = f'x="{x - WIDTH / 2:.0f}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="5"'
        lines += [
            f'<rect {box} fill="#eef" stroke="#446"/>',
            f'<text x="{x:.0f}" y="{y + 20}" text-anchor="middle">{name}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def width(name: str) -> int:
    return 4 if ">" in name else WIDTH


def table(arrows: Arrows) -> str:
    """What each component imports, in Markdown, and how many arrows that makes."""
    drawn = reduced(arrows)
    counts = f"{len(arrows)} components, {count(arrows)} arrows, {count(drawn)} of them drawn.\n"
    lines = [f"| `{name}` | {', '.join(sorted(arrows[name]))} |" for name in sorted(arrows)]
    return "\n".join([counts, "| component | imports |", "| --- | --- |", *lines, ""])


def count(arrows: Arrows) -> int:
    return sum(map(len, arrows.values()))


def files() -> dict[Path, str]:
    """What the page and its pictures should hold."""
    graph = grimp.build_graph("anachron", cache_dir=None)
    arrows = {package: arrows_of(graph, package) for package in PICTURES}
    file_arrows(graph, "anachron")
    pictures = {
        DOCS / file: picture(arrows[package], f"What imports what in {package}") for package, file in PICTURES.items()
    }
    page = PLACE.sub(lambda place: place[1] + table(arrows[place[2]]) + place[3], PAGE.read_text("utf-8"))
    return {**pictures, PAGE: page}


if __name__ == "__main__":
    for path, text in files().items():
        if "--check" not in sys.argv:
            path.write_text(text, "utf-8")
            print(f"wrote {path}")
        elif not path.exists() or path.read_text("utf-8") != text:
            sys.exit(f"{path} is out of date; run make docs")
