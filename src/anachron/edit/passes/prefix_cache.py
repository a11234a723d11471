"""Texts that pass through a model many times while the output at one position of each, its subject's, is shifted.

Tokens before the subject's last one cannot attend to it: their keys and values are computed once and cached. Only the
suffix of each text, from that token on, passes through the model again, and of that only what is computed after the
shift. In a causal model the logits stay the same; whether a model takes cached keys, a mask and positions, and replayed
activations, is tried on the texts themselves, not looked up; in half precision against float32, as
`anachron.lm.selfcheck` does.
"""

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from transformers import DynamicCache

from anachron.edit.passes.activation_replay import ActivationReplay, stopped_after
from anachron.edit.passes.forward import Texts
from anachron.lm.float32 import HALF, at_least_in_float32, in_float32
from anachron.lm.scoring import answer_logits, is_out_of_memory
from anachron.lm.selfcheck import REFUSALS, allowed_error
from anachron.lm.temporary import unchanged
from anachron.lm.windows import why_no_single_mask

log = logging.getLogger("anachron")
T = TypeVar("T")

KEYS, OUTPUTS = "cached keys and values", "replayed activations"
ALIKE = 1e-4  # largest difference of logits in float32, as a share of their spread, that is taken for rounding


@dataclass(frozen=True)
class PrefixCache:
    """What is kept of the prefixes: each layer's keys and values, (texts, heads, prefix, width).

    positions (texts, suffix) of the suffixes' tokens, and the additive attention mask (texts, 1, suffix, prefix +
    suffix). replay: of what the shift cannot reach in the suffixes; None for a model that cannot take that.
    """

    layers: tuple[tuple[torch.Tensor, torch.Tensor], ...]
    positions: torch.Tensor
    mask: torch.Tensor
    replay: ActivationReplay | None


@dataclass(frozen=True)
class RepeatedPass:
    """Texts, or their suffixes behind a prefix cache, and the positions in them whose logits are wanted.

    rows, columns: of each position its text and its place there, (positions,) each; ordered by text.
    """

    texts: Texts
    rows: torch.Tensor
    columns: torch.Tensor
    cache: PrefixCache | None = None

    def logits(self, model: Any) -> torch.Tensor:
        """Logits of the wanted positions, (positions, vocabulary); gradients flow through them."""
        if self.cache is None:
            return answer_logits(model, self.texts.ids, self.rows, self.columns)
        past = DynamicCache()  # a new one for each pass, for the model adds the suffixes to it
        for number, (keys, values) in enumerate(self.cache.layers):
            past.update(keys, values, number)
        with unchanged() if self.cache.replay is None else self.cache.replay.passing(model):
            return answer_logits(
                model, self.texts.ids, self.rows, self.columns,
                position_ids=self.cache.positions, attention_mask=self.cache.mask, past_key_values=past, use_cache=True,
            )  # fmt: skip

    def last(self) -> "RepeatedPass":
        """With the last wanted position of each text alone, which attends to most of it."""
        ends = torch.ones(len(self.rows), dtype=torch.bool)  # (positions,)
        ends[:-1] = self.rows[1:] != self.rows[:-1]
        return replace(self, rows=self.rows[ends], columns=self.columns[ends])

    def only(self, texts: Sequence[int]) -> "RepeatedPass":
        """Some of the texts, in rising order."""
        chosen = torch.tensor(texts)
        number = torch.full((len(self.texts.ids),), -1)  # (texts,), the new number of each, -1 for one that goes
        number[chosen] = torch.arange(len(chosen))
        wanted = number[self.rows] >= 0  # (positions,)
        cache = self.cache
        if cache is not None:
            layers = tuple((_only(keys, chosen), _only(values, chosen)) for keys, values in cache.layers)
            replay = ActivationReplay(cache.replay.shifted) if cache.replay is not None else None
            cache = PrefixCache(layers, _only(cache.positions, chosen), _only(cache.mask, chosen), replay)
        some = Texts(_only(self.texts.ids, chosen), _only(self.texts.subjects, chosen))
        return RepeatedPass(some, number[self.rows][wanted], self.columns[wanted], cache)


def _only(values: torch.Tensor, texts: torch.Tensor) -> torch.Tensor:
    return values.index_select(0, texts.to(values.device))


