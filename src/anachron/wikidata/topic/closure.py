"""Which other entities a snapshot of some items needs: labels, types and articles of what their statements name.

* the properties of their statements and of qualifiers, whose labels, datatypes and constraints are read, and the
  classes of these properties, up to the depth that the rules on meta properties and restrictive qualifiers look;
* the objects of their statements, whose labels and articles are read, and the units of quantities;
* the classes of items and objects, by whose labels pages of the wiki are told from things.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import msgspec

from anachron.core.errors import ConfigError
from anachron.wikidata.reading.entity_json import Claims, Snak, Value, entities_of, entity_of, unit_of
from anachron.wikidata.reading.snapshot import in_order
from anachron.wikidata.selection.rules import Selection
from anachron.wikidata.topic.choose import NUMBER
from anachron.wikidata.topic.entities import Outcome, Progress, end_of

_FETCHED = re.compile(f"[QP]{NUMBER}").fullmatch  # lexemes and schemas are not asked for
# Edges from a property to a class that counts as its own: the entity is needed that an edge begins at, not its end.
CLASS_ROUNDS = Selection().class_depth - 1
_claims = msgspec.json.Decoder(Claims).decode


@dataclass
class Named:
    """Ids that some entities name, by what they are needed for."""

    properties: set[str] = field(default_factory=set)
    objects: set[str] = field(default_factory=set)
    classes: set[str] = field(default_factory=set)
    parents: set[str] = field(default_factory=set)

    def all(self) -> set[str]:
        """What is to be fetched of them."""
        return {id for id in self.properties | self.objects | self.classes if _FETCHED(id)}


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
                    one = _named_in(statement.mainsnak)
                    named.objects.update(() if one is None else (one,))
            if name == "P31":
                named.classes.update(entities_of(statements))
            elif name == "P279":
                named.parents.update(entities_of(statements))
    return named


def _named_in(snak: Snak) -> str | None:
    """The entity that is a value, or the unit of one."""
    value = None if snak.datavalue is None else snak.datavalue.value
    return entity_of(snak) or (unit_of(value) if isinstance(value, Value) else None)


class Closure:
    """What is needed beyond items, fetched in rounds, as classes of classes become known by fetching.

    resolve: fetches ids and says what became of them. read: the JSON of an entity that was found. most: entities in
    all; above it `ConfigError` is raised before any of a round is fetched. ``counts``: what was needed, by kind.
    """

    def __init__(
        self,
        resolve: Callable[[Iterable[str], Progress], dict[str, Outcome]],
        read: Callable[[Outcome], bytes],
        relations: frozenset[str],
        most: int,
    ) -> None:
        self._resolve, self._read, self._relations, self._most = resolve, read, relations, most
        self.outcomes: dict[str, Outcome] = {}
        self.counts: dict[str, int] = {}

    def first(self, items: list[Outcome]) -> Named:
        """What the items name, without what is here; counted, and refused where it is too much."""
        named = named_by(map(self._read, items), self._relations)
        here = {item.id for item in items}
        named.objects -= here
        named.classes -= here | named.objects
        self.counts = {"items": len(here), "properties": len(named.properties), "objects": len(named.objects)}
        self._check(here | named.all())
        return named

    def follow(self, items: list[Outcome], progress: Progress) -> dict[str, Outcome]:
        """The outcomes of all that is needed, the items among them."""
        self.outcomes = {item.id: item for item in items}
        named = self.first(items)
        self._round(named.all(), progress)
        of_objects = self._named(named.objects).classes
        level = self._named(named.properties).classes
        classes = named.classes | of_objects
        for _ in range(CLASS_ROUNDS):
            classes |= level
            self._round(classes, progress)
            level = self._named(level).parents
        self.counts["classes"] = len(classes)
        return self.outcomes

    def _named(self, ids: Iterable[str]) -> Named:
        there = [end_of(self.outcomes, id) for id in in_order(filter(_FETCHED, ids))]
        return named_by(self._read(one) for one in there if one is not None and one.state == "found")

    def _round(self, ids: set[str], progress: Progress) -> None:
        wanted = [id for id in in_order(filter(_FETCHED, ids)) if id not in self.outcomes]
        self._check({*self.outcomes, *wanted})
        self.outcomes |= self._resolve(wanted, progress)

    def _check(self, ids: set[str]) -> None:
        if len(ids) > self._most:
            counts = ", ".join(f"{number:,} {what}" for what, number in self.counts.items())
            raise ConfigError(
                f"the topic needs at least {len(ids):,} entities ({counts}), above --most {self._most:,}; choose fewer "
                "items, name the relations with --with, or give a higher --most"
            )
