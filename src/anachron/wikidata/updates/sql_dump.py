"""Rows of a table from the SQL dump of a MySQL or MariaDB database, as `mysqldump` and others write it.

The text is read statement by statement, each to its semicolon, and the rows of an ``INSERT`` one behind the other:
between two of them only a comma, white space and comments may stand. So a row in a form that is not known is an error,
and none is passed over. Source: https://dev.mysql.com/doc/refman/8.4/en/sql-statements.html, INSERT and literal values.
"""

import gzip
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from anachron.core.errors import DataError

CHUNK = 1 << 20  # bytes of text read at once
AHEAD = 16  # bytes that are held behind what is looked at, so that no word and no begin of a comment is cut
LONGEST = 64 << 20  # bytes of one row, or of one statement without rows; what is longer is no such text
Wanted = Mapping[str, bytes | type[int] | type[bytes]]

_FLAGS = re.DOTALL | re.IGNORECASE
_COMMENT = rb"(?:(?:--(?=\s)|\#)[^\n]*+(?:\n|\Z)|/\*.*?\*/)"
_SPACE = rb"(?:\s|" + _COMMENT + rb")*+"
_STRING = rb"'(?:[^'\\]++|\\.|'')*+'"
_QUOTED = rb"(?:" + _STRING + rb'|"(?:[^"\\]++|\\.|"")*+"|`[^`]*+`)'
_LITERAL = rb"(?:[^\s,()'\"`;]*+(?:\s*+" + _STRING + rb")?)"  # 12, NULL, 0x51, 'Q1', _binary 'Q1', x'51'
_NAME = rb"(?:`[^`]++`|[\w$]++)"
_ROW = rb"\((?:[^'\"`()]++|" + _QUOTED + rb"|\([^'\"`()]*+\))*+\)"
_BETWEEN = re.compile(rb"(?:[\s;]|" + _COMMENT + rb")*+", _FLAGS)
_STATEMENT = re.compile(rb"(?:[^;'\"`/\-\#]++|" + _QUOTED + rb"|" + _COMMENT + rb"|/(?!\*)|-)*+;", _FLAGS)
_NO_ROW = re.compile(_SPACE + rb"(?:" + _ROW + rb"|(?!/\*)[^\s(])", _FLAGS)  # all of a row, or something else
_CLAUSE = re.compile(rb"(?:AS|ON)\b", _FLAGS)
_INSERTS = re.compile(rb"(?:INSERT|REPLACE)\b", _FLAGS)
_INSERT = re.compile(
    rb"(?:INSERT|REPLACE)(?:" + _SPACE + rb"\b(?:LOW_PRIORITY|DELAYED|HIGH_PRIORITY|IGNORE|INTO)\b)*+" + _SPACE
    + rb"(?:" + _NAME + rb"\.)?(?P<table>" + _NAME + rb")" + _SPACE + rb"(?:\((?P<columns>[^()]*+)\)" + _SPACE
    + rb")?VALUES?\b",
    _FLAGS,
)  # fmt: skip
_CREATE = re.compile(
    rb"CREATE\s++(?:TEMPORARY\s++)?TABLE\s++(?:IF\s++NOT\s++EXISTS\s++)?(?:" + _NAME + rb"\.)?(?P<table>" + _NAME
    + rb")\s*+\((?P<columns>.*)",
    _FLAGS,
)  # fmt: skip
_COLUMN = re.compile(rb"\s*+(?P<name>" + _NAME + rb")(?:[^,()'\"`]++|" + _QUOTED + rb"|\([^()]*+\))*+,?", _FLAGS)
_KEYS = {"primary", "unique", "key", "index", "constraint", "fulltext", "spatial", "foreign", "check"}
_HEX = re.compile(rb"0x((?:[0-9a-f]{2})+)|x'((?:[0-9a-f]{2})+)'", _FLAGS)
_ESCAPED = re.compile(rb"\\(.)|''", _FLAGS)
_INSIDE = bytes(sorted({*range(256)} - {*b"'\"`(),;"}))
_CONTROL = {b"0": b"\0", b"b": b"\b", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"Z": b"\x1a"}


