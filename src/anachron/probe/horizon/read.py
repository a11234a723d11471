"""Dated changes as one table, whoever tells of them: the package, a user's file, two snapshots of Wikidata."""

from collections.abc import Iterable
from pathlib import Path

import polars as pl

from anachron.core.dates import Date
from anachron.core.errors import DataError
from anachron.core.sameness import same_name
from anachron.data.bundled.mini import MINI_CHANGES, mini_changes, mini_facts
from anachron.data.bundled.mini_updates import known_facts, mini_replacements
from anachron.data.own.files import column_names, is_fact_file, read_given_facts, refuse_unreadable
from anachron.data.own.reading import Reading
from anachron.data.updates.case_records import EditCase
from anachron.data.updates.case_table import known_columns
from anachron.data.updates.cases import load_cases
from anachron.io.jobs import Callbacks
from anachron.io.tables import by_schema, read_table
from anachron.probe.horizon.changes import GAP, NEEDED, Change, changes_of_facts, changes_of_table

CHANGE_SCHEMA: dict[str, type[pl.DataType]] = {
    "subject": pl.String, "relation": pl.String, "relation_id": pl.String, "kind": pl.String, "old": pl.String,
    "new": pl.String, "date": pl.String, "popularity": pl.Float64, "predictable": pl.String, "control": pl.String,
    "source": pl.String,
}  # fmt: skip
MINI_SINCE = 2005  # of the changes that the bundled facts tell of
_OF_UPDATES = {"update_prompt", "objects"}  # columns of an update data set


def read_changes(
    name: Path | str = MINI_CHANGES, *, callbacks: Callbacks | None = None, reading: Reading | None = None
) -> pl.DataFrame:
    """Dated changes of the world, one a row (`CHANGE_SCHEMA`).

    name: the bundled ``mini-changes``; ``mini``, for the changes since `MINI_SINCE` that the facts of ``mini`` and
    ``mini-updates`` tell of, which the demo model was taught; or a file: of changes, with ``subject, relation, old,
    new, date`` and any other of the columns; of facts, with ``subject, relation, object, start, end``, where one ends
    and another begins; or of updates, as `build_updates` writes them, where one value replaces another and the date is
    known to the month. Of how many updates it is not, ``callbacks`` are told. reading: how a file of facts is read.

    Columns: ``date`` is ``2021-03-24`` or ``2021-03``; ``predictable`` is low, medium or high (or, in a file, yes);
    ``control`` marks what is no change: ``still`` (the old value holds), ``invented`` (no such subject). What is not
    known is null. Raises `DataError` naming the file, and row, column and rule of what is wrong.
    """
    reading, callbacks = reading or Reading(), callbacks or Callbacks()
    if str(name) in (MINI_CHANGES, "mini"):
        reading.refuse(str(name))
    if str(name) == MINI_CHANGES:
        return _table(mini_changes())
    if str(name) == "mini":
        return _of_changes(mini_changes_of_facts())
    try:
        columns = set(column_names(name))
        # a table by other names, or in another kind of file, than one of changes
        table = not (reading.recorded() or columns >= {*NEEDED}) and {*NEEDED} <= {*known_columns(name)}
        if columns >= _OF_UPDATES or table:
            cases = load_cases(str(name))
            for note in cases.notes:
                callbacks.warn(note)
            return _of_updates(cases.cases, callbacks)
        if is_fact_file(name, reading) and "old" not in columns:
            given = read_given_facts(name, reading)
            for note in given.notes:
                callbacks.warn(note)
            return _of_changes(changes_of_facts(given.facts))
        reading.refuse(str(name))
        refuse_unreadable(name)
        found = read_table(Path(name))
        changes_of_table(found)
    except DataError as error:
        raise DataError(str(error) if str(name) in str(error) else f"{name}: {error}") from None
    return _table(found)


def mini_changes_of_facts(gap: int = GAP) -> list[Change]:
    """The changes since `MINI_SINCE` that the facts of ``mini`` and ``mini-updates`` tell of, whose old value ended at
    most ``gap`` days before."""
    facts = [one.fact for one in mini_facts()] + list(known_facts()) + [one.new for one in mini_replacements()]
    once = {(fact.subject, fact.relation_id, fact.object): fact for fact in reversed(facts)}
    return [change for change in changes_of_facts(reversed(once.values()), gap) if change.date.year >= MINI_SINCE]


def _table(found: pl.DataFrame) -> pl.DataFrame:
    text = [column for column, kind in CHANGE_SCHEMA.items() if kind == pl.String and column not in NEEDED]
    return by_schema(found, CHANGE_SCHEMA).with_columns(pl.col(column).replace({"": None}) for column in text)


def _of_changes(changes: Iterable[Change]) -> pl.DataFrame:
    rows = [
        {"subject": one.subject, "relation": one.relation, "relation_id": one.relation_id, "old": one.old,
         "new": one.new, "date": str(one.date), "popularity": one.popularity}
        for one in changes
    ]  # fmt: skip
    if not rows:
        raise DataError("no fact ends where another of its subject and relation begins, so nothing changes")
    return pl.DataFrame(rows, schema_overrides=CHANGE_SCHEMA).pipe(_table)


def _of_updates(cases: Iterable[EditCase], callbacks: Callbacks) -> pl.DataFrame:
    """The replacements whose date is known to the month; as the relation its label, under which it is asked."""
    every = list(cases)
    rows = [
        {"subject": case.subject, "relation": case.relation_label or case.relation, "relation_id": case.relation,
         "old": case.old, "new": case.new, "date": case.start, "popularity": case.popularity}
        for case in every
        if case.old and case.new and not same_name(case.old, case.new) and case.relation and case.start
        and Date.parse(case.start).month is not None
    ]  # fmt: skip
    if not rows:
        raise DataError(f"none of {len(every)} updates replaces one value by another at a month that is known")
    if len(rows) < len(every):
        callbacks.warn(
            f"{len(every) - len(rows)} of {len(every)} updates have no date precise to the month and are left out"
        )
    return pl.DataFrame(rows, schema_overrides=CHANGE_SCHEMA).pipe(_table)
