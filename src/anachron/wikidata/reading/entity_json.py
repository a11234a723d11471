"""The JSON of an entity, as far as it is read: the shapes of its parts, and what single values say."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from anachron.wikidata.reading.times import FINEST

Rank = Literal["preferred", "normal", "deprecated"]
SnakType = Literal["value", "somevalue", "novalue"]
EmptyMap = Annotated[list[Any], Meta(max_length=0)]  # an empty map may be written []


class Value(Struct, gc=False):
    """The value of any datatype that is an object: each has some of these fields."""

    id: str | None = None
    numeric_id: int | None = field(default=None, name="numeric-id")
    entity_type: str | None = field(default=None, name="entity-type")
    time: str | None = None
    precision: Any = None
    calendarmodel: str | None = None
    amount: str | None = None
    unit: str | None = None
    text: str | None = None
    language: str | None = None
    latitude: int | float | None = None
    longitude: int | float | None = None


class Data(Struct, gc=False):
    type: str
    value: str | Value | int | float | bool | list[Any] | None


class Snak(Struct, gc=False):
    snaktype: SnakType
    datavalue: Data | None = None
    datatype: str | None = None


class Light(Struct, gc=False):
    """A statement of which only the value is needed."""

    mainsnak: Snak
    rank: Rank = "normal"


class Statement(Light, gc=False):
    id: str | None = None
    qualifiers: dict[str, list[Snak]] | EmptyMap | None = None


class Claims(Struct, gc=False):
    claims: dict[str, list[Statement]] | EmptyMap | None = None


class Reference(Struct, gc=False):
    snaks: dict[str, list[Snak]] | EmptyMap = field(default_factory=list)


class Referenced(Statement, gc=False):
    references: list[Reference] | None = None


class ReferencedClaims(Struct, gc=False):
    """As `Claims`, with what dumps hold most of and an ingest is seldom asked for."""

    claims: dict[str, list[Referenced]] | EmptyMap | None = None


class Term(Struct, gc=False):
    value: str


class Link(Struct, gc=False):
    title: str


class Head(Struct, gc=False):
    id: str
    type: str


def is_precision(precision: Any) -> bool:
    return type(precision) is int and -128 <= precision <= 127


def unknown_precision(data: Data) -> str | None:
    """What is wrong with a time whose precision is none of Wikidata's, in words; None for all other values."""
    value = data.value
    if data.type != "time" or not isinstance(value, Value) or value.time is None:
        return None
    if is_precision(value.precision) and 0 <= value.precision <= FINEST:
        return None
    return f"{value.time} has the precision {value.precision!r}, which is none of 0 to {FINEST}"


def id_of_value(value: Value) -> str | None:
    """Id of an entity value; very old dumps give only its number."""
    if value.id is not None:
        return value.id
    letter = {"item": "Q", "property": "P"}.get(value.entity_type or "")
    return f"{letter}{value.numeric_id}" if letter and value.numeric_id is not None else None


def entity_of(snak: Snak) -> str | None:
    data = snak.datavalue
    if data is None or snak.snaktype != "value" or data.type != "wikibase-entityid":
        return None
    value = data.value
    return (value.id or id_of_value(value)) if isinstance(value, Value) else None


def unit_of(value: Value) -> str | None:
    """Id of the unit of a quantity, by the end of its address; None of a bare number."""
    return None if value.unit in (None, "1") else value.unit.rpartition("/")[2]


def entities_of(claims: list[Any] | None) -> tuple[str, ...]:
    """Distinct entities among the values that are not deprecated, in order."""
    if not claims:
        return ()
    if len(claims) == 1:
        one = entity_of(claims[0].mainsnak)
        return () if one is None or claims[0].rank == "deprecated" else (one,)
    return distinct([entity_of(claim.mainsnak) for claim in claims if claim.rank != "deprecated"])


def distinct(ids: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(id for id in ids if id is not None))
