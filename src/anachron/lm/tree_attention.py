"""Attention of a tree batch in blocks: successive nodes, with the keys that they may attend to alone.

A tree batch (`anachron.lm.prefix_tree`) is one sequence whose mask hides nearly everything: a token sees its ancestors.
Computed densely, every node is multiplied with every other, which took 29 % of SmolLM2's time on a CPU in bfloat16. In
the order of the walk all ancestors of a block of nodes that lie before the block are ancestors of its first node. So a
block needs the keys of that one path, and its own; the blocks are then a batch of ordinary masked attention.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

from anachron.lm.prefix_tree import TreeBatch
from anachron.lm.scoring import on_device

BLOCK = 64  # nodes; on two CPU cores with a real model in bfloat16 32, 64 and 128 gave 106, 104 and 98 statements/s


class BlockwiseAttention(TorchFunctionMode):
    """``with BlockwiseAttention(batch):`` - torch's attention over the batch's nodes is computed block by block.

    Only calls whose mask has a row for each new node and a column for each node, the same for all heads, are changed:
    `torch.nn.functional.scaled_dot_product_attention`, which models of transformers use unless they are told otherwise.
    What the mask hides stays hidden, whatever the model made it of.
    """

    def __init__(self, batch: TreeBatch, size: int | None = None) -> None:
        super().__init__()
        keys, queries = blocks(batch, size or BLOCK)
        self._new, self._all, self._blocks = len(batch.ids), len(batch.ends), len(keys)
        self._lists = keys, queries
        self._places: dict[torch.device, tuple[torch.Tensor, torch.Tensor]] = {}  # the lists, on each device
        self._masks: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # by address: a mask, and it in blocks
        self.calls = 0  # of attention that were computed block by block

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        if func is not scaled_dot_product_attention or not self._is_ours(named.get("attn_mask"), *args[:2]):
            return func(*args, **named)
        return self._by_blocks(func, *args, **named)

    def _is_ours(self, mask: torch.Tensor | None, query: torch.Tensor | None = None, *_: Any) -> bool:
        return (
            query is not None
            and mask is not None
            and self._blocks > 1
            and mask.is_floating_point()
            and tuple(mask.shape) == (1, 1, self._new, self._all)
            and query.shape[0] == 1
        )

    def _by_blocks(
        self, attention: Callable[..., torch.Tensor], query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
        attn_mask: torch.Tensor, **more: Any,
    ) -> torch.Tensor:  # fmt: skip
        """query: (1, heads, new, width); key, value: (1, heads or groups, all, width). Gives (1, heads, new, width)."""
        self.calls += 1
        if key.device not in self._places:
            keys, queries = (on_device(places, key.device) for places in self._lists)
            self._places[key.device] = keys, queries  # (blocks, keys), -1 where a block has fewer, (blocks, block)
        keys, queries = self._places[key.device]
        there = keys.clamp(min=0)
        found = attention(
            _gathered(query, queries), _gathered(key, there), _gathered(value, there),
            attn_mask=self._mask_in_blocks(attn_mask, queries, keys), **more,
        )  # fmt: skip
        # found: (blocks, heads, block, width)
        return found.transpose(0, 1).flatten(1, 2)[None, :, : self._new]

    def _mask_in_blocks(self, mask: torch.Tensor, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        """(blocks, 1, block, keys): the rows and columns of each block; -1 among the keys is hidden from all."""
        address = mask.data_ptr()
        if address not in self._masks:
            found = mask[0, 0][queries[:, :, None], keys.clamp(min=0)[:, None]]
            found = found.masked_fill_((keys < 0)[:, None], torch.finfo(mask.dtype).min)
            self._masks[address] = mask, found[:, None]  # the mask is held, so that its address stays its own
        return self._masks[address][1]


def _gathered(values: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Some of (1, heads, nodes, width), block by block: (blocks, heads, places, width). places: (blocks, places)."""
    chosen = values[0].index_select(1, places.flatten())
    return chosen.view(len(chosen), *places.shape, -1).transpose(0, 1)


def blocks(batch: TreeBatch, size: int) -> tuple[list[list[int]], list[list[int]]]:
    """The nodes whose keys each block needs, filled up with -1, and its new nodes, counted from the first new one and
    filled up with the last; (blocks, keys) and (blocks, size)."""
    kept, nodes = len(batch.kept), len(batch.ends)
    keys, queries = [], []
    path: list[int] = list(range(kept))  # those that are kept are a path from the first token on
    for node in range(kept, nodes):
        while path and batch.ends[path[-1]] <= node:
            path.pop()
        if (node - kept) % size == 0:
            end = min(node + size, nodes)
            keys.append([*path, *range(node, end)])
            queries.append([min(number, nodes - 1) - kept for number in range(node, node + size)])
        path.append(node)
    width = max(map(len, keys))
    return [[*block, *[-1] * (width - len(block))] for block in keys], queries
