"""Scores of packs (`anachron.lm.packing`): tree-shaped attention, explicit positions, kept keys and values."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache

from anachron.lm.packing import Pack, Walk
from anachron.lm.scoring import Counters, head_on, input_device, is_out_of_memory, log_softmax_at, prepare_halving
from anachron.lm.spans import Encoded


@dataclass
class _Launched:
    """What a device still works on: log-probabilities of the answer tokens of some texts, one after the other."""

    texts: list[int]
    lengths: list[int]
    tokens: torch.Tensor


def score_packs(
    model: Any,
    encoded: Sequence[Encoded],
    packs: Sequence[Sequence[int]],
    *,
    native_softmax: bool = False,
    counters: Counters | None = None,
    on_batch: Callable[[int], None] | None = None,
) -> np.ndarray:
    """As `anachron.lm.scoring.score_all`, with the texts of each pack computed as one tree.

    The result of a pack is fetched once the next one has been handed to the device.
    """
    scorer = _Scorer(model, native_softmax, counters or Counters())
    scores = np.full(len(encoded), np.nan)

    def collect(launched: list[_Launched]) -> None:
        for one in launched:
            tokens = one.tokens.double().cpu().numpy()
            scores[one.texts] = np.add.reduceat(tokens, np.cumsum([0, *one.lengths[:-1]]))
            if on_batch is not None:
                on_batch(len(one.texts))

    waiting: list[_Launched] = []
    for pack in packs:
        launched = scorer.launch(encoded, list(pack))
        collect(waiting)
        waiting = launched
    collect(waiting)
    return scores


class _Scorer:
    """A model with the keys and values of the last pack."""

    def __init__(self, model: Any, native_softmax: bool, counters: Counters) -> None:
        self.model, self.native, self.counters = model, native_softmax, counters
        self.walk, self.cache = Walk(), DynamicCache()

    def launch(self, encoded: Sequence[Encoded], texts: list[int]) -> list[_Launched]:
        """Start a pack; in halves where it does not fit. Raises `BackendError` where one text does not."""
        pack = self.walk.next([encoded[i] for i in texts])
        try:
            tokens = self._forward(pack)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            reason = str(error).splitlines()[0]
        else:
            self.counters.tokens += len(pack.ids)
            return [_Launched(texts, [len(answer) for answer in pack.answers], tokens)]
        self.walk.forget()
        self.cache = DynamicCache()
        half = prepare_halving([encoded[i] for i in texts], reason, self.counters)
        return self.launch(encoded, texts[:half]) + self.launch(encoded, texts[half:])

    def _forward(self, pack: Pack) -> torch.Tensor:
        with torch.inference_mode():
            logits, self.cache = pack_logits(self.model, pack, _kept(self.cache, pack.kept))
            places = [place for answer in pack.answers for place in answer]
            rows, wanted = _on(places, logits.device).T
            return log_softmax_at(logits, rows, wanted, self.native)


def pack_logits(model: Any, pack: Pack, past: DynamicCache) -> tuple[torch.Tensor, Any]:
    """Logits at the rows of a pack, (rows, vocabulary), and the keys and values of all its nodes."""
    device = input_device(model)
    rows = _on(pack.rows, device)
    with head_on(model.get_output_embeddings(), torch.zeros_like(rows), rows):
        output = model(
            input_ids=_on([pack.ids], device), position_ids=_on([pack.positions], device),
            attention_mask=attention(pack, model.dtype, device), past_key_values=past, use_cache=True,
        )  # fmt: skip
    return output.logits[0], output.past_key_values


def attention(pack: Pack, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """What is added to attention before the softmax, (1, 1, new nodes, all nodes): 0 for a node and its ancestors.

    In the order of the walk, a node's descendants follow it up to its end.
    """
    ends, nodes = _on(pack.ends, device), torch.arange(len(pack.ends), device=device)
    new = nodes[len(pack.kept) :, None]
    hidden = (nodes > new) | (new >= ends)
    added = torch.zeros(hidden.shape, dtype=dtype, device=device).masked_fill_(hidden, torch.finfo(dtype).min)
    return added[None, None]


def _kept(cache: Any, nodes: Sequence[int]) -> DynamicCache:
    """A cache with the keys and values of some nodes of another."""
    kept = DynamicCache()
    if nodes:
        places = {device: _on(nodes, device) for device in {layer.keys.device for layer in cache.layers}}
        for number, layer in enumerate(cache.layers):
            chosen = places[layer.keys.device]
            kept.update(layer.keys.index_select(-2, chosen), layer.values.index_select(-2, chosen), number)
    return kept


def _on(numbers: Any, device: torch.device) -> torch.Tensor:
    """Whole numbers on a device; the copy to a GPU does not wait for what the GPU does."""
    tensor = torch.tensor(numbers)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)
