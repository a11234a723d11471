"""How a prompt and an answer become the text that a model reads: raw or through a chat template.

The two explanatory prefixes carry the content of the two in TimeStress, appendix C.3, and ``few-shot`` the
form of TimeStress v1, section 4.6, all in this project's own words. The papers' exact wordings go in as files.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cached_property
from typing import Any, Literal, Protocol, Self, TypeVar

from anachron.core.errors import ConfigError, DataError, ModelError
from anachron.lm.spans import Encoded, Located, encode
from anachron.lm.templates import render

PREFIXES: dict[str, str] = {
    "none": "",
    "hierarchy": (
        "A date names a moment by its year, its month and its day. Years consist of months, and months consist of "
        "days. Reply to the question below.\n"
    ),
    "transfer": (
        "A date names a moment in time. Whatever is true throughout a year is true on every date of that year, and "
        "whatever is true throughout a month of a year is true on every date of that month. Reply to the question "
        "below.\n"
    ),
    "few-shot": (
        "Reply to the last question in the same way as in these examples:\n"
        "In October 1994, who was the chief of staff of the White House? Leon Panetta\n"
        "On May 6, 2012, which team did Philipp Lahm play for? FC Bayern Munich\n"
    ),
}

_USER_HOLE, _ASSISTANT_HOLE = "\ue000user\ue001", "\ue000answer\ue001"


class Shown(Protocol):
    """Texts that are put before prompts by what these say (`anachron.edit.carried.passages.Passages`)."""

    def before(self, prompts: Sequence[str]) -> list[str]:
        """One text a prompt, with the space behind it; empty where nothing is shown."""
        ...

    def __add__(self, other: Self) -> Self: ...


S = TypeVar("S", bound=Shown)


@dataclass(frozen=True, slots=True)
class Format:
    """What surrounds a statement. The last three settings exist to compare with the published code.

    kind: ``raw`` text, or ``chat`` (user: prefix and prompt, assistant: answer).
    prefix: text put before the prompt, as it is; in chat format it opens the user's turn.
    passages: what is put before that by each prompt; marks of a chat template in it are text like any other.
    template_date: the day that a chat template is told is today (ISO), for templates that ask.
    all_occurrences: score every occurrence of the answer in the text, in upper or lower case, not only the one
        at the end.
    answer_in_user_turn: the user's turn holds the whole statement, answer included (chat only).
    score_separator: tokens of the space before the answer are scored with it, where the tokenizer makes it tokens of
        their own (Mistral before ``1990``): what a model must write to give the answer, as papers on editing have it,
        while TimeStress scores the smallest run of tokens that covers the answer. In a chat it is the space between the
        generation prompt of the template, which ends where the assistant begins, and the answer.
    """

    kind: Literal["raw", "chat"] = "raw"
    prefix: str = ""
    template_date: str | None = None
    all_occurrences: bool = False
    answer_in_user_turn: bool = False
    score_separator: bool = False
    passages: Shown | None = None

    def __post_init__(self) -> None:
        if self.kind not in ("raw", "chat"):
            raise ConfigError(f"format {self.kind!r}: choose 'raw' or 'chat'")
        if self.answer_in_user_turn and self.kind != "chat":
            raise ConfigError("answer-in-user-turn needs the chat format; add --format chat")
        if self.score_separator and (self.answer_in_user_turn or self.all_occurrences):
            raise ConfigError("score_separator needs one occurrence of the answer, after the prompt")


TARGETS = Format(score_separator=True)  # how edits count the tokens of their targets, and evaluations of objects


def in_force(lm: Any, style: Format) -> Format:
    """A format with what an edit in force puts before prompts; lm: an `anachron.lm.scorer.Scorer`."""
    return replace(style, prefix=lm.prefix + style.prefix, passages=joined(lm.passages, style.passages))


def joined(a: S | None, b: S | None) -> S | None:
    """Both together."""
    return a or b if a is None or b is None else a + b


def before(tokenizer: Any, prompts: Sequence[str], style: Format) -> list[str]:
    """What is put before each prompt: the passages that are shown for it, and the prefix."""
    if style.passages is None:
        return [style.prefix] * len(prompts)
    return [_without_marks(tokenizer, shown) + style.prefix for shown in style.passages.before(prompts)]


def _without_marks(tokenizer: Any, text: str) -> str:
    """A text in which nothing is read as a special token: a space parts the first character of what would be.

    Passages are other people's texts; one that holds ``<|im_end|>`` must not end the user's turn.
    """
    marks = {*tokenizer.all_special_tokens, *(str(one) for one in tokenizer.added_tokens_decoder.values())}
    for mark in sorted((mark for mark in marks if mark in text), key=len, reverse=True):
        text = text.replace(mark, f"{mark[0]} {mark[1:]}") if mark[1:].strip() else text
    return text


def check_pair(prompt: str, answer: str, separator: str | None = None) -> None:
    """Raise `DataError` for a pair that cannot be scored: an empty prompt, or an answer that is not a bare text.

    White space before the answer is allowed where the separator is "": then it is part of the answer.
    """
    if not prompt:
        raise DataError(f"empty prompt before the answer {answer!r}: there is nothing to condition on; give a prompt")
    bare = answer.strip()
    if not bare or bare != (answer.lstrip() if separator == "" else answer):
        raise DataError(
            f"answer {answer!r} is empty or has white space around it; put white space into the prompt or separator"
        )


def as_triple(pair: Sequence[str | None]) -> tuple[str, str, str | None]:
    """(prompt, answer, separator) of a pair that may lack the separator.

    An answer that begins with white space, as other harnesses write it, is scored with it and has the separator "".
    Raises `DataError` for what is not a pair of texts, and for such white space behind a separator.
    """
    whole = isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) in (2, 3)
    if not whole or not all(isinstance(part, str) for part in pair[:2]):
        raise DataError(f"{pair!r} is not a pair of texts; give (prompt, answer) or (prompt, answer, separator)")
    prompt, answer, separator = str(pair[0]), str(pair[1]), pair[2] if len(pair) == 3 else None
    if not answer[:1].isspace():
        return prompt, answer, separator
    if separator:
        raise DataError(f"answer {answer!r} begins with white space and has the separator {separator!r} too; give one")
    return prompt, answer, ""


def separator_for(prompt: str, separator: str | None = None) -> str:
    """One space, or nothing after white space, unless a separator is given."""
    if separator is not None:
        return separator
    return "" if prompt[-1:].isspace() else " "


def locate(
    tokenizer: Any, pairs: Sequence[tuple[str, str, str | None]], style: Format | None = None
) -> tuple[list[Located], bool]:
    """Texts for (prompt, answer, separator) triples, and whether the tokenizer is to add its special tokens.

    An answer may begin with white space where its separator is "" (`as_triple`); in a chat, where the template says
    what stands before an answer, it counts without.
    Raises `DataError` for a pair that cannot be scored, `ModelError` for a chat template that is missing,
    rejects the two roles or rewrites what it is given.
    """
    style = style or Format()
    for prompt, answer, separator in pairs:
        check_pair(prompt, answer, separator)
    openers = before(tokenizer, [prompt for prompt, _, _ in pairs], style)
    if style.kind == "raw":
        return [_raw(b, p, a, separator_for(p, s), style) for b, (p, a, s) in zip(openers, pairs, strict=True)], True
    template = ChatTemplate(tokenizer, style.template_date)
    return _chats(template, openers, pairs, style), False


def encode_pairs(tokenizer: Any, pairs: Sequence[tuple[str, str, str | None]], style: Format) -> list[Encoded]:
    """Token ids and answer positions of (prompt, answer, separator) triples; see `anachron.lm.spans.encode`."""
    located, add_special_tokens = locate(tokenizer, pairs, style)
    return encode(tokenizer, located, add_special_tokens=add_special_tokens)


def _raw(opener: str, prompt: str, answer: str, separator: str, style: Format) -> Located:
    text, bare = opener + prompt + separator + answer, answer.lstrip()
    spans = _spans(text, len(text) - len(bare), bare, style)
    context = None if bare == answer else len((opener + prompt).rstrip())
    return Located(text, spans, len(separator) if style.score_separator else 0, len(opener), context)


def _chats(
    template: "ChatTemplate", openers: Sequence[str], pairs: Sequence[tuple[str, str, str | None]], style: Format
) -> list[Located]:
    users, answers = [], []
    for opener, (prompt, answer, separator) in zip(openers, pairs, strict=True):
        bare = answer.lstrip()
        if bare != answer:
            separator, answer = answer[: len(answer) - len(bare)], bare
        said = separator_for(prompt, separator) + answer if style.answer_in_user_turn else ""
        users.append(opener + prompt + said)
        answers.append(answer)
    filled = template.fill_all([(user.strip(), answer) for user, answer in zip(users, answers, strict=True)])
    space = template.separator if style.score_separator else 0
    return [
        Located(text, _spans(text, start, answer, style), space, template.place_in(user) + len(opener))
        for (text, start), user, answer, opener in zip(filled, users, answers, openers, strict=True)
    ]


def openings(tokenizer: Any, prompts: Sequence[str], style: Format) -> tuple[list[str], bool]:
    """Texts that a model goes on from to answer prompts, and whether the tokenizer is to add its special tokens.

    Of a chat they end where the assistant begins. Raises `ModelError` as `locate`.
    """
    texts = [opener + prompt for opener, prompt in zip(before(tokenizer, prompts, style), prompts, strict=True)]
    if style.kind == "raw":
        return texts, True
    template = ChatTemplate(tokenizer, style.template_date)
    return [template.opening(text.strip()) for text in texts], False


def _spans(text: str, start: int, answer: str, style: Format) -> tuple[tuple[int, int], ...]:
    if not style.all_occurrences:
        return ((start, start + len(answer)),)
    anywhere = re.finditer(f"(?={re.escape(answer)})", text, re.IGNORECASE)  # a look-ahead also finds overlapping ones
    starts = sorted({match.start() for match in anywhere} | {start})
    return tuple((s, s + len(answer)) for s in starts)


class ChatTemplate:
    """A tokenizer's chat template with two holes, one for the user's turn and one for the assistant's.

    ``today`` is the day that the template is told is today, and ``asks_date`` whether that shows in the text. ``tail``
    is what stands behind the answer: the mark that ends a turn, and what follows it.
    """

    def __init__(self, tokenizer: Any, today: str | None = None) -> None:
        if not getattr(tokenizer, "chat_template", None):
            raise ModelError(
                "the tokenizer has no chat template; use --format raw, or pass one with --chat-template FILE"
            )
        self._tokenizer = tokenizer
        day = date.fromisoformat(today) if today else date.today()
        self.today = day.isoformat()
        try:
            template = tokenizer.get_chat_template()
        except ValueError as error:
            names = ", ".join(map(repr, tokenizer.chat_template))
            raise ModelError(
                f"the tokenizer has the chat templates {names} and none called 'default'; choose one and pass it with "
                "--chat-template FILE"
            ) from error
        self._template = with_date(template, day)
        text = self._render(_USER_HOLE, _ASSISTANT_HOLE)
        if text.count(_USER_HOLE) != 1 or text.count(_ASSISTANT_HOLE) != 1:
            raise ModelError("the chat template does not show each turn exactly once, so the answer cannot be located")
        self._head, rest = text.split(_USER_HOLE)
        if _ASSISTANT_HOLE not in rest:
            raise ModelError("the chat template puts the assistant's turn before the user's")
        self._middle, self.tail = rest.split(_ASSISTANT_HOLE)
        another_day = with_date(template, day - timedelta(days=400))
        self.asks_date = self._render(_USER_HOLE, _ASSISTANT_HOLE, another_day) != text

    @cached_property
    def separator(self) -> int:
        """Characters of the white space between the generation prompt, where the assistant begins, and the answer.

        0 for a template whose generation prompt holds more than the conversation does, such as an opened thought, or
        that has none: then the assistant begins where answers stand.
        """
        before, prompt = self._head + _USER_HOLE + self._middle, self._render(_USER_HOLE, None)
        rest = before.removeprefix(prompt)
        return len(rest) if before.startswith(prompt) and rest.isspace() else 0

    def place_in(self, user: str) -> int:
        """Where the first character of a user's turn is in the text; before the turn for white space that is cut."""
        return len(self._head) - (len(user) - len(user.lstrip()))

    def opening(self, user: str) -> str:
        """The rendered conversation up to where the assistant begins."""
        self.fill(user, ".")  # refuses a text that the template rewrites
        middle = self._middle[: len(self._middle) - self.separator]
        return self._head + user + middle

    def fill(self, user: str, answer: str) -> tuple[str, int]:
        """The rendered conversation and the position of the answer in it."""
        return self.fill_all([(user, answer)])[0]

    def fill_all(self, turns: Sequence[tuple[str, str]]) -> list[tuple[str, int]]:
        """`fill` for many (user's turn, answer) pairs."""
        texts = render(self._tokenizer, [_turns(*pair) for pair in turns], self._template, prompt=False)
        for text, (user, answer) in zip(texts, turns, strict=True):
            if text != self._head + user + self._middle + answer + self.tail:
                raise ModelError(
                    f"the chat template rewrites the text it is given, so {answer!r} cannot be located in it"
                )
        before = len(self._head) + len(self._middle)
        return [(text, before + len(user)) for text, (user, _) in zip(texts, turns, strict=True)]

    def _render(self, user: str, answer: str | None, template: str | None = None) -> str:
        """The two turns; without an answer the user's, and the generation prompt."""
        return render(self._tokenizer, [_turns(user, answer)], template or self._template, prompt=answer is None)[0]


def _turns(user: str, answer: str | None) -> list[dict[str, str]]:
    turns = [{"role": "user", "content": user}]
    return turns if answer is None else [*turns, {"role": "assistant", "content": answer}]


def with_date(template: str, day: date) -> str:
    """A chat template in which ``strftime_now`` knows only one day, by a macro of that name put in front.

    The formats are those written out in the template; one that is put together while rendering is an error there.
    """
    if "strftime_now" not in template:
        return template
    formats = {match[2] for match in re.finditer(r"(['\"])([^'\"]*%[^'\"]*)\1", template)}
    known = json.dumps({pattern: day.strftime(pattern) for pattern in sorted(formats)}, ensure_ascii=False)
    refuse = "raise_exception('strftime_now: the date format ' ~ format ~ ' is not written out in the template')"
    return (
        f"{{%- macro strftime_now(format) -%}}{{%- set known = {known} -%}}"
        f"{{{{ known[format] if format in known else {refuse} }}}}{{%- endmacro -%}}{template}"
    )
