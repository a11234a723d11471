"""The one client of all requests to a Wikibase: named, patient, one request at a time, and counted.

What Wikimedia asks of clients (https://www.mediawiki.org/wiki/API:Etiquette, its user-agent policy): an agent string
with a way to reach whoever runs it, requests in series, ``maxlag=5``, ``Retry-After`` obeyed, gzip, many ids in one
request. A server that is behind answers api.php with the state 200, the error ``maxlag`` and a ``Retry-After``.
"""

import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, Self, TypeVar

import msgspec

from anachron.core.errors import BackendError, ConfigError
from anachron.io.retries import Failure
from anachron.io.servers import retry_after
from anachron.io.waiting import result_of
from anachron.wikidata.fetching.web import FetchSettings, client, request
from anachron.wikidata.topic.choose import why_failed
from anachron.wikidata.topic.site import Site

if TYPE_CHECKING:
    import httpx2

AT_ONCE = 50  # ids or titles in one request: the documented limit of api.php for whoever is no bot
MAXLAG = 5  # seconds
MOST = 3  # requests at a time of Wikimedia
QUERY_FAILS = (400, 414, 500, 504)  # states by which a query service says what is wrong with a query
QUERY_TIMEOUT = 75.0  # seconds; Wikidata's stops a query after 60
LONGEST_GET = 2_000  # characters of a query; a longer one goes by POST, as an address has its bounds
CONTACT = "ANACHRON_CONTACT"
PASSING = ("maxlag", "ratelimited", "readonly", "internal_api_error")  # errors of api.php that pass, by their begin
SHOWN = 120  # characters of an answer in a message
Thing = TypeVar("Thing")
Result = TypeVar("Result")


def contact_of(given: str | None) -> str:
    """Whom to ask about these requests: as given, else as the environment says. Raises `ConfigError` without one."""
    contact = (given or os.environ.get(CONTACT, "")).strip()
    if not contact:
        raise ConfigError(
            "no contact: Wikimedia asks every client for a mail address or a page of whoever runs it; give --contact, "
            f"or set it once: export {CONTACT}=you@example.org"
        )
    return contact


class _Said(msgspec.Struct):
    error: dict[str, Any] | None = None


