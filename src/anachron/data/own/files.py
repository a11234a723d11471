"""Reading a file of facts: CSV and its relatives, JSON, Parquet or a spreadsheet, as rows of named values.

Also a file of facts of one's own, as facts that know what their owner wrote of them.
"""

import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import StringIO
from typing import Any

import polars as pl

from anachron.core.errors import ConfigError, DataError, first_line
from anachron.data.own.columns import LABELS, NEEDED, by_words, canonical, named_columns
from anachron.data.own.encodings import decoded
from anachron.data.own.faults import Fault, refuse
from anachron.data.own.reading import Reading
from anachron.data.own.rows import GivenFacts, given_facts
from anachron.io import sheets
from anachron.io.files import HEAD, Json, read_bytes, refuse_special_files
from anachron.io.stores import Place, place
from anachron.io.tables import parse_table, scan_parquet
from anachron.io.untrusted import whole_texts, without_halves

DELIMITERS = (",", ";", "\t", "|")
DELIMITED = (".csv", ".tsv")
JSON_LINES = (".jsonl", ".ndjson")
ENDINGS = (*DELIMITED, *JSON_LINES, ".json", ".parquet", *sheets.ENDINGS)
TITLES = 20  # rows of a sheet among which its header is looked for
_NAMED = re.compile(r"""("?)sep=([^\w" \r\n])\1[ ,;\t|]*(?:\r\n?|\n)""", re.IGNORECASE)  # Excel's first line


@dataclass(frozen=True)
class Rows:
    """The columns of a file as it names them, and its rows in order: names -> values, None for an empty one. notes:
    what its reader should know. sheet: which of several they are from."""

    columns: tuple[str, ...]
    rows: tuple[Json, ...]
    notes: tuple[str, ...] = ()
    sheet: str | None = None


def read_rows(path: Place | str, reading: Reading | None = None) -> Rows:
    """All rows of a file of `ENDINGS`. Encodings of text files (`decoded`) and delimiters are found out.

    reading: which sheet, and by which columns its header is known. Raises `ConfigError` for an unknown sheet and
    without the extra ``sheets``, `DataError` naming file, row (counted from 1, the header aside) and fix for what
    cannot be read.
    """
    path, reading = place(path), reading or Reading()
    ending = path.suffix.casefold()
    refuse_special_files(path)
    if ending not in ENDINGS:
        raise DataError(f"{path}: unknown ending {path.suffix!r}; use {', '.join(ENDINGS)}")
    if reading.sheet is not None and ending not in sheets.ENDINGS:
        raise ConfigError(f"--sheet {reading.sheet}: {path} has no sheets; leave it out")
    try:
        if ending not in sheets.ENDINGS:
            _refuse_by_head(path, ending)
        content = read_bytes(path)
        if not content.strip():
            raise DataError("the file is empty; give a header and a row for each fact")
        if ending in sheets.ENDINGS:
            return _of_sheet(sheets.read_sheet(content, reading.sheet), reading)
        if ending == ".parquet":
            return _of_table(parse_table(content, path.with_name(f"{path.stem}.parquet")))
        text, notes = decoded(content)
        rows = _delimited(text) if ending in DELIMITED else _json(text, lines=ending in JSON_LINES)
        return replace(rows, notes=(*notes, *rows.notes))
    except (ConfigError, DataError) as error:
        message = str(error)
        raise type(error)(message if str(path) in message else f"{path}: {message}") from None


def _refuse_by_head(path: Place, ending: str) -> None:
    """Raise `DataError` where the first megabyte of a larger file shows that it is none of its ending."""
    try:
        with path.open("rb") as data:
            head = data.read(HEAD + 1)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    if len(head) <= HEAD:
        return
    if ending == ".parquet":
        if not head.startswith(b"PAR1"):
            raise DataError("the file does not begin as Parquet does (PAR1); name it as what it is")
        return
    text, _ = decoded(head, partial=True)
    try:
        alone = ending in DELIMITED and len(_header(text)[0]) < 2
    except csv.Error as error:
        raise DataError(f"the file is not a table ({error})") from None
    if alone:
        raise DataError(
            f"the first line ({text[:40]!r}) names no columns; give a header, with commas between its names"
        )
    if ending not in DELIMITED and text.lstrip()[:1] not in ("[", "{"):
        raise DataError(f"the file is not JSON: it begins with {text.lstrip()[:40]!r}; write a list of objects")


