"""Which keys of a GGUF file llama.cpp passes over although they say how to compute; of build 11549."""

from anachron.lm.gguf.header import Header
from anachron.lm.gguf.keys import HARMLESS, NEUTRAL

# Read of every architecture
READ = {
    "context_length", "attention.causal", "expert_count", "expert_used_count", "expert_group_count",
    "expert_group_used_count", "attention.head_count", "attention.head_count_kv", "attention.key_length",
    "attention.value_length", "attention.key_length_swa", "attention.value_length_swa", "rope.freq_base",
    "rope.dimension_count", "rope.dimension_count_swa", "rope.scaling.type", "rope.scaling.factor", "rope.scale_linear",
    "rope.scaling.attn_factor", "rope.scaling.original_context_length", "nextn_predict_layers",
}  # fmt: skip
_RMS = {"attention.layer_norm_rms_epsilon"}
_WINDOWS = {
    *_RMS, "attention.sliding_window", "attention.sliding_window_pattern", "rope.freq_base_swa",
    "final_logit_softcapping",
}  # fmt: skip
# Read besides of the architectures that were looked at
OWN = {
    "llama": _RMS, "qwen2": _RMS, "qwen3": _RMS, "phi3": _RMS, "gemma2": {*_WINDOWS, "attn_logit_softcapping"},
    "gemma3": _WINDOWS,
}  # fmt: skip


def keys_unread(header: Header) -> list[str]:
    """Keys whose values would change scores and that llama.cpp does not read, of the architectures of `OWN`."""
    if header.architecture not in OWN:
        return []
    read = READ | OWN[header.architecture] | HARMLESS
    return [
        f"{key} {value}"
        for key, value in header.of_model().items()
        if key not in read and value not in NEUTRAL.get(key, ())
    ]
