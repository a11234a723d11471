"""Texts that pass through a model many times while one position of each is shifted.

What stands before a shifted position cannot see it: keys and values of those tokens are computed once and kept, and
only the rest, the tail of each text, passes through the model again. In a causal model that changes nothing; whether a
model takes kept keys, a mask and positions is tried on the texts themselves, not looked up.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from transformers import DynamicCache

from anachron.edit.forward import Texts
from anachron.lm.scoring import answer_logits, is_out_of_memory
from anachron.lm.selfcheck import REFUSALS

log = logging.getLogger("anachron")

ALIKE = 1e-4  # largest difference of logits, as a share of their spread, that is taken for rounding; more in bfloat16


@dataclass(frozen=True)
class Kept:
    """What is kept of the tokens before the tails: a layer's keys and values (texts, heads, tokens, width).

    positions (texts, tail) of the tail's tokens, and mask (texts, 1, tail, tokens + tail), added before the softmax.
    """

    layers: tuple[tuple[torch.Tensor, torch.Tensor], ...]
    positions: torch.Tensor
    mask: torch.Tensor


@dataclass(frozen=True)
class Passes:
    """Texts, or their tails, and the positions in them whose logits are wanted.

    rows, columns: of each position its text and its place there; ordered by text.
    """

    texts: Texts
    rows: torch.Tensor
    columns: torch.Tensor
    kept: Kept | None = None

    def logits(self, model: Any) -> torch.Tensor:
        """Logits of the wanted positions, (positions, vocabulary); gradients flow through them."""
        if self.kept is None:
            return answer_logits(model, self.texts.ids, self.rows, self.columns)
        cache = DynamicCache()
        for number, (keys, values) in enumerate(self.kept.layers):
            cache.update(keys, values, number)
        return answer_logits(
            model, self.texts.ids, self.rows, self.columns,
            position_ids=self.kept.positions, attention_mask=self.kept.mask, past_key_values=cache, use_cache=True,
        )  # fmt: skip

    def only(self, texts: Sequence[int]) -> "Passes":
        """Some of the texts, in rising order."""
        chosen = torch.tensor(texts)
        new = torch.full((len(self.texts.ids),), -1)
        new[chosen] = torch.arange(len(chosen))
        wanted = new[self.rows] >= 0
        kept = self.kept
        if kept is not None:
            layers = tuple((_only(keys, chosen), _only(values, chosen)) for keys, values in kept.layers)
            kept = Kept(layers, _only(kept.positions, chosen), _only(kept.mask, chosen))
        some = Texts(_only(self.texts.ids, chosen), _only(self.texts.subjects, chosen))
        return Passes(some, new[self.rows][wanted], self.columns[wanted], kept)


def _only(values: torch.Tensor, texts: torch.Tensor) -> torch.Tensor:
    return values.index_select(0, texts.to(values.device))


def tails(model: Any, whole: Passes, lengths: Sequence[int]) -> Passes:
    """The same logits from the subject's last token on, with what is before it kept; ``whole`` for a model that cannot.

    lengths: tokens of each text without padding. All wanted positions must be at the subject or behind it.
    """
    starts = whole.texts.subjects.tolist()
    if max(starts) == 0:
        return whole
    cache = DynamicCache()
    with torch.no_grad():
        try:
            wanted = answer_logits(
                model, whole.texts.ids, whole.rows, whole.columns, past_key_values=cache, use_cache=True
            )
            found = _tails(model, whole, lengths, starts, cache)
            apart = _apart(found.logits(model), wanted)
        except REFUSALS as error:
            if is_out_of_memory(error):
                raise
            log.info("%s takes no kept keys and values (%s); texts are computed whole", type(model).__name__, error)
            return whole
    if apart <= ALIKE + 4 * torch.finfo(wanted.dtype).eps:
        return found
    log.info("%s differs by %.2g with kept keys and values; texts are computed whole", type(model).__name__, apart)
    return whole


def _apart(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """Root mean square of a difference of logits, as a share of their spread; NaN where they are no numbers."""
    found, wanted = found.double(), wanted.double()
    spread = (wanted - wanted.mean(-1, keepdim=True)).square().mean().sqrt()
    return float((found - wanted).square().mean().sqrt() / spread)


def _tails(model: Any, whole: Passes, lengths: Sequence[int], starts: Sequence[int], cache: Any) -> Passes:
    ids, before = whole.texts.ids, max(starts)
    size = max(length - start for length, start in zip(lengths, starts, strict=True))
    places = [
        [min(start + step, length - 1) for step in range(size)]  # padding repeats the last token
        for length, start in zip(lengths, starts, strict=True)
    ]
    positions = torch.tensor(places, device=ids.device)
    first = torch.tensor(starts, device=ids.device)
    seen = torch.zeros(len(starts), size, before + size, dtype=torch.bool, device=ids.device)
    seen[:, :, :before] = (torch.arange(before, device=ids.device) < first[:, None])[:, None, :]
    seen[:, :, before:] = torch.ones(size, size, dtype=torch.bool, device=ids.device).tril()
    mask = torch.zeros(seen.shape, dtype=model.dtype, device=ids.device)
    mask = mask.masked_fill_(~seen, torch.finfo(model.dtype).min)[:, None]
    layers = tuple(
        (layer.keys[..., :before, :].clone(), layer.values[..., :before, :].clone()) for layer in cache.layers
    )
    texts = Texts(ids.gather(1, positions), torch.zeros_like(whole.texts.subjects))
    columns = whole.columns - first.to(whole.columns.device)[whole.rows]
    return replace(whole, texts=texts, columns=columns, kept=Kept(layers, positions, mask))
