"""Spreadsheets: the cells of one sheet as texts, whatever program wrote it."""

import re
from dataclasses import dataclass

from anachron.core.errors import ConfigError, DataError, first_line, how_to_install

ENDINGS = (".xlsx", ".xlsm", ".xls", ".ods")
# How cells show the errors of formulas, by the names that the reader has for them
ERRORS = {
    "Div0": "#DIV/0!", "NA": "#N/A", "Name": "#NAME?", "Null": "#NULL!", "Num": "#NUM!", "Ref": "#REF!",
    "Value": "#VALUE!", "GettingData": "#GETTING_DATA",
}  # fmt: skip


@dataclass(frozen=True)
class Sheet:
    """name: of the sheet, one of ``names``, in their order in the file. rows: of its cells, without those at the end
    that are empty; None for an empty cell. Dates are ``2009-01-20 00:00:00``, whole numbers have no decimal places, a
    formula is its value, and an error of one is what the cell shows (`ERRORS`)."""

    name: str
    names: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]


def read_sheet(content: bytes, sheet: str | None = None) -> Sheet:
    """A sheet of a file in one of the formats of `ENDINGS`, by its name; the first by default.

    Raises `ConfigError` without the extra and for an unknown sheet, `DataError` for what is no spreadsheet.
    """
    try:
        import fastexcel
        import pyarrow  # noqa: F401  # in which the errors of cells are told
    except ImportError as error:
        raise ConfigError(
            f"spreadsheets need {error.name}: {how_to_install('sheets')}; or save the sheet as CSV"
        ) from error
    cells = errors = None
    try:
        book = fastexcel.read_excel(content)
        names = tuple(book.sheet_names)
        name = names[0] if sheet is None else sheet
        if name in names:
            cells, errors = book.load_sheet(name, header_row=None, dtypes="string").to_arrow_with_errors()
    except BaseException as error:  # it panics over some broken files, with a class that it does not show
        if not isinstance(error, fastexcel.FastExcelError | IndexError) and type(error).__name__ != "PanicException":
            raise
        raise DataError(f"the file is no spreadsheet that can be read ({first_line(error)})") from None
    if cells is None:
        raise ConfigError(f"--sheet {name}: the sheets are {', '.join(names)}")
    columns = [column.to_pylist() for column in cells.columns]
    for wrong in errors.errors if errors is not None else ():
        row, column = wrong.position
        found = re.search(r"Error\((\w+)\)", wrong.detail)
        columns[column][row] = ERRORS.get(found[1], "#ERROR") if found else "#ERROR"
    return Sheet(name, names, tuple(zip(*columns, strict=True)))
