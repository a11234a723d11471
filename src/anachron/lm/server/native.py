"""Two servers' own ways to score, which keep their prefix cache: what is asked and how the reply is read.

vLLM (0.33, started with ``--enable-scale-out``) takes ``prompt_logprob_token_ids`` and ``prompt_logprob_start`` on
``/inference/v1/generate``, SGLang ``logprob_start_len`` on ``/generate``. Both give one number a token, from the answer
on, where the echo of a text has lists for all of it, for which vLLM computes all of it anew. A request holds one text,
so no reply can stand beside another's text. Nothing here sends anything; what is read is believed as little as in
`anachron.lm.server.replies`.
"""

import io
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from anachron.lm.server.replies import (
    HALF,
    BadReply,
    answer_score,
    bad,
    check_cached,
    check_name,
    load_reply,
    number,
    read_cached,
)
from anachron.lm.spans import Encoded

TOGETHER = 1.01  # most that the probabilities of two tokens in one place may sum to, as half precision rounds them


@dataclass(frozen=True, slots=True)
class ServerScore:
    """What a server says of a text.

    logp: of its answer; ``None`` where the server had more of the text in its cache than the beginning of the answer,
    and so computed no numbers. cached: tokens that it took from there; ``None`` where it does not say.
    """

    logp: float | None
    cached: int | None


class NativeWay(Protocol):
    """How one kind of server is asked.

    name: as it is recorded. path: behind the server's address without /v1. names_model: whether a request says which
    model is meant, and the reply which it was.
    """

    name: str
    path: str
    names_model: bool

    def asked(self, model: str, text: Encoded, *, fresh: bool) -> dict[str, Any]:
        """The request for a text's score. fresh: what is in the server's cache is not to be used."""
        ...

    def is_spoken(self, body: bytes) -> bool:
        """Whether a reply to that request has this way's numbers, right or wrong."""
        ...

    def scored(self, body: bytes, model: str, text: Encoded) -> ServerScore:
        """The reply to that request. Raises `BadReply`."""
        ...

    def asked_next(self, model: str, ids: Sequence[int]) -> dict[str, Any]:
        """The request for the token that would be written after some tokens."""
        ...

    def next_token(self, body: bytes, model: str) -> tuple[int, float]:
        """That token and its log-probability. Raises `BadReply`."""
        ...


class VLLM:
    """vLLM's generation from tokens, by its source at 0.33 (``vllm/sampling_params.py``, ``entrypoints/scale_out``).

    Its cache holds whole blocks of tokens. A text of which more is there than what stands before the answer gets no
    numbers, so it has to be asked for again without the cache.
    """

    name, path, names_model = "vLLM prompt_logprob_token_ids", "/inference/v1/generate", True

    def asked(self, model: str, text: Encoded, *, fresh: bool) -> dict[str, Any]:
        first = text.targets[0]
        wanted = {"prompt_logprob_token_ids": [[id] for id in text.ids[first:]], "prompt_logprob_start": first - 1}
        return self._asked(model, text.ids, {**wanted, "skip_reading_prefix_cache": fresh})

    def asked_next(self, model: str, ids: Sequence[int]) -> dict[str, Any]:
        return self._asked(model, ids, {"logprobs": 1})

    def _asked(self, model: str, ids: Sequence[int], wanted: Mapping[str, Any]) -> dict[str, Any]:
        one = {"max_tokens": 1, "temperature": 0.0, "detokenize": False}
        return {"model": model, "token_ids": list(ids), "sampling_params": {**one, **wanted}}

    def is_spoken(self, body: bytes) -> bool:
        try:
            return load_reply(body, "choices").get("prompt_token_id_logprobs") is not None
        except BadReply:
            return False

    def scored(self, body: bytes, model: str, text: Encoded) -> ServerScore:
        reply = self._reply(body, model)
        cached = read_cached(reply, len(text.ids))
        usage = reply.get("usage")
        _check_size((usage if isinstance(usage, dict) else {}).get("prompt_tokens"), text)
        if (packed := reply.get("prompt_token_id_logprobs")) is None:
            return ServerScore(None, cached)
        first = text.targets[0]
        values = _unpacked(packed, rows=len(text.ids) - first)
        return ServerScore(answer_score([values[target - first] for target in text.targets]), cached)

    def next_token(self, body: bytes, model: str) -> tuple[int, float]:
        reply = self._reply(body, model)
        try:
            (choice,) = reply["choices"]
            (token,) = choice["logprobs"]["content"]
            id, value = token["token_id"], token["logprob"]
        except (TypeError, KeyError, ValueError):
            bad("the token that it would write", reply["choices"], "one choice with one token and its number")
        return _id(id), number(value)

    def _reply(self, body: bytes, model: str) -> dict[str, Any]:
        reply = load_reply(body, "choices")
        check_name(reply, model)
        return reply


