"""How well a model reads running text that no update is about: its perplexity, which rises where edits break it."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, isnan

from anachron.core.errors import DataError
from anachron.edit.corpus import Corpus, leading_specials, token_batches
from anachron.lm.model import LanguageModel
from anachron.lm.scorer import score_texts
from anachron.lm.spans import Encoded

TOKENS = 10_000
WINDOW = 512  # tokens that are read at a time, or half of what a shorter model reads


@dataclass(frozen=True)
class HeldText:
    """Windows of a text, special tokens included, and how many of those come first in each."""

    windows: tuple[tuple[int, ...], ...]
    specials: int

    @property
    def tokens(self) -> int:
        """How many tokens are predicted: all but the special ones, or else the first of each window."""
        return sum(len(window) - max(1, self.specials) for window in self.windows)


def read_text(lm: LanguageModel, corpus: Corpus, tokens: int = TOKENS) -> HeldText:
    """The first ``tokens`` tokens of a text in windows that follow each other, none padded.

    Raises `DataError` for a text in which there is nothing to predict.
    """
    width = min(WINDOW, (lm.context_length or 2 * WINDOW) // 2)
    batches = token_batches(lm.tokenizer, corpus, window=width, batch_tokens=width, left=tokens)
    specials = len(leading_specials(lm.tokenizer))
    windows = [tuple(ids) for batch in batches for ids in batch.windows if len(ids) > max(1, specials)]
    if not windows:
        raise DataError(f"{corpus.name} has no two tokens in a row, so it has no perplexity; give a longer text")
    return HeldText(tuple(windows), specials)


def perplexity(lm: LanguageModel, text: HeldText, batch_tokens: int | None = None) -> float:
    """exp of the mean negative log-likelihood of the text's tokens, each behind those before it in its window.

    Of the model as it is now; the prefix of an edit in force is read before each window and not counted. Infinite where
    the model gives no numbers any more. Comparable between models of one tokenizer only. Raises `TooLongError` where
    prefix and window do not fit.
    """
    encoded = _behind(lm.tokenizer(lm.prefix, add_special_tokens=False)["input_ids"] if lm.prefix else [], text)
    lm.check(encoded)
    loss = -float(score_texts(lm, encoded, batch_tokens=batch_tokens, finite=False).sum()) / text.tokens
    return float("inf") if isnan(loss) or loss > 700 else exp(loss)


def _behind(prefix: Sequence[int], text: HeldText) -> list[Encoded]:
    encoded = []
    for window in text.windows:
        special, content = window[: text.specials], window[text.specials :]
        ids = (*special, *prefix, *content)
        counted = len(window) - max(1, text.specials)
        encoded.append(Encoded(ids, tuple(range(len(ids) - counted, len(ids)))))
    return encoded
