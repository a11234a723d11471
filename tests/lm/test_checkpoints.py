"""Checkpoints that do not fill their model are refused, by what is wrong with them; whole ones load as they are."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from anachron.core.errors import ModelError
from anachron.lm.checkpoints import Filling, fault, harmless
from anachron.lm.loading import load_model
from anachron.lm.tokenizers import load_tokenizer
from support.checkpoints import Tensors, checkpoint, configure, rewrite
from support.tiny_models import make_lm, make_tokenizer

PAIRS = [("In 1998, who was the president of France?", answer) for answer in ("Jacques Chirac", "Москва", "Paris")]
LAYER = {f"model.layers.{layer}.{part}.weight" for layer in (0, 1) for part in ("self_attn.q_proj", "mlp.up_proj")}
MODEL = {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"} | LAYER


def filling(**facts: Any) -> Filling:
    return Filling("LlamaForCausalLM", **{"expected": MODEL, "head": "lm_head", **facts})


def refused(name: str, **how: Any) -> str:
    with pytest.raises(ModelError) as error:
        load_model(name, device="cpu", **how)
    assert "\n" not in str(error.value)
    return str(error.value)


# The rule


def test_a_checkpoint_that_has_what_is_expected_is_whole():
    assert fault(filling()) is None


@pytest.mark.parametrize(
    ("name", "extra_layers"),
    [
        ("model.layers.0.self_attn.rotary_emb.inv_freq", 0),
        ("model.layers.0.self_attn.masked_bias", 0),
        ("vision_tower.encoder.layers.0.weight", 0),
        ("model.multi_modal_projector.weight", 0),
        ("mtp.layers.0.weight", 0),
        ("model.layers.2.mlp.up_proj.weight", 1),
    ],
)
def test_what_cannot_change_a_score_of_text_may_be_left_over(name: str, extra_layers: int):
    found = filling(unexpected=[name], extra_layers=extra_layers)
    assert harmless(found) == [name] and fault(found) is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("model.layers.5.mlp.up_proj.weight", "it holds model.layers.5, but config.json asks for 2 layers"),
        ("model.layers.0.self_attn.q_norm.weight", "does not belong to its config.json"),
        ("model.layers.0.mlp.up_proj.bias", "does not belong to its config.json"),
        ("model.layers.0.mlp.vision_experts.weight", "does not belong to its config.json"),
        ("transformer.h.0.attn.bias", "does not belong to its config.json"),
        ("model.embed_norm.weight", "does not belong to its config.json"),
        ("lm_head.bias", "does not belong to its config.json"),
        ("score.weight", "score.weight is the head of a classifier or reward model"),
        ("model.layers.0.mlp.up_proj.lora_A.weight", "merge them into the model"),
    ],
)
def test_what_could_change_a_score_may_not_be_left_over(name: str, reason: str):
    found = fault(filling(unexpected=[name]))
    assert found is not None and found.startswith(f"1 in the checkpoint have no place in it ({name}): ")
    assert reason in found


def test_a_layer_for_the_prediction_of_further_tokens_is_counted():
    found = filling(unexpected=["model.layers.2.a.weight", "model.layers.3.a.weight"], extra_layers=1)
    assert harmless(found) == ["model.layers.2.a.weight"]
    assert "it holds model.layers.3" in (fault(found) or "")


# Loaded

Change = Callable[[Tensors], Tensors]

BROKEN: dict[str, tuple[Change, dict[str, Any], str]] = {
    "prefixed": (
        lambda t: {f"module.{name}": x for name, x in t.items()}, {},
        "21 of its 21 tensors are missing .* begin with 'module.', as saved from DataParallel",
    ),
    "no head": (
        lambda t: {name: x for name, x in t.items() if name != "lm_head.weight"}, {},
        r"1 of its 21 tensors are missing \(lm_head.weight\): it was saved without its output head",
    ),
    "one missing": (
        lambda t: {name: x for name, x in t.items() if name != "model.layers.1.mlp.up_proj.weight"}, {},
        r"missing \(model.layers.1.mlp.up_proj.weight\): the checkpoint is not whole",
    ),
    "reward model": (
        lambda t: {name.replace("lm_head", "score"): x[:1] if "lm_head" in name else x for name, x in t.items()},
        {"architectures": ["LlamaForSequenceClassification"]},
        "head of a classifier or reward model, here a LlamaForSequenceClassification; give a checkpoint of Llama",
    ),
    "shape": (
        lambda t: t | {"model.norm.weight": t["model.norm.weight"][:-1]}, {},
        r"model.norm.weight is \(31,\), not \(32,\)",
    ),
    "fewer layers": (lambda t: t, {"num_hidden_layers": 1}, "holds model.layers.1, but config.json asks for 1 layers"),
    "more layers": (lambda t: t, {"num_hidden_layers": 3}, r"9 of its 30 tensors are missing .* not whole"),
    "NaN": (
        lambda t: t | {"model.norm.weight": t["model.norm.weight"] * torch.nan}, {},
        r"1 of its weights hold numbers that are NaN in float32 \(model.norm.weight\); the checkpoint is damaged",
    ),
    "one NaN in an embedding": (
        lambda t: t | {"model.embed_tokens.weight": t["model.embed_tokens.weight"].index_fill(
            0, torch.tensor(555), torch.nan)}, {},
        r"NaN in float32 \(model.embed_tokens.weight\)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_checkpoint_is_refused_by_what_is_wrong(tmp_path: Path, what: str):
    change, config, message = BROKEN[what]
    name = checkpoint(tmp_path)
    rewrite(name, change)
    configure(name, **config)
    found = refused(name)
    assert name in found
    with pytest.raises(ModelError, match=message):
        load_model(name, device="cpu")


def test_a_checkpoint_of_another_architecture_is_refused(tmp_path: Path):
    llama, gpt2 = checkpoint(tmp_path / "llama"), checkpoint(tmp_path / "gpt2", "gpt2")
    (Path(gpt2) / "model.safetensors").replace(Path(llama) / "model.safetensors")
    assert "it is a checkpoint of another architecture; give it its own config.json" in refused(llama)


def test_experts_that_cannot_be_put_together_are_named(tmp_path: Path):
    config = transformers.MixtralConfig(
        vocab_size=576, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, num_local_experts=4,
    )  # fmt: skip
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    make_tokenizer("gpt2").save_pretrained(tmp_path)
    load_model(str(tmp_path), device="cpu")
    rewrite(tmp_path, lambda t: {name: x for name, x in t.items() if not name.endswith("experts.1.w1.weight")})
    assert "1 of its tensors cannot be made from those of the checkpoint (model.layers.0.mlp.experts" in refused(
        str(tmp_path)
    )


def test_a_vision_tower_is_left_out_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    name = checkpoint(tmp_path)
    before = load_model(name, device="cpu").log_probs(PAIRS)
    rewrite(name, lambda t: t | {"vision_tower.patches.weight": torch.ones(3)})
    with caplog.at_level(logging.WARNING, "anachron"):
        found = load_model(name, device="cpu").log_probs(PAIRS)
    assert (
        f"{name}: 1 tensors that scores of text do not need are left out (vision_tower.patches.weight)" in caplog.text
    )
    np.testing.assert_array_equal(found, before)


# Adapters


@pytest.fixture
def adapter(tmp_path: Path) -> tuple[str, str, np.ndarray]:
    """Folders of an adapter and of its model, and the scores of the two together."""
    peft = pytest.importorskip("peft")
    base = checkpoint(tmp_path / "base")
    lm = make_lm("llama", "gpt2")
    settings = peft.LoraConfig(r=4, target_modules=["q_proj"], init_lora_weights=False)
    lm.model.config.name_or_path = lm.model.name_or_path = base
    lm.model = peft.get_peft_model(lm.model, settings)
    lm.model.save_pretrained(tmp_path / "adapter")
    lm.tokenizer.save_pretrained(tmp_path / "adapter")
    lm.model = lm.model.merge_and_unload()
    return str(tmp_path / "adapter"), base, lm.log_probs(PAIRS)


def test_an_adapter_is_loaded_onto_its_model(adapter: tuple[str, str, np.ndarray]):
    name, base, wanted = adapter
    found = load_model(name, device="cpu").log_probs(PAIRS)
    np.testing.assert_allclose(found, wanted, atol=1e-4, rtol=0)
    assert np.abs(found - load_model(base, device="cpu").log_probs(PAIRS)).max() > 0.01


def test_an_adapter_as_peft_saves_it_takes_the_tokenizer_of_its_model(adapter: tuple[str, str, np.ndarray]):
    name, base, wanted = adapter
    for file in Path(name).glob("*token*"):
        file.unlink()
    assert {file.name for file in Path(name).iterdir()} <= {
        "adapter_config.json", "adapter_model.safetensors", "README.md", "chat_template.jinja"
    }  # fmt: skip
    lm = load_model(name, device="cpu")
    np.testing.assert_allclose(lm.log_probs(PAIRS), wanted, atol=1e-4, rtol=0)
    assert lm.tokenizer_fingerprint() == load_model(base, device="cpu").tokenizer_fingerprint()
    assert load_tokenizer(name).get_vocab() == load_tokenizer(base).get_vocab()
    settings = json.loads((Path(name) / "adapter_config.json").read_text())
    (Path(name) / "adapter_config.json").write_text(json.dumps(settings | {"base_model_name_or_path": f"{base}-gone"}))
    with pytest.raises(ModelError, match=r"cannot load a tokenizer from .*adapter"):
        load_tokenizer(name)


def test_what_is_missing_under_an_adapter_is_refused(adapter: tuple[str, str, np.ndarray]):
    name, base, _ = adapter
    rewrite(base, lambda t: {key: x for key, x in t.items() if key != "lm_head.weight"})
    found = refused(name)
    assert found.startswith(f"{base}, the model under the adapter {name}: the checkpoint does not fit")


def test_an_adapter_that_is_not_whole_is_refused(adapter: tuple[str, str, np.ndarray]):
    name, _, _ = adapter
    weights = Path(name) / "adapter_model.safetensors"
    weights.rename(Path(name) / "model.safetensors")
    rewrite(name, lambda t: {key: x for key, x in t.items() if "layers.1.self_attn.q_proj.lora_B" not in key})
    (Path(name) / "model.safetensors").rename(weights)
    assert "missing (model.layers.1.self_attn.q_proj.lora_B.default.weight)" in refused(name)


def test_a_model_and_an_adapter_in_one_folder_are_refused(adapter: tuple[str, str, np.ndarray]):
    name, base, _ = adapter
    (Path(base) / "adapter_config.json").write_text((Path(name) / "adapter_config.json").read_text())
    assert "give each a folder of its own" in refused(base)


# Numbers


def test_what_overflows_in_float16_is_called_so(tmp_path: Path):
    """Its weights are no larger than float16 holds, what they make of a text is."""
    name = checkpoint(tmp_path)
    rewrite(name, lambda t: t | {"model.norm.weight": t["model.norm.weight"] * 6e4})
    assert "its logits are not finite in float16; load it in bfloat16 or float32" in refused(name, dtype="float16")
    assert np.isfinite(load_model(name, device="cpu", dtype="bfloat16").log_probs(PAIRS)).all()


def test_a_weight_too_large_for_float16_is_named(tmp_path: Path):
    name = checkpoint(tmp_path)
    rewrite(name, lambda t: t | {"model.norm.weight": t["model.norm.weight"] * 1e5})
    found = refused(name, dtype="float16")
    assert "infinite in float16 (model.norm.weight); float16 holds nothing above 65504: load it in bfloat16" in found


def test_a_score_that_is_no_number_is_an_error_with_the_texts_number():
    lm = make_lm("llama", "gpt2")
    assert np.isfinite(lm.log_probs([*PAIRS, ("Who?", "Москва")])).all()
    with torch.no_grad():
        lm.model.model.embed_tokens.weight[lm.tokenizer("Who")["input_ids"][0]] = torch.nan
    assert np.isfinite(lm.log_probs(PAIRS)).all()
    with pytest.raises(
        ModelError, match=r"tiny-llama gives text 4 the score nan; 1 of 4 scores are no finite .* damaged"
    ):
        lm.log_probs([*PAIRS, ("Who?", "Москва")], prefix_tree=False)
    with pytest.raises(ModelError, match="the score nan"):
        lm.log_probs([*PAIRS, ("Who?", "Москва")])


# Tokenizers


def test_a_tokenizer_with_ordinary_tokens_beyond_the_embeddings_is_refused(tmp_path: Path):
    name = checkpoint(tmp_path, vocab_size=400)
    ids = make_tokenizer("gpt2").get_vocab().values()
    beyond = sum(number >= 400 for number in ids)
    assert f"has {beyond} tokens from 400 on, up to {max(ids)} (" in refused(name)


def test_added_special_tokens_beyond_the_embeddings_are_left_to_the_texts(tmp_path: Path):
    tokens = make_tokenizer("gpt2", ["<pad>"])
    name = checkpoint(tmp_path, vocab_size=len(tokens) - 1)
    tokens.save_pretrained(tmp_path)
    lm = load_model(name, device="cpu")
    assert np.isfinite(lm.log_probs(PAIRS)).all()
    with pytest.raises(ModelError, match="the tokenizer gives token"):
        lm.log_probs([("<pad> in 1998", "Paris")])
    added = json.loads((tmp_path / "tokenizer.json").read_text())
    for token in added["added_tokens"]:
        token["special"] = token["special"] and token["content"] != "<pad>"
    (tmp_path / "tokenizer.json").write_text(json.dumps(added))
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    settings = {key: value for key, value in settings.items() if "special" not in key}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    assert "'<pad>'" in refused(name)
