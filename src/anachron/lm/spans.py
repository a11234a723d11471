"""Where the answer's tokens are (TimeStress, appendix D).

The whole text is tokenised once. The answer is located by the characters where it was put, never by
searching, and its tokens are the smallest run that covers those characters, and nothing else: a token that
holds both the last character of the prompt and the first of the answer belongs to the answer, and a letter
before an answer that begins with a combining mark does not, unless the tokenizer makes one of the two.
"""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from anachron.core.errors import DataError, ModelError, first_line

CHUNK = 4096  # texts tokenised at a time


@dataclass(frozen=True, slots=True)
class Located:
    """A text and the character spans in it that are scored (almost always one).

    separator: characters before the first span whose tokens are scored with it, but for a token that holds what stands
    before them. Some tokenizers write the space before a number as a token of its own. prompt: where the prompt begins.
    context: of an answer that begins with white space, the characters before all white space at that place: its tokens
    are those behind as many as the context has by itself (lm-evaluation-harness, `_encode_pair`).
    """

    text: str
    spans: tuple[tuple[int, int], ...]
    separator: int = 0
    prompt: int = 0
    context: int | None = None


@dataclass(frozen=True, slots=True)
class Encoded:
    """Token ids up to the last one scored, and the positions in them that are scored."""

    ids: tuple[int, ...]
    targets: tuple[int, ...]


def encode(tokenizer: Any, located: Sequence[Located], *, add_special_tokens: bool) -> list[Encoded]:
    """Tokenise texts and find the tokens to score. One `Encoded` a text, in order.

    Special tokens that the tokenizer puts in front are fed; whatever comes after the last scored token
    (an end-of-text mark, the rest of a chat template) is cut off and never fed.
    Raises `ModelError` for a tokenizer without character offsets, `DataError` where nothing precedes the answer.
    """
    tokenised = tokenise(tokenizer, [item.text for item in located], add_special_tokens=add_special_tokens)
    contexts = [item.text[: item.context] for item in located if item.context is not None]
    fed = map(real_tokens, tokenise(tokenizer, contexts, add_special_tokens=add_special_tokens))
    return [
        cut(item, ids, offsets, None if item.context is None else next(fed))
        for item, (ids, offsets) in zip(located, tokenised, strict=True)
    ]


def real_tokens(tokenised: tuple[list[int], list[tuple[int, int]]]) -> int:
    """How many tokens a text has with what stands before it, without marks behind it (end of text)."""
    ids, offsets = tokenised
    return max((place for place, (first, last) in enumerate(offsets, 1) if last > first), default=len(ids))


def require_offsets(tokenizer: Any) -> None:
    """Raise `ModelError` for a tokenizer that cannot say which characters a token stands for."""
    if not getattr(tokenizer, "is_fast", False):
        raise ModelError(
            f"the tokenizer {type(tokenizer).__name__} gives no character offsets; load its fast version "
            "(a tokenizer.json) or pass another one with --tokenizer"
        )


def tokenise(
    tokenizer: Any, texts: Sequence[str], *, add_special_tokens: bool
) -> Iterator[tuple[list[int], list[tuple[int, int]]]]:
    """Token ids and character offsets of each text, never truncated; a chunk of texts in memory at a time."""
    require_offsets(tokenizer)
    for first in range(0, len(texts), CHUNK):
        try:
            batch = tokenizer(
                list(texts[first : first + CHUNK]),
                add_special_tokens=add_special_tokens,
                return_offsets_mapping=True,
                return_attention_mask=False,
                truncation=False,
                padding=False,
                verbose=False,
            )
        except Exception as error:  # of no class of its own, as where the vocabulary lacks the token for the unknown
            raise ModelError(
                f"the tokenizer cannot cut texts: {first_line(error)}; use another (--tokenizer)"
            ) from error
        normalizer = tokenizer.backend_tokenizer.normalizer
        for place, ids in enumerate(batch["input_ids"]):
            yield ids, _with_composed(normalizer, texts[first + place], batch["offset_mapping"][place])


def _with_composed(normalizer: Any, text: str, offsets: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Offsets of tokens with all characters that a normalizer made one of: tokenizers gives the first of them alone."""
    if normalizer is None or unicodedata.is_normalized("NFC", text):
        return offsets
    covered = {place for first, last in offsets for place in range(first, last)}
    for place in range(1, len(text)):
        before, behind = text[:place], text[: place + 1]
        if place in covered or normalizer.normalize_str(behind).startswith(normalizer.normalize_str(before)):
            continue
        offsets = [(first, place + 1 if last == place else last) for first, last in offsets]
    return offsets


def cut(item: Located, ids: Sequence[int], offsets: Sequence[tuple[int, int]], fed: int | None = None) -> Encoded:
    """Keep a text's tokens up to the last one scored, and say which are scored.

    fed: of an answer that begins with white space, how many tokens its context has.
    """
    *others, answer = (covering_run(offsets, start, end) for start, end in item.spans)
    targets = {place for run in others for place in run}
    targets.update(answer if fed is None else range(fed, answer.stop))
    if targets and item.separator:
        before = covering_run(offsets, 0, item.spans[0][0] - item.separator)
        targets.update(range(before.stop, min(targets)))
    if not targets:
        raise DataError(
            f"the answer {item.text[slice(*item.spans[0])]!r} has no token in {item.text!r}: the tokenizer drops it; "
            "give an answer that it can write"
        )
    if min(targets) == 0:
        raise DataError(
            f"no token precedes the answer in {item.text!r}: its probability is undefined; give a longer prompt or a "
            "tokenizer that starts texts with a special token"
        )
    return Encoded(tuple(ids[: max(targets) + 1]), tuple(sorted(targets)))


def covering_run(offsets: Iterable[tuple[int, int]], start: int, end: int) -> range:
    """Smallest run of tokens whose characters cover ``[start, end)``; empty when there is none."""
    covering = [i for i, (first, last) in enumerate(offsets) if first < end and last > start and last > first]
    return range(covering[0], covering[-1] + 1) if covering else range(0)
