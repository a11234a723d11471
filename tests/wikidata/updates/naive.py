"""`build updates` once more, statement by statement over lists and dictionaries: the specification read by a person.

Nothing here is shared with the package but the words of literals and of templates, which are tested on their own.
"""

import json
import math
from calendar import monthrange
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import product
from typing import Any

from anachron.text.cloze import cloze_prompt_text
from anachron.text.literals import literal_in_words, literal_type
from anachron.text.questions import relation_templates

Row = dict[str, Any]
Day = tuple[int, int, int]
META, RESTRICTIVE, FREE, SOCIAL = "Q51118821", "Q61719275", "Q61719274", "Q105388954"
DEATHS = ("P570", "P4602")
STEPS = (
    "ranks", "datatypes", "pages", "meta properties", "known values", "restricted statements", "one value"
)  # fmt: skip
LATER = "a later point in time is stated for the same relation"
ELSEWHEN = "it did not hold at the date of the snapshot"
PREFERRED = "another value of a functional relation is preferred"
UNKNOWN = "a triple is not understood"
NEITHER = "it held at neither date"
NO_CHANGE = "nothing became true or false"
MERGED = "only items that were merged differ"
SAME = "the same triple, for its item was merged into another"
CLASH = "one label is both of an obsolete and of another object"
DOUBLE = "another object of the group has the same label"


@dataclass
class Half:
    """What one snapshot holds."""

    date: str
    entities: list[Row]
    statements: list[Row]
    properties: list[Row]
    edges: list[tuple[str, str]]


@dataclass
class Pair:
    """Two snapshots and what a call is given. templates: relation -> its cloze templates."""

    old: Half
    new: Half
    views: dict[str, float]
    templates: dict[str, list[str]]
    redirects: dict[str, str]
    label_unchanged: bool = False
    neighbours: int = 10
    valid: bool = False  # drop values of functional relations that did not hold at the snapshot's date
    coarse: bool = False  # a label that depends on the day of a date known to the year or less is unknown


@dataclass
class Naive:
    """What the reference finds."""

    updates: list[Row]
    created: list[Row]
    steps: dict[str, list[Row]]
    flags: Counter[str]
    changes: Counter[str]
    groups: int
    changed: int
    subjects: dict[str, int]
    dropped: dict[str, list[int]]
    left_out: Counter[str]
    rules: set[int]  # of all triples that were labelled


def first_day(text: str) -> Day:
    """A date with month and day completed to 1; tuples compare as days do, before year 1 too."""
    year, *rest = text.removeprefix("-").split("-")
    month, day = [*(int(part) for part in rest), 1, 1][:2]
    return (-int(year) if text.startswith("-") else int(year), month, day)


def moment(boundary: Row | None) -> Day | None:
    """The day of a start, end or point in time; None where it is not stated, unknown or open."""
    return first_day(boundary["date"]) if boundary is not None and boundary["date"] is not None else None


def days_of(boundary: Row | None) -> list[Day]:
    """The days that a date may mean, the first, the last, and those of its years in between; none without one."""
    if boundary is None or boundary["date"] is None:
        return []
    year, month, day = first_day(boundary["date"])
    parts = len(boundary["date"].removeprefix("-").split("-"))
    if boundary["precision"] is not None and boundary["precision"] < 9:
        length = 10 ** (9 - boundary["precision"])
        first = year // length * length if length == 10 else (year - 1) // length * length + 1
        return [(y, m, d) for y in range(first, first + length) for m, d in ((1, 1), (6, 15), (12, 31))]
    if parts == 1:
        return [(year, m, d) for m in range(1, 13) for d in range(1, 29)] + [(year, 12, 31)]
    if parts == 2:
        return [(year, month, d) for d in range(1, monthrange(year, month)[1] + 1)]
    return [(year, month, day)]


