"""Passages beside a model: those nearest to a prompt are put before it (retrieval, by BM25).

What is found depends on the prompt alone, by the words that it shares with a passage: BM25 as Lucene counts it (k1 1.5,
b 0.75), by `bm25s`, of the extra ``edit``. No word is left out as too common, capital and small letters are one, and a
word is a run of letters and digits, so a language written without spaces has no words to share.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self
from unicodedata import normalize

import numpy as np

from anachron.core.errors import ConfigError, how_to_install
from anachron.core.sameness import name_key
from anachron.io.files import Json

ENDS = (".", "!", "?", "…", "。", "！", "？", "۔", "।")


class Passage(NamedTuple):
    """text: a sentence, or several. subject: what it is about, where that counts, else empty."""

    text: str
    subject: str = ""


@dataclass(frozen=True)
class Passages:
    """A store to be searched.

    texts: what updates say, in their order, as often as they say it. distractors: passages that say nothing of the
    updates; one about a subject of theirs is not in the store. k: how many are shown for a prompt, at most.
    """

    texts: tuple[Passage, ...]
    distractors: tuple[Passage, ...] = ()
    k: int = 3

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ConfigError(f"k is {self.k}; a prompt is shown 1 passage or more")
        if empty := [passage for passage in (*self.texts, *self.distractors) if not passage.text.strip()]:
            raise ConfigError(f"passage {empty[0].text!r} is empty; leave it out")

    def __add__(self, other: Self) -> Self:
        """Both together, the first's texts first; k is the larger one."""
        distractors = self.distractors
        if other.distractors != distractors:
            distractors = tuple(dict.fromkeys((*distractors, *other.distractors)))
        return replace(self, texts=self.texts + other.texts, distractors=distractors, k=max(self.k, other.k))

    def __sub__(self, other: Self) -> Self:
        """Without the first text that equals each of the other's; raises `ConfigError` where there is none.

        ``k`` and the distractors stay those of the sum.
        """
        wanted, kept = Counter(other.texts), []
        for passage in self.texts:
            if wanted[passage]:
                wanted[passage] -= 1
            else:
                kept.append(passage)
        if missing := next(wanted.elements(), None):
            raise ConfigError(
                f"the passage {missing.text!r} is not in this edit; only an edit that is in a sum can be taken out"
            )
        return replace(self, texts=tuple(kept))

    def as_json(self) -> Json:
        return {"texts": [*map(list, self.texts)], "distractors": [*map(list, self.distractors)], "k": self.k}

    @classmethod
    def of_json(cls, value: Any) -> Self:
        """Of what `as_json` gave. Raises `ValueError` for any other."""
        try:
            texts, distractors = (tuple(Passage(*pair) for pair in value[name]) for name in ("texts", "distractors"))
            whole = all(isinstance(part, str) for pair in (*texts, *distractors) for part in pair)
            if not whole or type(value["k"]) is not int:
                raise TypeError
            return cls(texts, distractors, value["k"])
        except (TypeError, KeyError, ConfigError):
            raise ValueError(f"its passages are {repr(value)[:70]}") from None

    @cached_property
    def store(self) -> tuple[str, ...]:
        """All passages that are searched, each once."""
        about = {name_key(passage.subject) for passage in self.texts if passage.subject}
        others = (one for one in self.distractors if not one.subject or name_key(one.subject) not in about)
        return tuple(dict.fromkeys(passage.text for passage in (*self.texts, *others)))

    @cached_property
    def _index(self) -> Any:
        """The index of bm25s; None where no passage has a word."""
        try:
            import bm25s
        except ImportError as error:
            raise ConfigError(f"retrieval needs the package bm25s ({error}); {how_to_install('edit')}") from error
        index = bm25s.BM25(method="lucene", k1=1.5, b=0.75, dtype="float64")
        words = [_words(text) for text in self.store]
        if not any(words):
            return None
        index.index(words, show_progress=False)
        return index

    def scores(self, prompt: str) -> np.ndarray:
        """BM25 of each passage of the `store` for a prompt, float64; 0 where they share no word."""
        if self._index is None:
            return np.zeros(len(self.store))
        known = self._index.get_tokens_ids(_words(prompt))
        scores: np.ndarray = self._index.get_scores_from_ids(known)
        return scores

    def shown(self, prompts: Sequence[str]) -> list[tuple[str, ...]]:
        """Of each prompt the passages that are shown, the nearest first: ``k`` at most, and none of score 0.

        Of passages of one score, the first.
        """
        found = {prompt: self._nearest(prompt) for prompt in dict.fromkeys(prompts)}
        return [found[prompt] for prompt in prompts]

    def _nearest(self, prompt: str) -> tuple[str, ...]:
        scores, nearest = self.scores(prompt), []
        for _ in range(min(self.k, len(scores))):  # k is small: as many passes are faster than sorting all
            best = int(scores.argmax())
            if scores[best] <= 0:
                break
            nearest.append(self.store[best])
            scores[best] = 0
        return tuple(nearest)

    def before(self, prompts: Sequence[str]) -> list[str]:
        """What is put before each prompt: the passages that are shown, as sentences, the nearest last."""
        return ["".join(map(_as_sentence, reversed(passages))) for passages in self.shown(prompts)]


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", normalize("NFC", text).lower())


def _as_sentence(text: str) -> str:
    bare = text.strip()
    return bare + (" " if bare.endswith(ENDS) else ". ")


def taken_out(whole: Passages | None, removed: Passages | None) -> Passages | None:
    """The whole without the removed texts; None where no text is left. Raises `ConfigError` for what is not in it."""
    if removed is None:
        return whole
    left = (whole or Passages(())) - removed
    return left if left.texts else None
