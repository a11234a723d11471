"""Clients of servers that speak the OpenAI protocol: a request ends in time, goes nowhere else, and fits in memory."""

import threading
from collections.abc import Mapping
from importlib import import_module
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from anachron.core.errors import BackendError, ConfigError, how_to_install
from anachron.io.servers import is_openai, is_this_machine, public_url, secrets_of, shown, without_query

if TYPE_CHECKING:
    from collections.abc import Callable

    from openai import OpenAI

LONGEST_REPLY = 64 * 2**20  # bytes, unpacked
OF_OPENAI = ("openai-organization", "openai-project")  # what the package adds from the environment


def openai_client(address: str, key: str, *, timeout: float, max_retries: int) -> "OpenAI":
    """A client of a server, which sends the key, if there is one, and to OpenAI alone what else says who asks.

    timeout: seconds that one try may take, from the connection to the last byte: a server that sends a byte now and
    then is given up like one that is silent. Redirections are not followed, for the key would follow, too. What the
    address has as its query stands behind the path of each request. A proxy of the environment is used, but not on the
    way to this machine itself: the key would leave it.
    Raises `BackendError` without the package ``openai``, and from requests whose reply is beyond `LONGEST_REPLY`;
    `ConfigError` for an address or a proxy that cannot be used.
    """
    try:
        from openai import OpenAI
    except ImportError as error:
        raise BackendError(f"asking a model needs the package openai ({error}); {how_to_install('llm')}") from error
    unsent = (() if is_openai(address) else OF_OPENAI) + (() if key else ("authorization",))
    address, query = without_query(address)
    http = _timed_client(timeout, unsent, query, proxied=not is_this_machine(urlsplit(address).hostname or ""))
    try:
        return OpenAI(
            api_key=key or "none", base_url=address, timeout=timeout, max_retries=max_retries, http_client=http
        )
    except (_http_library().InvalidURL, ValueError) as error:
        words = shown(error, secrets_of(address, key))
        raise ConfigError(f"server address {public_url(address)!r}: {words}; write it as http://host:port/v1") from None


def send(client: "OpenAI", url: str, body: Mapping[str, Any] | None = None) -> bytes:
    """What a server answers to a request that is not OpenAI's: POST of a body as JSON, GET without one.

    url: whole, and of the client's own server, for its key goes there. Raises what the package ``openai`` raises.
    """
    kind = _http_library().Response
    response = client.get(url, cast_to=kind) if body is None else client.post(url, cast_to=kind, body=dict(body))
    return bytes(response.content)


def _http_library() -> Any:
    """httpx or its successor: what the package ``openai`` sends by."""
    from openai import DefaultHttpxClient

    return import_module(DefaultHttpxClient.__mro__[1].__module__.partition(".")[0])


def _timed_client(seconds: float, unsent: tuple[str, ...], query: str, *, proxied: bool) -> Any:
    """The HTTP client of the package, with an end to every request, to its time and to its size.

    query: behind the path of each. proxied: whether the proxies count that the environment names.
    """
    from openai import DefaultHttpxClient

    library = _http_library()
    clock = threading.local()  # a request is sent and read in one thread; ``end`` is that of the request there

    def left() -> float:
        """Seconds until the request of this thread ends."""
        rest = float(clock.end - monotonic())
        if rest <= 0:
            raise library.ReadTimeout(f"no complete reply in {seconds:g} s")
        return rest

    class TimedClient(DefaultHttpxClient):
        def send(self, request: Any, *, stream: bool = False, **how: Any) -> Any:
            for name in unsent:
                request.headers.pop(name, None)
            if query:
                own = request.url.query
                request.url = request.url.copy_with(query=b"&".join(part for part in (query.encode(), own) if part))
            clock.end = monotonic() + seconds
            response = super().send(request, stream=True, **how)
            try:
                body = b"".join(_limited(response.iter_bytes(), public_url(str(request.url))))
            finally:
                response.close()
            unpacked = ("content-encoding", "content-length", "transfer-encoding")
            headers = [(name, value) for name, value in response.headers.multi_items() if name not in unpacked]
            return type(response)(
                response.status_code, headers=headers, content=body, request=request, extensions=response.extensions
            )

    try:
        client: Any = TimedClient(timeout=seconds, follow_redirects=False, trust_env=proxied)
    except (library.InvalidURL, ValueError, ImportError) as error:  # SOCKS needs a package; its address may hold a key
        raise ConfigError(
            f"the proxy that HTTP_PROXY, HTTPS_PROXY or ALL_PROXY names cannot be used ({type(error).__name__}): write "
            "it as http://host:port, or unset the variable"
        ) from None
    for transport in (client._transport, *client._mounts.values()):
        if transport is not None:  # there is no public way to the connections that a client opens
            transport._pool._network_backend = _TimedBackend(transport._pool._network_backend, left)
    return client


def _limited(chunks: Any, where: str) -> Any:
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > LONGEST_REPLY:
            raise BackendError(f"{where} replies with more than {LONGEST_REPLY >> 20} MB; is it a model server?")
        yield chunk


class _TimedBackend:
    """Opens connections all of whose waits end with the request. Stands before a network backend of the library."""

    def __init__(self, backend: Any, left: "Callable[[], float]") -> None:
        self.backend, self.left = backend, left

    def connect_tcp(self, host: str, port: int, timeout: float | None = None, **how: Any) -> "_TimedStream":
        return _TimedStream(self.backend.connect_tcp(host, port, timeout=self.left(), **how), self.left)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.backend, name)


class _TimedStream:
    """A connection; what it is told of time-outs by the library is for a single read, and not used."""

    def __init__(self, stream: Any, left: "Callable[[], float]") -> None:
        self.stream, self.left = stream, left

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data: bytes = self.stream.read(max_bytes, self.left())
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self.stream.write(buffer, self.left())

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> "_TimedStream":
        return _TimedStream(self.stream.start_tls(ssl_context, server_hostname, self.left()), self.left)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)
