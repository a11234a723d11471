"""Two small snapshots of one world, two years apart, and what happened in between.

A president was replaced, a player moved to another club, a town was counted again, a queen died, a company was founded,
two items that meant one country were merged, a birthplace was corrected, a mayor's end date was added, a deputy is
known to have left but not when while another post began.
"""

from pathlib import Path
from typing import Any

from wikidata.made import UNKNOWN, Record, boundary, entity, property_, statement, write_snapshot

OLD_DATE, NEW_DATE = "2021-01-04", "2023-02-27"
SINGLE = {"single_value": True}
PROPERTIES = [
    property_("P35", "head of state", **SINGLE, separators=["P580", "P582"]),
    property_("P1082", "population", datatype="quantity", **SINGLE, separators=["P585"]),
    property_("P54", "member of sports team"),
    property_("P570", "date of death", datatype="time", **SINGLE),
    property_("P27", "country of citizenship"),
    property_("P19", "place of birth", **SINGLE),
    property_("P39", "position held"),
    property_("P159", "headquarters location"),
    property_("P31", "instance of"),
    property_("P9999", "relation without a template"),
    property_("P856", "official website", datatype="url"),
]
NAMES = {
    "Q1": "Ada", "Q2": "Bert", "Q3": "Carla", "Q4": "Dora", "Q5": "Emil", "Q6": "Queen Zoe", "Q7": "Fred", "Q8": "Gil",
    "Q10": "Club A", "Q11": "Club B", "Q12": "national team", "Q13": "Club C", "Q20": "mayor", "Q21": "deputy",
    "Q22": "minister", "Q30": "country", "Q31": "town", "Q32": "human", "Q33": "company", "Q60": "Fredonia",
    "Q61": "Freedonia", "Q70": "Sylvania", "Q71": "Osterlich", "Q72": "Ruritania", "Q80": "Oldtown", "Q81": "Newtown",
    "Q82": "Midtown",
}  # fmt: skip
WITHOUT_TITLE = {"Q20", "Q21", "Q22", "Q30", "Q31", "Q32", "Q33", "Q60"}
VIEWS = {"Q61": 5000.0, "Q3": 4000.0, "Q80": 300.0, "Q6": 200.0, "Q70": 100.0, "Q71": 50.0, "Q72": 20.0, "Q81": 10.0}


def entities(old: bool) -> list[Record]:
    rows = [
        entity(id, name, title=None if id in WITHOUT_TITLE else name)
        for id, name in NAMES.items()
        if old or id != "Q60"  # merged into Q61
    ]
    if not old:
        rows.append(entity("Q50", "Acme", created="2021-06", created_property="P571", classes=["Q33"]))
        rows.append(entity("Q51", "Latecomer", created="1990", created_property="P571"))
    return rows


def fact(id: str, subject: str, property: str, value: str, start: Any = None, end: Any = None, **more: Any) -> Record:
    return statement(subject, property, value, start, end, statement_id=id, **more)


def count(id: str, subject: str, number: int, year: str, **more: Any) -> Record:
    point = boundary(year)
    kind = {"value_type": "quantity", "datatype": "quantity", "point": point}
    return fact(id, subject, "P1082", f"+{number}", **kind, **more)


COMMON = [
    *(fact(f"{id}$class", id, "P31", "Q30") for id in ("Q61", "Q70", "Q71", "Q72")),
    *(fact(f"{id}$class", id, "P31", "Q31") for id in ("Q80", "Q81", "Q82")),
    *(fact(f"{id}$class", id, "P31", "Q32") for id in ("Q1", "Q2", "Q3", "Q4", "Q5", "Q6", "Q7", "Q8")),
    fact("Q70$1", "Q70", "P35", "Q7", "2010"),
    fact("Q71$1", "Q71", "P35", "Q8", "2012"),
    fact("Q72$1", "Q72", "P35", "Q4", "1990", "2000"),  # over before the old date
    fact("Q7$1", "Q7", "P54", "Q13", "2019"),
    fact("Q8$1", "Q8", "P54", "Q10", "2017"),
    count("Q81$1", "Q81", 500, "2019"),
    count("Q82$1", "Q82", 70000, "2018"),
    fact("Q61$web", "Q61", "P856", "http://a", value_type="text", datatype="url"),
    fact("Q3$nat", "Q3", "P54", "Q12", "2015"),
]
OLD = [
    *COMMON,
    fact("Q61$1", "Q61", "P35", "Q1", "2015"),
    fact("Q3$a", "Q3", "P54", "Q10", "2018"),
    count("Q80$1", "Q80", 1000, "2020"),
    fact("Q3$c", "Q3", "P27", "Q60"),
    fact("Q4$b", "Q4", "P19", "Q80"),
    fact("Q4$m", "Q4", "P39", "Q20", "2016"),
    fact("Q5$d", "Q5", "P39", "Q21", "2010"),
]
NEW = [
    *COMMON,
    fact("Q61$1", "Q61", "P35", "Q1", "2015", "2021-03-01"),
    fact("Q61$2", "Q61", "P35", "Q2", "2021-03-01", rank="preferred"),
    fact("Q3$a", "Q3", "P54", "Q10", "2018", "2022-07"),
    fact("Q3$b", "Q3", "P54", "Q11", "2022-07"),
    count("Q80$1", "Q80", 1000, "2020"),
    count("Q80$2", "Q80", 1100, "2022"),
    fact("Q6$d", "Q6", "P570", "2022-05-05", value_type="time", datatype="time", value_precision=11,
         value_extra="+2022-05-05T00:00:00Z", value_calendar="gregorian"),
    fact("Q50$1", "Q50", "P31", "Q33"),
    fact("Q50$2", "Q50", "P159", "Q80"),
    fact("Q50$3", "Q50", "P9999", "Q81"),
    fact("Q51$1", "Q51", "P159", "Q81"),
    fact("Q3$c", "Q3", "P27", "Q61"),
    fact("Q4$b", "Q4", "P19", "Q82"),
    fact("Q4$m", "Q4", "P39", "Q20", "2016", "2022-05"),
    fact("Q5$d", "Q5", "P39", "Q21", "2010", UNKNOWN),
    fact("Q5$e", "Q5", "P39", "Q22", "2022-01"),
]  # fmt: skip


def write_world(folder: Path, buckets: int = 4, **more: Any) -> tuple[Path, Path]:
    """The snapshots ``old`` and ``new``; ``more`` changes the options of the new one."""
    old = write_snapshot(folder / "old", entities(True), OLD, PROPERTIES, buckets=buckets, date=OLD_DATE)
    options = {"buckets": buckets, "date": NEW_DATE, "popularity": VIEWS} | more
    new = write_snapshot(folder / "new", entities(False), NEW, PROPERTIES, **options)
    return old, new
