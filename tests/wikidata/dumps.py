"""Small Wikidata dumps for tests: entities as the real dumps write them, in every compression and layout.

    from wikidata.dumps import entity, item, statement, time, write_dump

    obama = item("Q76", "Barack Obama", title="Barack Obama", claims=[
        statement("P31", entity("Q5")),
        statement("P39", entity("Q11696"), qualifiers={"P580": time("2009-01-20"), "P582": SOMEVALUE}),
        statement("P569", time("+1961-08-04T00:00:00Z")),
    ])
    write_dump(tmp_path / "dump.json.bz2", [obama, ...])

Values are *datavalues* ({"value", "type"}) or `SOMEVALUE` / `NOVALUE`; a qualifier takes one value or a list of them.
"""

import bz2
import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Json = dict[str, Any]
SOMEVALUE, NOVALUE = "somevalue", "novalue"
Value = Json | str  # a datavalue, or one of the two above
Qualifiers = Mapping[str, Value | Sequence[Value]]

CALENDARS = {"gregorian": "Q1985727", "julian": "Q1985786"}
DATATYPES = {
    "wikibase-entityid": "wikibase-item",
    "time": "time",
    "quantity": "quantity",
    "string": "string",
    "monolingualtext": "monolingualtext",
    "globecoordinate": "globe-coordinate",
}
SINGLE_VALUE, SINGLE_BEST_VALUE = "Q19474404", "Q52060874"


def entity(id: str, *, numeric_only: bool = False) -> Json:
    """A value that is an entity: Q, P, L (lexeme), L..-F.. (form), L..-S.. (sense) or E (schema)."""
    kinds = {"Q": "item", "P": "property", "L": "lexeme", "E": "entity-schema"}
    kind = {"F": "form", "S": "sense"}[id.split("-")[1][0]] if "-" in id else kinds[id[0]]
    value: Json = {"entity-type": kind, "id": id}
    if kind in ("item", "property"):
        value = {"entity-type": kind, "numeric-id": int(id[1:])} | ({} if numeric_only else {"id": id})
    return {"value": value, "type": "wikibase-entityid"}


def time(text: str, precision: int | None = None, calendar: str = "gregorian") -> Json:
    """A time, from Wikidata's own text (``+2009-01-20T00:00:00Z``) or from ``2009``, ``2009-01``, ``-0044-03-15``.

    The precision is 11, or, for the short forms, that of what is written (9 year, 10 month, 11 day).
    """
    if "T" not in text:
        sign, digits = ("-", text[1:]) if text.startswith("-") else ("+", text.lstrip("+"))
        parts = digits.split("-")
        precision = precision if precision is not None else 8 + len(parts)
        text = f"{sign}{'-'.join([*parts, '00', '00'][:3])}T00:00:00Z"
    value = {
        "time": text,
        "timezone": 0,
        "before": 0,
        "after": 0,
        "precision": 11 if precision is None else precision,
        "calendarmodel": f"http://www.wikidata.org/entity/{CALENDARS[calendar]}",
    }
    return {"value": value, "type": "time"}


def quantity(amount: str, unit: str | None = None) -> Json:
    """A quantity (``+12.50``); ``unit`` is an item's id, or None for a bare number."""
    address = "1" if unit is None else f"http://www.wikidata.org/entity/{unit}"
    return {"value": {"amount": amount, "unit": address}, "type": "quantity"}


def string(text: str) -> Json:
    """A string; give the statement a ``datatype`` for url, external-id, commonsMedia and the like."""
    return {"value": text, "type": "string"}


def monolingual(text: str, language: str = "en") -> Json:
    return {"value": {"text": text, "language": language}, "type": "monolingualtext"}


def coordinate(latitude: float, longitude: float) -> Json:
    globe = "http://www.wikidata.org/entity/Q2"
    value = {"latitude": latitude, "longitude": longitude, "altitude": None, "precision": 0.0001, "globe": globe}
    return {"value": value, "type": "globecoordinate"}


def snak(property: str, value: Value, datatype: str | None = "guess") -> Json:
    """A snak. ``datatype``: "guess" takes it from the value, None leaves it out, as cached API answers do."""
    kind = value if isinstance(value, str) else "value"
    made: Json = {"snaktype": kind, "property": property}
    if isinstance(value, dict):
        made["datavalue"] = value
        if datatype == "guess":
            datatype = DATATYPES.get(value["type"])
    if datatype is not None:
        made["datatype"] = "wikibase-item" if datatype == "guess" else datatype
    return made


def statement(
    property: str,
    value: Value,
    rank: str = "normal",
    qualifiers: Qualifiers | None = None,
    *,
    datatype: str | None = "guess",
    id: str | None = "made",
    references: int = 0,
) -> Json:
    """A statement. ``id``: "made" is filled in by `item`, None leaves it out, as very old dumps do."""
    made: Json = {"mainsnak": snak(property, value, datatype), "type": "statement"}
    if qualifiers:
        lists = {p: [v] if isinstance(v, (str, dict)) else list(v) for p, v in qualifiers.items()}
        made["qualifiers"] = {p: [snak(p, v) for v in values] for p, values in lists.items()}
        made["qualifiers-order"] = list(lists)
    if id is not None:
        made["id"] = id
    made["rank"] = rank
    if references:
        source = {"P248": [snak("P248", entity("Q36578"))], "P813": [snak("P813", time("2020-02-03"))]}
        made["references"] = [{"hash": f"{n:040x}", "snaks": source} for n in range(references)]
    return made


