"""Entities as they stand today, or as they stood at the end of a day, and what became of each id.

The forms that are expected of the services, as documented:

* ``wbgetentities`` (help of api.php): 50 ids a request; the answer is keyed by the id that was asked for. An id
  without a page has ``missing``; a merged one has the record of the other, with ``redirects: {from, to}``. With
  ``props=info`` a record has its page, last revision and time alone. What is too large for one answer is left out.
* ``prop=revisions`` (help of api.php): revisions of one page, newest first, from a time on. One whose text was hidden
  has ``sha1hidden``. A page that began later has none.
* ``Special:EntityData/ID.json?revision=N``: the entity as of a revision; 404 for one that is hidden, 400 for one that
  is a redirect.
* ``list=logevents`` (help of api.php): a page that was deleted has an entry ``delete/delete``.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from anachron.core.errors import BackendError
from anachron.wikidata.topic.kept import Kept
from anachron.wikidata.topic.services import AT_ONCE, Services, decoded

State = Literal["found", "merged", "deleted", "missing", "not yet", "hidden"]
FULL = "info|labels|descriptions|aliases|claims|sitelinks|datatype"
ORDER = ("type", "id", "datatype", "labels", "descriptions", "aliases", "claims", "sitelinks", "lastrevid", "modified")
REDIRECT = (400,)  # the state of an entity at a revision that is a redirect
PREFIXES = {"Q": "", "P": "Property:"}  # of the titles of their pages, where no page has shown another
EVER = "9999"  # later than any time of a revision
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Outcome:
    """What became of an id.

    ``found``: ``revision`` is here, of the time ``modified``. ``merged``: into ``to``. ``deleted``: at ``modified``.
    ``missing``: there never was one. ``not yet``: created after the day. ``hidden``: administrators hid the revision of
    that day.
    """

    id: str
    state: State
    revision: int | None = None
    modified: str | None = None
    to: str | None = None

    @property
    def key(self) -> tuple[str, int]:
        """Under which an entity that was found is kept."""
        return self.id, self.revision or 0


class _Redirect(Struct):
    to: str


class _Head(Struct):
    """What each record of an entity has, besides the entity: of a merged one that of the other."""

    id: str
    missing: Any = None
    title: str | None = None
    lastrevid: int = 0
    modified: str = ""
    redirects: _Redirect | None = None

    @property
    def is_missing(self) -> bool:
        return self.missing is not None and self.missing is not False


class _Entities(Struct):
    entities: dict[str, Raw]


class _Revision(Struct):
    revid: int
    timestamp: str
    sha1hidden: bool = False


class _Page(Struct):
    title: str
    missing: bool = False
    revisions: list[_Revision] = []


class _Event(Struct):
    timestamp: str


class _Lists(Struct):
    pages: list[_Page] | None = None
    logevents: list[_Event] | None = None


class _Query(Struct):
    query: _Lists


def dumped(record: Raw) -> bytes:
    """An entity as the service gives it, in the dump's own form: its keys in the dump's order, without its page.

    Only the outermost object is read; what it holds stays as it was written. Addresses of articles, which one service
    gives and the other does not, are left out.
    """
    parts: dict[str, Any] = msgspec.json.decode(record, type=dict[str, Raw])
    links = parts.get("sitelinks")
    if links is not None and b'"url"' in bytes(links):
        plain = msgspec.json.decode(links)
        parts["sitelinks"] = {site: {k: v for k, v in link.items() if k != "url"} for site, link in plain.items()}
    return msgspec.json.encode({name: parts[name] for name in ORDER if name in parts})


class Resolver:
    """Fetches entities of a run and says what became of their ids: by today, or by the end of a day (YYYY-MM-DD, UTC).

    The entities that are found lie in what is kept.
    """

    def __init__(self, services: Services, kept: Kept, day: str | None = None) -> None:
        self.services, self.kept, self.day = services, kept, day
        self._end, self._kind = (EVER, "today") if day is None else (f"{day}T23:59:59Z", f"by {day}")
        self.outcomes = {id: Outcome(**one) for id, one in kept.all(self._kind).items()}
        self._heads = {id: msgspec.convert(one, _Head) for id, one in kept.all("head").items()}

    def resolve(self, ids: Iterable[str], progress: Progress = lambda done, total: None) -> dict[str, Outcome]:
        """The outcomes of ids, and of those that they were merged into.

        progress: told how many answers about single entities are there, and how many are to come as far as is known.
        """
        wanted = dict.fromkeys(ids)
        self._progress, self._done, self._total = progress, 0, len(wanted)
        while True:  # of a run that goes on, the outcomes of before are known
            others = (one.to for id in wanted if (one := self.outcomes.get(id)) is not None)
            wanted |= dict.fromkeys(to for to in others if to is not None)
            left = [id for id in wanted if id not in self.outcomes]
            if not left:
                return {id: self.outcomes[id] for id in wanted}
            self._round(left)

    def _round(self, ids: list[str]) -> None:
        # Today's entity is asked for at once, unless one is kept, of which it may do to know that it did not change.
        first = set(ids) if self.day is not None else self.kept.known(ids)
        for records in self._batches("info", [id for id in ids if id in first and id not in self._heads], "info"):
            with self._answer():
                for id, _, head in records:
                    self._note(id, head)
        self._settle(*(one for id in ids if (one := self._by_head(id)) is not None))
        self._fetch([id for id in ids if id not in self.outcomes and self._is_of_today(id)])
        left = [id for id in ids if id not in self.outcomes]
        self._missing([id for id in left if self._heads[id].is_missing])
        self._history([id for id in left if not self._heads[id].is_missing])

    def _by_head(self, id: str) -> Outcome | None:
        """The outcome of an id, where what is known of its last revision, and what is kept, decide it."""
        head = self._heads.get(id)
        if head is None or head.is_missing:
            return None
        if head.redirects is not None:
            return Outcome(id, "merged", to=head.redirects.to) if self.day is None else None
        here = head.modified <= self._end and self.kept.has_entity(id, head.lastrevid)
        return Outcome(id, "found", head.lastrevid, head.modified) if here else None

    def _is_of_today(self, id: str) -> bool:
        """Whether the entity that is wanted is today's, of which 50 come with a request."""
        head = self._heads.get(id)
        return head is None or not (head.is_missing or head.redirects or head.modified > self._end)

    def _fetch(self, ids: list[str]) -> None:
        for records in self._batches("entities", ids, FULL):
            with self._answer():
                for id, record, head in records:
                    self._note(id, head)
                    # As of a day, what was merged or changed by now has a history to be looked at.
                    if head.is_missing or (self.day is not None and not self._is_of_today(id)):
                        continue
                    self.kept.put_entity(head.id, head.lastrevid, dumped(record))
                    self._put(Outcome(head.id, "found", head.lastrevid, head.modified))
                    if head.redirects is not None:
                        self._put(Outcome(id, "merged", to=head.redirects.to))

    def _batches(self, kind: str, ids: list[str], props: str) -> Iterator[list[tuple[str, Raw, _Head]]]:
        """Records of ids, a list an answer. What was too large for an answer is asked for again."""

        def ask(some: list[str]) -> dict[str, Raw]:
            asked = {"action": "wbgetentities", "ids": "|".join(some), "props": props}
            return self.services.api(kind, _Entities, **asked).entities

        while ids:
            left: list[str] = []
            parts = [ids[at : at + AT_ONCE] for at in range(0, len(ids), AT_ONCE)]
            for some, entities in self.services.map(ask, parts):
                if not entities:
                    raise self._wrong(some[0], "records of the ids, keyed by these", "none")
                left += [id for id in some if id not in entities]
                yield [(id, entities[id], self._head(id, entities[id])) for id in some if id in entities]
            ids = left

    def _head(self, id: str, record: Raw) -> _Head:
        try:
            head = msgspec.json.decode(record, type=_Head)
        except msgspec.MsgspecError as error:
            raise self._wrong(id, "a record with id, lastrevid and modified, or missing", str(error)) from error
        if not head.is_missing and not (head.lastrevid and head.modified):
            raise self._wrong(id, "a record with lastrevid and modified", "one without")
        return head

    def _wrong(self, id: str, expected: str, got: str) -> BackendError:
        return BackendError(f"{self.services.site.api}: of {id} is expected {expected}; the answer has {got}")

    def _title(self, id: str) -> str:
        """The title of its page: a Wikibase may have its items in any namespace, which the titles of others show."""
        shown = (head for head in self._heads.values() if head.title is not None and head.id[0] == id[0])
        return next((str(one.title).removesuffix(one.id) for one in shown), PREFIXES.get(id[0], "")) + id

    def _query(self, kind: str, id: str, name: str, **asked: Any) -> Any:
        """A list that an answer of ``action=query`` has under this name."""
        found = getattr(self.services.api(kind, _Query, action="query", **asked).query, name)
        if found is None:
            raise self._wrong(id, f"query.{name}", "none")
        return found

    def _missing(self, ids: list[str]) -> None:
        """Which of the ids without a page were deleted: the log is asked for one title a request, as documented."""

        def ask(id: str) -> list[_Event]:
            asked = {"leaction": "delete/delete", "letitle": self._title(id), "lelimit": 1, "leprop": "timestamp"}
            return self._query("log", id, "logevents", list="logevents", **asked)

        for id, events in self.services.map(ask, ids):
            deleted = events[0].timestamp if events else None
            self._settle(Outcome(id, "deleted" if deleted else "missing", modified=deleted))

    def _history(self, ids: list[str]) -> None:
        """The last revision of each page up to a time, one page a request as documented, then the entity as of it."""
        known: dict[str, Any] = self.kept.all("history") if ids else {}

        def ask(id: str) -> _Page:
            asked = {"titles": self._title(id), "rvprop": "ids|timestamp|sha1", "rvlimit": 1, "rvstart": self._end}
            pages = self._query("revisions", id, "pages", prop="revisions", **asked)
            if len(pages) != 1:
                raise self._wrong(id, "one page", str(len(pages)))
            return pages[0]

        left = [id for id in ids if id not in known]
        self._total += len(left)
        for id, page in self.services.map(ask, left):
            with self._answer():
                known[id] = msgspec.to_builtins(page)
                self.kept.put("history", id, known[id])
                self._done += 1
        listed = [_listed(id, msgspec.convert(known[id], _Page)) for id in ids]
        wanted = {one.id: one for one in listed if one.state == "found" and not self.kept.has_entity(*one.key)}
        self._settle(*(one for one in listed if one.id not in wanted))
        for _, (outcome, record) in self.services.map(self._at_revision, wanted.values()):
            with self._answer():
                if record is not None:
                    self.kept.put_entity(*outcome.key, dumped(record))
                self._put(outcome)

    def _at_revision(self, one: Outcome) -> tuple[Outcome, Raw | None]:
        address = self.services.site.entity(*one.key)
        response = self.services.get("entity_at_revision", address, allowed=REDIRECT)
        if response is None:
            return replace(one, state="hidden"), None
        if response.status_code in REDIRECT:
            other = self._heads[one.id].redirects
            return replace(one, state="merged", to=None if other is None else other.to), None
        entities = decoded(response, _Entities).entities
        if one.id not in entities or self._head(one.id, entities[one.id]).lastrevid != one.revision:
            raise BackendError(f"{address}: expected the entity {one.id} at this revision; the answer has another")
        return one, entities[one.id]

    @contextmanager
    def _answer(self) -> Iterator[None]:
        """What an answer says is kept as a whole, with the number of requests that there were up to it."""
        with self.kept.answer():
            yield
            self.kept.put("requests", "", self.services.counts)
        self._progress(self._done, max(self._total, self._done))

    def _settle(self, *outcomes: Outcome) -> None:
        if outcomes:
            with self._answer():
                for outcome in outcomes:
                    self._put(outcome)

    def _put(self, outcome: Outcome) -> None:
        self.kept.put(self._kind, outcome.id, asdict(outcome))
        self.outcomes[outcome.id] = outcome
        self._done += 1

    def _note(self, id: str, head: _Head) -> None:
        self.kept.put("head", id, msgspec.to_builtins(head))
        self._heads[id] = head


def _listed(id: str, page: _Page) -> Outcome:
    """What the history of a page up to a time says, of which the last revision is listed."""
    if page.missing:  # deleted since it was asked for
        return Outcome(id, "deleted")
    if not page.revisions:
        return Outcome(id, "not yet")
    last = page.revisions[0]
    return Outcome(id, "hidden" if last.sha1hidden else "found", last.revid, last.timestamp)