def column_names(path: Place | str) -> tuple[str, ...]:
    """The columns of a file of `ENDINGS`, as its header or its first object has them; none where that is broken."""
    path = place(path)
    ending = path.suffix.casefold()
    if ending not in ENDINGS or not path.is_file():
        return ()
    if ending == ".parquet":
        try:
            return tuple(scan_parquet(path).collect_schema())
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
            return ()  # whoever reads the file says what is wrong with it
    try:
        if ending in sheets.ENDINGS:
            return read_rows(path).columns
        with path.open("rb") as data:
            head, _ = decoded(data.read(HEAD), partial=True)
        if ending in DELIMITED:
            return tuple(_header(head)[0])
        found, _ = json.JSONDecoder().raw_decode(head[head.find("{") :])
        return tuple(found)
    except (DataError, ValueError, csv.Error):
        return ()


def refuse_unreadable(path: Place | str) -> None:
    """Raise `DataError` for a file that is not there, and as `read_rows` does where not even columns can be read."""
    refuse_special_files(path)
    if not place(path).is_file():
        raise DataError(f"{path}: no such file")
    if not column_names(path):
        read_rows(path)


def _header(text: str) -> tuple[list[str], str, str]:
    """The first line that is not blank as cells, the delimiter, and the text from that line on.

    The delimiter is what a line ``sep=;`` above names, as Excel has it; else that which gives the most cells.
    """
    lines = text.lstrip("\r\n \ufeff")
    marks: tuple[str, ...] = DELIMITERS
    if named := _NAMED.match(lines):
        marks, lines = (named[2],), lines[named.end() :].lstrip("\r\n \ufeff")
    with _cells_of_any_length(lines):
        cut = {mark: next(csv.reader(StringIO(lines, newline=""), delimiter=mark), []) for mark in marks}
    delimiter = max(marks, key=lambda mark: len(cut[mark]))
    return [cell.strip() for cell in cut[delimiter]], delimiter, lines


def _delimited(text: str) -> Rows:
    text, halves = without_halves(text)
    try:
        with _cells_of_any_length(text):
            header, delimiter, table = _header(text)
            cells = csv.reader(StringIO(table, newline=""), delimiter=delimiter, strict=True)
            lines = [line for line in cells if any(cell.strip() for cell in line)][1:]
    except csv.Error as error:
        raise DataError(
            f"the file is not a table ({error}): a quote that opens a value must close it, and one inside it is doubled"
        ) from None
    used = max((at for line in [header, *lines] for at, cell in enumerate(line, 1) if cell.strip()), default=0)
    if used < len(header):  # spreadsheets write empty columns behind the last
        header, lines = header[:used], [line[:used] if len(line) <= len(header) else line for line in lines]
    shown = {"\t": "tab"}.get(delimiter, repr(delimiter))
    refuse([
        Fault(
            number, "", f"{len(line)} cells ({delimiter.join(line)[:80]!r}), but the header has {len(header)}; put a "
            f"value that holds a {shown} into double quotes, and leave no cell out",
        )
        for number, line in enumerate(lines, 1) if len(line) != len(header)
    ])  # fmt: skip
    return replace(_of_cells(header, lines), notes=_halves_note(halves))


def _of_sheet(sheet: sheets.Sheet, reading: Reading) -> Rows:
    """The rows of a sheet below its header: the first row, or the one row that names all that facts need."""
    cells = [[(cell or "").strip() for cell in line] for line in sheet.rows]
    kept = [at for at, column in enumerate(zip(*cells, strict=True)) if any(column)]
    lines = [line for line in ([line[at] for at in kept] for line in cells) if any(line)]
    if not lines:
        others = f", or name another by --sheet: {', '.join(sheet.names)}" if len(sheet.names) > 1 else ""
        raise DataError(f"sheet {sheet.name} is empty; give a header and a row for each fact{others}")
    headers = [at for at, line in enumerate(lines[:TITLES]) if _is_header(line, reading)]
    at = headers[0] if len(headers) == 1 else 0
    notes = [f"sheet {sheet.name} is read, of {', '.join(sheet.names)}; --sheet reads another"] * (len(sheet.names) > 1)
    if at:
        above = " ".join(filter(None, lines[0]))[:60]
        notes.append(f"the header is row {at + 1} of those with cells; above it stands {above!r}, which is left out")
    used = [place for place in range(len(kept)) if any(line[place] for line in lines[at:])]
    header, *rest = ([line[place] for place in used] for line in lines[at:])
    try:
        rows = _of_cells(header, rest)
    except DataError as error:
        raise DataError(f"{error} (the header is the first row with cells; delete what stands above it)") from None
    return replace(rows, notes=tuple(notes), sheet=sheet.name if len(sheet.names) > 1 else None)


def _is_header(line: Sequence[str], reading: Reading) -> bool:
    columns = {known: column for known, column in reading.columns.items() if known not in reading.constants}
    try:
        named_columns([cell for cell in line if cell] + list(reading.constants), (), columns)
    except DataError:
        return False
    return True


