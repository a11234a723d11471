"""What an edit is: changes to weights, a text in front of every prompt, passages that are chosen for each, or a memory
beside the weights; put onto a model and taken off again.

An `Edit` is independent of the model object: deltas by the names of modules, in the orientation (outputs, inputs). It
adds up (`+`), is taken out of a sum again (`-`), scales (`*`), and can be saved. `edited` puts it onto a model for as
long as a block lasts.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from anachron.core.errors import ConfigError, ModelError
from anachron.core.notebook import html_record
from anachron.edit.carried import memory, moments, passages
from anachron.edit.carried.memory import Memory as Memory
from anachron.edit.carried.moments import Moments as Moments
from anachron.edit.carried.passages import Passages as Passages
from anachron.edit.tensors import checksum
from anachron.io.files import Json
from anachron.io.jobs import differences
from anachron.lm.formats import joined
from anachron.lm.model import LanguageModel
from anachron.lm.numerics import wide_dtype
from anachron.lm.sites import as_stored, features, is_plain, weight_of
from anachron.lm.temporary import Temporary, attribute

MADE_ON = "made_on"  # in an edit's ``about``
NAMED = 3  # of the fields in which another model differs, often thirty


@dataclass(frozen=True)
class LowRank:
    """A change of a weight, ``left @ right``: left (outputs, rank), right (rank, inputs)."""

    left: torch.Tensor
    right: torch.Tensor

    @property
    def rank(self) -> int:
        return len(self.right)

    @property
    def shape(self) -> tuple[int, ...]:
        return len(self.left), self.right.shape[1]

    def dense(self) -> torch.Tensor:
        return self.left @ self.right

    def scaled(self, factor: float) -> "LowRank":
        return LowRank(self.left * factor, self.right)


@dataclass(frozen=True)
class Dense:
    """A change of a weight (outputs, inputs), and of the bias where the method trains it."""

    weight: torch.Tensor
    bias: torch.Tensor | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.weight.shape)

    def dense(self) -> torch.Tensor:
        return self.weight

    def scaled(self, factor: float) -> "Dense":
        return Dense(self.weight * factor, None if self.bias is None else self.bias * factor)


Delta = LowRank | Dense


@dataclass(frozen=True)
class Edit:
    """An edit of a model, as a method returns it.

    deltas: module name -> change of its weight. prefix: text to put before every prompt (method PROMPT).
    model: fingerprint of the unedited model that it belongs to. about: method, settings and what else made it, such as
    ``made_on``, that model's configuration (`LanguageModel.described`).
    keys: module name -> inputs (n, inputs) that the edit was made at, for methods that spare earlier edits (AlphaEdit).
    statistics: name -> running statistics of the edit's inputs, for methods that normalise by those of all
    edits so far (UltraEdit). memories: module name -> what takes the place of its output near some keys (GRACE).
    passages: what is searched for each prompt, and put before it (RETRIEVAL). parts: of a sum, what was added up in it:
    each edit's checksum, and how many times as strong it is.
    """

    deltas: Mapping[str, Delta] = field(default_factory=dict)
    prefix: str = ""
    model: str | None = None
    about: Json = field(default_factory=dict)
    keys: Mapping[str, torch.Tensor] = field(default_factory=dict)
    statistics: Mapping[str, Moments] = field(default_factory=dict)
    memories: Mapping[str, Memory] = field(default_factory=dict)
    passages: Passages | None = None
    parts: tuple[tuple[str, float], ...] = ()

    def _repr_html_(self) -> str:
        modules = [*self.deltas, *self.memories]
        return html_record(
            f"Edit by {self.about.get('method', 'hand')}",
            {
                "updates": self.count, "changes": ", ".join(modules) or None,
                "before every prompt": self.prefix or None, "settings": self.about.get("settings_from"),
                "searched": self.passages and f"{len(self.passages.store)} passages",
                "made of": self.about.get("updates"), "model": self.model,
            },
        )  # fmt: skip

    def __add__(self, other: "Edit") -> "Edit":
        """Both together: changes of one weight add up, prefixes, passages and what is in memories follow each
        other."""
        self._require_same_model(other)
        keys = {
            name: _side_by_side([e.keys[name] for e in (self, other) if name in e.keys])
            for name in (*self.keys, *other.keys)
        }
        made = {**(self.about or other.about), "edits": self.count + other.count}
        return Edit(
            _together(self.deltas, other.deltas), self.prefix + other.prefix, self.model or other.model, made, keys,
            moments.joined(self.statistics, other.statistics), memory.joined(self.memories, other.memories),
            joined(self.passages, other.passages),
            _with_parts(self.summed(), other.summed()),
        )  # fmt: skip

    def __sub__(self, other: "Edit") -> "Edit":
        """A sum without one of the edits in it, as if that had never been added, up to rounding.

        Changes of weights and statistics are subtracted. The first occurrence of the other's prefix is removed, and of
        the keys, of the texts of passages and of what is in memories the first that equals each of its own; ``k`` and
        the distractors of passages stay as they are. Raises `ConfigError` for an edit that is not in it: a sum knows
        what was added up in it, also when it comes from a file.
        """
        self._require_same_model(other)
        left = Counter(self.summed())
        left.subtract(removed := other.summed())
        if missing := -sum(count for count in left.values() if count < 0):
            raise ConfigError(
                f"{missing} of {len(removed)} edits to be taken out are not among the {len(self.summed())} of this "
                "sum; only an edit that is in a sum, as it was added, can be taken out"
            )
        minus = {name: delta.scaled(-1) for name, delta in other.deltas.items()}
        keys = {name: _without(rows, other.keys.get(name, rows[:0])) for name, rows in self.keys.items()}
        return replace(
            self,
            deltas=_together(self.deltas, minus),
            prefix=self.prefix.replace(other.prefix, "", 1),
            about={**self.about, "edits": self.count - other.count},
            keys={name: rows for name, rows in keys.items() if len(rows)},
            statistics=moments.taken_out(self.statistics, other.statistics),
            memories=memory.taken_out(self.memories, other.memories),
            passages=passages.taken_out(self.passages, other.passages),
            parts=tuple(left.elements()),
        )

    def __mul__(self, factor: float) -> "Edit":
        """The edit ``factor`` times as strong; ``-1`` undoes it.

        Raises `ConfigError` for an edit that is a prefix, passages or a memory.
        """
        if (self.prefix or self.passages or self.memories) and factor != 1:
            what = "prefix" if self.prefix else "passage" if self.passages else "memory"
            raise ConfigError(f"a {what} cannot be taken {factor} times; only changes of weights can be scaled")
        deltas = {name: delta.scaled(factor) for name, delta in self.deltas.items()}
        return replace(self, deltas=deltas, parts=tuple((part, factor * times) for part, times in self.summed()))

    __rmul__ = __mul__

    def _require_same_model(self, other: "Edit") -> None:
        if self.model is not None and other.model is not None and self.model != other.model:
            raise ModelError(
                f"edits of two models ({self.model[:12]} and {other.model[:12]}) cannot be added; make both on one"
            )

    def tensors(self) -> dict[str, torch.Tensor]:
        """All that it holds but the prefix and the labels of memories, by a module's name and what it is."""
        found = {
            f"{name}/{part}": tensor.detach()
            for name, delta in self.deltas.items()
            for part, tensor in vars(delta).items()
            if tensor is not None
        }
        found |= {f"{name}/keys": keys for name, keys in self.keys.items()}
        found |= {f"{name}/statistics": held.tensor() for name, held in self.statistics.items()}
        for name, held in self.memories.items():
            found |= {f"{name}/memory_{part}": tensor for part, tensor in held.tensors().items()}
        return found

    def summed(self) -> tuple[tuple[str, float], ...]:
        """``parts``, or of an edit that is no sum its own checksum, once; of one that changes nothing, none."""
        if self.parts or not (self.tensors() or self.prefix or self.passages):
            return self.parts
        labels = {name: [*held.labels] for name, held in self.memories.items()}
        about: Json = {"prefix": self.prefix, "labels": labels}
        if self.passages:
            about["passages"] = self.passages.as_json()
        return ((checksum(self.tensors(), about), 1.0),)

    @property
    def count(self) -> int:
        """How many edits were added up in it."""
        return int(self.about.get("edits", 1 if self.deltas or self.prefix or self.passages or self.memories else 0))


