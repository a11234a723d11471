"""Writes the bundled example of a topic: offices of heads of state and of government as two small dumps.

python tools/make_topic.py FOLDER   # the folder with everypolitician-holders/facts.csv

The rows are the output of queries for "position held" (P39) that github.com/every-politician-scrapers put to Wikidata
between 22 July and 3 August 2022: a person, an office, a start, an end, with their ids. They are turned round, so that
an office has its holders (officeholder, P1308, the inverse of P39). The ids and dates are Wikidata's; these are not:

* labels of offices, which are made of the words of the position and the country ("Prime Minister of Netherlands");
* ``rank: normal`` of all statements, that every holder is a human (Q5), and the label of Q5 and the labels and
  datatypes of P31, P580, P582 and P1308, which are written here by hand;
* one statement where the queries gave several rows of the same office, holder and start (three groups, one of them
  Mark Rutte's four terms): the row that ends last.

What the queries did not ask for (other statements, ids of statements, revisions, references, articles) is not there, so
no fact can be cited. Of 134 changes that were read for their truth in the whole table, with ministers, 4 were wrong.

Of the second state, all is as it was queried. The first is drawn from the dates: statements that start after its day
are left out, and ends after it. It is not what Wikidata held on that day.
"""

import argparse
import csv
import gzip
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from anachron.cli.wikidata_example import NEW, NEW_DAY, OLD, OLD_DAY

OUT = Path(__file__).parent.parent / "src" / "anachron" / "data" / "mini"
COUNTRIES = (
    "Argentina", "Australia", "Austria", "Belgium", "Brazil", "Canada", "China", "Denmark", "Egypt", "Finland",
    "France", "Greece", "India", "Indonesia", "Iran", "Ireland", "Israel", "Italy", "Japan", "Mexico", "Netherlands",
    "New Zealand", "Norway", "Pakistan", "Poland", "Portugal", "Russia", "South Africa", "South Korea", "Spain",
    "Sweden", "Switzerland", "Turkey", "Ukraine", "the United Kingdom", "the United States of America",
)  # fmt: skip
OFFICE = re.compile(rf"(President|Prime Minister|Federal Chancellor|Taoiseach) of ({'|'.join(COUNTRIES)})")
HOLDER, INSTANCE_OF, START, END = "P1308", "P31", "P580", "P582"
LABELS = {HOLDER: "officeholder", INSTANCE_OF: "instance of", START: "start time", END: "end time", "Q5": "human"}
DATATYPES = {HOLDER: "wikibase-item", INSTANCE_OF: "wikibase-item", START: "time", END: "time"}
PRECISIONS = {"year": 9, "month": 10, "day": 11}
GREGORIAN = "http://www.wikidata.org/entity/Q1985727"

Json = dict[str, Any]
Row = dict[str, str]


def chosen(rows: Iterable[Row]) -> list[Row]:
    """The rows of the offices, without those whose holder has no id or no label; of one start the last to end."""
    found = [
        row
        for row in sorted(rows, key=lambda row: row["end"] or "9999")
        if OFFICE.fullmatch(row["subject"])
        and row["subject_id"]
        and re.fullmatch(r"Q\d+", row["object_id"])
        and not re.fullmatch(r"Q\d+|", row["object"])
    ]
    return list({(row["subject_id"], row["object_id"], row["start"]): row for row in found}.values())


def on(day: str, rows: Iterable[Row]) -> Iterator[Row]:
    """What had started by the last day of a year, without the ends that came later."""
    for row in rows:
        if row["start"] <= day:
            yield row if row["end"] <= day else row | {"end": ""}


def entities(rows: Iterable[Row], everything: Iterable[Row]) -> list[Json]:
    """A dump's entities, by their ids: properties, the class, then offices with these rows, and all persons."""
    found = {id: entity(id, label) for id, label in LABELS.items()}
    for row in everything:
        found[row["subject_id"]] = entity(row["subject_id"], row["subject"])
        found[row["object_id"]] = entity(row["object_id"], row["object"])
        found[row["object_id"]]["claims"] = {INSTANCE_OF: [statement(INSTANCE_OF, "Q5")]}
    for row in rows:
        dates = {
            name: [snak(name, time(row[which], row[f"{which}_precision"]))]
            for name, which in ((START, "start"), (END, "end"))
            if row[which]
        }
        made = statement(HOLDER, row["object_id"]) | {"qualifiers": dates, "qualifiers-order": list(dates)}
        found[row["subject_id"]]["claims"].setdefault(HOLDER, []).append(made)
    return [found[id] for id in sorted(found, key=lambda id: (id[0], int(id[1:])))]


def entity(id: str, label: str) -> Json:
    kind: Json = (
        {"type": "property", "id": id, "datatype": DATATYPES[id]} if id in DATATYPES else {"type": "item", "id": id}
    )
    return kind | {
        "labels": {"en": {"language": "en", "value": label}},
        "descriptions": {},
        "aliases": {},
        "claims": {},
    }


def statement(property: str, id: str) -> Json:
    value = {"entity-type": "item", "numeric-id": int(id[1:]), "id": id}
    return {
        "mainsnak": snak(property, {"value": value, "type": "wikibase-entityid"}),
        "type": "statement",
        "rank": "normal",
    }


def snak(property: str, value: Json) -> Json:
    return {"snaktype": "value", "property": property, "datavalue": value, "datatype": DATATYPES[property]}


def time(text: str, precision: str) -> Json:
    """A day, month or year, with 00 for what is not known."""
    whole = "-".join([*text.split("-"), "00", "00"][:3])
    value = {"time": f"+{whole}T00:00:00Z", "timezone": 0, "before": 0, "after": 0, "precision": PRECISIONS[precision],
             "calendarmodel": GREGORIAN}  # fmt: skip
    return {"value": value, "type": "time"}


def write(path: Path, found: Iterable[Json]) -> None:
    """In the form of the dumps, and the same bytes each time."""
    text = "[\n" + ",\n".join(json.dumps(one, separators=(",", ":")) for one in found) + "\n]\n"
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    with (parser.parse_args().folder / "everypolitician-holders" / "facts.csv").open(
        encoding="utf-8", newline=""
    ) as file:
        rows = chosen(csv.DictReader(file))
    old = list(on(OLD_DAY, rows))
    write(OUT / OLD, entities(old, rows))
    write(OUT / NEW, entities(rows, rows))
    offices, persons = ({row[name] for row in rows} for name in ("subject_id", "object_id"))
    print(
        f"{len(offices)} offices, {len(persons)} holders; {len(old)} statements on {OLD_DAY}, {len(rows)} on {NEW_DAY}"
    )


if __name__ == "__main__":
    main()
