"""MEND: the gradient taken apart, the network, the edit. Each against plain autograd or a plain loop."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from anachron.core.errors import ConfigError, DataError, ModelError
from anachron.edit.base import Dense, Edit, LowRank, edited
from anachron.edit.methods.mend import MendNetwork, MendSettings, edited_modules, last_blocks, untrained_network
from anachron.edit.passes.forward import means
from anachron.edit.passes.gradients import encoded, gradients, losses
from anachron.edit.requests import EditRequest
from anachron.lm.model import LanguageModel
from anachron.lm.sites import Sites, find_sites, weight_of
from support.edit_models import mended
from support.tiny_models import FAMILIES, VOCABULARY, make_lm, make_tokenizer, naive_log_prob

SMALL = MendSettings(layers=(0, 1), rank=8, batch=2)
IDENTITY = replace(SMALL, start=1.0, normalise=False)
REQUESTS = [
    EditRequest("The president of {} is", "France", "Emmanuel Macron"),
    EditRequest("In 2004, who was the president of the city of {}?", "São Paulo", "Angela Merkel"),
    EditRequest("{} is a", "Berlin", "team"),
]


def make_opt() -> LanguageModel:
    """OPT, whose MLP sees batch and time as one dimension."""
    config = transformers.OPTConfig(
        vocab_size=VOCABULARY, hidden_size=32, ffn_dim=64, num_hidden_layers=2, num_attention_heads=4,
        word_embed_proj_dim=32, max_position_embeddings=128, init_std=0.3,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    return LanguageModel(model.eval(), make_tokenizer("gpt2"), "tiny-opt")


def exact(family: str) -> tuple[LanguageModel, Sites]:
    """A tiny model in float64."""
    lm = make_opt() if family == "opt" else make_lm(family)
    lm.model.double()
    return lm, find_sites(lm.model)


def trained_a_little(lm: LanguageModel, sites: Sites, settings: MendSettings = SMALL, seed: int = 1) -> MendNetwork:
    """A network with random parameters and statistics, which does something to every component."""
    network = untrained_network(lm, settings, sites)
    chooser = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=chooser, dtype=torch.float64).to(parameter)
        for name, (inputs, outputs) in network.shapes.items():
            x, d = (torch.randn(9, size, generator=chooser) for size in (inputs, outputs))
            network.observe(name, x, d)
    return network


def weight_gradients(lm: LanguageModel, request: EditRequest) -> dict[str, torch.Tensor]:
    """Autograd's own, of the mean loss of the target's tokens; orientation as the model keeps its weights."""
    ids = lm.tokenizer(request.sentence)["input_ids"]
    targets = len(lm.tokenizer(request.text + " " + request.target)["input_ids"]) - len(
        lm.tokenizer(request.text)["input_ids"]
    )
    logits = lm.model(input_ids=torch.tensor([ids[:-1]])).logits[0]
    logp = torch.log_softmax(logits, -1)[torch.arange(len(ids) - 1), torch.tensor(ids[1:])]
    named = {name: p for name, p in lm.model.named_parameters() if p.dim() == 2 and ("mlp" in name or "fc" in name)}
    grads = torch.autograd.grad(-logp[-targets:].mean(), list(named.values()))
    return dict(zip(named, grads, strict=True))


@pytest.mark.parametrize("family", [*FAMILIES, "opt"])
@pytest.mark.families("opt")
def test_identity_network_gives_minus_autograds_gradient(family: str):
    lm, sites = exact(family)
    before = lm.fingerprint()
    network = untrained_network(lm, IDENTITY, sites)
    total: dict[str, torch.Tensor] = {}
    for request in REQUESTS:
        edit = mended(lm, [request], IDENTITY, sites, network)
        assert len(edit.deltas) == (6 if family in ("llama", "mistral", "gemma2") else 4)
        expected = weight_gradients(lm, request)
        for name, delta in edit.deltas.items():
            grad = expected[f"{name}.weight"].T if family == "gpt2" else expected[f"{name}.weight"]
            assert grad.abs().max() > 1e-6
            torch.testing.assert_close(delta.dense(), -grad, rtol=0, atol=1e-10)
            total[name] = total.get(name, 0) - grad
    together = mended(lm, REQUESTS, IDENTITY, sites, network)
    for name, delta in together.deltas.items():
        torch.testing.assert_close(delta.dense(), total[name], rtol=0, atol=noise(family))
    assert lm.fingerprint() == before == together.model


def noise(family: str) -> float:
    """What a text's company in a batch may change: most families compute attention in float32 even in float64."""
    return 1e-10 if family == "gpt2" else 1e-5


