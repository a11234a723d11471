"""What is believed of a server's reply: counts of tokens that can be, and text that can be written down.

A count that no text can have (none of a prompt, fewer than its letters allow, a number beyond any context) would be
added up, priced and stored; our own count stands in its place. Half of a surrogate pair is no character of any text,
and no file in UTF-8 can hold it.
"""

import math
import re
from dataclasses import replace
from typing import Any

from anachron.io.answers import Answer

LETTERS, AROUND = 4, 10  # letters a token, and tokens that a chat puts around a question
LONGEST_TOKEN = 32  # letters that the tokens of a text have on average at the very most
MOST_COUNTED = 10_000_000  # tokens of a prompt or an answer, hidden reasoning and all: more than any model takes


def text_of(content: Any) -> Any:
    """The text of a message: of one in parts, those that are text; what is neither is returned as it is."""
    if not isinstance(content, list):
        return content
    parts = [part if isinstance(part, dict) else vars(part) for part in content]
    return "".join(part["text"] for part in parts if part.get("type") == "text")


def reasoning_of(message: Any) -> Any:
    """What a server calls reasoning, beside the answer: ``reasoning_content`` (vLLM, llama.cpp), ``reasoning``."""
    return getattr(message, "reasoning_content", None) or getattr(message, "reasoning", None)


def prompt_tokens(prompt: str) -> float:
    """About how many tokens a question has, with what a chat puts around it."""
    return AROUND + len(prompt) / LETTERS


def least_tokens(text: str) -> int:
    """Tokens that a text has at least."""
    return math.ceil(len(text) / LONGEST_TOKEN)


def believed(answer: Answer, prompt: str) -> tuple[Answer, dict[str, str]]:
    """An answer with counts that can be and without halves of characters; and what was wrong with it, by kind.

    A count that the server does not give stays None.
    """
    faults: dict[str, str] = {}
    better: dict[str, Any] = {}
    for name in ("text", "finish", "refusal", "served_by", "reasoning"):
        value = getattr(answer, name)
        if isinstance(value, str) and (found := without_halves(value))[1]:
            better[name] = found[0]
            faults["halves"] = "the server sends halves of characters (lone surrogates); each is stored as U+FFFD"
    written = answer.text + (answer.reasoning or "")
    own = {
        "prompt_tokens": (least_tokens(prompt), math.ceil(prompt_tokens(prompt))),
        "completion_tokens": (least_tokens(written), math.ceil(len(written) / LETTERS)),
    }
    for name, (least, ours) in own.items():
        if (count := getattr(answer, name)) is not None and not (type(count) is int and least <= count <= MOST_COUNTED):
            better[name] = ours
            faults[name] = f"the server counts {_brief(count)} as {name}, which cannot be; our estimate is recorded"
    return replace(answer, **better) if better else answer, faults


def _brief(count: Any) -> str:
    """A count in words: a number of many digits is not written out, and words of the server are not repeated."""
    if type(count) not in (int, float):
        return f"a {type(count).__name__}"
    return (
        f"{count:,}"
        if abs(count) <= MOST_COUNTED
        else f"{'less than -' if count < 0 else 'more than '}{MOST_COUNTED:,}"
    )


_HALF = re.compile("[\ud800-\udfff]")


def without_halves(text: str) -> tuple[str, int]:
    """A text with U+FFFD in the place of each half character, and how many there were."""
    return _HALF.subn("\ufffd", text)


def whole_texts(value: Any) -> tuple[Any, int]:
    """What a JSON text holds, with all its texts, names of fields too, as `without_halves` has them; and how many."""
    if isinstance(value, str):
        return without_halves(value)
    if isinstance(value, list):
        parts = [whole_texts(part) for part in value]
        return [part for part, _ in parts], sum(count for _, count in parts)
    if isinstance(value, dict):
        fields = [(without_halves(name), whole_texts(part)) for name, part in value.items()]
        return {name: part for (name, _), (part, _) in fields}, sum(a + b for (_, a), (_, b) in fields)
    return value, 0
