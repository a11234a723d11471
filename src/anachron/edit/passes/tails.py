"""Texts that pass through a model many times while one position of each is shifted.

What stands before a shifted position cannot see it: keys and values of those tokens are computed once and kept, and
only the rest, the tail of each text, passes through the model again, and of that only what is computed behind the
shift. In a causal model that changes nothing; whether a model takes kept keys, a mask and positions, and outputs that
were kept, is tried on the texts themselves, not looked up.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from transformers import DynamicCache

from anachron.edit.passes.forward import Texts
from anachron.edit.passes.unreached import Replay, ended_behind
from anachron.lm.scoring import answer_logits, is_out_of_memory
from anachron.lm.selfcheck import REFUSALS
from anachron.lm.temporary import unchanged
from anachron.lm.windows import why_no_prefix_tree

log = logging.getLogger("anachron")
T = TypeVar("T")

KEYS, OUTPUTS = "kept keys and values", "kept outputs"
ALIKE = 1e-4  # largest difference of logits, as a share of their spread, that is taken for rounding; more in bfloat16


@dataclass(frozen=True)
class Kept:
    """What is kept of the tokens before the tails: a layer's keys and values (texts, heads, tokens, width).

    positions (texts, tail) of the tail's tokens, and mask (texts, 1, tail, tokens + tail), added before the softmax.
    replay: of what the shift cannot reach in the tails; None for a model that is not to be spared that.
    """

    layers: tuple[tuple[torch.Tensor, torch.Tensor], ...]
    positions: torch.Tensor
    mask: torch.Tensor
    replay: Replay | None


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
        with unchanged() if self.kept.replay is None else self.kept.replay.passing(model):
            return answer_logits(
                model, self.texts.ids, self.rows, self.columns,
                position_ids=self.kept.positions, attention_mask=self.kept.mask, past_key_values=cache, use_cache=True,
            )  # fmt: skip

    def last(self) -> "Passes":
        """With the last wanted position of each text alone, which sees most of it."""
        ends = torch.ones(len(self.rows), dtype=torch.bool)
        ends[:-1] = self.rows[1:] != self.rows[:-1]
        return replace(self, rows=self.rows[ends], columns=self.columns[ends])

    def only(self, texts: Sequence[int]) -> "Passes":
        """Some of the texts, in rising order."""
        chosen = torch.tensor(texts)
        new = torch.full((len(self.texts.ids),), -1)
        new[chosen] = torch.arange(len(chosen))
        wanted = new[self.rows] >= 0
        kept = self.kept
        if kept is not None:
            layers = tuple((_only(keys, chosen), _only(values, chosen)) for keys, values in kept.layers)
            replay = Replay(kept.replay.shifted) if kept.replay is not None else None
            kept = Kept(layers, _only(kept.positions, chosen), _only(kept.mask, chosen), replay)
        some = Texts(_only(self.texts.ids, chosen), _only(self.texts.subjects, chosen))
        return Passes(some, new[self.rows][wanted], self.columns[wanted], kept)


def _only(values: torch.Tensor, texts: torch.Tensor) -> torch.Tensor:
    return values.index_select(0, texts.to(values.device))


def tails(model: Any, whole: Passes, lengths: Sequence[int], shifted: Sequence[str]) -> Passes:
    """The same logits from the subject's last token on, with what is before it kept; ``whole`` for a model that cannot.

    lengths: tokens of each text without padding. All wanted positions must be at the subject or behind it. shifted:
    modules to whose outputs something will be added there.
    """
    starts = whole.texts.subjects.tolist()
    if max(starts) == 0:
        return whole
    tail = max(length - start for length, start in zip(lengths, starts, strict=True))
    reason = why_no_prefix_tree(model, max(lengths), max(starts) + tail)
    if reason is not None:
        log.info("%s; whole texts are computed in each pass", reason)
        return whole
    last = whole.last()

    def first_pass() -> tuple[Passes, torch.Tensor]:
        cache = DynamicCache()
        wanted = answer_logits(model, last.texts.ids, last.rows, last.columns, past_key_values=cache, use_cache=True)
        found = _tails(model, whole, lengths, starts, cache, Replay(shifted))
        with ended_behind(model, shifted):
            found.last().logits(model)  # keeps what the next ones replay
        return found, wanted

    with torch.no_grad():
        made = _tried(model, first_pass, KEYS)
        if made is None:
            return whole
        found, wanted = made
        if _agree(model, found, wanted, OUTPUTS):
            return found
        assert found.kept is not None
        plain = replace(found, kept=replace(found.kept, replay=None))
        return plain if _agree(model, plain, wanted, KEYS) else whole


def _agree(model: Any, passes: Passes, wanted: torch.Tensor, what: str) -> bool:
    """Whether the logits of the last wanted position of each text are those of whole texts."""
    logits = _tried(model, lambda: passes.last().logits(model), what)
    apart = torch.inf if logits is None else _apart(logits, wanted)
    if apart <= ALIKE + 4 * torch.finfo(wanted.dtype).eps:
        return True
    if logits is not None:
        log.info("%s differs by %.2g with %s; they are computed in each pass", type(model).__name__, apart, what)
    return False


def _tried(model: Any, work: Callable[[], T], what: str) -> T | None:
    try:
        return work()
    except REFUSALS as error:
        if is_out_of_memory(error):
            raise
        log.info("%s takes no %s (%s); they are computed in each pass", type(model).__name__, what, error)
        return None


def _apart(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """Root mean square of a difference of logits, as a share of their spread; NaN where they are no numbers."""
    found, wanted = found.double(), wanted.double()
    spread = (wanted - wanted.mean(-1, keepdim=True)).square().mean().sqrt()
    return float((found - wanted).square().mean().sqrt() / spread)


def _tails(
    model: Any, whole: Passes, lengths: Sequence[int], starts: Sequence[int], cache: Any, replay: Replay
) -> Passes:
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
    return replace(whole, texts=texts, columns=columns, kept=Kept(layers, positions, mask, replay))
