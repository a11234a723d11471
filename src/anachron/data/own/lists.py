"""Lists of names in one cell, as other tools write them: ``['Alma-Ata', 'Verny']``, JSON, ``{a,b}``, ``a; b``."""

import ast
import json
import re

from anachron.core.errors import DataError

_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)
_BARE = re.compile(r'\s*"(?:[^"\\]|\\.)*"|[^,]+')
_BETWEEN = re.compile(r"[\s,;]*(?:\b(?:None|null|nan)\b[\s,;]*)*")
_BRACKETS = {"[": "]", "(": ")", "{": "}"}


def names_in_cell(text: str) -> tuple[tuple[str, ...], bool]:
    """The names in a text, and whether it is a list as another tool writes it, not names with ``|`` between.

    A list is in brackets, its names in quotation marks or with commas between, or has semicolons between; ``[sic]``,
    with neither, is a name.

    Raises `DataError` for a JSON list of something else than texts.
    """
    if (listed := _in_brackets(text.strip())) is not None:
        return listed, True
    if "|" in text:
        return tuple(text.split("|")), False
    parts = re.split(r";\s+" if "&" in text else ";", text)  # "AT&amp;T" is one name
    return tuple(parts), len(parts) > 1


def _in_brackets(text: str) -> tuple[str, ...] | None:
    if len(text) < 2 or _BRACKETS.get(text[0]) != text[-1]:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, list) or (isinstance(found, dict) and found):
        names = [name for name in found if name is not None]
        if isinstance(found, dict) or not all(isinstance(name, str) for name in names):
            raise DataError(f"{text[:60]!r} is a list of something else than texts; write names with '|' between them")
        return tuple(names)
    inside = text[1:-1]
    quoted = _QUOTED.findall(inside)
    if quoted and _BETWEEN.fullmatch(_QUOTED.sub(",", inside)):
        try:
            return tuple(ast.literal_eval(name.replace("\n", " ")) for name in quoted)
        except (SyntaxError, ValueError):  # a broken escape in it
            return None
    if "," not in inside or text[0] == "(":  # "(West) Berlin, (East) Berlin" is no list
        return None if inside.strip() else ()
    return tuple(part.strip().strip('"') for part in _BARE.findall(inside))
