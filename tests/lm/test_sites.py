"""Where things are in a decoder, family by family, and what is said of a model whose modules nobody knows."""

from dataclasses import replace
from typing import Any

import pytest
import torch
import transformers
from transformers.pytorch_utils import Conv1D

from anachron.core.errors import ConfigError, ModelError
from anachron.edit.base import edited
from anachron.edit.make import make_edit, settings_for
from anachron.edit.method import Resources
from anachron.edit.methods.ft import FtSettings
from anachron.edit.requests import EditRequest
from anachron.lm.model import LanguageModel
from anachron.lm.sites import as_stored, find_sites, is_plain, weight_of
from support.edit_models import ALL, make_edit_lm
from support.tiny_models import VOCABULARY, make_tokenizer

REQUEST = EditRequest("The president of {} is", "France", "Berlin")
FOUR_TIMES = ("gpt2", "gptj", "gptneo", "bloom")  # the MLP is as wide as four times the model, whatever is asked for
# From the papers' and transformers' own words, not from the package
EXPECTED = {
    "gpt2": ("transformer.h.{}", ["mlp.c_fc"], "mlp.c_proj"),
    "gptneo": ("transformer.h.{}", ["mlp.c_fc"], "mlp.c_proj"),
    "gptj": ("transformer.h.{}", ["mlp.fc_in"], "mlp.fc_out"),
    "bloom": ("transformer.h.{}", ["mlp.dense_h_to_4h"], "mlp.dense_4h_to_h"),
    "neox": ("gpt_neox.layers.{}", ["mlp.dense_h_to_4h"], "mlp.dense_4h_to_h"),
    "opt": ("model.decoder.layers.{}", ["fc1"], "fc2"),
    "opt-postnorm": ("model.decoder.layers.{}", ["fc1"], "fc2"),
    "phi": ("model.layers.{}", ["mlp.fc1"], "mlp.fc2"),
    "phi3": ("model.layers.{}", ["mlp.gate_up_proj"], "mlp.down_proj"),
    **dict.fromkeys(("llama", "mistral", "gemma2", "qwen2", "qwen3", "gemma3", "olmo2"),
                    ("model.layers.{}", ["mlp.gate_proj", "mlp.up_proj"], "mlp.down_proj")),
}  # fmt: skip


@pytest.mark.parametrize("family", ALL)
def test_every_family_has_its_modules_in_the_right_shapes(family: str):
    lm = make_edit_lm(family)
    sites = find_sites(lm.model)
    block, inputs, output = EXPECTED[family]
    wide = 128 if family in FOUR_TIMES else 64
    assert sites.layers == 4
    for layer in range(4):
        at = block.format(layer)
        assert (sites.block(layer), sites.mlp_out(layer)) == (at, f"{at}.{output}")
        assert sites.mlp_in(layer) == tuple(f"{at}.{name}" for name in inputs)
        assert weight_of(lm.model, sites.mlp_out(layer)).shape == (32, wide)
        for name in sites.mlp_in(layer):
            assert weight_of(lm.model, name).shape == ((2 if "gate_up" in name else 1) * wide, 32)
    assert (sites.post_norm is not None) == (family in ("gemma2", "gemma3", "olmo2"))
    for name in (n.format(0) for n in (sites.post_norm,) if n is not None):
        assert "Norm" in type(lm.model.get_submodule(name)).__name__


@pytest.mark.parametrize("family", ALL)
def test_the_matrix_is_what_the_module_multiplies_by(family: str):
    lm = make_edit_lm(family, dtype=torch.float64)
    sites = find_sites(lm.model)
    for name in (sites.mlp_out(1), *sites.mlp_in(1)):
        owner, matrix = lm.model.get_submodule(name), weight_of(lm.model, name)
        given = torch.randn(3, matrix.shape[1], dtype=torch.float64)
        bias = torch.zeros(matrix.shape[0]) if owner.bias is None else owner.bias
        assert torch.allclose(owner(given), given @ matrix.T + bias, atol=1e-12)
        assert matrix.data_ptr() == owner.weight.data_ptr()
        assert isinstance(owner, Conv1D) == (family == "gpt2")
        stored = as_stored(owner, matrix + 1)
        assert torch.equal(stored, owner.weight + 1) and stored.is_contiguous()


@pytest.mark.parametrize("family", ALL)
def test_the_projection_writes_into_the_residual_stream_of_its_block(family: str):
    """What is added to its output comes out of the block; in models with a norm behind it, of that norm."""
    lm = make_edit_lm(family, dtype=torch.float64)
    sites = find_sites(lm.model)
    seen: dict[bool, torch.Tensor] = {}
    ids = torch.tensor([[5, 6, 7]])
    for moved in (False, True):
        hooks = [lm.model.get_submodule(sites.block(1)).register_forward_hook(
            lambda _, __, made, moved=moved: seen.__setitem__(moved, made[0] if isinstance(made, tuple) else made)
        )]  # fmt: skip
        if moved:
            owner = lm.model.get_submodule(sites.mlp_out(1))
            hooks.append(owner.register_forward_hook(lambda _, __, made: made + torch.linspace(-1, 1, 32)))
        with torch.no_grad():
            lm.model(input_ids=ids)
        for hook in hooks:
            hook.remove()
    change = (seen[True] - seen[False]).reshape(3, 32)
    if sites.post_norm is None and family != "opt-postnorm":
        assert torch.allclose(change, torch.linspace(-1, 1, 32).double().expand(3, 32), atol=1e-9)
    else:
        assert (change.abs() > 1e-6).any()


