"""LoRA against peft, its start and its merged weights, and edits of quantised models, whose weights are not written."""

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from anachron.core.errors import ConfigError, DataError, ModelError
from anachron.edit.base import Dense, Edit, edited
from anachron.edit.make import make_edit, make_edits, settings_for
from anachron.edit.method import Resources
from anachron.edit.methods.lora import LoraMergeSettings, LoraSettings, lora, lora_merge
from anachron.edit.presets import changed
from anachron.edit.requests import EditRequest
from anachron.edit.storage import load_edit, save_edit, save_edited_model
from anachron.lm.model import LanguageModel
from anachron.lm.sites import find_sites
from support.edit_models import make_edit_lm, make_quantised_lm
from support.naive_edits import matrix, read

REQUESTS = [
    EditRequest("The president of {} is", "France", "Angela Merkel"),
    EditRequest("{} is a city in", "São Paulo", "the capital of France"),
]
PAIRS = [(r.text, r.target) for r in REQUESTS]
SETTINGS = LoraSettings(steps=6, rate=1e-2, stop_below=0.0, rank=3, alpha=7.0)


def adapted_by_peft(model: Any, s: LoraSettings, names: list[str]) -> Any:
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=s.rank, lora_alpha=int(s.alpha), target_modules=names, fan_in_fan_out=model.config.model_type == "gpt2"
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(s.seed)
        return get_peft_model(model, config)


def merged(lm: LanguageModel, s: LoraSettings, names: list[str]) -> dict[str, torch.Tensor]:
    """Trained in the plainest way on a copy, and merged into the weights by peft."""
    model = copy.deepcopy(lm.model)
    start = {name: matrix(model.get_submodule(name)) for name in names}
    adapted = adapted_by_peft(model, s, names)
    adam = torch.optim.Adam([p for p in adapted.parameters() if p.requires_grad], lr=s.rate)
    for _ in range(s.steps):
        losses = []
        for request in REQUESTS:
            ids, targets, _ = read(lm, request)
            table = torch.log_softmax(adapted(input_ids=torch.tensor([ids])).logits[0], -1)
            losses.append(-torch.stack([table[t - 1, ids[t]] for t in targets]).mean())
        loss = torch.stack(losses).mean()
        if loss.item() < s.stop_below:
            break
        adam.zero_grad()
        loss.backward()
        adam.step()
    plain = adapted.merge_and_unload()
    return {name: matrix(plain.get_submodule(name)) - start[name] for name in names}


@pytest.mark.parametrize("changes", [{}, {"layers": (1,)}, {"seed": 3}, {"stop_below": 7.0, "steps": 20}], ids=str)
@pytest.mark.parametrize("family", ["gpt2", "neox", "llama", "opt", "phi3"])
@pytest.mark.families("gpt2")
def test_the_edit_is_what_peft_would_merge(family: str, changes: dict[str, Any]):
    lm = make_edit_lm(family, dtype=torch.float64)
    lm.model.set_attn_implementation("sdpa")  # the eager one takes its softmax in float32
    exact = 1e-9 if family in ("gpt2", "neox") else 1e-5  # in the others norms take a detour over float32
    settings, sites = replace(SETTINGS, **changes), find_sites(lm.model)
    names = adapted_names(lm, settings)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    (edit,) = lora(lm, REQUESTS, settings, sites)
    assert torch.equal(torch.get_rng_state(), before)
    assert list(edit.deltas) == names and edit.model == lm.fingerprint()
    for name, change in merged(lm, settings, names).items():
        assert change.abs().max() > 1e-3
        assert torch.allclose(edit.deltas[name].dense(), change, rtol=0, atol=exact * float(change.abs().max()))


def adapted_names(lm: LanguageModel, settings: LoraSettings) -> list[str]:
    sites, layers = find_sites(lm.model), settings.layers or range(4)
    return [name for layer in layers for name in (*sites.mlp_in(layer), sites.mlp_out(layer))]


@pytest.mark.parametrize("family", ["gpt2", "phi3", "qwen2"])
@pytest.mark.families("gpt2")
def test_adapters_start_as_those_of_peft(family: str):
    lm = make_edit_lm(family)
    settings = replace(SETTINGS, steps=0, seed=5)
    names = adapted_names(lm, settings)
    edits = lora(lm, REQUESTS, settings, find_sites(lm.model), apart=True)
    wanted = adapted_by_peft(lm.model, settings, names).base_model.model
    for edit in edits:
        for name in names:
            assert torch.equal(edit.deltas[name].right, wanted.get_submodule(name).lora_A["default"].weight)
            assert not edit.deltas[name].left.any()
    assert len(edits) == 2 and len({float(edits[0].deltas[name].right[0, 0]) for name in names}) == len(names)


