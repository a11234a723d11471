"""Models behind a server: by its own way to score where it has one, else by the OpenAI protocol.

That is ``/v1/completions`` with ``echo`` and ``logprobs``; the servers' own ways are `anachron.lm.server.native`.
Which it is shows in what the server answers to the first text. Texts are tokenised here, with the model's own
tokenizer, and sent as token ids, so that the answer's tokens are known; a server that takes only text is sent text,
and its tokens must be those of the tokenizer. What it answers is checked (`anachron.lm.server.replies`) before a
number of it is used.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from anachron.core.errors import BackendError, ConfigError, ModelError
from anachron.io.servers import Server
from anachron.lm.batches import plan_requests
from anachron.lm.formats import Format, encode_pairs
from anachron.lm.identity import hardware, tokenizer_fingerprint
from anachron.lm.plans import Plan
from anachron.lm.scorer import Progress, Triple
from anachron.lm.scoring import Counters
from anachron.lm.server.connection import Connection, RefusedScoring
from anachron.lm.server.native import NATIVE, NativeWay, check_trials, trials
from anachron.lm.server.replies import Choice, Token, check_next, load_reply, read_cached, read_choices, scores
from anachron.lm.spans import Encoded

REQUEST_TOKENS = 2048  # of a request, unless asked otherwise
REFUSED = (400, 404, 405, 415, 422)  # what servers answer to a form of request that they do not know
FORMS = ("ids, and ids wanted", "ids", "text")  # of what is sent, and of the names of tokens; tried in this order
CHECKED = 3  # texts of the first request of which it is checked what the server makes of them
HINTS = (  # what vLLM says where its own way is there but closed, and how it is opened
    ("--enable-scale-out", "if it is started with --enable-scale-out"),
    ("V2 model runner", "if it is started with VLLM_USE_V2_MODEL_RUNNER=1, which needs Triton"),
)
Answer = tuple[np.ndarray, Counters]


class ServedModel:
    """A model of a server as an `anachron.lm.scorer.Scorer`.

    tokenizer: the model's own, fast. tell: told by which way the server scores.
    Raises `BackendError` where the package ``openai`` is missing.
    """

    prefix, passages, dtype = "", None, "served"

    def __init__(self, server: Server, tokenizer: Any, tell: Callable[[str], None] = lambda message: None) -> None:
        self.name, self.tokenizer, self.server, self.tell = server.model, tokenizer, server, tell
        self.connection = Connection(server)
        self.form = 0  # of `FORMS`, final with the first answer
        self.native: NativeWay | None = None  # final with the first answer, too
        self._tokens: dict[int, Token] = {}

    @property
    def where(self) -> str:
        """The server's address as it may be shown."""
        return self.connection.client.where

    @property
    def takes_ids(self) -> bool:
        return FORMS[self.form] != "text"

    def identity(self) -> dict[str, Any]:
        """The weights behind a server are not known; its address and the model's name stand for them."""
        tokenizer = tokenizer_fingerprint(self.tokenizer)
        known = {"model": self.name, "revision": None, "weights": None, "tokenizer": tokenizer}
        said = {"same_as": list(self.server.same_as)} if self.server.same_as else {}
        return known | {"dtype": self.dtype, "device": self.server.identity, **said}

    def about(self) -> dict[str, Any]:
        return {}

    def hardware(self) -> dict[str, Any]:
        """The server, and the way by which it scores: not known before the first answer."""
        way = self.native.name if self.native else "echo" if self.connection.answered else None
        return hardware(f"server at {self.where}") | {"way": way}

    def encode(self, pairs: Sequence[Triple], style: Format | None = None) -> list[Encoded]:
        return encode_pairs(self.tokenizer, pairs, style or Format())

    def check(self, encoded: Sequence[Encoded]) -> None:
        """What a server can read it says itself."""

    def plan(self, encoded: Sequence[Encoded], batch_tokens: int | None = None, *, prefix_tree: bool = True) -> Plan:
        """What one request holds, or what is sent one after another: texts that begin alike stand together.

        Sharing prefixes is the server's business, so there is no prefix tree.
        """
        tokens = batch_tokens or REQUEST_TOKENS
        return Plan(plan_requests(encoded, tokens), prefix_tree=False, batch_tokens=tokens)

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
                    if not self.connection.answered:
                        self._find_way(requests[0][0])
                    hits = self.connection.cache_hits() if self.native else None
                    answers: list[np.ndarray] = []
                    counters = Counters()
                    for request, (answer, count) in zip(requests, self._answers(pool, requests), strict=True):
                        answers.append(answer)
                        counters.add(count)
                        progress(len(request))
                    if counters.cached is None and hits is not None:  # the replies do not say it, the server does
                        counters.cached = max(0, (self.connection.cache_hits() or hits) - hits)
                        counters.tokens -= min(counters.cached, counters.tokens)
                    yield number, np.concatenate(answers), counters
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _answers(self, pool: ThreadPoolExecutor, requests: list[list[Encoded]]) -> Iterator[Answer]:
        alone = 0 if self.connection.answered else 1
        for request in requests[:alone]:
            if self.native:
                answer = self._ask(request)
                self._check_native(self.native, request)
            else:
                answer = self._ask_first(request)
            self.connection.answered = True
            yield answer
        yield from pool.map(self._ask, requests[alone:])

    def _find_way(self, text: Encoded) -> None:
        """Take the first of the servers' own ways that gives numbers for a text; tell which, or that there is none."""
        hint = ""
        for way in NATIVE if self.connection.root else ():
            try:
                reply = self.connection.post(way.path, way.asked(self.name, text, fresh=True))
            except RefusedScoring as error:  # an older version, or another server
                hint = next((f"; vLLM has a faster one {how}" for said, how in HINTS if said in error.words), hint)
                continue
            if way.is_spoken(reply) and (way.names_model or self._is_base_model()):
                self.native = way
                return self.tell(f"{self.where} scores through its own interface, {way.name}")
        self.tell(f"{self.where} scores through the echo of /v1/completions{hint}")

    def _is_base_model(self) -> bool:
        """Whether the model's name is that of the weights that the server loaded, and not of an adapter on them."""
        cards = self.connection.read_reply(load_reply, self.connection.models(), "data", "list of models")["data"]
        listed = [card for card in cards if isinstance(card, dict)] if isinstance(cards, list) else []
        return any(card.get("id") == self.name and not card.get("parent") for card in listed)

    def _check_native(self, way: NativeWay, texts: list[Encoded]) -> None:
        """Refuse a server whose numbers belong to other tokens, as `_check` does."""
        for text in texts[:: -(-len(texts) // CHECKED)]:
            place = text.targets[0]
            begun = self.connection.post(way.path, way.asked_next(self.name, text.ids[:place]))
            best, alone = self.connection.read_reply(way.next_token, begun, self.name)
            within = [self._score(way, trial)[0] for trial in trials(text, best)]
            self.connection.read_reply(check_trials, alone, within, place)

    def _score(self, way: NativeWay, text: Encoded) -> tuple[float, Counters]:
        """A text's score. Where the server's cache held too much of it to compute numbers, it is asked again."""
        counters = Counters()
        for fresh in (False, True):
            reply = self.connection.post(way.path, way.asked(self.name, text, fresh=fresh))
            said = self.connection.read_reply(way.scored, reply, self.name, text)
            counters.add(_counted(len(text.ids), said.cached))
            if said.logp is not None:
                return said.logp, counters
        raise BackendError(f"{self.where} gives no log-probabilities for a text of {len(text.ids)} tokens")

    def _ask_first(self, texts: list[Encoded]) -> Answer:
        """Scores of the texts of a request, in the first form that the server takes; and what it makes of some of them.

        Where it takes none of the forms, what it said to the first is raised, for the others are less usual.
        """
        refusal: BackendError | None = None
        for form in range(len(FORMS)):
            self.form = form
            try:
                choices, counters = self._choices(texts, top=5)
                answers = self._scores(texts, choices)
                self._check(texts, choices)
                return answers, counters
            except RefusedScoring as error:
                refusal = refusal or error
                if error.status not in REFUSED:
                    break
            except ModelError as error:
                raise ModelError(f"{error} ({refusal})") from None
        assert refusal is not None
        raise refusal

    def _ask(self, texts: list[Encoded]) -> Answer:
        """Scores of the texts of a request, in the way and the form that the server takes."""
        counters = Counters()
        if self.native:
            found = [self._score(self.native, text) for text in texts]
            for _, count in found:
                counters.add(count)
            return np.array([score for score, _ in found]), counters
        choices, counters = self._choices(texts)
        return self._scores(texts, choices), counters

    def _check(self, texts: list[Encoded], choices: list[Choice]) -> None:
        """Refuse a server whose numbers belong to other tokens, by what it would write where answers begin."""
        some = range(0, len(texts), -(-len(texts) // CHECKED))
        begun = [self._begun(texts[i]) for i in some]
        replies = list(zip(some, begun, self._choices(begun, top=5, echo=False)[0], strict=True))
        going_on = [reply for reply in replies if reply[2].tokens]  # a text may end where its answer begins
        for i, text, reply in going_on or replies:
            self.connection.read_reply(check_next, reply, choices[i], len(text.ids))

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
            [
                self.connection.read_reply(scores, text, choice, self._token)
                for text, choice in zip(texts, choices, strict=True)
            ]
        )

    def _choices(self, texts: list[Encoded], top: int = 1, *, echo: bool = True) -> tuple[list[Choice], Counters]:
        """What the server answers to some texts: at once, or one by one where it takes no token ids."""
        if self.takes_ids:
            return self._request([list(text.ids) for text in texts], texts, top=top, echo=echo)
        choices: list[Choice] = []
        counters = Counters()
        for text in texts:
            choice, count = self._request(self._written(text), [text], top=top, echo=echo)
            choices += choice
            counters.add(count)
        return choices, counters

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

    def _request(self, prompt: Any, texts: list[Encoded], *, top: int, echo: bool) -> tuple[list[Choice], Counters]:
        wanted = {"return_tokens_as_token_ids": True} if self.form == 0 else {}
        body = self.connection.complete(prompt=prompt, max_tokens=1, temperature=0, echo=echo, logprobs=top, **wanted)
        return self.connection.read_reply(_read, body, texts, self.name)

    def _token(self, id: int) -> Token:
        if id not in self._tokens:
            text, piece = self.tokenizer.decode([id]), self.tokenizer.convert_ids_to_tokens(id)
            self._tokens[id] = Token(id, str(piece), text, id in self.tokenizer.all_special_ids)
        return self._tokens[id]


def _read(body: bytes, texts: list[Encoded], model: str) -> tuple[list[Choice], Counters]:
    reply = load_reply(body, "choices")
    sent = sum(len(text.ids) for text in texts)
    return read_choices(reply, len(texts), model), _counted(sent, read_cached(reply, sent))


def _counted(sent: int, cached: int | None) -> Counters:
    return Counters(tokens=sent - (cached or 0), cached=cached)
