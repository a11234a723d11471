"""What is left out of a pass, against passes of which nothing is left out."""

from collections import Counter
from typing import Any

import pytest
import torch

from anachron.edit.passes.activation_replay import ActivationReplay, fixed_output, stopped_after
from anachron.edit.passes.forward import values_at_subject
from anachron.edit.requests import EditRequest, mark
from anachron.lm.model import LanguageModel
from anachron.lm.sites import find_sites
from support.edit_models import ALL, make_edit_lm
from support.naive_edits import values

REQUEST = EditRequest("The president of {} is", "São Paulo", "Angela Merkel")


def calls_of_blocks(lm: LanguageModel, counts: Counter[int]) -> list[Any]:
    """Hooks that count, for each block, how often a part of it computes."""
    sites = find_sites(lm.model)
    return [
        lm.model.get_submodule(sites.mlp_out(layer)).register_forward_hook(lambda *_, n=layer: counts.update([n]))
        for layer in range(sites.layers)
    ]


@pytest.mark.parametrize("family", ALL)
@pytest.mark.families("llama")
def test_values_are_those_of_whole_passes_and_blocks_behind_are_not_computed(family: str):
    lm = make_edit_lm(family, dtype=torch.float64)
    sites = find_sites(lm.model)
    module, block = sites.mlp_out(1), sites.block(2)
    counts: Counter[int] = Counter()
    hooks = calls_of_blocks(lm, counts)
    found = values_at_subject(lm.model, mark(lm.tokenizer, [REQUEST]), inputs=[module], outputs=[module, block])
    assert counts == {0: 1, 1: 1, 2: 1}
    for side, name in (("in", module), ("out", module), ("out", block)):
        wanted = values(lm, REQUEST, name, side)
        assert torch.allclose(found[side, name][0], wanted, rtol=0, atol=1e-5 * float(wanted.abs().max()))
    for hook in hooks:
        hook.remove()
    assert not any("forward" in module.__dict__ or module._forward_hooks for module in lm.model.modules())


def test_values_outside_of_the_blocks_end_nothing():
    lm = make_edit_lm("llama")
    counts: Counter[int] = Counter()
    calls_of_blocks(lm, counts)
    with stopped_after(lm.model, ["model.layers.0.mlp", "model.norm"]):
        lm.model(input_ids=torch.tensor([[3, 4]]))
    with stopped_after(lm.model, []):
        lm.model(input_ids=torch.tensor([[3, 4]]))
    assert counts == {0: 2, 1: 2, 2: 2, 3: 2}


class Sums(torch.nn.Module):
    """Blocks that share one part, which is called in all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = torch.nn.Tanh()
        self.first, self.second, self.third = (torch.nn.Linear(3, 3) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.third(self.shared(self.second(self.shared(self.first(x)))))


def test_replayed_passes_differ_by_the_shift_alone():
    model, x = Sums().double(), torch.randn(2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    replay = ActivationReplay(["second"])
    for number in range(3):
        delta = torch.full((3,), float(number), dtype=torch.float64, requires_grad=True)
        hook = model.second.register_forward_hook(lambda _, __, out, d=delta: out + d)
        with replay.passing(model):
            found = model(x)
        with fixed_output(model.first, [torch.full((2, 3), torch.nan)]), replay.passing(model):
            assert torch.equal(model(x), found)  # what is before the shift is given out, not computed
        wanted = model(x)
        assert torch.equal(found, wanted)
        gradients = [torch.autograd.grad(out.sum(), [delta])[0] for out in (found, wanted)]
        assert torch.equal(*gradients) and gradients[0].abs().min() > 0
        hook.remove()
    assert not any("forward" in module.__dict__ for module in model.modules())


def test_a_pass_that_ends_in_an_exception_keeps_nothing():
    model = Sums()
    replay = ActivationReplay(["second"])
    with pytest.raises(ZeroDivisionError), replay.passing(model):
        raise ZeroDivisionError
    with replay.passing(model):
        first = model(torch.ones(1, 3))
    with replay.passing(model):
        assert torch.equal(model(torch.zeros(1, 3)), first)
