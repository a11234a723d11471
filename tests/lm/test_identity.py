"""What decides a score is part of a model's identity, and what does not change scores on the way is not."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from anachron.edit.base import Edit, LowRank, edited
from anachron.io.jobs import differences
from anachron.lm.formats import ChatTemplate
from anachron.lm.generation import greedy_continuations
from anachron.lm.loading import load_model
from anachron.lm.model import LanguageModel
from support.config_changes import NOISE, make_checkpoint, scores, write
from support.edit_models import make_quantised_lm
from support.tiny_models import make_lm, make_tokenizer, save

# Of each family: a field (by its path) and another value of it that changes scores.
CHANGES: dict[str, dict[str, Any]] = {
    "gemma2": {
        "rope_parameters.rope_theta": 500.0,
        "rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0},
        "rms_norm_eps": 0.5,
        "hidden_activation": "relu",
        "final_logit_softcapping": 1.0,
        "sliding_window": 4,
        "layer_types": ["full_attention"] * 4,
        "query_pre_attn_scalar": 64,
    },
    "mixtral": {"num_experts_per_tok": 1},
    "gpt2": {"scale_attn_by_inverse_layer_idx": True, "layer_norm_epsilon": 0.5},
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("checkpoints")
    for family in CHANGES:
        make_checkpoint(family, root / family)
    return {family: root / family for family in CHANGES}


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    save(make_lm("llama", "mistral"), tmp_path / "llama")
    return tmp_path / "llama"


@pytest.mark.parametrize("family", CHANGES)
@pytest.mark.families("gpt2")
def test_a_changed_field_changes_scores_and_is_named(family: str, folders: dict[str, Path], tmp_path: Path):
    before = load_model(str(folders[family]))
    expected, identity = scores(before), before.identity()
    for path, value in CHANGES[family].items():
        folder = shutil.copytree(folders[family], tmp_path / path)
        content = json.loads((folder / "config.json").read_text("utf-8"))
        outer, _, inner = path.partition(".")
        write(folder / "config.json", {**content, outer: {**content[outer], inner: value} if inner else value})
        lm = load_model(str(folder))
        found = differences(identity, {**lm.identity(), "model": identity["model"]})
        assert not (scores(lm) - expected).abs().max() <= NOISE, path
        assert any(line.startswith(f"config.{path}") for line in found), (path, found)
        assert not any(line.startswith(("weights", "tokenizer")) for line in found)
        assert lm.fingerprint() != before.fingerprint()


def test_where_a_model_lies_and_who_saved_it_change_nothing(llama: Path, tmp_path: Path):
    lm = load_model(str(llama))
    before, prints = lm.identity(), lm.fingerprint()
    assert lm.identity(before["weights"]) == before == json.loads(json.dumps(before))
    save(lm, tmp_path / "again")  # which writes into the configuration in memory, too
    content = json.loads((tmp_path / "again" / "config.json").read_text("utf-8"))
    write(tmp_path / "again" / "config.json", {**content, "transformers_version": "1.0", "architectures": None})
    again = load_model(str(tmp_path / "again"))
    assert {**again.identity(), "model": before["model"]} == lm.identity() == before
    assert again.fingerprint() == lm.fingerprint() == prints
    assert "adapters" not in before and "code" not in before


def test_what_is_changed_in_memory_counts(llama: Path):
    lm = load_model(str(llama))
    before, prints = lm.identity(), lm.fingerprint()
    lm.model.config.rope_parameters["rope_theta"] = 500.0
    assert differences(before, lm.identity()) == ["config.rope_parameters.rope_theta: 10000.0 -> 500.0"]
    assert lm.fingerprint() != prints
    lm = load_model(str(llama))
    lm.model.set_attn_implementation("eager")
    assert differences(before, lm.identity()) == ["config.attn_implementation: 'sdpa' -> 'eager'"]


def test_precision_and_autocast_count():
    lm = make_lm("gpt2")
    before, precision = lm.identity(), torch.get_float32_matmul_precision()
    assert (before["float32_precision"], before["autocast"]) == ("ieee", None)
    try:
        torch.set_float32_matmul_precision("medium")
        assert differences(before, lm.identity()) == ["float32_precision: 'ieee' -> 'bf16'"]
    finally:
        torch.set_float32_matmul_precision(precision)
    with torch.autocast("cpu", torch.bfloat16):
        assert differences(before, lm.identity()) == ["autocast: None -> 'bfloat16'"]
    assert lm.identity() == before


def test_a_configuration_of_sets_infinities_and_unknown_objects_is_plain():
    lm = make_lm("gpt2")
    lm.model.config.odd = {"set": {3, 1}, "far": float("inf"), 2: (1, torch.float16)}
    found = lm.identity()["config"]["odd"]
    assert found == json.loads(json.dumps(found)) == {"2": [1, "torch.float16"], "far": "inf", "set": [1, 3]}


# Adapters


@pytest.fixture
def adapted(llama: Path, tmp_path: Path) -> Path:
    """A folder with an adapter, which transformers puts onto the model that its configuration names."""
    import peft

    made = peft.get_peft_model(
        transformers.AutoModelForCausalLM.from_pretrained(llama),
        peft.LoraConfig(r=2, lora_alpha=4, target_modules=["q_proj"], init_lora_weights=False, task_type="CAUSAL_LM"),
    )
    made.save_pretrained(tmp_path / "adapted")
    make_tokenizer("mistral").save_pretrained(tmp_path / "adapted")
    return tmp_path / "adapted"


def test_adapters_count_with_their_scaling(llama: Path, adapted: Path):
    plain, lm = load_model(str(llama)), load_model(str(adapted))
    identity, first = lm.identity(), scores(lm)
    assert (first - scores(plain)).abs().max() > NOISE and identity["adapters"] != plain.identity().get("adapters")
    assert load_model(str(adapted)).identity() == identity
    content = json.loads((adapted / "adapter_config.json").read_text("utf-8"))
    write(adapted / "adapter_config.json", {**content, "lora_alpha": 16})
    other = load_model(str(adapted))
    assert (scores(other) - first).abs().max() > NOISE and other.weights_fingerprint() == identity["weights"]
    found = differences(identity, other.identity())
    assert "adapters.configs.default.lora_alpha: 4 -> 16" in found
    assert other.fingerprint() != lm.fingerprint()


def test_what_is_done_to_adapters_in_memory_counts(adapted: Path):
    from peft.tuners.lora import LoraLayer

    lm = load_model(str(adapted))
    first, identity = scores(lm), lm.identity()
    layers = [m for m in lm.model.modules() if isinstance(m, LoraLayer)]
    layers[0].set_scale("default", 5)
    assert (scores(lm) - first).abs().max() > NOISE
    assert lm.identity()["weights"] == identity["weights"] and lm.identity() != identity
    layers[0].set_scale("default", 1)
    assert lm.identity() == identity
    lm.model.disable_adapters()
    assert (scores(lm) - first).abs().max() > NOISE and lm.identity() != identity


# Code that comes with a checkpoint

CODE = """
from transformers import LlamaConfig, LlamaForCausalLM
from .beside import SCALE

