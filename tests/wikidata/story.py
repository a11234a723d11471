"""A snapshot that tells a story, with a statement for every reason of the selection, and random ones."""

import random
from typing import Any

from anachron.wikidata.selection.rules import Selection
from wikidata.made import OPEN, UNKNOWN, boundary, entity, property_, statement

META, RESTRICTIVE, FREE, SOCIAL = "Q51118821", "Q61719275", "Q61719274", "Q105388954"
RELATIONS = ("P108", "P463", "P39", "P54", "P35", "P6")

PROPERTIES = [
    *(property_(id) for id in ("P39", "P26", "P47", "P6")),
    property_("P40", None),
    property_("P856", datatype="url"),
    property_("P1855", classes=["Q1001"]),  # meta, four edges up
    property_("P1856", classes=["Q1000"]),  # five edges up: too far to count
    property_("P642", classes=["Q1010"]),
    property_("P643", classes=["Q1010", "Q1011"]),
    property_("P6552", classes=["Q1012"]),
    property_("P447"),
]
EDGES = [
    ("Q1000", "Q1001"), ("Q1001", "Q1002"), ("Q1002", "Q1003"), ("Q1003", META), ("Q1010", RESTRICTIVE),
    ("Q1011", FREE), ("Q1012", SOCIAL), ("Q1013", "Q1013"),
]  # fmt: skip
ENTITIES = [
    entity("Q1", "Ada"),
    entity("Q2", None),
    entity("Q3", title=None),
    entity("Q4", classes=["Q5", "Q90"]),
    entity("Q5", "human"),
    entity("Q6", created="1950-02"),
    entity("Q7", None, title=None),
    entity("Q8", title=None),
    entity("Q9", "little seen"),
    *(entity(f"Q{n}") for n in range(20, 29)),
    entity("Q90", "Wikimedia list article"),
    entity("Q91", "infobox template"),
    entity("Q92", classes=["Q91"]),
]
VIEWS = {"Q1": 400_000.0, "Q6": 90_000.0, "Q5": 10.0, "Q9": 1.0, "Q2": 9e9} | {f"Q{n}": 90_000.0 for n in range(20, 29)}
TIMES = ("1990-05", "1999")
ONE, TWO = "it holds in more than one period", "the same fact is stated before"

# Every statement, and the reason that drops it (None: kept).
STORY: list[tuple[dict[str, Any], str | None]] = [
    (statement("Q1", "P39", "Q6", *TIMES), None),
    (statement("Q1", "P39", "Q6", *TIMES), TWO),
    (statement("Q1", "P39", "Q20", *TIMES, rank="deprecated"), "its rank is deprecated"),
    (statement("Q1", "P856", "http://x", datatype="url", value_type="text"), "its value is of type url"),
    (statement("Q1", "P856", "http://x", datatype=None, value_type="text"), "its value is of type url"),
    (statement("Q1", "P999", "7", datatype="external-id", value_type="text"), "its value is of type external-id"),
    (statement("Q1", "P18", "a.jpg", datatype="commonsMedia", value_type="text"), "its value is of type commonsMedia"),
    (statement("Q1", "P625", "1,2", datatype=None, value_type="coordinate"), "its value is of type globe-coordinate"),
    (statement("Q3", "P39", "Q20", *TIMES), "the subject has no title in enwiki"),
    (statement("Q4", "P39", "Q20", *TIMES), "the subject is a page of the wiki or a template"),
    (statement("Q1", "P39", "Q92", *TIMES), "the object is a page of the wiki or a template"),
    (statement("Q1", "P1855", "Q20", *TIMES), "the property is about Wikidata itself"),
    (statement("Q1", "P39", None, *TIMES, snak="novalue", value_type=None), "it has no value"),
    (statement("Q1", "P39", None, *TIMES, snak="somevalue", value_type=None), "its value is unknown"),
    (statement("Q1", "P39", "Q21", *TIMES, qualifiers={"P642": [["value", "Q5"]]}), "a qualifier restricts it"),
    (statement("Q1", "P39", "Q21", *TIMES, qualifiers={"P6552": [["value", "7"]]}), "a qualifier restricts it"),
    (statement("Q1", "P39", "Q21", *TIMES, qualifiers={"P447": [["somevalue", None]]}), "a qualifier restricts it"),
    (statement("Q1", "P26", "Q21", *TIMES, qualifiers={"P643": [["value", 'says "P447": [["no"]]']]}), None),
    (statement("Q1", "P1856", "Q21", *TIMES), None),
    (statement("Q1", "P1082", "+5", *TIMES, datatype="quantity", value_type="quantity"), "the object is a literal"),
    (statement("Q1", "P39", "L5-F1", *TIMES, datatype="wikibase-form"), "the object is no item"),
    (statement("Q1", "P26", "Q22"), "neither start nor end is stated"),
    (statement("Q1", "P47", "Q22", *TIMES), "the relation is banned"),
    (statement("Q1", "P39", "Q22", "1990", "1995"), ONE),
    (statement("Q1", "P39", "Q22", "1997"), ONE),
    (statement("Q1", "P39", "Q22", "1997"), ONE),
    (statement("Q20", "P6", "Q21", "1990"), "the end is not stated"),
    (statement("Q20", "P6", "Q22", "1990", UNKNOWN), "the end is unknown"),
    (statement("Q20", "P6", "Q23", UNKNOWN, OPEN), "there is no end: it still holds"),
    (statement("Q20", "P6", "Q24", None, "1999"), "the start is not stated"),
    (statement("Q20", "P6", "Q25", UNKNOWN, "1999"), "the start is unknown"),
    (statement("Q20", "P6", "Q26", OPEN, "1999"), "there is no start"),
    (statement("Q20", "P6", "Q27", "1990", boundary("1999", values=2)), "it has several starts or ends"),
    (statement("Q20", "P6", "Q28", boundary(None), "1999"), "start or end is no date"),
    (statement("Q21", "P6", "Q20", boundary("1990", precision=8), "1999"), "start or end is coarser than a year"),
    (statement("Q21", "P6", "Q22", "2010", "2021-01-01"), "it ends in 2021 or later"),
    (statement("Q21", "P6", "Q23", "2010", "2020"), None),
    (statement("Q21", "P6", "Q24", "2010", "2009-12"), "it ends before it starts"),
    (statement("Q21", "P6", "Q25", "2010-01-01", "2013-02-13"), "it lasts less than 1,140 days"),
    (statement("Q22", "P6", "Q26", "2010-01-01", "2013-02-14"), None),
    (statement("Q22", "P6", "Q27", "-0044", "-0040"), None),
    (statement("Q2", "P6", "Q27", *TIMES), "the subject has no label"),
    (statement("Q22", "P40", "Q23", *TIMES), "the relation has no label"),
    (statement("Q22", "P6", "Q404", *TIMES), "the object is not in the snapshot"),
    (statement("Q22", "P6", "Q7", *TIMES), "the object has no label"),
    (statement("Q92", "P6", "Q23", *TIMES), "the subject is a page of the wiki or a template"),
    (statement("Q91", "P6", "Q23", *TIMES), "the subject has no page views"),
    (statement("Q22", "P6", "Q8", *TIMES), "the object has no page views"),
    (statement("Q22", "P6", "Q5", *TIMES), "it is less popular than the threshold"),
    (statement("Q9", "P6", "Q5", *TIMES), "it is less popular than the threshold"),
]  # fmt: skip
for number, (row, _) in enumerate(STORY):
    row["statement_id"] = f"{row['subject']}${number}"
