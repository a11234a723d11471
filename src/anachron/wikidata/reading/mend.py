"""A line of a dump with a text that is none (half a surrogate pair): what it is the text of goes, the entity stays."""

import json
import re
from typing import Any

_HALF = re.compile("[\ud800-\udfff]")
_WRITTEN = re.compile(rb"\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]")
# What a snapshot is made of
_READ = ("id", "type", "datatype", "labels", "descriptions", "sitelinks", "claims", "lastrevid", "modified")


def without_halves(line: bytes | memoryview, references: bool = False) -> tuple[bytes, list[str]] | None:
    """The line without the values that hold half a surrogate pair, and what these were; None where none does.

    A label, description or title is taken out; the value of a statement or qualifier becomes one that is not known.
    references: whether those of statements are of use; a statement that has a broken one loses all of its own.
    """
    if not _WRITTEN.search(line):
        return None
    try:
        entity = json.loads(bytes(line).decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(entity, dict):
        return None
    entity = {key: entity[key] for key in _READ if key in entity}
    left_out: list[str] = []
    for kind in ("labels", "descriptions", "sitelinks"):
        for key in [key for key, term in _items(entity.get(kind)) if _is_broken(term)]:
            left_out.append(f"{kind} {key}")
            del entity[kind][key]
    for name, statements in _items(entity.get("claims")):
        for statement in statements if isinstance(statements, list) else ():
            left_out += _mend_statement(name, statement, references)
    return json.dumps(entity).encode(), left_out


def _mend_statement(name: str, statement: Any, references: bool) -> list[str]:
    """Put what is not known in the place of broken values, and say of which."""
    left_out: list[str] = []
    if not isinstance(statement, dict):
        return []
    if not references:
        statement.pop("references", None)
    elif _is_broken(statement.get("references")):
        del statement["references"]
        left_out.append(f"references of statement {statement.get('id')} of {name}")
    if _is_broken(statement.get("id")):
        del statement["id"]
    if _is_broken(statement.get("mainsnak")):
        statement["mainsnak"] = _unknown(statement["mainsnak"])
        left_out.append(f"statement {statement.get('id')} of {name}")
    for key, snaks in _items(statement.get("qualifiers")):
        for place, snak in enumerate(snaks if isinstance(snaks, list) else ()):
            if _is_broken(snak):
                snaks[place] = _unknown(snak)
                left_out.append(f"qualifier {key} of statement {statement.get('id')} of {name}")
    return left_out


def _unknown(snak: Any) -> dict[str, Any]:
    kept = {key: value for key, value in _items(snak) if key != "datavalue" and not _is_broken(value)}
    return kept | {"snaktype": "somevalue"}


def _items(node: Any) -> list[tuple[str, Any]]:
    return list(node.items()) if isinstance(node, dict) else []


def _is_broken(node: Any) -> bool:
    if isinstance(node, str):
        return _HALF.search(node) is not None
    if isinstance(node, dict):
        return any(_is_broken(part) for pair in node.items() for part in pair)
    return isinstance(node, list) and any(map(_is_broken, node))
