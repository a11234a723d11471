"""Many edits of one model in one forward pass: each row of a batch is computed under an edit of its own.

No weight is written. A module's output becomes W x + left_b (right_b x) for the rows of edit b, at all edited modules
at once, so that later layers see what earlier ones changed. Served adapters are batched in the same way (S-LoRA, Sheng
and others, 2023).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from anachron.core.errors import ModelError
from anachron.edit.base import Delta, Dense, Edit, LowRank, checked_owner, owner_of, sum_in
from anachron.edit.carried.memory import joined, replacing, side_by_side, suspended
from anachron.lm.model import LanguageModel
from anachron.lm.numerics import wide_dtype
from anachron.lm.scorer import Triple
from anachron.lm.scoring import OfBatch, score_all
from anachron.lm.sites import weight_of
from anachron.lm.spans import Encoded
from anachron.lm.temporary import Temporary, together
from anachron.lm.tree_scoring import score_tree_batches


@dataclass(frozen=True)
class ModuleAdapters:
    """What edits change at one module: left (edits, outputs, rank) and right (edits, rank, inputs), and dense changes
    of weight and bias by the number of their edit. Lower ranks are filled up with zeros.
    """

    left: torch.Tensor
    right: torch.Tensor
    dense: dict[int, tuple[torch.Tensor, torch.Tensor | None]]

    def output(self, x: torch.Tensor, owners: torch.Tensor) -> torch.Tensor:
        """What is added to a module's output, (rows, length, outputs), for its input x (rows, length, inputs).

        owners: the edit of each row, (rows,).
        """
        x, owners = x.to(self.left), owners.to(self.left.device)  # a large model may lie on several devices
        left, right = self.left, self.right
        if len(left) > 1:  # one that all rows share needs no copy for each of them
            left, right = left[owners], right[owners]  # (rows, outputs, rank), (rows, rank, inputs)
        output = x @ right.mT @ left.mT
        for number, (weight, bias) in self.dense.items():
            rows = (owners == number).nonzero()[:, 0]
            if len(rows):
                output[rows] += torch.nn.functional.linear(x[rows], weight, bias)
        return output

    def output_by_runs(self, x: torch.Tensor, owners: torch.Tensor) -> torch.Tensor:
        """As `output`, run by run of rows that have one owner, so that no left and right is repeated for each row."""
        run_owners, lengths = owners.unique_consecutive(return_counts=True)  # (runs,) each
        runs = zip(x.split(lengths.tolist()), run_owners, strict=True)
        # a run, (rows, length, inputs), is computed as one row of rows * length tokens
        return torch.cat([self.output(run.flatten(0, 1)[None], owner[None])[0] for run, owner in runs])


class BatchedAdapters:
    """Edits of one model, side by side. Changes are computed in float32, or float64 for a model in float64.

    A low-rank change is not rounded to the model's dtype, as it is where `anachron.edit.base.edited` writes it; a dense
    one counts with what writing it would change. Memories of edits come on top of those that are in force.

    Raises `ModelError` for a module that cannot take its change, or whose weight is another module's too.
    """

    def __init__(self, lm: LanguageModel, edits: Sequence[Edit]) -> None:
        names = dict.fromkeys(name for edit in edits for name in edit.deltas)
        self._adapters = [_adapters(lm, name, [edit.deltas.get(name) for edit in edits]) for name in names]
        self._lm = lm
        memories = [joined(lm.memories, edit.memories) if edit.memories else lm.memories for edit in edits]
        remembering = dict.fromkeys(name for edit in edits for name in edit.memories)
        for edit in edits:
            for name, memory in edit.memories.items():
                memory.check(name, owner_of(lm, name))
        self._books = {
            name: side_by_side([held[name].codebook if name in held else None for held in memories])
            for name in remembering
        }

    def rows(self, owners: Sequence[int]) -> Temporary[None]:
        """Each row of a batch is computed under the edit of that number, as long as the block lasts."""
        numbers = torch.tensor(owners)
        adding = (adding_output(module, adapters.output, numbers) for module, adapters in self._adapters)
        return together([*adding, *self._remembering(numbers)])

    def _remembering(self, owners: torch.Tensor) -> list[Temporary[None]]:
        """Behind the changes of weights: values take the place of the whole output."""
        hooks = [replacing(owner_of(self._lm, name), book, owners) for name, book in self._books.items()]
        return [suspended(self._lm, tuple(self._books)), *hooks] if hooks else []

    def tokens(self, owners: Sequence[int]) -> Temporary[None]:
        """Each token of a single sequence is computed under the edit of that number; best in long runs of one."""
        numbers = torch.tensor(owners)
        adding = (adding_output(module, adapters.output_by_runs, numbers) for module, adapters in self._adapters)
        return together([*adding, *self._remembering(numbers)])


def _adapters(lm: LanguageModel, name: str, deltas: Sequence[Delta | None]) -> tuple[Any, ModuleAdapters]:
    """The module of that name, and the changes that edits make to it; None for an edit that makes none."""
    wide = wide_dtype(lm.model.dtype)
    module, *_ = [checked_owner(lm, name, delta) for delta in deltas if delta is not None]
    device = device_of(lm, module)
    _check_alone(lm, name, module)
    outputs, inputs = next(delta.shape for delta in deltas if delta is not None)
    rank = max((delta.rank for delta in deltas if isinstance(delta, LowRank)), default=0)
    left = torch.zeros(len(deltas), outputs, rank, dtype=wide, device=device)
    right = torch.zeros(len(deltas), rank, inputs, dtype=wide, device=device)
    dense = {}
    for number, delta in enumerate(deltas):
        if isinstance(delta, LowRank):
            left[number, :, : delta.rank], right[number, : delta.rank] = delta.left, delta.right
        elif isinstance(delta, Dense):
            weight = weight_of(lm.model, name)
            bias = None if delta.bias is None else _written(module.bias, delta.bias, wide)
            dense[number] = (_written(weight, delta.weight, wide), bias)
    return module, ModuleAdapters(left, right, dense)


def device_of(lm: LanguageModel, module: torch.nn.Module) -> torch.device:
    """Where a module computes: where its parts lie, or where the model does for one that is offloaded."""
    parts = (*module.parameters(), *module.buffers())
    return next((part.device for part in parts if part.device.type != "meta"), lm.device)


def _check_alone(lm: LanguageModel, name: str, owner: Any) -> None:
    weight = getattr(owner, "weight", None)  # quantised modules may keep theirs under other names
    for other, module in lm.model.named_modules():
        if weight is not None and module is not owner and getattr(module, "weight", None) is weight:
            raise ModelError(f"{name} shares its weight with {other}; put edits of it on one at a time, by edited")


def _written(weight: torch.Tensor, delta: torch.Tensor, wide: torch.dtype) -> torch.Tensor:
    """What a weight changes by where the sum is rounded to its dtype: in bfloat16 not the whole of a small change."""
    return sum_in(weight, delta).to(wide) - weight.detach().to(wide)


def adding_output(
    module: Any, output_of: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], owners: torch.Tensor
) -> Temporary[None]:
    """Add to a module's output what a function gives for its input, (rows, length, inputs), and the owners of the rows.

    Gradients flow through it.
    """

    def add(_: Any, given: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
        x = given[0].reshape(len(owners), -1, given[0].shape[-1])  # OPT flattens batch and length into one
        return output + output_of(x, owners).to(output.device, output.dtype).reshape(output.shape)

    return Temporary(lambda: module.register_forward_hook(add).remove)


def encode_under(lm: LanguageModel, edit: Edit, pairs: Sequence[Triple]) -> list[Encoded]:
    """Pairs as the model reads them under an edit, whose prefix and passages stand before prompts."""
    return lm.encode(pairs, replace(lm.style, prefix=edit.prefix, passages=edit.passages))


def score_batched(
    lm: LanguageModel, edits: Sequence[Edit], texts: Sequence[Sequence[Encoded]], *, batch_tokens: int | None = None,
    prefix_tree: bool = True, of_batch: OfBatch | None = None,
) -> list[np.ndarray]:  # fmt: skip
    """Scores of the texts of each edit under that edit alone, as one at a time under `anachron.edit.base.edited`.

    texts: of each edit, encoded by `encode_under`. Returns sums of log-probabilities (nats) in the order of the texts.
    By prefix trees or padded batches (see `anachron.lm.model.LanguageModel.plan`), halved where memory is full; texts
    of different edits share nothing. of_batch: what is computed of a padded batch in place of scores, such as
    `anachron.lm.scoring.count_argmax`; prefix trees give scores only. Raises `BackendError` where one text does not
    fit, `ModelError` for a module that cannot take its change.
    """
    distinct = list(dict.fromkeys((number, text) for number, some in enumerate(texts) for text in some))
    owners, encoded = [number for number, _ in distinct], [text for _, text in distinct]
    scores = np.full(0, np.nan)
    if encoded:
        adapters = BatchedAdapters(lm, edits)
        plan = lm.plan(encoded, batch_tokens, prefix_tree=prefix_tree and of_batch is None, owners=owners)
        given: tuple[Any, ...] = (lm.model, encoded, plan.batches)
        if plan.prefix_tree:
            scores = score_tree_batches(*given, counters=lm.counters, owners=owners, during=adapters.tokens)
        else:
            scores = score_all(
                *given,
                counters=lm.counters,
                during=lambda chosen: adapters.rows([owners[i] for i in chosen]),
                of_batch=of_batch,
            )
    place = {one: i for i, one in enumerate(distinct)}
    return [scores[[place[number, text] for text in some]] for number, some in enumerate(texts)]