def test_a_change_is_low_rank_for_few_tokens_and_dense_for_many():
    lm, sites = exact("gpt2")
    network = trained_a_little(lm, sites)
    few = mended(lm, REQUESTS[2:], SMALL, sites, network)
    assert all(isinstance(delta, LowRank) and len(delta.right) < 8 for delta in few.deltas.values())
    many = mended(lm, REQUESTS * 9, SMALL, sites, network)
    assert all(isinstance(delta, Dense) for delta in many.deltas.values())
    once = mended(lm, REQUESTS, SMALL, sites, network)
    for name, delta in many.deltas.items():
        torch.testing.assert_close(delta.dense(), 9 * once.deltas[name].dense(), rtol=0, atol=1e-10)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.families("gemma2")
def test_a_batch_is_the_sum_of_its_requests_in_any_order(family: str):
    lm, sites = exact(family)
    network = trained_a_little(lm, sites)
    together = mended(lm, REQUESTS, SMALL, sites, network)
    reversed_ = mended(lm, REQUESTS[::-1], SMALL, sites, network)
    alone = [mended(lm, [request], SMALL, sites, network) for request in REQUESTS]
    for name, delta in together.deltas.items():
        torch.testing.assert_close(reversed_.deltas[name].dense(), delta.dense(), rtol=0, atol=noise(family))
        total = sum(edit.deltas[name].dense() for edit in alone)
        torch.testing.assert_close(total, delta.dense(), rtol=0, atol=noise(family))


def test_a_prompt_need_not_name_its_subject():
    lm, sites = exact("llama")
    network = trained_a_little(lm, sites)
    named, unnamed = (
        mended(lm, [EditRequest(prompt, "France", "Angela Merkel")], SMALL, sites, network)
        for prompt in ("The president of {} is", "The president of France is")
    )
    for name, delta in named.deltas.items():
        assert torch.equal(delta.dense(), unnamed.deltas[name].dense()) and delta.dense().abs().max() > 0


def test_network_against_a_plain_loop():
    lm, sites = exact("gpt2")
    network = trained_a_little(lm, sites)
    name = "transformer.h.1.mlp.c_fc"  # the second of its shape
    chooser = np.random.default_rng(0)
    x, d = chooser.normal(size=(5, 32)), chooser.normal(size=(5, 128))
    held = {key: value.detach().numpy() for key, value in network.state_dict().items()}
    mean, squares, seen = (held[f"transforms.32x128.{key}"] for key in ("mean", "squares", "seen"))
    assert seen == 18
    got_x, got_d = network(name, torch.tensor(x), torch.tensor(d))
    for token in range(5):
        z = (np.concatenate([x[token], d[token]]) - mean) / (np.sqrt(squares / (seen - 1)) + 1e-7)
        for layer in range(2):
            u, v, b, s, m = (held[f"transforms.32x128.layers.{layer}.{key}"] for key in "uvbsm")
            assert u.shape == (160, 8) and v.shape == (8, 160) and s.shape == m.shape == (2, 160)
            z = z + np.maximum(0, s[1] * (u @ (v @ z) + b) + m[1])
        np.testing.assert_allclose(got_x[token].detach().numpy(), z[:32], atol=1e-10)
        np.testing.assert_allclose(got_d[token].detach().numpy(), z[32:], atol=1e-10)
    change = network.change(name, torch.tensor(x), torch.tensor(d))
    rate = float(network.rates.detach()[list(network.shapes).index(name)])
    torch.testing.assert_close(change.dense(), -rate * got_d.T @ got_x, rtol=0, atol=1e-12)


