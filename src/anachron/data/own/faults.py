"""What is wrong with the rows of a file: all of it at once, by kind."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from anachron.core.errors import DataError
from anachron.data.own.notices import SHOWN

_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_VALUES = re.compile(rf"(?:{_QUOTED}|-?\d[\d-]*)")


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
    def kind(self) -> tuple[str, str]:
        """What faults of one kind share: the column, and the rule without its values."""
        return self.column, _VALUES.sub("", self.rule)


def refuse(faults: Sequence[Fault]) -> None:
    """Raise one `DataError` for all faults, by kind: the first one whole, then how many more rows have it, and the
    first few of these with their values. Nothing where there is none."""
    kinds: dict[tuple[str, str], list[Fault]] = defaultdict(list)
    for fault in sorted(faults, key=lambda fault: fault.row):
        kinds[fault.kind].append(fault)
    if kinds:
        raise DataError(" | ".join(map(_alike, kinds.values())))


def _alike(faults: Sequence[Fault]) -> str:
    """Faults of one kind: ``row 2, start: 'soon' is not a date: ...; likewise 1 more row: 3 ('later')``."""
    first, *more = faults
    if not more:
        return str(first)
    values = [found[0] if (found := re.match(_QUOTED, fault.rule)) else "''" for fault in more]
    shown = [f"{one.row} ({value})" if value != "''" else f"{one.row}" for one, value in zip(more, values, strict=True)]
    rest = f" and {len(more) - SHOWN} more" if len(more) > SHOWN else ""
    return f"{first}; likewise {len(more)} more row{'s'[: len(more) > 1]}: {', '.join(shown[:SHOWN])}{rest}"
