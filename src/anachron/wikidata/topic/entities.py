"""Entities as they stand today, or as they stood at the end of a day, and what became of each id.

The forms that are expected of the services, as documented:

* ``wbgetentities`` (help of api.php): 50 ids a request; the answer is keyed by the id that was asked for. An id
  without a page has ``missing``, and so has a redirect to a redirect; a merged one has the record of the other, with
  ``redirects: {from, to}``. With ``props=info`` a record has its page, last revision and time alone. What is too large
  for one answer is left out.
* ``prop=revisions`` (help of api.php): revisions of one page, newest first, from a time on; or, by ``revids``, those of
  these numbers. One whose text was hidden has ``sha1hidden``. A page that began later has none. The content of the slot
  ``main`` of a redirect is ``{"entity": "Q1", "redirect": "Q2"}`` (EntityContentDataCodec of Wikibase).
* ``Special:EntityData/ID.json?revision=N``: the entity as of a revision; 404 where it is hidden, 400 for a redirect.
* ``list=logevents`` (help of api.php): a page that was deleted has an entry ``delete/delete``, asked for by one title.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from anachron.core.errors import BackendError
from anachron.io.retries import Failure
from anachron.wikidata.topic.kept import Kept
from anachron.wikidata.topic.services import AT_ONCE, Services, decoded

State = Literal["found", "merged", "deleted", "missing", "not yet", "hidden", "unreadable"]
FULL = "info|labels|descriptions|aliases|claims|sitelinks|datatype"
ORDER = ("type", "id", "datatype", "labels", "descriptions", "aliases", "claims", "sitelinks", "lastrevid", "modified")
REDIRECT, BROKEN = 400, 500  # states of an entity at a revision: it is a redirect, and what is stored cannot be read
CONTENT = {"rvprop": "content", "rvslots": "main"}
PREFIXES = {"Q": "", "P": "Property:"}  # of the titles of their pages, where no page has shown another
EVER = "9999"  # later than any time of a revision
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Outcome:
    """What became of an id.

    ``found``: ``revision`` is here, of the time ``modified``. ``merged``: into ``to``. ``deleted``: at ``modified``.
    ``missing``: there never was one. ``not yet``: created after the day. ``hidden``: administrators hid the revision of
    that day. ``unreadable``: the service fails to give it.
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
    revid: int = 0
    timestamp: str = ""
    sha1hidden: bool = False
    slots: dict[str, dict[str, Any]] = {}


class _Page(Struct):
    title: str
    missing: bool = False
    revisions: list[_Revision] = []

    @property
    def leads_to(self) -> str | None:
        """The entity that the page leads to, where its text was asked for and is that of a redirect."""
        try:
            return msgspec.json.decode(self.revisions[0].slots["main"]["content"], type=_Content).redirect
        except (IndexError, KeyError, TypeError, msgspec.MsgspecError):  # no page, or another one of this title
            return None


class _Content(Struct):
    redirect: str


class _Event(Struct):
    timestamp: str


class _Lists(Struct):
    pages: list[_Page] = []
    logevents: list[_Event] | None = None


class _Query(Struct):
    query: _Lists


