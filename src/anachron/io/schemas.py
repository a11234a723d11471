"""What a table must hold, whatever file it came from: declared once, refused in one style.

A refusal names the table, the row (counted from 1, the header aside), the column, the value, the rule with its fix, and
how many rows break it. Rules that hold between columns are checked by their owners, with `refuse_rows`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import polars as pl
from polars.datatypes import DataType, DataTypeClass

from anachron.core.errors import DataError, first_line

Kind = DataType | DataTypeClass


@dataclass(frozen=True, slots=True)
class CellRule:
    """What holds of each cell of a column that is not empty. words: what is said of one that breaks it."""

    holds: Callable[[pl.Expr], pl.Expr]
    words: str


def one_of(known: Sequence[str]) -> CellRule:
    return CellRule(lambda cell: cell.is_in(list(known)), f"is unknown; use one of {', '.join(known)}")


EMPTY = "is empty; every row needs one"
NOT_BLANK = CellRule(lambda cell: cell.str.strip_chars() != "", EMPTY)
FINITE = CellRule(lambda cell: cell.is_finite(), "is not a finite number; give one or leave it empty")
PROBABILITY = CellRule(lambda cell: cell.is_between(0, 1), "is not a probability; it must be 0 to 1, not a logarithm")
NOT_BELOW_0 = CellRule(lambda cell: cell >= 0, "is below 0; it must be 0 or more, or null")


@dataclass(frozen=True, slots=True)
class ColumnSchema:
    """A column: its type, whether each row must have a value, whether the whole column may be missing, its rules.

    absent: what an empty cell becomes, as in tables that were written before the column was.
    """

    kind: Kind = pl.String
    filled: bool = False
    optional: bool = False
    rules: tuple[CellRule, ...] = ()
    absent: Any = None


@dataclass(frozen=True, slots=True)
class Schema:
    """A table by its columns.

    name: what refusals call it. keys: columns of which no two rows have the same values. remedy: what to do where a
    column is missing; by default the columns are named.
    """

    name: str
    columns: Mapping[str, ColumnSchema]
    keys: tuple[str, ...] = ()
    remedy: str = field(default="", kw_only=True)

    @property
    def types(self) -> dict[str, Kind]:
        return {name: column.kind for name, column in self.columns.items()}

    def read(self, table: pl.DataFrame, *, others: bool = False) -> pl.DataFrame:
        """The table with just these columns, in their order and types.

        others: its further columns stay, and all columns where they are; those that were missing come last. Raises
        `DataError` for a column that is missing, and for the first row with a cell that is of another type, empty where
        each row needs one, or against a rule, and for two rows of the same keys.
        """
        needed = [name for name, column in self.columns.items() if not column.optional]
        refuse_missing(table.columns, needed, self.name, self.remedy or f"it needs {', '.join(needed)}")
        given = table.with_columns(pl.lit(None).alias(name) for name in self.columns if name not in table.columns)
        try:
            typed = given.with_columns(_cast(given[name], kind) for name, kind in self.types.items())
        except pl.exceptions.PolarsError as error:  # of types of which one is never the other, as a text and a list
            raise DataError(f"{self.name}: {first_line(error)}") from error
        self._refuse(given, typed)
        typed = typed.with_columns(
            pl.col(name).fill_null(column.absent) for name, column in self.columns.items() if column.absent is not None
        )
        if self.keys:
            refuse_duplicates(typed, self.keys, self.name)
        return typed if others else typed.select(*self.columns)

    def _refuse(self, given: pl.DataFrame, typed: pl.DataFrame) -> None:
        """Refuse the first row with a cell that cannot be read as its type, is empty, or breaks a rule."""
        broken: list[tuple[int, str, pl.Series, str]] = []  # first row, column, which rows, words
        for name, column in self.columns.items():
            cells = typed[name]
            kind = "number" if cells.dtype.is_float() else column.kind
            checks = [(cells.is_null() & given[name].is_not_null(), f"is no {kind}; write it as one")]
            if column.filled:
                checks.append((cells.is_null(), EMPTY))
            for rule in column.rules:
                checks.append((~typed.select(rule.holds(pl.col(name)).fill_null(True)).to_series(), rule.words))
            broken += [(int(bad.arg_true()[0]), name, bad, words) for bad, words in checks if bad.any()]
        if broken:
            _, name, bad, words = min(broken, key=itemgetter(0))  # the first of those in one row
            refuse_rows(given, name, bad, words, self.name)


def _cast(cells: pl.Series, kind: Kind) -> pl.Series:
    """Null where a cell is not of the type; ``true`` and ``false`` of text files are truth values."""
    if kind == pl.Boolean and cells.dtype == pl.String:
        return cells.replace_strict({"true": True, "false": False}, default=None, return_dtype=pl.Boolean)
    read = cells.cast(kind, strict=False)
    if read.dtype.is_integer() and cells.dtype.is_float():
        return read.set((cells % 1 != 0).fill_null(False), None)  # a cast would cut 1.5 to 1
    return read


def refuse_missing(found: Iterable[str], needed: Sequence[str], name: str, remedy: str) -> None:
    """Raise `DataError` where a column is missing. name: of the table. remedy: what to do then."""
    present = set(found)
    if missing := [column for column in needed if column not in present]:
        raise DataError(f"{name} lacks the column{'s' if len(missing) > 1 else ''} {', '.join(missing)}; {remedy}")


def refuse_rows(table: pl.DataFrame, column: str, bad: pl.Series | pl.Expr, rule: str, name: str = "") -> None:
    """Raise `DataError` with the first row of those that are ``bad``. name: of the table."""
    flags = table.select(bad).to_series() if isinstance(bad, pl.Expr) else bad
    rows = flags.arg_true()
    if len(rows):
        more = f" ({len(rows)} rows broken)" if len(rows) > 1 else ""
        where = f"{name}, " if name else ""
        value = table[column].gather([int(rows[0])]).to_list()[0]  # of a nested column a list, which reads as one
        raise DataError(f"{where}row {rows[0] + 1}: {column} {value!r} {rule}{more}")


def refuse_duplicates(table: pl.DataFrame, keys: Sequence[str], name: str = "") -> None:
    """Raise `DataError` with the first two rows that have the same values of ``keys``."""
    twice = pl.struct(keys).is_duplicated()
    rows = table.with_row_index("row", offset=1).filter(twice).select("row", *keys)
    if rows.height:
        first, *values = rows.row(0)
        same = rows.filter(pl.all_horizontal(pl.col(k).eq_missing(v) for k, v in zip(keys, values, strict=True)))["row"]
        said = ", ".join(f"{key} {value!r}" for key, value in zip(keys, values, strict=True))
        where = f"{name}, " if name else ""
        raise DataError(f"{where}row {same[1]}: the same as row {first} ({said}); keep one")
