"""A memory beside a model's weights: vectors that take the place of a module's output where its input is near a key.

The codebook of GRACE (Hartvigsen and others, NeurIPS 2023). A `Memory` keeps what was put in, in its order; the
`Codebook` is what GRACE's rules make of it. So memories add up, one is taken out of a sum as if it had never been in,
and the sum of the memories made one on top of the other is the codebook of the published loop.

The rule for tokens: every token whose input of the module is within the radius of its nearest key gets that key's
value. What a token gets depends on nothing behind it and on no other text, so batches, padding, prefix trees and cached
generation all see the same. An input is not changed by the memory of its own module.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from anachron.core.errors import ConfigError, ModelError
from anachron.lm.model import LanguageModel
from anachron.lm.sites import features
from anachron.lm.temporary import Temporary, attribute

SPLIT = 1e-5  # that the older of two radii is smaller by where they are split, as published
SAME = 1e-3  # share of a key's length that is taken for rounding: two keys so near are one


@dataclass(frozen=True)
class Codebook:
    """keys (m, inputs), values (m, outputs), radii (m,). entries: of each insertion, the number of its entry here.

    owners: of each entry, where the books of several edits lie side by side; else None.
    """

    keys: torch.Tensor
    values: torch.Tensor
    radii: torch.Tensor
    entries: tuple[int, ...] = ()
    owners: torch.Tensor | None = None

    def nearest(self, x: torch.Tensor, owners: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Number of the nearest key of each input, and whether it is within that key's radius: (tokens,) each.

        x: (tokens, inputs). owners: of each token, which meets the keys of its own alone. Distances are Euclidean, in
        float64; of keys that tie, the first.
        """
        keys = self.keys.to(x.device)
        distances = torch.cdist(x.detach().double(), keys.double())  # (tokens, m)
        if owners is not None and self.owners is not None:
            others = owners.to(x.device)[:, None] != self.owners.to(x.device)  # (tokens, m)
            distances = distances.masked_fill(others, torch.inf)
        smallest, number = distances.min(1)
        return number, smallest <= self.radii.to(smallest)[number]

    def output(self, x: torch.Tensor, output: torch.Tensor, owners: torch.Tensor | None = None) -> torch.Tensor:
        """A module's output with values in place of it at the tokens that are near a key; gradients flow through both.

        x: the module's input, (..., inputs); output: (..., outputs). owners: of the tokens, in their order.
        """
        number, near = self.nearest(x.reshape(-1, x.shape[-1]), owners)
        if not bool(near.any()) and not self.values.requires_grad:
            return output
        flat = output.reshape(-1, output.shape[-1])  # (tokens, outputs)
        values = self.values.to(flat)[number.to(flat.device)]
        return torch.where(near.to(flat.device)[:, None], values, flat).reshape(output.shape)


@dataclass(frozen=True)
class Memory:
    """What was put into a memory, in its order: keys (n, inputs), values (n, outputs), radii (n,), and labels, the
    texts that values were trained to give.
    """

    keys: torch.Tensor
    values: torch.Tensor
    radii: torch.Tensor
    labels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def shape(self) -> tuple[int, int]:
        """(outputs, inputs) of its module."""
        return self.values.shape[1], self.keys.shape[1]

    def __add__(self, other: "Memory") -> "Memory":
        if self.shape != other.shape:
            raise ModelError(
                f"memories of modules of shapes {self.shape} and {other.shape} cannot be added; one is another model's"
            )
        rows = zip(self.tensors().items(), other.tensors().values(), strict=True)
        both = {name: torch.cat([mine, others.to(mine.device)]) for (name, mine), others in rows}
        return Memory(**both, labels=self.labels + other.labels)

    def __sub__(self, other: "Memory") -> "Memory":
        """Without the first insertion that is equal to each of the other's.

        Raises `ConfigError` where there is none.
        """
        left = list(range(len(self)))
        for row in range(len(other)):
            found = next((i for i in left if self._is(i, other, row)), None)
            if found is None:
                raise ConfigError(
                    f"the memory of {other.labels[row]!r} is not in this one; only an edit that is in a sum can be "
                    "taken out"
                )
            left.remove(found)
        return self.only(left)

    def _is(self, place: int, other: "Memory", row: int) -> bool:
        pairs = zip(self.tensors().values(), other.tensors().values(), strict=True)
        return self.labels[place] == other.labels[row] and all(
            torch.equal(mine[place], others[row].to(mine)) for mine, others in pairs
        )

    def only(self, chosen: Sequence[int]) -> "Memory":
        """Some of the insertions."""
        rows = {name: tensor[list(chosen)] for name, tensor in self.tensors().items()}
        return Memory(**rows, labels=tuple(self.labels[i] for i in chosen))

    def tensors(self) -> dict[str, torch.Tensor]:
        return {"keys": self.keys, "values": self.values, "radii": self.radii}

    def is_finite(self) -> bool:
        return all(bool(tensor.isfinite().all()) for tensor in self.tensors().values())

    def check(self, name: str, owner: Any) -> None:
        """Raise `ModelError` where it is broken, or not for that module, ``owner``, of the model."""
        if not self.is_finite():
            raise ModelError(f"the memory of {name!r} holds NaN or infinite numbers; make the edit again")
        if (shape := features(owner, name)) != self.shape:
            raise ModelError(
                f"{name}: the memory is for a module of shape {self.shape}, the model's is {shape}; is it for another "
                "model?"
            )

    @cached_property
    def codebook(self) -> Codebook:
        """What GRACE's rules make of the insertions, one after the other (algorithm 1 of the paper).

        A key whose ball does not meet that of the nearest key is a new entry. One that meets it and has its label
        widens it to reach the new key (with `SAME` more, for rounding), and its value is the newer. With another label
        it is a new entry and the two radii are split at half the distance, the older one less `SPLIT`. A key at the
        same place (`SAME`) takes the entry over, whatever its label: the later update counts.
        """
        kept: list[int] = []  # of each entry, the insertion whose key it has
        newest: list[int] = []  # and the one whose value and label
        radii: list[float] = []
        entries: list[int] = []
        keys = self.keys.double()
        for new in range(len(self)):
            radius = float(self.radii[new])
            distances = (keys[kept] - keys[new]).norm(dim=1) if kept else keys.new_zeros(0)  # (entries,)
            near = int(distances.argmin()) if kept else -1
            distance = float(distances[near]) if kept else torch.inf
            rounding = SAME * float(keys[new].norm())
            meets = bool(kept) and distance <= radius + radii[near]
            if distance <= rounding or (meets and self.labels[newest[near]] == self.labels[new]):
                radii[near] = max(radii[near], distance + rounding)
                newest[near] = new
                entries.append(near)
                continue
            if meets:
                radii[near], radius = distance / 2 - SPLIT, distance / 2
            kept.append(new)
            newest.append(new)
            radii.append(radius)
            entries.append(len(kept) - 1)
        return Codebook(self.keys[kept], self.values[newest], self.radii.new_tensor(radii), tuple(entries))


