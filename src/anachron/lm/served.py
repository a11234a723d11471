"""Models behind a server that speaks the OpenAI protocol: ``/v1/completions`` with ``echo`` and ``logprobs``.

The way to vLLM and others. Texts are tokenised here, with the model's own tokenizer, and sent as token ids, so that the
answer's tokens are known; a server that takes only text is sent text, and its tokens must be those of the tokenizer.
What it answers is checked (`anachron.lm.replies`) before a number of it is used.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from anachron.clients import openai_client
from anachron.errors import BackendError, ConfigError, ModelError
from anachron.lm.batches import Limits, plan_batches
from anachron.lm.formats import Format, encode_pairs
from anachron.lm.hardware import hardware
from anachron.lm.identity import tokenizer_fingerprint
from anachron.lm.plans import Plan
from anachron.lm.replies import BadReply, Choice, Token, check_next, read_choices, scores
from anachron.lm.scorer import Progress, Triple
from anachron.lm.scoring import Counters
from anachron.lm.spans import Encoded
from anachron.servers import check_address, public_url, redirected, secrets_of, shown

if TYPE_CHECKING:
    from openai import APIStatusError

REQUEST_TOKENS = 2048  # of a request, unless asked otherwise
REFUSED = (400, 404, 405, 415, 422)  # what servers answer to a form of request that they do not know
FORMS = ("ids, and ids wanted", "ids", "text")  # of what is sent, and of the names of tokens; tried in this order
Believed = TypeVar("Believed")
CHECKED = 3  # texts of the first request of which it is checked what the server makes of them


@dataclass(frozen=True, slots=True)
class Server:
    """Where it is, the key it wants, and how it is treated.

    concurrency: requests at a time. tries: of one request, with growing pauses between (or as long as the server asks)
    after refusals that pass and lost connections; two at most of the first, before any is answered. timeout: seconds
    that a try may take as a whole.
    """

    base_url: str
    api_key: str = field(default="", repr=False)
    concurrency: int = 8
    tries: int = 8
    timeout: float = 600.0

    def __post_init__(self) -> None:
        check_address(self.base_url)
        if self.concurrency < 1 or self.tries < 1:
            raise ConfigError(f"concurrency {self.concurrency}, tries {self.tries}: both are at least 1")
        if not 0 < self.timeout < inf:
            raise ConfigError(f"timeout {self.timeout}: give a number of seconds above 0")


class ServedModel:
    """A model of a server as an `anachron.lm.scorer.Scorer`.

    name: what the server calls it. tokenizer: the model's own, fast.
    Raises `BackendError` where the package ``openai`` is missing.
    """

    prefix, dtype = "", "served"

    def __init__(self, name: str, tokenizer: Any, server: Server) -> None:
        self.name, self.tokenizer, self.server = name, tokenizer, server
        self.client = openai_client(server.base_url, server.api_key, timeout=server.timeout, max_retries=0)
        self.form, self.answered = 0, False  # of `FORMS`, final with the first answer
        self._tokens: dict[int, Token] = {}

    @property
    def where(self) -> str:
        """The server's address as it may be shown."""
        return public_url(self.server.base_url)

    @property
    def takes_ids(self) -> bool:
        return FORMS[self.form] != "text"

    def identity(self) -> dict[str, Any]:
        """The weights behind a server are not known; its address and the model's name stand for them."""
        tokenizer = tokenizer_fingerprint(self.tokenizer)
        known = {"model": self.name, "revision": None, "weights": None, "tokenizer": tokenizer}
        return known | {"dtype": self.dtype, "device": self.where}

    def about(self) -> dict[str, Any]:
        return {}

    def hardware(self) -> dict[str, Any]:
        return hardware(f"server at {self.where}")

    def encode(self, pairs: Sequence[Triple], style: Format | None = None) -> list[Encoded]:
        return encode_pairs(self.tokenizer, pairs, style or Format())

    def check(self, encoded: Sequence[Encoded]) -> None:
        """What a server can read it says itself."""

    def plan(self, encoded: Sequence[Encoded], batch_tokens: int | None = None, *, prefix_tree: bool = True) -> Plan:
        """What one request holds. Sharing prefixes is the server's business."""
        tokens = batch_tokens or REQUEST_TOKENS
        return Plan(
            plan_batches(encoded, vocabulary=1, limits=Limits(tokens=tokens)), prefix_tree=False, batch_tokens=tokens
        )

    def score_parts(
        self, encoded: Sequence[Encoded], parts: Mapping[int, Plan], *, native_softmax: bool = False,
        progress: Progress = lambda texts: None,
    ) -> Iterator[tuple[int, np.ndarray, Counters]]:  # fmt: skip
        """See `anachron.lm.scorer.Scorer`; the very first request goes alone, so that a refusal is met once."""
        if native_softmax:
            raise ConfigError("a served model has no native softmax to choose; leave --native-softmax out")
        with ThreadPoolExecutor(self.server.concurrency, "score") as pool:
            try:
                for number, plan in parts.items():
                    requests = [[encoded[i] for i in batch] for batch in plan.batches]
                    answers: list[np.ndarray] = []
                    for request, answer in zip(requests, self._answers(pool, requests), strict=True):
                        answers.append(answer)
                        progress(len(request))
                    tokens = sum(len(text.ids) for request in requests for text in request)
                    yield number, np.concatenate(answers), Counters(tokens=tokens)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _answers(self, pool: ThreadPoolExecutor, requests: list[list[Encoded]]) -> Iterator[np.ndarray]:
        alone = 0 if self.answered else 1
        for request in requests[:alone]:
            yield self._ask_first(request)
            self.answered = True
        yield from pool.map(self._ask, requests[alone:])

    def _ask_first(self, texts: list[Encoded]) -> np.ndarray:
        """Scores of the texts of a request, in the first form that the server takes; and what it makes of some of them.

        Where it takes none of the forms, what it said to the first is raised, for the others are less usual.
        """
        from openai import APIStatusError

        refusal: BackendError | None = None
        for form in range(len(FORMS)):
            self.form = form
            try:
                choices = self._choices(texts, top=5)
                answers = self._scores(texts, choices)
                self._check(texts, choices)
                return answers
            except APIStatusError as error:
                refusal = refusal or self._failed(error)
                if error.status_code not in REFUSED:
                    break
            except ModelError as error:
                raise ModelError(f"{error} ({refusal})") from None
        assert refusal is not None
        raise refusal

    def _ask(self, texts: list[Encoded]) -> np.ndarray:
        """Scores of the texts of a request, in the form that the server takes."""
        from openai import APIStatusError

        try:
            return self._scores(texts, self._choices(texts))
        except APIStatusError as error:
            raise self._failed(error) from None

    def _check(self, texts: list[Encoded], choices: list[Choice]) -> None:
        """Refuse a server whose numbers belong to other tokens, by what it would write where answers begin."""
        some = range(0, len(texts), -(-len(texts) // CHECKED))
        begun = [self._begun(texts[i]) for i in some]
        replies = list(zip(some, begun, self._choices(begun, top=5, echo=False), strict=True))
        going_on = [reply for reply in replies if reply[2].tokens]  # a text may end where its answer begins
        for i, text, reply in going_on or replies:
            self._believing(check_next, reply, choices[i], len(text.ids))

    def _begun(self, text: Encoded) -> Encoded:
        """A text up to its answer; somewhat shorter where that cannot be sent."""
        whole = [Encoded(text.ids[:place], ()) for place in range(text.targets[0], 0, -1)]
        return next((begun for begun in whole if self.takes_ids or self._is_writable(begun)), whole[0])

    def _is_writable(self, text: Encoded) -> bool:
        try:
            return bool(self._written(text))
        except ModelError:
            return False

    def _scores(self, texts: list[Encoded], choices: list[Choice]) -> np.ndarray:
        return np.array(
            [self._believing(scores, text, choice, self._token) for text, choice in zip(texts, choices, strict=True)]
        )

    def _choices(self, texts: list[Encoded], top: int = 1, *, echo: bool = True) -> list[Choice]:
        """What the server answers to some texts: at once, or one by one where it takes no token ids."""
        if self.takes_ids:
            return self._request([list(text.ids) for text in texts], texts=len(texts), top=top, echo=echo)
        return [choice for text in texts for choice in self._request(self._written(text), texts=1, top=top, echo=echo)]

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
        return str(written)

    def _request(self, prompt: Any, *, texts: int, top: int, echo: bool) -> list[Choice]:
        from openai import APIConnectionError, APIStatusError, OpenAIError

        tries = self.server.tries if self.answered else min(2, self.server.tries)
        complete = self.client.with_options(max_retries=tries - 1).completions.with_raw_response.create
        wanted = {"return_tokens_as_token_ids": True} if self.form == 0 else None
        try:
            reply = complete(
                model=self.name, prompt=prompt, max_tokens=1, temperature=0, echo=echo, logprobs=top, extra_body=wanted
            )
        except APIStatusError:
            raise
        except APIConnectionError as error:  # without its cause, which may hold what the server repeats of the key
            raise BackendError(
                f"no answer from {self.where} ({self._hide(f'{error.message} {error.__cause__ or str()}')}); finished "
                "parts are kept: start the server and repeat the command"
            ) from None
        except OpenAIError as error:
            raise BackendError(f"{self.where} cannot be asked ({self._hide(str(error))})") from None
        return self._believing(read_choices, reply.content, texts, self.name)

    def _believing(self, read: Callable[..., Believed], *reply: Any) -> Believed:
        """What is read from a reply. Raises `BackendError` where it cannot be believed."""
        try:
            return read(*reply)
        except BadReply as error:
            raise BackendError(f"{self.where} {self._hide(str(error))}") from None

    def _token(self, id: int) -> Token:
        if id not in self._tokens:
            text, piece = self.tokenizer.decode([id]), self.tokenizer.convert_ids_to_tokens(id)
            self._tokens[id] = Token(id, str(piece), text, id in self.tokenizer.all_special_ids)
        return self._tokens[id]

    def _failed(self, error: "APIStatusError") -> BackendError:
        """What a refusal is. Nothing of what is said to a bad key is shown: servers repeat parts of it."""
        where, status = f"{self.where} refuses to score with {self.name!r}", error.status_code
        if status in (401, 403) and not self.server.api_key:
            return BackendError(f"{where} (HTTP {status}); it wants a key: name its variable with --api-key-env")
        if status == 401:
            return BackendError(f"{where} (HTTP 401); the key is none that it knows: check that of --api-key-env")
        if 300 <= status < 400:
            return BackendError(self._hide(redirected(self.where, status, error.response.headers)))
        return BackendError(f"{where} (HTTP {status}: {self._hide(error.message)})")

    def _hide(self, words: str) -> str:
        return shown(words, secrets_of(self.server.base_url, self.server.api_key))
