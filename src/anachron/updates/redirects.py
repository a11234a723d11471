"""Items that were merged into others: their old facts are the other's, so a merge makes nothing obsolete."""

import csv
from pathlib import Path

import polars as pl

from anachron.errors import DataError
from anachron.updates.diff import value_key
from anachron.updates.triples import GROUP


def read_redirects(path: Path) -> dict[str, str]:
    """Item -> the item it was merged into, in the end, from a .csv or .tsv of two columns (a header is passed over).

    Raises `DataError` with the line for anything but two item ids, for an item with two targets, and for a circle.
    """
    direct: dict[str, str] = {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            for number, row in enumerate(csv.reader(file, delimiter="\t" if path.suffix == ".tsv" else ","), 1):
                cells = [cell.strip() for cell in row]
                if not any(cells) or (number == 1 and not cells[0].startswith("Q")):
                    continue
                if len(cells) != 2 or not all(c[:1] == "Q" and c[1:].isascii() and c[1:].isdigit() for c in cells):
                    raise DataError(f"{path}, line {number}: {', '.join(row)!r}; write two item ids, as Q1,Q2")
                if direct.setdefault(cells[0], cells[1]) != cells[1]:
                    raise DataError(f"{path}, line {number}: {cells[0]} has two targets; an item is merged into one")
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"cannot read {path}: {error}") from error
    return {item: _end(item, direct, path) for item in direct}


def _end(item: str, direct: dict[str, str], path: Path) -> str:
    seen = [item]
    while (into := direct.get(seen[-1])) is not None:
        if into in seen:
            raise DataError(f"{path}: {' -> '.join([*seen, into])} is a circle; remove one of these lines")
        seen.append(into)
    return seen[-1]


def follow(triples: pl.DataFrame, redirects: dict[str, str]) -> pl.DataFrame:
    """Clean triples of the old snapshot with merged items in the place of those that were merged into them.

    One that so becomes equal to another of its group is left out: it is the same fact twice.
    """
    if not redirects:
        return triples
    subject = pl.col("subject").replace(redirects)
    entity = pl.col("value_type") == "entity"
    value = pl.when(entity).then(pl.col("value").replace(redirects)).otherwise("value")
    renamed = triples.with_columns(
        subject.alias("subject"),
        value.alias("value"),
        ((subject != pl.col("subject")) | (entity & (value != pl.col("value")))).alias("_moved"),
    )
    own = [*GROUP, "_key"]
    keyed = renamed.with_columns(value_key().alias("_key"))
    still, moved = keyed.filter(~pl.col("_moved")), keyed.filter("_moved")
    fresh = moved.join(still.select(own).unique(), on=own, how="anti").unique(own, keep="first", maintain_order=True)
    return pl.concat([still, fresh]).sort("position").drop("_moved", "_key")
