"""`build updates` once more, statement by statement over lists and dictionaries: the specification read by a person.

Nothing here is shared with the package but the words of literals and of templates, which are tested on their own.
"""

import json
import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from anachron.text.cloze import cloze_prompt_text
from anachron.text.literals import literal_in_words, literal_type

Row = dict[str, Any]
Day = tuple[int, int, int]
META, RESTRICTIVE, FREE, SOCIAL = "Q51118821", "Q61719275", "Q61719274", "Q105388954"
DEATHS = ("P570", "P4602")


@dataclass
class Half:
    """What one snapshot holds."""

    date: str
    entities: list[Row]
    statements: list[Row]
    properties: list[Row]
    edges: list[tuple[str, str]]


@dataclass
class Naive:
    """What the reference finds."""

    updates: list[Row] = field(default_factory=list)
    created: list[Row] = field(default_factory=list)
    steps: dict[str, Counter[str]] = field(default_factory=dict)
    flags: Counter[str] = field(default_factory=Counter)
    judged: Counter[str] = field(default_factory=Counter)  # what became of each group


def first_day(text: str) -> Day:
    """A date with month and day completed to 1; tuples compare as days do, before year 1 too."""
    year, *rest = text.removeprefix("-").split("-")
    month, day = [*(int(part) for part in rest), 1, 1][:2]
    return (-int(year) if text.startswith("-") else int(year), month, day)


def moment(boundary: Row | None) -> Day | None:
    """The day of a start, end or point in time; None where it is not stated, unknown or open."""
    return first_day(boundary["date"]) if boundary is not None and boundary["date"] is not None else None


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


def clean(half: Half) -> tuple[list[Row], Counter[str]]:
    """Section 1, steps 1 to 6: the statements that are kept, and how many went for each reason."""
    titles = {e["id"]: e["title"] for e in half.entities}
    kept, reasons = [], Counter[str]()
    for row in half.statements:
        datatype = row["datatype"] or property_of(row["property"], half).get("datatype")
        if row["value_type"] == "coordinate":
            datatype = "globe-coordinate"
        if row["rank"] == "deprecated":
            reason = "its rank is deprecated"
        elif datatype in ("url", "external-id", "commonsMedia", "globe-coordinate"):
            reason = f"its value is of type {datatype}"
        elif titles.get(row["subject"]) is None:
            reason = "the subject has no title in enwiki"
        elif is_page(row["subject"], half):
            reason = "the subject is a page of the wiki or a template"
        elif row["value_type"] == "entity" and is_page(row["value"], half):
            reason = "the object is a page of the wiki or a template"
        elif META in above(row["property"], half):
            reason = "the property is about Wikidata itself"
        elif row["snak"] == "novalue":
            reason = "it has no value"
        elif row["snak"] == "somevalue":
            reason = "its value is unknown"
        elif any(restricts(q, half) for q in json.loads(row["qualifiers"])):
            reason = "a qualifier restricts it"
        else:
            kept.append(row)
            continue
        reasons[reason] += 1
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in kept:
        groups[row["subject"], row["property"]].append(row)
    left = []
    for (_, relation), rows in groups.items():
        about = property_of(relation, half)
        own = rows
        if about.get("single_value"):
            dated = [r for r in own if moment(r["point"]) is not None]
            if "P585" in (about["separators"] or []) and dated:
                latest = max(moment(r["point"]) for r in dated)  # type: ignore[type-var]
                own = [r for r in dated if moment(r["point"]) == latest]
                reasons["an earlier point in time"] += len(rows) - len(own)
            preferred = [r for r in own if r["rank"] == "preferred"]
            if len(own) > 1 and len(preferred) == 1:
                reasons["another is preferred"] += len(own) - 1
                own = preferred
        left += own
    ids = {id(r) for r in left}
    return [r for r in kept if id(r) in ids], reasons


