"""Reads what a server answers on /v1/completions with ``logprobs``, and believes none of it.

A reply is numbers beside tokens. Before a number is used, all of them are looked at: that they can be
log-probabilities, that there is one for each token, and that the tokens are those of the text that was sent.
"""

import json
import math
import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from anachron.lm.spans import Encoded

ROUNDING = 1e-5  # above 0: what a softmax in float32 can be off by, and below any probability that a text is made of
SAME = 1e-3  # between two mentions of one number in a reply
HALF = 0.5  # between two computations of one number in half precision, which differ by less
MOST_COUNTED = 2.0**63  # that a counter of tokens holds
NO_NUMBER = -9999.0  # what vLLM writes for minus infinity, which JSON does not have


class BadReply(Exception):
    """A reply that cannot be used; its words go on after the server's name."""


@dataclass(frozen=True, slots=True)
class Token:
    """How a token may be written: as its id, as in the vocabulary, as text. special: a mark such as <s>, not text."""

    id: int
    piece: str
    text: str
    special: bool

    def is_written(self, name: str) -> bool | None:
        """Whether a server's name means this token; ``None`` where that cannot be told."""
        if name.startswith("token_id:"):
            return name == f"token_id:{self.id}"
        if name == self.piece:
            return True
        if "\ufffd" in self.text:  # a part of a character: there is no agreed way to write it
            plain = name.strip()
            ours = self.text.replace("\ufffd", "").strip()
            return False if plain.isascii() and plain and not plain.startswith("bytes:") and plain != ours else None
        if self.special and not name:
            return None
        if name.strip(" ") != self.text.strip(" "):  # spaces at the ends differ between servers
            return False
        return True if name.strip(" ") or name == self.text else None


@dataclass(frozen=True, slots=True)
class Choice:
    """One text's part of a reply, position by position: tokens, their log-probabilities, the most probable tokens.

    logp: ``None`` where the server gives none, else finite and at most `ROUNDING`. top: by the server's names; empty
    where it gives none.
    """

    tokens: list[str]
    logp: list[float | None]
    top: list[dict[str, float]]


def load_reply(body: bytes, wanted: str, what: str = "completion") -> dict[str, Any]:
    """A reply as an object of JSON with a certain member. Raises `BadReply`."""
    try:
        reply = json.loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        begins = body[:60].decode("utf-8", "replace")
        raise BadReply(
            f"does not answer with a {what} ({error}; it begins {begins!r}); does --base-url end in /v1?"
        ) from None
    if not isinstance(reply, dict) or wanted not in reply:
        fault = reply.get("error", reply) if isinstance(reply, dict) else reply
        words = fault.get("message", fault) if isinstance(fault, dict) else fault
        words = words if isinstance(words, str) else reprlib.repr(words)
        raise BadReply(f"does not answer with a {what} ({words[:200]}); does --base-url end in /v1?")
    return reply


def read_choices(reply: dict[str, Any], texts: int, model: str) -> list[Choice]:
    """The parts of a reply in the order of the texts that were sent. Raises `BadReply`."""
    choices = reply["choices"]
    if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
        bad("choices", choices, "a list of objects")
    if len(choices) != texts:
        raise BadReply(f"gave {len(choices)} completions for {texts} texts")
    places = [choice.get("index") for choice in choices]
    if any(type(place) is not int for place in places) or sorted(places) != list(range(texts)):
        bad("the indices of its choices", places, f"0 to {texts - 1}, each once")
    parts = [_choice(choice) for choice in sorted(choices, key=lambda choice: choice["index"])]
    if all(choice.logp for choice in parts):  # without numbers there is more to say
        check_name(reply, model)
    return parts


def check_name(reply: Mapping[str, Any], model: str) -> None:
    """Raise `BadReply` where another model answers than was asked."""
    if (named := reply.get("model") or model) != model:
        raise BadReply(
            f"answers as the model {reprlib.repr(named)} where {model!r} was asked; if they are the same, "
            "give the name that it uses (and the tokenizer with --tokenizer)"
        )


