"""Parts of a pass through a model that need not be computed: what a shift cannot reach, and what nobody reads."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import torch

from anachron.lm.temporary import Temporary, together


class Replay:
    """Passes of the same texts that differ in what is added to the outputs of some modules, and in nothing else.

    Whatever the model computes before the first of these modules gives out is the same in each of them. The first pass
    keeps what the modules in it gave out, and later ones give it out again. It needs a model whose modules only give
    something out, and change nothing that others read.
    """

    def __init__(self, shifted: Sequence[str]) -> None:
        self.shifted = tuple(shifted)
        self._outputs: list[tuple[torch.nn.Module, Any]] | None = None

    def passing(self, model: torch.nn.Module) -> Temporary[None]:
        """One pass is to be made in the block: the first keeps, later ones are spared what was kept."""
        if self._outputs is None:
            return self._keeping(model)
        return together(giving_out(module, partial(_same, output)) for module, output in self._outputs)

    def _keeping(self, model: torch.nn.Module) -> Temporary[None]:
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
                    del kept[inner]  # it is not called where the module around it is not computed
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


def ended_behind(model: torch.nn.Module, modules: Iterable[str]) -> Temporary[None]:
    """Blocks behind the last one that holds any of these modules give out what that one gives out."""
    places = [_block(model, name) for name in modules]
    if not places or None in places or len({id(place[0]) for place in places if place}) > 1:
        return together(())
    blocks = next(place[0] for place in places if place)
    last = max(place[1] for place in places if place)
    given: list[Any] = []

    def see(_: Any, __: Any, output: Any) -> None:
        given.append(output)

    watched: Temporary[None] = Temporary(lambda: blocks[last].register_forward_hook(see).remove)
    return together([watched, *(giving_out(block, lambda: given[-1]) for block in blocks[last + 1 :])])


def _block(model: torch.nn.Module, name: str) -> tuple[torch.nn.ModuleList, int] | None:
    """The list of blocks that a module is in, and the number of its block; None for a module outside of them."""
    parts = name.split(".")
    for length, part in enumerate(parts):
        held = model.get_submodule(".".join(parts[:length]))
        if isinstance(held, torch.nn.ModuleList):
            return held, int(part)
    return None


def _same(output: Any) -> Any:
    return output


def giving_out(module: torch.nn.Module, output: Callable[[], Any]) -> Temporary[None]:
    """A module computes nothing and gives out what it is told, whatever it is given; its hooks see that."""

    def change() -> Callable[[], None]:
        own = module.__dict__.get("forward")
        module.forward = lambda *_, **__: output()

        def undo() -> None:
            if own is None:
                del module.forward
            else:
                module.forward = own

        return undo

    return Temporary(change)