def value_of(row: Row) -> tuple[Any, ...]:
    """What makes two values equal: a time its date, precision and calendar, a quantity its unit, a text its language."""
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
    """Old statements under the ids that merged items have now; one that says a thing a second time is left out."""
    renamed = []
    for row in rows:
        value = final(row["value"], redirects) if row["value_type"] == "entity" else row["value"]
        renamed.append(row | {"subject": final(row["subject"], redirects), "value": value})
    same = [new["subject"] == row["subject"] and new["value"] == row["value"] for new, row in zip(renamed, rows)]
    said = {(r["subject"], r["property"], value_of(r)) for r, stays in zip(renamed, same) if stays}
    left = []
    for row, stays in zip(renamed, same):
        fact = row["subject"], row["property"], value_of(row)
        if stays or fact not in said:
            left.append(row)
        said.add(fact)
    return left


def aligned(old: list[Row], new: list[Row], living: set[str]) -> list[Row]:
    """The triples of one group: ``flag``, ``now`` and ``before`` (rows of the snapshots or None).

    living: entities of the new snapshot; the same statement with another item where the old one lives no longer is
    the same triple.
    """
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
    for o, before in enumerate(old):
        for n, now in enumerate(new):
            if o in partner or n in partner.values() or before["statement_id"] != now["statement_id"]:
                continue
            if before["value_type"] == now["value_type"] == "entity" and before["value"] not in living:
                partner[o] = n
    triples = [{"flag": "old", "before": r, "now": None} for o, r in enumerate(old) if o not in partner]
    back = {n: o for o, n in partner.items()}
    for n, now in enumerate(new):
        triples.append({"flag": "both" if n in back else "new", "before": old[back[n]] if n in back else None, "now": now})
    return triples


def label(group: list[Row], s_new: bool, s_gone: bool, relation: str, functional: bool, new_entities: set[str],
          t0: Day, t1: Day) -> None:  # fmt: skip
    """Section 3: ``label`` and ``rule`` of each triple of a group."""
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
    if functional and len(group) == 2:
        labels = [t["label"] for t in group]
        for i, t in enumerate(group):
            if t["flag"] == "old" and labels[i] == "unknown" and labels[1 - i] == "new" and t["rule"] > 3:
                t["label"], t["rule"] = "obsolete", 20


def sieve(group: list[Row]) -> tuple[str | None, list[Row]]:
    """Why the group goes, or its triples without those to be ignored."""
    if any(t["label"] == "unknown" for t in group):
        return "unknown", []
    left = [t for t in group if t["label"] != "ignore"]
    if not left:
        return "ignored", []
    if all(t["label"] == "static" for t in left):
        return "static", []
    return None, left


def without_doubles(group: list[Row]) -> tuple[str | None, list[Row]]:
    """Objects of one label: which stays, or that the group goes."""
    for words in {t["words"]["label"] for t in group}:
        same = [t for t in group if t["words"]["label"] == words]
        labels = {t["label"] for t in same}
        if len(same) < 2:
            continue
        if "obsolete" in labels and len(labels) > 1:
            return "doubles", []
        stays = next(t for t in same if t["label"] == ("new" if "new" in labels else same[0]["label"]))
        group = [t for t in group if t not in same or t is stays]
    return None, group


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


def document(subject: str, rows: list[Row]) -> Counter[Any]:
    """Section 4: the id, each object that is an entity, each relation, each pair of them; a list, so doubles count."""
    found: Counter[Any] = Counter([("id", subject)])
    for r in rows:
        if r["value_type"] == "entity":
            found.update([("o", r["value"]), ("r", r["property"]), ("ro", r["property"], r["value"])])
    return found


def vectors(documents: dict[str, Counter[Any]]) -> dict[str, dict[Any, float]]:
    """TF-IDF, unit length; idf smoothed by one document that has every term, plus 1, as the field does."""
    having = Counter(term for d in documents.values() for term in d)
    idf = {term: math.log((1 + len(documents)) / (1 + n)) + 1 for term, n in having.items()}
    found = {}
    for id, d in documents.items():
        raw = {term: n * idf[term] for term, n in d.items()}
        length = math.sqrt(math.fsum(x * x for x in raw.values()))
        found[id] = {term: x / length for term, x in raw.items()}
    return found


def cosine(one: dict[Any, float], other: dict[Any, float]) -> float:
    return math.fsum(x * other[term] for term, x in one.items() if term in other)