def test_layers_out_of_range_are_refused():
    lm = make_edit_lm("llama")
    sites = find_sites(lm.model)
    for layer in (-1, 4, 100):
        for name in (sites.block, sites.mlp_in, sites.mlp_out):
            with pytest.raises(ConfigError, match=f"layer {layer}: the model has 4 layers, numbered from 0"):
                name(layer)
    wrong: dict[str, list[dict[str, Any]]] = {
        "FT": [{"layer": 4}], "ROME": [{"layer": -1}], "EMMET": [{"layer": 4}], "LoRA": [{"layers": (0, 4)}],
        "MEMIT": [{"layers": (1, 4)}, {"layers": ()}, {"layers": (2, 1)}, {"layers": (1, 1)}],
        "AlphaEdit": [{"layers": (3, 4)}],
    }  # fmt: skip
    for method, changes in wrong.items():
        for change in changes:
            with pytest.raises(ConfigError, match="layers"):
                make_edit(lm, method, [REQUEST], replace(settings_for(method, lm)[0], **change), Resources(None))


def of(config: Any) -> LanguageModel:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    return LanguageModel(model, make_tokenizer("mistral"), "tiny-other")


def mixtral() -> LanguageModel:
    return of(transformers.MixtralConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, num_local_experts=2, bos_token_id=1, eos_token_id=2,
    ))  # fmt: skip


def bert() -> LanguageModel:
    return of(transformers.BertConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        is_decoder=True,
    ))  # fmt: skip


def test_a_model_of_experts_is_refused_with_what_was_looked_for_and_how_to_name_modules():
    lm = mixtral()
    with pytest.raises(ModelError) as caught:
        find_sites(lm.model)
    message = str(caught.value)
    for part in ("MixtralForCausalLM", "projections of the MLP in model.layers", "mlp.c_fc and mlp.c_proj",
                 "mlp.gate_proj and mlp.up_proj and mlp.down_proj", "model.layers.*.self_attn.q_proj",
                 "name them by hand with blocks, mlp_in and mlp_out", "--site mlp_in=NAME"):  # fmt: skip
        assert part in message
    assert "\n" not in message
    for method in ("ROME", "FT", "LoRA"):
        with pytest.raises(ModelError, match="name them by hand"):
            make_edit(lm, method, [REQUEST])
    edit = make_edit(lm, "PROMPT", [REQUEST])  # needs no modules
    before = lm.log_probs([(REQUEST.text, REQUEST.target)])
    with edited(lm, edit):
        assert lm.log_probs([(REQUEST.text, REQUEST.target)]) != before


def test_modules_named_by_hand_are_used():
    lm = bert()
    with pytest.raises(
        ModelError, match=r"no blocks under the names transformer\.h; .*bert\.encoder\.layer\.\*\.inter"
    ):
        find_sites(lm.model)
    by_hand = {"mlp_in": "intermediate.dense", "mlp_out": "output.dense"}
    sites = find_sites(lm.model, blocks="bert.encoder.layer", **by_hand)
    assert sites.layers == 2 and sites.post_norm is None
    assert sites.mlp_out(1) == "bert.encoder.layer.1.output.dense"
    edit = make_edit(lm, "FT", [REQUEST], FtSettings(layer=1, rate=1e-2), sites=sites)
    before = float(lm.log_probs([(REQUEST.text, REQUEST.target)])[0])
    with edited(lm, edit):
        assert float(lm.log_probs([(REQUEST.text, REQUEST.target)])[0]) > before + 0.05
    llama = make_edit_lm("llama")
    assert find_sites(llama.model, mlp_in="mlp.gate_proj, mlp.up_proj", mlp_out="mlp.down_proj") == find_sites(
        llama.model
    )
    assert find_sites(llama.model, blocks="model.layers").layers == 4


@pytest.mark.parametrize(
    ("names", "error", "says"),
    [
        ({"blocks": "model.layer"}, ModelError, r"no blocks under the names model\.layer;"),
        ({"blocks": "model.layers.0.mlp"}, ModelError, "is not a list of blocks but a LlamaMLP"),
        ({"mlp_in": "mlp.x", "mlp_out": "mlp.down_proj"}, ModelError, r"under the names mlp\.x and mlp\.down_proj;"),
        ({"mlp_in": "mlp.up_proj"}, ConfigError, "give both"),
        ({"mlp_out": "mlp.down_proj"}, ConfigError, "give both"),
    ],
)
def test_wrong_names_by_hand_are_refused(names: dict[str, str], error: type[Exception], says: str):
    with pytest.raises(error, match=says):
        find_sites(make_edit_lm("llama").model, **names)


def test_a_named_module_that_is_no_linear_layer_is_refused():
    lm = make_edit_lm("llama")
    sites = find_sites(lm.model, mlp_in="mlp.up_proj", mlp_out="post_attention_layernorm")
    for method in ("FT", "ROME", "MEMIT", "EMMET", "AlphaEdit"):
        layers = {"layers": (1,)} if method in ("MEMIT", "AlphaEdit") else {"layer": 1}
        chosen = replace(settings_for(method, lm)[0], **layers)
        with pytest.raises(ModelError, match=r"is a LlamaRMSNorm .*its weights cannot be changed"):
            make_edit(lm, method, [REQUEST], chosen, Resources(None), sites)
    with pytest.raises(ModelError, match="post_attention_layernorm is a LlamaRMSNorm, no linear layer"):
        make_edit(lm, "LoRA", [REQUEST], replace(settings_for("LoRA", lm)[0], layers=(1,)), sites=sites)
    assert not is_plain(lm.model.get_submodule(sites.mlp_out(0)))
    with torch.device("meta"):
        assert not is_plain(torch.nn.Linear(2, 2))
