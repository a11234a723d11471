"""The page that lists what the papers print: every table and figure of theirs, and names that exist."""

import re
from pathlib import Path

from anachron.analysis.catalogue import every_analysis

PAGE = (Path(__file__).parents[1] / "docs" / "papers.md").read_text("utf-8")
# How many figures and tables the papers have, by their own numbers.
PRINTED = {"TimeStress": (18, 2), "TimeStress v1": (9, 2), "WikiFactDiff": (3, 6)}
FRENCH = (17, 3)


def rows_of(paper: str) -> list[list[str]]:
    block = PAGE.split(f"| {paper} | ours | what differs |\n", 1)[1].split("\n\n", 1)[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()[1:]]


def named(cell: str) -> set[tuple[str, int]]:
    """Figures and tables of a first cell: ``figures 2, 4`` and ``table 1 (1), table 2 (3)`` too."""
    found = set()
    for kind, numbers in re.findall(r"(figure|table)s? (\d+(?:, \d+)*)", cell):
        found |= {(kind, int(number)) for number in numbers.split(", ")}
    return found


def test_every_table_and_figure_of_the_papers_is_listed_once():
    for paper, (figures, tables) in PRINTED.items():
        listed = [one for row in rows_of(paper) for one in named(re.sub(r"\([^)]*\)", "", row[0]))]
        expected = {("figure", n + 1) for n in range(figures)} | {("table", n + 1) for n in range(tables)}
        assert sorted(listed) == sorted(expected), paper
    french: list[tuple[str, int]] = []
    for row in rows_of("TimeStress"):
        for kind, inside in re.findall(r"(figure|table) \d+ \((?:French: )?((?:table )?\d+)\)", row[0]):
            french.append(("table" if inside.startswith("table") else kind, int(inside.split()[-1])))
    assert sorted(french) == sorted(
        [("figure", n + 1) for n in range(FRENCH[0])] + [("table", n + 1) for n in range(3)]
    )


def test_every_analysis_that_is_named_exists_and_every_one_of_the_papers_is_named():
    cells = [cell for paper in ("TimeStress", "TimeStress v1") for row in rows_of(paper) for cell in row[1:2]]
    words = {word for cell in cells for word in re.findall(r"`([a-z_]+)`", cell)}
    known = {analysis.name: analysis.source for analysis in every_analysis()}
    assert words - known.keys() <= {"published_ratio", "top"}
    of_figures = {name for name, source in known.items() if "figure" in source or "table" in source}
    assert of_figures <= words | {"dataset"}  # the numbers of section 3.2, which the card has