def above(id: str, half: Half, depth: int = 4) -> set[str]:
    """Classes of a property: P31 first, then P279, up to the depth."""
    found: set[str] = set()
    level = {c for p in half.properties if p["id"] == id for c in p["classes"]}
    for _ in range(depth):
        found |= level
        level = {parent for child, parent in half.edges if child in level}
    return found


def is_page(id: str, half: Half) -> bool:
    labels = {e["id"]: e["label"] or "" for e in half.entities}
    classes = [c for e in half.entities if e["id"] == id for c in e["classes"]]
    return any("Wikimedia" in labels.get(c, "") or "template" in labels.get(c, "") for c in classes)


def restricts(qualifier: str, half: Half) -> bool:
    if qualifier in ("P580", "P582", "P585"):
        return False
    classes = above(qualifier, half)
    return qualifier == "P447" or SOCIAL in classes or (RESTRICTIVE in classes and FREE not in classes)


def property_of(id: str, half: Half) -> Row:
    return next((p for p in half.properties if p["id"] == id), {})


def why_dropped(row: Row, half: Half, titles: dict[str, str | None]) -> tuple[str, str] | None:
    """Section 1, steps 1 to 5: the step that drops a statement and its reason, or None."""
    datatype = row["datatype"] or property_of(row["property"], half).get("datatype")
    if row["value_type"] == "coordinate":
        datatype = "globe-coordinate"
    if row["rank"] == "deprecated":
        return "ranks", "its rank is deprecated"
    if datatype in ("url", "external-id", "commonsMedia", "globe-coordinate"):
        return "datatypes", f"its value is of type {datatype}"
    if titles.get(row["subject"]) is None:
        return "pages", "the subject has no title in enwiki"
    if is_page(row["subject"], half):
        return "pages", "the subject is a page of the wiki or a template"
    if row["value_type"] == "entity" and is_page(row["value"], half):
        return "pages", "the object is a page of the wiki or a template"
    if META in above(row["property"], half):
        return "meta properties", "the property is about Wikidata itself"
    if row["snak"] == "novalue":
        return "known values", "it has no value"
    if row["snak"] == "somevalue":
        return "known values", "its value is unknown"
    if any(restricts(q, half) for q in json.loads(row["qualifiers"])):
        return "restricted statements", "a qualifier restricts it"
    return None


def passed_over(rows: list[Row], about: Row, at: Day | None = None) -> dict[int, str]:
    """Section 1, step 6, for one group: places of rows that go, and why. at: a day at which values must hold."""
    elsewhen: dict[int, str] = {}
    if at is not None and about.get("single_value"):
        for n, row in enumerate(rows):
            start, end = days_of(row["start"]), days_of(row["end"])
            if (end and max(end) < at) or (start and min(start) > at):
                elsewhen[n] = ELSEWHEN
    gone: dict[int, str] = {}
    days = [None if n in elsewhen else moment(r["point"]) for n, r in enumerate(rows)]
    dated = [(day, -n) for n, day in enumerate(days) if day is not None]
    if about.get("single_value") and "P585" in (about["separators"] or []) and dated:
        latest = -max((day, rows[-n]["rank"] == "preferred", n) for day, n in dated)[2]  # else the first of a day
        gone = {n: LATER for n in range(len(rows)) if n != latest}
    gone |= elsewhen
    left = [n for n in range(len(rows)) if n not in gone]
    preferred = [n for n in left if rows[n]["rank"] == "preferred"]
    if about.get("single_value") and len(preferred) == 1:
        gone |= {n: PREFERRED for n in left if n not in preferred}
    return gone


