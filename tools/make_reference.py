"""Writes pages from the code: ``docs/reference.md``, every command with its options; ``docs/tables.md``, every table of
the catalogue; ``docs/mini.md``, the balance of the bundled data set; ``docs/mini-changes.md``, the bundled
changes.

The Python names are in ``docs/python.md``, which the site fills with their docstrings.

python tools/make_reference.py          # write them
python tools/make_reference.py --check  # exit 1 if one is out of date
"""

import inspect
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from changes_page import changes_page
from mini_page import mini_page
from tables_page import tables_page

from anachron.cli.commands import PANELS, panel_of
from anachron.cli.main import command_tree

DOCS = Path(__file__).parent.parent / "docs"


SHARED = 2  # commands from which on an option is described once for all of them
Row = tuple[str, str, str]


def row(parameter: Any) -> Row:
    """A parameter's name, help and default; equal in the commands that mean the same by it."""
    name = parameter.name.upper() if parameter.param_type_name == "argument" else ", ".join(parameter.opts)
    default = "required" if parameter.required else "" if parameter.default is None else f"`{parameter.default}`"
    return name, parameter.help, default


def shown(command: Any) -> list[Any]:
    return [parameter for parameter in command.params if parameter.name != "help"]


def listed(rows: Iterable[Row]) -> list[str]:
    """An item for each parameter, its default in parentheses."""
    return [f"* `{name}`{f' ({end})' if end else ''}: {help}" for name, help, end in rows]


def shared_rows(tree: Iterable[tuple[str, Any]]) -> set[Row]:
    """Of each option that several commands have, what most of them say of it: another meaning stays in its command."""
    options = (p for _, command in tree for p in shown(command) if p.param_type_name != "argument")
    most: dict[str, Row] = {}
    for one, count in Counter(map(row, options)).most_common():
        if count >= SHARED:
            most.setdefault(one[0], one)
    return {*most.values()}


def commands() -> list[str]:
    """Every command with its arguments and own options, then by panel the options that several commands share."""
    tree = leaves(command_tree())
    together = shared_rows(tree)
    shared: dict[str, dict[Row, None]] = {panel: {} for panel in PANELS}
    lines: list[str] = []
    for name, command in tree:
        lines += [f"## `anachron {name}`", "", inspect.cleandoc(command.help), ""]
        others = [parameter for parameter in shown(command) if row(parameter) in together]
        own = [row(parameter) for parameter in shown(command) if parameter not in others]
        for parameter in others:
            if not any(row(parameter) in rows for rows in shared.values()):  # its panel is not the same in all commands
                shared[panel_of(parameter)][row(parameter)] = None
        if own:
            lines += [*listed(own), ""]
        if others:
            names = ", ".join(f"`{row(parameter)[0]}`" for parameter in others)
            lines += [f"[Shared](#options-of-several-commands): {names}.", ""]
    lines += ["## Options of several commands", ""]
    for panel, rows in shared.items():
        if rows:
            lines += [f"### {panel}", "", *listed(rows), ""]
    return lines


def leaves(group: Any, before: str = "") -> list[tuple[str, Any]]:
    """(name, command) of all commands, those of a group by their full names."""
    found = []
    for name, command in sorted(group.commands.items()):
        within = hasattr(command, "commands")
        found += leaves(command, f"{before}{name} ") if within else [(before + name, command)]
    return found


def reference() -> str:
    tree = command_tree()
    title = ["# Commands", "", "Made from the code by `make docs`; do not edit. In parentheses: the default.", ""]
    anywhere = [
        *(f"* `{', '.join(p.opts)}`: {p.help}" for p in tree.params if p.name != "help"),
        "* `--help`: Explain a command, with an example.",
        "* `--debug`: Anywhere on the line: show the traceback of an error.",
        "",
    ]
    return "\n".join(title + anywhere + commands()).rstrip() + "\n"


PAGES = {"reference.md": reference, "tables.md": tables_page, "mini.md": mini_page, "mini-changes.md": changes_page}


if __name__ == "__main__":
    for name, make in PAGES.items():
        target, text = DOCS / name, make()
        if "--check" not in sys.argv:
            target.write_text(text, "utf-8")
            print(f"wrote {target}")
        elif target.read_text("utf-8") != text:
            sys.exit(f"{target} is out of date; run make docs")