def _of_cells(header: Sequence[str], lines: Iterable[Sequence[str]]) -> Rows:
    if "" in header:
        raise DataError(
            f"column {header.index('') + 1} has no name; name it in the header or leave it out (pandas: index=False)"
        )
    twice = next((name for name, count in Counter(header).items() if count > 1), None)
    if twice is not None:
        raise DataError(f"two columns are called {twice!r}; keep or rename one of them")
    rows = ({name: cell.strip() or None for name, cell in zip(header, line, strict=True)} for line in lines)
    return Rows(tuple(header), tuple(rows))


@contextmanager
def _cells_of_any_length(text: str) -> Iterator[None]:
    """The csv module with its limit on the length of a cell, which is one for the whole process, lifted."""
    before = csv.field_size_limit()
    csv.field_size_limit(max(before, len(text) + 1))
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _halves_note(halves: int) -> tuple[str, ...]:
    if not halves:
        return ()
    return (f"{halves:,} half characters (lone surrogates, such as \\ud800) were read as U+FFFD; write them whole",)


def _json(text: str, *, lines: bool) -> Rows:
    found: list[Any] = []
    if lines:
        for number, line in enumerate(filter(str.strip, text.split("\n")), 1):
            try:
                found.append(json.loads(line))
            except (ValueError, RecursionError) as error:
                raise DataError(
                    f"row {number}: {line[:60]!r} is not JSON ({error}); write one object per line"
                ) from None
    else:
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DataError(f"the file is not JSON ({error}); write a list of objects") from None
        if not isinstance(found, list):
            raise DataError(f"the file holds a {type(found).__name__}; write a list of objects, one per fact")
    for number, row in enumerate(found, 1):
        if not isinstance(row, dict):
            raise DataError(f"row {number}: {str(row)[:60]!r} is a {type(row).__name__}; write an object per fact")
    found, halves = whole_texts(found)
    columns = tuple(dict.fromkeys(name for row in found for name in row))
    rows = tuple({name: _value(row.get(name)) for name in columns} for row in found)
    return Rows(columns, rows, _halves_note(halves))


def _of_table(table: pl.DataFrame) -> Rows:
    try:
        rows = table.to_dicts()
    except (pl.exceptions.PolarsError, ValueError, OverflowError) as error:
        raise DataError(f"the table holds values that cannot be read: {first_line(error)}") from None
    return Rows(tuple(table.columns), tuple({name: _value(v) for name, v in row.items()} for row in rows))


def _value(value: Any) -> Any:
    """None for an empty text and for NaN, as CSV and pandas have them."""
    if isinstance(value, str):
        return value.strip() or None
    return None if isinstance(value, float) and value != value else value


def as_table(rows: Iterable[Json], columns: Sequence[str]) -> pl.DataFrame:
    """Rows as a table of texts; what is nested is written as JSON, lists of texts with ``|`` between."""

    def text(value: Any) -> str | None:
        if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
            return "|".join(value) or None
        if value is None or isinstance(value, str):
            return value
        return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, list | dict) else str(value)

    return pl.DataFrame([[text(row.get(name)) for name in columns] for row in rows],
                        schema=dict.fromkeys(columns, pl.String), orient="row")  # fmt: skip


def is_fact_file(path: Place | str, reading: Reading | None = None) -> bool:
    """Whether the header of a file says that its rows are facts: it names a subject, a relation or an object, or in
    words of other languages both a subject and an object. What is read by columns of one's own is, and a spreadsheet.

    Files of statements, in the published columns, name theirs otherwise (``SubjectLabel``) and are none.
    """
    if (reading is not None and reading.columns) or place(path).suffix.casefold() in sheets.ENDINGS:
        return place(path).suffix.casefold() in ENDINGS
    names = column_names(path)
    return not {"subject", "relation", "object"}.isdisjoint(map(canonical, names)) or _by_words(names)


def has_own_names(path: Place | str, reading: Reading | None = None) -> bool:
    """Whether it does so by the names of `anachron.data.own.columns.NEEDED` themselves or those of a query service, not
    those of tables made here."""
    if (reading is not None and reading.columns) or place(path).suffix.casefold() in sheets.ENDINGS:
        return True
    names = [name.strip() for name in column_names(path)]
    return not {LABELS.get(name, name.casefold()) for name in names}.isdisjoint(NEEDED[:3]) or _by_words(names)


def _by_words(names: Sequence[str]) -> bool:
    return {"subject", "object"} <= by_words(names).keys()


def read_given_facts(path: Place | str, reading: Reading | None = None) -> GivenFacts:
    """The facts of a file. Raises `DataError` naming the file, and row, column, value, rule and fix."""
    reading = reading or Reading()
    given = read_rows(path, reading)
    try:
        facts = given_facts(given.columns, given.rows, reading)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    return replace(facts, notes=(*given.notes, *facts.notes), reading=replace(facts.reading, sheet=given.sheet))
