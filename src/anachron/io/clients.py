"""Clients of servers that speak the OpenAI protocol: a request ends in time, goes nowhere else, and fits in memory."""

import asyncio
import json
import os
import threading
from collections.abc import Callable, Coroutine, Mapping
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from anachron.core.errors import BackendError, ConfigError, how_to_install
from anachron.io.retries import Failure
from anachron.io.servers import (
    Server,
    check_address,
    is_openai,
    is_this_machine,
    key_for,
    public_url,
    retry_after,
    secrets_of,
    shown,
)
from anachron.io.waiting import result_of

if TYPE_CHECKING:
    from openai import APIConnectionError, APIStatusError, AsyncOpenAI

LONGEST_REPLY = 64 * 2**20  # bytes, unpacked
OF_OPENAI = ("openai-organization", "openai-project")  # what the package adds from the environment
SENT = "send_request_headers.started"  # end of the name of an event: there is a connection, and a request goes out
PASSING = (408, 409, 425, 429)  # of the 400s, what may be gone at the next try
UNSENT = ("ConnectError", "ConnectTimeout", "UnsupportedProtocol", "InvalidURL")  # no request reached a server
Reply = TypeVar("Reply")


class Refused(Failure):
    """A server answers with an HTTP status that is no success.

    words: what it says, without the key. headers: of its reply. code, param: what is wrong, as OpenAI names it.
    """

    def __init__(self, error: "APIStatusError", hide: Callable[[str], str]) -> None:
        body, self.status, self.headers = error.body, error.status_code, error.response.headers
        self.words = hide(str((body.get("message") or json.dumps(body)) if isinstance(body, dict) else error.message))
        self.code, self.param = error.code, error.param
        words = f"HTTP {self.status}: {self.words}"
        super().__init__(words, retry_after(self.headers), passing=self.status in PASSING or self.status >= 500)


class Unanswered(Failure):
    """No whole reply came. sent: whether the server may have got the request; cause: the system's words."""

    def __init__(self, error: "APIConnectionError", hide: Callable[[str], str]) -> None:
        self.kind, self.cause = type(error.__cause__).__name__, hide(str(error.__cause__ or ""))
        self.sent = self.kind not in UNSENT
        super().__init__(hide(f"{error.message} {error.__cause__ or ''}").strip())


class Client:
    """A client of a server, which sends the key, if there is one, and to OpenAI alone what else says who asks.

    May be used by many threads. A request may take as long as the server's ``timeout`` says, from the connection to
    the last byte: a server that sends a byte now and then is given up like one that is silent. Redirections are not
    followed, for the key would follow, too. What the address has as its query stands behind the path of each request.
    A proxy of the environment is used, but not on the way to this machine itself: the key would leave it.

    A public service is sent a key, another server none but one that was named for it. Raises `BackendError` without the
    package ``openai``; `ConfigError` without a key where one is needed, and for an address or a proxy that cannot be
    used.
    """

    def __init__(self, server: Server) -> None:
        check_address(server.address)
        self.address, self.key = server.address, key_for(server.address, server.api_key_env)
        try:
            from openai import AsyncOpenAI
        except ImportError as error:
            raise BackendError(f"asking a model needs the package openai ({error}); {how_to_install('llm')}") from error
        unsent = (() if is_openai(self.address) else OF_OPENAI) + (() if self.key else ("authorization",))
        base, _, query = self.address.partition("?")
        self.where = public_url(base).rstrip("/")  # as it may be shown
        here = is_this_machine(urlsplit(base).hostname or "")
        http = _http_client(server.timeout, unsent, query, proxied=not here)
        try:
            self.api = AsyncOpenAI(api_key=self.key or "none", base_url=base, max_retries=0, http_client=http)
        except (_http_library().InvalidURL, ValueError) as error:
            raise ConfigError(
                f"server address {self.where!r}: {self.hide(str(error))}; write it as http://host:port/v1"
            ) from None
        self._loop = _loop(os.getpid())

    def hide(self, words: str) -> str:
        """A server's words as they may be shown."""
        return shown(words, secrets_of(self.address, self.key))

    def ask(self, request: "Callable[[AsyncOpenAI], Coroutine[Any, Any, Reply]]") -> Reply:
        """The reply to one request, made once. Raises `Refused`, `Unanswered`, and `ValueError` for another reply.

        A reply beyond `LONGEST_REPLY` counts as no answer.
        """
        from openai import APIConnectionError, APIStatusError, OpenAIError

        future = asyncio.run_coroutine_threadsafe(request(self.api), self._loop)
        try:
            return result_of(future)
        except APIStatusError as error:  # without its cause: a server may repeat a part of the key
            raise Refused(error, self.hide) from None
        except APIConnectionError as error:
            raise Unanswered(error, self.hide) from None
        except OpenAIError as error:
            raise ValueError(self.hide(str(error))) from None
        finally:
            future.cancel()  # of use for Ctrl-C alone

    def send(self, path: str, body: Mapping[str, Any] | None = None) -> bytes:
        """What the server answers, as it is: to POST of a body as JSON, to GET without one. Raises as `ask`.

        path: behind the server's address, or a whole address of the same server, for its key goes there.
        """
        kind = _http_library().Response
        if body is None:
            return bytes(self.ask(lambda api: api.get(path, cast_to=kind)).content)
        return bytes(self.ask(lambda api: api.post(path, cast_to=kind, body=dict(body))).content)


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

    named = [os.environ.get(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR")] if proxied else []
    try:
        certificates = _certificates(proxied, *named)
        return LimitedClient(timeout=seconds, follow_redirects=False, trust_env=proxied, verify=certificates)
    except (library.InvalidURL, ValueError, ImportError) as error:  # SOCKS needs a package; its address may hold a key
        raise ConfigError(
            f"the proxy that HTTP_PROXY, HTTPS_PROXY or ALL_PROXY names cannot be used ({type(error).__name__}): write "
            "it as http://host:port, or unset the variable"
        ) from None


@lru_cache(maxsize=4)
def _certificates(by_environment: bool, *named: str | None) -> Any:
    """Whom clients trust: read once, for that takes longer than a request to a server nearby.

    by_environment: whether the library reads what the environment names, which is here to tell one from another.
    """
    return _http_library().create_ssl_context(trust_env=by_environment)


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
