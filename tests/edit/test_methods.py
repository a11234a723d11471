"""One suite over all methods and many families: what any edit must do, and must leave alone."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from anachron.core.errors import DataError, ModelError
from anachron.edit.base import Edit, edited
from anachron.edit.covariance.second_moment import SecondMoment
from anachron.edit.make import make_edit, settings_for
from anachron.edit.method import Resources
from anachron.edit.methods import methods
from anachron.edit.requests import EditRequest
from anachron.lm.model import LanguageModel
from anachron.lm.sites import find_sites
from support.edit_models import ALL, make_edit_lm
from support.tiny_models import LATIN, OTHER_SCRIPTS

REQUESTS = [
    EditRequest.of("The president of France is", "France", "Angela Merkel"),
    EditRequest.of("In May 2004, the team of São Paulo was", "São Paulo", "Berlin"),
    EditRequest.of("Zürich is a city in", "Zürich", "the capital"),
]
ELSEWHERE = [
    ("Paris is the capital of", "France"),
    ("Emmanuel Macron, Angela", "Merkel"),
    ("Which team", "did he play"),
]
FAST: dict[str, dict[str, Any]] = {
    "FT": {"rate": 1e-2, "layer": 2},
    "FT+L": {"rate": 1e-2, "layer": 0, "eps": 2e-2},
    "ROME": {"layer": 1, "contexts": ()},
    "MEMIT": {"layers": (1, 2), "clamp": 4.0, "weight": 1.0, "contexts": ()},
    "AlphaEdit": {"layers": (1, 2), "clamp": 4.0, "ridge": 1e-2, "contexts": ()},
    "EMMET": {"layer": 1, "clamp": 4.0, "contexts": ()},
    "UltraEdit": {"layers": (1, 2), "gate_layers": (), "up_layers": (1,), "rate": 1e-2, "tokens": "all"},
    "LoRA": {"rate": 1e-2, "steps": 15},
    "LoRA-Merge": {"rate": 1e-2, "steps": 15, "part": 2},
    "GRACE": {"layer": 1, "steps": 10, "radius": 100.0},  # so that other texts are changed too
    "PROMPT": {},
    "RETRIEVAL": {},
}
METHODS_HERE = tuple(FAST)
BY_TEXT = ("PROMPT", "RETRIEVAL")  # what a model that learned nothing reads before a prompt makes nothing likelier


def settings_of(method: str, lm: LanguageModel) -> Any:
    return replace(settings_for(method, lm)[0], **FAST[method])


def resources_of(method: str, lm: LanguageModel) -> Resources:
    """C over some text, collected here by a plain loop."""
    found = {}
    for module in methods()[method].modules(settings_of(method, lm), find_sites(lm.model)):
        keys = inputs_over_text(lm, module)
        matrix = keys.T @ keys / len(keys)
        found[module] = SecondMoment.of(matrix, module).regularised(1e-3)
    return Resources(found)


def inputs_over_text(lm: LanguageModel, module: str) -> torch.Tensor:
    """What goes into a module at each token of some texts, (tokens, inputs), float64."""
    seen: list[torch.Tensor] = []
    handle = lm.model.get_submodule(module).register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    with torch.no_grad():
        for text in (*dict.fromkeys([*LATIN, *OTHER_SCRIPTS]), *(r.sentence for r in REQUESTS)):
            lm.model(torch.tensor([lm.tokenizer(text)["input_ids"]]))
    handle.remove()
    return torch.cat([given.reshape(-1, given.shape[-1]) for given in seen]).double()


def edit_of(method: str, lm: LanguageModel, requests: list[EditRequest]) -> Edit:
    settings, resources = settings_of(method, lm), resources_of(method, lm)
    if method == "AlphaEdit":  # half of the directions count as empty
        values = torch.cat([c.eigen()[0] for c in (resources.covariance or {}).values()])
        settings = replace(settings, threshold=float(values.median()))
    return make_edit(lm, method, requests, settings, resources)


def state(lm: LanguageModel) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in lm.model.state_dict().items()}


def same_state(lm: LanguageModel, before: dict[str, torch.Tensor]) -> bool:
    now = lm.model.state_dict()
    return now.keys() == before.keys() and all(torch.equal(now[name], t) for name, t in before.items())


def log_prob(lm: LanguageModel, request: EditRequest) -> float:
    return float(lm.log_probs([(request.text, request.target)])[0])


UNNAMED = EditRequest.of("The capital is", "France", "Berlin")  # which does not name its subject


@pytest.mark.parametrize("method", METHODS_HERE)
def test_a_prompt_without_its_subject_is_refused_by_methods_that_need_it_alone(method: str):
    lm = make_edit_lm("llama")
    settings, resources = settings_of(method, lm), resources_of(method, lm)
    if methods()[method].needs_subject:
        with pytest.raises(DataError, match=r"'France' is not in the prompt 'The capital is'; .* must name it"):
            make_edit(lm, method, [REQUESTS[0], UNNAMED], settings, resources)
        return
    old = log_prob(lm, UNNAMED)
    edit = make_edit(lm, method, [UNNAMED], settings, resources)
    with edited(lm, edit):
        if method in BY_TEXT:
            assert edit.prefix == "The capital is Berlin. " or edit.passages.texts[0].text == "The capital is Berlin"
        else:
            assert log_prob(lm, UNNAMED) > old + 0.05


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("method", [m for m in METHODS_HERE if m not in BY_TEXT])
def test_broken_weights_are_called_so(method: str, value: float):
    lm = make_edit_lm("llama")
    settings, resources = settings_of(method, lm), resources_of(method, lm)
    with torch.no_grad():
        lm.model.model.layers[0].self_attn.v_proj.weight[0, 0] = value
    wanted = "NaN" if value != value else "infinite"
    with pytest.raises(ModelError, match=rf"1 of its weights hold numbers that are {wanted} .*v_proj"):
        make_edit(lm, method, REQUESTS[:1], settings, resources)


QUICK = ("gpt2", "neox", "llama", "gemma2", "opt", "phi")  # Conv1D, parallel blocks, gates, norms behind, flattened


@pytest.mark.parametrize("family", [f if f in QUICK else pytest.param(f, marks=pytest.mark.slow) for f in ALL])
@pytest.mark.parametrize("method", [m for m in METHODS_HERE if m not in BY_TEXT])
@pytest.mark.few(6)
def test_the_target_becomes_likelier_and_the_model_stays_what_it_was(method: str, family: str):
    lm = make_edit_lm(family)
    before, hooks = state(lm), count_hooks(lm)
    clean = lm.log_probs(ELSEWHERE)
    old = log_prob(lm, REQUESTS[0])
    edit = edit_of(method, lm, REQUESTS[:1])
    assert same_state(lm, before) and count_hooks(lm) == hooks
    with edited(lm, edit) as same:
        assert same is lm
        assert log_prob(lm, REQUESTS[0]) > old + 0.05
        assert not (lm.log_probs(ELSEWHERE) == clean).all()
    assert same_state(lm, before) and count_hooks(lm) == hooks
    assert (lm.log_probs(ELSEWHERE) == clean).all()
    assert all(p.requires_grad for p in lm.model.parameters())


def count_hooks(lm: LanguageModel) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in lm.model.modules())