def constraint(
    kind: str = SINGLE_VALUE, *, separators: Sequence[str] = (), exceptions: Sequence[str] = (), rank: str = "normal"
) -> Json:
    """A P2302 statement of a property: kind of constraint, its separators (P4155) and exceptions (P2303)."""
    qualifiers: dict[str, list[Value]] = {}
    if separators:
        qualifiers["P4155"] = [entity(p) for p in separators]
    if exceptions:
        qualifiers["P2303"] = [entity(q) for q in exceptions]
    return statement("P2302", entity(kind), rank, qualifiers)


def _texts(label: str | None, more: Mapping[str, str] | None) -> Json:
    texts = ({} if label is None else {"en": label}) | dict(more or {})
    return {language: {"language": language, "value": text} for language, text in texts.items()}


def _claims(id: str, claims: Iterable[Json]) -> dict[str, list[Json]]:
    grouped: dict[str, list[Json]] = {}
    for number, claim in enumerate(claims):
        if claim.get("id") == "made":
            claim = claim | {"id": f"{id}$00000000-0000-4000-8000-{number:012d}"}
        grouped.setdefault(claim["mainsnak"]["property"], []).append(claim)
    return grouped


def item(
    id: str,
    label: str | None = None,
    *,
    description: str | None = None,
    title: str | None = None,
    claims: Iterable[Json] = (),
    labels: Mapping[str, str] | None = None,
    descriptions: Mapping[str, str] | None = None,
    sitelinks: Mapping[str, str] | None = None,
    empty_as_list: bool = False,
) -> Json:
    """An item. ``label`` and ``description`` are English, ``title`` is of enwiki; other languages and wikis by maps
    ({"mul": "..."}, {"frwiki": "..."}). ``empty_as_list`` writes empty maps as ``[]``, as dumps up to 2024 do."""
    links = ({} if title is None else {"enwiki": title}) | dict(sitelinks or {})
    made: Json = {
        "type": "item",
        "id": id,
        "labels": _texts(label, labels),
        "descriptions": _texts(description, descriptions),
        "aliases": {},
        "claims": _claims(id, claims),
        "sitelinks": {wiki: {"site": wiki, "title": text, "badges": []} for wiki, text in links.items()},
        "lastrevid": 1,
        "modified": "2021-01-01T00:00:00Z",
    }
    if empty_as_list:
        made |= {key: [] for key in ("labels", "descriptions", "aliases", "claims", "sitelinks") if not made[key]}
    return made


def property_(
    id: str,
    label: str | None = None,
    datatype: str = "wikibase-item",
    *,
    description: str | None = None,
    claims: Iterable[Json] = (),
) -> Json:
    """A property entity; its constraints are claims made by `constraint`."""
    made = item(id, label, description=description, claims=claims)
    del made["sitelinks"]
    return {"type": "property", "id": id, "datatype": datatype} | made | {"type": "property"}


def lexeme(id: str, lemma: str = "word") -> Json:
    return {
        "type": "lexeme",
        "id": id,
        "lemmas": {"en": {"language": "en", "value": lemma}},
        "lexicalCategory": "Q1084",
        "language": "Q1860",
        "claims": {},
        "forms": [],
        "senses": [],
    }


def line(entity: Json | str) -> str:
    """One entity as the dumps write it: ASCII, no spaces, slashes escaped. Text passes through (broken lines)."""
    if isinstance(entity, str):
        return entity
    return json.dumps(entity, separators=(",", ":")).replace("/", "\\/")


def dump_bytes(entities: Iterable[Json | str], layout: str = "array") -> bytes:
    """The text of a dump. ``layout``: "array" ("[", entities joined by ",", "]"), "lines" or "document"
    (``{"entities": {...}}``)."""
    if layout == "document":
        return json.dumps({"entities": {e["id"]: e for e in entities}}).encode()  # type: ignore[index]
    lines = [line(e) for e in entities]
    if layout == "lines":
        return "".join(text + "\n" for text in lines).encode()
    return ("[\n" + ",\n".join(lines) + ("\n" if lines else "") + "]\n").encode()


def compress(data: bytes, ending: str, *, level: int = 9, streams: int = 1) -> bytes:
    """``data`` as a file of this ending (.json, .gz, .bz2, .zst), cut into ``streams`` parts compressed each alone."""
    if ending == ".json":
        return data
    if ending == ".zst":
        import zstandard

        one = zstandard.ZstdCompressor(level=min(level, 5)).compress
    elif ending == ".bz2":
        one = lambda part: bz2.compress(part, level)  # noqa: E731
    else:
        one = lambda part: gzip.compress(part, level, mtime=0)  # noqa: E731
    size = -(-len(data) // streams) or 1
    return b"".join(one(data[n : n + size]) for n in range(0, max(len(data), 1), size))


def write_dump(
    path: Path, entities: Iterable[Json | str], layout: str = "array", *, level: int = 9, streams: int = 1
) -> Path:
    """Write a dump in the compression that the path's ending names, and return the path."""
    path.write_bytes(compress(dump_bytes(entities, layout), path.suffix, level=level, streams=streams))
    return path
