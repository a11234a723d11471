"""Dated changes of the world: at a date, one value of a subject and relation took the place of another."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import polars as pl

from anachron.core.dates import Date
from anachron.core.draws import draw
from anachron.core.errors import DataError
from anachron.core.facts import Fact
from anachron.core.sameness import name_key, same_name
from anachron.data.own.rows import GivenFact
from anachron.io.schemas import refuse_missing

STILL, INVENTED = "still", "invented"
CONTROLS = (STILL, INVENTED)
LOW, MEDIUM, HIGH = "low", "medium", "high"
GRADES = (LOW, MEDIUM, HIGH)
FORESEEN = (MEDIUM, HIGH)  # what a model may tell of a change without having learned of it
_YES_NO = {"yes": HIGH, "true": HIGH, "1": HIGH, "1.0": HIGH, "no": "", "false": "", "0": "", "0.0": ""}
NEEDED = ("subject", "relation", "old", "new", "date")
GAP, OVERLAP = 366, 31  # days that may lie between the end of one value and the start of the next, or be of both


@dataclass(frozen=True, slots=True)
class Change:
    """At ``date`` (a day or a month) ``new`` took the place of ``old``.

    relation: its label; relation_id: where it has one. popularity: of the subject, the larger the better known.
    predictable: how well the new value could be told beforehand, one of `GRADES`; empty where nobody said. control:
    `STILL` of a row whose old value still holds, `INVENTED` of a subject that does not exist; empty of a change. kind:
    what sort of change it is, by which they are grouped; by default the relation. source: who tells of it, if known.
    before: values that the subject had earlier.
    """

    subject: str
    relation: str
    old: str
    new: str
    date: Date
    relation_id: str | None = None
    popularity: float | None = None
    predictable: str = ""
    control: str = ""
    kind: str = ""
    source: str = ""
    before: tuple[str, ...] = ()

    @property
    def month(self) -> int:
        """Months since the year 0."""
        return month_of(self.date)

    @property
    def group(self) -> str:
        return self.kind or self.relation


def month_of(date: Date) -> int:
    """Months since the year 0. Raises `DataError` for a date that is a year, which says too little."""
    if date.month is None:
        raise DataError(f"date {date}: give the month too, as 2021-03 or 2021-03-24")
    return 12 * date.year + date.month - 1


def month_text(month: float) -> str:
    """``2021-03`` of a month, or of a moment in it."""
    whole = int(month // 1)
    return f"{whole // 12:04d}-{whole % 12 + 1:02d}"


def changes_of_table(table: pl.DataFrame) -> list[Change]:
    """Changes of a table with `NEEDED`, and where they are there ``relation_id, popularity, predictable, control,
    kind, source``. ``predictable`` is one of `GRADES`, or yes (which is high) or no.

    Raises `DataError` naming row (counted from 1), column, value and rule.
    """
    refuse_missing(table.columns, NEEDED, "a table of changes", f"it needs {', '.join(NEEDED)}")
    found = [_change(row, number) for number, row in enumerate(table.iter_rows(named=True), 1)]
    if not any(not change.control for change in found):
        raise DataError("the rows contain no change; give one per row, with its date")
    return with_values_before(found)


def _change(row: dict[str, object], number: int) -> Change:
    texts = {name: str(row[name] or "").strip() for name in NEEDED}
    for name, value in texts.items():
        if not value and not (name == "new" and row.get("control")):
            raise DataError(f"row {number}, {name}: it is empty; give it")
    control = str(row.get("control") or "").strip()
    if control and control not in CONTROLS:
        raise DataError(f"row {number}, control: {control!r} is not one of {', '.join(CONTROLS)}, or empty")
    if same_name(texts["old"], texts["new"]):
        raise DataError(f"row {number}, new: {texts['new']!r} is also the old value; leave the row out")
    try:
        date = Date.parse(texts["date"])
        month_of(date)
        popularity = None if row.get("popularity") in (None, "") else float(str(row["popularity"]))
    except (DataError, ValueError) as error:
        raise DataError(f"row {number}: {error}") from None
    return Change(
        texts["subject"], texts["relation"], texts["old"], texts["new"], date,
        relation_id=str(row.get("relation_id") or "").strip() or None, popularity=popularity,
        predictable=_grade(row.get("predictable"), number),
        control=control, kind=str(row.get("kind") or "").strip(), source=str(row.get("source") or "").strip(),
    )  # fmt: skip


def _grade(given: object, number: int) -> str:
    text = "" if given is None else str(given).strip().casefold()
    grade = _YES_NO.get(text, text)
    if grade and grade not in GRADES:
        raise DataError(f"row {number}, predictable: {text!r} is not one of {', '.join(GRADES)}, yes or no; or empty")
    return grade


def with_values_before(changes: Sequence[Change]) -> list[Change]:
    """The changes with what their subjects had before by other changes of the table."""
    of_subject: dict[tuple[str, str], list[Change]] = defaultdict(list)
    for change in changes:
        if not change.control:
            of_subject[about(change)].append(change)
    found = []
    for change in changes:
        others = of_subject[about(change)] if not change.control else []
        earlier = [value for one in others if one.month < change.month for value in (one.old, one.new)]
        found.append(replace(change, before=_others([*change.before, *_others(earlier, change.old, change.new)])))
    return found


def about(change: Change) -> tuple[str, str]:
    """What the changes of one subject and relation share, in whatever spelling."""
    return name_key(change.subject), name_key(change.relation)


def _others(values: Iterable[str], *but: str) -> tuple[str, ...]:
    """The names among some, each once, in the spelling that comes first; but for some others."""
    names: dict[str, str] = {}
    for value in values:
        names.setdefault(name_key(value), value)
    return tuple(name for key, name in names.items() if key not in set(map(name_key, but)))


def changes_of_facts(facts: Iterable[Fact | GivenFact], gap: int = GAP) -> list[Change]:
    """The changes that facts tell of: a value that ends, and the next of its subject and relation that begins then.

    Between the end of one and the start of the next lie at most ``gap`` days. The new one's start is the date, and must
    be known to the month. Where two values of a subject hold together for more than `OVERLAP` days nothing took the
    place of anything, so the subject and relation are left out.
    """
    spans: dict[tuple[str, str], list[Fact]] = defaultdict(list)
    for item in facts:
        fact, periods = (item, (item.period,)) if isinstance(item, Fact) else (item.fact, item.periods)
        for period in periods:
            if period.start is not None:
                key = name_key(fact.subject), name_key(fact.relation_id or fact.relation)
                spans[key].append(replace(fact, period=period))
    found: list[Change] = []
    for held in spans.values():
        held = sorted({(name_key(one.object), one.period): one for one in reversed(held)}.values(), key=_start)
        ends = [None if one.period.end is None else one.period.end.first_day for one in held]
        last = [10**9 if end is None else end for end in ends]
        if any(last[i] - _start(held[i + 1]) > OVERLAP for i in range(len(held) - 1)):
            continue
        for place, (old, new) in enumerate(pairwise(held)):
            start, close = new.period.start, _start(new) - last[place] <= gap
            if start is None or start.month is None or not close or same_name(old.object, new.object):
                continue
            before = _others((one.object for one in held[:place]), old.object, new.object)
            found.append(
                Change(new.subject, new.relation, old.object, new.object, start, new.relation_id, before=before)
            )
    return sorted(found, key=lambda change: (change.month, change.subject, change.relation))


def _start(fact: Fact) -> int:
    assert fact.period.start is not None
    return fact.period.start.first_day


def sample(changes: Sequence[Change], size: int | None) -> list[Change]:
    """A fixed random sample of the changes, and as large a share of the controls; all of them where size is None."""
    real = sum(not change.control for change in changes)
    if size is None or size >= real:
        return list(changes)
    share = size / real
    ranked = sorted(changes, key=lambda c: draw("change", 0, f"{c.subject}\n{c.relation}\n{c.date}\n{c.new}"))
    kept, taken = set(), {True: 0, False: 0}
    most = {False: size, True: round(share * (len(changes) - real))}
    for change in ranked:
        if taken[bool(change.control)] < most[bool(change.control)]:
            taken[bool(change.control)] += 1
            kept.add(id(change))
    return [change for change in changes if id(change) in kept]
