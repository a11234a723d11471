"""Random pairs of snapshots in which everything collides: few subjects, objects, relations and dates."""

import json
import random
from typing import Any

from wikidata.made import OPEN, UNKNOWN, boundary, entity, property_, statement
from wikidata.updates.naive import FREE, META, RESTRICTIVE, SOCIAL, Half, Pair, Row

OLD_DATE, NEW_DATE = "2021-01-04", "2023-02-27"
SUBJECTS = [f"Q{n}" for n in range(1, 13)]
MERGED = [f"Q{n}" for n in range(60, 65)]  # only the old snapshot has them
FRESH = [f"Q{n}" for n in range(50, 56)]  # only the new one has them
CLASSES = [f"Q{n}" for n in range(100, 107)]
UNITS = ["Q200", "Q201", "Q404", None]  # the second has no label, the third is not there at all
OBJECTS = [*SUBJECTS, "Q20", "Q21", "Q22"]
ITEMS = ("P35", "P6", "P54", "P39", "P27", "P9", "P17")
DATES = (
    "-0044", "1990", "2015", "2019-05", "2020-12-31", "2021", "2021-01-04", "2021-02", "2022", "2022", "2022-07-01",
    "2022-12", "2023-02-27", "2023", "2024", "2030",
)  # fmt: skip
PERIODS = (
    ("2015", None),
    ("2015", "2030"),
    ("2015", "2022"),
    ("2022", None),
    ("2021-02", "2022"),
    ("1990", "2020-12-31"),
)
TEMPLATES = {
    id: [f"The {id} of [SUBJ] is [OBJ]", f"[SUBJ] has the {id} [OBJ]", f"As {id}, [SUBJ] has [OBJ]"][: 1 + len(id) % 3]
    for id in ("P35", "P6", "P54", "P39", "P27", "P17", "P1082", "P570", "P4602", "P569", "P2048", "P1448", "P742")
}