class Services:
    """Requests to a site; a context manager. ``counts``: how many were answered, by kind; ``seconds``: what they took.

    at_a_time: most requests on their way at once. A pause that one of them is asked for, all make. Whoever leaves the
    context ends them: one that pauses is not tried again. Raises `ConfigError` for fewer than one, for more than
    `MOST` of Wikimedia, and as `contact_of`.
    """

    def __init__(self, site: Site, web: FetchSettings | None = None, at_a_time: int = 1) -> None:
        if at_a_time < 1:
            raise ConfigError(f"--requests {at_a_time}: give at least 1 request at a time")
        if at_a_time > MOST and site.of_wikimedia:
            raise ConfigError(f"--requests {at_a_time}: Wikimedia asks for one at a time; give at most {MOST} there")
        web = web or FetchSettings()
        self.site, self.at_a_time = site, at_a_time
        self._ended, self._not_before = Event(), 0.0
        self._sleep = self._ended.wait if web.sleep is time.sleep else web.sleep
        self.web = replace(web, contact=contact_of(web.contact), sleep=self._pause)
        self.counts: Counter[str] = Counter()
        self.seconds = 0.0
        self._lock, self._opened = Lock(), ExitStack()

    def __enter__(self) -> Self:
        self._client = self._opened.enter_context(client(self.web, "gzip"))
        self._client.event_hooks = {"request": [self._begin]}
        self._pool = self._opened.enter_context(ThreadPoolExecutor(self.at_a_time))  # waits for its threads at the end
        self._opened.callback(self._ended.set)
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def _pause(self, seconds: float) -> None:
        """Pause before another try, and hold up the requests of all threads until then."""
        until = time.monotonic() + seconds
        with self._lock:
            self._not_before = max(self._not_before, until)
        self._sleep(seconds)
        with self._lock:
            if self._not_before == until:  # a sleep of a test's own is over at once
                self._not_before = 0.0

    def _begin(self, _: object) -> None:
        """Called before each request is sent, also one that is tried again."""
        while (left := self._not_before - time.monotonic()) > 0 and not self._ended.is_set():
            self._sleep(left)
        if self._ended.is_set():
            raise CancelledError

    def get(
        self, kind: str, url: str, params: dict[str, Any] | None = None, accept: str = "application/json", **more: Any
    ) -> "httpx2.Response | None":
        """An answer; ``None`` where there is nothing (404).

        kind: ``entities``, ``info``, ``revisions``, ``entity_at_revision``, ``log``, ``query`` or ``views``, for the
        counts. more: other arguments of `anachron.wikidata.fetching.web.request`, of which ``method`` is GET and
        ``check`` wants whole JSON by default; half an answer is asked for again. Raises `BackendError` where the
        service keeps failing or refuses.
        """
        begun = time.monotonic()
        more = {"method": "GET", "check": _check, **more}
        answer = request(self._client, self.web, url=url, params=params, headers={"Accept": accept}, **more)
        with self._lock:
            self.counts[kind] += 1
            self.seconds += time.monotonic() - begun
        return answer

    def api(self, kind: str, form: type[Result], **params: Any) -> Result:
        """What api.php answers, as a msgspec struct. Raises `BackendError` for its errors and for other forms."""
        params = {"format": "json", "formatversion": 2, "maxlag": MAXLAG, **params}
        response = self.get(kind, self.site.api, params)
        if response is None:
            raise BackendError(
                f"{self.site.api}: no such page (404); check --site: it is the address before /w/api.php"
            )
        return decoded(response, form)

    def query(self, text: str) -> bytes:
        """What the query service answers. Raises `ConfigError` where none is known, `BackendError` where it refuses."""
        if (address := self.site.sparql) is None:
            raise ConfigError(f"{self.site.url} has no query service that is known; give its address, or --items")
        asked: dict[str, Any] = {"params": {"query": text}}
        if len(text) > LONGEST_GET:
            asked = {"method": "POST", "data": {"query": text}}
        # Half an answer and silence mean that the time was up, which another try would not change.
        asked |= {"allowed": QUERY_FAILS, "check": lambda response: None, "timeout": QUERY_TIMEOUT}
        response = self.get("query", address, accept="application/sparql-results+json", **asked)
        if response is None:
            raise BackendError(f"{address}: no such page (404); check --sparql")
        if response.status_code in QUERY_FAILS:
            why = why_failed(response.content)
            raise BackendError(f"{address}: the query service answers {response.status_code}: {why}")
        return response.content

    def map(self, call: Callable[[Thing], Result], things: Iterable[Thing]) -> Iterator[tuple[Thing, Result]]:
        """Each thing with what a call makes of it, in their order; at most ``at_a_time`` calls run at once."""
        if self.at_a_time == 1:
            for thing in things:
                yield thing, call(thing)
            return
        waiting: deque[tuple[Thing, Future[Result]]] = deque()
        for thing in things:
            waiting.append((thing, self._pool.submit(call, thing)))
            if len(waiting) == self.at_a_time:
                first, future = waiting.popleft()
                yield first, result_of(future)
        for first, future in waiting:
            yield first, result_of(future)


def decoded(response: "httpx2.Response", form: type[Result]) -> Result:
    """A JSON answer as a msgspec type. Raises `BackendError`, with what was expected, for any other."""
    try:
        return msgspec.json.decode(response.content, type=form)
    except msgspec.MsgspecError as error:
        names = ", ".join(getattr(form, "__struct_encode_fields__", ())) or str(form)
        raise BackendError(
            f"{_where(response)}: the answer has another form than is documented ({error}; expected an object with "
            f"{names}): {_shown(response)}"
        ) from error


def _where(response: "httpx2.Response") -> str:
    return str(response.request.url.copy_with(query=None))  # fifty ids would only hide what is wrong


def _shown(response: "httpx2.Response") -> str:
    text = " ".join(response.content[: 4 * SHOWN].decode("utf-8", "replace").split())
    return repr(text[:SHOWN])


def _check(response: "httpx2.Response") -> None:
    """Raise `Failure` for half an answer and errors of api.php that pass, `BackendError` for any other error."""
    try:
        error = msgspec.json.decode(response.content, type=_Said).error
    except msgspec.ValidationError:
        return  # JSON of another form, which whoever asked says in words
    except msgspec.DecodeError as broken:
        raise Failure(f"the answer is not whole JSON ({broken}): {_shown(response)}") from broken
    if error is None:
        return
    code, info = error.get("code", ""), error.get("info", "")
    if code.startswith(PASSING):
        # Whoever is told of lag pauses for 5 seconds at least, and for as long as it takes, as the manual says.
        wait = max(retry_after(response.headers) or 0.0, MAXLAG)
        raise Failure(f"the server answers {code} ({info})", wait, busy=code == "maxlag")
    raise BackendError(f"{_where(response)}: the service answers {code}: {info}")
