"""Which rules the rows of a file of facts obey, and the facts that they make.

The columns `NEEDED` must be there; those of `KNOWN` are understood where they are, under any case and by the names of
`SYNONYMS` too; every other column is kept as it is. Rows of one subject and relation know each other: several periods
of one object are one fact, the other objects are counted.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from anachron.core.facts import Fact
from anachron.core.periods import Period
from anachron.core.several_periods import joined
from anachron.errors import DataError
from anachron.facts.dates import read_date

NEEDED = ("subject", "relation", "object", "start", "end")
TEXTS = ("question", "present_question", "fact_id", "subject_id", "relation_id", "object_id")
NUMBERS = ("popularity", "other_objects")
KNOWN = (*NEEDED, *TEXTS, *NUMBERS, "aliases")
SYNONYMS = {
    "subject_label": "subject", "relation_label": "relation", "object_label": "object", "start_date": "start",
    "end_date": "end",
}  # fmt: skip
NO_DATE = frozenset({"", "none", "nan", "nat", "null"})
STILL = NO_DATE | {"present", "now", "today", "ongoing"}
SHOWN = 5  # faults that are said at once


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a row: rows are counted from 1, the header aside; ``rule`` names the value, rule and fix."""

    row: int
    column: str
    rule: str

    def __str__(self) -> str:
        return f"row {self.row}, {self.column}: {self.rule}"


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
    """The facts of a file in the order of their first rows, and what its reader should know of them."""

    facts: tuple[GivenFact, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Row:
    number: int
    period: Period
    values: dict[str, Any]  # by the names of `KNOWN`
    all: Mapping[str, Any]  # by those of the file

    def key(self, side: str) -> str:
        return str(self.values.get(f"{side}_id") or self.values[side])

    @property
    def group(self) -> tuple[str, str]:
        return self.key("subject"), self.key("relation").casefold()


def refuse(faults: Sequence[Fault]) -> None:
    """Raise one `DataError` for all faults, of which the first few are said; nothing where there is none."""
    if faults:
        ordered = sorted(faults, key=lambda fault: fault.row)
        more = f" | and {len(faults) - SHOWN} more" if len(faults) > SHOWN else ""
        raise DataError(" | ".join(map(str, ordered[:SHOWN])) + more)


def canonical(name: str) -> str:
    """The name of a column among `KNOWN`, or its own in small letters."""
    plain = "_".join(name.strip().casefold().replace("-", " ").replace("_", " ").split())
    return SYNONYMS.get(plain, plain)


def given_facts(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> GivenFacts:
    """The facts of some rows of named values (texts, numbers, dates, lists; None for an empty cell).

    Raises `DataError` naming row, column, value, rule and fix for all that is wrong, the first `SHOWN` of it.
    """
    names = _names(columns)
    if not rows:
        raise DataError(f"there are no rows; give one for each fact, with {', '.join(NEEDED)}")
    faults: list[Fault] = []
    parsed: list[_Row] = []
    for number, row in enumerate(rows, 1):
        wrong, values = _values({known: row.get(name) for known, name in names.items()}, number)
        faults += wrong
        if not wrong:
            parsed.append(_Row(number, values.pop("period"), values, row))
    by_fact: dict[tuple[str, str, str], list[_Row]] = defaultdict(list)
    groups: dict[tuple[str, str], set[str]] = defaultdict(set)
    for one in parsed:
        by_fact[*one.group, one.key("object")].append(one)
        groups[one.group].add(one.key("object"))
    facts, notes = [], []
    for (subject, relation, _), of_fact in by_fact.items():
        clashes = _clashes(of_fact)
        faults += clashes
        if not clashes:
            fact = _fact(of_fact, len(groups[subject, relation]) - 1)
            facts.append(fact)
            if len(fact.periods) < len(of_fact):
                notes.append(f"{_where(fact)}: {_said(fact.fact)}: periods that touch or overlap were joined")
    faults += _same_name(facts)
    refuse(faults)
    return GivenFacts(tuple(facts), (*notes, *_overlaps(facts)))


def _names(columns: Sequence[str]) -> dict[str, str]:
    """Known name -> name in the file. Raises `DataError` for two of one meaning, and for one that is missing."""
    names: dict[str, str] = {}
    for column in columns:
        known = canonical(column)
        if known in KNOWN:
            if known in names:
                raise DataError(f"the columns {names[known]!r} and {column!r} both mean {known}; keep one of them")
            names[known] = column
    if missing := [name for name in NEEDED if name not in names]:
        raise DataError(
            f"the file lacks the column{'s' if len(missing) > 1 else ''} {', '.join(missing)}; a file of facts needs "
            f"{', '.join(NEEDED)} (an empty end: it still holds), and this one has {', '.join(columns) or 'none'}"
        )
    return names


def _values(given: Mapping[str, Any], number: int) -> tuple[list[Fault], dict[str, Any]]:
    """What is wrong with a row, and its values by known names, with its ``period``."""
    faults: list[Fault] = []
    values: dict[str, Any] = {}

    def check(column: str, read: Any, *arguments: Any) -> None:
        try:
            values[column] = read(*arguments)
        except DataError as error:
            faults.append(Fault(number, column, str(error)))

    for column, value in given.items():
        if column in ("subject", "relation", "object", *TEXTS):
            check(column, _text, value, column)
        elif column in NUMBERS:
            check(column, _number, value)
        elif column == "aliases":
            check(column, _aliases, value)
    check("start", _start, given["start"])
    check("end", lambda value: None if _means(value, STILL) else read_date(value), given["end"])
    if not faults:
        check("period", _period, values["start"], values["end"])
        if faults:
            faults = [Fault(number, "end", fault.rule) for fault in faults]
    return faults, values


def _means(value: Any, words: frozenset[str]) -> bool:
    missing = value is None or (isinstance(value, float) and math.isnan(value))
    return missing or (isinstance(value, str) and value.strip().casefold() in words)


def _start(value: Any) -> Any:
    if _means(value, NO_DATE):
        raise DataError(f"{value or ''!r} is empty: a fact needs the date since which it holds; give one")
    return read_date(value)


def _period(start: Any, end: Any) -> Period:
    return Period(start, end)


def _text(value: Any, column: str) -> str | None:
    if isinstance(value, bool) or not (value is None or isinstance(value, str | int)):
        raise DataError(f"{value!r} is a {type(value).__name__}; give one text")
    text = " ".join(str(value).split()) if value is not None else ""
    if not text and column in NEEDED:
        raise DataError(f"{value or ''!r} is empty; give its label in words")
    return text or None


def _number(value: Any) -> float | None:
    if _means(value, NO_DATE):
        return None
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 <= number < math.inf:
        raise DataError(f"{value!r} is not a number of 0 or more; give one, or leave the cell empty")
    return number


def _aliases(value: Any) -> tuple[str, ...]:
    parts = value.split("|") if isinstance(value, str) else () if value is None else value
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise DataError(f"{value!r} is neither a text nor a list of texts; write names with '|' between them")
    return tuple(dict.fromkeys(" ".join(part.split()) for part in parts if part.strip()))


def _clashes(rows: Sequence[_Row]) -> list[Fault]:
    """Rows of one fact that are the same, or say different things of it."""
    faults: list[Fault] = []
    seen: dict[Period, int] = {}
    for row in rows:
        first = seen.setdefault(row.period, row.number)
        if first != row.number:
            what = f"{row.values['object']!r} of {row.period} stands in row {first} already; keep one of the two rows"
            faults.append(Fault(row.number, "object", what))
        for column in (*(name for name in TEXTS if name != "fact_id"), "popularity"):
            before = next((r for r in rows if r.values.get(column) is not None), row)
            one, other = before.values.get(column), row.values.get(column)
            if other is not None and one != other:
                what = f"{other!r}, but row {before.number} of the same fact has {one!r}; write the same in both"
                faults.append(Fault(row.number, column, what))
    return faults


def _fact(rows: Sequence[_Row], others: int) -> GivenFact:
    def first(column: str) -> Any:
        return next((r.values[column] for r in rows if r.values.get(column) is not None), None)

    periods = joined(row.period for row in rows)
    fact = Fact(
        first("subject"), first("relation"), first("object"), periods[0], first("subject_id"), first("relation_id"),
        first("object_id"), first("popularity"),
    )  # fmt: skip
    names = dict.fromkeys(r.values["fact_id"] for r in rows if r.values.get("fact_id") is not None)
    known = first("other_objects")
    values: dict[str, Any] = {}
    for name in rows[0].all:
        different = list(dict.fromkeys(str(r.all[name]) for r in rows if r.all.get(name) is not None))
        values[name] = rows[0].all[name] if len(different) < 2 and rows[0].all[name] else " | ".join(different) or None
    return GivenFact(
        fact, periods[1:], tuple(r.number for r in rows), first("question"), first("present_question"),
        tuple(dict.fromkeys(alias for r in rows for alias in r.values.get("aliases") or ())), " | ".join(names) or None,
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


def _overlaps(facts: Sequence[GivenFact]) -> list[str]:
    """Notes of facts of one subject and relation that surely held at the same time for more than a day."""
    groups: dict[tuple[str, str], list[GivenFact]] = defaultdict(list)
    for fact in facts:
        one = fact.fact
        groups[one.subject_id or one.subject, (one.relation_id or one.relation).casefold()].append(fact)
    notes = []
    for group in groups.values():
        for a, b in combinations(group, 2):
            if any(_overlap(p, q) for p in a.periods for q in b.periods):
                notes.append(
                    f"{_where(a)} and {_where(b)}: {_said(a.fact)} and {b.fact.object} overlap; both count as true then"
                )
    return notes


def _overlap(a: Period, b: Period) -> bool:
    assert a.start is not None and b.start is not None
    last = min(math.inf if p.end is None else p.end.first_day for p in (a, b))
    return max(a.start.last_day, b.start.last_day) < last


def _said(fact: Fact) -> str:
    return f"{fact.subject}, {fact.relation}, {fact.object}"


def _where(fact: GivenFact) -> str:
    return f"row{'s' if len(fact.rows) > 1 else ''} {', '.join(map(str, fact.rows))}"
