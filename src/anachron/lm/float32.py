"""A model in half precision computed in float32, with no second copy of its weights.

It tells what rounding alone does to a score: the same weights and the same operations, in float32. Each operation gets
copies of its tensors, which are gone when it is done, so that the largest single weight is all that it takes more.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

T = TypeVar("T")

HALF = (torch.bfloat16, torch.float16)


class InFloat32(TorchDispatchMode):
    """``with InFloat32():`` every operation of torch gets float32 where it has half precision, and gives it.

    What is stored in half precision (weights, buffers) stays as it is, and so do views of it: it is widened where it is
    computed with. Modes of this kind see the operations below autograd: `torch.utils._python_dispatch`.
    """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func is torch.ops.aten.embedding.default:  # rows are looked up, then widened: not the whole table
            return tree_map(_wide, func(*args, **(kwargs or {})))
        shared = _shared(func)
        wide = [value if number in shared else tree_map(_wide, value) for number, value in enumerate(args)]
        named = {key: value if key in shared else tree_map(_wide, value) for key, value in (kwargs or {}).items()}
        return func(*wide, **named)


def _shared(func: Any) -> set[int | str]:
    """The arguments, by place and by name, whose memory an operation writes into or gives a view of."""
    arguments = func._schema.arguments
    places = [number for number, argument in enumerate(arguments) if argument.alias_info]
    return {*places, *(arguments[number].name for number in places)}


def _wide(value: Any) -> Any:
    """float32 in place of half precision, in a tensor and in a dtype that is asked for."""
    if isinstance(value, torch.Tensor):
        return value.float() if value.dtype in HALF else value
    return torch.float32 if isinstance(value, torch.dtype) and value in HALF else value


def in_float32(compute: Callable[[], T]) -> T:
    """What a function gives when all that it computes is computed in float32."""
    with InFloat32():
        return compute()


def at_least_in_float32(model: Any, compute: Callable[[], T]) -> T:
    """What a function gives of a model, in float32 where the model is in half precision, else as it is."""
    return in_float32(compute) if model.dtype in HALF else compute()
