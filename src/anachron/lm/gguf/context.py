"""A context of llama.cpp, which is its key-value cache: computes tree batches of `anachron.lm.prefix_tree`.

A token belongs to the sequences of all texts that pass through it and attends to the tokens of these with an earlier
position: its ancestors. In the order of the walk these texts follow one another, so a token's sequences are a range.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from anachron.core.errors import BackendError
from anachron.lm.gguf.library import FLOAT32, MOST_SEQUENCES, NO_FLASH_ATTENTION, Library, LlamaBatch
from anachron.lm.prefix_tree import TreeBatch, extents
from anachron.lm.spans import Encoded

_ALL = -1  # positions from the first, or up to the last


@dataclass(frozen=True, slots=True)
class Size:
    """What a context holds at once: tokens, rows of logits, and sequences."""

    cells: int
    rows: int
    sequences: int

    def holds(self, other: "Size") -> bool:
        return self.cells >= other.cells and self.rows >= other.rows and self.sequences >= other.sequences

    def with_room(self) -> "Size":
        """A size for the next plans too, which are much alike."""
        return Size(_up(self.cells, 256), _up(self.rows, 64), min(_up(self.sequences, 64), MOST_SEQUENCES))


def _up(number: int, step: int) -> int:
    return -(-number // step) * step


def size_of(encoded: Sequence[Encoded], batches: Sequence[Sequence[int]], owners: Sequence[int] | None) -> Size:
    """What the largest batches of a plan need."""
    return Size(
        max(extent.nodes for extent in extents(encoded, batches, owners)),
        max(sum(len(encoded[i].targets) for i in batch) for batch in batches),
        max(len(batch) for batch in batches),
    )


def split_to_fit(
    encoded: Sequence[Encoded], batches: Sequence[list[int]], owners: Sequence[int] | None, cells: int
) -> list[list[int]]:
    """The same texts in the same order, in batches of no more tokens than cells and no more texts than sequences."""
    fitting: list[list[int]] = []
    for batch, extent in zip(batches, extents(encoded, batches, owners), strict=True):
        if len(batch) == 1 or (extent.nodes <= cells and len(batch) <= MOST_SEQUENCES):
            fitting.append(batch)
        else:
            half = len(batch) // 2
            fitting += split_to_fit(encoded, [batch[:half], batch[half:]], owners, cells)
    return fitting


class LlamaContext:
    """A context of a model, of a size or somewhat larger; `close` frees it.

    Raises `BackendError` where it does not fit into memory.
    """

    def __init__(self, llama: Library, model: int, size: Size, vocabulary: int) -> None:
        self._llama, self._vocabulary = llama, vocabulary
        self.size = size.with_room()
        params = llama.context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = self.size.cells  # each batch in one piece
        params.n_outputs_max = params.n_outputs_max_per_seq = self.size.rows
        params.n_seq_max, params.kv_unified = self.size.sequences, True  # sequences share the cells of what they share
        params.n_threads = params.n_threads_batch = torch.get_num_threads()
        params.type_k = params.type_v = FLOAT32
        params.flash_attn_type = NO_FLASH_ATTENTION  # its sums are in float16
        self._context = llama.init_from_model(model, params)
        if not self._context:
            raise BackendError(
                f"llama.cpp cannot make a context of {self.size.cells} tokens ({llama.complaint()}); use smaller "
                "--batch-tokens"
            )
        self._memory = llama.get_memory(self._context)
        self._numbers = np.arange(self.size.sequences, dtype=np.int32)
        self._last = 0  # sequence of the last text of the batch before

    def close(self) -> None:
        self._llama.free(self._context)

    def logits(self, batch: TreeBatch) -> torch.Tensor:
        """Logits of the rows of a tree batch in the order of its nodes, float32, (rows, vocabulary).

        They hold until the next batch. The batch before must be the one before in the walk, unless none of its nodes
        are kept.
        """
        texts = np.array(batch.texts, np.int32)  # (nodes, 2)
        kept, ids = len(batch.kept), np.array(batch.ids, np.int32)
        self._share(texts[:kept, 1], len(batch.answers))
        positions = np.array(batch.positions, np.int32)
        counts = np.ascontiguousarray(texts[kept:, 1] - texts[kept:, 0])
        # (new,) addresses of each token's sequences
        sequences = self._numbers.ctypes.data + 4 * texts[kept:, 0].astype(np.uint64)
        wanted = np.zeros(len(ids), np.int8)
        wanted[list(batch.rows)] = 1
        of = [array.ctypes.data for array in (ids, positions, counts, sequences, wanted)]
        status = self._llama.decode(self._context, LlamaBatch(len(ids), of[0], None, *of[1:]))
        if status:
            raise BackendError(f"llama.cpp cannot compute a batch of {len(ids)} tokens: {self._llama.complaint()}")
        self._last = len(batch.answers) - 1
        rows = np.ctypeslib.as_array(self._llama.get_logits(self._context), (len(batch.rows), self._vocabulary))
        return torch.from_numpy(rows)

    def _share(self, ends: np.ndarray[Any, Any], texts: int) -> None:
        """Leave the kept nodes in the cache, and give each of so many texts those that it passes through.

        ends: of each kept node the number behind its last text, (kept,). The first text passes through all.
        """
        memory, last, llama = self._memory, self._last, self._llama
        if not len(ends):
            llama.memory_clear(memory, False)
            return
        shared = [int((ends > text).sum()) for text in range(texts)]
        llama.memory_seq_keep(memory, last)
        for text, length in enumerate(shared):
            if text != last and length:
                llama.memory_seq_cp(memory, last, text, 0, length)
        llama.memory_seq_rm(memory, last, shared[last] if last < texts else 0, _ALL)
