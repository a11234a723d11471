"""Which items a topic consists of: a list of ids, a query, or words that become a query.

What is expected of a query service: SPARQL 1.1 results in JSON, in which an item is a ``uri`` that ends in
``/entity/Q30``. That of Wikidata stops a query after 60 seconds: with 500 and a Java trace, with 504, or in the middle
of an answer with 200, whose JSON then breaks off (`ids_of_answer` says so).
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from anachron.core.errors import ConfigError, DataError
from anachron.data.own.encodings import decoded
from anachron.data.own.files import DELIMITED, ENDINGS, column_names, read_rows
from anachron.io.files import Json, read_bytes, read_text, refuse_binary, rows_fingerprint
from anachron.io.stores import Place, place

# The query service knows these without being told; they are written all the same, so that any engine can be asked.
_PREFIXES = {
    "wd": "http://www.wikidata.org/entity/",
    "wdt": "http://www.wikidata.org/prop/direct/",
    "p": "http://www.wikidata.org/prop/",
    "ps": "http://www.wikidata.org/prop/statement/",
    "pq": "http://www.wikidata.org/prop/qualifier/",
    "wikibase": "http://wikiba.se/ontology#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}
# What an item can be in: a continent, a country, a whole, an organisation, a league, or (over any number of steps) a
# place
_IN = "wdt:P30|wdt:P17|wdt:P361|wdt:P463|wdt:P118|wdt:P131+"
NUMBER = "[1-9][0-9]{0,8}"  # of an id: one that is too large for the service spoils the whole request
_ITEM = re.compile(rf"(?:<?https?://[^\s<>]+/(?:entity/|wiki/(?:Item:)?))?(Q{NUMBER})>?")
_PROPERTY = re.compile(f"P{NUMBER}")
_SELECT = re.compile(r"\bSELECT\b", re.IGNORECASE)
_WORDS = re.compile(
    r"instances of (?P<instances_of>\S+)(?: with (?P<with_>.+?))?(?: in (?P<in_>\S+))?(?: since (?P<since>-?\d+))?"
)


@dataclass(frozen=True, kw_only=True)
class Topic:
    """Which items are wanted, said in exactly one way.

    items: their ids. query: SPARQL with a variable of items. instances_of: a class, theirs or one above it (Wikidata's
    P31 and P279), and, if wanted, ``with_``: they have a statement of one of these relations, with a value and not
    deprecated; ``in_``: the continent, country, place, league, organisation or whole that they are in; ``since``: one
    of these statements has a start, an end, or a point in time in that year or later, and no end before it. found_by:
    the topic whose query gave these items (`found`), for manifests.

    Raises `ConfigError` for no way, for several, and for what is no id.
    """

    items: tuple[str, ...] = ()
    query: str | None = None
    instances_of: str | None = None
    with_: tuple[str, ...] = ()
    in_: str | None = None
    since: int | None = None
    found_by: "Topic | None" = None

    def __post_init__(self) -> None:
        ways = (bool(self.items), self.query is not None, self.instances_of is not None)
        if sum(ways) != 1:
            raise ConfigError(
                f"a topic is said in {'several ways' if any(ways) else 'no way'}; give one of items (--items), a query "
                "(--query) and a class (--instances-of)"
            )
        if self.instances_of is None and (self.with_ or self.in_ is not None or self.since is not None):
            raise ConfigError("--with, --in and --since narrow down --instances-of; give that too")
        for option, ids in (("--instances-of", [self.instances_of]), ("--in", [self.in_]), ("items", self.items)):
            for id in ids:
                if id is not None and item_id(id) != id:
                    raise ConfigError(f"{option} {id!r} is not the id of an item; write it as Q30")
        for id in self.with_:
            if not _PROPERTY.fullmatch(id):
                raise ConfigError(f"--with {id!r} is not the id of a relation; write ids such as P6,P35")
        if self.since is not None and not (self.with_ and 1 <= self.since <= 9999):
            raise ConfigError(
                f"--since {self.since}: give a year from 1 to 9999, and the relations it is asked of, --with"
            )
        if self.query is not None and not _SELECT.search(self.query):
            raise ConfigError(f"the query {self.query.strip()[:60]!r} is no SELECT; write one with a variable ?item")

    def sparql(self) -> str | None:
        """The query that finds the items; None where they are listed."""
        if self.instances_of is None:
            return self.query
        lines = [f"?item wdt:P31/wdt:P279* wd:{self.instances_of} ."]
        if self.in_ is not None:
            lines.append(f"?item ({_IN}) wd:{self.in_} .")
        if self.with_:
            statement, value = ("|".join(f"{of}:{id}" for id in self.with_) for of in ("p", "ps"))
            lines.append(f"?item ({statement}) ?statement .")
            lines.append(f"?statement ({value}) ?value ; wikibase:rank ?rank .")
            lines.append("FILTER(?rank != wikibase:DeprecatedRank)")
        if self.since is not None:
            year = f'"{self.since:04}-01-01T00:00:00Z"^^xsd:dateTime'
            of_year = f"{{ ?statement pq:P585 ?at . FILTER(?at >= {year}) }}"
            lines.append(f"{{ ?statement (pq:P580|pq:P582) ?date . }} UNION {of_year}")
            lines.append(f"FILTER NOT EXISTS {{ ?statement pq:P582 ?end . FILTER(?end < {year}) }}")
        body = "\n".join(f"  {line}" for line in lines)
        used = [f"PREFIX {name}: <{of}>" for name, of in _PREFIXES.items() if f"{name}:" in body]
        return "\n".join([*used, "SELECT DISTINCT ?item WHERE {", body, "}"]) + "\n"

    def found(self, ids: Iterable[str]) -> "Topic":
        """The topic of these items, which remembers by which query they were found. Raises `DataError` for none."""
        if not (ids := tuple(ids)):
            raise DataError(f"the query finds no items ({self.words()}); widen it, or try it at the service itself")
        return Topic(items=ids, found_by=self)

    def words(self) -> str:
        """How the items were chosen, in one line, as `topic_of` reads it."""
        if self.found_by is not None:
            return self.found_by.words()
        if self.instances_of is None:
            return f"{len(self.items):,} items" if self.items else "the items of a query"
        parts = [f"instances of {self.instances_of}", f"with {','.join(self.with_)}" if self.with_ else ""]
        parts += [f"in {self.in_}" if self.in_ else "", f"since {self.since}" if self.since is not None else ""]
        return " ".join(filter(None, parts))

    def describe(self) -> Json:
        """The same for manifests and cards: words, the query if there is one, and the ids by number and fingerprint."""
        told: Json = {"words": self.words()}
        if (query := (self.found_by or self).sparql()) is not None:
            told["query"] = query
        return told | ({"items": len(self.items), "sha256": rows_fingerprint(self.items)} if self.items else {})


def topic_of(text: str) -> Topic:
    """The topic that one text says: ids with commas between, a file (``.rq``, ``.sparql``: of a query, others: of ids),
    or the words of `Topic.words`.

    Raises `ConfigError` for anything else, and `DataError` for a file that cannot be read.
    """
    if match := _WORDS.fullmatch(" ".join(text.split())):
        said = match.groupdict()
        with_ = tuple(said["with_"].replace(",", " ").split()) if said["with_"] else ()
        since = None if said["since"] is None else int(said["since"])
        return Topic(instances_of=said["instances_of"], with_=with_, in_=said["in_"], since=since)
    if place(text).suffix.casefold() in (".rq", ".sparql"):
        return Topic(query=read_text(text, "the query"))
    return Topic(items=items_of(text))


def items_of(text: str) -> tuple[str, ...]:
    """The ids of a text such as ``Q30,Q142``, or of the file of that name. Raises as `read_items`."""
    if ids := _ids(part for part in text.split(",") if part.strip()):
        return ids
    if not place(text).is_file():
        raise ConfigError(
            f"{text!r} is neither ids with commas between (Q30,Q142) nor a file of them, and there is no such file; "
            "a class is said as 'instances of Q3624078 with P6,P35 in Q46 since 1990'"
        )
    return read_items(text)


def item_id(text: str) -> str | None:
    """``Q30`` of that id or of an address that ends in it (``http://www.wikidata.org/entity/Q30``); else None."""
    found = _ITEM.fullmatch(text.strip())
    return found[1] if found else None


def _ids(texts: Iterable[Any]) -> tuple[str, ...]:
    """The distinct ids of these, in their order; none where one is no id."""
    ids = dict.fromkeys(item_id(str(text)) for text in texts)
    return () if None in ids else tuple(id for id in ids if id is not None)


def read_items(path: Place | str) -> tuple[str, ...]:
    """The distinct ids of a file, in its order: one a line, or in the one column of a table that holds them.

    Ids may be addresses, as the query service exports them. In a file of lines, blank ones and those that begin with #
    are passed over, and the first may be a header. Of a table (`anachron.data.own.files.ENDINGS`) a column named
    ``item`` goes before others.

    Raises `DataError` naming the first line that is no id, and `ConfigError` naming the columns of a table without such
    a one.
    """
    path = place(path)
    ending = path.suffix.casefold()
    if ending in ENDINGS and not (ending in DELIMITED and len(column_names(path)) < 2):
        table = read_rows(path)
        return _of_columns({name: [row[name] for row in table.rows] for name in table.columns}, str(path), "column ")
    refuse_binary(path)
    lines = enumerate(decoded(read_bytes(path))[0].splitlines(), 1)
    words = [(n, line.strip().strip('"')) for n, line in lines if line.strip() and not line.lstrip().startswith("#")]
    if ending in DELIMITED and len(words) > 1 and item_id(words[0][1]) is None:
        del words[0]  # the header
    if not words:
        raise DataError(f"{path} lists no items; write one id a line, as Q76")
    for number, word in words:
        if item_id(word) is None:
            raise DataError(f"{path}, line {number}: {word!r} is not the id of an item; write one id a line, as Q76")
    return _ids(word for _, word in words)


def ids_of_answer(answer: bytes | str | Json) -> tuple[str, ...]:
    """The distinct items of a SPARQL answer in JSON, in order of their numbers: an engine gives them in any.

    They are the values of the one variable that holds items and nothing else; where several do, of ``?item``. Raises
    `DataError` for an answer that is cut off or of another form, `ConfigError` where the query names no such variable
    or several.
    """
    content: Any = answer
    if isinstance(answer, bytes | str):
        try:
            content = json.loads(answer)
        except ValueError:
            raise DataError(f"the query service broke off its answer: {why_failed(answer)}") from None
    try:
        names, rows = content["head"]["vars"], content["results"]["bindings"]
        columns: dict[str, list[Any]] = {name: [row[name]["value"] for row in rows if name in row] for name in names}
    except (KeyError, TypeError):
        raise DataError(f"{str(answer)[:80]!r} is no answer to a SELECT in the form of SPARQL 1.1 results") from None
    if not rows:
        return ()
    return tuple(sorted(_of_columns(columns, "the answer of the query", "?"), key=lambda id: int(id[1:])))


def why_failed(answer: bytes | str) -> str:
    """What a query service says of a failure, in one line: that the time was up, or the beginning of its words."""
    text = answer.decode(errors="replace") if isinstance(answer, bytes) else answer
    if "TimeoutException" in text or "upstream request timeout" in text:
        return "the query takes longer than the service allows (60 seconds at Wikidata); narrow it down, or use --items"
    return " ".join(text.split())[:200] or "it says nothing"


def _of_columns(columns: dict[str, list[Any]], where: str, mark: str) -> tuple[str, ...]:
    """The items of the one column all of whose values are such, or of the one that is called item."""
    held = {name: _ids(value for value in values if value is not None) for name, values in columns.items()}
    items = {name: ids for name, ids in held.items() if ids}
    if len(items) > 1:
        items = {name: of for name, of in items.items() if name.casefold() == "item"} or items
    if len(items) != 1:
        shown = ", ".join(f"{mark}{name}" for name in (items or columns)) or "none"
        raise ConfigError(
            f"{where} has {'several sets' if items else 'no'} of items, in {shown}; name the one that is meant item"
            if items
            else f"{where} holds no items; it has {shown}, and one of these must hold ids or addresses of items alone"
        )
    return next(iter(items.values()))
