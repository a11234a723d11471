"""Documentation that cannot drift."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest
import typer

from anachron.cli.main import app

ROOT = Path(__file__).parent.parent


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="signatures print differently in other versions of Python")
def test_reference_is_up_to_date():
    spec = importlib.util.spec_from_file_location("make_reference", ROOT / "tools" / "make_reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "reference.md").read_text("utf-8") == module.reference(), "run make docs"


def test_commands_and_options_in_the_guides_exist():
    tree = typer.main.get_command(app)
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        if page.name == "reference.md":
            continue
        for line in re.findall(r"^(?:\$ )?anachron (.+)$", page.read_text("utf-8"), re.MULTILINE):
            words = line.split()
            command = tree
            while hasattr(command, "commands"):
                command = command.commands.get(words.pop(0))
            assert command is not None, f"{page.name}: anachron {line}"
            known = {option for parameter in command.params for option in parameter.opts} | {"--help", "--debug"}
            for word in words:
                assert not word.startswith("--") or word in known, f"{page.name}: anachron {line}"


def test_links_between_pages_lead_somewhere():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
