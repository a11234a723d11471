"""Which keys of a GGUF file change scores and are not in the model that transformers made of it.

transformers reads some keys and passes over the others in silence. Here a key is accepted only where the model's
configuration holds its value, or its value changes nothing, or it says nothing of the arithmetic; every other key is
left out, also one that nobody knows. What a key means is what llama.cpp makes of it, which tests compare with.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from anachron.lm.gguf.header import NO_TOKEN, Header, is_number

# Of the model, without its architecture's name. No score of a text depends on these: texts have no images, answers are
# not pooled, and a number of rows that tensors do not have is refused when they are put into the model.
HARMLESS = {
    "vocab_size", "embedding_length", "feed_forward_length", "block_count", "expert_feed_forward_length",
    "expert_shared_feed_forward_length", "pooling_type", "tensor_data_layout", "rope.scaling.finetuned",
    "rope.dimension_sections", "rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow",
}  # fmt: skip
# Values at which a key changes nothing
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "attention.causal": (True,),
    "attention.head_count": (0,),
    "attention.sliding_window": (0,),
    "attention.max_alibi_bias": (0,),
    "attention.clamp_kqv": (0,),
    "attention.scale": (0,),
    "attention.output_scale": (0, 1),
    "attention.temperature_length": (0,),
    "attention.temperature_scale": (0,),
    "attention.shared_kv_layers": (0,),
    "attn_logit_softcapping": (0,),
    "final_logit_softcapping": (0,),
    "router_logit_softcapping": (0,),
    "logit_scale": (0, 1),
    "residual_scale": (0, 1),
    "embedding_scale": (0, 1),
    "expert_count": (0,),
    "expert_used_count": (0,),
    "expert_shared_count": (0,),
    "expert_group_count": (0,),
    "expert_group_used_count": (0,),
    "expert_weights_scale": (0, 1),
    "expert_gating_func": (0, 1),
    "leading_dense_block_count": (0,),
    "rope.scaling.type": ("none",),
    "rope.scaling.factor": (0, 1),
    "rope.scale_linear": (0, 1),
    "rope.scaling.attn_factor": (1,),
    "rope.scaling.alpha": (0,),
    "rope.scaling.yarn_ext_factor": (0, -1),
    "rope.scaling.yarn_attn_factor": (1,),
    "rope.scaling.yarn_log_multiplier": (0,),
    "ssm.dt_b_c_rms": (False,),
    "nextn_predict_layers": (0,),
    "classifier.output_labels": (0,),
}
# Where a configuration holds a value: the first of these fields that it has and that is not empty
FIELDS: dict[str, tuple[str, ...]] = {
    "attention.head_count": ("num_attention_heads", "n_head", "num_heads"),
    "attention.head_count_kv": ("num_key_value_heads", "num_kv_heads", "num_attention_heads", "n_head"),
    "attention.layer_norm_rms_epsilon": ("rms_norm_eps", "norm_eps", "layer_norm_epsilon"),
    "attention.layer_norm_epsilon": ("layer_norm_epsilon", "layer_norm_eps", "norm_epsilon", "norm_eps"),
    "attention.clamp_kqv": ("clip_qkv",),
    "attention.shared_kv_layers": ("num_kv_shared_layers",),
    "attention.relative_buckets_count": ("relative_attention_num_buckets",),
    "attn_logit_softcapping": ("attn_logit_softcapping",),
    "final_logit_softcapping": ("final_logit_softcapping",),
    "logit_scale": ("logit_scale",),
    "residual_scale": ("residual_multiplier",),
    "embedding_scale": ("embedding_multiplier",),
    "use_parallel_residual": ("use_parallel_residual",),
    "hidden_activation": ("hidden_activation", "hidden_act"),
    "expert_count": ("num_experts", "num_local_experts"),
    "expert_used_count": ("num_experts_per_tok",),
    "expert_weights_norm": ("norm_topk_prob",),
    "expert_weights_scale": ("routed_scaling_factor",),
    "leading_dense_block_count": ("first_k_dense_replace",),
    "ssm.conv_kernel": ("conv_kernel", "linear_conv_kernel_dim"),
    "ssm.state_size": ("state_size", "linear_key_head_dim"),
    "ssm.group_count": ("n_groups", "linear_num_key_heads"),
    "ssm.time_step_rank": ("time_step_rank", "linear_num_value_heads"),
    "shortconv.l_cache": ("conv_L_cache",),
}
# The tokenizer's keys that transformers reads, or that no token of a text depends on
TOKENIZER = {
    f"tokenizer.ggml.{name}"
    for name in (
        "model", "pre", "tokens", "token_type", "token_type_count", "scores", "merges", "add_bos_token",
        "add_eos_token", "add_space_prefix", "eos_token_ids", *(
            f"{role}_token_id"
            for role in (
                "bos", "eos", "unknown", "padding", "seperator", "cls", "mask", "eot", "eom", "fim_pre", "fim_suf",
                "fim_mid", "fim_pad", "fim_rep", "fim_sep", "prefix", "suffix", "middle",
            )
        ),
    )
} | {"tokenizer.chat_templates", "tokenizer.huggingface.json"}  # fmt: skip
# Those that are read only for vocabularies of another kind than this (tokenizer.ggml.model)
OF_UNIGRAM = {"tokenizer.ggml.remove_extra_whitespaces", "tokenizer.ggml.precompiled_charsmap"}
_OFF = (
    "tokenizer.ggml.add_sep_token",
    "tokenizer.ggml.normalizer.lowercase",
    "tokenizer.ggml.normalizer.strip_accents",
)
_OTHERS = {"adapter", "clip", "diffusion", "xielu"}  # of the format, and of no model that transformers makes of a file


def put_into(header: Header, config: Any) -> None:
    """Set in a configuration what the file says, or means by not saying it, and transformers does not read."""
    said = header.of_model()
    if config.get_text_config().pad_token_id == NO_TOKEN:
        config.get_text_config().pad_token_id = None
    rope = getattr(config, "rope_parameters", None)
    if isinstance(rope, dict):
        whole = rope.get("full_attention", rope)  # layers with a window keep their own
        if "rope_theta" in whole and is_number(said.get("rope.freq_base", 10000.0)):
            whole["rope_theta"] = said.get("rope.freq_base", 10000.0)
        factor = _factor(said)
        if factor not in NEUTRAL["rope.scaling.factor"] and said.get("rope.scaling.type", "linear") == "linear":
            whole |= {"rope_type": "linear", "factor": factor}
    if hasattr(config, "query_pre_attn_scalar") and (
        scale := _implied(header.architecture, said).get("attention.scale")
    ):
        config.query_pre_attn_scalar = round(scale**-2)
    for field, key in (("head_dim", "attention.key_length"), ("n_positions", "context_length")):
        if hasattr(config, field) and not hasattr(config, "global_head_dim") and is_number(said.get(key)):
            setattr(config, field, said[key])
    window = said.get("attention.sliding_window")
    if header.architecture == "phi3" and window and config.sliding_window is None:
        config.sliding_window = window


def keys_left_out(header: Header, config: Any) -> list[str]:
    """The file's keys that its model's configuration does not hold and that may change a score, each with its value."""
    said = header.of_model()
    meant = _implied(header.architecture, said) | said
    wrong = []
    for key, value in meant.items():
        taken, neutral = _taken(key, config), NEUTRAL.get(key, ())
        if (
            key in HARMLESS
            or _same(value, taken)
            or (value in neutral and (taken is None or taken in neutral))
            or _has_no_effect(key, meant, config)
        ):
            continue
        wrong.append(f"{key} {_shown(value)} (it takes {_shown(taken)})")
    return wrong + _of_others(header)


def tokenizer_keys_left_out(header: Header) -> list[str]:
    """The file's keys that change the tokens of a text and that its tokenizer does not hold, each with its value."""
    unigram = header.about.get("tokenizer.ggml.model") == "t5"
    return [
        f"{key} {_shown(value)}"
        for key, value in header.about.items()
        if key.startswith("tokenizer.") and not (
            key in TOKENIZER or key.startswith("tokenizer.chat_template") or (key in _OFF and value is False)
            or (key in OF_UNIGRAM and not unigram)
        )
    ]  # fmt: skip


