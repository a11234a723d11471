"""`build updates` on many made-up groups, against the rules of section 1 to 3 of its specification read once more.

`updates.naive` is the whole of the specification on small worlds in which everything collides. Here the groups are
many, each is looked at alone, and nothing is shared with that other reading. What the specification leaves open does
not occur: a value is stated once a side, and no two points in time of a side are of one day.
"""

import random
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from anachron.text.cloze import Cloze
from anachron.wikidata.reading.snapshot import open_snapshot
from anachron.wikidata.updates.build import Built, UpdateSettings, build_updates
from wikidata.made import OPEN, UNKNOWN, boundary, entity, property_, statement, write_snapshot

OLD, NEW = "2021-01-04", "2023-02-27"
DATES = (
    "-0044", "1990", "2020-12-31", "2021", "2021-01-04", "2021-01-05", "2021-02", "2022", "2022-06", "2023-02-26",
    "2023-02-27", "2023-02-28", "2024",
)  # fmt: skip
POINTS = ("1990", "2020-12-31", "2021-01-04", "2021-01-05", "2022", "2022-06", "2023-02-26", "2023-02-27", "2024")
ONE, ONE_AT_A_TIME, BY_POINT = ("P6", "P570"), ("P35",), ("P1082",)  # functional relations
MANY = ("P54", "P39", "P4602")
KINDS = {"P570": "time", "P4602": "time", "P1082": "quantity"}
FUNCTIONAL = {*ONE, *ONE_AT_A_TIME, *BY_POINT}
META, RESTRICTIVE, PAGES = "Q51118821", "Q61719275", "Q9001"


@dataclass(frozen=True)
class Said:
    """A statement. Dates are texts, ``unknown``, ``open`` or None."""

    id: str
    value: str
    rank: str = "normal"
    start: str | None = None
    end: str | None = None
    point: str | None = None
    restricted: bool = False


@dataclass(frozen=True)
class World:
    """groups: subject, relation -> what the old and the new snapshot say. about: id -> row of the entity in each."""

    groups: dict[tuple[str, str], tuple[list[Said], list[Said]]]
    about: tuple[dict[str, Any], dict[str, Any]]


# Made up


def make(seed: int, subjects: int) -> World:
    r = random.Random(seed)
    items = [f"Q{n}" for n in range(500_000, 500_400)]
    about: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    for n, id in enumerate(items):
        label = None if n % 50 == 7 else f"twin {n % 5}" if n % 8 == 0 else f"object {n}"
        for side in about:
            side[id] = entity(id, label, title=None, classes=[PAGES] if n % 60 == 11 else [])
    fresh: list[str] = []
    groups = {}
    for n in range(1, subjects + 1):
        id, fate = f"Q{n}", r.choices(("stays", "goes", "comes"), (80, 5, 15))[0]
        created = r.choice([None, "1990", "2021-01-04", "2021-01-05", "2022", "2022"]) if fate == "comes" else None
        label = None if r.random() < 0.02 else f"subject {n}"
        classes = [PAGES] if r.random() < 0.02 else []
        if fate == "comes":
            fresh.append(id)
        for side, there in zip(about, (fate != "comes" or r.random() < 0.3, fate != "goes"), strict=True):
            if there:
                title = None if r.random() < 0.02 else f"Title {n}"
                property = None if created is None else "P571"
                side[id] = entity(id, label, title=title, classes=classes, created=created, created_property=property)
        for relation in r.sample([*ONE, *ONE_AT_A_TIME, *BY_POINT, *MANY], r.choice((1, 2, 2, 3, 4))):
            groups[id, relation] = group(r, f"{id}-{relation}", relation, items, fresh, fate)
    return World(groups, about)


