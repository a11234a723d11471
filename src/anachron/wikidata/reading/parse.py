"""One entity of a dump, as a line of JSON, to plain rows.

Only the fields that a snapshot keeps are decoded; msgspec skips the rest without building objects. A line is decoded
with the few claims that every entity gives (classes, parents, dates of creation), and once more with all of them where
it is a subject: most are none, and that, not the JSON, decides how fast a dump is read.

The columns are described in `anachron.wikidata.reading.snapshot`.
"""

import re
from collections.abc import Iterable
from functools import lru_cache, reduce
from operator import attrgetter, getitem
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import field

from anachron.core.dates import Date
from anachron.core.errors import ConfigError
from anachron.wikidata.reading.entity_json import (
    Claims,
    Data,
    EmptyMap,
    Head,
    Light,
    Link,
    ReferencedClaims,
    Snak,
    Statement,
    Term,
    Value,
    distinct,
    entities_of,
    entity_of,
    id_of_value,
    is_precision,
    unit_of,
    unknown_precision,
)
from anachron.wikidata.reading.mend import without_halves
from anachron.wikidata.reading.times import YEAR, first_year, read_time

CREATED = ("P571", "P569", "P580", "P575", "P1619", "P6949", "P585", "P577")  # the first one known counts
START, END, POINT = "P580", "P582", "P585"
SINGLE_VALUE = frozenset({"Q19474404", "Q52060874"})
_IS_ID = {
    kind: re.compile(rf"{letter}[1-9][0-9]{{0,11}}").fullmatch
    for kind, letter in (("item", "Q"), ("property", "P"), ("lexeme", "L"))
}
# What a value may name; longer numbers than `anachron.wikidata.updates.features` has room for are none of Wikidata's.
_NAMES_ENTITY = re.compile(r"[QPLME][0-9]{1,12}|L[0-9]{1,8}-[FS][0-9]{1,4}").fullmatch
_WIKI = re.compile(r"[a-z][a-z0-9_]*")
_LANGUAGE = re.compile(r"[a-z]+(-[a-z0-9]+)*")

Row = tuple[Any, ...]
_NO_VALUE: Row = (None, None, None, None, None)
_NO_QUALIFIERS: Row = (None, None, None, "{}")
_created_of = attrgetter(*CREATED)


class Entity(NamedTuple):
    """What one line holds. ``kind`` is item, property, lexeme, or unlisted (an item outside ``--entities``).

    ``entity``: row of `entities` (items, unlisted ones too: they occur as objects and classes); ``statements``: rows of
    `statements` (None for an item that is no subject);
    ``parents``: its P279 values; ``property``: row of `properties`; ``left_out``: values that could
    not be read, in words.
    """

    id: str
    kind: Literal["item", "property", "lexeme", "unlisted"]
    entity: Row | None = None
    statements: list[Row] | None = None
    parents: tuple[str, ...] = ()
    property: Row | None = None
    left_out: tuple[str, ...] = ()


class BadEntity(ValueError):
    """A line that is no entity; ``id`` is given where it could be read."""

    def __init__(self, reason: str, id: str | None = None) -> None:
        super().__init__(reason)
        self.id = id


def title_wiki(wiki: str, language: str) -> str:
    """The wiki whose titles are kept: the asked one, or with ``all`` the Wikipedia of the language."""
    return f"{language.replace('-', '_')}wiki" if wiki == "all" else wiki


def _optional(name: str, fields: Iterable[tuple[str, str, Any]]) -> Any:
    """A struct of fields (attribute, key, type) that may all be missing."""
    return msgspec.defstruct(name, [(a, t | None, field(default=None, name=k)) for a, k, t in fields], gc=False)


