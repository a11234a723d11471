"""Keys of GGUF files against llama.cpp: each is in the scores of transformers as in its own, or refused."""

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import transformers
from tokenizers import normalizers

from anachron.core.errors import ModelError
from anachron.lm.gguf.header import Header, read_header
from anachron.lm.gguf.keys import HARMLESS, keys_left_out, put_into, tokenizer_keys_left_out
from anachron.lm.gguf.llamacpp import LlamaModel
from anachron.lm.gguf.unread_keys import keys_unread
from anachron.lm.loading import load_model
from anachron.lm.model import LanguageModel
from anachron.lm.tokenizers import load_tokenizer
from support.gguf_models import make_gguf_lm, write_gguf
from support.tiny_models import make_model, make_tokenizer

pytestmark = pytest.mark.full

PAIRS = [
    ("In 1990, who led the country and the city of the north in the west?", "Helmut Kohl"),
    ("In 1991, who was the president of France and the king?", "Jacques Chirac, 12,345"),
]
CLOSE = {"llama": 1e-3, "gemma3": 1e-2}  # of gemma3, llama.cpp takes GELU from a table in float16
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "gemma3": {"query_pre_attn_scalar": 8, "num_hidden_layers": 6, "layer_types": None, "sliding_window": 16},
}
REFUSED, SAME = "refused", "same"
# The model's keys without its architecture's name: values, and what becomes of them in each family, where that is fixed
ISSUE: list[tuple[dict[str, Any], str]] = [
    ({"rope__scale_linear": 4.0}, SAME),
    ({"rope__scaling__factor": 4.0}, SAME),
    ({"rope__scaling__attn_factor": 1.5}, REFUSED),
    ({"attention__causal": False}, REFUSED),
]
TABLE: list[tuple[dict[str, Any], str]] = [
    ({"rope__scaling__factor": 4.0, "rope__scaling__type": "linear"}, SAME),
    ({"rope__scaling__factor": 4.0, "rope__scaling__type": "none"}, SAME),
    ({"rope__scaling__factor": 4.0, "rope__scaling__type": "yarn"}, REFUSED),
    ({"rope__scaling__type": "linear"}, SAME),
    ({"rope__scaling__factor": 1.0, "rope__scale_linear": 4.0}, SAME),
    ({"rope__scaling__factor": 0.0}, SAME),
    ({"rope__scaling__attn_factor": 1.0}, SAME),
    ({"rope__scaling__original_context_length": 64}, SAME),
    ({"rope__scaling__yarn_ext_factor": 1.0}, REFUSED),
    ({"rope__scaling__yarn_attn_factor": 2.0}, REFUSED),
    ({"rope__scaling__yarn_log_multiplier": 2.0}, REFUSED),
    ({"rope__scaling__yarn_beta_fast": 4.0}, SAME),
    ({"rope__scaling__finetuned": True}, SAME),
    ({"rope__scaling__alpha": 2.0}, REFUSED),
    ({"rope__freq_base": 500.0}, SAME),
    ({"rope__dimension_count": 8}, SAME),
    ({"rope__dimension_count": 4}, REFUSED),
    ({"attention__causal": True}, SAME),
    ({"attention__key_length": 8, "attention__value_length": 8}, SAME),
    ({"attention__scale": 0.1}, REFUSED),
    ({"attention__clamp_kqv": 0.1}, REFUSED),
    ({"attention__max_alibi_bias": 8.0}, REFUSED),
    ({"attention__temperature_length": 8}, REFUSED),
    ({"attention__output_scale": 2.0}, REFUSED),
    ({"attn_logit_softcapping": 2.0}, REFUSED),
    ({"final_logit_softcapping": 2.0}, REFUSED),
    ({"final_logit_softcapping": 0.0}, SAME),
    ({"logit_scale": 2.0}, REFUSED),
    ({"residual_scale": 2.0}, REFUSED),
    ({"embedding_scale": 2.0}, REFUSED),
    ({"attention__layer_norm_rms_epsilon": 0.5}, SAME),
    ({"attention__sliding_window": 4}, ""),
    ({"attention__sliding_window": 4096}, ""),
    ({"attention__sliding_window": 0}, ""),
    ({"attention__sliding_window_pattern": 2}, ""),
    ({"rope__freq_base_swa": 500.0}, ""),
    ({"expert_count": 0, "expert_used_count": 0}, SAME),
    ({"pooling_type": 0}, SAME),
    ({"tensor_data_layout": "Meta AI original pth"}, SAME),
    ({"a_key_of_tomorrow": 1}, REFUSED),
]


