"""A model whose weights are constants: no gradients for them, no dropout."""

from collections.abc import Callable
from typing import Any

import torch

from anachron.lm.temporary import Temporary


def frozen(model: Any) -> Temporary[None]:
    """No weight requires a gradient, and no module is in training mode, as long as the block lasts."""

    def freeze() -> Callable[[], None]:
        needed = [parameter for parameter in model.parameters() if parameter.requires_grad]
        training = [module for module in model.modules() if module.training]

        def undo() -> None:
            for parameter in needed:
                parameter.requires_grad_(True)
            for module in training:
                module.training = True

        for parameter in needed:
            parameter.requires_grad_(False)
        for module in training:
            module.training = False
        return undo

    return Temporary(freeze)


def gradient_mode_kept() -> Temporary[None]:
    """Whether torch computes gradients is after the block what it was before.

    An interrupt between two lines of ``torch.no_grad`` (of a step of Adam, of the model's own code) would leave them
    off for whatever the process does next.
    """

    def change() -> Callable[[], None]:
        before = torch.is_grad_enabled()

        def undo() -> None:
            torch.set_grad_enabled(before)

        return undo

    return Temporary(change)
