"""The way to a server of models: what is sent, again where it is worth it, and what is said of a failure."""

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tenacity import stop_after_attempt

from anachron.core.errors import BackendError
from anachron.io.clients import Client, Refused, Unanswered
from anachron.io.retries import LONGEST_RETRY_AFTER, repeating
from anachron.io.servers import Server, is_openai, redirected
from anachron.lm.server.replies import BadReply, read_counter

Read = TypeVar("Read")
LONGEST_PAUSE = 8.0  # seconds between two tries
HITS = re.compile(r"^vllm:prefix_cache_hits_total(?:\{.*\})? +(\S+)", re.MULTILINE)


class RefusedScoring(BackendError):
    """A server refuses a request with an HTTP status. words: what it says."""

    def __init__(self, message: str, refused: Refused) -> None:
        super().__init__(message)
        self.status, self.words = refused.status, refused.words


class Connection:
    """Requests to a server about its model. answered: whether it has answered yet. Raises as `Client`."""

    def __init__(self, server: Server) -> None:
        self.server, self.answered, self.client = server, False, Client(server)

    @property
    def root(self) -> str | None:
        """The address that a server's own ways stand behind; ``None`` where there can be none."""
        root, _, version = self.server.address.partition("?")[0].rstrip("/").rpartition("/")
        return root if version == "v1" and not is_openai(self.server.address) else None

    def complete(self, **asked: Any) -> bytes:
        """The reply of /v1/completions. Raises `RefusedScoring` and `BackendError`."""
        return self._send("/completions", {"model": self.server.model, **asked})

    def post(self, path: str, asked: Mapping[str, Any]) -> bytes:
        """The reply of a server's own way. Raises as `complete` does."""
        return self._send(f"{self.root}{path}", asked)

    def models(self) -> bytes:
        """The reply of /v1/models. Raises as `complete` does."""
        return self._send(f"{self.root}/v1/models")

    def cache_hits(self) -> int | None:
        """Tokens that a vLLM server has taken from its prefix cache since it began; ``None`` where it shows none."""
        try:
            metrics = self._send(f"{self.root}/metrics")
        except RefusedScoring:
            return None
        found = HITS.findall(metrics.decode("utf-8", "replace"))
        return sum(self.read_reply(read_counter, text) for text in found) if found else None

    def _send(self, path: str, body: Mapping[str, Any] | None = None) -> bytes:
        # a server that has never answered is seldom there
        tries, pause = self.server.tries if self.answered else min(2, self.server.tries), self.server.pause
        again = repeating(
            pause, LONGEST_PAUSE, stop_after_attempt(tries), longest_wait=LONGEST_RETRY_AFTER, apart=pause
        )
        try:
            return again(self.client.send, path, body)
        except Refused as error:
            raise RefusedScoring(self._refusal(error), error) from None
        except Unanswered as error:
            raise BackendError(
                f"no answer from {self.client.where} ({error}); finished parts are kept: start the server and repeat "
                "the command"
            ) from None
        except ValueError as error:
            raise BackendError(f"{self.client.where} cannot be asked ({error})") from None

    def read_reply(self, read: Callable[..., Read], *reply: Any) -> Read:
        """What is read from a reply. Raises `BackendError` where it cannot be believed."""
        try:
            return read(*reply)
        except BadReply as error:
            raise BackendError(f"{self.client.where} {self.client.hide(str(error))}") from None

    def _refusal(self, error: Refused) -> str:
        """What a refusal is. Nothing of what is said to a bad key is shown: servers repeat parts of it."""
        where, status = f"{self.client.where} refuses to score with {self.server.model!r}", error.status
        if status in (401, 403) and not self.client.key:
            return f"{where} (HTTP {status}); it needs a key: name its variable with --api-key-env"
        if status == 401:
            return f"{where} (HTTP 401); it does not know the key: check that of --api-key-env"
        if 300 <= status < 400:
            return self.client.hide(redirected(self.client.where, status, error.headers))
        return f"{where} ({error})"