class SGLang:
    """SGLang's generation, by its source at 0.5 (``srt/managers/io_struct.py``, ``tokenizer_manager.py``).

    It reads its cache up to the token before the answer and no further, so numbers are never missing.
    """

    name, path, names_model = "SGLang logprob_start_len", "/generate", False

    def asked(self, model: str, text: Encoded, *, fresh: bool) -> dict[str, Any]:
        return self._asked(text.ids, start=text.targets[0] - 1)

    def asked_next(self, model: str, ids: Sequence[int]) -> dict[str, Any]:
        return self._asked(ids, start=-1)

    def _asked(self, ids: Sequence[int], start: int) -> dict[str, Any]:
        one = {"max_new_tokens": 1, "temperature": 0.0}
        return {"input_ids": list(ids), "sampling_params": one, "return_logprob": True, "logprob_start_len": start}

    def is_spoken(self, body: bytes) -> bool:
        try:
            return "input_token_logprobs" in self._about(body)
        except BadReply:
            return False

    def scored(self, body: bytes, model: str, text: Encoded) -> ServerScore:
        about = self._about(body)
        _check_size(about.get("prompt_tokens"), text)
        first = text.targets[0]
        given, ours = _pairs(about.get("input_token_logprobs")), text.ids[first - 1 :]
        if len(given) != len(ours):
            raise BadReply(f"gives {len(given)} log-probabilities where {len(ours)} were asked for")
        for (_, id), own in zip(given, ours, strict=True):
            if id != own:
                raise BadReply(f"has the token {id} where {own} was sent; its numbers belong to other tokens")
        if given[0][0] is not None:
            bad("the number of the token before the answer", given[0][0], "null, for its own beginning was left out")
        values = [None if value is None else number(value) for value, _ in given[1:]]
        score = answer_score([values[target - first] for target in text.targets])
        return ServerScore(score, check_cached(about.get("cached_tokens"), len(text.ids)))

    def next_token(self, body: bytes, model: str) -> tuple[int, float]:
        written = _pairs(self._about(body).get("output_token_logprobs"))
        if len(written) != 1:
            raise BadReply(f"was asked for one token after a text and answers with {len(written)}")
        return written[0][1], number(written[0][0])

    def _about(self, body: bytes) -> dict[str, Any]:
        about = load_reply(body, "meta_info", "generated text")["meta_info"]
        if not isinstance(about, dict):
            bad("meta_info", about, "an object")
        ended = about.get("finish_reason")
        if isinstance(ended, dict) and ended.get("type") == "abort":
            raise BadReply(f"gave up on the text ({str(ended.get('message'))[:200]})")
        return about


NATIVE: tuple[NativeWay, ...] = (VLLM(), SGLang())  # in the order in which they are tried


def trials(text: Encoded, best: int) -> list[Encoded]:
    """A text with the likeliest token, and with another, where its answer begins; that token is the answer of each."""
    place = text.targets[0]
    other = next(id for id in (text.ids[place], *text.ids, best + 1, best - 1) if id != best and id >= 0)
    return [Encoded((*text.ids[:place], id, *text.ids[place + 1 :]), (place,)) for id in (best, other)]


def check_trials(alone: float, within: Sequence[float], place: int) -> None:
    """Compare what a server would write after the beginning of a text with its numbers for that place in `trials`.

    alone: the log-probability of the token that it would write. Numbers that stand one place beside their own, or that
    are filled in, show here. Raises `BadReply`.
    """
    best, other = within
    if abs(best - alone) > HALF:
        raise BadReply(
            f"gives the token that it would write after the first {place} tokens of a text {alone:.3f}, but in the "
            f"text {best:.3f}: its numbers belong to other tokens"
        )
    if np.exp(best) + np.exp(other) > TOGETHER:
        raise BadReply(
            f"gives two tokens in one place the probabilities {np.exp(best):.3f} and {np.exp(other):.3f}, which are "
            "above 1 together; its numbers are filled in"
        )


def _unpacked(packed: Any, rows: int) -> list[float | None]:
    """vLLM's numbers, one a row: an array of numpy's own format in base64; ``None`` for minus infinity."""
    try:
        array = np.load(io.BytesIO(b64decode(packed, validate=True)), allow_pickle=False)
    except (TypeError, ValueError, EOFError, OSError) as error:
        raise BadReply(f"gives log-probabilities that are not a NumPy array ({error})") from None
    if not isinstance(array, np.ndarray) or array.dtype.kind != "f":
        bad("log-probabilities", array, "an array of floating-point numbers")
    if array.shape != (rows, 1):
        raise BadReply(f"gives log-probabilities of the shape {array.shape} where {(rows, 1)} was asked for")
    return [None if value == -np.inf else number(value) for value in array[:, 0].tolist()]


def _pairs(given: Any) -> list[tuple[Any, int]]:
    """SGLang's lists of (log-probability, token, text)."""
    if not isinstance(given, list) or not all(isinstance(entry, list) and len(entry) >= 2 for entry in given):
        bad("log-probabilities", given, "a list of lists of a number and a token")
    return [(entry[0], _id(entry[1])) for entry in given]


def _id(id: Any) -> int:
    if type(id) is not int or id < 0:
        bad("a token", id, "a number from 0 on")
    return int(id)


def _check_size(tokens: Any, text: Encoded) -> None:
    if tokens is not None and tokens != len(text.ids):
        raise BadReply(f"read {tokens!r} tokens where {len(text.ids)} were sent")
