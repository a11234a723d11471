"""Polite requests: who asks is named, failures are tried again with growing pauses, and Retry-After is obeyed.

The user-agent policy of the Wikimedia Foundation asks for a client that names itself and a way to reach its user;
requests without are refused. Internet Archive asks for the same.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from tenacity import RetryCallState, stop_after_attempt

from anachron.core.errors import BackendError, ConfigError, how_to_install
from anachron.io.files import versions
from anachron.io.retries import Failure, failure, repeating
from anachron.io.servers import retry_after

if TYPE_CHECKING:
    import httpx2

PASSING = (408, 425, 429, 500, 502, 503, 504)  # states of a server that pass
MISSING = (404, 410)
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """How requests are made. Times are seconds.

    ``timeout``: longest silence, also before the first byte. ``retries``: failures in a row, without one new byte
    between them, after which the work is given up. ``pause``: before the second try; it doubles with each failure, up
    to ``longest_pause``. A server that asks to wait longer than ``longest_wait`` is left alone. ``contact``: mail
    address or page of whoever runs this, for the operators of the server. ``note`` is told of every pause.
    """

    timeout: float = 60.0
    retries: int = 6
    pause: float = 1.0
    longest_pause: float = 120.0
    longest_wait: float = 3600.0
    contact: str | None = None
    sleep: Callable[[float], None] = time.sleep
    note: Callable[[str], None] = lambda message: None

    def __post_init__(self) -> None:
        if self.timeout <= 0 or self.retries < 0 or self.pause < 0:
            raise ConfigError(
                f"timeout {self.timeout}, retries {self.retries}: give a timeout above 0 and at least 0 retries"
            )
        if self.contact is not None and not (self.contact.isascii() and self.contact.isprintable()):
            raise ConfigError(
                f"contact {self.contact!r}: headers hold ASCII letters only; give a mail address or a page"
            )

    def user_agent(self) -> str:
        contact = "" if self.contact is None else f"; {self.contact}"
        return f"Anachron/{versions().get('anachron', '0')} (research on dated facts in language models{contact})"


@contextmanager
def client(settings: FetchSettings, encoding: str = "identity") -> Iterator["httpx2.Client"]:
    """An open HTTP client; by default files come as they are, so that ranges count their bytes.

    Raises `ConfigError` where the library is missing.
    """
    try:
        import httpx2
    except ImportError as error:
        raise ConfigError(f"fetching needs the package httpx2: {how_to_install('wikidata')}") from error
    headers = {"User-Agent": settings.user_agent(), "Accept-Encoding": encoding}
    with httpx2.Client(headers=headers, timeout=settings.timeout, follow_redirects=True) as opened:
        yield opened


def persist(
    settings: FetchSettings, url: str, once: Callable[[], Result], progressed: Callable[[], bool] = lambda: False
) -> Result:
    """What a call gives, which is repeated while it raises `Failure`, as the settings say.

    progressed: asked after each failure; progress begins the count and the pauses anew, and so does a server that is
    only busy, for as long as ``longest_wait`` in all. Raises `BackendError` in the end.
    """

    enough = stop_after_attempt(settings.retries + 1)

    def after(state: RetryCallState) -> None:
        if progressed() or failure(state).busy:
            state.attempt_number = 1

    def tell(state: RetryCallState) -> None:
        settings.note(f"{url}: {failure(state)}; trying again in {state.upcoming_sleep:,.0f} s")

    def over(state: RetryCallState) -> bool:
        waits = state.idle_for + state.upcoming_sleep
        return enough(state) or (failure(state).busy and waits > settings.longest_wait)

    again = repeating(
        settings.pause, settings.longest_pause, over, settings.sleep,
        longest_wait=settings.longest_wait, after=after, before_sleep=tell,
    )  # fmt: skip
    try:
        return again(once)
    except Failure as last:
        if last.wait is not None and last.wait > settings.longest_wait:
            raise BackendError(
                f"{url}: the server asks to wait {last.wait:,.0f} seconds; run the same command again then"
            ) from last
        if last.busy:
            raise BackendError(
                f"{url}: {last}, for {settings.longest_wait:,.0f} seconds now; run the same command again later: it "
                "goes on from what is already here"
            ) from last
        tries = "once" if settings.retries == 0 else f"{settings.retries + 1} times in a row"
        raise BackendError(
            f"{url}: {last}, {tries}; check the network and the address, then run the same command again: "
            "it goes on from what is already here"
        ) from last


def in_words(error: Exception) -> str:
    """What went wrong on the way, in words: the exceptions of the library often have no text."""
    name = type(error).__name__
    known = {
        "ConnectTimeout": "no connection in time",
        "ReadTimeout": "the server fell silent",
        "ReadError": "the connection was cut",
        "RemoteProtocolError": "the connection was cut",
    }
    return known.get(name) or (f"{name} ({error})" if str(error) else name)


def refused(response: "httpx2.Response") -> BackendError:
    """The error for an answer that no repetition will change."""
    hint = "check the address"
    if response.status_code == 403:
        hint = "servers refuse clients that do not say whom to ask: name yourself with --contact"
    return BackendError(f"{response.request.url}: the server answers {response.status_code}; {hint}")


def request(
    web: "httpx2.Client",
    settings: FetchSettings,
    method: str,
    url: str,
    params: dict[str, Any] | None = None,
    *,
    headers: dict[str, str] | None = None,
    allowed: tuple[int, ...] = (),
    check: "Callable[[httpx2.Response], None]" = lambda response: None,
    **more: Any,
) -> "httpx2.Response | None":
    """A whole small answer, tried again while it fails for passing reasons; ``None`` where there is nothing (404).

    allowed: other states that are an answer. check: raises `Failure` for an answer to be asked for again, though the
    state says nothing of it. more: other arguments of the library, such as ``data`` and ``timeout``; with a timeout of
    its own, silence is not followed by another try. Raises `BackendError` when it keeps failing, or is refused.
    """
    import httpx2

    def once() -> "httpx2.Response | None":
        try:
            response = web.request(method, url, params=params, headers=headers, **more)
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
            raise ConfigError(f"{url} is not an address to fetch from: {error}") from error
        except httpx2.ReadTimeout as error:
            if "timeout" not in more:
                raise Failure(in_words(error)) from error
            raise BackendError(
                f"{url}: no answer within {more['timeout']:g} seconds, as another try would have none; ask for less"
            ) from error
        except (httpx2.TransportError, httpx2.TooManyRedirects, httpx2.DecodingError) as error:
            raise Failure(in_words(error)) from error
        if response.status_code in allowed:
            return response
        if response.status_code in PASSING:
            state = response.status_code
            raise Failure(f"the server answers {state}", retry_after(response.headers), state=state)
        if response.status_code in MISSING:
            return None
        if response.is_success:
            check(response)
            return response
        raise refused(response)

    return persist(settings, url, once)
