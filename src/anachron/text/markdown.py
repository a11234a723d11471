"""Tables in Markdown, as GitHub and the Hugging Face hub show them."""

import re
from collections.abc import Iterable, Sequence


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Every cell on one line, its text as it is: bars and tags are escaped. Ends with a new line."""
    lines = [f"| {' | '.join(header)} |", "|" + " --- |" * len(header)]
    lines += [f"| {' | '.join(map(_cell, row))} |" for row in rows]
    return "\n".join(lines) + "\n"


def _cell(value: object) -> str:
    text = " ".join(str(value).split()).replace("|", r"\|")
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text)
