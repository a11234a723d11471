"""What is wrong with the rows of a file: all of it at once, by kind."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from anachron.core.errors import DataError
from anachron.data.own.notices import SHOWN

_VALUE = re.compile(r"""'(?:[^'\\]|\\.)+'|"(?:[^"\\]|\\.)+\"""")
_VALUES = re.compile(rf"{_VALUE.pattern}|''|-?\d[\d-]*")


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a row: rows are counted from 1, the header aside; ``rule`` names the value, rule and fix.
    column: none where the row as a whole is wrong."""

    row: int
    column: str
    rule: str

    def __str__(self) -> str:
        return f"row {self.row}{', ' if self.column else ''}{self.column}: {self.rule}"

    @property
    def kind(self) -> str:
        """What faults of one kind share: the rule without its values."""
        return _VALUES.sub("", self.rule)


def refuse(faults: Sequence[Fault]) -> None:
    """Raise one `DataError` for all faults, by kind: the first one whole, then how many more there are of it, and where
    the first few of these are, with their values. Nothing where there is none."""
    kinds: dict[str, list[Fault]] = defaultdict(list)
    for fault in sorted(faults, key=lambda fault: fault.row):
        kinds[fault.kind].append(fault)
    if kinds:
        raise DataError(" | ".join(map(_alike, kinds.values())))


def _alike(faults: Sequence[Fault]) -> str:
    """Faults of one kind: ``row 2, start: 'soon' is not a date: ...; likewise 2 more: 2 end ('later'), 3 ('soon')``."""
    first, *more = faults
    shown = [
        f"{one.row}{f' {one.column}' if one.column != first.column else ''}{f' ({value[0]})' if value else ''}"
        for one in more[:SHOWN]
        for value in [_VALUE.match(one.rule)]
    ]
    rest = f" and {len(more) - SHOWN} more" if len(more) > SHOWN else ""
    return f"{first}; likewise {len(more)} more: {', '.join(shown)}{rest}" if more else str(first)