def group(r: random.Random, name: str, relation: str, items: list[str], fresh: list[str], fate: str) -> Any:
    known = iter(r.sample(values(relation, items), 12))
    before = [] if fate == "comes" else [said(r, f"{name}${k}", next(known)) for k in range(r.choice((0, 1, 1, 2, 3)))]
    after = []
    for one in before:
        chance = r.random()
        if chance < 0.5:
            after.append(one)
        elif chance < 0.65:
            after.append(replace(said(r, one.id, one.value), rank=one.rank))
        elif chance < 0.7:
            after.append(replace(one, rank=r.choice(("normal", "preferred", "deprecated"))))
        elif chance < 0.85:
            after.append(said(r, one.id, next(known)))
    later = [id for id in r.sample(fresh, min(3, len(fresh))) if relation not in KINDS]
    for k in range(r.choices((0, 1, 2), (5, 4, 1))[0]):
        value = later.pop() if later and r.random() < 0.3 else next(known)
        after.append(said(r, f"{name}$n{k}", value))
    return distinct(before), [] if fate == "goes" else distinct(after)


def values(relation: str, items: list[str]) -> list[str]:
    if KINDS.get(relation) == "time":
        return list(DATES)
    return [f"+{n}" for n in range(1, 40)] if relation in KINDS else items


def said(r: random.Random, id: str, value: str) -> Said:
    def date(share: float, dates: tuple[str, ...] = DATES) -> str | None:
        return r.choice([*dates * 3, "unknown", "open"]) if r.random() < share else None

    rank = r.choices(("normal", "preferred", "deprecated"), (80, 15, 5))[0]
    return Said(id, value, rank, date(0.6), date(0.45), date(0.2, POINTS), r.random() < 0.03)


def distinct(rows: list[Said]) -> list[Said]:
    """The rows, less points in time of a day that another row has."""
    seen: set[str | None] = set()
    found = []
    for row in rows:
        found.append(replace(row, point=None) if row.point in seen else row)
        seen.add(row.point)
    return found


# Read from the specification


def day(text: str | None) -> tuple[int, int, int] | None:
    """A date filled up with 01; None of one that is missing, unknown or open."""
    if text in (None, "unknown", "open"):
        return None
    assert text is not None
    before_christ = text.startswith("-")
    parts = [int(part) for part in text.lstrip("-").split("-")] + [1, 1]
    return (-parts[0] if before_christ else parts[0], parts[1], parts[2])


