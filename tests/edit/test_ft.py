"""FT and FT+L, against Adam on a copy of the model with plain autograd."""

import copy
from dataclasses import replace

import pytest
import torch

from anachron.core.errors import DataError
from anachron.edit.base import Dense, edited
from anachron.edit.methods.ft import FtSettings, ft
from anachron.edit.requests import EditRequest
from anachron.lm.model import LanguageModel
from anachron.lm.sites import find_sites
from support.edit_models import make_edit_lm
from support.naive_edits import read

REQUESTS = [
    EditRequest("The president of {} is", "France", "Angela Merkel"),
    EditRequest("{} is a city in", "São Paulo", "the capital of France"),
    EditRequest("In May 2004, the team of {} was ", "Zürich", "Berlin"),
]
SETTINGS = FtSettings(layer=1, steps=6, rate=1e-2, stop_below=0.0)


def train(
    lm: LanguageModel, requests: list[EditRequest], s: FtSettings
) -> tuple[torch.Tensor, torch.Tensor | None, int]:
    """Changes of weight (outputs by inputs) and bias, and the number of steps taken."""
    model = copy.deepcopy(lm.model)
    work = LanguageModel(model, lm.tokenizer, lm.name)
    owner = model.get_submodule(find_sites(model).mlp_out(s.layer))
    trained = list(owner.parameters())
    start = [t.detach().clone() for t in trained]
    adam = torch.optim.Adam(trained, lr=s.rate)
    taken = 0
    for _ in range(s.steps):
        epoch_losses: list[float] = []
        for first in range(0, len(requests), s.batch):
            losses = []
            for request in requests[first : first + s.batch]:
                ids, targets, _ = read(work, request)
                table = torch.log_softmax(model(input_ids=torch.tensor([ids])).logits[0], -1)
                places = [targets[0] - 1 if s.last_position_loss else t - 1 for t in targets]
                losses.append(-torch.stack([table[p, ids[t]] for p, t in zip(places, targets, strict=True)]).mean())
            loss = torch.stack(losses).mean()
            epoch_losses += [loss.item()] * len(losses)
            if loss.item() < s.stop_below:
                continue
            adam.zero_grad()
            loss.backward()
            adam.step()
            taken += 1
            if s.eps is not None:
                with torch.no_grad():
                    for tensor, old in zip(trained, start, strict=True):
                        tensor.copy_(torch.maximum(torch.minimum(tensor, old + s.eps), old - s.eps))
        if sum(epoch_losses) / len(epoch_losses) < s.stop_below:
            break
    weight, *bias = (new.detach() - old for new, old in zip(trained, start, strict=True))
    return (weight.T if type(owner).__name__ == "Conv1D" else weight), (bias[0] if bias else None), taken


CHANGES = [{}, {"last_position_loss": True}, {"eps": 5e-3}, {"stop_below": 6.0, "steps": 25}]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("changes", CHANGES, ids=str)
@pytest.mark.parametrize("family", ["gpt2", "llama", "neox", "opt"])
@pytest.mark.few(4)
def test_training_is_that_of_plain_autograd(family: str, changes: dict[str, float], dtype: torch.dtype):
    lm = make_edit_lm(family, "mistral" if family == "llama" else "gpt2", dtype=dtype)
    settings = replace(SETTINGS, **changes)
    sites = find_sites(lm.model)
    lm.model.set_attn_implementation("sdpa")  # the eager one takes its softmax in float32,
    exact = dtype == torch.float64 and family in ("gpt2", "neox")  # and so do the norms of the others
    for requests in (REQUESTS[:1], REQUESTS):
        (edit,) = ft(lm, requests, settings, sites)
        weight, bias, taken = train(lm, requests, settings)
        assert (taken < settings.steps) == ("stop_below" in changes) and taken > 0
        delta = edit.deltas[sites.mlp_out(1)]
        assert isinstance(delta, Dense) and delta.weight.dtype == dtype
        for found, wanted in ((delta.weight, weight), (delta.bias, bias)):
            assert (found is None) == (wanted is None)
            if found is not None and wanted is not None:
                assert wanted.abs().max() > 1e-3
                apart = (found - wanted).abs()
                assert float(apart.quantile(0.99)) < (1e-10 if exact else 1e-6)
                # a gradient that is 0 but for rounding has either sign, which is all that Adam's first steps look at
                assert float(apart.max()) < (1e-8 if exact else 2e-2)
    assert not any(p.grad is not None for p in lm.model.parameters())