def told(changes: dict[str, Any], outcome: str) -> str:
    return ",".join(f"{key}={value}" for key, value in changes.items()) + f" {outcome}"


def written(family: str, path: Path, changes: dict[str, Any]) -> str:
    named = {f"{family}__{key}": value for key, value in changes.items()}
    return write_gguf(make_gguf_lm(family, **FAMILIES[family]), path, **named)


def check(family: str, changes: dict[str, Any], outcome: str, path: Path) -> None:
    """Our scores are those of llama.cpp, or the message names a key that was changed."""
    name = written(family, path, changes)
    try:
        ours = load_model(name)
    except ModelError as error:
        assert outcome != SAME, error
        assert re.search(r"transformers [\d.]+ leaves out [a-z]", str(error)) and "\n" not in str(error)
        return
    assert outcome != REFUSED
    theirs = LlamaModel(name, ours.tokenizer)
    np.testing.assert_allclose(ours.log_probs(PAIRS), theirs.log_probs(PAIRS), atol=CLOSE[family])


@pytest.mark.parametrize(("changes", "outcome"), ISSUE, ids=[told(*row) for row in ISSUE])
def test_keys_that_transformers_leaves_out_are_put_in_or_refused(changes: dict[str, Any], outcome: str, tmp_path: Path):
    check("llama", changes, outcome, tmp_path / "tiny.gguf")


@pytest.mark.share(2)
@pytest.mark.full
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("changes", "outcome"), ISSUE + TABLE, ids=[told(*row) for row in ISSUE + TABLE])
def test_every_key_is_as_in_llama_cpp_or_refused(family: str, changes: dict[str, Any], outcome: str, tmp_path: Path):
    check(family, changes, outcome, tmp_path / "tiny.gguf")


# What llama.cpp passes over


@pytest.mark.full
@pytest.mark.parametrize("family", FAMILIES)
def test_the_keys_that_llama_cpp_does_not_read_change_none_of_its_scores(family: str, tmp_path: Path):
    """And those that it is known to read, and that change scores of a text so short, do."""
    path = written(family, tmp_path / "t.gguf", {})
    tokenizer = load_tokenizer(path)
    plain = LlamaModel(path, tokenizer).log_probs(PAIRS)
    unread = []
    for changes, _ in TABLE:
        path = written(family, tmp_path / "t.gguf", changes)
        if told_of := keys_unread(read_header(Path(path))):
            unread += told_of
            np.testing.assert_allclose(LlamaModel(path, tokenizer).log_probs(PAIRS), plain, atol=1e-6)
    assert len(unread) >= 14, unread


def test_what_llama_cpp_does_not_read_is_told_and_what_is_not_causal_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    path = written("llama", tmp_path / "t.gguf", {"final_logit_softcapping": 2.0, "rope__scaling__factor": 2.0})
    load_model(path, backend="llama.cpp")
    assert "llama.cpp does not read final_logit_softcapping 2.0" in caplog.text and "factor" not in caplog.text
    path = written("llama", tmp_path / "t.gguf", {"attention__causal": False})
    with pytest.raises(ModelError, match="choose a causal model"):
        load_model(path, backend="llama.cpp")


# Tokens of a text

TEXTS = [
    "In 1998, who",
    " In 1998",
    "  two spaces\n\tx",
    "<s> In 1998</s> and more",
    "Zürich 東京",
    "Москва 12,345",
    "",
]


def sentencepiece() -> LanguageModel:
    tokenizer = make_tokenizer("mistral")
    changes = {"vocab_size": len(tokenizer), "rms_norm_eps": float(np.float32(1e-6))}
    return LanguageModel(make_model("llama", **changes), tokenizer, "tiny-sentencepiece")


def check_tokens(path: str, texts: list[str] = TEXTS) -> None:
    tokenizer = load_tokenizer(path)
    theirs = LlamaModel(path, tokenizer, own_tokens=False)
    for text in texts:
        assert tokenizer(text)["input_ids"] == theirs.llama_tokens(text, special=True), text


@pytest.mark.parametrize("prefix", [True, False, None])
def test_a_space_is_put_before_texts_as_the_file_says(prefix: bool | None, tmp_path: Path):
    check_tokens(write_gguf(sentencepiece(), tmp_path / "t.gguf", tokenizer__ggml__add_space_prefix=prefix))


