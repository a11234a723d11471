"""Clients of servers that speak the OpenAI protocol: a request ends in time, goes nowhere else, and fits in memory."""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Mapping
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from anachron.core.errors import BackendError, ConfigError, how_to_install
from anachron.io.servers import is_openai, is_this_machine, public_url, secrets_of, shown, without_query

if TYPE_CHECKING:
    from openai import AsyncOpenAI

LONGEST_REPLY = 64 * 2**20  # bytes, unpacked
OF_OPENAI = ("openai-organization", "openai-project")  # what the package adds from the environment
SENT = "send_request_headers.started"  # end of the name of an event: there is a connection, and a request goes out
Reply = TypeVar("Reply")


class Client:
    """A client of a server, which sends the key, if there is one, and to OpenAI alone what else says who asks.

    May be used by many threads. timeout: seconds that a request may take, from the connection to the last byte: a
    server that sends a byte now and then is given up like one that is silent. Redirections are not followed, for the
    key would follow, too. What the address has as its query stands behind the path of each request. A proxy of the
    environment is used, but not on the way to this machine itself: the key would leave it.
    Raises `BackendError` without the package ``openai``; `ConfigError` for an address or a proxy that cannot be used.
    """

    def __init__(self, address: str, key: str, timeout: float) -> None:
        try:
            from openai import AsyncOpenAI
        except ImportError as error:
            raise BackendError(f"asking a model needs the package openai ({error}); {how_to_install('llm')}") from error
        unsent = (() if is_openai(address) else OF_OPENAI) + (() if key else ("authorization",))
        base, query = without_query(address)
        http = _http_client(timeout, unsent, query, proxied=not is_this_machine(urlsplit(base).hostname or ""))
        try:
            self.api = AsyncOpenAI(
                api_key=key or "none", base_url=base, timeout=timeout, max_retries=0, http_client=http
            )
        except (_http_library().InvalidURL, ValueError) as error:
            words = shown(error, secrets_of(base, key))
            raise ConfigError(
                f"server address {public_url(base)!r}: {words}; write it as http://host:port/v1"
            ) from None
        self.base_url, self._loop = str(self.api.base_url), _loop(os.getpid())

    def ask(self, request: "Callable[[AsyncOpenAI], Coroutine[Any, Any, Reply]]") -> Reply:
        """The reply to one request, made once. Raises what the package ``openai`` raises.

        A reply beyond `LONGEST_REPLY` counts as no answer.
        """
        future = asyncio.run_coroutine_threadsafe(request(self.api), self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # of use for Ctrl-C alone
            raise

    def send(self, url: str, body: Mapping[str, Any] | None = None) -> bytes:
        """What the server answers to a request that is not OpenAI's: POST of a body as JSON, GET without one.

        url: whole, and of the client's own server, for its key goes there. Raises as `ask`.
        """
        kind = _http_library().Response
        if body is None:
            return bytes(self.ask(lambda api: api.get(url, cast_to=kind)).content)
        return bytes(self.ask(lambda api: api.post(url, cast_to=kind, body=dict(body))).content)


@lru_cache(maxsize=1)
def _loop(process: int) -> asyncio.AbstractEventLoop:
    """The event loop of all requests of a process, in a thread of its own. process: its number, for forks."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="http", daemon=True).start()
    return loop


def _http_library() -> Any:
    """httpx or its successor: what the package ``openai`` sends by."""
    from openai import DefaultAsyncHttpxClient

    return import_module(DefaultAsyncHttpxClient.__mro__[1].__module__.partition(".")[0])


def _http_client(seconds: float, unsent: tuple[str, ...], query: str, *, proxied: bool) -> Any:
    """The HTTP client of the package, with an end to every request, to its time and to its size.

    query: behind the path of each. proxied: whether the proxies count that the environment names.
    """
    from openai import DefaultAsyncHttpxClient

    library = _http_library()

    class LimitedClient(DefaultAsyncHttpxClient):
        async def send(self, request: Any, *, stream: bool = False, **how: Any) -> Any:
            sent = False

            async def trace(event: str, about: Any) -> None:
                nonlocal sent
                sent = sent or event.endswith(SENT)

            for name in unsent:
                request.headers.pop(name, None)
            if query:
                own = request.url.query
                request.url = request.url.copy_with(query=b"&".join(part for part in (query.encode(), own) if part))
            request.extensions = {**request.extensions, "trace": trace}
            try:
                async with asyncio.timeout(seconds):
                    response = await super().send(request, stream=True, **how)
                    try:
                        body = await _body(response, public_url(str(request.url)))
                    finally:
                        await response.aclose()
            except library.ConnectError as error:
                raise library.ConnectError(_first_cause(error)) from None
            except TimeoutError:
                # what was never sent costs nothing, so the two are told apart
                kind = library.ReadTimeout if sent else library.ConnectTimeout
                raise kind(f"no complete reply in {seconds:g} s") from None
            unpacked = ("content-encoding", "content-length", "transfer-encoding")
            headers = [(name, value) for name, value in response.headers.multi_items() if name not in unpacked]
            return type(response)(
                response.status_code, headers=headers, content=body, request=request, extensions=response.extensions
            )

    try:
        return LimitedClient(timeout=seconds, follow_redirects=False, trust_env=proxied)
    except (library.InvalidURL, ValueError, ImportError) as error:  # SOCKS needs a package; its address may hold a key
        raise ConfigError(
            f"the proxy that HTTP_PROXY, HTTPS_PROXY or ALL_PROXY names cannot be used ({type(error).__name__}): write "
            "it as http://host:port, or unset the variable"
        ) from None


async def _body(response: Any, where: str) -> bytes:
    """The body of a reply, unpacked. Raises `BackendError` beyond `LONGEST_REPLY`."""
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > LONGEST_REPLY:
            raise BackendError(f"{where} replies with more than {LONGEST_REPLY >> 20} MB; is it a model server?")
    return bytes(body)


def _first_cause(error: BaseException) -> str:
    """What an error came from at first, in the system's words; of several, as a host with two addresses has, one."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause.exceptions[0] if isinstance(cause, BaseExceptionGroup) else cause
    number = getattr(error, "errno", None) or 0
    return f"[Errno {number}] {os.strerror(number)}" if number > 0 else str(error)  # asyncio has words of its own
