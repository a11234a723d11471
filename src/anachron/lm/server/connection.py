"""The way to a server of models: what is sent, again where it is worth it, and what is said of a failure."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from tenacity import stop_after_attempt

from anachron.core.errors import BackendError, ConfigError
from anachron.io.clients import Client
from anachron.io.retries import LONGEST_RETRY_AFTER, Passing, passes, repeating
from anachron.io.servers import (
    check_address,
    check_timeout,
    is_openai,
    public_url,
    redirected,
    retry_after,
    secrets_of,
    shown,
    without_query,
)
from anachron.lm.server.replies import BadReply, read_counter

if TYPE_CHECKING:
    from openai import APIStatusError, AsyncOpenAI

Read = TypeVar("Read")
PAUSE, LONGEST_PAUSE = 0.5, 8.0  # seconds before the second try, doubled before each that follows
HITS = re.compile(r"^vllm:prefix_cache_hits_total(?:\{.*\})? +(\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Server:
    """Where it is, the key it wants, and how it is treated.

    concurrency: requests at a time. tries: of one request, with growing pauses between (or as long as the server asks)
    after refusals that pass and lost connections; two at most of the first, before any is answered. timeout: seconds
    that a try may take as a whole. same_as: other addresses that served the same model, as
    `anachron.io.servers.same_servers` writes them.
    """

    base_url: str
    api_key: str = field(default="", repr=False)
    concurrency: int = 8
    tries: int = 8
    timeout: float = 600.0
    same_as: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_address(self.base_url)
        if self.concurrency < 1 or self.tries < 1:
            raise ConfigError(f"concurrency {self.concurrency}, tries {self.tries}: both are at least 1")
        check_timeout(self.timeout)


class Connection:
    """Requests to a server about one of its models.

    answered: whether it has answered yet. Raises `BackendError` where the package ``openai`` is missing.
    """

    def __init__(self, model: str, server: Server) -> None:
        self.model, self.server, self.answered = model, server, False
        self.client = Client(server.base_url, server.api_key, server.timeout)

    @property
    def where(self) -> str:
        """The server's address as it may be shown."""
        return public_url(self.server.base_url)

    @property
    def root(self) -> str | None:
        """The address that a server's own ways stand behind; ``None`` where there can be none."""
        root, _, version = without_query(self.server.base_url)[0].rstrip("/").rpartition("/")
        return root if version == "v1" and not is_openai(self.server.base_url) else None

    def complete(self, **asked: Any) -> bytes:
        """The reply of /v1/completions. Raises ``APIStatusError`` of the package ``openai``, and `BackendError`."""

        async def create(api: "AsyncOpenAI") -> bytes:
            return bytes((await api.completions.with_raw_response.create(model=self.model, **asked)).content)

        return self._sent(lambda: self.client.ask(create))

    def post(self, path: str, asked: Mapping[str, Any]) -> bytes:
        """The reply of a server's own way. Raises as `complete` does."""
        return self._sent(lambda: self.client.send(f"{self.root}{path}", asked))

    def models(self) -> bytes:
        """The reply of /v1/models. Raises as `complete` does."""
        return self._sent(lambda: self.client.send(f"{self.root}/v1/models"))

    def cache_hits(self) -> int | None:
        """Tokens that a vLLM server has taken from its prefix cache since it began; ``None`` where it shows none."""
        from openai import APIStatusError

        try:
            metrics = self._sent(lambda: self.client.send(f"{self.root}/metrics"))
        except APIStatusError:
            return None
        found = HITS.findall(metrics.decode("utf-8", "replace"))
        return sum(self.read_reply(read_counter, text) for text in found) if found else None

    def _sent(self, request: Callable[[], bytes]) -> bytes:
        from openai import APIConnectionError, APIStatusError, OpenAIError

        def once() -> bytes:
            try:
                return request()
            except APIStatusError as error:
                if passes(error.status_code):
                    raise Passing(error.message, retry_after(error.response.headers)) from error
                raise
            except APIConnectionError as error:
                raise Passing(f"{error.message} {error.__cause__ or ''}") from error

        tries = self.server.tries if self.answered else min(2, self.server.tries)
        try:
            return repeating(
                PAUSE, LONGEST_PAUSE, stop_after_attempt(tries), longest_wait=LONGEST_RETRY_AFTER, apart=PAUSE
            )(once)
        except Passing as last:
            if isinstance(last.__cause__, APIStatusError):
                raise last.__cause__ from None
            # without its cause, which may hold what the server repeats of the key
            raise BackendError(
                f"no answer from {self.where} ({self.hide(str(last))}); finished parts are kept: start the server and "
                "repeat the command"
            ) from None
        except APIStatusError:
            raise
        except OpenAIError as error:
            raise BackendError(f"{self.where} cannot be asked ({self.hide(str(error))})") from None

    def read_reply(self, read: Callable[..., Read], *reply: Any) -> Read:
        """What is read from a reply. Raises `BackendError` where it cannot be believed."""
        try:
            return read(*reply)
        except BadReply as error:
            raise BackendError(f"{self.where} {self.hide(str(error))}") from None

    def failed(self, error: "APIStatusError") -> BackendError:
        """What a refusal is. Nothing of what is said to a bad key is shown: servers repeat parts of it."""
        where, status = f"{self.where} refuses to score with {self.model!r}", error.status_code
        if status in (401, 403) and not self.server.api_key:
            return BackendError(f"{where} (HTTP {status}); it needs a key: name its variable with --api-key-env")
        if status == 401:
            return BackendError(f"{where} (HTTP 401); it does not know the key: check that of --api-key-env")
        if 300 <= status < 400:
            return BackendError(self.hide(redirected(self.where, status, error.response.headers)))
        return BackendError(f"{where} (HTTP {status}: {self.hide(error.message)})")

    def hide(self, words: str) -> str:
        """A server's words as they may be shown."""
        return shown(words, secrets_of(self.server.base_url, self.server.api_key))
