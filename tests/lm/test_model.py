"""Loading models, refusing what is not causal, and fingerprints."""

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from anachron.core.errors import ConfigError, ModelError
from anachron.lm.formats import Format
from anachron.lm.loading import load_model
from anachron.lm.model import LanguageModel, has_experts
from anachron.lm.tokenizers import demo_folder, load_tokenizer
from support.tiny_models import make_lm, make_tokenizer, save

PAIRS = [("In 1998, who was the president of France?", answer) for answer in ("Jacques Chirac", "Москва", "Paris")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save(make_lm("llama", "mistral"), tmp_path_factory.mktemp("model"))


def one_line(error: pytest.ExceptionInfo) -> str:
    assert "\n" not in str(error.value)
    return str(error.value)


def save_parts(model: object, folder: Path) -> str:
    model.save_pretrained(folder)  # type: ignore[attr-defined]
    make_tokenizer("gpt2").save_pretrained(folder)
    return str(folder)


# Loading


def test_a_saved_model_scores_as_before(folder: str):
    loaded = load_model(folder)
    assert (loaded.name, loaded.revision, loaded.dtype) == (folder, None, "float32")
    np.testing.assert_allclose(loaded.log_probs(PAIRS), make_lm("llama", "mistral").log_probs(PAIRS), atol=1e-5, rtol=0)
    assert not loaded.model.training


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_weights_come_in_the_dtype_asked_for(folder: str, dtype: str):
    loaded = load_model(folder, dtype=dtype)
    assert loaded.dtype == dtype
    assert {p.dtype for p in loaded.model.parameters()} == {getattr(torch, dtype)}


def test_auto_is_the_dtype_of_the_checkpoint(tmp_path: Path):
    lm = make_lm("gpt2")
    lm.model.to(torch.bfloat16)
    assert load_model(save(lm, tmp_path)).dtype == "bfloat16"


def test_contradictory_settings_are_refused(folder: str):
    with pytest.raises(ConfigError, match="float8"):
        load_model(folder, dtype="float8")
    with pytest.raises(ConfigError, match="either a device or a device map"):
        load_model(folder, device="cpu", device_map="auto")


def test_another_tokenizer_and_chat_template_can_be_given(folder: str, tmp_path: Path):
    make_tokenizer("gpt2").save_pretrained(tmp_path)
    template = "{% for m in messages %}{{ m.content }} {% endfor %}"
    loaded = load_model(folder, tokenizer=str(tmp_path), chat_template=template)
    assert loaded.tokenizer_fingerprint() != load_model(folder).tokenizer_fingerprint()
    assert np.isfinite(loaded.log_probs(PAIRS, style=Format(kind="chat"))).all()


def test_a_folder_without_a_model_is_an_error_in_one_line(tmp_path: Path):
    with pytest.raises(ModelError, match="cannot load a tokenizer") as error:
        load_model(str(tmp_path))
    assert str(tmp_path) in one_line(error)


def test_a_tokenizer_alone_is_an_error_in_one_line(tmp_path: Path):
    make_tokenizer("gpt2").save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="cannot load a causal language model") as error:
        load_model(str(tmp_path))
    assert str(tmp_path) in one_line(error)


def test_damaged_weights_are_an_error_in_one_line(tmp_path: Path):
    name = save(make_lm("gpt2"), tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"junk")
    with pytest.raises(ModelError, match="cannot load a causal language model") as error:
        load_model(name)
    one_line(error)


def test_an_unknown_device_is_an_error_in_one_line(folder: str):
    with pytest.raises(ModelError, match="cannot put") as error:
        load_model(folder, device="nonsense")
    one_line(error)


# Not causal


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_an_encoder_is_refused(tmp_path: Path, dtype: str):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = transformers.BertConfig(
            vocab_size=576, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64
        )
        name = save_parts(transformers.BertForMaskedLM(config), tmp_path)
    with pytest.raises(ModelError, match="not a causal") as error:
        load_model(name, dtype=dtype)
    one_line(error)


