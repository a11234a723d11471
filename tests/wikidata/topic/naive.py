"""What fetching must give, from the histories themselves: states, what is needed, and dumps of the same entities."""

import re

from wikidata.dumps import write_dump
from wikidata.wikibase import Redirect

TODAY = "9999"


def state(histories, id, day=TODAY):
    """State of an id at the end of a day, revision or time, and what it was merged into."""
    revisions = histories.get(id, [])
    if not revisions:
        return "missing", None, None
    if revisions[-1].content is None:
        return "deleted", revisions[-1].timestamp, None
    up_to = [one for one in revisions if one.timestamp[:10] <= day]
    if not up_to:
        return "not yet", None, None
    last = up_to[-1]
    if last.hidden:
        return "hidden", last.number, None
    if isinstance(last.content, Redirect):
        return "merged", last.number, last.content.to
    return "found", last.number, None


def entity(histories, id, day=TODAY):
    """The entity, where it is found on that day, as a dump holds it."""
    kind, number, _ = state(histories, id, day)
    if kind != "found":
        return None
    one = next(one for one in histories[id] if one.number == number)
    return one.content | {"lastrevid": one.number, "modified": one.timestamp}


def items(histories, ids, day=TODAY):
    """The items that a topic comes to: the ids that are found, and what others were merged into."""
    through = [state(histories, id, day)[2] or id for id in ids]
    return {id for id in through if entity(histories, id, day) is not None}


def objects(claims):
    found = set()
    for one in claims:
        value = one["mainsnak"].get("datavalue", {}).get("value")
        if isinstance(value, dict) and one["rank"] != "deprecated":
            found.update({value["id"]} if "id" in value else {value.get("unit", "").rpartition("/")[2]} - {"", "1"})
    return found


def rounds(histories, ids, day=TODAY, relations=()):
    """The ids that are to be asked for beyond the items, round by round, without those that were before."""
    seen = set(ids) | items(histories, ids, day)
    found = []

    def claims(ids):
        for id in sorted(ids):
            id = state(histories, id, day)[2] or id
            yield from (entity(histories, id, day) or {"claims": {}})["claims"].items()

    def add(ids):
        new = {id for id in ids if re.fullmatch(r"[QP]\d+", id)} - seen
        seen.update(new)
        seen.update(into for id in new if (into := state(histories, id, day)[2]) is not None)
        found.append(new)

    first, properties, named = set(), set(), set()
    for relation, statements in claims(items(histories, ids, day)):
        properties.add(relation)
        for one in statements:
            properties.update(one.get("qualifiers", {}))
        if not relations or relation in relations:
            named |= objects(statements)
        if relation == "P31":
            first |= objects(statements)
    add(properties | named | first)
    level = {id for relation, of in claims(properties) if relation == "P31" for id in objects(of)}
    classes = {
        id for relation, of in claims(named - items(histories, ids, day)) if relation == "P31" for id in objects(of)
    }
    for _ in range(3):
        add(level | classes)
        classes, level = set(), {id for relation, of in claims(level) if relation == "P279" for id in objects(of)}
    return found


def dump(path, histories, ids, day=TODAY):
    """A dump of the entities that are found, items by their number first."""
    order = sorted(ids, key=lambda id: (id[0] != "Q", int(id[1:])))
    return write_dump(path, [one for id in order if (one := entity(histories, id, day)) is not None])
