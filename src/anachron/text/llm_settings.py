"""Which language model is asked and how, and what comes of it: an answer or none, and what that took."""

import os
from collections.abc import Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from typing import Any

from anachron.errors import ConfigError
from anachron.servers import OPENAI, check_address, same_servers, server_identity


@dataclass(frozen=True)
class LlmSettings:
    """Which language model is asked, where, and how requests are retried.

    model: its name on the server.
    base_url: address of the server, by default ``OPENAI_BASE_URL`` or OpenAI's own.
    api_key_env: the environment variable that holds the key.
    temperature: sampling temperature.
    max_tokens: maximum number of tokens per answer, by default the server's limit.
    concurrency: number of concurrent requests.
    tries: attempts per request before it counts as failed.
    timeout: seconds without a reply after which a request is retried.
    pause: seconds before the first retry; doubled for each further one.
    same_as: other addresses that served the same model, so that answers kept from there are its own; ``unknown`` for
        answers that an earlier version kept without an address.

    Raises `ConfigError` for an empty name, an invalid address and numbers out of range.
    """

    model: str
    base_url: str | None = None
    _: KW_ONLY
    api_key_env: str | None = None
    temperature: float = 0.0
    max_tokens: int | None = None
    concurrency: int = 8
    tries: int = 6
    timeout: float = 120.0
    pause: float = 1.0
    same_as: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if not self.model.strip():
            raise ConfigError("the model's name is empty; give it as the server knows it")
        object.__setattr__(self, "same_as", same_servers(self.same_as))
        if self.base_url is not None:
            check_address(self.base_url)
        for name, least in (("concurrency", 1), ("tries", 1)):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} {getattr(self, name)}: must be at least {least}")
        if not self.timeout > 0 or not self.pause >= 0:
            raise ConfigError(f"timeout {self.timeout} and pause {self.pause}: a timeout is above 0, a pause 0 or more")

    @property
    def address(self) -> str | None:
        """Of the server that was named, here or in the environment; None for OpenAI's own."""
        return self.base_url or os.environ.get("OPENAI_BASE_URL")

    @property
    def server(self) -> str:
        """Who answers: the address as `server_identity` writes it."""
        return server_identity(self.address or OPENAI)

    def recorded(self) -> dict[str, Any]:
        """For a manifest: all settings, and the address without what is secret in it."""
        return asdict(self) | {"base_url": self.server, "same_as": list(self.same_as or ())}


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """A request without an answer: ``reason`` is one of few, for counting."""

    reason: str
    detail: str


@dataclass(slots=True)
class Usage:
    """What a run of requests took. Tokens are those of this run; ``kept_*`` those of answers it found on disk."""

    requests: int = 0
    retries: int = 0
    answers: int = 0
    kept: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    kept_prompt_tokens: int = 0
    kept_completion_tokens: int = 0
    uncounted: int = 0  # answers whose server named no tokens

    def cost(self, price_in: float, price_out: float) -> tuple[float, float]:
        """What this run cost, and what its answers cost over all runs, from prices per million tokens."""
        now = (self.prompt_tokens * price_in + self.completion_tokens * price_out) / 1e6
        kept = (self.kept_prompt_tokens * price_in + self.kept_completion_tokens * price_out) / 1e6
        return now, now + kept
