"""Models behind a server that speaks the OpenAI protocol: ``/v1/completions`` with ``echo`` and ``logprobs``.

The way to vLLM and others. Texts are tokenised here, with the model's own tokenizer, and sent as token ids, so that the
answer's tokens are known; a server that takes only text is sent text, and its tokens must be those of the tokenizer.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import fsum
from typing import TYPE_CHECKING, Any

import numpy as np

from anachron.errors import BackendError, ConfigError, ModelError
from anachron.lm.batches import Limits, plan_batches
from anachron.lm.formats import Format, encode_pairs
from anachron.lm.hardware import hardware
from anachron.lm.identity import tokenizer_fingerprint
from anachron.lm.plans import Plan
from anachron.lm.scorer import Progress, Triple
from anachron.lm.scoring import Counters
from anachron.lm.spans import Encoded
from anachron.servers import check_address, openai_client, public_url

if TYPE_CHECKING:
    from openai import APIStatusError

REQUEST_TOKENS = 2048  # of a request, unless asked otherwise
REFUSED = (400, 404, 405, 415, 422)  # what servers answer to a form of request that they do not know


@dataclass(frozen=True, slots=True)
class Server:
    """Where it is, the key it wants, and how it is treated.

    concurrency: requests at a time. tries: of one request, with growing pauses between (or as long as the server asks)
    after refusals that pass and lost connections; two at most of the first, before any is answered. timeout: seconds
    that a request may take.
    """

    base_url: str
    api_key: str = ""
    concurrency: int = 8
    tries: int = 8
    timeout: float = 600.0

    def __post_init__(self) -> None:
        check_address(self.base_url)
        if self.concurrency < 1 or self.tries < 1:
            raise ConfigError(f"concurrency {self.concurrency}, tries {self.tries}: both are at least 1")


class ServedModel:
    """A model of a server as an `anachron.lm.scorer.Scorer`.

    name: what the server calls it. tokenizer: the model's own, fast.
    Raises `BackendError` where the package ``openai`` is missing.
    """

    prefix, dtype = "", "served"

    def __init__(self, name: str, tokenizer: Any, server: Server) -> None:
        self.name, self.tokenizer, self.server = name, tokenizer, server
        self.client = openai_client(server.base_url, server.api_key, timeout=server.timeout, max_retries=0)
        self.takes_ids, self.answered = True, False

    @property
    def where(self) -> str:
        """The server's address as it may be shown."""
        return public_url(self.server.base_url)

    def identity(self) -> dict[str, Any]:
        """The weights behind a server are not known; its address and the model's name stand for them."""
        return {
            "model": self.name,
            "revision": None,
            "weights": None,
            "tokenizer": tokenizer_fingerprint(self.tokenizer),
            "dtype": self.dtype,
            "device": self.where,
        }

    def about(self) -> dict[str, Any]:
        return {}

    def hardware(self) -> dict[str, Any]:
        return hardware(f"server at {self.where}")

    def encode(self, pairs: Sequence[Triple], style: Format | None = None) -> list[Encoded]:
        return encode_pairs(self.tokenizer, pairs, style or Format())

    def check(self, encoded: Sequence[Encoded]) -> None:
        """What a server can read it says itself."""

    def plan(self, encoded: Sequence[Encoded], batch_tokens: int | None = None, *, packing: bool = True) -> Plan:
        """What one request holds. Sharing prefixes is the server's business."""
        tokens = batch_tokens or REQUEST_TOKENS
        return Plan(plan_batches(encoded, 1, Limits(tokens=tokens)), packed=False, batch_tokens=tokens)

    def score_parts(
        self,
        encoded: Sequence[Encoded],
        parts: Mapping[int, Plan],
        *,
        native_softmax: bool = False,
        progress: Progress = lambda texts: None,
    ) -> Iterator[tuple[int, np.ndarray, Counters]]:
        """See `anachron.lm.scorer.Scorer`; the very first request goes alone, so that a refusal is met once."""
        if native_softmax:
            raise ConfigError("a served model has no native softmax to choose; leave --native-softmax out")
        with ThreadPoolExecutor(self.server.concurrency, "score") as pool:
            try:
                for number, plan in parts.items():
                    requests = [[encoded[i] for i in batch] for batch in plan.batches]
                    found: list[np.ndarray] = []
                    for request, answer in zip(requests, self._answers(pool, requests), strict=True):
                        found.append(answer)
                        progress(len(request))
                    tokens = sum(len(text.ids) for request in requests for text in request)
                    yield number, np.concatenate(found), Counters(tokens=tokens)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _answers(self, pool: ThreadPoolExecutor, requests: list[list[Encoded]]) -> Iterator[np.ndarray]:
        alone = 0 if self.answered else 1
        for request in requests[:alone]:
            yield self._ask(request)
            self.answered = True
        yield from pool.map(self._ask, requests[alone:])

    def _ask(self, texts: list[Encoded]) -> np.ndarray:
        """Scores of the texts of one request; text by text where the server takes no token ids."""
        from openai import APIStatusError

        if self.takes_ids:
            try:
                return self._request(texts, [list(text.ids) for text in texts])
            except APIStatusError as error:
                if error.status_code not in REFUSED:
                    raise self._failed(error) from None
                refusal = error
            try:
                scores = self._by_text(texts)
            except APIStatusError:
                raise self._failed(refusal) from None
            self.takes_ids = False
            return scores
        try:
            return self._by_text(texts)
        except APIStatusError as error:
            raise self._failed(error) from None

    def _by_text(self, texts: list[Encoded]) -> np.ndarray:
        return np.concatenate([self._request([text], self._written(text)) for text in texts])

    def _written(self, text: Encoded) -> str:
        """The text of some ids. Raises `ModelError` where the tokenizer does not make these ids of it."""
        special = [t for t in text.ids if t in set(self.tokenizer.all_special_ids)]
        first = len(special) if list(text.ids[: len(special)]) == special else 0
        written = self.tokenizer.decode(text.ids[first:], clean_up_tokenization_spaces=False)
        if list(self.tokenizer(written)["input_ids"])[: len(text.ids)] != list(text.ids):
            raise ModelError(
                f"{self.where} takes no token ids, and {written!r} sent as text would become other tokens; use "
                "a server that takes ids, such as vLLM, or format raw"
            )
        return written

    def _request(self, texts: list[Encoded], prompt: Any) -> np.ndarray:
        from openai import APIConnectionError, APIStatusError, OpenAIError

        try:
            tries = self.server.tries if self.answered else min(2, self.server.tries)
            client = self.client.with_options(max_retries=tries - 1)
            reply = client.completions.create(
                model=self.name, prompt=prompt, max_tokens=1, temperature=0, echo=True, logprobs=1
            )
            choices = sorted(reply.choices, key=lambda choice: choice.index)
        except APIStatusError:
            raise
        except APIConnectionError as error:
            raise BackendError(
                f"no answer from {self.where} ({error.message} {error.__cause__ or ''}); finished parts are "
                "kept: start the server and repeat the command"
            ) from error
        except (OpenAIError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise BackendError(
                f"{self.where} answers with no completion ({type(error).__name__}); does --base-url end in /v1?"
            ) from error
        if len(choices) != len(texts):
            raise BackendError(f"{self.where} gave {len(choices)} completions for {len(texts)} texts")
        return np.array([self._score(text, choice.logprobs) for text, choice in zip(texts, choices, strict=True)])

    def _score(self, text: Encoded, found: Any) -> float:
        """The sum at the answer's tokens; what follows the text in the reply was generated."""
        logp = None if found is None else found.token_logprobs
        if not logp or all(value is None for value in logp[: len(text.ids)]):
            raise BackendError(
                f"{self.where} returns no log-probabilities of the prompt; /v1/completions must support echo "
                "with logprobs (vLLM does, llama-cpp-python with logits_all)"
            )
        if len(logp) - len(text.ids) not in (0, 1) or any(logp[t] is None for t in text.targets):
            raise BackendError(
                f"{self.where} returns {len(logp)} log-probabilities for {len(text.ids)} tokens and one more: "
                "its tokenizer is another; give the model's own with --tokenizer"
            )
        for target in text.targets if found.tokens else ():
            ours, theirs = self.tokenizer.decode([text.ids[target]]), found.tokens[target]
            if theirs != f"token_id:{text.ids[target]}" and not _same(ours, theirs):
                raise BackendError(
                    f"{self.where} has the token {theirs!r} where the tokenizer has {ours!r}; give the "
                    "model's own with --tokenizer"
                )
        return fsum(logp[t] for t in text.targets)

    def _failed(self, error: "APIStatusError") -> BackendError:
        said = f"HTTP {error.status_code}"
        if error.status_code != 401:  # there a server may echo a part of the key
            said += f": {' '.join(str(error.message).split())[:300]}"
        return BackendError(f"{self.where} refuses to score with {self.name!r} ({said})")


def _same(ours: str, theirs: str) -> bool:
    """Whether two ways to write a token can mean it: spaces differ, and parts of a character cannot be written."""
    return ours.strip() == theirs.strip() or "\ufffd" in ours + theirs or theirs.startswith("bytes:")
