"""Items that were merged into others: their old facts are the other's, so a merge makes nothing obsolete."""

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from anachron.core.errors import DataError
from anachron.io.files import write_bytes
from anachron.io.stores import Place
from anachron.io.tables import in_our_words, scan_parquet, write_table
from anachron.wikidata.updates.diff import value_key
from anachron.wikidata.updates.sql_dump import Wanted, read_rows
from anachron.wikidata.updates.triples import GROUP, ITEM

_WORD = re.compile(r"[A-Za-z_ ]+")


def read_redirects(path: Place) -> dict[str, str]:
    """Item -> the item it was merged into, from a .csv or .tsv of two columns.

    A first line of two words is a header. Raises `DataError` with the line for anything but two item ids, for an item
    with two targets, and for a circle; and for a file that names none.
    """
    direct: dict[str, str] = {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            for number, row in enumerate(csv.reader(file, delimiter="\t" if path.suffix == ".tsv" else ","), 1):
                cells = [cell.strip() for cell in row]
                if not any(cells) or (number == 1 and len(cells) == 2 and all(map(_WORD.fullmatch, cells))):
                    continue
                if len(cells) != 2 or not all(c[:1] == "Q" and c[1:].isascii() and c[1:].isdigit() for c in cells):
                    raise DataError(f"{path}, line {number}: {', '.join(row)!r}; write two item ids, as Q1,Q2")
                if direct.setdefault(cells[0], cells[1]) != cells[1]:
                    raise DataError(f"{path}, line {number}: {cells[0]} has two targets; an item is merged into one")
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"cannot read {path}: {error}") from error
    if not direct:
        raise DataError(f"{path} names no merged items; write two item ids per line, as Q1,Q2")
    for item in direct:
        _check_circle(item, direct, path)
    return direct


def _check_circle(item: str, direct: dict[str, str], path: Place) -> None:
    seen = [item]
    while (into := direct.get(seen[-1])) is not None:
        if into in seen:
            raise DataError(f"{path}: {' -> '.join([*seen, into])} is a circle; remove one of these lines")
        seen.append(into)


def merged_by(direct: dict[str, str], gone: set[str]) -> dict[str, str]:
    """Item -> the item that stands for it in a snapshot that lacks the items ``gone``.

    One that the snapshot still has was merged later: it is not followed, and what was merged into it ends there.
    """
    targets = {}
    for item in gone & direct.keys():
        into = direct[item]
        while into in gone and into in direct:
            into = direct[into]
        targets[item] = into
    return dict(sorted(targets.items()))


def write_redirects(path: Place, redirects: dict[str, str]) -> None:
    """Write ``id, into`` for `occurring`: no worker holds all of several million."""
    schema = {"id": pl.String, "into": pl.String}
    write_table(path, pl.DataFrame({"id": list(redirects), "into": list(redirects.values())}, schema=schema))


def occurring(path: Place, triples: pl.DataFrame) -> dict[str, str]:
    """Those redirects of a file that subjects or items of these triples are."""
    ids = pl.concat([triples["subject"], triples.filter(ITEM)["value"]]).unique()
    found = scan_parquet(path).join(pl.LazyFrame({"id": ids}), on="id", how="semi").sort("id")
    with in_our_words():
        return dict(found.collect(engine="streaming").iter_rows())


def follow(triples: pl.DataFrame, redirects: dict[str, str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Clean triples of the old snapshot with merged items in the place of those that were merged into them.

    Also ``position, double`` of those that this changed: ``double`` is one that so became equal to another of its
    group. It is the same fact twice, unless the new snapshot says it twice as well (see
    `anachron.wikidata.updates.diff.align`).
    """
    subject = pl.col("subject").replace(redirects)
    value = pl.when(ITEM).then(pl.col("value").replace(redirects)).otherwise("value")
    renamed = triples.with_columns(
        subject.alias("subject"),
        value.alias("value"),
        ((subject != pl.col("subject")) | (ITEM & (value != pl.col("value")))).alias("_moved"),
    ).sort("position")
    triple = [*GROUP, "_key"]
    keyed = renamed.with_columns(value_key().alias("_key"))
    marked = keyed.sort("_moved", "position").with_columns(double=pl.int_range(pl.len()).over(triple) > 0)
    return renamed.drop("_moved"), marked.filter("_moved").select("position", "double")


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