def test_nothing_drops_out_of_a_model_left_in_training():
    lm = make_edit_lm("gpt2")
    wanted = make_edit(lm, "LoRA", REQUESTS, SETTINGS)
    lm.model.train()
    before = lm.model(input_ids=torch.arange(40)[None]).logits
    assert not torch.equal(before, lm.model(input_ids=torch.arange(40)[None]).logits)
    for name, delta in make_edit(lm, "LoRA", REQUESTS, SETTINGS).deltas.items():
        assert torch.equal(delta.dense(), wanted.deltas[name].dense())
    assert lm.model.training


def test_in_bfloat16_the_adapters_are_float32():
    lm = make_edit_lm("llama", dtype=torch.bfloat16)
    edit = make_edit(lm, "LoRA", REQUESTS, SETTINGS)
    assert {t.dtype for d in edit.deltas.values() for t in vars(d).values()} == {torch.float32}
    before = lm.log_probs(PAIRS)
    with edited(lm, edit):
        assert (lm.log_probs(PAIRS) > before).all()


def test_a_loss_that_is_no_number_is_said():
    lm = make_edit_lm("llama")
    with pytest.raises(DataError, match="the loss of LoRA is nan; use a lower rate"):
        make_edit(lm, "LoRA", REQUESTS, replace(SETTINGS, rate=1e30))
    assert find_sites(lm.model).layers == 4 and type(lm.model.model.layers[0].mlp.up_proj) is torch.nn.Linear


# Quantised weights


def stand_in(tmp_path: Path) -> LanguageModel:
    return make_quantised_lm("llama")


def by(config: Callable[[], Any]) -> Callable[[Path], LanguageModel]:
    """A model quantised by one of the libraries, where it is installed."""

    def load(tmp_path: Path) -> LanguageModel:
        lm = make_edit_lm("llama")
        lm.model.save_pretrained(tmp_path / "plain")
        model = transformers.AutoModelForCausalLM.from_pretrained(
            tmp_path / "plain", quantization_config=config(), dtype=torch.float32, device_map="cpu"
        )
        return LanguageModel(model.eval(), lm.tokenizer, "tiny-quantised")

    return load


def bits(number: int) -> Any:
    pytest.importorskip("bitsandbytes")
    return transformers.BitsAndBytesConfig(**{f"load_in_{number}bit": True})


def torchao() -> Any:
    quantisation = pytest.importorskip("torchao.quantization")
    return transformers.TorchAoConfig(quantisation.Int8WeightOnlyConfig())


def quanto() -> Any:
    pytest.importorskip("optimum.quanto")
    return transformers.QuantoConfig(weights="int8")


LIBRARIES = {"8bit": by(lambda: bits(8)), "4bit": by(lambda: bits(4)), "torchao": by(torchao), "quanto": by(quanto)}