class OwnConfig(LlamaConfig):
    model_type = "own"

class OwnModel(LlamaForCausalLM):
    config_class = OwnConfig
    def forward(self, *args, **kwargs):
        out = super().forward(*args, **kwargs)
        out.logits = out.logits * SCALE
        return out
"""


def test_code_of_a_checkpoint_counts(llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(transformers.dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    content = json.loads((llama / "config.json").read_text("utf-8")) | {"model_type": "own"}
    content["auto_map"] = {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel"}
    found = []
    for name, code, beside in (("a", CODE, "SCALE = 1"), ("b", CODE, "SCALE = 2"), ("c", CODE + "\n", "SCALE = 1")):
        folder = shutil.copytree(llama, tmp_path / f"own_{name}")
        write(folder / "config.json", content)
        (folder / "own.py").write_text(code, "utf-8")
        (folder / "beside.py").write_text(beside, "utf-8")
        lm = load_model(str(folder), trust_remote_code=True)
        found.append((scores(lm), lm.identity(), lm.fingerprint()))
    (first, a, one), (other, b, two), (_, c, three) = found
    assert (first - other).abs().max() > NOISE
    assert a["weights"] == b["weights"] == c["weights"] and a["config"] == b["config"] == c["config"]
    assert set(a["code"]) == {"own"} and len({a["code"]["own"], b["code"]["own"], c["code"]["own"]}) == 3
    assert len({one, two, three}) == 3


# Tokenizers and generation


def test_special_tokens_and_how_texts_are_treated_count(tmp_path: Path):
    def printed(**changes: Any) -> tuple[str, Any]:
        tokenizer = make_tokenizer("mistral")
        tokenizer.chat_template = (
            "{{ bos_token }}{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}{{ pad_token }}"
        )
        for name, value in changes.items():
            setattr(tokenizer, name, value)
        return LanguageModel(None, tokenizer, "tiny").tokenizer_fingerprint(), tokenizer

    first, plain = printed()
    assert printed()[0] == first
    for name, value in {"eos_token": "<unk>", "bos_token": "</s>", "pad_token": "<unk>"}.items():
        other, tokenizer = printed(**{name: value})
        assert ChatTemplate(tokenizer).fill("?", ".") != ChatTemplate(plain).fill("?", ".")
        assert other != first
    texts = {"split_special_tokens": True, "clean_up_tokenization_spaces": True}
    assert len({first, *(printed(**{name: value})[0] for name, value in texts.items())}) == 3
    named = {"default": plain.chat_template, "tool_use": "x"}
    assert printed(chat_template=named)[0] != first
    assert printed(chat_template={**named, "tool_use": "y"})[0] != printed(chat_template=named)[0]


def test_settings_for_generation_change_nothing_that_is_written(llama: Path):
    prompts = ["Paris is the capital of", "In"]
    before = load_model(str(llama))
    expected = greedy_continuations(before, prompts, 12)
    changed: dict[str, Any] = {
        "do_sample": True, "temperature": 5.0, "repetition_penalty": 9.0, "no_repeat_ngram_size": 1, "eos_token_id": 5,
        "suppress_tokens": list(range(3, 400)), "forced_eos_token_id": 2, "min_length": 3, "max_length": 2,
        "bad_words_ids": [[9], [10]], "begin_suppress_tokens": list(range(3, 400)), "num_beams": 3, "top_k": 1,
        "pad_token_id": 2, "bos_token_id": 5, "exponential_decay_length_penalty": [1, 3.0], "use_cache": False,
    }  # fmt: skip
    lm = load_model(str(llama))
    lm.model.generation_config = transformers.GenerationConfig(**changed)
    ids = torch.tensor([before.tokenizer(prompts[0])["input_ids"]])
    settings = {"max_new_tokens": 12, "pad_token_id": 0, "do_sample": False, "num_beams": 1}
    own, other = (m.model.generate(ids, **settings).tolist() for m in (before, lm))
    assert own != other  # they do change what transformers would write
    assert greedy_continuations(lm, prompts, 12) == expected
    assert {**lm.identity(), "model": None} == {**before.identity(), "model": None}


# Edits in force


@pytest.fixture
def quantised() -> Iterator[LanguageModel]:
    yield make_quantised_lm("llama")


def test_an_edit_beside_quantised_weights_counts(quantised: LanguageModel):
    before, prints = quantised.identity(), quantised.fingerprint()
    module, seen = "model.layers.1.mlp.down_proj", []
    for size in (1.0, 2.0):
        edit = Edit({module: LowRank(torch.full((32, 1), size), torch.ones(1, 64))}, model=prints)
        with edited(quantised, edit) as lm:
            found = lm.identity()
            assert found["weights"] == before["weights"]
            seen.append(found["edit_beside"])
            assert lm.edit_of == prints
    assert seen[0] != seen[1]
    assert quantised.identity() == before and "edit_beside" not in before
