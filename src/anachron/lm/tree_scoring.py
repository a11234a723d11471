"""Scores by prefix-tree attention: an ancestor mask, explicit positions, and a key-value cache between batches.

Attention itself is computed block by block where a model lets it be (`anachron.lm.tree_attention`).

Shapes: new and all are the nodes of a tree batch without and with those kept of the batch before, rows the nodes that
predict an answer token.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache

from anachron.core.errors import first_line
from anachron.lm.batches import Limits
from anachron.lm.prefix_tree import TreeBatch, Walk
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
from anachron.lm.tree_attention import BlockwiseAttention
from anachron.lm.windows import has_kinds_of_layers, sliding_window

# Of logits (rows, vocabulary), the rows of the answer tokens and these tokens: a number of each, (answer tokens,).
OfTokens = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
HEAD_ROWS = 640  # of several batches that go through the output head at once: its weights are read once for all


@dataclass
class _Launched:
    """What a device still works on: numbers of the answer tokens of some texts, one after the other."""

    texts: list[int]
    lengths: list[int]
    tokens: torch.Tensor


def score_tree_batches(
    model: Any, encoded: Sequence[Encoded], batches: Sequence[Sequence[int]], *, native_softmax: bool = False,
    counters: Counters | None = None, on_batch: Callable[[int], None] = lambda texts: None,
    owners: Sequence[int] | None = None, during: During = unchanged, of_tokens: OfTokens | None = None,
) -> np.ndarray:  # fmt: skip
    """As `anachron.lm.scoring.score_all`, by tree batches of `anachron.lm.prefix_tree`.

    of_tokens: what is summed over a text's answer tokens, by default their log-probabilities.

    Results are fetched once the next batches have been handed to the device. owners: of each text; the batches must be
    planned with them. during: the change of the model in force for a batch, given the owner of each of its new nodes.
    """
    of_tokens = of_tokens or partial(log_softmax_at, native=native_softmax)
    scorer = _Scorer(model, of_tokens, counters or Counters(), owners or [0] * len(encoded), during)
    scores = np.full(len(encoded), np.nan)

    def collect(launched: list[_Launched]) -> None:
        for one in launched:
            tokens = one.tokens.double().cpu().numpy()
            scores[one.texts] = np.add.reduceat(tokens, np.cumsum([0, *one.lengths[:-1]]))
            on_batch(len(one.texts))

    waiting: list[_Launched] = []
    for group in _groups(encoded, batches, model.config.get_text_config().vocab_size):
        launched = scorer.launch(encoded, group)
        collect(waiting)
        waiting = launched
    collect(waiting)
    return scores


def _groups(encoded: Sequence[Encoded], batches: Sequence[Sequence[int]], vocabulary: int) -> Iterator[list[list[int]]]:
    """Successive batches whose answers go through the head together."""
    most = min(HEAD_ROWS, Limits().logits // vocabulary)
    group: list[list[int]] = []
    rows = 0
    for batch in batches:
        more = sum(len(encoded[i].targets) for i in batch)
        if group and rows + more > most:
            yield group
            group, rows = [], 0
        group.append(list(batch))
        rows += more
    if group:
        yield group


class _Scorer:
    """A model with the keys and values of the last batch."""

    def __init__(
        self, model: Any, of_tokens: OfTokens, counters: Counters, owners: Sequence[int], during: During
    ) -> None:
        self.model, self.of_tokens, self.counters = model, of_tokens, counters
        self.owners, self.during = owners, during
        self.walk, self.cache = Walk(), DynamicCache()

    def launch(self, encoded: Sequence[Encoded], batches: list[list[int]]) -> list[_Launched]:
        """Start some batches; where they do not fit into memory, their texts in halves.

        Raises `BackendError` where one text does not fit.
        """
        texts = [i for batch in batches for i in batch]
        try:
            return [_Launched(texts, [len(encoded[i].targets) for i in texts], self._forward(encoded, batches))]
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            reason = first_line(error)
        self.walk.forget()
        self.cache = DynamicCache()
        half = prepare_halving([encoded[i] for i in texts], reason, self.counters)
        return self.launch(encoded, [texts[:half]]) + self.launch(encoded, [texts[half:]])

    def _forward(self, encoded: Sequence[Encoded], batches: list[list[int]]) -> torch.Tensor:
        """Numbers of all answer tokens of some batches, text by text: (answer tokens,)."""
        hidden: list[torch.Tensor] = []
        wanted: list[tuple[int, int]] = []
        tokens = rows = 0
        with torch.inference_mode():
            for number, texts in enumerate(batches, 1):
                batch = self.walk.next([encoded[i] for i in texts], [self.owners[i] for i in texts])
                past, last = _kept(self.cache, batch.kept), number == len(batches)
                attention = BlockwiseAttention(batch)
                with self.during(batch.owners), attention:
                    logits, self.cache = tree_batch_logits(self.model, batch, past, hidden, last=last)
                wanted += [(rows + row, token) for answer in batch.answers for row, token in answer]
                rows += len(batch.rows)
                tokens += len(batch.ids)
                self.counters.blockwise += attention.calls
            places, ids = on_device(wanted, logits.device).T  # (answer tokens,) each
            numbers = self.of_tokens(logits, places, ids)
        self.counters.tokens += tokens
        return numbers


def is_first_choice(logits: torch.Tensor, rows: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Whether each token is the model's first choice, as `anachron.lm.scoring.count_argmax` counts it."""
    return logits.argmax(-1)[rows] == tokens


