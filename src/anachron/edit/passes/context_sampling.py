"""Texts put in front of a prompt while an edit is optimised, so that it holds in more than one place.

They are sampled from the model itself, as the published code does: each is a few tokens and a full stop.
"""

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any

import torch

from anachron.lm.generation import continued, start_of_text
from anachron.lm.model import LanguageModel

TOP_K = 5  # the published code draws each token among the five likeliest
STARTS = ("The", "Therefore", "Because", "I", "You")  # MEMIT's words, and those of all code after it


def sampled_contexts(
    lm: LanguageModel, lengths: Sequence[tuple[int, int]], seed: int, starts: Sequence[str] = ()
) -> tuple[str, ...]:
    """Texts sampled from the model: for each (tokens, texts) of ``lengths`` that many, each ending in ``. ``.

    starts: words that the texts go on from, in turn; none: a start-of-text token. tokens: of a text, its first word
    among them, special tokens not; a longer word stays whole. They depend on the model, the words and the seed alone;
    the global random state is left as it was. Raises `ConfigError` for a tokenizer without a token to start from.
    """
    openings = [_opening(lm.tokenizer, start) for start in starts] or [([start_of_text(lm.tokenizer)], [])]
    devices = [lm.device] if lm.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        return tuple(
            context
            for tokens, texts in lengths
            for place, opening in enumerate(openings)
            for context in _continuations(lm, opening, tokens, len(range(place, texts, len(openings))))
        )


def _continuations(lm: LanguageModel, opening: tuple[list[int], list[int]], tokens: int, texts: int) -> Iterator[str]:
    """So many texts of so many tokens that begin with (special tokens, tokens of a word)."""
    special, word = opening
    ids = torch.tensor([special + word], device=lm.device).repeat(texts, 1)  # (texts, given tokens)
    new_tokens = tokens - len(word)
    if texts and new_tokens > 0:
        ids = continued(lm.model, ids, new_tokens, do_sample=True, top_k=TOP_K)  # (texts, special tokens + tokens)
    for row in ids[:, len(special) :]:
        yield lm.tokenizer.decode(row, skip_special_tokens=True).strip() + ". "


def _opening(tokenizer: Any, start: str) -> tuple[list[int], list[int]]:
    """The special tokens that the tokenizer puts before a word, and the word's own."""
    ids, special = tokenizer(start)["input_ids"], set(tokenizer.all_special_ids)
    return list(takewhile(special.__contains__, ids)), [token for token in ids if token not in special]