def test_statistics_are_those_of_all_tokens_seen():
    lm, sites = exact("neox")
    network = untrained_network(lm, SMALL, sites)
    first, second = (sites.mlp_in(layer)[0] for layer in (0, 1))
    chooser = torch.Generator().manual_seed(0)
    tokens = [(name, torch.randn(n, 96, generator=chooser) * 3 + 100) for name, n in
              [(first, 1), (second, 4), (first, 0), (first, 7)]]  # fmt: skip
    for name, z in tokens:
        z[:, 5] = 2.5  # a component that never varies
        if int(network.transform_of(name).seen) < 2:
            assert torch.equal(network.transform_of(name).normalised(z), z)
        network.observe(name, z[:, :32], z[:, 32:])
    every = torch.cat([z for _, z in tokens]).double()
    transform = network.transform_of(first)
    assert int(transform.seen) == 12
    normal = transform.normalised(every)
    kept = [c for c in range(96) if c != 5]
    torch.testing.assert_close(normal.mean(0)[kept], torch.zeros(95, dtype=torch.float64), rtol=0, atol=1e-9)
    torch.testing.assert_close(normal.std(0)[kept], torch.ones(95, dtype=torch.float64), rtol=0, atol=1e-6)
    assert not normal[:, 5].any()
    assert not transform.normalised(every + 1)[:, 5].any()


def test_rank_is_capped_and_layers_are_shared_among_shapes():
    lm, sites = exact("llama")
    network = untrained_network(lm, replace(SMALL, rank=1920), sites)
    assert set(network.transforms) == {"32x64", "64x32"}
    layer = network.transforms["32x64"].layers[1]
    assert layer.u.shape == (96, 96) and layer.s.shape == (4, 96)  # gate and up projection of two blocks
    assert network.transforms["64x32"].layers[0].s.shape == (2, 96)
    assert last_blocks(sites) == (0, 1) and last_blocks(replace(sites, layers=28)) == (25, 26, 27)


def test_tokens_that_no_gradient_reaches_are_left_out():
    lm, sites = exact("mistral")
    modules = edited_modules(lm, SMALL, sites)
    texts = encoded(lm, [(r.text, r.target) for r in REQUESTS])
    found = gradients(lm, texts, modules)
    for text, (first, last) in enumerate(zip(*(found[sites.mlp_out(layer)].owners for layer in (0, 1)), strict=False)):
        assert first >= 0 and last >= 0, text
    counts = [torch.bincount(found[sites.mlp_out(layer)].owners, minlength=3).tolist() for layer in (0, 1)]
    assert counts[0] == [len(t.ids) - 1 for t in texts]  # all that is fed, but no padding
    assert counts[1] == [len(t.targets) for t in texts]  # above the last block only what predicts the target


def test_losses_are_those_of_a_plain_loop():
    lm = make_lm("gemma2")
    texts = encoded(lm, [(r.text, r.target) for r in REQUESTS])
    found = losses(lm, texts).detach().numpy()
    expected = [-naive_log_prob(lm, r.text, r.target) / len(t.targets) for r, t in zip(REQUESTS, texts, strict=True)]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    torch.testing.assert_close(
        means([2, 1, 3]) @ torch.tensor([1.0, 3, 5, 6, 7, 8], dtype=torch.float64), torch.tensor([2.0, 5, 7]).double()
    )


def test_in_bfloat16_the_network_and_the_edit_are_float32():
    lm = make_lm("llama")
    lm.model.to(torch.bfloat16)
    sites = find_sites(lm.model)
    edit = mended(lm, REQUESTS[:1], SMALL, sites, trained_a_little(lm, sites))
    assert {delta.left.dtype for delta in edit.deltas.values()} == {torch.float32}
    with edited(lm, edit):
        assert lm.edit_of == edit.model


def test_saving_and_loading_gives_the_same_edit(tmp_path: Path):
    lm = make_lm("gpt2")
    sites = find_sites(lm.model)
    network = trained_a_little(lm, sites)
    network.save(tmp_path / "network")
    network.save(tmp_path / "again")
    assert (tmp_path / "network").read_bytes() == (tmp_path / "again").read_bytes()
    assert (tmp_path / "network.manifest.json").is_file()
    loaded = MendNetwork.load(tmp_path / "network", lm)
    assert loaded.settings == network.settings and loaded.shapes == network.shapes and loaded.model == network.model
    a, b = (mended(lm, REQUESTS, SMALL, sites, n) for n in (network, loaded))
    for name, delta in a.deltas.items():
        assert torch.equal(delta.dense(), b.deltas[name].dense())


def test_a_network_of_another_model_is_refused(tmp_path: Path):
    lm, other = make_lm("gpt2"), make_lm("gpt2", seed=1)
    sites = find_sites(lm.model)
    network = untrained_network(lm, SMALL, sites)
    network.save(tmp_path / "network")
    with pytest.raises(ModelError, match=r"train-mend: the network was made for the model with fingerprint"):
        MendNetwork.load(tmp_path / "network", other)
    with pytest.raises(ModelError, match="made for the model"):
        mended(other, REQUESTS, SMALL, sites, network)
    with edited(lm, Edit(model=lm.fingerprint())):  # on top of an edit it is still that model's
        assert mended(lm, REQUESTS, SMALL, sites, network).model == network.model


