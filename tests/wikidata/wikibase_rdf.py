"""Entities as the triples of Wikidata's query service, and its answers by a real engine (pyoxigraph).

The mapping is that of "Wikibase/Indexing/RDF Dump Format", as far as queries for a topic go: labels, descriptions and
other names; statements with their ranks, values and qualifiers; the direct properties (``wdt:``), which have only
the statements of the best rank of an entity and property, and never a deprecated one; articles; merged items
(``owl:sameAs``).
Left out: references, quantities with their units, and the full values (``psv:``, ``pqv:``) but those of times.

The service knows its prefixes without their being declared; it has one graph, and the label service, which here is
put into the answer by its rule: ``?xLabel`` is the label of ``?x`` in the first of the languages, else the id.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from wikidata.wikibase_forms import article_url
from wikidata.wikibase_world import Json, Redirect, World

ONTOLOGY = "http://wikiba.se/ontology#"
SCHEMA, RDFS, SKOS = (
    "http://schema.org/",
    "http://www.w3.org/2000/01/rdf-schema#",
    "http://www.w3.org/2004/02/skos/core#",
)
RDF, OWL, XSD = (
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "http://www.w3.org/2002/07/owl#",
    "http://www.w3.org/2001/XMLSchema#",
)
RANKS = {"preferred": "PreferredRank", "normal": "NormalRank", "deprecated": "DeprecatedRank"}
SPACES = {  # behind the base
    "wd": "entity/", "wds": "entity/statement/", "wdv": "value/", "wdt": "prop/direct/", "p": "prop/",
    "ps": "prop/statement/", "psv": "prop/statement/value/", "pq": "prop/qualifier/", "pqv": "prop/qualifier/value/",
    "wdno": "prop/novalue/", "wdref": "reference/", "pr": "prop/reference/",
}  # fmt: skip
LABELS = re.compile(r"SERVICE\s+wikibase:label\s*\{(?:[^{}]|\{[^{}]*\})*\}\s*\.?", re.IGNORECASE)


def prefixes(base: str) -> dict[str, str]:
    ours = {name: base + space for name, space in SPACES.items()}
    return ours | {"wikibase": ONTOLOGY, "schema": SCHEMA, "rdfs": RDFS, "skos": SKOS, "rdf": RDF, "owl": OWL,
                   "xsd": XSD, "bd": "http://www.bigdata.com/rdf#", "hint": "http://www.bigdata.com/queryHints#",
                   "geo": "http://www.opengis.net/ont/geosparql#", "prov": "http://www.w3.org/ns/prov#"}  # fmt: skip


class Store:
    """The triples of what a world holds today, made when they are first asked for."""

    def __init__(self, world: World) -> None:
        import pyoxigraph

        self.prefixes = prefixes(world.base)
        self.store = pyoxigraph.Store()
        self.labels: dict[str, dict[str, str]] = {}
        for page in world.pages.values():
            if page.deleted:
                continue
            content = page.latest.content
            address = f"{self.prefixes['wd']}{page.id}"
            if isinstance(content, Redirect):
                self.add([(address, OWL + "sameAs", pyoxigraph.NamedNode(self.prefixes["wd"] + content.to))])
            else:
                self.labels[address] = {code: term["value"] for code, term in dict(content.get("labels") or {}).items()}
                self.add(triples(content, self.prefixes, page.latest.number, page.latest.timestamp))

    def add(self, found: Any) -> None:
        from pyoxigraph import NamedNode, Quad

        self.store.extend(Quad(NamedNode(a), NamedNode(b), c) for a, b, c in found)

    def answer(self, text: str) -> Json:
        """SPARQL JSON results. Raises `SyntaxError`."""
        from pyoxigraph import QueryResultsFormat

        service = LABELS.search(text)
        answer = self.store.query(LABELS.sub("", text), prefixes=self.prefixes)
        result: Json = json.loads(answer.serialize(format=QueryResultsFormat.JSON))  # type: ignore[union-attr,arg-type]
        for binding in result.get("results", {}).get("bindings", ()) if service else ():
            codes = re.search(r"wikibase:language\s+\"([^\"]*)\"", service[0])
            for name in result["head"]["vars"]:
                of = binding.get(name.removesuffix("Label"))
                if name.endswith("Label") and name not in binding and of:
                    binding[name] = self.label(of["value"], codes[1].split(",") if codes else [])
        return result

    def label(self, address: str, codes: list[str]) -> Json:
        known = self.labels.get(address, {})
        for code in (code.strip() for code in codes):
            if code in known:
                return {"type": "literal", "value": known[code], "xml:lang": code}
        return {"type": "literal", "value": address.rsplit("/", 1)[-1]}


def triples(entity: Json, space: dict[str, str], revision: int, modified: str) -> Iterator[tuple[str, str, Any]]:
    from pyoxigraph import Literal, NamedNode

    subject = space["wd"] + entity["id"]
    yield subject, RDF + "type", NamedNode(ONTOLOGY + entity["type"].capitalize())
    yield subject, SCHEMA + "version", Literal(revision)
    yield subject, SCHEMA + "dateModified", Literal(modified, datatype=NamedNode(XSD + "dateTime"))
    yield subject, ONTOLOGY + "sitelinks", Literal(len(entity.get("sitelinks") or ()))
    for code, term in dict(entity.get("labels") or {}).items():
        if code != "mul":
            yield subject, RDFS + "label", Literal(term["value"], language=code)
    for code, term in dict(entity.get("descriptions") or {}).items():
        yield subject, SCHEMA + "description", Literal(term["value"], language=code)
    for code, terms in dict(entity.get("aliases") or {}).items():
        for term in terms:
            yield subject, SKOS + "altLabel", Literal(term["value"], language=code)
    for site, link in dict(entity.get("sitelinks") or {}).items():
        article = article_url(site, link["title"])
        yield article, SCHEMA + "about", NamedNode(subject)
        yield article, SCHEMA + "isPartOf", NamedNode(article.split("/wiki/")[0] + "/")
        yield article, SCHEMA + "name", Literal(link["title"], language=article.split("//")[1].split(".")[0])
    for property, statements in dict(entity.get("claims") or {}).items():
        ranks = {one["rank"] for one in statements} - {"deprecated"}
        best = "preferred" if "preferred" in ranks else "normal"
        for place, statement in enumerate(statements):
            yield from _statement(subject, property, statement, statement["rank"] == best, space, place)


def _statement(
    subject: str, property: str, one: Json, best: bool, space: dict[str, str], place: int
) -> Iterator[tuple[str, str, Any]]:
    from pyoxigraph import NamedNode

    node = space["wds"] + one.get("id", f"{subject.rsplit('/', 1)[-1]}-{property}-{place}").replace("$", "-")
    yield subject, space["p"] + property, NamedNode(node)
    yield node, RDF + "type", NamedNode(ONTOLOGY + "Statement")
    yield node, ONTOLOGY + "rank", NamedNode(ONTOLOGY + RANKS[one["rank"]])
    if best:
        yield node, RDF + "type", NamedNode(ONTOLOGY + "BestRank")
        yield from _snak(subject, "wdt", property, one["mainsnak"], space)
    yield from _snak(node, "ps", property, one["mainsnak"], space)
    for name, snaks in dict(one.get("qualifiers") or {}).items():
        for snak in snaks:
            yield from _snak(node, "pq", name, snak, space)


def _snak(node: str, kind: str, property: str, snak: Json, space: dict[str, str]) -> Iterator[tuple[str, str, Any]]:
    """One value: unknown ones are blank nodes, and "no value" makes the node one of the class ``wdno:P``."""
    from pyoxigraph import BlankNode, Literal, NamedNode

    if snak["snaktype"] == "novalue":
        yield node, RDF + "type", NamedNode(space["wdno"] + property)
        return
    if snak["snaktype"] == "somevalue":
        yield node, space[kind] + property, BlankNode()
        return
    found = literal(snak["datavalue"], snak.get("datatype"), space)
    if found is not None:
        yield node, space[kind] + property, found
    if snak["datavalue"]["type"] == "time" and kind in ("ps", "pq"):
        whole, value = (
            f"{space['wdv']}{abs(hash((node, kind, property, str(snak['datavalue'])))):x}",
            snak["datavalue"]["value"],
        )
        yield node, space[kind + "v"] + property, NamedNode(whole)
        yield whole, RDF + "type", NamedNode(ONTOLOGY + "TimeValue")
        yield whole, ONTOLOGY + "timeValue", found
        yield whole, ONTOLOGY + "timePrecision", Literal(value["precision"])
        yield whole, ONTOLOGY + "timeCalendarModel", NamedNode(value["calendarmodel"])


def literal(data: Json, datatype: str | None, space: dict[str, str]) -> Any:
    from pyoxigraph import Literal, NamedNode

    kind, value = data["type"], data["value"]
    if kind == "wikibase-entityid":
        letter = {"item": "Q", "property": "P"}.get(value.get("entity-type"), "")
        return NamedNode(space["wd"] + (value.get("id") or f"{letter}{value['numeric-id']}"))
    if kind == "time":
        return Literal(date_time(value), datatype=NamedNode(XSD + "dateTime"))
    if kind == "quantity":
        return Literal(value["amount"], datatype=NamedNode(XSD + "decimal"))
    if kind == "monolingualtext":
        return Literal(value["text"], language=value["language"])
    if kind == "globecoordinate":
        point = f"Point({value['longitude']} {value['latitude']})"
        return Literal(point, datatype=NamedNode("http://www.opengis.net/ont/geosparql#wktLiteral"))
    if datatype == "url":
        return NamedNode(re.sub(r"[<>\"{}|\\^`\s]", "_", value))
    return Literal(str(value))


def date_time(value: Json) -> str:
    """XSD 1.1: no month or day is 01; the year 0 is 1 BCE; Julian days are turned into Gregorian ones."""
    sign, year, month, day = re.fullmatch(r"([+-])(\d+)-(\d\d)-(\d\d)T.*", value["time"]).groups()  # type: ignore[union-attr]
    number = int(year) if sign == "+" else 1 - int(year)
    month, day = max(int(month), 1), max(int(day), 1)
    if value["calendarmodel"].endswith("Q1985786") and value["precision"] >= 11:
        number, month, day = _gregorian(number, month, day)
    return f"{'-' if number < 0 else ''}{abs(number):04}-{month:02}-{day:02}T00:00:00Z"


def _gregorian(year: int, month: int, day: int) -> tuple[int, int, int]:
    """A Julian day in the Gregorian calendar, by the number of days (Richards, 2013)."""
    a = (14 - month) // 12
    days = day + (153 * (month + 12 * a - 3) + 2) // 5 + 365 * (year + 4800 - a) + (year + 4800 - a) // 4 - 32083
    f = days + 1401 + (((4 * days + 274277) // 146097) * 3) // 4 - 38
    h = 5 * ((4 * f + 3) % 1461 // 4) + 2
    month = (h // 153 + 2) % 12 + 1
    return (4 * f + 3) // 1461 - 4716 + (14 - month) // 12, month, h % 153 // 5 + 1