def clean(
    half: Half, relations: dict[str, Row], valid: bool = False
) -> tuple[list[Row], list[tuple[Row, tuple[str, str] | None]]]:
    """Section 1: the statements that are kept in their order, and every statement with what became of it."""
    titles = {e["id"]: e["title"] for e in half.entities}
    fates = [(row, why_dropped(row, half, titles)) for row in half.statements]
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for place, (row, fate) in enumerate(fates):
        if fate is None:
            groups[row["subject"], row["property"]].append(place)
    for (_, relation), places in groups.items():
        at = first_day(half.date) if valid else None
        gone = passed_over([fates[p][0] for p in places], relations.get(relation, {}), at)
        for n, reason in gone.items():
            fates[places[n]] = (fates[places[n]][0], ("one value", reason))
    return [row for row, fate in fates if fate is None], fates


def count_steps(fates: list[tuple[Row, tuple[str, str] | None]]) -> list[Row]:
    """Step by step: dropped statements by reason, and subjects that lost their last statement."""
    steps = []
    alive = list(fates)
    for n, name in enumerate(STEPS):
        left = [(row, fate) for row, fate in alive if fate is None or STEPS.index(fate[0]) > n]
        steps.append({
            "step": name,
            "statements_in": len(alive),
            "dropped": dict(Counter(fate[1] for _, fate in alive if fate is not None and fate[0] == name)),
            "statements_kept": len(left),
            "subjects_in": len({row["subject"] for row, _ in alive}),
            "subjects_kept": len({row["subject"] for row, _ in left}),
        })  # fmt: skip
        alive = left
    return steps


def value_of(row: Row) -> tuple[Any, ...]:
    """What makes values equal: of a time precision and calendar, of a quantity the unit, of a text the language."""
    extra = None if row["value_type"] == "time" else row["value_extra"]
    return (row["value_type"], row["value"], extra, row["value_precision"], row["value_calendar"])


def qualifiers_of(row: Row) -> set[str]:
    found = {f"{side} {sorted(row[side].items())}" for side in ("start", "end", "point") if row[side] is not None}
    for name, values in json.loads(row["qualifiers"]).items():
        found |= {f"{name} {json.dumps(value)}" for value in values}
    return found


def alike(one: set[str], other: set[str]) -> float:
    return len(one & other) / len(one | other) if one | other else 1.0


def final(id: str, redirects: dict[str, str]) -> str:
    while id in redirects:
        id = redirects[id]
    return id


def moved(rows: list[Row], redirects: dict[str, str]) -> list[Row]:
    """Old statements under the ids that merged items have now; one that says a thing a second time is a ``double``.

    Those of a subject come first, then those of each item that was merged into it, by the item's number.
    """
    stay, go = [], []
    for row in rows:
        value = final(row["value"], redirects) if row["value_type"] == "entity" else row["value"]
        now = row | {"subject": final(row["subject"], redirects), "value": value}
        (stay if now["subject"] == row["subject"] else go).append((row, now))
    ordered = [*stay, *sorted(go, key=lambda pair: number(pair[0]["subject"]))]
    said = {fact_of(now) for row, now in ordered if now == row}
    left = []
    for row, now in ordered:
        left.append(now | {"double": now != row and fact_of(now) in said})
        said.add(fact_of(now))
    return left


def without_doubles(group: list[Row], old: list[Row]) -> list[Row]:
    """Aligned triples, less as many old ones of a value as there were doubles of it, the doubles first."""
    spare = Counter(fact_of(row) for row in old if row["double"])
    left_out = []
    for triple in sorted((t for t in group if t["flag"] == "old"), key=lambda t: not t["before"]["double"]):
        if spare[fact_of(triple["before"])]:
            spare[fact_of(triple["before"])] -= 1
            left_out.append(id(triple))
    return [t for t in group if id(t) not in left_out]


def fact_of(row: Row) -> tuple[Any, ...]:
    return (row["subject"], row["property"], *value_of(row))