def _implied(architecture: str, said: Mapping[str, Any]) -> dict[str, Any]:
    """What llama.cpp takes where a file does not say it, as far as transformers may take something else."""
    heads, width = said.get("attention.head_count"), said.get("embedding_length")
    meant: dict[str, Any] = {"rope.freq_base": 10000.0}
    if is_number(heads) and heads:
        meant["attention.head_count_kv"] = heads
        if is_number(width):
            meant["attention.key_length"] = meant["attention.value_length"] = width // heads
    if architecture in _GEMMA:
        largest, window, pattern, base = _GEMMA[architecture]
        meant |= {"attention.sliding_window": window, "attention.sliding_window_pattern": pattern}
        meant["rope.freq_base_swa"] = base or said.get("rope.freq_base", 10000.0)
        whole = {**meant, **said} if said.get("block_count") != largest else meant
        if is_number(whole.get("attention.key_length")):
            meant["attention.scale"] = whole["attention.key_length"] ** -0.5
    return meant


# Blocks of the largest model, whose scale is of its width by its heads; window; which layers have it; base of theirs
_GEMMA: dict[str, tuple[int, int, int, float | None]] = {"gemma2": (46, 4096, 2, None), "gemma3": (62, 0, 6, 10000.0)}


def _has_no_effect(key: str, meant: Mapping[str, Any], config: Any) -> bool:
    """Whether a key says nothing because of what the others say."""
    value, kind = meant[key], meant.get("rope.scaling.type", "linear")
    window = meant.get("attention.sliding_window", 0)
    if key.startswith("rope.") and not getattr(config, "rope_parameters", None):
        return True
    if key == "rope.scaling.type":
        return bool(value == "linear" and _factor(meant) in NEUTRAL["rope.scaling.factor"])
    if key in ("rope.scaling.factor", "rope.scale_linear"):
        return kind == "none" or (key == "rope.scale_linear" and "rope.scaling.factor" in meant)
    if key == "rope.scaling.original_context_length":
        return kind in ("none", "linear")
    if key == "attention.sliding_window":
        return is_number(value) and is_number(meant.get("context_length")) and value >= meant["context_length"]
    if key == "nextn_predict_layers":  # blocks that guess tokens ahead, behind those that are computed
        return meant.get("block_count") == config.num_hidden_layers + value
    if key.endswith("_swa") or key == "attention.sliding_window_pattern":
        return window == 0
    return key == "context_length" and _first(config, _LENGTHS) is None


