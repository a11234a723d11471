"""Many edits of one model in one forward: each row of a batch is computed under an edit of its own.

No weight is written. A module gives out W x + left_b (right_b x) for the rows of edit b, at all edited modules at once,
so that a later layer sees what an earlier one changed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from anachron.edit.base import Delta, Dense, Edit, LowRank, checked_owner, sum_in
from anachron.errors import ModelError
from anachron.lm.model import LanguageModel
from anachron.lm.sites import weight_of
from anachron.lm.temporary import Temporary, together


@dataclass(frozen=True)
class Changes:
    """What edits change at one module: left (edits, outputs, rank) and right (edits, rank, inputs), and dense changes
    of weight and bias by the number of their edit. Ranks are filled up with zeros.
    """

    left: torch.Tensor
    right: torch.Tensor
    dense: dict[int, tuple[torch.Tensor, torch.Tensor | None]]

    def change(self, given: torch.Tensor, owners: torch.Tensor) -> torch.Tensor:
        """What is added to the output of rows (rows, time, inputs): (rows, time, outputs)."""
        given, owners = given.to(self.left), owners.to(self.left.device)  # a large model may lie on several devices
        left, right = self.left, self.right
        if len(left) > 1:  # one that all rows share needs no copy for each of them
            left, right = left[owners], right[owners]
        change = given @ right.mT @ left.mT
        for number, (weight, bias) in self.dense.items():
            own = (owners == number).nonzero()[:, 0]
            if len(own):
                change[own] += torch.nn.functional.linear(given[own], weight, bias)
        return change

    def change_by_runs(self, given: torch.Tensor, owners: torch.Tensor) -> torch.Tensor:
        """As `change`, run by run of rows that have one owner, so that no left and right is repeated for each row."""
        runs, lengths = owners.unique_consecutive(return_counts=True)
        parts = zip(given.split(lengths.tolist()), runs, strict=True)
        return torch.cat([self.change(part.flatten(0, 1)[None], owner[None])[0] for part, owner in parts])


class Overlay:
    """Edits of one model, laid side by side. Changes are computed in float32, or float64 for a model in float64.

    A low-rank change is not rounded to the model's dtype, as it is where `anachron.edit.base.edited` writes it; a dense
    one counts with what writing it would change.

    Raises `ModelError` for a module that cannot take its change, or whose weight is another module's too.
    """

    def __init__(self, lm: LanguageModel, edits: Sequence[Edit]) -> None:
        names = dict.fromkeys(name for edit in edits for name in edit.deltas)
        found = {name: [edit.deltas.get(name) for edit in edits] for name in names}
        self._changes = [_changes(lm, name, deltas) for name, deltas in found.items()]

    def rows(self, owners: Sequence[int]) -> Temporary[None]:
        """Let every row of a batch be computed under the edit of that number, as long as the block lasts."""
        numbers = torch.tensor(owners)
        return together(added(module, changes.change, numbers) for module, changes in self._changes)

    def tokens(self, owners: Sequence[int]) -> Temporary[None]:
        """Let every token of a single sequence be computed under the edit of that number; best in long runs of one."""
        numbers = torch.tensor(owners)
        return together(added(module, changes.change_by_runs, numbers) for module, changes in self._changes)


def _changes(lm: LanguageModel, name: str, deltas: Sequence[Delta | None]) -> tuple[Any, Changes]:
    wide = torch.promote_types(lm.model.dtype, torch.float32)
    owners = [checked_owner(lm, name, delta) for delta in deltas if delta is not None]
    device = device_of(lm, owners[0])
    _check_alone(lm, name, owners[0])
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
            bias = None if delta.bias is None else _written(owners[0].bias, delta.bias, wide)
            dense[number] = (_written(weight, delta.weight, wide), bias)
    return owners[0], Changes(left, right, dense)


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


def added(
    module: Any, change: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], owners: torch.Tensor
) -> Temporary[None]:
    """Let a module give out more, by the change of each row's owner, as long as the block lasts; gradients flow."""

    def add(_: Any, given: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
        rows = given[0].reshape(len(owners), -1, given[0].shape[-1])  # OPT flattens batch and time into one
        return output + change(rows, owners).to(output.device, output.dtype).reshape(output.shape)

    return Temporary(lambda: module.register_forward_hook(add).remove)
