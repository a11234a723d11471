"""A small world for tests of topics: countries, their heads, and items of every state."""

import copy

from wikidata.dumps import SOMEVALUE, constraint, entity, item, property_, statement, time
from wikidata.wikibase import Redirect, Revision, World

EARLY, MIDDLE, LATE = "2019-01-01T10:00:00Z", "2022-06-01T10:00:00Z", "2024-03-01T10:00:00Z"
BEFORE, BETWEEN, AFTER = "2020-01-01", "2023-01-01", "2024-12-31"  # days between these revisions


def country(id, label, heads, more=()):
    claims = [statement("P31", entity("Q6256"))]
    for head, start, end in heads:
        dates = {"P580": time(start)} | ({} if end is None else {"P582": end if end == SOMEVALUE else time(end)})
        claims.append(statement("P6", entity(head), qualifiers=dates))
    return item(id, label, title=label, claims=[*claims, *more])


def person(id, label):
    return item(id, label, title=label, claims=[statement("P31", entity("Q5"))], labels={"fr": f"{label} (fr)"})


OLD_FRANCE = country("Q142", "France", [("Q101", "2012-05-15", None)])
FRANCE = country("Q142", "France", [("Q101", "2012-05-15", "2017-05-14"), ("Q102", "2017-05-14", None)])
CLASSES = {  # of properties: four edges up, of which the last needs no entity
    "Q51": ["Q52"], "Q52": ["Q53"], "Q53": ["Q54"], "Q54": ["Q55"], "Q55": [],
}  # fmt: skip


def histories():
    """Each id with its revisions, of which those of today come last."""
    germany = country("Q183", "Germany", [("Q103", "2005-11-22", "2021-12-08"), ("Q9", "2021-12-08", None)])
    found = {
        "Q142": [(10, EARLY, OLD_FRANCE), (30, LATE, FRANCE)],
        "Q183": [(11, EARLY, germany)],
        "Q101": [(12, EARLY, person("Q101", "Ada One"))],
        "Q102": [(31, MIDDLE, person("Q102", "Ben Two"))],
        "Q103": [(13, EARLY, person("Q103", "Cy Three"))],
        "Q104": [(14, EARLY, person("Q104", "Di Four"))],
        "Q9": [(15, EARLY, person("Q9", "Di 4")), (32, MIDDLE, Redirect("Q104"))],  # merged
        "Q7": [(16, EARLY, country("Q7", "Gone", [])), (33, MIDDLE, None)],  # deleted
        "Q8": [(34, LATE, country("Q8", "New", [("Q101", "2024", None)]))],  # not yet, before
        "Q6": [(17, EARLY, country("Q6", "Hidden", [])), (35, LATE, country("Q6", "Shown", []))],
        "Q6256": [(18, EARLY, item("Q6256", "country", claims=[statement("P279", entity("Q56061"))]))],
        "Q5": [(19, EARLY, item("Q5", "human"))],
        "P6": [(20, EARLY, property_("P6", "head of government", claims=[
            statement("P31", entity("Q51")), constraint(separators=["P580"])]))],
        "P31": [(21, EARLY, property_("P31", "instance of"))],
        "P580": [(22, EARLY, property_("P580", "start time", "time"))],
        "P582": [(23, EARLY, property_("P582", "end time", "time"))],
    }  # fmt: skip
    for place, (id, parents) in enumerate(CLASSES.items()):
        above = [statement("P279", entity(parent)) for parent in parents]
        found[id] = [(40 + place, EARLY, item(id, f"class {id}", claims=above))]
    made = {id: [Revision(number, stamp, copy.deepcopy(one)) for number, stamp, one in of] for id, of in found.items()}
    made["Q6"][0] = Revision(17, EARLY, made["Q6"][0].content, hidden=True)
    return made


def world(**changes):
    return World(histories() | changes)


TOPIC = ("Q142", "Q183", "Q9", "Q7", "Q8", "Q6", "Q999")