def aligned(old: list[Row], new: list[Row]) -> list[Row]:
    """The triples of one group: ``flag``, ``now`` and ``before`` (rows of the snapshots or None)."""
    pairs = []
    for o, before in enumerate(old):
        for n, now in enumerate(new):
            if value_of(before) == value_of(now):
                same_id = before["statement_id"] == now["statement_id"]
                pairs.append((not same_id, -alike(qualifiers_of(before), qualifiers_of(now)), o, n))
    partner: dict[int, int] = {}
    for _, _, o, n in sorted(pairs):
        if o not in partner and n not in partner.values():
            partner[o] = n
    triples: list[Row] = [{"flag": "old", "before": r, "now": None} for o, r in enumerate(old) if o not in partner]
    back = {n: o for o, n in partner.items()}
    for n, now in enumerate(new):
        before_or_none = old[back[n]] if n in back else None
        triples.append({"flag": "both" if n in back else "new", "before": before_or_none, "now": now})
    return triples


def joined(group: list[Row], living: set[str]) -> list[Row]:
    """A group in which a statement that names another item, for the one it named lives no longer, is in both."""
    pairs = [
        (one, other)
        for one in group
        for other in group
        if one["flag"] == "old" and other["flag"] == "new"
        and one["before"]["statement_id"] == other["now"]["statement_id"]
        and one["before"]["value_type"] == other["now"]["value_type"] == "entity"
        and one["before"]["value"] not in living
    ]  # fmt: skip
    gone = [one for one, _ in pairs]
    into = {id(other): one for one, other in pairs}
    return [
        t | {"flag": "both", "before": into[id(t)]["before"]} if id(t) in into else t
        for t in group
        if all(t is not one for one in gone)
    ]


def label(group: list[Row], s_new: bool, s_gone: bool, relation: str, functional: bool, new_entities: set[str],
          t0: Day, t1: Day, coarse: bool = False) -> None:  # fmt: skip
    """Section 3: ``label`` and ``rule`` of each triple of a group.

    coarse: every day that a date may mean is tried, and where they give different labels it is unknown by rule 21; an
    end before the start counts only where nothing else is possible.
    """
    names = [("now", "start"), ("now", "end"), ("now", "point"), ("before", "end")]
    if coarse:
        tried: list[list[tuple[str, int]]] = []
        for t in group:
            options = [days_of((t[half] or {}).get(name)) or [None] for half, name in names]
            behind = [[min(later) for at in (t0, t1) if (later := [d for d in o if d and d > at])] for o in options]
            options = [sorted({o[0], o[-1], *days}, key=str) for o, days in zip(options, behind, strict=True)]
            found = []
            for days in product(*options):
                one = {"now": dict(t["now"] or {}), "before": dict(t["before"] or {}), "flag": t["flag"]}
                for (half, name), day in zip(names, days, strict=True):
                    text = None if day is None else f"{day[0]:04d}-{day[1]:02d}-{day[2]:02d}"
                    one[half][name] = None if text is None else {"date": text}
                others = [one if other is t else other for other in group]
                label_once(others, s_new, s_gone, relation, functional, new_entities, t0, t1)
                found.append((one["label"], one["rule"]))
            tried.append([pair for pair in found if pair[1] != 4] or found)
        for t, found in zip(group, tried, strict=True):
            same = len({name for name, _ in found}) == 1
            t["label"], t["rule"] = found[0] if same else ("unknown", 21)
    else:
        label_once(group, s_new, s_gone, relation, functional, new_entities, t0, t1)
    if functional and len(group) == 2:
        labels = [t["label"] for t in group]
        for i, t in enumerate(group):
            if t["flag"] == "old" and labels[i] == "unknown" and labels[1 - i] == "new" and t["rule"] > 3:
                t["label"], t["rule"] = "obsolete", 20


