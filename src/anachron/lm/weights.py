"""Weights as ordinary tensors and as bytes, also those of libraries that quantise."""

from collections.abc import Iterator
from typing import Any

import torch


def parts_of(weight: torch.Tensor) -> Iterator[torch.Tensor]:
    """A weight as ordinary tensors: those that torchao makes are several that behave as one."""
    if is_composed(weight):
        for part in weight.__tensor_flatten__()[0]:  # type: ignore[attr-defined]
            yield from parts_of(getattr(weight, part))
    else:
        yield weight.detach()


def is_composed(weight: torch.Tensor) -> bool:
    return hasattr(weight, "__tensor_flatten__")


def is_quantised(model: Any) -> bool:
    """Whether weights have fewer bits than the dtype that they are computed in."""
    return bool(getattr(model, "is_quantized", False)) or any(map(is_composed, model.parameters()))


def hash_into(digest: Any, weight: torch.Tensor) -> None:
    """Add all bytes of a weight to a hash of `hashlib`."""
    for part in parts_of(weight):
        if part.numel():  # an empty tensor cannot be viewed as bytes
            digest.update(part.reshape(-1).contiguous().cpu().view(torch.uint8).numpy().data)