def _with_parts(parts: Sequence[tuple[str, float]], more: Sequence[tuple[str, float]]) -> tuple[tuple[str, float], ...]:
    """What was added up and what comes to it, without pairs of one edit and its undoing."""
    left = [*parts]
    for part, times in more:
        if (part, -times) in left:
            left.remove((part, -times))
        else:
            left.append((part, times))
    return tuple(left)


def _together(a: Mapping[str, Delta], b: Mapping[str, Delta]) -> dict[str, Delta]:
    return {name: _sum(a.get(name), b.get(name)) for name in dict.fromkeys((*a, *b))}


def _sum(a: Delta | None, b: Delta | None) -> Delta:
    """Low-rank changes stay so, side by side, as long as that is smaller than their sum."""
    if a is not None and b is not None and a.shape != b.shape:
        raise ModelError(
            f"changes of shapes {a.shape} and {b.shape} of one weight cannot be added; one is another model's"
        )
    if a is None or b is None:
        assert a is not None or b is not None
        return a if a is not None else b  # type: ignore[return-value]
    if (
        isinstance(a, LowRank)
        and isinstance(b, LowRank)
        and (a.rank + b.rank) <= min(a.left.shape[0], a.right.shape[1])
    ):
        return LowRank(_side_by_side([a.left, b.left], 1), _side_by_side([a.right, b.right]))
    weight = a.dense()
    biases = [d.bias.to(weight.device) for d in (a, b) if isinstance(d, Dense) and d.bias is not None]
    return Dense(weight + b.dense().to(weight.device), sum(biases[1:], biases[0]) if biases else None)