def test_a_file_without_such_a_space_has_the_fingerprint_of_its_folder(tmp_path: Path):
    """As Gemma's: its folder puts marks for spaces and nothing before a text."""
    made = sentencepiece()
    made.tokenizer.backend_tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    made.tokenizer.backend_tokenizer.pre_tokenizer = None
    path = write_gguf(made, tmp_path / "t.gguf", tokenizer__ggml__add_space_prefix=False)
    (found, wanted) = (json.loads(t.backend_tokenizer.to_str()) for t in (load_tokenizer(path), made.tokenizer))
    assert found["normalizer"] == wanted["normalizer"] and found["pre_tokenizer"] is None


@pytest.mark.parametrize("role", ["padding", "unknown"])
def test_files_that_say_minus_one_for_no_token_are_read_with_the_models_own_tokenizer(role: str, tmp_path: Path):
    made = make_gguf_lm()
    path = write_gguf(made, tmp_path / "t.gguf", **{f"tokenizer__ggml__{role}_token_id": 2**32 - 1})
    with pytest.raises(ModelError, match=rf"{role}_token_id is 4294967295, which says that there is none.*--tokenizer"):
        load_model(path)
    made.tokenizer.save_pretrained(tmp_path / "words")
    for backend in ("transformers", "llama.cpp"):
        lm = load_model(path, backend=backend, tokenizer=str(tmp_path / "words"))
        np.testing.assert_allclose(lm.log_probs(PAIRS), made.log_probs(PAIRS), atol=1e-3)


def test_ids_of_several_ends_are_read(tmp_path: Path):
    """As Ollama writes them besides the one; no token of a text depends on them."""
    path = write_gguf(make_gguf_lm(), tmp_path / "t.gguf", tokenizer__ggml__eos_token_ids=[1, 2])
    assert load_tokenizer(path)("In 1998")["input_ids"]


@pytest.mark.parametrize("key", ["add_sep_token", "normalizer.lowercase", "normalizer.strip_accents", "of_tomorrow"])
def test_keys_of_the_tokenizer_that_nobody_reads_are_refused(key: str, tmp_path: Path):
    path = write_gguf(make_gguf_lm(), tmp_path / "t.gguf", **{f"tokenizer__ggml__{key.replace('.', '__')}": True})
    with pytest.raises(ModelError, match=rf"leaves out tokenizer\.ggml\.{re.escape(key)} True"):
        load_tokenizer(path)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["bpe", "sentencepiece", "gemma"])
@pytest.mark.parametrize("value", [True, False, None])
@pytest.mark.parametrize("key", ["add_space_prefix", "add_bos_token", "add_eos_token", "remove_extra_whitespaces"])
def test_every_key_of_the_tokenizer_is_as_in_llama_cpp(kind: str, key: str, value: bool | None, tmp_path: Path):
    made = {"bpe": make_gguf_lm, "sentencepiece": sentencepiece, "gemma": partial(make_gguf_lm, "gemma3")}[kind]
    check_tokens(write_gguf(made(), tmp_path / "t.gguf", **{f"tokenizer__ggml__{key}": value}))