def read_cached(reply: Mapping[str, Any], sent: int) -> int | None:
    """How many of the tokens sent a server took from its prefix cache; ``None`` where it does not say."""
    usage = reply.get("usage")
    details = usage.get("prompt_tokens_details") if isinstance(usage, dict) else None
    return check_cached(details.get("cached_tokens") if isinstance(details, dict) else None, sent)


def check_cached(cached: Any, sent: int) -> int | None:
    """A server's count of the tokens from its cache. Raises `BadReply` where it is none."""
    if cached is not None and (type(cached) is not int or not 0 <= cached <= sent):
        bad("the number of tokens from its cache", cached, f"from 0 to the {sent} that were sent")
    return cached


def read_counter(text: str) -> int:
    """A counter of a server's metrics. Raises `BadReply` where it is none."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < MOST_COUNTED:
        bad("a counter of its metrics", text, f"a number from 0 to {MOST_COUNTED:g}")
    return int(value)


def scores(text: Encoded, choice: Choice, token: Callable[[int], Token]) -> float:
    """log Pr of a text's answer from its part of a reply. What follows the text there was generated, and is not used.

    Raises `BadReply` where the numbers are none that a model gives for this text.
    """
    size = len(text.ids)
    given = choice.logp[:size]
    if all(value is None for value in given):
        raise BadReply(
            "returns no log-probabilities of the prompt; /v1/completions must support echo with logprobs, as that of "
            "vLLM does"
        )
    if len(choice.tokens) == 1 < size:
        raise BadReply(
            f"ignores echo: asked to return a text of {size} tokens with their log-probabilities, it returns the one "
            "that it generated; use a server whose /v1/completions supports echo with logprobs, such as vLLM"
        )
    if len(choice.tokens) - size not in (0, 1):
        raise BadReply(
            f"returns {len(choice.tokens)} log-probabilities for {size} tokens and one more: its tokenizer is another; "
            "give the model's own with --tokenizer"
        )
    _check_tokens(text.ids, choice.tokens, token)
    if given[0] is not None:
        raise BadReply(
            f"gives the first token the log-probability {given[0]:g}, and nothing is before it: its text begins "
            "elsewhere, or its list is shifted"
        )
    for place in range(1, size):
        _check_top(place, choice)
    if all(value >= -ROUNDING for value in given[1:] if value is not None):
        raise BadReply("gives every token of a text the probability 1, which no model does; its numbers are filled in")
    return answer_score([given[target] for target in text.targets])


def answer_score(answer: Sequence[float | None]) -> float:
    """The sum of the log-probabilities of an answer's tokens. Raises `BadReply` where one is missing."""
    numbers = [value for value in answer if value is not None and value > NO_NUMBER]
    if len(numbers) < len(answer):
        raise BadReply(f"has no number for a token of the answer ({reprlib.repr(answer)}); a score cannot do without")
    return math.fsum(min(value, 0.0) for value in numbers)


def check_next(next_one: Choice, choice: Choice, place: int) -> None:
    """Compare what a server would write after the beginning of a text with what it says of that place in the text.

    next_one: the reply for the text's first ``place`` tokens, without them. Both name some of the most probable tokens.
    Servers exist whose tokens and numbers look right beside each other, and the numbers belong one token further; here
    it shows. Raises `BadReply`.
    """
    if len(next_one.tokens) != 1:
        raise BadReply(f"was asked for one token after a text and answers with {len(next_one.tokens)}")
    if not next_one.top or not next_one.top[0] or len(choice.top) <= place or not choice.top[place]:
        raise BadReply(
            "names no most probable tokens (top_logprobs); they show whether its numbers belong to their tokens"
        )
    best = max(next_one.top[0], key=next_one.top[0].__getitem__)
    there = {name.strip(" "): value for name, value in choice.top[place].items()}
    alone, value = next_one.top[0][best], there.get(best.strip(" "))
    if value is None or abs(value - alone) > HALF:
        within = "nothing" if value is None else f"{value:.3f}"
        raise BadReply(
            f"goes on with {best[:40]!r} after the first {place} tokens of a text, at {alone:.3f}, but in the text "
            f"gives it {within} there: its numbers belong to other tokens"
        )


