"""How a file of facts is read: which of its columns mean what, in which order its dates are, which sheet is meant."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field

from anachron.core.errors import ConfigError
from anachron.data.own.columns import KNOWN
from anachron.data.own.dates import ORDERS, Order


@dataclass(frozen=True)
class Reading:
    """How a file of facts is read, where its words do not say so.

    columns: names of `anachron.data.own.columns.KNOWN` -> columns of the file; ``=capital`` is what a column that the
    file lacks would hold in every row. dates: day or month first, in dates such as 08/12/2004. sheet: of a spreadsheet,
    by default the first.

    Raises `ConfigError` for a column or an order that is not known.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    dates: Order | None = None
    sheet: str | None = None

    def __post_init__(self) -> None:
        for known, column in self.columns.items():
            if known not in KNOWN or not column:
                raise ConfigError(
                    f"--columns {known}={column}: write subject=Country, a column's meaning first; meanings are "
                    f"{', '.join(KNOWN)}"
                )
        if self.dates not in (None, *ORDERS):
            raise ConfigError(f"--dates {self.dates}: choose dmy (day first) or mdy (month first)")

    @property
    def constants(self) -> dict[str, str]:
        """What all rows have in columns that the file lacks."""
        return {known: column[1:] for known, column in self.columns.items() if column.startswith("=")}

    def refuse(self, name: str) -> None:
        """Raise `ConfigError` where anything is chosen, of a data set that is no file of facts."""
        for option, value in self.recorded().items():
            raise ConfigError(f"--{option} {value}: {name} is not a file of facts; leave it out")

    def recorded(self) -> dict[str, str]:
        """What was chosen or found, as the options write it, for identities and manifests."""
        columns = ",".join(f"{known}={column}" for known, column in self.columns.items())
        texts = {"columns": columns, "dates": self.dates, "sheet": self.sheet}
        return {name: text for name, text in texts.items() if text}


def columns_of(text: str) -> dict[str, str]:
    """``subject=Land,object=Person`` as a mapping; a name with a comma in it stands in double quotes with its meaning.

    Raises `ConfigError` for anything else, and for one meaning twice.
    """
    pairs = [part.partition("=") for part in next(csv.reader([text], skipinitialspace=True), [])]
    columns = {known.strip(): column.strip() for known, _, column in pairs}
    if not pairs or not all(mark for _, mark, _ in pairs) or len(columns) < len(pairs):
        raise ConfigError(f"--columns {text!r}: write subject=Country,object=Name, each meaning once")
    return columns