def with_prefix_cache(model: Any, whole: RepeatedPass, lengths: Sequence[int], shifted: Sequence[str]) -> RepeatedPass:
    """The same logits from the suffixes alone, with the prefixes cached; ``whole`` for a model that cannot.

    lengths: tokens of each text without padding. All wanted positions must be at the subject's last token or behind
    it. shifted: modules to whose outputs something will be added there.
    """
    starts = whole.texts.subjects.tolist()
    if max(starts) == 0:
        return whole
    suffix = max(length - start for length, start in zip(lengths, starts, strict=True))
    reason = why_no_single_mask(model, max(lengths), max(starts) + suffix)
    if reason is not None:
        log.info("%s; whole texts are computed in each pass", reason)
        return whole
    last = whole.last()

    def first_pass() -> tuple[RepeatedPass, torch.Tensor]:
        past = DynamicCache()
        # (texts, vocabulary)
        expected = answer_logits(model, last.texts.ids, last.rows, last.columns, past_key_values=past, use_cache=True)
        cached = _suffixes(model, whole, lengths, starts, past, ActivationReplay(shifted))
        with stopped_after(model, shifted):
            cached.last().logits(model)  # records what the next passes replay
        return cached, expected

    with torch.no_grad():
        made = _tried(model, first_pass, KEYS)
        exact = _tried(model, lambda: in_float32(first_pass), KEYS) if model.dtype in HALF else made
        if made is None or exact is None:
            return whole
        (cached, by_whole), (exact_cached, by_exact) = made, exact

        def agree(what: str) -> bool:
            return _agree(model, exact_cached, by_exact, what) and (
                made is exact or _as_exact(model, cached, by_whole, by_exact, what)
            )

        if agree(OUTPUTS):
            return cached
        cached, exact_cached = _without_replay(cached), _without_replay(exact_cached)
        return cached if agree(KEYS) else whole


def _without_replay(passes: RepeatedPass) -> RepeatedPass:
    assert passes.cache is not None
    return replace(passes, cache=replace(passes.cache, replay=None))


def _agree(model: Any, passes: RepeatedPass, wanted: torch.Tensor, what: str) -> bool:
    """Whether the logits of the last wanted position of each text are those of whole texts, in float32 or finer."""
    logits = _tried(model, lambda: at_least_in_float32(model, lambda: passes.last().logits(model)), what)
    apart = math.inf if logits is None else float(_apart(logits, wanted).square().mean().sqrt())
    if apart <= ALIKE:
        return True
    if logits is not None:
        log.info("%s differs by %.2g with %s; they are computed in each pass", type(model).__name__, apart, what)
    return False


def _as_exact(model: Any, passes: RepeatedPass, by_whole: torch.Tensor, exact: torch.Tensor, what: str) -> bool:
    """Whether logits in half precision are as near to those in float32 as those of whole texts are, but for chance.

    by_whole, exact: of whole texts in half precision and in float32, (texts, vocabulary).
    """
    logits = _tried(model, lambda: passes.last().logits(model), what)
    if logits is None:
        return False
    ours, theirs = _apart(logits, exact).cpu().numpy(), _apart(by_whole, exact).cpu().numpy()
    if ours.mean() <= allowed_error(ours, theirs) + ALIKE:
        return True
    log.info(
        "%s has errors of %.2g with %s and of %.2g without; they are computed in each pass",
        type(model).__name__, ours.mean(), what, theirs.mean(),
    )  # fmt: skip
    return False


def _tried(model: Any, work: Callable[[], T], what: str) -> T | None:
    try:
        return work()
    except REFUSALS as error:
        if is_out_of_memory(error):
            raise
        log.info("%s takes no %s (%s); they are computed in each pass", type(model).__name__, what, error)
        return None


def _apart(logits: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Root mean square of a difference of logits, (texts, vocabulary), as a share of their spread: (texts,); NaN where
    they are no numbers."""
    logits, wanted = logits.double(), wanted.double()
    spread = (wanted - wanted.mean(-1, keepdim=True)).square().mean().sqrt()
    return (logits - wanted).square().mean(-1).sqrt() / spread


def _suffixes(
    model: Any, whole: RepeatedPass, lengths: Sequence[int], starts: Sequence[int], past: Any, replay: ActivationReplay
) -> RepeatedPass:
    """The suffixes of texts, which begin at ``starts``, with what ``past`` holds of the longest prefix and before."""
    ids, prefix = whole.texts.ids, max(starts)  # ids: (texts, length)
    suffix = max(length - start for length, start in zip(lengths, starts, strict=True))
    places = [
        [min(start + step, length - 1) for step in range(suffix)]  # padding repeats the last token
        for length, start in zip(lengths, starts, strict=True)
    ]
    positions = torch.tensor(places, device=ids.device)  # (texts, suffix)
    first = torch.tensor(starts, device=ids.device)  # (texts,)
    seen = torch.zeros(len(starts), suffix, prefix + suffix, dtype=torch.bool, device=ids.device)
    # a token of a suffix attends to its own text's prefix, and in the suffix to itself and what is before it
    seen[:, :, :prefix] = (torch.arange(prefix, device=ids.device) < first[:, None])[:, None, :]
    seen[:, :, prefix:] = torch.ones(suffix, suffix, dtype=torch.bool, device=ids.device).tril()
    mask = torch.zeros(seen.shape, dtype=model.dtype, device=ids.device)
    mask = mask.masked_fill_(~seen, torch.finfo(model.dtype).min)[:, None]  # (texts, 1, suffix, prefix + suffix)
    layers = tuple(  # (texts, heads, prefix, width) each
        (layer.keys[..., :prefix, :].clone(), layer.values[..., :prefix, :].clone()) for layer in past.layers
    )
    texts = Texts(ids.gather(1, positions), torch.zeros_like(whole.texts.subjects))  # the subject comes first
    columns = whole.columns - first.to(whole.columns.device)[whole.rows]  # (positions,)
    return replace(whole, texts=texts, columns=columns, cache=PrefixCache(layers, positions, mask, replay))