def _side_by_side(parts: Sequence[torch.Tensor], dim: int = 0) -> torch.Tensor:
    """On the device of the first: an edit that was just made and one read from a file may lie on two."""
    return torch.cat([part.to(parts[0].device) for part in parts], dim)


def _without(rows: torch.Tensor, removed: torch.Tensor) -> torch.Tensor:
    """rows (n, inputs) without the first that equals each of the removed ones, (m, inputs)."""
    for row in removed.to(rows):
        same = (rows == row).all(1).nonzero()[:1, 0]
        kept = torch.ones(len(rows), dtype=torch.bool, device=rows.device)
        kept[same] = False
        rows = rows[kept]
    return rows


def model_fingerprint(lm: LanguageModel) -> str:
    """Fingerprint of the model as it is without any edit that is in force."""
    return lm.edit_of or lm.fingerprint()


def identified(lm: LanguageModel, weights: str | None = None) -> Temporary[None]:
    """Read the fingerprint of a model once for all that is done in the block, in which only edits may change it.

    weights: the fingerprint of its weights as they are now, where it is known.
    """
    return attribute(lm, "edit_of", lm.edit_of or lm.fingerprint(weights))


def require_own(lm: LanguageModel, model: str, made_on: Json | None, what: str, fix: str) -> None:
    """Raise `ModelError` unless something belongs to this model: ``model``, the fingerprint of the one it was made for.

    made_on: what `LanguageModel.described` said of that one, so that the error can say what differs. fix: what to do.
    """
    if model == (here := model_fingerprint(lm)):
        return
    reason = ""
    if isinstance(made_on, dict):
        apart = differences(made_on, lm.described())
        more = [f"and {len(apart) - NAMED} more"] if len(apart) > NAMED else []
        reason = f" ({'; '.join(apart[:NAMED] + more) or 'the weights differ'})"
    raise ModelError(
        f"{fix}: {what} was made for the model with fingerprint {model[:12]}, and {lm.name} has {here[:12]}{reason}"
    )


def edited(lm: LanguageModel, edit: Edit, *, check: bool = True) -> Temporary[LanguageModel]:
    """Put an edit in force for the duration of a ``with`` block; afterwards the model is restored, bit for bit.

    This also holds if the block ends with an exception or an interrupt: the original tensors are put back, not
    recomputed. Blocks can be nested. check: compare fingerprints, which reads all weights, and verify the edited
    weights; turn it off only for an edit that was just made.

    Raises `ModelError` for an edit that belongs to another model (other weights or another configuration), that holds
    NaN or infinite numbers or makes weights infinite, or whose modules cannot take it.
    """
    if check and edit.model is not None:
        require_own(lm, edit.model, edit.about.get(MADE_ON), "the edit", "load the model it was made on")
    tensors, beside = _changes(lm, edit)
    for name, held in edit.memories.items():
        held.check(name, owner_of(lm, name))
    if check:
        for parameter, data in tensors:
            if not data.isfinite().all() and parameter.isfinite().all():
                raise ModelError(
                    f"with the edit weights of {lm.name} do not fit into {parameter.dtype}; load it in bfloat16 or "
                    "float32"
                )
    changes = tensors or edit.memories
    unedited = lm.edit_of or edit.model or (lm.fingerprint() if changes and check else None)

    def change() -> Callable[[], None]:
        before = [(parameter, parameter.data) for parameter, _ in tensors]
        belongs, prefix, aside = lm.edit_of, lm.prefix, lm.edit_beside
        below, shown = lm.edits, lm.passages
        for parameter, data in tensors:
            parameter.data = data
        lm.edit_of, lm.prefix, lm.edits = unedited, prefix + edit.prefix, (*below, edit)
        lm.passages = joined(lm.passages, edit.passages)
        parts: list[tuple[dict[str, torch.Tensor], Json]]
        parts = [({"left": d.left, "right": d.right}, {"module": n}) for n, d in beside]
        parts += [(held.tensors(), {"module": n, "labels": [*held.labels]}) for n, held in edit.memories.items()]
        parts += [({}, edit.passages.as_json())] if edit.passages else []
        lm.edit_beside = (*aside, *(checksum(*part) for part in parts))
        # before the hook of a memory, whose values take the place of the whole output
        hooks = [owner_of(lm, name).register_forward_hook(_adding(delta), prepend=True) for name, delta in beside]
        take_off = memory.put_on(lm, edit.memories)

        def undo() -> None:
            take_off()
            for hook in hooks:
                hook.remove()
            for parameter, data in before:
                parameter.data = data
            lm.edit_of, lm.prefix, lm.edit_beside = belongs, prefix, aside
            lm.edits, lm.passages = below, shown

        return undo

    return Temporary(change, lm)


