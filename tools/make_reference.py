"""Writes ``docs/reference.md``: every command with its options, and every public name with its docstring.

python tools/make_reference.py          # write it
python tools/make_reference.py --check  # exit 1 if it is out of date
"""

import inspect
import sys
from pathlib import Path
from typing import Any

import typer

import anachron
from anachron.cli.main import app

TARGET = Path(__file__).parent.parent / "docs" / "reference.md"


def commands() -> list[str]:
    tree = typer.main.get_command(app)
    lines = ["## Commands", "", "`--debug`, anywhere on the line, shows the traceback of an error.", ""]
    for name, command in leaves(tree):
        lines += [
            f"### `anachron {name}`",
            "",
            inspect.cleandoc(command.help),
            "",
            "| | | default |",
            "| --- | --- | --- |",
        ]
        for parameter in command.params:
            if parameter.name == "help":
                continue
            is_argument = parameter.param_type_name == "argument"
            shown = parameter.name.upper() if is_argument else ", ".join(parameter.opts)
            default = (
                "required" if parameter.required else "" if parameter.default is None else f"`{parameter.default}`"
            )
            lines.append(f"| `{shown}` | {parameter.help} | {default} |")
        lines.append("")
    return lines


def leaves(group: Any, before: str = "") -> list[tuple[str, Any]]:
    """(name, command) of all commands, those of a group by their full names."""
    found = []
    for name, command in sorted(group.commands.items()):
        within = hasattr(command, "commands")
        found += leaves(command, f"{before}{name} ") if within else [(before + name, command)]
    return found


def names() -> list[str]:
    lines = ["## Python", ""]
    for name in anachron.__all__:
        thing = getattr(anachron, name)
        signature = "" if isinstance(thing, type) and issubclass(thing, Exception) else str(inspect.signature(thing))
        lines += [f"### `anachron.{name}{_plain(signature)}`", "", inspect.getdoc(thing) or "", ""]
        if isinstance(thing, type):
            for member, value in vars(thing).items():
                if member.startswith("_") or not (inspect.isfunction(value) or isinstance(value, classmethod)):
                    continue
                function = getattr(thing, member)
                lines += [f"**`{name}.{member}{_plain(str(inspect.signature(function)))}`**", ""]
                lines += [inspect.getdoc(function) or "", ""]
    return lines


def _plain(signature: str) -> str:
    return signature.replace("anachron.", "").replace("'", "").replace("typing.", "")


def reference() -> str:
    title = ["# Reference", "", "Made from the code by `make docs`; do not edit.", ""]
    return "\n".join(title + commands() + names()).rstrip() + "\n"


if __name__ == "__main__":
    text = reference()
    if "--check" in sys.argv:
        sys.exit(0 if TARGET.read_text("utf-8") == text else f"{TARGET} is out of date; run make docs")
    TARGET.write_text(text, "utf-8")
    print(f"wrote {TARGET}")
