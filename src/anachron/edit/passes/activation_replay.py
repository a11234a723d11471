"""Forward passes that skip modules: those before a shift, by replaying outputs, and those after the last one read."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from anachron.lm.temporary import Temporary, together


class ActivationReplay:
    """Forward passes of the same texts that differ only in what is added to the outputs of some modules.

    Whatever the model computes before the first of these modules has its output is the same in each pass. The first
    pass keeps the outputs of the modules up to there, and in later ones these modules return them without computing.
    It needs a model whose modules act by their outputs alone: none changes anything that others read.
    """

    def __init__(self, shifted: Sequence[str]) -> None:
        self.shifted = tuple(shifted)
        self._outputs: list[tuple[torch.nn.Module, Any]] | None = None

    def passing(self, model: torch.nn.Module) -> Temporary[None]:
        """For one forward pass in the block: the first records, later ones replay."""
        if self._outputs is None:
            return self._recording(model)
        return together(fixed_output(module, [output]) for module, output in self._outputs)

    def _recording(self, model: torch.nn.Module) -> Temporary[None]:
        names = {module: name for name, module in model.named_modules()}
        kept: dict[str, tuple[torch.nn.Module, Any]] = {}
        calls: Counter[str] = Counter()
        reached = False

        def see(module: torch.nn.Module, _: Any, output: Any) -> None:
            nonlocal reached
            name = names[module]
            calls[name] += 1
            if not reached:
                for inner in [other for other in kept if other.startswith(f"{name}.")]:
                    del kept[inner]  # it is not called where the module around it is replayed
                kept[name] = (module, output)
                reached = name in self.shifted

        def change() -> Callable[[], None]:
            hooks = [module.register_forward_hook(see, prepend=True) for module in names]  # before anything is added

            def undo() -> None:
                for hook in hooks:
                    hook.remove()
                if reached:
                    self._outputs = [held for name, held in kept.items() if calls[name] == 1]

            return undo

        return Temporary(change)


def stopped_after(model: torch.nn.Module, modules: Iterable[str]) -> Temporary[None]:
    """Skip the blocks after the last one that holds any of these modules: they return that one's output."""
    places = [_block(model, name) for name in modules]
    if not places or None in places or len({id(place[0]) for place in places if place}) > 1:
        return together(())
    blocks = next(place[0] for place in places if place)
    last = max(place[1] for place in places if place)
    outputs: list[Any] = []

    def see(_: Any, __: Any, output: Any) -> None:
        outputs.append(output)

    watched: Temporary[None] = Temporary(lambda: blocks[last].register_forward_hook(see).remove)
    return together([watched, *(fixed_output(block, outputs) for block in blocks[last + 1 :])])


def _block(model: torch.nn.Module, name: str) -> tuple[torch.nn.ModuleList, int] | None:
    """The list of blocks that a module is in, and the number of its block; None for a module outside of them."""
    parts = name.split(".")
    for length, part in enumerate(parts):
        held = model.get_submodule(".".join(parts[:length]))
        if isinstance(held, torch.nn.ModuleList):
            return held, int(part)
    return None


def fixed_output(module: torch.nn.Module, outputs: Sequence[Any]) -> Temporary[None]:
    """Let a module return the last of some outputs, as they are when it is called; its forward hooks see that."""

    def change() -> Callable[[], None]:
        before = module.__dict__.get("forward")
        module.forward = lambda *_, **__: outputs[-1]

        def undo() -> None:
            if before is None:
                del module.forward
            else:
                module.forward = before

        return undo

    return Temporary(change)
