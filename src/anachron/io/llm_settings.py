"""Which language model is asked and how, and what comes of it: an answer or none, and what that took."""

from dataclasses import KW_ONLY, asdict, dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, Literal

from anachron.core.errors import ConfigError
from anachron.io.servers import Server, variable_shown

if TYPE_CHECKING:
    from anachron.io.answers import Answer

UNPAID = "not asked: the budget ended"  # reason of a `NoAnswer`
Lost = Literal["nothing", "refused", "unknown"]


def check_prices(read: float, written: float) -> None:
    """Raise `ConfigError` for prices of a million tokens that nothing can cost."""
    if not (0 <= read < inf and 0 <= written < inf):
        raise ConfigError(f"prices {read} and {written}: a price is a number, 0 or more, for a million tokens")


@dataclass(frozen=True)
class LlmSettings(Server):
    """Which language model is asked, where, and how requests are retried.

    model: its name on the server.
    base_url: address of the server, by default ``OPENAI_BASE_URL`` or OpenAI's own.
    api_key_env: the environment variable that holds the key.
    temperature: sampling temperature.
    max_tokens: maximum number of tokens per answer, by default the server's limit.
    concurrency: number of concurrent requests.
    tries: attempts per request before it counts as failed.
    timeout: seconds without a whole reply after which a request is retried.
    pause: seconds before the first retry; doubled for each further one.
    same_as: other addresses that served the same model, so that answers kept from there are its own; ``unknown`` for
        answers that an earlier version kept without an address.

    Raises `ConfigError` for an empty name, an invalid address and numbers out of range.
    """

    _: KW_ONLY
    temperature: float = 0.0
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.temperature < inf:
            raise ConfigError(f"temperature {self.temperature}: give a number, 0 or more")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ConfigError(f"max_tokens {self.max_tokens}: an answer has at least 1")

    def recorded(self) -> dict[str, Any]:
        """For a manifest: all settings, and the address without what is secret in it."""
        key = None if self.api_key_env is None else variable_shown(self.api_key_env)
        known = asdict(self) | {"base_url": self.identity, "same_as": list(self.same_as or ()), "api_key_env": key}
        return {
            name: known.pop(name) for name in ("model", "base_url", "api_key_env", "temperature", "max_tokens")
        } | known


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
    doubted: int = 0  # answers of which something could not be believed (`anachron.io.untrusted`)

    def cost(self, price_in: float, price_out: float) -> tuple[float, float]:
        """What this run cost, and what its answers cost over all runs, from prices per million tokens."""
        now = (self.prompt_tokens * price_in + self.completion_tokens * price_out) / 1e6
        kept = (self.kept_prompt_tokens * price_in + self.kept_completion_tokens * price_out) / 1e6
        return now, now + kept


@dataclass(slots=True)
class Learned:
    """What requests have shown of a server, for all that follow in a run.

    dropped: parameters that it does not take; ``max_tokens`` is then called ``max_completion_tokens``, the others are
    left out. told: kinds of faults that people were told of.
    """

    dropped: set[str] = field(default_factory=set)
    warned: set[str] = field(default_factory=set)


class Meter:
    """Counts what requests cost and says when no more may be sent. A prompt has one request at a time.

    This one counts nothing and allows everything; others are made from it.
    """

    @property
    def idle(self) -> bool:
        """Whether no request is under way."""
        return True

    def take(self, prompt: str, max_tokens: int | None) -> bool:
        """Whether a request with this prompt may be sent now; if so it counts as under way.

        False while none is under way is final.
        """
        return True

    def settle(self, prompt: str, came: "Answer | Lost") -> None:
        """What became of the request under way: an answer; ``nothing``, where it did not arrive or was turned away
        unserved; ``refused``, an error of the server; ``unknown``, where it may have been served."""

    def kept(self, prompt: str, answer: "Answer") -> None:
        """An answer is there from before."""

    def failed(self, prompt: str, why: NoAnswer) -> None:
        """All tries of a prompt are over."""

    def failure(self, prompt: str) -> NoAnswer | None:
        """What the last `failed` said of a prompt, in an earlier run too."""
        return None
