"""What notebooks show of our objects (``_repr_html_``): plain tables, with every text escaped."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape


def html_table(title: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table under a title; None is an empty cell."""
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return (
        f"<table><caption>{escape(title)}</caption>"
        + (f"<thead><tr>{head}</tr></thead>" if header else "")
        + f"<tbody>{body}</tbody></table>"
    )


def html_record(title: str, values: Mapping[str, object]) -> str:
    """A table of names and values; what is None is left out."""
    return html_table(title, (), [(name, value) for name, value in values.items() if value is not None])


def _cell(value: object) -> str:
    return f"<td>{'' if value is None else escape(str(value))}</td>"
