"""Documentation that cannot drift."""

import importlib
import inspect
import re
import shlex
import sys
from pathlib import Path

import pytest

import anachron
from anachron.analysis.catalogue import ANALYSES, make_tables
from anachron.cli.main import command_tree
from anachron.edit.methods import methods
from support.doc_stage import check_options
from support.synthetic_studies import synthetic_study

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def tools():
    """The modules of tools/ that make pages."""
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        yield importlib.import_module("make_reference"), importlib.import_module("tables_page")
    finally:
        sys.path.remove(str(ROOT / "tools"))


@pytest.mark.parametrize("page", ["reference.md", "tables.md", "mini.md", "mini-changes.md"])
def test_pages_made_from_the_code_are_up_to_date(tools, page):
    assert (ROOT / "docs" / page).read_text("utf-8") == tools[0].PAGES[page](), "run make docs"


def test_every_command_and_option_is_in_the_reference():
    text = (ROOT / "docs" / "reference.md").read_text("utf-8")
    tree = command_tree()
    for words in (command for command in all_commands(tree)):
        section = text.split(f"## `anachron {words}`\n", 1)[1].split("\n## ")[0]
        for parameter in all_commands(tree)[words].params:
            if parameter.name != "help" and parameter.param_type_name == "option":
                assert all(f"{option}" in section for option in parameter.opts), f"{words} {parameter.name}"


def all_commands(group, before=""):
    found = {}
    for name, command in group.commands.items():
        found |= all_commands(command, f"{before}{name} ") if hasattr(command, "commands") else {before + name: command}
    return found


def test_every_table_is_described_column_by_column():
    made, left_out = make_tables(synthetic_study(16))
    assert left_out == {}
    for analysis in ANALYSES:
        assert list(analysis.columns) == made[analysis.name].columns, analysis.name


def test_every_public_name_is_on_the_python_page():
    listed = re.findall(r"^::: anachron\.(\w+)$", (ROOT / "docs" / "python.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(anachron.__all__)
    undocumented = [name for name in anachron.__all__ if not inspect.getdoc(getattr(anachron, name))]
    assert undocumented == []


def test_the_settings_of_every_method_and_what_it_needs_are_public_names():
    for method in methods().values():
        assert getattr(anachron, method.settings.__name__) is method.settings
    assert {"Resources", "SecondMoment", "import_covariance", "settings_for"} <= {*anachron.__all__}


def test_commands_and_options_in_the_guides_exist():
    found = 0
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "recipes").glob("*")]:
        if page.name == "reference.md":
            continue
        text = page.read_text("utf-8").replace("\\\n", " ")
        for line in re.findall(r"^(?:\$ |# +)?anachron ([^A-Z].+)$", text, re.MULTILINE):
            check_options(shlex.split(line.partition(" #")[0]), f"{page.name}: anachron {line}")
            found += 1
    assert found > 20


def test_docstrings_become_lists_on_the_site(tools):
    lists = pytest.importorskip("docstring_lists", reason="needs the extra docs")
    text = "What.\n\none: first,\n    still first.\ntwo, three: both.\nReturns it.\nExample: none"
    assert lists.with_lists(text) == (
        "What.\n\n\n- `one`: first,\n    still first.\n- `two`, `three`: both.\n\nReturns it.\nExample: none"
    )


def test_links_between_pages_lead_somewhere():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