def keys_in_force(lm: LanguageModel) -> dict[str, torch.Tensor]:
    """Module name -> keys (n, inputs) of all edits in force, for a method that spares them."""
    names = dict.fromkeys(name for edit in lm.edits for name in edit.keys)
    return {name: _side_by_side([edit.keys[name] for edit in lm.edits if name in edit.keys]) for name in names}


def statistics_in_force(lm: LanguageModel) -> dict[str, Moments]:
    """Name -> statistics of all edits in force, for a method that goes on from them."""
    so_far: dict[str, Moments] = {}
    for edit in lm.edits:
        so_far = moments.joined(so_far, edit.statistics)
    return so_far


Tensors = list[tuple[torch.nn.Parameter, torch.Tensor]]


def _changes(lm: LanguageModel, edit: Edit) -> tuple[Tensors, list[tuple[str, LowRank]]]:
    """Parameters with what they become, and modules whose weights cannot be written with their low-rank changes.

    Sums are taken in float32 or finer and rounded once. A quantised module gets its low-rank change beside it.
    """
    tensors: Tensors = []
    beside: list[tuple[str, LowRank]] = []
    for name, delta in edit.deltas.items():
        require_finite(name, delta)
        owner = checked_owner(lm, name, delta)
        if isinstance(delta, LowRank) and not is_plain(owner):
            beside.append((name, delta))
            continue
        if any(parameter is owner.weight for parameter, _ in tensors):
            raise ModelError(f"{name}: the edit changes its weight under another name too; leave out one of the two")
        tensors.append((owner.weight, as_stored(owner, sum_in(weight_of(lm.model, name), delta.dense()))))
        if isinstance(delta, Dense) and delta.bias is not None:
            tensors.append((owner.bias, sum_in(owner.bias, delta.bias)))
    return tensors, beside


def is_finite(delta: Delta) -> bool:
    return all(part is None or bool(part.isfinite().all()) for part in vars(delta).values())


def require_finite(name: str, delta: Delta) -> None:
    """Raise `ModelError` for a change of a module that holds NaN or infinite numbers."""
    if not is_finite(delta):
        raise ModelError(f"the change of {name!r} holds NaN or infinite numbers; make the edit again")


def checked_owner(lm: LanguageModel, name: str, delta: Delta) -> Any:
    """The module of that name. Raises `ModelError` where there is none, or one that cannot take the change."""
    owner = owner_of(lm, name)
    written = is_plain(owner) or isinstance(delta, Dense)
    shape = tuple(weight_of(lm.model, name).shape) if written else features(owner, name)
    if delta.shape != shape:
        raise ModelError(
            f"{name}: the edit is for a weight of shape {delta.shape}, the model's is {shape}; is it for another model?"
        )
    bias = delta.bias if isinstance(delta, Dense) else None
    if bias is not None and (owner.bias is None or owner.bias.shape != bias.shape):
        there = "none" if owner.bias is None else f"one of shape {tuple(owner.bias.shape)}"
        raise ModelError(f"{name}: the edit changes a bias of shape {tuple(bias.shape)}, the module has {there}")
    return owner


def sum_in(weight: torch.Tensor, delta: torch.Tensor) -> torch.Tensor:
    """Their sum, taken in float32 or finer, in the dtype of the weight."""
    wide = wide_dtype(weight.dtype)
    return (weight.detach().to(wide) + delta.to(weight.device, wide)).to(weight.dtype)


def _adding(delta: LowRank) -> Callable[..., torch.Tensor]:
    """A forward hook that adds a low-rank change to a module's output, where its weight cannot be written."""

    def add(_: Any, given: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
        x = given[0].to(delta.right.dtype)  # (..., inputs)
        change = x @ delta.right.T.to(x.device) @ delta.left.T.to(x.device)  # (..., outputs)
        return output + change.to(output.dtype)

    return add


def owner_of(lm: LanguageModel, name: str) -> Any:
    try:
        return lm.model.get_submodule(name)
    except AttributeError as error:
        raise ModelError(
            f"{lm.name} has no module {name!r}, which the edit changes; is it for another model?"
        ) from error