def label_once(group: list[Row], s_new: bool, s_gone: bool, relation: str, functional: bool, new_entities: set[str],
               t0: Day, t1: Day) -> None:  # fmt: skip
    """Section 3, the first pass, every date taken as its first day."""
    flags = [t["flag"] for t in group]

    def between(day: Day | None) -> bool:
        return day is not None and t0 < day < t1

    for t in group:
        now, before = t["now"] or {}, t["before"] or {}
        start, end, point = moment(now.get("start")), moment(now.get("end")), moment(now.get("point"))
        object_new = now.get("value_type") == "entity" and now["value"] in new_entities
        died = relation in DEATHS
        death = died and now.get("value_type") == "time" and len(group) == 1 and flags[0] == "new" and between(
            first_day(now["value"]) if now["value"] else None
        )  # fmt: skip
        old_end = moment(before.get("end"))
        swap = len(group) == 2 and sorted(flags) == ["new", "old"] and t["flag"] == "new"
        table = [
            (1, "new", s_new),
            (2, "unknown", s_gone),
            (3, "new", death),
            (3, "unknown", died),
            (4, "unknown", start is not None and end is not None and start > end),
            (5, "new", functional and swap and (between(point) or (between(start) and (end is None or end > t1)))),
            (6, "unknown", functional),
            (7, "new", t["flag"] == "new" and between(point)),
            (8, "ignore", end is not None and end < t0),
            (9, "static", end is None and start is not None and start < t0),
            (10, "new", end is None and between(start)),
            (11, "ignore", start is not None and start > t1),
            (12, "ignore", between(start) and between(end)),
            (13, "obsolete", start is not None and start < t0 and between(end)),
            (14, "static", start is not None and start < t0 and end is not None and end > t1),
            (15, "obsolete", between(end)),
            (16, "static", end is not None and end > t1),
            (17, "ignore", t["flag"] == "old" and old_end is not None and old_end < t0),
            (18, "new", t["flag"] == "new" and object_new),
            (19, "unknown", True),
        ]
        t["rule"], t["label"] = next((rule, name) for rule, name, holds in table if holds)


def scenario(group: list[Row], s_new: bool) -> str:
    labels = sorted(t["label"] for t in group)
    if s_new:
        return "AddEntity"
    if labels == ["new", "obsolete"]:
        return "ReplaceObject"
    if set(labels) == {"obsolete"}:
        return "Archive"
    if set(labels) == {"new", "static"}:
        return "AddObject"
    return "AddRelation" if set(labels) == {"new"} else "Other"


