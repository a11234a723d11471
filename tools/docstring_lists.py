"""Makes lists of the parameters in our docstrings, for the site: an extension of griffe, which mkdocstrings uses.

A docstring describes a parameter or field on lines of its own, ``name: what it is``, further lines indented. As
Markdown they would run together in one paragraph.
"""

import re
from typing import Any

import griffe

NAMED = re.compile(r"^([a-z_][a-z0-9_]*(?:, [a-z_][a-z0-9_]*)*): (.*)$")


def with_lists(text: str) -> str:
    """The docstring with ``name: ...`` lines as list items, each list set apart by blank lines."""
    lines: list[str] = []
    within = False
    for line in text.splitlines():
        found = NAMED.match(line)
        if found:
            lines += [] if within else [""]
            names = ", ".join(f"`{name}`" for name in found[1].split(", "))
            lines.append(f"- {names}: {found[2]}")
        else:
            lines += [""] if within and line and not line.startswith(" ") else []
            lines.append(line)
        within = bool(found) or (within and line.startswith(" "))
    return "\n".join(lines)


class DocstringLists(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = with_lists(obj.docstring.value)
