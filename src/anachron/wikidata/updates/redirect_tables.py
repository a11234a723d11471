"""The list of merged items, from the SQL dumps of Wikidata's tables `redirect` and `page`.

`redirect` says to which title a page leads, `page` what the title of that page is. Both files say themselves in which
order their columns come, which has changed over the years. Source: https://www.mediawiki.org/wiki/Manual:Redirect_table
"""

import re
from collections.abc import Iterator
from pathlib import Path

from anachron.core.errors import DataError
from anachron.io.files import write_bytes
from anachron.wikidata.updates.sql_dump import Wanted, read_rows

_ITEM = re.compile(rb"Q[0-9]+")


def write_merged(redirect: Path | str, page: Path | str, out: Path | str) -> int:
    """Write a .csv of two columns, the item and what it was merged into, by number; returns how many there are.

    redirect, page: ``wikidatawiki-DATE-redirect.sql.gz`` and ``-page.sql.gz`` of one date, or the same unpacked.
    Raises `DataError` for files that cannot be read, are of another table, or name no item.
    """
    out = Path(out)
    if out.suffix != ".csv":
        raise DataError(f"{out}: a list of merged items is written as .csv")
    wanted: Wanted = {"rd_namespace": b"0", "rd_from": int, "rd_title": bytes}
    targets = dict(_items(redirect, "redirect", wanted))
    wanted = {"page_is_redirect": b"1", "page_namespace": b"0", "page_id": int, "page_title": bytes}
    merged = {title: targets[id] for id, title in _items(page, "page", wanted) if id in targets}
    if not merged:
        raise DataError(f"no item of {page} is a redirect of {redirect}; take both files of one date, of wikidatawiki")
    rows = sorted(merged.items(), key=lambda pair: int(pair[0][1:]))
    write_bytes(out, b"item,merged_into\n" + "".join(f"{item},{into}\n" for item, into in rows).encode())
    return len(rows)


def _items(path: Path | str, table: str, wanted: Wanted) -> Iterator[tuple[int, str]]:
    """Of each row whose title is an item its number and that title."""
    for id, title in read_rows(Path(path), table, wanted):
        if _ITEM.fullmatch(title):
            if not id.isdigit():
                raise DataError(f"{path}: {id.decode(errors='replace')!r} is no number of a page; fetch it again")
            yield int(id), title.decode()