def popularity(id: str, half: Half, views: dict[str, float]) -> float:
    """log(median + 1): of its own views, else the largest mean of a class, else the median of all."""
    classes = {e["id"]: e["classes"] for e in half.entities}
    if id in views:
        return math.log(views[id] + 1)
    means = []
    for c in classes.get(id, []):
        own = [v for other, v in views.items() if c in classes.get(other, [])]
        if own:
            means.append(math.fsum(own) / len(own))
    if means:
        return math.log(max(means) + 1)
    ranked = sorted(views.values())
    middle = (ranked[(len(ranked) - 1) // 2] + ranked[len(ranked) // 2]) / 2
    return math.log(middle + 1)


def document(subject: str, rows: list[Row]) -> Counter[str]:
    """Section 4: the id, each object that is an entity, each relation (once), each pair of relation and object."""
    items = [r for r in rows if r["value_type"] == "entity"]
    found = Counter([subject, *(r["value"] for r in items), *(f"{r['property']} {r['value']}" for r in items)])
    found.update({r["property"] for r in items})
    return found


def vectors(documents: dict[str, Counter[str]]) -> dict[str, dict[str, float]]:
    """TF-IDF, unit length; idf smoothed by one document that has every term, plus 1, as the field does."""
    having = Counter(term for d in documents.values() for term in d)
    idf = {term: math.log((1 + len(documents)) / (1 + n)) + 1 for term, n in having.items()}
    found = {}
    for id, d in documents.items():
        raw = {term: n * idf[term] for term, n in d.items()}
        length = math.sqrt(math.fsum(x * x for x in raw.values()))
        found[id] = {term: x / length for term, x in raw.items()}
    return found


def cosine(one: dict[str, float], other: dict[str, float]) -> float:
    return math.fsum(x * other[term] for term, x in one.items() if term in other)


def in_words(row: Row, known: dict[str, Row]) -> Row:
    """``id, label, description`` of an object."""
    if row["value_type"] == "entity":
        about = known.get(row["value"], {})
        return {"id": row["value"], "label": about.get("label"), "description": about.get("description")}
    unit = None
    if row["value_type"] == "quantity" and row["value_extra"] is not None:
        unit = known.get(row["value_extra"], {}).get("label")
        if unit is None:
            return {"id": None, "label": None, "description": None}
    words = literal_in_words(row["value_type"], row["value"], precision=row["value_precision"], unit=unit)
    kind = None if words is None else literal_type(row["value_type"], row["value_precision"])
    return {"id": None, "label": words, "description": kind}


def number(id: str) -> int:
    return int(id[1:])


class Builder:
    """`build updates` for one pair of snapshots."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.t0, self.t1 = first_day(pair.old.date), first_day(pair.new.date)
        self.relations = {p["id"]: p for half in (pair.old, pair.new) for p in half.properties}
        self.words = {e["id"]: e for half in (pair.old, pair.new) for e in half.entities if e["label"] is not None}
        self.relation_words = {
            p["id"]: p for half in (pair.old, pair.new) for p in half.properties if p["label"] is not None
        }
        before, old_fates = clean(pair.old, self.relations, pair.valid)
        self.after, new_fates = clean(pair.new, self.relations, pair.valid)
        there = {e["id"] for e in pair.new.entities}
        self.with_doubles = moved(before, {k: v for k, v in pair.redirects.items() if k not in there})
        self.before = [row for row in self.with_doubles if not row["double"]]
        self.steps = {"old": count_steps(old_fates), "new": count_steps(new_fates)}
        had, has = ({r["subject"] for r in rows} for rows in (self.before, self.after))
        self.gone, self.fresh, self.stayed = had - has, has - had, had & has
        self.created = sorted((e for e in pair.new.entities if self.is_created(e)), key=lambda e: e["id"])
        self.new_entities = {e["id"] for e in self.created}
        self.dropped: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        self.left_out: Counter[str] = Counter()
        self.rules: set[int] = set()

    def is_created(self, entity: Row) -> bool:
        """Only the new snapshot says something of it, and it came into being after the old date."""
        return entity["id"] in self.fresh and entity["created"] is not None and first_day(entity["created"]) > self.t0

    def drop(self, reason: str, group: list[Row]) -> None:
        self.dropped[reason][0] += 1
        self.dropped[reason][1] += len(group)

    def build(self) -> Naive:
        sides: dict[tuple[str, str], tuple[list[Row], list[Row]]] = defaultdict(lambda: ([], []))
        for side, rows in enumerate((self.with_doubles, self.after)):
            for row in rows:
                sides[row["subject"], row["property"]][side].append(row)
        groups = {key: without_doubles(aligned(*both), both[0]) for key, both in sides.items()}
        changed = {key for key, group in groups.items() if any(t["flag"] != "both" for t in group)}
        kept = {}
        for key, group in groups.items():
            if key in changed or self.pair.label_unchanged:
                left = self.judge(key, group)
                if left:
                    kept[key] = left
        near = Neighbours(self, kept)
        updates = [self.as_update(key, group, near) for key, group in kept.items()]
        updates.sort(key=lambda u: (-u["subject_popularity"], number(u["subject"]["id"]), number(u["relation"]["id"])))
        return Naive(
            updates, self.created, self.steps, Counter(t["flag"] for group in groups.values() for t in group),
            changes_of(groups), len(groups), len(changed),
            {"old only": len(self.gone), "new only": len(self.fresh), "both": len(self.stayed)},
            dict(self.dropped), self.left_out, self.rules,
        )  # fmt: skip

    def judge(self, key: tuple[str, str], group: list[Row]) -> list[Row]:
        """The triples of a group that come out, with ``label``, ``rule`` and ``words``; none where the group goes."""
        subject, relation = key
        whole = len(group)
        united = joined(group, {e["id"] for e in self.pair.new.entities})
        if not self.pair.label_unchanged and all(t["flag"] == "both" for t in united):
            self.drop(MERGED, group)
            return []
        group = united
        self.left_out[SAME] += whole - len(group)
        functional = bool(self.relations.get(relation, {}).get("single_value"))
        label(
            group, subject in self.new_entities, subject in self.gone, relation, functional, self.new_entities,
            self.t0, self.t1, self.pair.coarse,
        )  # fmt: skip
        self.rules |= {t["rule"] for t in group}
        if any(t["label"] == "unknown" for t in group):
            self.drop(UNKNOWN, group)
            return []
        if all(t["label"] == "ignore" for t in group):
            self.drop(NO_CHANGE, group)
            return []
        self.left_out[NEITHER] += sum(t["label"] == "ignore" for t in group)
        group = [t for t in group if t["label"] != "ignore"]
        if all(t["label"] == "static" for t in group):
            self.drop(NO_CHANGE, group)
            return []
        for t in group:
            t["words"] = in_words(t["now"] or t["before"], self.words)
        if subject not in self.words:
            self.drop("the subject has no label", group)
        elif relation not in self.relation_words:
            self.drop("the relation has no label", group)
        elif any(t["words"]["label"] is None for t in group):
            self.drop("an object has no label or cannot be worded", group)
        elif relation not in self.pair.templates:
            self.drop("the relation has no template", group)
        else:
            return self.without_doubles(group)
        return []

    def without_doubles(self, group: list[Row]) -> list[Row]:
        """Of objects with one label one stays, or the group goes."""
        left = list(group)
        for words in {t["words"]["label"] for t in group}:
            same = [t for t in group if t["words"]["label"] == words]
            labels = {t["label"] for t in same}
            if "obsolete" in labels and len(labels) > 1:
                self.drop(CLASH, group)
                return []
            stays = next(t for t in same if t["label"] == "new" or "new" not in labels)
            left = [t for t in left if t is stays or all(t is not other for other in same)]
        self.left_out[DOUBLE] += len(group) - len(left)
        return left

    def about(self, id: str) -> Row:
        return {name: self.words[id][name] for name in ("id", "label", "description")}

    def prompts(self, subject: str, relation: str) -> list[str]:
        return [cloze_prompt_text(t, self.words[subject]["label"]) for t in self.pair.templates[relation]]

    def as_update(self, key: tuple[str, str], group: list[Row], near: "Neighbours") -> Row:
        subject, relation = key
        prompts = self.prompts(subject, relation)
        kind = scenario(group, subject in self.new_entities)
        return {
            "subject": self.about(subject),
            "relation": {name: self.relation_words[relation][name] for name in ("id", "label", "description")},
            "update_prompt": prompts[0],
            "generalization_prompts": prompts[1:],
            "subject_is_ph_new": subject in self.new_entities,
            "relation_is_temp_func": bool(self.relations[relation]["single_value"]),
            "is_replace": kind == "ReplaceObject",
            "subject_popularity": self.popularity(subject),
            "objects": [self.as_object(t) for t in group],
            "neighborhood": near.of(key, group),
            "scenario": kind,
            "past_generalization_prompts": [],  # the templates of a pair have no past wordings
            "question_templates": list(relation_templates().get(relation, ("", ()))[1]),
        }

    def as_object(self, t: Row) -> Row:
        def date(side: str) -> str | None:
            told = [t[row][side]["date"] for row in ("now", "before") if t[row] is not None and t[row][side]]
            return next((text for text in told if text is not None), None)

        return t["words"] | {
            "decision": t["label"], "rule": t["rule"], "start": date("start"), "end": date("end"),
            "point_in_time": date("point"),
        }  # fmt: skip

    def popularity(self, id: str) -> float:
        return popularity(id, self.pair.new, self.pair.views)


class Neighbours:
    """Section 4."""

    def __init__(self, builder: Builder, kept: dict[tuple[str, str], list[Row]]) -> None:
        self.builder = builder
        said: dict[str, list[Row]] = defaultdict(list)
        for row in builder.before:
            said[row["subject"]].append(row)
        for subject in {r["subject"] for r in builder.after}:
            if not any(r["value_type"] == "entity" for r in said.get(subject, [])):  # WikiFactDiff, A.4
                said[subject] = [r for r in builder.after if r["subject"] == subject]
        self.vectors = vectors({subject: document(subject, rows) for subject, rows in said.items()})

    def facts(self, relation: str) -> dict[str, Row]:
        """The first fact of each subject that held at the old date and can be worded."""
        found: dict[str, Row] = {}
        for row in self.builder.before:
            start, end = moment(row["start"]), moment(row["end"])
            held = not (end is not None and end < self.builder.t0) and not (
                start is not None and start > self.builder.t0
            )
            words = in_words(row, self.builder.words)
            if (
                row["property"] == relation
                and held
                and words["label"] is not None
                and row["subject"] in self.builder.words
            ):
                found.setdefault(row["subject"], words)
        return found

    def of(self, key: tuple[str, str], group: list[Row]) -> list[Row]:
        subject, relation = key
        barred = {subject, *(t["words"]["id"] for t in group if t["label"] != "static")}
        near = []
        for other, words in self.facts(relation).items():
            similarity = round(cosine(self.vectors[subject], self.vectors[other]), 12)
            if other not in barred and similarity > 0:
                near.append((-similarity, number(other), other, words))
        near.sort(key=lambda found: found[:2])
        return [
            {"subject": self.builder.about(other), "dist": 1 + minus, "popularity": self.builder.popularity(other),
             "object": words, "prompts": self.builder.prompts(other, relation)}
            for minus, _, other, words in near[: self.builder.pair.neighbours]
        ]  # fmt: skip


def changes_of(groups: dict[tuple[str, str], list[Row]]) -> Counter[str]:
    """How triples differ: their rank or qualifiers where both have them, else the value of one statement."""
    found: Counter[str] = Counter()
    triples = [t for group in groups.values() for t in group]
    ids = {flag: {t[row]["statement_id"] for t in triples if t["flag"] == flag}
           for flag, row in (("old", "before"), ("new", "now"))}  # fmt: skip
    for t in triples:
        before, now = t["before"], t["now"]
        if t["flag"] == "both":
            if any(before[name] != now[name] for name in ("start", "end", "point", "qualifiers")):
                found["qualifiers"] += 1
            elif before["rank"] != now["rank"]:
                found["rank"] += 1
        elif (before or now)["statement_id"] in ids["old" if t["flag"] == "new" else "new"]:
            found["value"] += 1
    return found


def build_naive(pair: Pair) -> Naive:
    return Builder(pair).build()


def table_2(updates: list[Row]) -> dict[str, int]:
    """The numbers of WikiFactDiff, table 2."""
    objects = [o for u in updates for o in u["objects"]]
    entities = {o["id"] for o in objects if o["id"] is not None}
    literals = {(o["label"], o["description"]) for o in objects if o["id"] is None}
    names = ("ReplaceObject", "Archive", "AddObject", "AddRelation", "AddEntity", "Other")
    return {
        "triples": len(objects),
        "subjects": len({u["subject"]["id"] for u in updates}),
        "relations": len({u["relation"]["id"] for u in updates}),
        "objects": len(entities) + len(literals),
        "objects that are entities": len(entities),
        "objects that are literals": len(literals),
        "updates": len(updates),
        **{name: sum(u["scenario"] == name for u in updates) for name in names},
    }