def test_an_encoder_decoder_is_refused(tmp_path: Path):
    config = transformers.T5Config(vocab_size=576, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
    name = save_parts(transformers.T5ForConditionalGeneration(config), tmp_path)
    with pytest.raises(ModelError, match="causal") as error:
        load_model(name)
    one_line(error)


# Tokenizers and lengths


def test_a_tokenizer_without_offsets_is_refused():
    lm = LanguageModel(make_lm("gpt2").model, transformers.ByT5Tokenizer(), "tiny")
    with pytest.raises(ModelError, match="no character offsets"):
        lm.log_probs(PAIRS)


def test_the_context_may_be_filled_but_not_exceeded():
    lm = make_lm("gpt2", max_position_embeddings=16)
    assert lm.context_length == 16
    fits = "In" + " the" * 15  # 16 tokens; the answer makes 17, and the last is never fed
    assert len(lm.tokenizer(fits + " of")["input_ids"]) == 17
    assert np.isfinite(lm.log_probs([(fits, "of")])).all()
    with pytest.raises(ModelError, match="text 2 has 18 tokens, more than the 16"):
        lm.log_probs([(fits, "of"), (fits + " the", "of")])


# Fingerprints


def test_the_fingerprint_of_the_weights_is_that_of_the_weights_alone(folder: str):
    lm = make_lm("llama", "mistral")
    first = lm.weights_fingerprint()
    lm.log_probs(PAIRS)
    assert lm.weights_fingerprint() == first == load_model(folder).weights_fingerprint()
    assert make_lm("llama", "mistral", seed=1).weights_fingerprint() != first
    lm.model.config.rms_norm_eps = 0.5
    assert lm.weights_fingerprint() == first


@pytest.mark.parametrize("name", [name for name, _ in make_lm("llama").model.named_parameters()])
def test_the_fingerprint_changes_with_any_one_weight_matrix(name: str):
    lm = make_lm("llama")
    first = lm.fingerprint()
    with torch.no_grad():
        lm.model.get_parameter(name).mul_(1.01)
    assert lm.fingerprint() != first


def test_the_fingerprint_reads_states_that_no_module_owns():
    """As quantised weights have them: `weight.absmax` beside `weight`."""

    def with_scale(value: float) -> str:
        lm = make_lm("llama")
        lm.model.lm_head.register_state_dict_post_hook(
            lambda module, state, prefix, _: state.update({f"{prefix}weight.absmax": torch.tensor([value])})
        )
        assert "lm_head.weight.absmax" in lm.model.state_dict()
        return lm.fingerprint()

    assert with_scale(1.0) == with_scale(1.0) != with_scale(2.0)


def test_the_fingerprint_changes_with_the_dtype(folder: str):
    assert load_model(folder, dtype="bfloat16").fingerprint() != load_model(folder).fingerprint()


def test_the_fingerprint_of_a_tokenizer_is_that_of_its_definition(folder: str):
    first = make_tokenizer("mistral")
    lm = LanguageModel(None, first, "tiny")
    printed = lm.tokenizer_fingerprint()
    assert printed == LanguageModel(None, load_tokenizer(folder), "tiny").tokenizer_fingerprint()
    first.chat_template = "{{ messages[0].content }}"
    assert lm.tokenizer_fingerprint() != printed
    assert LanguageModel(None, make_tokenizer("eos"), "tiny").tokenizer_fingerprint() != printed


def test_scoring_leaves_the_tokenizers_fingerprint_as_it_was():
    lm = make_lm("gpt2")
    lm.tokenizer.backend_tokenizer.enable_padding(length=64)  # as many published tokenizer.json have it
    lm.tokenizer.backend_tokenizer.enable_truncation(4)
    first = lm.tokenizer_fingerprint()
    np.testing.assert_allclose(lm.log_probs(PAIRS), make_lm("gpt2").log_probs(PAIRS), atol=1e-5, rtol=0)
    assert lm.tokenizer_fingerprint() == first


# The bundled model

needs_demo = pytest.mark.skipif(
    not (demo_folder() / "model.safetensors").is_file(), reason="the demo model is not in this checkout"
)


@needs_demo
def test_the_untrained_twin_leaves_the_random_state_alone():
    torch.manual_seed(11)
    state = torch.get_rng_state()
    twin = load_model("demo-untrained")
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(12)
    assert load_model("demo-untrained").fingerprint() == twin.fingerprint()


@needs_demo
def test_the_untrained_twin_has_the_demos_shape_and_other_weights():
    demo, twin = load_model("demo"), load_model("demo-untrained")
    shapes = [{name: t.shape for name, t in lm.model.state_dict().items()} for lm in (demo, twin)]
    assert shapes[0] == shapes[1] and demo.fingerprint() != twin.fingerprint()
    assert demo.tokenizer_fingerprint() == twin.tokenizer_fingerprint()
    assert np.abs(demo.log_probs(PAIRS) - twin.log_probs(PAIRS)).min() > 0.01


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("Mixtral", True), ("Qwen3Moe", True), ("Dbrx", True), ("DeepseekV3", True), ("GPT2", False), ("Gemma2", False)],
)
def test_a_mixture_of_experts_is_known_by_its_configuration(kind: str, expected: bool):
    assert has_experts(getattr(transformers, f"{kind}Config")()) is expected
