"""Objects taken out with nothing put in their place: the loss, the methods that can, and those that say they cannot."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from anachron.core.errors import DataError
from anachron.edit.base import Edit, edited
from anachron.edit.make import make_edit, make_edits, settings_for
from anachron.edit.method import Resources
from anachron.edit.methods import methods
from anachron.edit.methods.ft import FtSettings, ft
from anachron.edit.passes.forward import nll_losses, unlikelihood_losses
from anachron.edit.requests import EditRequest, Marked, mark_targets
from anachron.lm.model import LanguageModel
from anachron.lm.sites import find_sites
from support.edit_models import make_edit_lm
from support.naive_edits import matrix, read

OLD = EditRequest("The president of {} is", "France", "Jacques Chirac", remove=True)
NEW = EditRequest("{} is a city in", "São Paulo", "the capital of France")
QUICK = {"FT": {"layer": 1, "rate": 1e-3}, "FT+L": {"layer": 1, "rate": 1e-3, "eps": 2e-3}, "LoRA": {"steps": 8}}


def test_the_loss_is_what_the_other_tokens_share():
    random = torch.Generator().manual_seed(0)
    logits = torch.randn(5, 11, generator=random, dtype=torch.float64) * 4
    texts = [Marked((3, 7, 2, 9), (1, 2, 3), 0), Marked((4, 10, 0), (1, 2), 0)]
    p = torch.softmax(logits, -1)
    said = [p[row, token].item() for row, token in enumerate((7, 2, 9, 10, 0))]
    expected = [-np.mean(np.log1p(-np.array(part))) for part in (said[:3], said[3:])]
    np.testing.assert_allclose(unlikelihood_losses(logits, texts).numpy(), expected, rtol=1e-12, atol=1e-14)


def test_the_loss_stays_exact_where_the_model_is_sure():
    """1 - p in float32 is 0 here; what the others share is not."""
    logits = torch.tensor([[40.0, 0.0, 0.0]], requires_grad=True)
    loss = unlikelihood_losses(logits, [Marked((1, 0), (1,), 0)])
    assert loss.item() == pytest.approx(40 - np.log(2), rel=1e-6)
    loss.sum().backward()
    assert logits.grad is not None and logits.grad[0].tolist() == pytest.approx([1.0, -0.5, -0.5])


def plain(lm: LanguageModel, requests: list[EditRequest], s: FtSettings) -> tuple[torch.Tensor, int]:
    """The change of the weight, and the steps taken, by plain autograd on a copy; 1 - p as it is written."""
    model = copy.deepcopy(lm.model)
    owner = model.get_submodule(find_sites(model).mlp_out(s.layer))
    before, trained = matrix(owner).clone(), list(owner.parameters())
    adam = torch.optim.Adam(trained, lr=s.rate)
    for step in range(s.steps):
        losses = []
        for request in requests:
            ids, targets, _ = read(lm, request)
            p = torch.softmax(model(input_ids=torch.tensor([ids])).logits[0], -1)
            said = torch.stack([p[t - 1, ids[t]] for t in targets])
            losses.append(-torch.log(1 - said if request.remove else said).mean())
        loss = torch.stack(losses).mean()
        if loss.item() < s.stop_below and (step or not any(r.remove for r in requests)):
            return matrix(owner) - before, step
        adam.zero_grad()
        loss.backward()
        adam.step()
    return matrix(owner) - before, s.steps


@pytest.mark.parametrize("family", ["gpt2", "llama"])
@pytest.mark.parametrize("requests", [[OLD], [OLD, NEW]], ids=["alone", "beside an insertion"])
@pytest.mark.few(2)
def test_training_away_is_that_of_plain_autograd(family: str, requests: list[EditRequest]):
    lm = make_edit_lm(family, dtype=torch.float64)
    settings = FtSettings(layer=1, steps=5, rate=1e-2, stop_below=0.0)
    delta = ft(lm, requests, settings, find_sites(lm.model))[0].deltas[find_sites(lm.model).mlp_out(1)]
    wanted, taken = plain(lm, requests, settings)
    assert taken == 5 and wanted.abs().max() > 1e-3
    assert (delta.dense() - wanted).abs().max() <= 1e-3 * wanted.abs().max()


def test_what_the_model_hardly_says_loses_by_one_step_at_least():
    lm = make_edit_lm("llama", dtype=torch.float64)
    settings = FtSettings(layer=1, steps=5, rate=1e-2, stop_below=1e3)
    wanted, taken = plain(lm, [OLD], settings)
    delta = ft(lm, [OLD], settings, find_sites(lm.model))[0].deltas[find_sites(lm.model).mlp_out(1)]
    assert taken == 1 and (delta.dense() - wanted).abs().max() <= 1e-3 * wanted.abs().max() > 0
    (none,) = ft(lm, [replace(OLD, remove=False)], settings, find_sites(lm.model))
    assert not none.deltas[find_sites(lm.model).mlp_out(1)].dense().any()


@pytest.mark.parametrize("stop_below", [0.0, 1e3])
@pytest.mark.parametrize("method", ["FT", "LoRA"])
def test_a_removal_made_beside_an_insertion_is_that_made_alone(method: str, stop_below: float):
    lm = make_edit_lm("gpt2", dtype=torch.float64)
    lm.model.set_attn_implementation("sdpa")  # the eager one takes its softmax in float32
    settings = replace(settings_for(method, lm)[0], **QUICK[method], stop_below=stop_below)
    removed, inserted = make_edits(lm, method, [OLD, NEW], settings)
    for edit, request in ((removed, OLD), (inserted, NEW)):
        assert isinstance(edit, Edit)
        for name, wanted in make_edit(lm, method, [request], settings).deltas.items():
            largest = wanted.dense().abs().max()
            assert (largest > 0) == (stop_below == 0 or request is OLD)  # a removal takes one step at least
            assert (edit.deltas[name].dense() - wanted.dense()).abs().max() <= 1e-9 * largest


@pytest.mark.parametrize("method", ["FT", "FT+L", "LoRA"])
def test_methods_that_can_take_an_object_out(method: str):
    lm = make_edit_lm("llama")
    settings = replace(settings_for(method, lm)[0], **QUICK[method])
    pair = [(OLD.text, OLD.target)]
    before = lm.log_probs(pair)
    with edited(lm, make_edit(lm, method, [OLD], settings)):
        assert lm.log_probs(pair) < before - 0.1
    assert lm.log_probs(pair) == before


def test_prompt_says_that_it_is_no_longer_true():
    edit = make_edit(make_edit_lm("llama"), "PROMPT", [OLD, NEW])
    assert edit.prefix == (
        "No longer true: The president of France is Jacques Chirac. São Paulo is a city in the capital of France. "
    )


@pytest.mark.parametrize("method", [name for name, record in methods().items() if "Archive" not in record.scenarios])
def test_methods_that_only_insert_say_so(method: str):
    lm = make_edit_lm("llama")
    settings = settings_for(method, lm)[0]
    with pytest.raises(
        DataError, match=f"{method} cannot make updates of the scenario Archive; FT, .*, PROMPT, RETRIEVAL can"
    ):
        make_edit(lm, method, [NEW, OLD], settings, Resources(None))


def test_a_request_to_remove_is_marked_and_its_loss_differs():
    lm = make_edit_lm("llama")
    kept, removed = mark_targets(lm.tokenizer, [replace(OLD, remove=False), OLD])
    assert (kept.remove, removed.remove) == (False, True) and kept.ids == removed.ids
    assert EditRequest.of("The president of France is", "France", "Jacques Chirac", remove=True) == OLD
    logits = lm.model(input_ids=torch.tensor([kept.ids[:-1]])).logits[0][[t - 1 for t in kept.targets]]
    assert nll_losses(logits, [kept]).item() != pytest.approx(unlikelihood_losses(logits, [removed]).item())
