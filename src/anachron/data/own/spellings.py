"""The rows of a file of facts, and one spelling for each name that stands in it in several."""

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from anachron.core.periods import Period
from anachron.core.sameness import code_points, is_invisible, name_key
from anachron.data.own.notices import Notices

_JOINERS = "\u200c\u200d"  # which the words of some scripts are written with
_NAMES = ("subject_id", "relation_id", "object_id", "subject", "relation", "object")


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a file, with its number. values: by the names of `anachron.data.own.columns.KNOWN`; all: by those of the
    file."""

    number: int
    period: Period
    values: dict[str, Any]
    all: Mapping[str, Any]

    def key(self, side: str) -> str:
        """What a subject, relation or object is known by: its id where it has one, or else its name."""
        return name_key(str(self.values.get(f"{side}_id") or self.values[side]))

    @property
    def group(self) -> tuple[str, str]:
        return self.key("subject"), self.key("relation")


def in_one_spelling(rows: Sequence[Row], notices: Notices) -> list[Row]:
    """The rows with each name as one of its spellings: without invisible characters and composed (NFC) where one is so,
    of those the one that most rows have, then the first. Of objects those of one subject and relation are compared.
    """
    spelled: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    places = [{name: _place(row, name) for name in _NAMES if row.values.get(name) is not None} for row in rows]
    for row, of_row in zip(rows, places, strict=True):
        for name, place in of_row.items():
            spelled[place][row.values[name]] += 1
    chosen: dict[tuple[str, ...], str] = {}
    for place, spellings in spelled.items():
        ordered = sorted(spellings, key=lambda text: (not _plain(text), -spellings[text]))  # the first, of equals
        chosen[place] = ordered[0]
        if len(ordered) > 1:
            said = " and ".join(map(code_points, ordered[:3]))
            notices.add(
                "names are spelled in several ways and read as one",
                f"{place[0]}: {said} are read as one name, {ordered[0]}",
            )
    return [
        replace(row, values=row.values | {name: chosen[place] for name, place in of_row.items()})
        for row, of_row in zip(rows, places, strict=True)
    ]


def _place(row: Row, name: str) -> tuple[str, ...]:
    """What the spellings of one name share."""
    same = name_key(str(row.values[name]))
    if name.endswith("_id"):
        return name, same
    return (name, *(row.group if name == "object" else ()), row.key(name), same)


def _plain(text: str) -> bool:
    invisible = any(is_invisible(sign) and sign not in _JOINERS for sign in text)
    return not invisible and unicodedata.is_normalized("NFC", text)