@pytest.mark.parametrize(
    "load", [pytest.param(stand_in, id="stand-in"),
             *(pytest.param(load, id=name, marks=pytest.mark.slow) for name, load in LIBRARIES.items())]
)  # fmt: skip
def test_quantised_weights_take_lora_and_prompt_and_the_others_say_why_not(
    load: Callable[[Path], LanguageModel], tmp_path: Path
):
    lm = load(tmp_path)
    module = lm.model.get_submodule("model.layers.1.mlp.down_proj")
    clean, print_ = lm.log_probs(PAIRS), lm.fingerprint()
    kinds = [type(m) for m in lm.model.modules()]
    edit = make_edit(lm, "LoRA", REQUESTS, SETTINGS)
    assert [type(m) for m in lm.model.modules()] == kinds and lm.fingerprint() == print_ == edit.model
    with edited(lm, edit):
        inside = lm.log_probs(PAIRS)
        with edited(lm, edit):  # beside the one that is there
            assert (lm.log_probs(PAIRS) != inside).all()
        assert (lm.log_probs(PAIRS) == inside).all() and lm.fingerprint() == print_
    assert (inside > clean + 0.05).all() and (lm.log_probs(PAIRS) == clean).all()
    for request, one in zip(REQUESTS, make_edits(lm, "LoRA", REQUESTS, SETTINGS), strict=True):
        assert isinstance(one, Edit)
        with edited(lm, one):
            found = lm.log_probs(PAIRS)
        with edited(lm, make_edit(lm, "LoRA", [request], SETTINGS)):
            np.testing.assert_allclose(found, lm.log_probs(PAIRS), atol=1e-3)
    with edited(lm, edit), edited(lm, -1 * edit):
        np.testing.assert_allclose(lm.log_probs(PAIRS), clean, atol=1e-3)
    save_edit(edit, tmp_path / "edit.safetensors")
    with edited(lm, load_edit(tmp_path / "edit.safetensors")):
        assert (lm.log_probs(PAIRS) == inside).all()
    with edited(lm, make_edit(lm, "PROMPT", REQUESTS)):
        assert (lm.log_probs(PAIRS) != clean).all()
    for method in ("FT", "FT+L", "ROME", "MEMIT", "AlphaEdit", "EMMET"):
        chosen = settings_for(method, lm)[0]
        for resources in (Resources(), Resources(None)):
            with pytest.raises(ModelError) as caught:
                make_edit(lm, method, REQUESTS, chosen, resources)
            message = str(caught.value)
            assert f"is a {type(module).__name__} with a {type(module.weight).__name__}" in message
            assert "without quantisation" in message and "the method LoRA or PROMPT" in message
    name = "model.layers.1.mlp.down_proj"
    with pytest.raises(ModelError, match="without quantisation"), edited(lm, Edit({name: Dense(torch.zeros(32, 64))})):
        raise AssertionError("never in force")
    with pytest.raises(ModelError, match=r"shape \(32, 65\)"), edited(lm, Edit({name: wider(edit, name)})):
        raise AssertionError("never in force")
    with pytest.raises(ConfigError, match="quantised or offloaded"):
        save_edited_model(lm, edit, tmp_path / "model")
    assert (lm.log_probs(PAIRS) == clean).all()


def wider(edit: Edit, name: str) -> Any:
    delta = edit.deltas[name]
    return replace(delta, right=torch.nn.functional.pad(delta.right, (0, 1)))


def merge_settings(part: int) -> LoraMergeSettings:
    return LoraMergeSettings(**vars(SETTINGS), part=part)


def test_merged_adapters_are_the_mean_of_those_trained_apart():
    lm = make_edit_lm("llama", dtype=torch.float64)
    requests = [
        *REQUESTS,
        EditRequest("{} is in", "Zürich", "Berlin"),
        *REQUESTS[:1],
        EditRequest("{} is", "Paris", "a"),
    ]
    sites = find_sites(lm.model)
    before = lm.fingerprint()
    (edit,) = lora_merge(lm, requests, merge_settings(2), sites)
    alone = [lora(lm, requests[first : first + 2], SETTINGS, sites)[0] for first in (0, 2, 4)]
    for name, delta in edit.deltas.items():
        wanted = torch.stack([one.deltas[name].dense() for one in alone]).mean(0)
        assert torch.allclose(delta.dense(), wanted, rtol=0, atol=1e-12 * float(wanted.abs().max()))
    assert lm.fingerprint() == before and edit.model == before
    with pytest.raises(ConfigError, match=r"LoRA-Merge\.part 0 must be above 0"):
        changed(LoraMergeSettings(), "LoRA-Merge", {"part": 0})


@pytest.mark.parametrize("part", [2, 10])
def test_of_one_part_it_is_lora_bit_for_bit(part: int):
    lm = make_edit_lm("gpt2")
    sites = find_sites(lm.model)
    (merged_edit,), (plain,) = (
        lora_merge(lm, REQUESTS, merge_settings(part), sites),
        lora(lm, REQUESTS, SETTINGS, sites),
    )
    pairs = [(merged_edit, plain)]
    pairs += zip(*(way(lm, REQUESTS, merge_settings(1), sites, apart=True) for way in (lora_merge, lora)), strict=True)
    for mine, other in pairs:
        assert mine.deltas.keys() == other.deltas.keys()
        for name, delta in other.deltas.items():
            assert torch.equal(mine.deltas[name].left, delta.left) and torch.equal(mine.deltas[name].right, delta.right)
