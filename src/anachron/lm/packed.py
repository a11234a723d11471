"""Scores of packs (`anachron.lm.packing`): tree-shaped attention, explicit positions, kept keys and values."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache

from anachron.lm.batches import Limits
from anachron.lm.packing import Pack, Walk
from anachron.lm.scoring import (
    Counters,
    During,
    head_on,
    input_device,
    is_out_of_memory,
    log_softmax_at,
    on_device,
    prepare_halving,
)
from anachron.lm.spans import Encoded
from anachron.lm.temporary import unchanged

HEAD_ROWS = 640  # of several packs that go through the output head at once: its weights are read once for all of them


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
    owners: Sequence[int] | None = None,
    during: During = unchanged,
) -> np.ndarray:
    """As `anachron.lm.scoring.score_all`, with the texts of each pack computed as one tree.

    The result of some packs is fetched once the next ones have been handed to the device. owners: of each text; the
    packs must be planned with them. during: what is in force while tokens of some owners, one number a token, are
    computed.
    """
    scorer = _Scorer(model, native_softmax, counters or Counters(), owners or [0] * len(encoded), during)
    scores = np.full(len(encoded), np.nan)

    def collect(launched: list[_Launched]) -> None:
        for one in launched:
            tokens = one.tokens.double().cpu().numpy()
            scores[one.texts] = np.add.reduceat(tokens, np.cumsum([0, *one.lengths[:-1]]))
            if on_batch is not None:
                on_batch(len(one.texts))

    waiting: list[_Launched] = []
    for group in _groups(encoded, packs, model.config.get_text_config().vocab_size):
        launched = scorer.launch(encoded, group)
        collect(waiting)
        waiting = launched
    collect(waiting)
    return scores


def _groups(encoded: Sequence[Encoded], packs: Sequence[Sequence[int]], vocabulary: int) -> Iterator[list[list[int]]]:
    """Packs, one after the other, whose answers go through the head together."""
    most = min(HEAD_ROWS, Limits().logits // vocabulary)
    group: list[list[int]] = []
    rows = 0
    for pack in packs:
        more = sum(len(encoded[i].targets) for i in pack)
        if group and rows + more > most:
            yield group
            group, rows = [], 0
        group.append(list(pack))
        rows += more
    if group:
        yield group


class _Scorer:
    """A model with the keys and values of the last pack."""

    def __init__(
        self, model: Any, native_softmax: bool, counters: Counters, owners: Sequence[int], during: During
    ) -> None:
        self.model, self.native, self.counters = model, native_softmax, counters
        self.owners, self.during = owners, during
        self.walk, self.cache = Walk(), DynamicCache()

    def launch(self, encoded: Sequence[Encoded], packs: list[list[int]]) -> list[_Launched]:
        """Start some packs; where they do not fit, their texts in halves.

        Raises `BackendError` where one text does not fit.
        """
        texts = [i for pack in packs for i in pack]
        try:
            return [_Launched(texts, [len(encoded[i].targets) for i in texts], self._forward(encoded, packs))]
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            reason = str(error).splitlines()[0]
        self.walk.forget()
        self.cache = DynamicCache()
        half = prepare_halving([encoded[i] for i in texts], reason, self.counters)
        return self.launch(encoded, [texts[:half]]) + self.launch(encoded, [texts[half:]])

    def _forward(self, encoded: Sequence[Encoded], packs: list[list[int]]) -> torch.Tensor:
        """Log-probabilities of all answer tokens of some packs, text by text."""
        hidden: list[torch.Tensor] = []
        wanted: list[tuple[int, int]] = []
        tokens = rows = 0
        with torch.inference_mode():
            for number, texts in enumerate(packs, 1):
                pack = self.walk.next([encoded[i] for i in texts], [self.owners[i] for i in texts])
                past, last = _kept(self.cache, pack.kept), number == len(packs)
                with self.during(pack.owners):
                    logits, self.cache = pack_logits(self.model, pack, past, hidden, last=last)
                wanted += [(rows + row, token) for answer in pack.answers for row, token in answer]
                rows += len(pack.rows)
                tokens += len(pack.ids)
            places, ids = on_device(wanted, logits.device).T
            found = log_softmax_at(logits, places, ids, self.native)
        self.counters.tokens += tokens
        return found


def pack_logits(
    model: Any, pack: Pack, past: DynamicCache, hidden: list[torch.Tensor], *, last: bool
) -> tuple[torch.Tensor, Any]:
    """Compute a pack; gives logits and the keys and values of all its nodes.

    hidden: what the head gets of each pack, (rows, units); that of this one is added. With the ``last`` pack all of it
    goes through the head, which gives logits of (rows of all packs, vocabulary); before, only a row that is not used.
    """
    device = input_device(model)
    rows = on_device(pack.rows, device)

    def choose(output: torch.Tensor) -> torch.Tensor:
        hidden.append(output[0, rows.to(output.device)])
        return torch.cat(hidden) if last else output[0, :1]

    with head_on(model.get_output_embeddings(), choose):
        output = model(
            input_ids=on_device([pack.ids], device), position_ids=on_device([pack.positions], device),
            attention_mask=attention(pack, model.dtype, device), past_key_values=past, use_cache=True,
        )  # fmt: skip
    return output.logits[0], output.past_key_values


def attention(pack: Pack, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """What is added to attention before the softmax, (1, 1, new nodes, all nodes): 0 for a node and its ancestors.

    In the order of the walk, a node's descendants follow it up to its end.
    """
    ends, nodes = on_device(pack.ends, device), torch.arange(len(pack.ends), device=device)
    new = nodes[len(pack.kept) :, None]
    hidden = (nodes > new) | (new >= ends)
    added = torch.zeros(hidden.shape, dtype=dtype, device=device).masked_fill_(hidden, torch.finfo(dtype).min)
    return added[None, None]


def _kept(cache: Any, nodes: Sequence[int]) -> DynamicCache:
    """A cache with the keys and values of some nodes of another."""
    kept = DynamicCache()
    if nodes:
        places = {device: on_device(nodes, device) for device in {layer.keys.device for layer in cache.layers}}
        for number, layer in enumerate(cache.layers):
            chosen = places[layer.keys.device]
            kept.update(layer.keys.index_select(-2, chosen), layer.values.index_select(-2, chosen), number)
    return kept
