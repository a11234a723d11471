"""Half characters: lone surrogates, which no encoding can write and JSON's escapes (``\\ud800``) let in."""

import re
from typing import Any

_HALF = re.compile("[\ud800-\udfff]")


def without_halves(text: str) -> tuple[str, int]:
    """A text with U+FFFD in the place of each half character, and how many there were."""
    return _HALF.subn("\ufffd", text)


def whole_texts(value: Any) -> tuple[Any, int]:
    """What a JSON text holds, with all its texts, names of fields too, as `without_halves` has them; and how many."""
    if isinstance(value, str):
        return without_halves(value)
    if isinstance(value, list):
        parts = [whole_texts(part) for part in value]
        return [part for part, _ in parts], sum(count for _, count in parts)
    if isinstance(value, dict):
        fields = [(without_halves(name), whole_texts(part)) for name, part in value.items()]
        return {name: part for (name, _), (part, _) in fields}, sum(a + b for (_, a), (_, b) in fields)
    return value, 0
