"""Answers that a model writes of its own accord, greedily, up to where it ends them itself."""

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from anachron.lm.chat import ends_of
from anachron.lm.generation import opened, written

LINE = re.compile(r"[\n\r]")


class WrittenAnswer(NamedTuple):
    """What a model wrote, without special tokens and the space around it.

    stopped: whether it ended by itself. read, wrote: tokens of the prompt with all of the model's template, and of the
    answer with the one that ends it, as servers count them.
    """

    text: str
    stopped: bool
    read: int
    wrote: int


def natural_answers(
    lm: Any,
    prompts: Sequence[str],
    most_tokens: int,
    sentence_end: Callable[[str], int | None] = lambda text: None,
    kept: Collection[str] = (),
) -> list[WrittenAnswer]:
    """What a model answers each prompt, given nothing but the prompt, in at most so many tokens.

    In a chat an answer ends where the model ends its turn. Raw text ends at the end-of-text token, at the first line
    break behind a word, and where ``sentence_end`` sees an end in the text so far: a base model goes on with other
    questions and facts. One that is ended by ``most_tokens``, or by the model's context, has not stopped. Prefix and
    batches are as in `anachron.lm.generation.greedy_texts`.

    kept: special tokens that stay in the text, such as the marks around a model's reasoning.
    """
    ends, raw = ends_of(lm), lm.style.kind == "raw"
    added = lm.tokenizer.added_tokens_decoder  # id -> token, the special ones and others
    dropped = {*lm.tokenizer.all_special_ids, *(token for token, one in added.items() if one.special)}
    dropped -= {token for token, one in added.items() if one.content in kept}

    def cut(tokens: Sequence[int]) -> tuple[str, bool]:
        end = next((place for place, token in enumerate(tokens) if token in ends), None)
        text = lm.tokenizer.decode([token for token in tokens[:end] if token not in dropped]).lstrip()
        if raw:
            line = LINE.search(text)
            within = text if line is None else text[: line.start()]
            place = sentence_end(within)
            if place is not None or line is not None:
                return within[:place].rstrip(), True
        return text.rstrip(), end is not None

    def stopped(tokens: Sequence[int]) -> bool:
        return cut(tokens)[1]

    given = opened(lm, prompts)
    rows = written(lm, given, [most_tokens] * len(prompts), over=stopped)
    wrote = [next((n for n in range(1, len(row)) if stopped(row[:n])), len(row)) for row in rows]
    return [WrittenAnswer(*cut(row), len(ids), n) for row, ids, n in zip(rows, given, wrote, strict=True)]
