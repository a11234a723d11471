"""Tiny models written as GGUF files, as the converters of llama.cpp write them: names, order of rows, tokenizer."""

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter

from anachron.lm.model import LanguageModel
from support.architectures import make_architecture
from support.tiny_models import make_model, make_tokenizer

F32, Q8_0 = GGMLQuantizationType.F32, GGMLQuantizationType.Q8_0
CHAT = (
    "{% for m in messages %}{% if loop.first and m['role'] != 'system' %}<s>system\nYou help.</s>\n{% endif %}"
    "<s>{{ m['role'] }}\n{{ m['content'] }}</s>\n{% endfor %}{% if add_generation_prompt %}<s>assistant\n{% endif %}"
)
ARCHITECTURE = {"llama": "llama", "gemma3_text": "gemma3"}
_NORMAL, _UNKNOWN, _CONTROL, _BYTE = 1, 2, 3, 6


def make_gguf_lm(family: str = "llama", **changes: Any) -> LanguageModel:
    """A model whose vocabulary is that of its tokenizer, as GGUF files have it; byte-level for Llama.

    rms_norm_eps is a number of 32 bits, as files hold it.
    """
    tokenizer = make_tokenizer("gpt2" if family == "llama" else "mistral")
    tokenizer.chat_template = CHAT
    changes = {"vocab_size": len(tokenizer), "rms_norm_eps": float(np.float32(1e-6)), **changes}
    model = make_model(family, **changes) if family == "llama" else make_architecture(family, **changes)
    return LanguageModel(model, tokenizer, f"tiny-{family}")


def write_gguf(
    lm: LanguageModel, path: Path, *, kind: GGMLQuantizationType = F32, without: str | None = None,
    extra: dict[str, np.ndarray] | None = None, architecture: str | None = None, cut: str = "gpt-2", **about: Any,
) -> str:  # fmt: skip
    """Write a Llama or Gemma 3; returns the path as a model's name.

    kind: of matrices. without: name of a tensor to leave out. extra: tensors besides. cut: ``tokenizer.ggml.pre``.
    about: further metadata, or other than the model's (None: left out), ``__`` for a dot in their names.
    """
    config, family = lm.model.config, ARCHITECTURE[lm.model.config.model_type]
    named = architecture or family
    writer = GGUFWriter(str(path), named)
    writer.add_name("tiny")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    rope = config.rope_parameters
    writer.add_rope_freq_base(rope.get("full_attention", rope)["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    if family == "gemma3":
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)
        writer.add_sliding_window(config.sliding_window)
    _add_tokenizer(writer, lm.tokenizer, cut)
    for name, value in about.items():
        for held in writer.kv_data:
            held.pop(name.replace("__", "."), None)
        if value is None:
            continue
        kind_of = gguf.GGUFValueType.UINT32 if type(value) is int else gguf.GGUFValueType.get_type(value)
        writer.add_key_value(name.replace("__", "."), value, kind_of)
    for name, tensor in {**tensors(lm.model), **(extra or {})}.items():
        if name != without:
            whole = tensor.ndim < 2 or kind == F32
            data = tensor if whole else gguf.quantize(tensor, kind)
            writer.add_tensor(name, data, raw_dtype=None if whole else kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return str(path)


def tensors(model: Any) -> dict[str, np.ndarray]:
    """Weights by their names in GGUF; of a Llama, rows of queries and keys in pairs that turn together."""
    config = model.config
    kinds = {"llama": gguf.MODEL_ARCH.LLAMA, "gemma3_text": gguf.MODEL_ARCH.GEMMA3}
    table = gguf.get_tensor_name_map(kinds[config.model_type], config.num_hidden_layers)
    found = {}
    for key, weight in model.state_dict().items():
        module, _, part = key.rpartition(".")
        if key == "lm_head.weight" and config.tie_word_embeddings:
            continue
        array = weight.numpy().astype(np.float32)
        if config.model_type == "llama" and module.endswith(("q_proj", "k_proj")):
            heads = config.num_attention_heads if module.endswith("q_proj") else config.num_key_value_heads
            array = array.reshape(heads, 2, -1, array.shape[1]).swapaxes(1, 2).reshape(array.shape)
        if config.model_type == "gemma3_text" and "norm" in module:
            array = array + 1
        found[f"{table.get_name(module)}.{part}"] = np.ascontiguousarray(array)
    return found


def _add_tokenizer(writer: GGUFWriter, tokenizer: Any, cut: str) -> None:
    definition = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    vocabulary = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
    byte_level = "ByteLevel" in type(tokenizer.backend_tokenizer.decoder).__name__
    kinds = {"<unk>": _UNKNOWN if not byte_level else _CONTROL, "<s>": _CONTROL, "</s>": _CONTROL}
    kinds |= {f"<0x{byte:02X}>": _BYTE for byte in range(256)}
    writer.add_tokenizer_model("gpt2" if byte_level else "llama")
    writer.add_tokenizer_pre(cut if byte_level else "default")
    writer.add_token_list(vocabulary)
    writer.add_token_types([kinds.get(token, _NORMAL) for token in vocabulary])
    if not byte_level:
        writer.add_token_scores([-float(i) for i in range(len(vocabulary))])
    writer.add_token_merges([" ".join(pair) for pair in definition["merges"]])
    writer.add_bos_token_id(vocabulary.index("<s>"))
    writer.add_eos_token_id(vocabulary.index("</s>"))
    writer.add_unk_token_id(vocabulary.index("<unk>"))
    writer.add_add_bos_token(not byte_level)
    writer.add_add_space_prefix(False)
    writer.add_chat_template(CHAT)
