"""Reading a file of facts: CSV and its relatives, JSON lines, a JSON list or Parquet, as rows of named values.

Also a file of facts of one's own, as facts that know what their owner wrote of them.
"""

import codecs
import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from typing import Any

import polars as pl

from anachron.core.errors import DataError, first_line
from anachron.data.own.columns import LABELS, NEEDED, canonical
from anachron.data.own.rows import GivenFacts, given_facts
from anachron.io.files import HEAD, Json, read_bytes, refuse_special_files
from anachron.io.stores import Place, place
from anachron.io.tables import parse_table, scan_parquet
from anachron.io.untrusted import whole_texts, without_halves

DELIMITERS = (",", ";", "\t", "|")
DELIMITED = (".csv", ".tsv")
JSON_LINES = (".jsonl", ".ndjson")
ENDINGS = (*DELIMITED, *JSON_LINES, ".json", ".parquet")
_NAMED = re.compile(r"""("?)sep=([^\w" \r\n])\1[ ,;\t|]*(?:\r\n?|\n)""", re.IGNORECASE)  # Excel's first line


@dataclass(frozen=True)
class Rows:
    """The columns of a file as it names them, and its rows in order: names -> values, None for an empty one. notes:
    what its reader should know."""

    columns: tuple[str, ...]
    rows: tuple[Json, ...]
    notes: tuple[str, ...] = ()


def read_rows(path: Place | str) -> Rows:
    """All rows of a file of `ENDINGS`. Text files are UTF-8, or UTF-16 with its mark; delimiters are found out.

    Raises `DataError` naming file, row (counted from 1, the header aside) and fix for what cannot be read.
    """
    path = place(path)
    ending = path.suffix.casefold()
    refuse_special_files(path)
    if ending not in ENDINGS:
        hint = "save the sheet as CSV" if ending in (".xlsx", ".xls", ".ods") else f"use {', '.join(ENDINGS)}"
        raise DataError(f"{path}: unknown ending {path.suffix!r}; {hint}")
    try:
        _refuse_by_head(path, ending)
        content = read_bytes(path)
        if not content.strip():
            raise DataError("the file is empty; give a header and a row for each fact")
        if ending == ".parquet":
            return _of_table(parse_table(content, path.with_name(f"{path.stem}.parquet")))
        text = decode(content)
        return _delimited(text) if ending in DELIMITED else _json(text, lines=ending in JSON_LINES)
    except DataError as error:
        message = str(error)
        raise DataError(message if str(path) in message else f"{path}: {message}") from None


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
    text = decode(head, partial=True)
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
        with path.open("rb") as data:
            head = decode(data.read(HEAD), partial=True)
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


def decode(content: bytes, *, partial: bool = False) -> str:
    """The text of a file, without its byte order mark. partial: its last character may be cut.

    Raises `DataError` naming the line of what is no UTF-8.
    """
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding, content = "utf-16", content[: len(content) // 2 * 2]
    elif b"\0" in content[:4096]:
        raise DataError("the file is binary, or UTF-16 without its mark; save it as UTF-8")
    else:
        encoding = "utf-8-sig"
    try:
        halves = "surrogatepass" if encoding == "utf-16" else "strict"  # which JSON's escapes may make as well
        return codecs.getincrementaldecoder(encoding)(halves).decode(content, final=not partial)
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise DataError(
            f"line {line}: the byte 0x{content[error.start]:02x} is not UTF-8 (Latin-1 or Windows-1252, perhaps); save "
            "the file as UTF-8"
        ) from None


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
    for number, line in enumerate(lines, 1):
        if len(line) != len(header):
            shown = {"\t": "tab"}.get(delimiter, repr(delimiter))
            raise DataError(
                f"row {number}: {len(line)} cells ({delimiter.join(line)[:80]!r}), but the header has {len(header)}; "
                f"put a value that holds a {shown} into double quotes, and leave no cell out"
            )
    if "" in header:
        raise DataError(
            f"column {header.index('') + 1} has no name; name it in the header or leave it out (pandas: index=False)"
        )
    _refuse_twice(header)
    rows = ({name: cell.strip() or None for name, cell in zip(header, line, strict=True)} for line in lines)
    return Rows(tuple(header), tuple(rows), _halves_note(halves))


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


def _refuse_twice(names: Sequence[str]) -> None:
    counts = Counter(names)
    twice = next((name for name in names if counts[name] > 1), None)
    if twice is not None:
        raise DataError(f"two columns are called {twice!r}; keep or rename one of them")


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


def is_fact_file(path: Place | str) -> bool:
    """Whether the header of a file says that its rows are facts: it names a subject, a relation or an object.

    Files of statements, in the published columns, name theirs otherwise (``SubjectLabel``) and are none.
    """
    return not {"subject", "relation", "object"}.isdisjoint(map(canonical, column_names(path)))


def has_own_names(path: Place | str) -> bool:
    """Whether it does so by the names of `anachron.data.own.columns.NEEDED` themselves or those of a query service, not
    those of tables made here."""
    names = [name.strip() for name in column_names(path)]
    return not {LABELS.get(name, name.casefold()) for name in names}.isdisjoint(NEEDED[:3])


def read_given_facts(path: Place | str) -> GivenFacts:
    """The facts of a file. Raises `DataError` naming the file, and row, column, value, rule and fix."""
    given = read_rows(path)
    try:
        facts = given_facts(given.columns, given.rows)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    return GivenFacts(facts.facts, (*given.notes, *facts.notes))
