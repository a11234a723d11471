"""The list of merged items, from the SQL dumps of Wikidata's tables `redirect` and `page`.

`redirect` says to which title a page leads, `page` what the title of that page is. Both files say themselves in which
order their columns come, which has changed over the years. Source: https://www.mediawiki.org/wiki/Manual:Redirect_table
"""

import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

from anachron.errors import DataError
from anachron.io import write_bytes

_COLUMN = re.compile(rb"\s*`(\w+)`")
_VALUE = rb"(?:'(?:[^'\\]|\\.)*'|[^,'()]+)"


def write_merged(redirect: Path | str, page: Path | str, out: Path | str) -> int:
    """Write a .csv of two columns, the item and what it was merged into, by number; returns how many there are.

    redirect, page: ``wikidatawiki-DATE-redirect.sql.gz`` and ``-page.sql.gz`` of one date, or the same unpacked.
    Raises `DataError` for files that cannot be read, are of another table, or name no item.
    """
    out = Path(out)
    if out.suffix != ".csv":
        raise DataError(f"{out}: a list of merged items is written as .csv")
    wanted = {"rd_from": rb"(\d+)", "rd_namespace": rb"0", "rd_title": rb"'(Q\d+)'"}
    targets = {int(id): title.decode() for id, title in _rows(Path(redirect), "redirect", wanted)}
    wanted = {"page_id": rb"(\d+)", "page_namespace": rb"0", "page_title": rb"'(Q\d+)'", "page_is_redirect": rb"1"}
    merged = {title.decode(): targets[int(id)] for id, title in _rows(Path(page), "page", wanted) if int(id) in targets}
    if not merged:
        raise DataError(f"no item of {page} is a redirect of {redirect}; take both files of one date, of wikidatawiki")
    rows = sorted(merged.items(), key=lambda pair: int(pair[0][1:]))
    write_bytes(out, b"item,merged_into\n" + "".join(f"{item},{into}\n" for item, into in rows).encode())
    return len(rows)


def _rows(path: Path, table: str, wanted: dict[str, bytes]) -> Iterator[tuple[bytes, bytes]]:
    """What the groups of the wanted columns hold, in the rows in which all of them match."""
    columns: list[str] = []
    row: re.Pattern[bytes] | None = None
    insert = f"INSERT INTO `{table}` VALUES ".encode()
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
            for line in lines:
                if line.startswith(insert):
                    row = row or _pattern(path, table, columns, wanted)
                    yield from row.findall(line)
                elif row is None and (column := _COLUMN.match(line)):
                    columns.append(column[1].decode())
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"cannot read {path}: {error}; fetch it again") from error
    if row is None:
        raise DataError(f"{path} has no rows of the table {table}; take wikidatawiki-DATE-{table}.sql.gz")


def _pattern(path: Path, table: str, columns: list[str], wanted: dict[str, bytes]) -> re.Pattern[bytes]:
    missing = wanted.keys() - set(columns)
    if missing:
        raise DataError(f"{path}: its table {table} has no column {min(missing)}; the format of the dumps has changed")
    order = [name for name in columns if name in wanted]
    if order != list(wanted):
        raise DataError(f"{path}: columns {', '.join(order)} come in an order that is not known")
    last = columns.index(order[-1])
    return re.compile(rb"\(" + b",".join(wanted.get(name, _VALUE) for name in columns[: last + 1]) + rb"[,)]")