def end_of(outcomes: Mapping[str, Outcome], id: str) -> Outcome | None:
    """The outcome of an id, or of what it was merged into, however often; ``None`` where it was not asked for."""
    passed: set[str] = set()
    while (one := outcomes.get(id)) is not None and one.to is not None and id not in passed:
        passed.add(id)
        id = one.to
    return one


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
        self.outcomes: dict[str, Outcome] = {}
        self._listed: dict[str, Outcome] = {}  # of which more is to be asked for, as the history says
        for one in kept.all(self._kind).values():
            self._place(Outcome(**one))
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
        first = [id for id in ids if id not in self._heads and (self.day is not None or self.kept.has(id))]
        for records in self._batches("info", first, "info"):
            with self._answer():
                for id, _, head in records:
                    self._note(id, head)
        self._settle(*(one for id in ids if (one := self._by_head(id)) is not None))
        self._fetch([id for id in ids if id not in self.outcomes and self._is_of_today(id)])
        self._missing([id for id in ids if id not in self.outcomes and self._heads[id].is_missing])
        self._history([id for id in ids if id not in self.outcomes])

    def _by_head(self, id: str) -> Outcome | None:
        """The outcome of an id, where what is known of its last revision, and what is kept, decide it."""
        head = self._heads.get(id)
        if head is None or head.is_missing:
            return None
        if head.redirects is not None:
            return Outcome(id, "merged", to=head.redirects.to) if self.day is None else None
        here = head.modified <= self._end and self.kept.has(id, head.lastrevid)
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

    def _page(self, id: str, **asked: Any) -> _Lists:
        """What ``action=query`` says of the page of an id, and of its revisions."""
        kind = "log" if "list" in asked else "revisions"
        found = self.services.api(kind, _Query, action="query", prop="revisions", **asked).query
        if len(found.pages) != 1:
            raise self._wrong(id, "one page", str(len(found.pages)))
        return found

    def _missing(self, ids: list[str]) -> None:
        """Which of the ids that are called missing were deleted, and which are redirects to redirects."""

        def ask(id: str) -> _Lists:
            deleted = {"list": "logevents", "leaction": "delete/delete", "lelimit": 1, "leprop": "timestamp"}
            return self._page(id, titles=self._title(id), letitle=self._title(id), **deleted, **CONTENT)

        for id, found in self.services.map(ask, ids):
            with self._answer():
                if (to := found.pages[0].leads_to) is not None:
                    self._note(id, _Head(id, redirects=_Redirect(to)))
                    outcome = self._by_head(id)
                elif found.logevents is None:
                    raise self._wrong(id, "query.logevents", "none")
                else:
                    deleted = found.logevents[0].timestamp if found.logevents else None
                    outcome = Outcome(id, "deleted" if deleted else "missing", modified=deleted)
                if outcome is not None:
                    self._put(outcome)

    def _history(self, ids: list[str]) -> None:
        """The last revision of each page up to a time, one page a request, then what it holds."""
        for _, outcome in self.services.map(self._last, [id for id in ids if id not in self._listed]):
            self._settle(outcome)
        for state, ask in (("found", self._at_revision), ("merged", self._led)):
            wanted = [self._listed[id] for id in ids if id not in self.outcomes and self._listed[id].state == state]
            for _, (outcome, record) in self.services.map(ask, wanted):
                with self._answer():
                    if record is not None:
                        self.kept.put_entity(*outcome.key, dumped(record))
                    self._put(outcome)

    def _last(self, id: str) -> Outcome:
        asked = {"rvprop": "ids|timestamp|sha1", "rvlimit": 1, "rvstart": self._end}
        page = self._page(id, titles=self._title(id), **asked).pages[0]
        if page.missing:  # deleted since it was asked for
            return Outcome(id, "deleted")
        if not page.revisions:
            return Outcome(id, "not yet")
        last = page.revisions[0]
        if not (last.revid and last.timestamp):
            raise self._wrong(id, "a revision with revid and timestamp", "one without")
        return Outcome(id, "hidden" if last.sha1hidden else "found", last.revid, last.timestamp)

    def _at_revision(self, one: Outcome) -> tuple[Outcome, Raw | None]:
        address = self.services.site.entity(*one.key)
        try:
            response = self.services.get("entity_at_revision", address, allowed=(REDIRECT,))
        except BackendError as error:
            last = error.__cause__
            if not (isinstance(last, Failure) and last.state == BROKEN and last.wait is None):
                raise
            return replace(one, state="unreadable"), None
        if response is None:
            return replace(one, state="hidden"), None
        if response.status_code == REDIRECT:
            return replace(one, state="merged"), None
        entities = decoded(response, _Entities).entities
        if one.id not in entities or self._head(one.id, entities[one.id]).lastrevid != one.revision:
            raise BackendError(f"{address}: expected the entity {one.id} at this revision; the answer has another")
        return one, entities[one.id]

    def _led(self, one: Outcome) -> tuple[Outcome, None]:
        """Where a redirect led on the day, which may be elsewhere than today."""
        to = self._page(one.id, revids=one.revision, **CONTENT).pages[0].leads_to
        if to is None:
            raise self._wrong(one.id, f"a redirect as its revision {one.revision}", "none")
        return replace(one, to=to), None

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
        self._place(outcome)
        self._done += 1
        self._total += outcome.id not in self.outcomes  # there is more to ask for

    def _place(self, one: Outcome) -> None:
        """Tell an outcome from what is only listed: without its entity, or without what it was merged into."""
        whole = one.to is not None if one.state == "merged" else one.state != "found" or self.kept.has(*one.key)
        (self.outcomes if whole else self._listed)[one.id] = one

    def _note(self, id: str, head: _Head) -> None:
        self.kept.put("head", id, msgspec.to_builtins(head))
        self._heads[id] = head
