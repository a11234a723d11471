"""The one client of all requests to a Wikibase: named, patient, one request at a time, and counted.

What Wikimedia asks of clients (https://www.mediawiki.org/wiki/API:Etiquette, its user-agent policy): an agent string
with a way to reach whoever runs it, requests in series, ``maxlag=5``, ``Retry-After`` obeyed, gzip, many ids in one
request. A server that is behind answers api.php with the state 200, the error ``maxlag`` and a ``Retry-After``.
"""

import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any, Self, TypeVar

import msgspec

from anachron.core.errors import BackendError, ConfigError
from anachron.io.retries import Failure
from anachron.io.servers import retry_after
from anachron.wikidata.fetching.web import FetchSettings, client, request
from anachron.wikidata.topic.site import Site

if TYPE_CHECKING:
    import httpx2

AT_ONCE = 50  # ids or titles in one request: the documented limit of api.php for whoever is no bot
MAXLAG = 5  # seconds
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

    at_a_time: most requests on their way at once. Raises `ConfigError` for fewer than one, and as `contact_of`.
    """

    def __init__(self, site: Site, web: FetchSettings | None = None, at_a_time: int = 1) -> None:
        if at_a_time < 1:
            raise ConfigError(f"--requests {at_a_time}: give at least 1 request at a time")
        web = web or FetchSettings()
        self.site, self.at_a_time = site, at_a_time
        self.web = replace(web, contact=contact_of(web.contact))
        self.counts: Counter[str] = Counter()
        self.seconds = 0.0
        self._lock, self._opened = Lock(), ExitStack()

    def __enter__(self) -> Self:
        self._client = self._opened.enter_context(client(self.web, "gzip"))
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def get(
        self, kind: str, url: str, params: dict[str, Any] | None = None, accept: str = "application/json", **more: Any
    ) -> "httpx2.Response | None":
        """An answer; ``None`` where there is nothing (404).

        kind: ``entities``, ``info``, ``revisions``, ``entity_at_revision``, ``log``, ``query`` or ``views``, for the
        counts. more: other arguments of `anachron.wikidata.fetching.web.request`, of which ``check`` by default wants
        whole JSON; half an answer is asked for again. Raises `BackendError` where the service keeps failing or refuses.
        """
        begun = time.monotonic()
        more.setdefault("check", _check_whole)
        answer = request(self._client, self.web, "GET", url, params, headers={"Accept": accept}, **more)
        with self._lock:
            self.counts[kind] += 1
            self.seconds += time.monotonic() - begun
        return answer

    def api(self, kind: str, form: type[Result], **params: Any) -> Result:
        """What api.php answers, as a msgspec struct. Raises `BackendError` for its errors and for other forms."""
        params = {"format": "json", "formatversion": 2, "maxlag": MAXLAG, **params}
        response = self.get(kind, self.site.api, params, check=_check_api)
        if response is None:
            raise BackendError(
                f"{self.site.api}: no such page (404); check --site: it is the address before /w/api.php"
            )
        return decoded(response, form)

    def map(self, call: Callable[[Thing], Result], things: Iterable[Thing]) -> Iterator[tuple[Thing, Result]]:
        """Each thing with what a call makes of it, in their order; at most ``at_a_time`` calls run at once."""
        if self.at_a_time == 1:
            for thing in things:
                yield thing, call(thing)
            return
        waiting: deque[tuple[Thing, Future[Result]]] = deque()
        with ThreadPoolExecutor(self.at_a_time) as pool:
            try:
                for thing in things:
                    waiting.append((thing, pool.submit(call, thing)))
                    if len(waiting) == self.at_a_time:
                        first, future = waiting.popleft()
                        yield first, future.result()
                while waiting:
                    first, future = waiting.popleft()
                    yield first, future.result()
            finally:
                for _, future in waiting:
                    future.cancel()


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


def _check_whole(response: "httpx2.Response") -> None:
    """Raise `Failure` for what is not whole JSON."""
    try:
        msgspec.json.decode(response.content, type=msgspec.Raw)
    except msgspec.MsgspecError as error:
        raise Failure(f"the answer is not whole JSON ({error}): {_shown(response)}") from error


def _check_api(response: "httpx2.Response") -> None:
    """Raise `Failure` for half an answer and errors that pass, `BackendError` for any other error."""
    _check_whole(response)
    try:
        error = msgspec.json.decode(response.content, type=_Said).error
    except msgspec.MsgspecError:
        return  # JSON of another form, which whoever asked says in words
    if error is None:
        return
    code, info = error.get("code", ""), error.get("info", "")
    if code.startswith(PASSING):
        # Whoever is told of lag pauses for 5 seconds at least, and for as long as it takes, as the manual says.
        wait = max(retry_after(response.headers) or 0.0, MAXLAG)
        raise Failure(f"the server answers {code} ({info})", wait, busy=code == "maxlag")
    raise BackendError(f"{_where(response)}: the service answers {code}: {info}")