@pytest.mark.parametrize("begun", [None, False])
@pytest.mark.parametrize("cut", ["llama-bpe", pytest.param("tekken", marks=pytest.mark.full)])
def test_whole_words_and_bos_are_as_the_vocabularies_name_says(
    cut: str, begun: bool | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Without its last merges some tokens are reached only as whole words, which llama.cpp looks for first."""
    add = gguf.GGUFWriter.add_token_merges
    monkeypatch.setattr(gguf.GGUFWriter, "add_token_merges", lambda self, merges: add(self, list(merges)[:-60]))
    made = make_gguf_lm()
    path = write_gguf(made, tmp_path / "t.gguf", cut=cut, tokenizer__ggml__add_bos_token=begun)
    words = [made.tokenizer.decode([token]) for token in range(len(made.tokenizer) - 25, len(made.tokenizer))]
    check_tokens(path, words + TEXTS)
    pieces, whole = load_tokenizer(path), load_tokenizer(path)
    pieces.backend_tokenizer.model.ignore_merges = False
    assert any(pieces(word)["input_ids"] != whole(word)["input_ids"] for word in words)


# Files of the families, as the converters of llama.cpp write their keys

COMMON = {"context_length": 4096, "embedding_length": 256, "block_count": 6, "feed_forward_length": 512}
HEADS = {"attention.head_count": 4, "attention.head_count_kv": 2}
RMS, NORM = {"attention.layer_norm_rms_epsilon": 1e-6}, {"attention.layer_norm_epsilon": 1e-5}
WIDTH = {"attention.key_length": 64, "attention.value_length": 64}
ROPE = {"rope.freq_base": 1e6, "rope.dimension_count": 64}
CAPS = {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}
WRITTEN: dict[str, dict[str, Any]] = {
    "llama": {**COMMON, **HEADS, **RMS, **ROPE, "vocab_size": 4},
    "llama of now": {**COMMON, **HEADS, **RMS, **ROPE, **WIDTH, "vocab_size": 4, "expert_count": 0},
    "qwen2": {**COMMON, **HEADS, **RMS, "rope.freq_base": 1e6},
    "qwen3": {**COMMON, **HEADS, **RMS, **WIDTH, "rope.freq_base": 1e6},
    "qwen2moe": {
        **COMMON, **HEADS, **RMS, "rope.freq_base": 1e6, "expert_count": 8, "expert_used_count": 2,
        "expert_feed_forward_length": 128, "expert_shared_feed_forward_length": 512,
    },
    "qwen3moe": {
        **COMMON, **HEADS, **RMS, **WIDTH, "rope.freq_base": 1e6, "expert_count": 8, "expert_used_count": 2,
        "expert_feed_forward_length": 128,
    },
    "gemma2": {**COMMON, **HEADS, **RMS, **WIDTH, **CAPS, "attention.sliding_window": 4096},
    "gemma3": {**COMMON, **HEADS, **RMS, **WIDTH, "rope.freq_base": 1e6, "attention.sliding_window": 512},
    "gemma3 wide": {
        **COMMON, **HEADS, **RMS, **WIDTH, "rope.freq_base": 1e6, "attention.sliding_window": 1024,
        "rope.scaling.type": "linear", "rope.scaling.factor": 8.0,
    },
    "phi3": {
        **COMMON, **HEADS, **RMS, "rope.dimension_count": 64, "rope.freq_base": 1e4,
        "rope.scaling.original_context_length": 4096, "attention.sliding_window": 2047,
    },
    "gpt2": {**COMMON, "attention.head_count": 4, **NORM},
    "bloom": {
        **{k: v for k, v in COMMON.items() if k != "feed_forward_length"}, "feed_forward_length": 1024, **NORM,
        "attention.head_count": 4, "attention.head_count_kv": 4,
    },
    "starcoder2": {**COMMON, **HEADS, **NORM, "rope.freq_base": 1e5},
    "falcon": {
        **COMMON, "attention.head_count": 4, "attention.head_count_kv": 1, **NORM, "tensor_data_layout": "jploski",
    },
    "stablelm": {
        **COMMON, **HEADS, **NORM, "rope.dimension_count": 16, "use_parallel_residual": True,
    },
    "nemotron": {**COMMON, **HEADS, **NORM, "rope.dimension_count": 32, "vocab_size": 4, "rope.scaling.type": "none"},
    "mamba": {
        "context_length": 1048576, "embedding_length": 256, "feed_forward_length": 0, "attention.head_count": 0,
        "block_count": 6, "ssm.conv_kernel": 4, "ssm.inner_size": 512, "ssm.state_size": 16, "ssm.time_step_rank": 16,
        **RMS, "ssm.dt_b_c_rms": False,
    },
}  # fmt: skip
ABOUT = {
    "general.name": "m", "general.file_type": 1, "general.quantization_version": 2, "general.size_label": "7B",
    "general.sampling.temp": 0.7, "general.base_model.0.name": "b", "quantize.imatrix.file": "i",
    "mradermacher.quantized_by": "m", "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2",
    "tokenizer.ggml.tokens": ["a", "b", "c", "d"], "tokenizer.ggml.token_type": [1, 1, 1, 3],
    "tokenizer.ggml.merges": ["a b"], "tokenizer.ggml.bos_token_id": 3, "tokenizer.ggml.eot_token_id": 3,
    "tokenizer.ggml.fim_pre_token_id": 3, "tokenizer.ggml.add_bos_token": False, "tokenizer.chat_template": "x",
    "tokenizer.chat_template.tool_use": "y", "tokenizer.chat_templates": ["tool_use"],
}  # fmt: skip


def header_of(architecture: str, said: dict[str, Any], path: Path) -> Header:
    """A file without tensors."""
    writer = gguf.GGUFWriter(str(path), architecture)
    for key, value in {**{f"{architecture}.{key}": value for key, value in said.items()}, **ABOUT}.items():
        whole = gguf.GGUFValueType.UINT32 if type(value) is int else gguf.GGUFValueType.get_type(value)
        writer.add_key_value(key, value, whole)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    return read_header(path)


@pytest.mark.parametrize("name", WRITTEN)
def test_the_keys_that_converters_write_for_a_family_are_accepted(name: str, tmp_path: Path):
    header = header_of(name.split()[0], WRITTEN[name], tmp_path / "keys.gguf")
    config = transformers.AutoConfig.from_pretrained(str(tmp_path), gguf_file=str(tmp_path / "keys.gguf"))
    put_into(header, config)
    assert keys_left_out(header, config.get_text_config()) == []
    assert tokenizer_keys_left_out(header) == []


def test_the_largest_gemma_divides_by_its_width_by_heads(tmp_path: Path):
    """llama.cpp knows the models of 27B by their number of layers; files do not say it."""
    for name, blocks in (("gemma2", 46), ("gemma3", 62)):
        for layers, width in ((blocks, 32), (blocks - 1, 64)):
            said = {**WRITTEN[name], "block_count": layers, "attention.head_count": 8}
            header = header_of(name, said, tmp_path / "keys.gguf")
            config = transformers.AutoConfig.from_pretrained(str(tmp_path), gguf_file=str(tmp_path / "keys.gguf"))
            put_into(header, config)
            assert config.query_pre_attn_scalar == width
            assert keys_left_out(header, config) == []


def test_what_a_file_means_by_saying_nothing_is_compared_too(tmp_path: Path):
    """Without a number of heads of keys it has as many as of queries; transformers takes that of another model."""
    said = {key: value for key, value in WRITTEN["qwen2"].items() if key != "attention.head_count_kv"}
    header = header_of("qwen2", said, tmp_path / "keys.gguf")
    config = transformers.AutoConfig.from_pretrained(str(tmp_path), gguf_file=str(tmp_path / "keys.gguf"))
    assert "attention.head_count_kv 4 (it takes 32)" in keys_left_out(header, config)


def test_keys_of_another_architecture_are_refused_and_notes_of_programs_are_not(tmp_path: Path):
    """transformers takes the former for the model's own, llama.cpp does not."""
    path = write_gguf(make_gguf_lm(), tmp_path / "t.gguf", qwen2__rope__freq_base=500.0, someone__wrote="this")
    with pytest.raises(ModelError, match=r"leaves out qwen2\.rope\.freq_base 500"):
        load_model(path)


WITHOUT_EFFECT = {  # on a model without a window and without stretched positions
    "rope.scaling.original_context_length", "attention.sliding_window_pattern", "attention.key_length_swa",
    "attention.value_length_swa", "rope.dimension_count_swa", "rope.freq_base_swa",
}  # fmt: skip


def test_no_key_of_the_format_is_accepted_with_a_value_that_the_model_does_not_hold(tmp_path: Path):
    """Of all that the package gguf can write, but for what says nothing of the arithmetic."""
    header_of("llama", WRITTEN["llama"], tmp_path / "keys.gguf")
    config = transformers.AutoConfig.from_pretrained(str(tmp_path), gguf_file=str(tmp_path / "keys.gguf"))
    groups = [group for group in vars(gguf.Keys).values() if isinstance(group, type)]
    groups += [inner for group in groups for inner in vars(group).values() if isinstance(inner, type)]
    names = {
        value for group in groups for name, value in vars(group).items()
        if isinstance(value, str) and not name.startswith("__")
    }  # fmt: skip
    keys = {name.removeprefix("{arch}.") for name in names if name.startswith("{arch}.")}
    assert len(keys) > 100
    for key in keys - HARMLESS - WITHOUT_EFFECT:
        said = {f"llama.{name}": value for name, value in {**WRITTEN["llama"], key: 0.123}.items()}
        header = Header({"general.architecture": "llama", **said}, ())
        assert key in [line.split()[0] for line in keys_left_out(header, config)]
    for key in names - {name for name in names if name.startswith(("{arch}", "general.", "split.", "imatrix."))}:
        header = Header({"general.architecture": "llama", key.format(name="x"): True}, ())
        left_out = [*keys_left_out(header, config), *tokenizer_keys_left_out(header)]
        assert key.startswith("tokenizer.") or any(key in line for line in left_out), key
