"""One row for each change: the same office under two labels, the same person under two spellings."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from changes.rows import Row, days_apart, first_day, plain, same_name

NEAR = 45  # days between two sources' dates of one change
FAR = 200  # days: nearer than this, two sources that disagree about one office cannot both be right
HELD = {
    "officeholder", "head of state", "head of government", "chief executive officer", "head coach", "chairperson",
    "member of sports team", "secretary general", "director / manager", "position held", "Formula One team",
}  # fmt: skip
# Kinds of offices that sources label differently. Offices of different kinds may well pass from one person to another
# together (party leader and prime minister), and two players may well change places.
ONE_LABEL = {
    "head of state", "head of government", "deputy head", "foreign minister", "defence minister", "finance minister",
    "interior minister", "other minister", "regional head", "mayor", "central bank", "presiding officer",
    "public official", "international office", "judge", "chairperson",
}  # fmt: skip


def merged(sources: Sequence[Iterable[Row]], curated: Iterable[Row] = ()) -> tuple[list[Row], Counter[str]]:
    """The rows, the first source's first where two tell of one change, and how many were left out and why.

    curated: rows whose dates are surer than those of any source, but whose labels may be plainer.
    """
    kept: list[Row] = []
    out: Counter[str] = Counter()
    near: dict[str, list[int]] = defaultdict(list)
    surer = list(curated)
    for place, rows in enumerate([*sources, surer]):
        for row in rows:
            twin = _twin(row, kept, near)
            if twin is not None:
                out["the same change of two sources"] += 1
                if place == len(sources) and len(row.date) >= len(kept[twin].date) and _ours(kept[twin]):
                    kept[twin] = replace(kept[twin], date=row.date)
                continue
            if any(_disagree(row, kept[other]) for other in _around(row, near)):
                out["another source says otherwise"] += 1
                continue
            for month in _months(row):
                near[month].append(len(kept))
            kept.append(row)
    return kept, out


def _ours(row: Row) -> bool:
    return not row.source.startswith(("this project", "f1db"))


def _months(row: Row) -> list[str]:
    number = 12 * int(row.date[:4]) + int(row.date[5:7])
    return [str(number + step) for step in range(-7, 8)]


def _around(row: Row, near: dict[str, list[int]]) -> list[int]:
    return near.get(str(12 * int(row.date[:4]) + int(row.date[5:7])), [])


def _twin(row: Row, kept: Sequence[Row], near: dict[str, list[int]]) -> int | None:
    for place in _around(row, near):
        other = kept[place]
        if row.source == other.source:  # a lead may well change hands twice between two drivers
            continue
        alike = row.subject == other.subject or (row.kind == other.kind and row.kind in ONE_LABEL)
        alike = alike or row.subject in other.subject or other.subject in row.subject  # Florida, Governor of Florida
        if (
            alike and days_apart(row.date, other.date) <= NEAR
            and same_name(row.new, other.new) and same_name(row.old, other.old)
        ):  # fmt: skip
            return place
    return None


def _disagree(row: Row, other: Row) -> bool:
    """Whether another source has the same office change hands at about that time between others, or on another day."""
    if row.subject != other.subject or row.relation != other.relation or row.source == other.source:
        return False
    apart = days_apart(row.date, other.date)
    return apart <= NEAR or (apart <= FAR and same_name(row.new, other.new))


def called(row: Row, aliases: dict[str, str]) -> Row:
    return replace(row, old=aliases.get(row.old, row.old), new=aliases.get(row.new, row.new))


def one_spelling(rows: Sequence[Row], aliases: dict[str, str]) -> list[Row]:
    """The rows with one spelling for each name: the given one, else the commonest of those that differ in accents or
    are neighbours in the succession of one subject, else the longest."""
    said = Counter(name for row in rows if row.relation in HELD for name in (row.old, row.new))
    best: dict[str, str] = {}
    groups: dict[str, set[str]] = defaultdict(set)
    for name in said:
        groups[plain(name)].add(name)
    for row, after in _neighbours(rows):
        if row.relation in HELD and row.new != after.old and same_name(row.new, after.old):
            joined = groups[plain(row.new)] | groups[plain(after.old)]
            for name in joined:
                groups[plain(name)] = joined
    for names in groups.values():
        first = max(names, key=lambda name: (said[name], len(name), name))
        best |= dict.fromkeys(names, first)

    found = [called(called(row, best), aliases) if row.relation in HELD else row for row in rows]
    return [row for row in found if row.old != row.new]


def _neighbours(rows: Sequence[Row]) -> Iterable[tuple[Row, Row]]:
    chains: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.date):
        if not row.control:
            chains[row.subject, row.relation].append(row)
    for chain in chains.values():
        yield from pairwise(chain)


def without_short(rows: Sequence[Row], days: int) -> list[Row]:
    """Without the changes before and after somebody who held an office for so few days: who stood in."""
    short: set[Row] = set()
    for row, after in _neighbours(rows):
        if row.relation in HELD and (first_day(after.date) - first_day(row.date)).days < days:
            short |= {row, after}
    return [row for row in rows if row not in short]