class Parser:
    """Reads lines for one choice of wiki (``all`` keeps every item as a subject), language and listed ids.

    references: whether those of the statements are kept, which are most of a dump. Raises `ConfigError` for a wiki or
    language that cannot be one.
    """

    def __init__(
        self, wiki: str = "enwiki", language: str = "en", listed: frozenset[str] | None = None, references: bool = False
    ) -> None:
        if not _WIKI.fullmatch(wiki):
            raise ConfigError(f"--wiki {wiki!r}: give the name of a wiki as in sitelinks (enwiki, frwiki), or all")
        if not _LANGUAGE.fullmatch(language):
            raise ConfigError(f"--language {language!r}: give a language code (en, fr, pt-br)")
        self._all = wiki == "all"
        self._listed, self._references = listed, references
        self._left_out: list[str] = []  # of the line that is being read
        wiki = title_wiki(wiki, language)
        languages = {"wanted": language} if language == "mul" else {"wanted": language, "mul": "mul"}
        texts = _optional("Texts", [(a, key, Term) for a, key in languages.items()])
        links = _optional("Links", [("wanted", wiki, Link)])
        needed = [(p, p, list[Light]) for p in ("P31", "P279", *CREATED)]
        some = _optional("Some", [*needed, ("P2302", "P2302", list[Statement])])

        fields: list[Any] = [
            ("id", str),
            ("type", str),
            ("datatype", str | None, None),
            ("labels", texts | EmptyMap | None, None),
            ("descriptions", texts | EmptyMap | None, None),
            ("sitelinks", links | EmptyMap | None, None),
            ("claims", some | EmptyMap | None, None),
            ("lastrevid", Any, None),
            ("modified", Any, None),
        ]
        self._none = some()
        self._line = msgspec.json.Decoder(msgspec.defstruct("Line", fields, gc=False)).decode
        self._claims: Any = msgspec.json.Decoder(ReferencedClaims if references else Claims).decode
        self._head = msgspec.json.Decoder(Head).decode
        self._time = lru_cache(maxsize=1 << 16)(read_time)
        self._json = msgspec.json.Encoder().encode

    def read(self, line: bytes | memoryview) -> Entity:
        """The entity of a line. Raises `BadEntity` for invalid JSON, wrong types and ids that are none.

        What is only wrong in one value costs that value: a label goes, the value of a statement or qualifier is one
        that is not known.
        """
        try:
            return self._read(line)
        except BadEntity:
            if (mended := without_halves(line, self._references)) is None:
                raise
        entity = self._read(mended[0])
        broken = tuple(f"{what}: half a surrogate pair is no text" for what in mended[1])
        return entity._replace(left_out=broken + entity.left_out)

    def _read(self, line: bytes | memoryview) -> Entity:
        self._left_out = []
        try:
            record: Any = self._line(line)
            _checked(record.id, record.type)
            if record.type == "item":
                return self._item(record, line)
            if record.type == "property":
                return self._property(record)
            return Entity(record.id, "lexeme")
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BadEntity(str(error), self._id_of(line)) from None

    def _id_of(self, line: bytes | memoryview) -> str | None:
        try:
            return str(self._head(line).id)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None

    def _item(self, record: Any, line: bytes | memoryview) -> Entity:
        link = getattr(record.sitelinks, "wanted", None)
        title = link.title if link is not None else None
        claims = record.claims
        if claims:
            classes, parents = entities_of(claims.P31), entities_of(claims.P279)
            created, by = self._created(claims)
        else:
            classes, parents, created, by = (), (), None, None
        texts = _text(record.labels), _text(record.descriptions)
        listed = self._listed is None or record.id in self._listed
        rows, revision, modified = None, None, None
        if listed and (self._all or title is not None):
            self._left_out.clear()  # what gives the date of creation is among the statements
            rows = self._statements(record.id, line)
            if type(record.lastrevid) is int and record.lastrevid < 1 << 63:
                revision = record.lastrevid
            modified = record.modified if isinstance(record.modified, str) else None
        row = (record.id, *texts, title, classes, created, by, revision, modified)
        kind: Literal["item", "unlisted"] = "item" if listed else "unlisted"
        return Entity(record.id, kind, row, rows, parents, left_out=tuple(self._left_out))

    def _property(self, record: Any) -> Entity:
        claims = record.claims or self._none
        constraints = []
        for claim in claims.P2302 or ():
            qualifiers = claim.qualifiers if isinstance(claim.qualifiers, dict) else {}
            constraints.append(
                {
                    "kind": entity_of(claim.mainsnak),
                    "rank": claim.rank,
                    "separators": distinct(map(entity_of, qualifiers.get("P4155", ()))),
                    "exceptions": distinct(map(entity_of, qualifiers.get("P2303", ()))),
                }
            )
        single = [c for c in constraints if c["kind"] in SINGLE_VALUE and c["rank"] != "deprecated"]
        parents = entities_of(claims.P279)
        row = (
            record.id, _text(record.labels), _text(record.descriptions), record.datatype, entities_of(claims.P31),
            parents, bool(single), distinct(p for c in single for p in c["separators"]),
            distinct(q for c in single for q in c["exceptions"]), constraints,
        )  # fmt: skip
        return Entity(record.id, "property", parents=parents, property=row)

    def _created(self, claims: Any) -> tuple[str | None, str | None]:
        """Date text of the first of the creation properties with a readable value, and that property.

        Of a decade, century or millennium it is the first year: from then on the entity may have existed. What is
        coarser tells nothing of use.
        """
        claimed = _created_of(claims)
        if not any(claimed):
            return None, None
        for name, statements in zip(CREATED, claimed, strict=True):
            if not statements:
                continue
            dates: list[str] = []
            for claim in statements:
                data = claim.mainsnak.datavalue
                if data is None or claim.rank == "deprecated" or data.type != "time":
                    continue
                _, date, _, precision, _ = self._value(data)
                if date is None and (wrong := unknown_precision(data)):
                    self._left_out.append(f"a statement of {name}: {wrong}")
                if date is not None and precision < YEAR:
                    year = first_year(int(date), precision)
                    date = None if year is None else str(Date(year))
                if date is not None:
                    dates.append(date)
                    if name != "P577":
                        break
            if dates:
                return (dates[0] if len(dates) == 1 else min(dates, key=_age)), name
        return None, None

    def _value(self, data: Data) -> Row:
        """(value_type, value, value_extra, value_precision, value_calendar); where it is other: see `_raw`."""
        kind, value = data.type, data.value
        if kind == "string":
            if isinstance(value, str):
                return "text", value, None, None, None
        elif isinstance(value, Value):
            if kind == "wikibase-entityid":
                id = value.id or id_of_value(value)
                if id is not None:
                    return "entity" if _NAMES_ENTITY(id) else "no entity", id, None, None, None
            elif kind == "time":
                if value.time is not None and is_precision(value.precision) and value.calendarmodel is not None:
                    date, precision, calendar = self._time(value.time, value.precision, value.calendarmodel)
                    return "time", date, value.time, precision, calendar
            elif kind == "quantity":
                if value.amount is not None:
                    return "quantity", value.amount, unit_of(value), None, None
            elif kind == "monolingualtext":
                if value.text is not None:
                    return "monolingual", value.text, value.language, None, None
            elif kind == "globecoordinate" and value.latitude is not None and value.longitude is not None:
                return "coordinate", f"{value.latitude},{value.longitude}", None, None, None
        return "other", None, None, None, None

    def _statements(self, subject: str, line: bytes | memoryview) -> list[Row]:
        rows: list[Row] = []
        value_of, append = self._value, rows.append
        for name, claims in dict(self._claims(line).claims or ()).items():
            for number, claim in enumerate(claims):
                snak = claim.mainsnak
                data, snaktype = snak.datavalue, snak.snaktype
                value: tuple[Any, ...] = _NO_VALUE
                if snak.snaktype == "value":
                    if data is None:
                        raise BadEntity(f"statement {claim.id} of {name} has no datavalue", subject)
                    value = value_of(data)
                    if value[1] is None and (wrong := unknown_precision(data)):
                        self._left_out.append(f"statement {claim.id} of {name}: {wrong}")
                    if value[0] == "other":
                        value = ("other", self._raw(line, name, number, "mainsnak"), None, None, None)
                    elif value[0] == "no entity":
                        self._left_out.append(
                            f"statement {claim.id} of {name}: {value[1]!r} is not the id of an entity"
                        )
                        snaktype, value = "somevalue", _NO_VALUE
                dates = _NO_QUALIFIERS
                if claim.qualifiers:
                    dates = self._qualifiers(claim.qualifiers, line, name, number)
                sources = self._sources(claim, line, name, number) if self._references else None
                append((subject, name, claim.id, claim.rank, snak.datatype, snaktype, *value, *dates, sources))
        return rows

    def _sources(self, claim: Any, line: bytes | memoryview, name: str, number: int) -> str | None:
        """The references of a statement as JSON: a list of what each says, as of qualifiers."""
        kept = [
            {
                key: self._texts(key, snaks, line, (name, number, "references", place, "snaks"), "reference")
                for key, snaks in dict(reference.snaks).items()
            }
            for place, reference in enumerate(claim.references or ())
        ]
        return self._json(kept).decode() if kept else None

    def _qualifiers(self, qualifiers: dict[str, list[Snak]], line: bytes | memoryview, name: str, number: int) -> Row:
        """Start, end, point in time and all others as JSON."""
        dates: dict[str, Row | None] = {START: None, END: None, POINT: None}
        others: dict[str, list[tuple[str, str | None]]] = {}
        for key, snaks in qualifiers.items():
            if key in dates and snaks:
                shown = next((s for s in snaks if s.snaktype == "value"), snaks[0])
                dates[key] = self._date(shown, len(snaks))
                if len(snaks) == 1:
                    if shown.datavalue is not None and (wrong := unknown_precision(shown.datavalue)):
                        self._left_out.append(f"qualifier {key} of a statement of {name}: {wrong}")
                    continue
            others[key] = self._texts(key, snaks, line, (name, number, "qualifiers"), "qualifier")
        return dates[START], dates[END], dates[POINT], self._json(others).decode() if others else "{}"

    def _texts(
        self, key: str, snaks: list[Snak], line: bytes | memoryview, path: tuple[Any, ...], what: str
    ) -> list[tuple[str, str | None]]:
        """Kind and text of each value of a property of a statement. path: where these are among the claims."""
        texts: list[tuple[str, str | None]] = []
        for place, snak in enumerate(snaks):
            text, snaktype = None, snak.snaktype
            if snak.snaktype == "value":
                if snak.datavalue is None:
                    raise BadEntity(f"{what} {key} of a statement of {path[0]} has no datavalue")
                kind, text, *_ = self._value(snak.datavalue)
                if text is None and (wrong := unknown_precision(snak.datavalue)):
                    self._left_out.append(f"{what} {key} of a statement of {path[0]}: {wrong}")
                if kind == "other":
                    text = self._raw(line, *path, key, place)
                elif kind == "no entity":
                    self._left_out.append(
                        f"{what} {key} of a statement of {path[0]}: {text!r} is not the id of an entity"
                    )
                    text, snaktype = None, "somevalue"
            texts.append((snaktype, text))
        return texts

    def _date(self, snak: Snak, values: int) -> Row:
        if snak.snaktype != "value":
            return ("unknown" if snak.snaktype == "somevalue" else "open", None, None, None, None, values)
        if snak.datavalue is None:
            raise BadEntity("a date qualifier has no datavalue")
        kind, date, raw, precision, calendar = self._value(snak.datavalue)
        if kind != "time":  # a property of another type, in a wiki of one's own: known, and no date
            return ("known", None, None, None, date, values)
        return ("known", date, precision, calendar, raw, values)

    def _raw(self, line: bytes | memoryview, *path: Any) -> str:
        """Compact JSON of a value of a kind that we do not know, which is rare enough to read the line again."""
        snak = reduce(getitem, path, msgspec.json.decode(line)["claims"])
        return self._json(snak["datavalue"]["value"]).decode()


def _checked(id: str, kind: str) -> str:
    is_id = _IS_ID.get(kind)
    if is_id is None:
        raise BadEntity(f"type {kind!r} is none of item, property, lexeme", id)
    if not is_id(id):
        raise BadEntity(f"{id!r} is not the id of a {kind}", id)
    return id


def _text(texts: Any) -> str | None:
    """The text in the wanted language, else the one for all languages."""
    term = getattr(texts, "wanted", None) or getattr(texts, "mul", None)
    return term.value if term is not None else None


def _age(date: str) -> int:
    return Date.parse(date).first_day