def _choice(choice: dict[str, Any]) -> Choice:
    logprobs = choice.get("logprobs")
    if not logprobs:
        return Choice([], [], [])
    if not isinstance(logprobs, dict):
        bad("logprobs", logprobs, "an object")
    tokens, numbers, tops = (logprobs.get(name) for name in ("tokens", "token_logprobs", "top_logprobs"))
    if not numbers:
        return Choice([], [], [])
    if not isinstance(numbers, list):
        bad("token_logprobs", numbers, "a list")
    if not isinstance(tokens, list) or not all(isinstance(name, str) for name in tokens):
        bad("tokens", tokens, "a list of texts, which are compared with the tokens of the text that was sent")
    if len(tokens) != len(numbers):
        raise BadReply(f"gives {len(numbers)} log-probabilities beside {len(tokens)} tokens")
    if tops:
        if not isinstance(tops, list) or len(tops) != len(tokens) or not all(isinstance(t or {}, dict) for t in tops):
            bad("top_logprobs", tops, f"a list of {len(tokens)} objects")
        tops = [{name: number(value) for name, value in (top or {}).items()} for top in tops]
    return Choice(tokens, [None if value is None else number(value) for value in numbers], tops or [])


def number(value: Any) -> float:
    """A log-probability of a reply. Raises `BadReply` where it can be none."""
    if type(value) not in (int, float) or not -1e300 < value < math.inf:
        bad("a log-probability", value, "a finite number")
    if value > ROUNDING:
        bad("a log-probability", value, "0 or less, the logarithm of a probability and not the probability itself")
    return float(value)


def _check_tokens(ids: Sequence[int], names: list[str], token: Callable[[int], Token]) -> None:
    """Every token that can be compared is ours; one at least can be, so that a list shifted by one would show."""
    compared = 0
    for place, id in enumerate(ids):
        ours, name = token(id), names[place]
        same = ours.is_written(name)
        if same is False:
            raise BadReply(
                f"has the token {name[:40]!r} where the tokenizer has {ours.text!r}; give the model's own with "
                "--tokenizer"
            )
        compared += bool(same)
    if not compared:
        raise BadReply(
            f"writes none of {len(ids)} tokens so that it can be compared with the tokenizer's; use a server that "
            "writes their ids, such as vLLM"
        )


def _check_top(place: int, choice: Choice) -> None:
    """The token's number is that which stands beside its name among the most probable, and not above them all."""
    top, name, value = choice.top[place] if choice.top else {}, choice.tokens[place], choice.logp[place]
    if value is None:
        raise BadReply(f"gives no log-probability to the token at {place}; only the first may be without")
    if not top:
        return
    highest, beside = max(top.values()), top.get(name)
    # Tokens that are written alike share an entry, with the number of either: the highest, where only two are named.
    alone = name.startswith("token_id:") or (len(top) <= 2 and beside is not None and beside < highest - SAME)
    if value > highest + SAME or (alone and beside is not None and abs(beside - value) > SAME):
        raise BadReply(
            f"gives the token at {place} {value:.3f} in one list and {highest if beside is None else beside:.3f} in "
            "another; its numbers belong to other tokens"
        )


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def bad(what: str, value: Any, rule: str) -> NoReturn:
    """Raise `BadReply` for a part of a reply that breaks a rule."""
    raise BadReply(f"gives {what} as {reprlib.repr(value)}, and it must be {rule}")
