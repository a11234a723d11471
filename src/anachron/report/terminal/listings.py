"""The bundled data sets as tables for the terminal; it loads no Polars, so that listing them is quick."""

from collections.abc import Mapping, Sequence
from typing import Any

from anachron.report.table import Column, Table


def dataset_table(listings: Sequence[Mapping[str, Any]]) -> Table:
    """The bundled data sets."""
    described = [item | {"about": f"{item['about']} ({item['listed']:,} facts listed)"} for item in map(dict, listings)]
    return _listing("Bundled data sets", ("facts", "statements", "relations"), described)


def update_sets_table(listings: Sequence[Mapping[str, Any]]) -> Table:
    """The bundled update data sets."""
    return _listing("Bundled update data sets", ("updates", "subjects", "relations"), listings)


def change_sets_table(listings: Sequence[Mapping[str, Any]]) -> Table:
    """The bundled data sets of changes."""
    return _listing("Bundled data sets of changes", ("changes", "controls", "subjects", "kinds"), listings)


def _listing(title: str, counted: Sequence[str], items: Sequence[Mapping[str, Any]]) -> Table:
    columns = [Column("name"), *(Column(name, number=True) for name in counted), Column("what")]
    return Table(title, columns, [(i["name"], *(f"{i[name]:,}" for name in counted), i["about"]) for i in items])
