"""Six states whose heads change between two days, as a test server has them and as dumps of the two days would."""

from pathlib import Path

from wikidata.dumps import constraint, entity, item, property_, quantity, statement, time, write_dump
from wikidata.wikibase import Redirect, Revision, World

OLD, NEW = "2024-01-01", "2025-06-30"
STATES = [f"Q{n}" for n in range(101, 108)]  # of which Q106 begins in between, and Q107 is merged into Q105
PEOPLE = {f"Q{n}": f"Person {chr(65 + n - 201)}" for n in range(201, 221)}
QUERY = "instances of Q3624078 with P6"


def held(person: str, start: str, end: str | None = None, rank: str = "normal") -> dict:
    qualifiers = {"P580": time(start)} | ({"P582": time(end)} if end else {})
    return statement("P6", entity(person), rank, qualifiers, id=f"s-{person}-{start}")


def state(id: str, name: str, *heads: dict, capital: str | None = None) -> dict:
    claims = [statement("P31", entity("Q3624078"), id=f"c-{id}"), *heads]
    claims += [statement("P36", entity(capital), id=f"k-{id}")] if capital else []
    return item(id, name, title=name, claims=claims)


def _histories() -> dict[str, list[Revision]]:
    before, between, after = "2020-05-01T00:00:00Z", "2024-09-09T09:09:09Z", "2025-08-01T00:00:00Z"

    def of(id: str, *contents: tuple[str, object]) -> list[Revision]:
        return [Revision(int(id[1:]) * 10 + n, when, content) for n, (when, content) in enumerate(contents)]

    past = [held(f"Q{201 + n}", f"20{10 + n}-01-01", f"2019-0{1 + n}-01") for n in range(7)]
    now = [held(f"Q{208 + n}", f"2019-0{1 + n}-01") for n in range(7)]
    gone = [held(f"Q{208 + n}", f"2019-0{1 + n}-01", f"2024-0{2 + n}-01") for n in range(7)]
    states = {
        # another head, of whom nothing is known in the earlier state
        "Q101": of("Q101", (before, state("Q101", "Aland", past[0], now[0], capital="Q301")),
                   (between, state("Q101", "Aland", past[0], gone[0], held("Q215", "2024-02-01"), capital="Q301"))),
        # the head ends, without another
        "Q102": of("Q102", (before, state("Q102", "Beland", past[1], now[1])),
                   (between, state("Q102", "Beland", past[1], gone[1]))),
        # nothing changes but the words
        "Q103": of("Q103", (before, state("Q103", "Celand", past[2], now[2])),
                   (between, state("Q103", "Celand (state)", past[2], now[2]))),
        # another head, then one more after the later day
        "Q104": of("Q104", (before, state("Q104", "Deland", past[3], now[3], capital="Q302")),
                   (between, state("Q104", "Deland", past[3], gone[3], held("Q216", "2024-05-01"), capital="Q303")),
                   (after, state("Q104", "Deland", past[3], gone[3], held("Q217", "2025-07-15"), capital="Q303"))),
        # the head's item is merged into another's: nothing changed
        "Q105": of("Q105", (before, state("Q105", "Eland", past[4], now[4])),
                   (between, state("Q105", "Eland", past[4], held("Q218", "2019-05-01")))),
        "Q106": of("Q106", (between, state("Q106", "Efland", held("Q219", "2024-09-01")))),
        "Q107": of("Q107", (before, state("Q107", "Old Eland", past[5], now[5])), (between, Redirect("Q105"))),
    }  # fmt: skip
    people = {
        id: of(id, (before, item(id, name, title=name, claims=[statement("P31", entity("Q5"), id=f"c-{id}")])))
        for id, name in PEOPLE.items()
    }
    people["Q212"].append(Revision(999_999, between, Redirect("Q218")))
    words = {"Q3624078": "sovereign state", "Q5": "human", "Q301": "One", "Q302": "Two", "Q303": "Three"}
    things = {id: of(id, (before, item(id, name, title=name))) for id, name in words.items()}
    relations = {"P6": "head of government", "P36": "capital", "P31": "instance of", "P580": "start", "P582": "end"}
    kinds = {"P580": "time", "P582": "time"}
    properties = {
        id: of(id, (before, property_(id, label, kinds.get(id, "wikibase-item")))) for id, label in relations.items()
    }
    return states | people | things | properties


HISTORIES = _histories()
MONTHS = [f"2024-{n:02}" for n in range(6, 13)] + [f"2025-{n:02}" for n in range(1, 6)]


def views() -> dict[tuple[str, str], dict[str, int]]:
    """Views of most articles, of a few in some months only."""
    contents = [revisions[0].content for revisions in HISTORIES.values()]
    titles = [one["sitelinks"]["enwiki"]["title"] for one in contents if one.get("sitelinks")]
    return {
        ("en.wikipedia", title.replace(" ", "_")): {
            month: (place * 7919 + number * 104_729) % 5000 + 1
            for number, month in enumerate(MONTHS) if place % 5 or number > 4
        }
        for place, title in enumerate(titles) if place % 9
    }  # fmt: skip


WORLD = World(HISTORIES, views())


def measured() -> World:
    """A state whose head, area (in a unit) and capital change, the capital within its one statement."""

    def area(number: int, start: str, end: str | None = None) -> dict:
        dates = {"P580": time(start)} | ({"P582": time(end)} if end else {})
        return statement("P2046", quantity(f"+{number}", "Q7"), "normal", dates, id=f"a-{number}")

    def capital(city: str, start: str) -> dict:
        return statement("P36", entity(city), "normal", {"P580": time(start)}, id="k")

    early, late = "2020-05-01T00:00:00Z", "2024-09-09T09:09:09Z"
    old = (held("Q201", "2010-01-01"), area(5, "2010-01-01"), capital("Q301", "2010-01-01"))
    new = (
        held("Q201", "2010-01-01", "2024-03-01"), held("Q202", "2024-03-01"), area(5, "2010-01-01", "2024-04-01"),
        area(7, "2024-04-01"), capital("Q302", "2024-05-01"),
    )  # fmt: skip
    kept = ("Q201", "Q202", "Q301", "Q302", "Q3624078", "Q5", "P6", "P31", "P580", "P582")
    things = {"Q7": item("Q7", "square mile"), "P2046": property_("P2046", "area", "quantity")}
    things["P36"] = property_("P36", "capital", claims=[constraint(separators=["P580"])])
    return World(
        {id: HISTORIES[id] for id in kept}
        | {id: [Revision(n, early, one)] for n, (id, one) in enumerate(things.items(), 1)}
        | {"Q101": [Revision(8, early, state("Q101", "Aland", *old)), Revision(9, late, state("Q101", "Aland", *new))]}
    )


def dump_of(path: Path, day: str, world: World = WORLD) -> Path:
    """The dump of a day: every entity that is there then, redirects and what comes later left out."""
    entities = []
    for revisions in world.entities.values():
        there = [one for one in revisions if one.timestamp[:10] <= day]
        if there and isinstance(there[-1].content, dict):
            entities.append(there[-1].content | {"lastrevid": there[-1].number, "modified": there[-1].timestamp})
    return write_dump(path, entities)