def test_other_files_are_refused(tmp_path: Path):
    lm = make_lm("gpt2")
    (tmp_path / "text").write_text("no tensors")
    with pytest.raises(DataError, match="text"):
        MendNetwork.load(tmp_path / "text", lm)
    with pytest.raises(DataError, match="missing"):
        MendNetwork.load(tmp_path / "missing", lm)
    network = untrained_network(lm, SMALL, find_sites(lm.model))
    with pytest.raises(DataError, match="not a network for MEND"):
        MendNetwork.of(network.state_dict(), {"format": "another"}, "file")


def test_layers_must_be_those_of_the_network_and_of_the_model():
    lm = make_lm("gpt2")
    sites = find_sites(lm.model)
    network = untrained_network(lm, SMALL, sites)
    with pytest.raises(ConfigError, match=r"layers \[0, 1\].*ask for layers \[1\]"):
        mended(lm, REQUESTS, replace(SMALL, layers=(1,)), sites, network)
    with pytest.raises(ConfigError, match="layer 2: the model has 2 layers"):
        untrained_network(lm, replace(SMALL, layers=(1, 2)), sites)


def test_a_layer_without_a_plain_weight_is_refused():
    lm = make_lm("llama")
    sites = find_sites(lm.model)
    network = untrained_network(lm, SMALL, sites)
    name = sites.mlp_out(1)
    quantised = torch.ao.nn.quantized.dynamic.Linear(64, 32)
    lm.model.get_submodule(name.rpartition(".")[0]).down_proj = quantised
    for attempt in (
        lambda: untrained_network(lm, SMALL, sites),
        lambda: mended(lm, REQUESTS, SMALL, sites, network),
    ):
        with pytest.raises(ModelError, match=r"mlp.down_proj is a Linear .*quantisation.*LoRA or PROMPT"):
            attempt()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers": ()}, r"layers \[\] must be one or more"),
        ({"layers": (2, 1)}, r"layers \[2, 1\] must .* rising"),
        ({"layers": (1, 1)}, "different layers"),
        ({"rank": 0}, "rank 0 must be at least 1; the default is 1920"),
        ({"steps": -3}, "steps -3 must be at least 1"),
        ({"batch": 0}, "batch 0"),
        ({"rate": 0.0}, "rate 0.0 must be above 0; the default is 1e-06"),
        ({"rate": float("nan")}, "rate nan"),
        ({"clip": -1.0}, "clip -1.0 must be above 0"),
        ({"lr_rate": -1e-4}, "lr_rate -0.0001 must not be negative"),
        ({"kl_weight": -1.0}, "kl_weight -1.0"),
        ({"edit_weight": float("inf")}, "edit_weight inf"),
        ({"start": float("nan")}, "start nan"),
    ],
)
def test_bad_settings_say_value_rule_and_fix(change: dict, message: str):
    with pytest.raises(ConfigError, match=message):
        replace(SMALL, **change)


def test_a_gradient_that_is_no_number_is_an_error_and_leaves_the_model_alone():
    lm = make_lm("neox")
    sites = find_sites(lm.model)
    network = untrained_network(lm, SMALL, sites)
    with torch.no_grad():
        weight_of(lm.model, sites.mlp_out(1))[0, 0] = torch.nan
    network.model = lm.fingerprint()
    with pytest.raises(DataError, match="not a number"):
        mended(lm, REQUESTS, SMALL, sites, network)
    assert untouched(lm)


def test_an_interrupt_in_the_forward_pass_leaves_the_model_as_it_was():
    lm = make_lm("neox")
    sites = find_sites(lm.model)
    network, before = untrained_network(lm, SMALL, sites), lm.fingerprint()
    handle = lm.model.get_submodule(sites.block(1)).register_forward_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        mended(lm, REQUESTS, SMALL, sites, network)
    handle.remove()
    assert untouched(lm) and lm.fingerprint() == before


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def untouched(lm: LanguageModel) -> bool:
    hooks = any(m._forward_hooks or m._forward_pre_hooks for m in lm.model.modules())
    return not hooks and all(p.requires_grad and p.grad is None for p in lm.model.parameters())
