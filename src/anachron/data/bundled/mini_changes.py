"""The bundled data set ``mini-changes``: dated changes of the world, 2010 to 2026, with old and new values.

``mini/changes.parquet`` has one change a row, as `anachron.probe.horizon.changes.changes_of_table` reads them:
``subject, relation, kind, old, new, date, predictable, control, source``. ``date`` is a day or a month.
``predictable`` grades how well the new value could be told beforehand (low, medium, high; none where nobody graded
it). ``control`` marks rows that are no change: ``still``, the old value holds on that date, and ``invented``, there is
no such subject. ``source`` is whom to credit (``mini/CHANGES.md``). ``tools/make_changes.py`` writes the file.
"""

from functools import cache
from importlib.resources import files

import polars as pl

MINI_CHANGES = "mini-changes"
FILE = "mini/changes.parquet"
KINDS_OF_MACHINES = ("software", "device")


@cache
def mini_changes() -> pl.DataFrame:
    """The table, by date, its controls behind; the same on every machine."""
    with files("anachron.data").joinpath(FILE).open("rb") as file:
        return pl.read_parquet(file).sort("control", "date", "subject", "new")