class Reading:
    """What the specification says of a world: ``updates`` (scenario and objects of each group), ``created``."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.pages = [{id for id, row in side.items() if PAGES in row["classes"]} for side in world.about]
        self.clean = {key: tuple(self.cleaned(key, n) for n in (0, 1)) for key in world.groups}
        old, new = ({subject for (subject, _), sides in self.clean.items() if sides[n]} for n in (0, 1))
        t0 = day(OLD)
        assert t0 is not None
        births = {id: day(row.get("created")) for id, row in world.about[1].items()}
        self.created = {id for id in new - old if (born := births[id]) is not None and born > t0}
        self.gone = old - new
        self.said = {key: pair for key, pair in self.clean.items() if any(pair)}
        self.changed = {key for key, (a, b) in self.said.items() if {s.value for s in a} != {s.value for s in b}}
        self.rules: Counter[int] = Counter()
        self.updates = {key: found for key in self.changed if (found := self.update(key)) is not None}

    def cleaned(self, key: tuple[str, str], n: int) -> list[Said]:
        (subject, relation), about = key, self.world.about[n]
        pages = self.pages[n]
        mine = about.get(subject)
        if mine is None or mine["title"] is None or subject in pages:
            return []
        rows = [s for s in self.world.groups[key][n] if s.rank != "deprecated" and s.value not in pages]
        rows = [s for s in rows if not s.restricted]
        if relation in BY_POINT and any(day(s.point) for s in rows):
            return [max((s for s in rows if day(s.point)), key=lambda s: day(s.point) or ())]
        best = [s for s in rows if s.rank == "preferred"]
        return best if relation in FUNCTIONAL and len(rows) > 1 and len(best) == 1 else rows

    def update(self, key: tuple[str, str]) -> Any:
        subject, relation = key
        old, new = ({s.value: s for s in side} for side in self.said[key])
        triples = {value: (old.get(value), new.get(value)) for value in [*old, *new]}
        labels = {value: self.label(subject, relation, value, triples) for value in triples}
        fresh = [value for value, (label, _) in labels.items() if label == "new"]
        if relation in FUNCTIONAL and len(triples) == 2 and fresh:
            for value, (label, rule) in list(labels.items()):
                if label == "unknown" and triples[value][1] is None and rule > 3:
                    labels[value] = ("obsolete", 20)
        self.rules.update(rule for _, rule in labels.values())
        if "unknown" in [label for label, _ in labels.values()]:
            return None
        labels = {value: found for value, found in labels.items() if found[0] != "ignore"}
        if {label for label, _ in labels.values()} <= {"static"}:
            return None
        words = {value: self.words(relation, value) for value in labels}
        if self.words("", subject) is None or None in words.values():
            return None
        return self.worded(subject, labels, words)

    def worded(self, subject: str, labels: dict[str, tuple[str, int]], words: dict[str, str | None]) -> Any:
        """Of equal words one stays, or the group goes."""
        same = defaultdict(list)
        for value, (label, rule) in labels.items():
            same[words[value]].append((label, rule))
        found = []
        for word, several in same.items():
            kinds = {label for label, _ in several}
            if "obsolete" in kinds and len(kinds) > 1:
                return None
            kind = "new" if "new" in kinds else min(kinds)
            rules = {rule for label, rule in several if label == kind}
            found.append((word, kind, rules))
        kinds = sorted(kind for _, kind, _ in found)
        if subject in self.created:
            scenario = "AddEntity"
        elif kinds == ["new", "obsolete"]:
            scenario = "ReplaceObject"
        else:
            known = {("obsolete",): "Archive", ("new",): "AddRelation", ("new", "static"): "AddObject"}
            scenario = known.get(tuple(sorted(set(kinds))), "Other")
        return scenario, found

    def words(self, relation: str, value: str) -> str | None:
        if relation in KINDS:
            return value
        either = [side[value]["label"] for side in self.world.about if value in side]
        return next((label for label in either if label is not None), None)

    def label(self, subject: str, relation: str, value: str, triples: dict[str, Any]) -> tuple[str, int]:
        """Section 3, from the first rule to the last."""
        before, now = triples[value]
        t0, t1 = day(OLD), day(NEW)
        assert t0 is not None and t1 is not None
        start, end, point = (day(getattr(now, side)) if now else None for side in ("start", "end", "point"))
        added, removed = before is None, now is None

        def inside(moment: tuple[int, int, int] | None) -> bool:
            return moment is not None and t0 < moment < t1

        if subject in self.created:
            return "new", 1
        if subject in self.gone:
            return "unknown", 2
        if relation in ("P570", "P4602"):
            return ("new" if added and len(triples) == 1 and inside(day(value)) else "unknown"), 3
        if start is not None and end is not None and start > end:
            return "unknown", 4
        if relation in FUNCTIONAL:
            removals = sum(now is None for _, now in triples.values())
            additions = sum(before is None for before, _ in triples.values())
            swap = len(triples) == 2 and removals == additions == 1
            begun = inside(start) and (end is None or end > t1)
            return ("new", 5) if swap and added and (inside(point) or begun) else ("unknown", 6)
        if added and inside(point):
            return "new", 7
        if end is not None and end < t0:
            return "ignore", 8
        if end is None and start is not None and start < t0:
            return "static", 9
        if end is None and inside(start):
            return "new", 10
        if start is not None and start > t1:
            return "ignore", 11
        if inside(start) and inside(end):
            return "ignore", 12
        if start is not None and start < t0 and inside(end):
            return "obsolete", 13
        if start is not None and start < t0 and end is not None and end > t1:
            return "static", 14
        if inside(end):
            return "obsolete", 15
        if end is not None and end > t1:
            return "static", 16
        old_end = day(before.end) if before else None
        if removed and old_end is not None and old_end < t0:
            return "ignore", 17
        if added and value in self.created:
            return "new", 18
        return "unknown", 19


# Compared


def rows_of(world: World, n: int) -> list[Any]:
    def side(text: str | None) -> Any:
        return {"unknown": UNKNOWN, "open": OPEN}.get(text, text and boundary(text)) if text else None

    found = []
    for (subject, relation), sides in world.groups.items():
        kind = KINDS.get(relation, "entity")
        for s in sides[n]:
            qualifiers = {"P642": [["value", "Q1"]]} if s.restricted else {}
            row = statement(subject, relation, s.value, side(s.start), side(s.end), statement_id=s.id, rank=s.rank,
                            point=side(s.point), qualifiers=qualifiers)  # fmt: skip
            if kind != "entity":
                row |= {"value_type": kind, "datatype": kind}
            if kind == "time":
                row |= {"value_precision": boundary(s.value)["precision"], "value_calendar": "gregorian"}
            found.append(row)
    return found


def build(folder: Path, world: World) -> Built:
    properties = [
        *(property_(id, single_value=True, separators=[], datatype=KINDS.get(id, "wikibase-item")) for id in ONE),
        *(property_(id, single_value=True, separators=["P580", "P582"]) for id in ONE_AT_A_TIME),
        *(property_(id, single_value=True, separators=["P585"], datatype="quantity") for id in BY_POINT),
        *(property_(id, datatype=KINDS.get(id, "wikibase-item")) for id in MANY),
        property_("P642", classes=[RESTRICTIVE]),
    ]
    old, new = (
        write_snapshot(
            folder / date, [*world.about[n].values(), entity(PAGES, "Wikimedia list", title=None)], rows_of(world, n),
            properties, date=date, buckets=4,
        )
        for n, date in enumerate((OLD, NEW))
    )  # fmt: skip
    relations = [*ONE, *ONE_AT_A_TIME, *BY_POINT, *MANY]
    return build_updates(
        open_snapshot(old), open_snapshot(new), folder / "updates.parquet",
        UpdateSettings(popularity=False, neighbours=0, coarse_dates="published"),
        templates={id: Cloze(id, (f"[SUBJ] has the {id} [OBJ]",)) for id in relations},
    )  # fmt: skip


def compare(folder: Path, subjects: int, seed: int) -> Reading:
    world = make(seed, subjects)
    reading, built = Reading(world), build(folder, world)
    found = {}
    for row in built.updates.to_dicts():
        relation = row["relation"]["id"]
        objects = [(None if relation in KINDS else o["label"], o["decision"], o["rule"]) for o in row["objects"]]
        found[row["subject"]["id"], relation] = (row["scenario"], objects)
    assert found.keys() == reading.updates.keys()
    for key, (scenario, objects) in reading.updates.items():
        assert found[key][0] == scenario, key
        told = sorted(found[key][1], key=str)
        literal = key[1] in KINDS
        wanted = [(None if literal else word, kind, rules) for word, kind, rules in objects]
        assert len(told) == len(wanted), key
        for object in told:
            fits = next((w for w in wanted if object[:2] == w[:2] and object[2] in w[2]), None)
            assert fits is not None, (key, object, wanted)
            wanted.remove(fits)
    assert built.counts["groups"] == {"all": len(reading.said), "changed": len(reading.changed)}
    assert set(built.created["id"]) == reading.created
    return reading


def test_some_hundred_groups_come_out_as_the_specification_says(tmp_path: Path):
    assert len(compare(tmp_path, 100, 1).said) > 150


@pytest.mark.slow
@pytest.mark.full
def test_30_000_groups_come_out_as_the_specification_says(tmp_path: Path):
    reading = compare(tmp_path, 16_000, 2)
    assert len(reading.said) > 30_000
    assert set(reading.rules) == set(range(1, 21)) and min(reading.rules.values()) > 20
    scenarios = Counter(scenario for scenario, _ in reading.updates.values())
    assert len(scenarios) == 6 and min(scenarios.values()) > 10