SETTINGS = Selection(min_popularity=90_000)


def random_snapshot(seed: int) -> tuple[list[dict], list[dict], list[dict], list[tuple[str, str]], dict[str, float]]:
    """Entities, statements, properties, class edges and views that often collide."""
    r = random.Random(seed)
    classes = [f"Q{n}" for n in range(100, 108)]
    entities = [
        entity(
            f"Q{n}",
            r.choice(["thing"] * 7 + [None]),
            title=r.choice(["Title"] * 6 + [None]),
            classes=r.sample([*classes, "Q404"], r.choice([0, 0, 1, 2])),
        )
        for n in range(1, 15)
    ]
    words = ["Wikimedia category", "a template", "Template", None, *["city"] * 8]
    entities += [entity(id, r.choice(words), title=None) for id in classes]
    names = ["P39", "P47", "P6", "P26", "P27"]
    upper = [META, RESTRICTIVE, FREE, SOCIAL]
    properties = [
        property_(id, r.choice(["relation"] * 6 + [None]), r.sample([*classes, *upper], r.choice([0, 0, 0, 1])))
        for id in [*names, "P642", "P447", "P580"]
    ]
    edges = [(r.choice(classes), r.choice([*classes, *upper])) for _ in range(5)]

    def side() -> Any:
        years = ["1990", "1990", "1999", "2005", "2005-03", "1994-02-03", "2001-12", "2015-05-05", "2021"]
        return r.choice(
            [None, UNKNOWN, OPEN, boundary(None), boundary("1990", precision=8), boundary("1999", values=2), *years * 3]
        )

    rows = []
    for number in range(150):
        row = statement(f"Q{r.randint(1, 14)}", r.choice([*names, "P999"]), f"Q{r.randint(1, 16)}", side(), side())
        if r.random() < 0.1:
            row |= {"snak": r.choice(["novalue", "somevalue"]), "value_type": None, "value": None}
        elif r.random() < 0.15:
            kind = r.choice(["text", "time", "entity"])
            row |= {
                "value_type": kind,
                "value": "L1" if kind == "entity" else "Q3",
                "datatype": r.choice([None, "url", "string"]),
            }
        row["rank"] = r.choice(["normal"] * 8 + ["deprecated", "preferred"])
        row["qualifiers"] = r.choice(
            ["{}"] * 6 + ['{"P642":[["value","x"]]}', '{"P447": [["somevalue", null]]}', '{"P580":[]}']
        )
        rows.append(row | {"statement_id": str(number)})
    views = {f"Q{n}": float(r.choice([0, 5, 5, 40_000, 90_000, 200_000])) for n in range(1, 17) if r.random() < 0.9}
    return entities, rows, properties, edges, views
