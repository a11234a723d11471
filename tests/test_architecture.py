"""The page of the architecture: its pictures are those of the code, and what it names is there."""

import importlib
import re
import sys
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "architecture.md"


@pytest.fixture(scope="module")
def architecture():
    """The module of tools/ that draws."""
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        yield importlib.import_module("architecture")
    finally:
        sys.path.remove(str(ROOT / "tools"))


def test_pictures_and_tables_are_up_to_date(architecture):
    for path, text in architecture.files().items():
        assert path.read_text("utf-8") == text, f"{path.name}: run make docs"


def test_edit_has_few_arrows(architecture):
    graph = grimp.build_graph("anachron", cache_dir=None)
    assert architecture.count(architecture.arrows_of(graph, "anachron.edit")) <= 40


def graph_of(*imports: tuple[str, str]) -> grimp.ImportGraph:
    graph = grimp.ImportGraph()
    for module in sorted({"p", *(name for pair in imports for name in pair)}):
        graph.add_module(module)
    for importer, imported in imports:
        graph.add_import(importer=importer, imported=imported, line_number=3, line_contents=f"import {imported}")
    return graph


def test_arrows_lie_between_rooms_and_those_that_follow_are_not_drawn(architecture):
    graph = graph_of(("p.a.x", "p.b"), ("p.a.x", "p.a.y"), ("p.b", "p.c.z"), ("p.a.y", "p.c.z"), ("p", "p.a.x"))
    for package in ("p.a", "p.c"):
        graph.add_module(package)
    arrows = architecture.arrows_of(graph, "p")
    assert arrows == {"a": {"b", "c"}, "b": {"c"}, "c": set()}
    assert architecture.reduced(arrows) == {"a": {"b"}, "b": {"c"}, "c": set()}


def test_a_long_arrow_passes_the_rows_between(architecture):
    rows, steps = architecture.rows_of({"a": {"b", "d"}, "b": {"c"}, "c": {"d"}, "d": set()})
    assert [set(row) for row in rows] == [{"a"}, {"b", "a>d>2"}, {"c", "a>d>1"}, {"d"}]
    assert steps == {"a": {"b", "a>d>2"}, "a>d>2": {"a>d>1"}, "a>d>1": {"d"}, "b": {"c"}, "c": {"d"}}


def test_a_circle_is_named_with_its_lines(architecture):
    with pytest.raises(SystemExit) as stopped:
        architecture.arrows_of(graph_of(("p.a", "p.b"), ("p.b", "p.c"), ("p.c", "p.a")), "p")
    for line in ("p.a:3: import p.b", "p.b:3: import p.c", "p.c:3: import p.a"):
        assert line in str(stopped.value)


def test_a_circle_of_files_in_one_room_is_named(architecture):
    graph = graph_of(("p.a.x", "p.a.y"), ("p.a.y", "p.a.x"))
    graph.add_module("p.a")
    assert architecture.arrows_of(graph, "p") == {"a": set()}
    with pytest.raises(SystemExit, match=r"files of p import each other(.|\n)*p\.a\.y:3: import p\.a\.x"):
        architecture.file_arrows(graph, "p")


def names_on_the_page() -> list[str]:
    return sorted(set(re.findall(r"`anachron\.([\w.]+)`", PAGE.read_text("utf-8"))))


@pytest.mark.parametrize("name", names_on_the_page())
def test_what_the_page_names_exists(name: str):
    module, rest = "anachron", name.split(".")
    while rest:
        try:
            importlib.import_module(f"{module}.{rest[0]}")
        except ModuleNotFoundError as error:
            assert error.name == f"{module}.{rest[0]}"
            break
        module = f"{module}.{rest.pop(0)}"
    found = importlib.import_module(module)
    for part in rest:
        found = getattr(found, part)


def test_the_page_has_three_walks_of_ten_lines():
    text = PAGE.read_text("utf-8")
    walks = [part for part in text.split("\n## ")[1:] if re.match(r"(?:A|An) \w+", part)]
    assert [walk.split(":")[0] for walk in walks] == ["A statement", "An entity", "An edit"]
    for walk in walks:
        assert len(re.findall(r"^\d+\. ", walk, re.MULTILINE)) == 10
