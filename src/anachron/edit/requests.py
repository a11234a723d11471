"""Edit requests, and the token positions that editing needs in their texts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from anachron.core.errors import DataError
from anachron.lm.formats import TARGETS as TARGETS
from anachron.lm.formats import Format, check_pair, locate, separator_for
from anachron.lm.spans import Encoded, Located, covering_run, cut, real_tokens, tokenise
from anachron.text.openings import mention

SLOT = "{}"


@dataclass(frozen=True, slots=True)
class EditRequest:
    """Make the model continue ``prompt`` by ``target``: the prompt is a text with the slot ``{}`` for its subject.

    A prompt that does not name its subject has no slot; methods that work at the subject's last token cannot make that
    request (`located`). remove: make the model stop continuing by ``target`` instead, with nothing put in its place;
    few methods can. old_sentence: what was true before, as a text says it that nobody has corrected since; "" where it
    is not known. Raises `DataError` for a prompt with several slots, and for an empty subject or target.
    """

    prompt: str
    subject: str
    target: str
    remove: bool = False
    old_sentence: str = ""

    def __post_init__(self) -> None:
        if self.prompt.count(SLOT) > 1:
            raise DataError(f"prompt {self.prompt!r} holds the slot {SLOT} for its subject more than once; keep one")
        if not self.subject or self.subject != self.subject.strip():
            raise DataError(f"subject {self.subject!r} is empty or has white space around it")
        check_pair(self.text, self.target)

    @classmethod
    def of(cls, prompt: str, subject: str, target: str, remove: bool = False) -> "EditRequest":
        """From a prompt with a slot, or one that names its subject: its last mention as a whole word is the slot.

        A mention in another spelling (`anachron.text.openings.mention`) is the subject as the prompt writes it. A
        prompt that does neither has no slot.
        """
        if SLOT in prompt or not subject:
            return cls(prompt, subject, target, remove)
        found = mention(prompt, subject)
        if found is None:
            return cls(prompt, subject, target, remove)
        start, end = found
        return cls(prompt[:start] + SLOT + prompt[end:], prompt[start:end], target, remove)

    @property
    def located(self) -> bool:
        """Whether it is known where the prompt names its subject."""
        return SLOT in self.prompt

    def check_located(self) -> None:
        """Raise `DataError` where the prompt does not name its subject."""
        if not self.located:
            raise DataError(
                f"the subject {self.subject!r} is not in the prompt {self.prompt!r}; the edit works at the subject's "
                "last token, so the prompt must name it as it is written in the update"
            )

    @property
    def text(self) -> str:
        """The prompt with its subject."""
        return self.prompt.replace(SLOT, self.subject)

    @property
    def sentence(self) -> str:
        """The prompt completed by the target, without full stop."""
        return self.text + separator_for(self.text) + self.target


@dataclass(frozen=True, slots=True)
class MarkedTarget:
    """A text's tokens: what is fed, and the positions of the target's tokens. remove: as the request has it."""

    ids: tuple[int, ...]
    targets: tuple[int, ...]
    remove: bool = False


@dataclass(frozen=True, slots=True)
class Marked:
    """A text's tokens as of `MarkedTarget`, and the position of the subject's last one."""

    ids: tuple[int, ...]
    targets: tuple[int, ...]
    subject: int


def mark_targets(tokenizer: Any, requests: Sequence[EditRequest], style: Format = TARGETS) -> list[MarkedTarget]:
    """Each request's prompt and target, tokenised as one text. One `MarkedTarget` a request.

    style: of the text, raw or a chat (`LanguageModel.style`).
    Raises `DataError` where a target has no token of its own.
    """
    return [
        MarkedTarget(kept.ids, kept.targets, request.remove)
        for request, (_, _, kept) in zip(requests, _tokenised(tokenizer, requests, "", style), strict=True)
    ]


def mark(tokenizer: Any, requests: Sequence[EditRequest], context: str = "", style: Format = TARGETS) -> list[Marked]:
    """Each request's prompt and target behind a context, tokenised as one text. One `Marked` a request.

    style: of the text, raw or a chat (`LanguageModel.style`), whose user's turn the context opens. The subject's last
    token is the one that holds its last character, found by where the prompt is put, not by searching. Raises
    `DataError` where a prompt does not name its subject, a target has no token of its own or the subject ends inside
    the target's first token.
    """
    for request in requests:
        request.check_located()
    marked = []
    tokenised = _tokenised(tokenizer, requests, context, style)
    for request, (located, offsets, kept) in zip(requests, tokenised, strict=True):
        start = located.prompt + request.prompt.index(SLOT)
        last = _last_token(located.text, offsets, start, start + len(request.subject))
        if last >= kept.targets[0]:
            raise DataError(
                f"the subject {request.subject!r} ends in the same token as the target begins in {located.text!r}"
            )
        marked.append(Marked(kept.ids, kept.targets, last))
    return marked


def _tokenised(
    tokenizer: Any, requests: Sequence[EditRequest], context: str, style: Format
) -> Iterator[tuple[Located, Sequence[tuple[int, int]], Encoded]]:
    """Each request's text behind a context, the characters (first, end) of all its tokens, and those that are fed."""
    pairs = [(request.text, request.target, None) for request in requests]
    located, special = locate(tokenizer, pairs, replace(style, prefix=context + style.prefix))
    tokenised = tokenise(tokenizer, [one.text for one in located], add_special_tokens=special)
    for one, (ids, offsets) in zip(located, tokenised, strict=True):
        yield one, offsets, cut(one, ids, offsets)


def mark_prompts(tokenizer: Any, prompts: Sequence[tuple[str, str]]) -> list[Marked]:
    """(text with a slot, subject) pairs without a target: all tokens, and the subject's last one."""
    texts = [prompt.replace(SLOT, subject) for prompt, subject in prompts]
    marked = []
    for (prompt, subject), text, (ids, offsets) in zip(
        prompts, texts, tokenise(tokenizer, texts, add_special_tokens=True), strict=True
    ):
        start = prompt.index(SLOT)
        last = _last_token(text, offsets, start, start + len(subject))
        marked.append(Marked(tuple(ids[: real_tokens((ids, offsets))]), (), last))
    return marked


def _last_token(text: str, offsets: Sequence[tuple[int, int]], start: int, end: int) -> int:
    run = covering_run(offsets, start, end)
    if not run:
        raise DataError(f"the subject {text[start:end]!r} has no token in {text!r}")
    return run[-1]