def tree_batch_logits(
    model: Any, batch: TreeBatch, past: DynamicCache, hidden: list[torch.Tensor], *, last: bool
) -> tuple[torch.Tensor, Any]:
    """Compute a batch; gives logits and the keys and values of all its nodes.

    hidden: the head's inputs of the batches so far, (rows, hidden) each; those of this one are added. With the ``last``
    batch all of them go through the head, which gives logits (rows of all batches, vocabulary); before, only one row
    does, whose logits are not used.
    """
    device = input_device(model)
    rows = on_device(batch.rows, device)  # (rows,)

    def choose(output: torch.Tensor) -> torch.Tensor:
        hidden.append(output[0, rows.to(output.device)])  # of (1, new, hidden)
        return torch.cat(hidden) if last else output[0, :1]

    with head_on(model.get_output_embeddings(), choose):
        output = model(
            input_ids=on_device([batch.ids], device), position_ids=on_device([batch.positions], device),
            attention_mask=attention_masks(model, batch, device), past_key_values=past, use_cache=True,
        )  # fmt: skip
    return output.logits[0], output.past_key_values  # of (1, rows, vocabulary)


def attention_masks(model: Any, batch: TreeBatch, device: torch.device) -> torch.Tensor | dict[str, torch.Tensor]:
    """What a model takes as the mask of a batch: by kinds of layer, where a text is longer than a sliding window."""
    window = sliding_window(model)
    if window is None or max(batch.positions) < window:
        return ancestor_mask(batch, model.dtype, device)
    sliding = ancestor_mask(batch, model.dtype, device, window)
    if not has_kinds_of_layers(model):
        return sliding
    return {"full_attention": ancestor_mask(batch, model.dtype, device), "sliding_attention": sliding}


def ancestor_mask(
    batch: TreeBatch, dtype: torch.dtype, device: torch.device, window: int | None = None
) -> torch.Tensor:
    """The additive attention mask, (1, 1, new, all): 0 for a node and its ancestors, the least number elsewhere.

    In the order of the walk a node's descendants follow it up to its end: i attends to j if j <= i < end of j. With a
    window it attends to so many of these alone, itself and those closest above it.
    """
    ends, nodes = on_device(batch.ends, device), torch.arange(len(batch.ends), device=device)  # (all,)
    new = nodes[len(batch.kept) :, None]  # (new, 1)
    hidden = (nodes > new) | (new >= ends)  # (new, all)
    if window is not None:  # the nodes that are kept are a path from the first token on
        depths = on_device([*range(len(batch.kept)), *batch.positions], device)  # (all,)
        hidden |= depths <= depths[len(batch.kept) :, None] - window
    mask = torch.zeros(hidden.shape, dtype=dtype, device=device).masked_fill_(hidden, torch.finfo(dtype).min)
    return mask[None, None]


def _kept(cache: Any, nodes: Sequence[int]) -> DynamicCache:
    """A cache with the keys and values of some nodes of another."""
    kept = DynamicCache()
    if nodes:
        places = {device: on_device(nodes, device) for device in {layer.keys.device for layer in cache.layers}}
        for number, layer in enumerate(cache.layers):
            chosen = places[layer.keys.device]
            # keys and values: (1, heads, nodes, width)
            kept.update(layer.keys.index_select(-2, chosen), layer.values.index_select(-2, chosen), number)
    return kept
