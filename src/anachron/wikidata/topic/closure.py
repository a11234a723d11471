"""Which other entities a snapshot of some items needs: labels, types and articles of what their statements name.

* the properties of their statements and of qualifiers, whose labels, datatypes and constraints are read, and the classes
  of these properties, up to the depth that the rules on meta properties and restrictive qualifiers look;
* the objects of their statements, whose labels and articles are read;
* the classes of items and objects, by whose labels pages of the wiki are told from things.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import msgspec

from anachron.core.errors import ConfigError
from anachron.wikidata.reading.entity_json import Claims, entities_of, entity_of
from anachron.wikidata.selection.rules import Selection
from anachron.wikidata.topic.entities import Outcome, in_order

_FETCHED = re.compile(r"[QP][1-9]\d{0,9}").fullmatch  # lexemes and schemas have no page that is asked for here
DEPTH = Selection().class_depth
_claims = msgspec.json.Decoder(Claims).decode


@dataclass
class Named:
    """Ids that some entities name, by what they are needed for."""

    properties: set[str] = field(default_factory=set)
    objects: set[str] = field(default_factory=set)
    classes: set[str] = field(default_factory=set)
    parents: set[str] = field(default_factory=set)


def named_by(bodies: Iterable[bytes], relations: frozenset[str] = frozenset()) -> Named:
    """What entities name. relations: objects count of these alone; of all where it is empty."""
    named = Named()
    for body in bodies:
        claims = _claims(body).claims
        for name, statements in dict(claims or ()).items():
            named.properties.add(name)
            for statement in statements:
                named.properties.update(statement.qualifiers or ())
                if statement.rank != "deprecated" and (not relations or name in relations):
                    one = entity_of(statement.mainsnak)
                    named.objects.update(() if one is None else (one,))
            if name == "P31":
                named.classes.update(entities_of(statements))
            elif name == "P279":
                named.parents.update(entities_of(statements))
    return named


class Closure:
    """What is needed beyond items, fetched in rounds: at most 4, as classes of classes become known by fetching.

    resolve: fetches ids and says what became of them. read: the JSON of an entity that was found. most: entities in all;
    above it `ConfigError` is raised before any of a round is fetched.
    """

    def __init__(
        self,
        resolve: Callable[[Iterable[str]], dict[str, Outcome]],
        read: Callable[[Outcome], bytes],
        relations: frozenset[str] = frozenset(),
        most: int = 0,
    ) -> None:
        self._resolve, self._read, self._relations, self._most = resolve, read, relations, most
        self.outcomes: dict[str, Outcome] = {}
        self.counts: dict[str, int] = {}

    def first(self, items: Iterable[Outcome]) -> Named:
        """What the items name, without what is here; counted, and refused where it is too much."""
        items = list(items)
        named = named_by(map(self._read, items), self._relations)
        here = {item.id for item in items}
        named.objects -= here
        named.classes -= here | named.objects
        self.counts = {"items": len(here), "properties": len(named.properties), "objects": len(named.objects)}
        self._check(here | named.properties | named.objects | named.classes)
        return named

    def follow(self, items: Iterable[Outcome]) -> dict[str, Outcome]:
        """The outcomes of all that is needed besides the items."""
        items = list(items)
        named = self.first(items)
        found = self._round(named.properties | named.objects | named.classes)
        of_properties = named_by(self._bodies(found, named.properties))
        of_objects = named_by(self._bodies(found, named.objects))
        level = of_properties.classes
        classes = named.classes | of_objects.classes | level
        found = self._round(of_objects.classes | level)
        for _ in range(DEPTH - 2):  # the last edge needs the entity that it begins at, not the one that it leads to
            level = named_by(self._bodies(self.outcomes, level)).parents
            classes |= level
            self._round(level)
        self.counts["classes"] = len(classes)
        return self.outcomes

    def _bodies(self, outcomes: dict[str, Outcome], ids: Iterable[str]) -> Iterable[bytes]:
        known = [outcomes[id] for id in in_order(filter(_FETCHED, ids)) if id in outcomes]
        known = [outcomes.get(one.to or "", one) for one in known]  # what was merged names what the other names
        return (self._read(one) for one in known if one.state == "found")

    def _round(self, ids: Iterable[str]) -> dict[str, Outcome]:
        wanted = in_order(filter(_FETCHED, ids))
        self._check({*self.outcomes, *wanted})
        self.outcomes |= self._resolve(wanted)
        return self.outcomes

    def _check(self, ids: set[str]) -> None:
        if self._most and len(ids) > self._most:
            counts = ", ".join(f"{number:,} {what}" for what, number in self.counts.items())
            raise ConfigError(
                f"the topic needs at least {len(ids):,} entities ({counts}), above --most {self._most:,}; choose fewer "
                "items, name the relations with --with, or give a higher --most"
            )