class Maker:
    """One pair, made from one stream of chance."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.made = 0

    def some(self, share: float) -> bool:
        return self.chance.random() < share

    def side(self, share: float, dates: tuple[str, ...] = DATES) -> Any:
        """A start, end or point in time, or none."""
        if not self.some(share):
            return None
        odd = [UNKNOWN, OPEN, boundary(None), boundary("1990", precision=8), boundary("2022", values=2)]
        return self.chance.choice([*odd, *(boundary(text) for text in dates * 2)])

    def value(self, property: str, items: list[str]) -> Row:
        r = self.chance
        if property in ITEMS:
            return {"value": r.choice(items)}
        if property in ("P1082", "P2048"):
            unit = r.choice(UNITS) if property == "P2048" else None
            amount = r.choice(["+1", "+1000", "+1000.50", "-7"])
            return {"value_type": "quantity", "datatype": "quantity", "value": amount, "value_extra": unit}
        if property in ("P570", "P4602", "P569"):
            date = r.choice(["1950", "2020-05-06", "2022-05-05", "2022", "2022-06", "2024-01-01"])
            written = f"+{date} {r.choice(['so', 'otherwise'])}"
            precision = 7 + 2 * r.randint(0, 1) if len(date) == 4 else {7: 10, 10: 11}[len(date)]
            return {
                "value_type": "time", "datatype": "time", "value": date, "value_precision": precision,
                "value_extra": written, "value_calendar": r.choice(["gregorian"] * 5 + ["julian"]),
            }  # fmt: skip
        if property == "P1448":
            text, language = r.choice(["Eins", "Un"]), r.choice(["de", "fr"])
            return {"value_type": "monolingual", "datatype": "monolingualtext", "value": text, "value_extra": language}
        if property == "P625":
            return {"value_type": "coordinate", "datatype": None, "value": "1,2"}
        return {"value_type": "text", "datatype": r.choice(["string", "string", "url"]), "value": r.choice(["a", "b"])}

    def qualifiers(self) -> dict[str, str]:
        r = self.chance
        names = r.sample(["P1", "P2", "P642", "P447"], r.choices([0, 1, 2], [8, 3, 1])[0])
        given = {name: [["value", str(r.randint(1, 2))]] for name in names if name in ("P1", "P2") or self.some(0.3)}
        return {"qualifiers": json.dumps(given)}

    def dates(self) -> Row:
        if self.some(0.4):
            start, end = self.chance.choice(PERIODS)
            return {"start": boundary(start), "end": None if end is None else boundary(end), "point": None}
        return {"start": self.side(0.5), "end": self.side(0.4, DATES[5:]), "point": self.side(0.2)}

    def rank(self) -> Row:
        return {"rank": self.chance.choice(["normal"] * 6 + ["preferred", "preferred", "deprecated"])}

    def statement(self, subjects: list[str], items: list[str]) -> Row:
        r = self.chance
        self.made += 1
        literals = ["P1082", "P1082", "P570", "P4602", "P569", "P2048", "P1448", "P742", "P625", "P1855"]
        subject, property = r.choice(subjects), r.choice([*ITEMS * 2, *literals])
        row = statement(subject, property, None, statement_id=f"{subject}${self.made}")
        row |= self.value(property, items) | self.dates() | self.rank() | self.qualifiers()
        if self.some(0.04):
            row |= {"snak": r.choice(["novalue", "somevalue"]), "value_type": None, "value": None, "value_extra": None,
                    "value_precision": None, "value_calendar": None}  # fmt: skip
        full = dict.fromkeys(("value_extra", "value_precision", "value_calendar"))
        return full | row

    def later(self, row: Row, items: list[str]) -> list[Row]:
        """What became of an old statement."""
        fate = self.chance.random()
        if row["snak"] != "value" or fate < 0.6:
            return [row]
        if fate < 0.68:
            return [row | self.value(row["property"], items)]
        if fate < 0.7 and row["value_type"] == "time":
            return [row | {"value_extra": "+written otherwise"}]
        if fate < 0.78:
            return [row | self.dates()]
        if fate < 0.82:
            return [row | self.rank()]
        if fate < 0.86:
            return [row | self.qualifiers()]
        if fate < 0.9:
            self.made += 1
            return [row | self.dates(), row | {"statement_id": f"{row['subject']}${self.made}"}]
        return []

    def properties(self) -> list[Row]:
        r = self.chance
        single = {"single_value": True, "separators": []}
        rows = [
            property_("P35", **single | {"separators": ["P580", "P582"]}),
            property_("P6", **single),
            property_("P1082", datatype="quantity", **single | {"separators": ["P585", "P518"]}),
            property_("P570", datatype="time", **single),
            *(property_(id, single_value=False, separators=[]) for id in ("P54", "P39", "P9", "P4602", "P569", "P742")),
            property_("P27", single_value=r.choice([True, False, None]), separators=r.choice([[], ["P585"], None])),
            property_("P17", r.choice(["country", None])),
            *(property_(id, "size") for id in ("P2048", "P1448")),
            property_("P625", datatype="globe-coordinate"),
            property_("P1855", classes=["Q100"], datatype="string"),
            property_("P642", classes=[RESTRICTIVE, *r.choice([[], [], [FREE]])]),
            property_("P2", classes=r.choice([[], [], [], [SOCIAL], ["Q101"]])),
        ]
        return [{"single_value": None, "separators": None} | row for row in rows if self.some(0.97)]

    def entities(self, ids: list[str]) -> list[Row]:
        r = self.chance
        words = ["Wikimedia category", "a template", "Template", None, *["city"] * 10]
        rows = []
        for id in ids:
            own = r.sample([*CLASSES, "Q404"], r.choice([0, 0, 1, 2]))
            name = r.choice([f"name {id}"] * 12 + ["twin"] * 2 + [None])
            rows.append(entity(id, name, title=r.choice(["Title"] * 9 + [None]), classes=own))
        return [*rows, *(entity(id, r.choice(words), title=None) for id in CLASSES), entity("Q200", "metre"),
                entity("Q201", None)]  # fmt: skip

    def edges(self) -> list[tuple[str, str]]:
        r = self.chance
        chain = [("Q100", "Q102"), ("Q102", META)]
        return chain + [(r.choice(CLASSES[3:]), r.choice([*CLASSES, META, RESTRICTIVE, SOCIAL])) for _ in range(3)]

    def pair(self) -> Pair:
        r = self.chance
        before = [self.statement([*SUBJECTS, *MERGED], [*OBJECTS, *MERGED]) for _ in range(170)]
        redirects = {id: r.choice([*SUBJECTS, FRESH[0], MERGED[-1]]) for id in r.sample(MERGED[:-1], 2)}
        if self.some(0.5):
            redirects[MERGED[-1]] = r.choice(SUBJECTS)  # perhaps the end of a chain
        after = []
        for row in before:
            if row["subject"] in MERGED:
                if row["subject"] in redirects and self.some(0.7):
                    self.made += 1
                    into = r.choice(SUBJECTS)
                    after.append(row | {"subject": into, "statement_id": f"{into}${self.made}"})
                continue
            if row["value"] in MERGED:
                after.append(row | {"value": redirects.get(row["value"]) or r.choice(OBJECTS)})
            else:
                after += self.later(row, [*OBJECTS, *FRESH])
        after += [self.statement([*SUBJECTS, *FRESH, *FRESH], [*OBJECTS, *FRESH]) for _ in range(70)]
        old = self.entities([*OBJECTS, *MERGED])
        again = {e["id"]: e for e in self.entities([*OBJECTS, *FRESH])}
        kept = [e if self.some(0.85) else again[e["id"]] for e in old if e["id"] in again]
        new = [*kept, *(again[id] for id in FRESH)]
        for e in new:
            if e["id"] in FRESH or self.some(0.1):
                created = r.choice(["2021-06", "2022-01-01", "2021-01-04", "2021", "1990", None])
                e |= {"created": created, "created_property": None if created is None else "P571"}
        gone = set(r.sample(SUBJECTS, 1))  # deleted: the new snapshot has neither it nor what was said of it
        after = [row for row in after if row["subject"] not in gone]
        new = [e for e in new if e["id"] not in gone]
        views = {id: float(r.choice([0, 5, 5, 40, 900])) for id in [*OBJECTS, *FRESH, *MERGED] if self.some(0.5)}
        properties = self.properties()
        return Pair(
            Half(OLD_DATE, [whole(e) for e in old], before, properties, self.edges()),
            Half(NEW_DATE, [whole(e) for e in new], after, properties if self.some(0.7) else self.properties(),
                 self.edges()),
            views, TEMPLATES, redirects,
        )  # fmt: skip


def whole(row: Row) -> Row:
    return {"created": None, "created_property": None} | row


def random_pair(seed: int) -> Pair:
    return Maker(seed).pair()
