"""Which rules the rows of a file of facts obey, and the facts that they make.

The columns `NEEDED` must be there; those of `KNOWN` are understood where they are, under any case and by the names of
`SYNONYMS` and `HEADERS` too; every other column is kept as it is. Rows of one subject and relation know each other:
several periods of one object are one fact, the other objects are counted. Names are one by
`anachron.core.sameness.name_key`.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from anachron.core.errors import DataError
from anachron.core.facts import Fact
from anachron.core.periods import Period
from anachron.core.sameness import name_key, same_name
from anachron.core.several_periods import joined
from anachron.data.own.columns import (
    KNOWN,
    LIVES,
    NEEDED,
    NUMBERS,
    TEXTS,
    canonical,
    id_in_address,
    is_entity_id,
    named_columns,
    names_in_cell,
)
from anachron.data.own.date_words import NO_DATE, means_still, without_words
from anachron.data.own.dates import FIRST, Order, is_no_end, needs_order, read_date, read_end, read_start, settled_order
from anachron.data.own.faults import Fault, refuse
from anachron.data.own.notices import (
    SHOWN,
    Notices,
    Row,
    certain_spans,
    count_overlapping,
    in_one_spelling,
    overlapping,
)
from anachron.data.own.reading import Reading
from anachron.io.sheets import ERRORS

SIDES = ("subject", "relation", "object")
_ASKED = ("question", "present_question")  # which hold the subject's name, in a spelling of it


@dataclass(frozen=True, slots=True)
class GivenFact:
    """A fact as its rows give it.

    fact: with its first period. also_held: the later ones. rows: where it stands. name: what its owner calls it
    (``fact_id``). other_objects: how many other objects its subject and relation have. values: all columns, by the
    names in the file; where rows of the fact differ in one, what each has, with `` | `` between.
    """

    fact: Fact
    also_held: tuple[Period, ...]
    rows: tuple[int, ...]
    question: str | None
    present_question: str | None
    aliases: tuple[str, ...]
    name: str | None
    other_objects: int
    values: dict[str, Any]

    @property
    def periods(self) -> tuple[Period, ...]:
        return (self.fact.period, *self.also_held)


@dataclass(frozen=True, slots=True)
class GivenFacts:
    """The facts of a file in the order of their first rows, and what its reader should know of them. reading: how the
    file was read, where it is not by the names and dates that say so themselves."""

    facts: tuple[GivenFact, ...]
    notes: tuple[str, ...]
    reading: Reading = field(default_factory=Reading)


def given_facts(
    columns: Sequence[str], rows: Sequence[Mapping[str, Any]], reading: Reading | None = None
) -> GivenFacts:
    """The facts of some rows of named values (texts, numbers, dates, lists; None for an empty cell).

    reading: what the user says of columns and dates. Raises `DataError` naming row, column, value, rule and fix for all
    that is wrong, by kind.
    """
    reading = reading or Reading()
    if constants := reading.constants:
        for column in columns:
            if (known := canonical(column)) in constants:
                raise DataError(
                    f"--columns {known}={reading.columns[known]}: the file has a column {column}; leave it out"
                )
        columns, rows = (*columns, *constants), [{**row, **constants} for row in rows]
    names = named_columns(columns, rows, {**reading.columns, **{known: known for known in constants}})
    if not rows:
        raise DataError(f"there are no rows; give one for each fact, with {', '.join(NEEDED)}")
    faults: list[Fault] = []
    parsed: list[Row] = []
    notices = Notices()
    reading = _found(names, _settled(names, rows, reading, notices), notices)
    for number, row in enumerate(rows, 1):
        given = {known: row.get(name) for known, name in names.items()}
        wrong, values = _values(given, number, notices, reading.dates)
        faults += wrong
        if not wrong:
            parsed.append(Row(number, values.pop("period"), values, row))
    parsed = in_one_spelling(parsed, notices)
    by_fact: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    groups: dict[tuple[str, str], set[str]] = defaultdict(set)
    for one in parsed:
        by_fact[*one.group, one.key("object")].append(one)
        groups[one.group].add(one.key("object"))
    facts = []
    for (subject, relation, _), of_fact in by_fact.items():
        clashes = _clashes(of_fact)
        faults += clashes
        if not clashes:
            fact = _fact(of_fact, len(groups[subject, relation]) - 1, names)
            facts.append(fact)
            if len(fact.periods) < len(of_fact):
                notices.add(
                    "facts have periods that were joined",
                    f"{_where(fact)}: {_said(fact.fact)}: periods that touch or overlap were joined",
                )
    faults += _same_name(facts)
    refuse(faults)
    _note_overlaps(facts, notices)
    return GivenFacts(tuple(facts), notices.told(), reading)


def _settled(
    names: Mapping[str, str], rows: Sequence[Mapping[str, Any]], reading: Reading, notices: Notices
) -> Reading:
    """The reading with the order of day and month that the file's dates show, where it is not said and they need one.

    Raises `DataError` where they contradict each other.
    """
    dated = [names["start"], names["end"], *(name for name in rows[0] if canonical(name) in LIVES)]
    texts = [row.get(name) for row in rows for name in dated]
    otherwise = ", or say which is meant by --dates dmy (day first) or mdy (month first)"
    order = order_of_dates(texts, notices, reading.dates, otherwise)
    return replace(reading, dates=order) if any(map(needs_order, texts)) else reading


def order_of_dates(
    texts: Sequence[Any], notices: Notices, said: Order | None = None, otherwise: str = ""
) -> Order | None:
    """The order of day and month that dates show, where it is not said; None where none shows it.

    Raises `DataError` where they contradict each other. otherwise: what can be done about it besides rewriting them.
    """
    order, shown = (said, ()) if said else settled_order(texts)
    if len(shown) > 1:
        raise DataError(
            f"its dates have two orders of day and month, as {shown[0]!r} and {shown[1]!r} show, and none is sure; "
            f"write the year first, 2009-01-20{otherwise}"
        )
    unsure = next(filter(needs_order, texts), None)
    if unsure is not None and order is not None:
        by = "" if said else ", for its dots" if shown[0] == unsure else f", as {shown[0]!r} shows"
        notices.add(
            "dates",
            f"dates such as {unsure!r} are read {FIRST[order]}, as {read_date(without_words(unsure), order)}{by}",
        )
    return order


def _found(names: Mapping[str, str], reading: Reading, notices: Notices) -> Reading:
    """The reading with the columns that are read by words of `HEADERS`, or as the user says."""
    columns = {
        known: column
        for known, column in names.items()
        if canonical(column) != known and (canonical(column) not in KNOWN or known in reading.columns)
    }
    if columns:
        shown = ", ".join(f"{column!r} as {known}" for known, column in columns.items())
        notices.add("columns", f"columns are read by what they mean: {shown}")
    of_all = {known: column for known, column in reading.columns.items() if known in reading.constants}
    return replace(reading, columns=columns | of_all)


def _values(
    given: Mapping[str, Any], number: int, notices: Notices, order: Order | None
) -> tuple[list[Fault], dict[str, Any]]:
    """What is wrong with a row, and its values by known names, with its ``period``; ``relation_id`` may stand for the
    words of a relation."""
    faults: list[Fault] = []
    values: dict[str, Any] = {}
    if broken := [Fault(number, column, rule) for column, value in given.items() if (rule := formula_fault(value))]:
        return broken, {}

    def check(column: str, read: Any, *arguments: Any) -> None:
        try:
            values[column] = read(*arguments)
        except DataError as error:
            faults.append(Fault(number, column, str(error)))

    for column, value in given.items():
        if column in (*SIDES, *TEXTS):
            check(column, cell_text, value, column)
        elif column in NUMBERS:
            check(column, _number, value)
        elif column == "aliases":
            check(column, cell_names, value, number, notices)
    if "relation" not in values and "relation" not in {fault.column for fault in faults}:
        check("relation", cell_text, None, "relation")
    for side in SIDES if not faults else ():
        check(side, _label, values[side], values.get(f"{side}_id"), side)
    check("start", _start, given["start"], order)
    check("end", _end, given["end"], number, notices, order)
    if not faults:
        check("period", Period, values["start"], values["end"])
        if faults:
            faults = [Fault(number, "end", fault.rule) for fault in faults]
    return faults, values


def is_missing(value: Any) -> bool:
    """Whether a cell holds nothing, or a word for it."""
    nothing = value is None or (isinstance(value, float) and math.isnan(value))
    return nothing or (isinstance(value, str) and value.strip().casefold() in NO_DATE)


def _start(value: Any, order: Order | None) -> Any:
    if is_missing(value):
        raise DataError(f"{value or ''!r} is empty: a fact needs the date since which it holds; give one")
    return read_start(value, order)


def _end(value: Any, number: int, notices: Notices, order: Order | None) -> Any:
    still = is_missing(value) or (isinstance(value, str) and means_still(value))
    date = None if still else read_end(value, order)
    if date is not None and is_no_end(date):
        notices.add("ends stand for no end", f"row {number}, end: {str(value)!r} stands for no end: it still holds")
        return None
    return date


def formula_fault(value: Any) -> str | None:
    """What is wrong with a cell that shows the error of a formula; None of any other."""
    if isinstance(value, str) and value in ERRORS.values():
        return f"{value!r} is the error of a formula; mend it, or write what is meant"
    return None


def cell_text(value: Any, column: str) -> str | None:
    if isinstance(value, bool) or not (value is None or isinstance(value, str | int)):
        raise DataError(f"{value!r} is a {type(value).__name__}; give one text")
    text = " ".join(str(value).split()) if value is not None else ""
    text = text if name_key(text) else ""  # of invisible characters alone
    if not text and column in ("subject", "object"):
        raise DataError(
            f"{value or ''!r} is empty; give its label in words, in every row (merged cells have theirs in the first)"
        )
    return (id_in_address(text) or text if column.endswith("_id") else text) or None


def _label(label: str | None, id: str | None, side: str) -> str:
    """The words of a side; of a relation without any its id, under which it is asked."""
    if side == "relation":
        label = label and (id_in_address(label) or label)
        if not (label or id):
            raise DataError("'' is empty; give its label in words, or a relation_id")
        return label or str(id)
    assert label is not None
    if id_in_address(label) or (is_entity_id(label) and id in (None, label)):
        raise DataError(
            f"{label!r} is an id, not a name; give the label in words, or beside it a column {side}Label as the query "
            f"service makes it (if it is the name, give the id in {side}_id)"
        )
    return label


def _number(value: Any) -> float | None:
    if is_missing(value):
        return None
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 <= number < math.inf:
        raise DataError(f"{value!r} is not a number of 0 or more; give one, or leave the cell empty")
    return number


def cell_names(value: Any, number: int, notices: Notices) -> tuple[str, ...]:
    parts, listed = names_in_cell(value) if isinstance(value, str) else (() if value is None else value, False)
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise DataError(f"{value!r} is neither a text nor a list of texts; write names with '|' between them")
    names = tuple(dict.fromkeys(" ".join(part.split()) for part in parts if part.strip()))
    if listed:
        read = f"row {number}, aliases: {value[:60]!r} is a list, read as {len(names)}: {' | '.join(names)[:60]}"
        notices.add("cells are lists of names as other tools write them", read)
    return names


def _clashes(rows: Sequence[Row]) -> list[Fault]:
    """Rows of one fact that are the same, or say different things of it."""
    faults: list[Fault] = []
    seen: dict[Period, int] = {}
    compared = (*(name for name in TEXTS if name != "fact_id"), "popularity")
    given = {name: next((r for r in rows if r.values.get(name) is not None), rows[0]) for name in compared}
    for row in rows:
        first = seen.setdefault(row.period, row.number)
        if first != row.number:
            what = f"{row.values['object']!r} of {row.period} stands in row {first} already; keep one of the two rows"
            faults.append(Fault(row.number, "object", what))
        for column, before in given.items():
            one, other = before.values.get(column), row.values.get(column)
            if other is not None and not (one == other or (column in _ASKED and same_name(str(one), other))):
                what = f"{other!r}, but row {before.number} of the same fact has {one!r}; write the same in both"
                faults.append(Fault(row.number, column, what))
    return faults


def _fact(rows: Sequence[Row], others: int, names: Mapping[str, str]) -> GivenFact:
    def first(column: str) -> Any:
        return next((r.values[column] for r in rows if r.values.get(column) is not None), None)

    periods = joined(row.period for row in rows)
    fact = Fact(
        first("subject"), first("relation"), first("object"), periods[0], first("subject_id"), first("relation_id"),
        first("object_id"), first("popularity"),
    )  # fmt: skip
    own_names = dict.fromkeys(r.values["fact_id"] for r in rows if r.values.get("fact_id") is not None)
    known = first("other_objects")
    aliases = tuple(dict.fromkeys(alias for r in rows for alias in r.values.get("aliases") or ()))
    named = {names[name]: first(name) for name in (*SIDES, *_ASKED, *(f"{side}_id" for side in SIDES)) if name in names}
    named |= {names["aliases"]: list(aliases)} if aliases else {}
    values: dict[str, Any] = {}
    for name in rows[0].all:
        different = list(dict.fromkeys(str(r.all[name]) for r in rows if r.all.get(name) is not None))
        whole = len(different) < 2 and rows[0].all[name]
        values[name] = rows[0].all[name] if whole else named.get(name) or " | ".join(different) or None
    return GivenFact(
        fact, periods[1:], tuple(r.number for r in rows), first("question"), first("present_question"),
        aliases, " | ".join(own_names) or None,
        others if known is None else int(known), values,
    )  # fmt: skip


def _same_name(facts: Sequence[GivenFact]) -> list[Fault]:
    """Two facts with one ``fact_id``."""
    faults: list[Fault] = []
    seen: dict[str, GivenFact] = {}
    for fact in facts:
        if fact.name is not None:
            first = seen.setdefault(fact.name, fact)
            if first is not fact:
                other = f"{_said(first.fact)}, in row {first.rows[0]}"
                what = f"{fact.name!r} also names another fact ({other}); every fact needs its own"
                faults.append(Fault(fact.rows[0], "fact_id", what))
    return faults


def _note_overlaps(facts: Sequence[GivenFact], notices: Notices) -> None:
    """Note facts of one subject and relation that surely held at the same time for more than a day."""
    groups: dict[tuple[str, str], list[GivenFact]] = defaultdict(list)
    for fact in facts:
        groups[group_of(fact)].append(fact)
    kind = "pairs of periods overlap"
    for group in groups.values():
        spans = certain_spans([(place, period) for place, fact in enumerate(group) for period in fact.periods])
        shown: dict[tuple[int, int], None] = {}
        unshown = False
        for pair in overlapping(spans):
            unshown = pair not in shown and len(shown) == notices.room(kind)
            if unshown:
                break
            shown[pair] = None
        for a, b in ((group[one], group[other]) for one, other in sorted(shown)):
            said = f"{_where(a)} and {_where(b)}: {_said(a.fact)} and {b.fact.object} overlap; both count as true then"
            notices.add(kind, said)
        if unshown:
            notices.counted(kind, count_overlapping(spans) - len(shown))


def group_of(item: GivenFact) -> tuple[str, str]:
    """What facts share that have each other's objects as rivals: subject and relation, by their ids where given."""
    fact = item.fact
    return name_key(fact.subject_id or fact.subject), name_key(fact.relation_id or fact.relation)


def _said(fact: Fact) -> str:
    return f"{fact.subject}, {fact.relation}, {fact.object}"


def _where(fact: GivenFact) -> str:
    more = f" and {len(fact.rows) - SHOWN} more" if len(fact.rows) > SHOWN else ""
    return f"row{'s' if len(fact.rows) > 1 else ''} {', '.join(map(str, fact.rows[:SHOWN]))}{more}"