def read_rows(path: Path, table: str, wanted: Wanted) -> Iterator[tuple[bytes, ...]]:
    """The values of some columns in those rows of a table that hold others.

    path: plain text, or packed as .gz. wanted: by name, the columns whose values are given, in this order, as
    `int` (its digits, of one at least) or `bytes`, and those that must have a value. Where a column stands is said by
    each statement or, where that names none, by the definition of the table. Raises `DataError` for a file that cannot
    be read or is cut off, that lacks the table or a column, and for a row that is not understood.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as data:
            yield from _Dump(path, data).rows(table, wanted)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"cannot read {path}: {error}; fetch it again") from error


class _Plain:
    """Many rows at once, where all are written as dumps mostly are: no space, no comment, and only plain literals.

    What is left of the text without all that is neither quote, bracket, comma nor semicolon shows whether it is such
    rows and where they end; it is short, and few of its pieces differ. Then one search finds the wanted rows, and
    counts the others.
    """

    def __init__(self, columns: list[str], wanted: Wanted) -> None:
        self.frame = re.compile(rb"(?:'[^']*+')?(?:,(?:'[^']*+')?){%d}" % (len(columns) - 1))
        until = 1 + max(place for place, name in enumerate(columns) if name in wanted)
        literal, kinds = rb"(?:[\w.+\-]++|'[^'\\]*+')", {int: rb"(%s[0-9]++)", bytes: rb"'(%s[^'\\]*+)'"}
        mine, others = [], []
        for name in columns[:until]:
            value = wanted.get(name)
            mine.append(value if isinstance(value, bytes) else kinds[value] % b"" if value else literal)
            number = rb"(?:0|[1-9][0-9]*+)"  # in another form it may be equal to the value that is asked for
            others.append(number if isinstance(value, bytes) else kinds[value] % b"?:" if value else literal)
        self.row = re.compile(rb"\),\((?:" + b",".join(mine) + b"|" + b",".join(others) + rb")(?=[,)])")

    def rows(self, text: bytes, at: int) -> tuple[Iterator[tuple[bytes, ...]], int] | None:
        """The wanted rows of those that are read, and where these end; None where they are not all plain."""
        while text[at : at + 1].isspace():
            at += 1
        end = text.find(b";", at)
        while end >= 0 and text[end + 1 : end + 2] != b"\n":
            end = text.find(b";", end + 1)
        end -= 1  # at the last bracket
        if end < 0:
            end = max(text.rfind(b"),(", at), text.rfind(b"),\n(", at))
        if end < 0 or not text.startswith(b"(", at):
            return None
        rows = b")," + text[at:end] + b")"
        if b"\n" in rows:
            rows = rows.replace(b"),\n(", b"),(")
        frames = (_ESCAPED.sub(b"", rows) if b"\\" in rows else rows).translate(None, _INSIDE)[3:-1].split(b"),(")
        if text[end : end + 1] != b")" or not all(map(self.frame.fullmatch, set(frames))):
            return None
        found = self.row.findall(rows)
        # each begins behind a bracket, a comma and a bracket, of which there are no more than there are frames
        return (filter(any, found), end + 2) if len(found) == len(frames) else None


class _Dump:
    """The text of a dump, of which what is ahead is held: from ``at`` in ``text`` on."""

    def __init__(self, path: Path, data: Any) -> None:
        self.path, self.data = path, data
        self.text, self.at, self.before = b"", 0, 0  # before: bytes that are dropped

    def more(self) -> bool:
        """Read on, if there is more."""
        chunk = self.data.read(CHUNK)
        self.before += self.at
        self.text, self.at = self.text[self.at :] + chunk, 0
        if len(self.text) > LONGEST:
            raise self.error("what begins here has no end")
        return bool(chunk)

    def match(self, pattern: re.Pattern[bytes]) -> re.Match[bytes] | None:
        """What stands here, to its end."""
        while (found := pattern.match(self.text, self.at)) is None or found.end() == len(self.text):
            if not self.more():
                return found
        return found

    def rows(self, table: str, wanted: Wanted) -> Iterator[tuple[bytes, ...]]:
        columns: list[str] = []
        seen = False
        while self.begin():
            if _INSERTS.match(self.text, self.at):
                if (head := self.match(_INSERT)) is None:
                    raise self.error("no INSERT of a form that is known")
                self.at = head.end()
                if _bare(head["table"]) != table:
                    for _ in self.values(_ROW):
                        pass
                    continue
                named = columns if head["columns"] is None else [_bare(one) for one in head["columns"].split(b",")]
                groups, seen = self.groups(table, named, wanted), True
                yield from self.chosen(named, groups, wanted)
            elif (statement := self.match(_STATEMENT)) is None:
                raise self.error("the file ends within a statement")
            else:
                if (created := _CREATE.match(statement[0])) and _bare(created["table"]) == table:
                    columns = _columns(created["columns"])
                self.at = statement.end()
        if not seen:
            raise DataError(f"{self.path} has no rows of the table {table}; take wikidatawiki-DATE-{table}.sql.gz")

    def begin(self) -> bool:
        """Go to the first word of the next statement, if there is one."""
        while True:
            found = self.match(_BETWEEN)
            assert found is not None
            self.at = found.end()
            if len(self.text) - self.at >= AHEAD and not self.text.startswith(b"/*", self.at):
                return True
            if not self.more():  # a word or the begin of a comment might be cut off here
                return self.at < len(self.text)

    def groups(self, table: str, columns: list[str], wanted: Wanted) -> dict[str, int]:
        """Column -> its group in the pattern of a row."""
        if missing := wanted.keys() - set(columns):
            raise DataError(
                f"{self.path}: its table {table} has no column {min(missing)}; the format of the dumps has changed"
            )
        return {name: number for number, name in enumerate((c for c in columns if c in wanted), 1)}

    def chosen(self, columns: list[str], groups: dict[str, int], wanted: Wanted) -> Iterator[tuple[bytes, ...]]:
        """The wanted values of the wanted rows of a statement."""
        row = (
            rb"\(\s*+"
            + rb"\s*+,\s*+".join(rb"(" + _LITERAL + rb")" if name in groups else _LITERAL for name in columns)
            + rb"\s*+\)"
        )
        plain = _Plain(columns, wanted)
        tests = [(groups[name], value) for name, value in wanted.items() if isinstance(value, bytes)]
        given = [groups[name] for name, value in wanted.items() if not isinstance(value, bytes)]
        order = [sorted(given).index(group) for group in given]
        for found in self.values(row, plain):
            if isinstance(found, tuple):
                yield found if order == sorted(order) else tuple(found[place] for place in order)
            elif all(_value(found[group]) == value for group, value in tests):
                yield tuple(_value(found[group]) for group in given)

    def values(self, row: bytes, plain: "_Plain | None" = None) -> Iterator[re.Match[bytes] | tuple[bytes, ...]]:
        """The rows of a statement, which ends behind them; where all is plain, the values of the wanted ones."""
        step = re.compile(rb"\s*+" + row + rb"\s*+([,;])", _FLAGS)
        slow = re.compile(_SPACE + row + _SPACE, _FLAGS)
        while True:
            if plain and (rows := plain.rows(self.text, self.at)):
                yield from rows[0]
                self.at = rows[1]
                if self.text[self.at - 1 : self.at] == b";":
                    return
                continue
            at = self.at
            for found in step.finditer(self.text, at):
                if found.start() != at:  # what stands between is no row, or not all of it is read
                    break
                at = self.at = found.end()
                yield found
                if found[step.groups] == b";":
                    return
            last = self.row(slow)
            self.at = last.end()
            yield last
            if _CLAUSE.match(self.text, self.at):  # AS name, ON DUPLICATE KEY UPDATE
                if (statement := self.match(_STATEMENT)) is None:
                    raise self.error("the file ends within a statement")
                self.at = statement.end()
                return
            behind = self.text[self.at : self.at + 1]
            if behind not in (b",", b";"):
                raise self.error("neither a comma nor the end of the statement stands behind a row")
            self.at += 1
            if behind == b";":
                return

    def row(self, pattern: re.Pattern[bytes]) -> re.Match[bytes]:
        """A row about which there may be comments, or that is read in part."""
        while (found := pattern.match(self.text, self.at)) is None or len(self.text) - found.end() < AHEAD:
            if found is None and _NO_ROW.match(self.text, self.at):
                raise self.error("a row of another form, or with another number of columns")
            if not self.more():
                found = pattern.match(self.text, self.at)
                if found is None or found.end() == len(self.text):
                    raise self.error("the file ends within a statement")
                return found
        return found

    def error(self, what: str) -> DataError:
        text = self.text[self.at : self.at + 60].decode(errors="replace")
        return DataError(f"{self.path}, byte {self.before + self.at:,}: {what}: {text!r}")


def _columns(definition: bytes) -> list[str]:
    """The columns of a table, of what stands in the brackets of its definition."""
    names: list[str] = []
    at = 0
    while (found := _COLUMN.match(definition, at)) and found.end() > at:
        if (name := _bare(found["name"])).lower() not in _KEYS or found["name"].startswith(b"`"):
            names.append(name)
        at = found.end()
    return names


def _bare(name: bytes) -> str:
    return name.strip().strip(b"`").decode(errors="replace")


def _value(literal: bytes) -> bytes:
    """The bytes that a literal stands for; a number is written as it is."""
    if literal.isdigit():
        return literal
    if found := _HEX.fullmatch(literal):
        return bytes.fromhex((found[1] or found[2]).decode())
    _, quote, text = literal.partition(b"'")
    if not quote:
        return literal
    return _ESCAPED.sub(lambda found: b"'" if found[1] is None else _CONTROL.get(found[1], found[1]), text[:-1])