def _factor(said: Mapping[str, Any]) -> Any:
    """By how much positions are stretched: under the newer name, or the older."""
    return said.get("rope.scaling.factor", said.get("rope.scale_linear", 1))


# What a configuration holds

_LENGTHS = ("max_position_embeddings", "n_positions")


def _taken(key: str, config: Any) -> Any:
    """What a configuration holds for a key, or None."""
    return DERIVED[key](config) if key in DERIVED else _first(config, FIELDS.get(key, ()))


def _first(config: Any, fields: tuple[str, ...]) -> Any:
    held = (getattr(config, field, None) for field in fields)
    return next((value for value in held if value is not None), None)


def _width(config: Any) -> Any:
    """Dimensions of a head."""
    whole, heads = _first(config, ("hidden_size", "n_embd")), _first(config, FIELDS["attention.head_count"])
    return _first(config, ("global_head_dim", "head_dim", "d_kv")) or (whole // heads if whole and heads else None)


def _rope(config: Any, layers: str = "full_attention") -> Mapping[str, Any]:
    rope = getattr(config, "rope_parameters", None) or {}
    return rope.get(layers, rope) if isinstance(rope, Mapping) else {}


def _turned(config: Any) -> Any:
    """Dimensions of a head that positions turn."""
    share = _rope(config).get("partial_rotary_factor") or getattr(config, "partial_rotary_factor", None) or 1
    width = _width(config)
    return getattr(config, "rotary_dim", None) or (int(width * share) if width else None)


def _scale(config: Any) -> Any:
    by = getattr(config, "attention_multiplier", None)
    width = getattr(config, "query_pre_attn_scalar", None) or _width(config)
    return by or (width**-0.5 if width else None)


def _pattern(config: Any) -> Any:
    """Of each layer, whether it has a window."""
    layers = getattr(config, "layer_types", None)
    return layers and tuple("sliding" in layer for layer in layers)


def _window(config: Any) -> Any:
    """0 is no window in a file, and one of no token in transformers."""
    window = getattr(config, "sliding_window", None)
    return "no token" if window == 0 else window


def _interval(config: Any) -> Any:
    """Every how many layers one attends to all."""
    layers = getattr(config, "layer_types", None) or []
    return layers.index("full_attention") + 1 if "full_attention" in layers else None


def _inner(config: Any) -> Any:
    """Values of a state of linear attention, or the width of a Mamba block."""
    heads = getattr(config, "linear_num_value_heads", None)
    return heads * config.linear_value_head_dim if heads else getattr(config, "intermediate_size", None)


def _type(config: Any) -> str:
    kind = _rope(config).get("rope_type", "default")
    return "none" if kind == "default" else kind


_GATES = {"none": 0, "softmax": 1, "sigmoid": 2}
DERIVED: dict[str, Callable[[Any], Any]] = {
    "context_length": lambda config: _first(config, _LENGTHS),
    "attention.key_length": _width,
    "attention.value_length": _width,
    "attention.key_length_swa": lambda config: getattr(config, "head_dim", None),
    "attention.value_length_swa": lambda config: getattr(config, "head_dim", None),
    "attention.scale": _scale,
    "attention.sliding_window_pattern": _pattern,
    "attention.sliding_window": _window,
    "attention.max_alibi_bias": lambda config: 8 if config.model_type == "bloom" else None,
    "expert_gating_func": lambda config: _GATES.get(getattr(config, "scoring_func", "")),
    "full_attention_interval": _interval,
    "ssm.inner_size": _inner,
    "rope.dimension_count": _turned,
    "rope.freq_base": lambda config: _rope(config).get("rope_theta"),
    "rope.freq_base_swa": lambda config: _rope(config, "sliding_attention").get("rope_theta"),
    "rope.scaling.type": _type,
    "rope.scaling.factor": lambda config: _rope(config).get("factor", 1),
    "rope.scale_linear": lambda config: _rope(config).get("factor", 1),
    "rope.scaling.original_context_length": lambda config: _rope(config).get("original_max_position_embeddings"),
}


def _same(value: Any, taken: Any) -> bool:
    """Whether both are one value, of numbers as 32 bits hold them; of a list by layers, zeros are layers without."""
    if isinstance(taken, tuple):  # which layers have a window: each told, or how many follow one another
        if is_number(value):
            value = [i % value < value - 1 if value else True for i in range(len(taken))]
        return isinstance(value, tuple | list) and [*map(bool, value)] == [*taken]
    if isinstance(value, tuple):
        return bool(value) and all(_same(one, taken) for one in value if one)
    if is_number(value) and is_number(taken):
        return math.isclose(value, taken, rel_tol=1e-7)
    return type(value) is type(taken) and value == taken


def _shown(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


def _of_others(header: Header) -> list[str]:
    """Keys of other kinds of files or other architectures, which transformers would take for the model's own.

    What else stands before the first dot is the note of a program that made the file.
    """
    from gguf import MODEL_ARCH_NAMES
    from transformers.modeling_gguf_pytorch_utils import GGUF_SUPPORTED_ARCHITECTURES

    foreign = _OTHERS | {*MODEL_ARCH_NAMES.values(), *GGUF_SUPPORTED_ARCHITECTURES}
    foreign -= {header.architecture, "general", "tokenizer"}
    return [f"{key} {_shown(value)}" for key, value in header.about.items() if key.partition(".")[0] in foreign]