Memories = Mapping[str, Memory]  # by the name of a module


def joined(a: Memories, b: Memories) -> dict[str, Memory]:
    """Both together, the first's insertions first."""
    return {**a, **{name: a[name] + more if name in a else more for name, more in b.items()}}


def taken_out(whole: Memories, removed: Memories) -> dict[str, Memory]:
    """The whole without what is removed. Raises `ConfigError` for what is not in it."""
    if missing := [name for name in removed if name not in whole]:
        raise ConfigError(f"there is no memory of {missing[0]}; only an edit that is in a sum can be taken out")
    left = {name: memory - removed[name] if name in removed else memory for name, memory in whole.items()}
    return {name: memory for name, memory in left.items() if len(memory)}


def put_on(lm: LanguageModel, memories: Memories) -> Callable[[], None]:
    """Add memories to those that are in force; returns what takes them off again.

    A module has one hook for all of them, which looks up what is in force.
    """
    before = lm.memories
    hooks = [
        lm.model.get_submodule(name).register_forward_hook(_in_force(lm, name))
        for name in memories
        if name not in before
    ]
    lm.memories = joined(before, memories)

    def undo() -> None:
        lm.memories = before
        for hook in hooks:
            hook.remove()

    return undo


def _in_force(lm: LanguageModel, name: str) -> Callable[..., torch.Tensor | None]:
    def replace(_: Any, given: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor | None:
        memory = lm.memories.get(name)
        return None if memory is None else memory.codebook.output(given[0], output)

    return replace


def suspended(lm: LanguageModel, names: Sequence[str]) -> Temporary[None]:
    """Without the memories of some modules, as long as the block lasts."""
    return attribute(lm, "memories", {name: memory for name, memory in lm.memories.items() if name not in names})


def side_by_side(owned: Sequence[Codebook | None]) -> Codebook:
    """The books of several owners, numbered in their order, as one; of None no key. One owner at least has some."""
    books = [(owner, book) for owner, book in enumerate(owned) if book is not None]
    device = books[0][1].keys.device
    keys, values, radii = (
        torch.cat([getattr(book, name).to(device) for _, book in books]) for name in ("keys", "values", "radii")
    )
    owners = torch.tensor([owner for owner, book in books for _ in book.radii])
    return Codebook(keys, values, radii, owners=owners)


def replacing(module: Any, book: Codebook, owners: torch.Tensor) -> Temporary[None]:
    """Put values of a book in place of a module's output, as long as the block lasts.

    owners: of the rows of a batch, or of the tokens of its one row; each meets the keys of its own.
    """

    def replace(_: Any, given: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
        tokens = given[0].numel() // given[0].shape[-1]
        return book.output(given[0], output, owners.repeat_interleave(tokens // len(owners)))

    return Temporary(lambda: module.register_forward_hook(replace).remove)