@pytest.mark.parametrize(
    ("changes", "taken"), [({"batch": 2}, 12), ({"batch": 1, "eps": 5e-3}, 18), ({"batch": 2, "stop_below": 6.0}, None)]
)
def test_many_requests_are_trained_on_in_epochs_over_minibatches(changes: dict[str, float], taken: int | None):
    lm = make_edit_lm("gpt2", dtype=torch.float64)
    settings, sites = replace(SETTINGS, **changes), find_sites(lm.model)
    delta = ft(lm, REQUESTS, settings, sites)[0].deltas[sites.mlp_out(1)]
    weight, _, steps = train(lm, REQUESTS, settings)
    assert 0 < steps < 12 if taken is None else steps == taken
    assert isinstance(delta, Dense) and float((delta.weight - weight).abs().max()) < 1e-8
    together = ft(lm, REQUESTS, replace(settings, batch=3), sites)[0].deltas[sites.mlp_out(1)]
    assert isinstance(together, Dense) and float((delta.weight - together.weight).abs().max()) > 1e-3


@pytest.mark.few(2)
@pytest.mark.parametrize("family", ["gpt2", "llama"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_box_holds_after_every_step(family: str, dtype: torch.dtype):
    lm = make_edit_lm(family, dtype=dtype)
    sites = find_sites(lm.model)
    owner = lm.model.get_submodule(sites.mlp_out(1))
    edges = []
    for steps in range(1, 8):
        settings = replace(SETTINGS, steps=steps, eps=2e-3, rate=7e-4)
        delta = ft(lm, REQUESTS, settings, sites)[0].deltas[sites.mlp_out(1)]
        assert isinstance(delta, Dense)
        tensors = [delta.weight, *([] if delta.bias is None else [delta.bias])]
        assert len(tensors) == (2 if family == "gpt2" else 1)
        for tensor in tensors:
            assert tensor.dtype == torch.float32  # the trained copy, in bfloat16 too
            # the difference of two float32 numbers near a weight of 1 is exact to its last bit only
            assert float(tensor.abs().max()) <= 2e-3 + torch.finfo(torch.float32).eps * float(owner.weight.abs().max())
        edges.append(int((delta.weight.abs() > 2e-3 * 0.999).sum()))
    assert edges[0] == 0 < edges[-1]


def test_in_bfloat16_small_steps_are_kept_and_the_model_is_not_touched():
    lm = make_edit_lm("llama", dtype=torch.bfloat16)
    sites = find_sites(lm.model)
    module = sites.mlp_out(1)
    before = lm.fingerprint()
    settings = replace(SETTINGS, rate=1e-5, steps=3)
    delta = ft(lm, REQUESTS, settings, sites)[0].deltas[module].dense()
    weight = lm.model.get_submodule(module).weight.detach()
    assert lm.fingerprint() == before
    stuck = (weight.float() + delta).bfloat16() == weight
    assert float(stuck.float().mean()) > 0.3  # in bfloat16 these could not have moved,
    assert float((delta[stuck] != 0).float().mean()) > 0.99  # and here they have


def test_the_loss_goes_down_and_the_edit_says_so():
    lm = make_edit_lm("gpt2")
    before = lm.log_probs([(r.text, r.target) for r in REQUESTS])
    with edited(lm, ft(lm, REQUESTS, replace(SETTINGS, steps=20, stop_below=1e-2), find_sites(lm.model))[0]):
        assert (lm.log_probs([(r.text, r.target) for r in REQUESTS]) > before).all()


def test_nothing_to_do_and_too_large_a_rate():
    lm = make_edit_lm("gpt2")
    sites = find_sites(lm.model)
    for settings in (replace(SETTINGS, steps=0), replace(SETTINGS, stop_below=1e9)):
        assert not ft(lm, REQUESTS, settings, sites)[0].deltas[sites.mlp_out(1)].dense().any()
    with pytest.raises(DataError, match=r"the loss of FT is nan; use a lower rate"):
        ft(lm, REQUESTS, replace(SETTINGS, rate=1e30, steps=9), sites)
    assert all(p.requires_grad for p in lm.model.parameters())
