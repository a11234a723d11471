"""The shape of Wikidata, measured on real entities: what ``tools/synthetic_dump.py`` draws from.

Run: python tools/wikidata_shape.py STREAM TWENTY PROPERTIES > tools/wikidata_shape.json

STREAM: items as they were edited in April 2019, one a line (opentapioca's short_stream.json.bz2, 574 items). TWENTY:
lines of a JSON dump of February 2021 (wikidata-qrank's twenty_entities.json.bz2). What share of all items has a page
in the English Wikipedia is counted on STREAM alone; the shape of those that have one is that of both files' items.
PROPERTIES: a folder of property entities, a file each (OpenRefine's entitycache, 7 of them).

A count is kept as the means of its 40 fortieths, in rising order: their mean is that of the sample.
"""

import bz2
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

Json = dict[str, Any]
PARTS = 40
DATES = ("P580", "P582", "P585")
COUNTED = ("labels", "descriptions", "aliases", "sitelinks")
DATATYPES = (
    "wikibase-item", "external-id", "string", "url", "commonsMedia", "time", "quantity", "monolingualtext",
    "globe-coordinate",
)  # fmt: skip  # others are below one in a thousand statements of the samples, and left out


def items(path: Path) -> Iterator[Json]:
    """The items of a file with one a line, array or not; of one that comes several times, the last."""
    found = {}
    with bz2.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            text = line.strip().removesuffix(",")
            if text not in ("[", "]", ""):
                item = json.loads(text)
                if item["type"] == "item":
                    found[item["id"]] = item
    yield from found.values()


def fortieths(counts: Iterable[int]) -> list[float]:
    """Means of the fortieths of these counts, each weighted by how much of it falls into the fortieth."""
    ordered = np.sort(np.array(list(counts), dtype=float))
    summed = np.concatenate([[0.0], np.cumsum(ordered)])
    edges = np.interp(np.linspace(0, len(ordered), PARTS + 1), np.arange(len(ordered) + 1), summed)
    return [round(float(x), 3) for x in np.diff(edges) * PARTS / len(ordered)]


def statements_of(item: Json) -> list[Json]:
    claims = item.get("claims") or {}  # an empty map may be written []
    return [s for name in claims for s in claims[name] if s["mainsnak"].get("datatype") in DATATYPES]


def stratum(members: list[Json]) -> Json:
    """Counts of one kind of item: those with an article in English, or those without."""
    counts = {name: fortieths(len(item.get(name) or ()) for item in members) for name in COUNTED}
    rows = [statements_of(item) for item in members]
    groups = sum(len({s["mainsnak"]["property"] for s in row}) for row in rows)
    properties = Counter(s["mainsnak"]["property"] for row in rows for s in row)
    del properties["P31"]  # each item has its class besides
    return {
        "items": len(members),
        "statements": fortieths(map(len, rows)),
        "statements_a_property": round(sum(map(len, rows)) / groups, 4),
        "english_label": round(sum("en" in (item.get("labels") or ()) for item in members) / len(members), 4),
        **counts,
        "properties": dict(properties.most_common()),
    }


def shares(counted: Counter[str]) -> dict[str, float]:
    return {name: round(n / counted.total(), 5) for name, n in counted.most_common()}


def single_values(folder: Path) -> list[list[str]]:
    """The separators of each property of a folder that has a constraint to a single value."""
    found = []
    for path in sorted(folder.glob("*.json")):
        entity = json.loads(path.read_text())
        entity = entity if "claims" in entity else next(iter(entity["entities"].values()))
        for one in entity["claims"].get("P2302", ()):
            if one["mainsnak"]["datavalue"]["value"]["id"] in ("Q19474404", "Q52060874"):
                by = one.get("qualifiers", {}).get("P4155", ())
                found.append([snak["datavalue"]["value"]["id"] for snak in by])
                break
    return found


def measure(stream: list[Json], dump: list[Json], folder: Path) -> Json:
    """Every figure of the shape."""
    both = [*stream, *dump]
    with_page = [item for item in both if "enwiki" in (item.get("sitelinks") or ())]
    without = [item for item in stream if "enwiki" not in (item.get("sitelinks") or ())]
    rows = [s for item in [*with_page, *without] for s in statements_of(item)]
    others = [[p for p in s.get("qualifiers", ()) for _ in s["qualifiers"][p] if p not in DATES] for s in rows]
    dated = [s for s in rows if any(p in s.get("qualifiers", ()) for p in DATES)]
    references = [r for s in rows for r in s.get("references", ())]
    classes = Counter(
        s["mainsnak"]["datavalue"]["value"]["id"]
        for s in rows
        if s["mainsnak"]["property"] == "P31" and s["mainsnak"]["snaktype"] == "value"
    )
    targets = [
        s["mainsnak"]["datavalue"]["value"]["id"]
        for item in stream
        for s in statements_of(item)
        if s["mainsnak"]["datatype"] == "wikibase-item" and s["mainsnak"]["snaktype"] == "value"
    ]
    single, files = single_values(folder), len(list(folder.glob("*.json")))
    return {
        "with_article": round(sum("enwiki" in (i.get("sitelinks") or ()) for i in stream) / len(stream), 5),
        "article": stratum(with_page),
        "none": stratum(without),
        "datatypes": {s["mainsnak"]["property"]: s["mainsnak"]["datatype"] for s in rows},
        "ranks": shares(Counter(s["rank"] for s in rows)),
        "snaks": shares(Counter(s["mainsnak"]["snaktype"] for s in rows)),
        "classes": [share for share in shares(classes).values() if share > 1.5 / classes.total()],
        "distinct_targets": [len(targets), len(set(targets))],
        "dated": round(len(dated) / len(rows), 5),
        "dated_datatypes": shares(Counter(s["mainsnak"]["datatype"] for s in dated)),
        "dated_kinds": shares(Counter(" ".join(p for p in DATES if p in s["qualifiers"]) for s in dated)),
        "date_precisions": shares(
            Counter(
                str(q["datavalue"]["value"]["precision"])
                for s in dated
                for p in DATES
                for q in s["qualifiers"].get(p, ())
                if q["snaktype"] == "value"
            )
        ),
        "qualified": round(sum(map(bool, others)) / len(rows), 5),
        "qualifiers_each": round(sum(map(len, others)) / sum(map(bool, others)), 4),
        "referenced": round(sum(bool(s.get("references")) for s in rows) / len(rows), 5),
        "references_each": round(len(references) / sum(bool(s.get("references")) for s in rows), 4),
        "snaks_a_reference": round(sum(len(v) for r in references for v in r["snaks"].values()) / len(references), 4),
        "label_characters": round(
            float(np.mean([len(t["value"]) for i in both for t in (i.get("labels") or {}).values()])), 2
        ),
        "description_characters": round(
            float(np.mean([len(t["value"]) for i in both for t in (i.get("descriptions") or {}).values()])), 2
        ),
        "single_value": round(len(single) / files, 3),
        "single_value_by_date": round(sum(bool({*by} & {*DATES}) for by in single) / files, 3),
        "languages": [x for x, _ in Counter(x for i in both for x in i.get("labels") or ()).most_common(160)],
        "wikis": [x for x, _ in Counter(x for i in both for x in i.get("sitelinks") or ()).most_common(160)],
    }


if __name__ == "__main__":
    found = measure(*(list(items(Path(name))) for name in sys.argv[1:3]), Path(sys.argv[3]))
    lines = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in found.items())
    print("{\n" + ",\n".join(lines) + "\n}")
