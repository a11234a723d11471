"""Tiny models of many architectures with random weights, and texts that differ in how far they reach."""

from typing import Any

import torch
import transformers

from anachron.lm.model import LanguageModel
from support.tiny_models import VOCABULARY, make_tokenizer, naive_log_prob

Pair = tuple[str, str, str | None]

_SHARED: dict[str, Any] = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "initializer_range": 0.3, "max_position_embeddings": 1024,
    "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
_GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 1024}
_HEAD = {"head_dim": 8}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
_LOCAL_EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
_BOTH = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 256}
_GEMMA = {**_HEAD, "query_pre_attn_scalar": 8, "sliding_window": 256}
_DEEPSEEK = {
    "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "kv_lora_rank": 8,
    "q_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8, "moe_intermediate_size": 32,
    "first_k_dense_replace": 1, "n_shared_experts": 1, "head_dim": 4, "num_key_value_heads": 4,
}  # fmt: skip
_MAMBA = {"mamba_d_state": 8, "mamba_n_heads": 8, "mamba_d_head": 8, "mamba_chunk_size": 16}
_LINEAR = {"layer_types": ["linear_attention", "full_attention"]}
_LONGROPE = {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [4.0] * 4}

# Name: class of the configuration, and what differs from the shared settings. Windows are real ones where texts of a
# thousand tokens can exceed them (GPT-Neo 256, GPT-OSS 128, ModernBERT 64 on each side), else 256, once 16.
ARCHITECTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "bamba": ("Bamba", {**_MAMBA, "attn_layer_indices": [1]}),
    "bart": (
        "Bart",
        {
            "d_model": 32, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 4,
            "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "init_std": 0.3,
        },
    ),
    "biogpt": ("BioGpt", {}),
    "bloom": ("Bloom", {"n_layer": 2, "n_head": 4}),
    "codegen": ("CodeGen", {**_GPT, "rotary_dim": 8, "n_ctx": 1024}),
    "cohere": ("Cohere", {"logit_scale": 1.0}),
    "cohere2": ("Cohere2", {**_BOTH, "logit_scale": 1.0}),
    "ctrl": ("CTRL", {**_GPT, "dff": 64}),
    "deepseek_v2": ("DeepseekV2", _DEEPSEEK),
    "deepseek_v3": ("DeepseekV3", _DEEPSEEK),
    "doge": ("Doge", {}),
    "ernie4_5": ("Ernie4_5", _HEAD),
    "exaone4": ("Exaone4", _BOTH),
    "falcon": ("Falcon", {"new_decoder_architecture": True, "num_kv_heads": 2}),
    "falcon_alibi": ("Falcon", {"alibi": True, "multi_query": True}),
    "falcon_h1": ("FalconH1", {**_MAMBA, **_HEAD, "mamba_d_ssm": 64}),
    "gemma": ("Gemma", _HEAD),
    "gemma2": ("Gemma2", {**_GEMMA, "final_logit_softcapping": 3.0}),
    "gemma3": ("Gemma3Text", {**_GEMMA, **_BOTH}),
    "glm": ("Glm", _HEAD),
    "glm4": ("Glm4", _HEAD),
    "gpt2": ("GPT2", _GPT),
    "gpt_bigcode": ("GPTBigCode", _GPT),
    "gpt_neo": (
        "GPTNeo", {"num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]], "window_size": 256},
    ),
    "gpt_neox": ("GPTNeoX", {}),
    "gpt_neox_japanese": ("GPTNeoXJapanese", {}),
    "gpt_oss": ("GptOss", {**_LOCAL_EXPERTS, **_HEAD, **_BOTH, "sliding_window": 128}),
    "gptj": ("GPTJ", {**_GPT, "rotary_dim": 8}),
    "granite": ("Granite", {}),
    "granitemoe": ("GraniteMoe", _LOCAL_EXPERTS),
    "helium": ("Helium", _HEAD),
    "jamba": (
        "Jamba",
        {
            "num_experts": 2, "mamba_d_state": 4, "mamba_dt_rank": 4, "attn_layer_period": 2, "attn_layer_offset": 1,
            "use_mamba_kernels": False,
        },
    ),
    "lfm2": ("Lfm2", {"layer_types": ["conv", "full_attention"]}),
    "llama": ("Llama", {}),
    "llama4": (
        "Llama4Text",
        {
            **_HEAD, "attention_chunk_size": 256, "num_local_experts": 2, "num_experts_per_tok": 1,
            "intermediate_size_mlp": 64, "no_rope_layers": [1, 0], "interleave_moe_layer_step": 1,
        },
    ),
    "mamba": ("Mamba", {"state_size": 4}),
    "minimax": ("MiniMax", {**_LINEAR, **_HEAD, "num_local_experts": 2, "block_size": 32}),
    "ministral": ("Ministral", {**_HEAD, "sliding_window": 256}),
    "mistral": ("Mistral", {"sliding_window": 256}),
    "mistral_narrow": ("Mistral", {"sliding_window": 16}),
    "mixtral": ("Mixtral", {"num_local_experts": 4, "sliding_window": None}),
    "modernbert_decoder": ("ModernBertDecoder", {"local_attention": 128}),
    "mpt": ("Mpt", {"d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 1024}),
    "nemotron": ("Nemotron", {}),
    "nemotron_h": (
        "NemotronH",
        {
            **_HEAD, "hybrid_override_pattern": "M*", "ssm_state_size": 8, "mamba_num_heads": 8, "mamba_head_dim": 8,
            "n_groups": 1, "chunk_size": 16,
        },
    ),
    "olmo": ("Olmo", {}),
    "olmo2": ("Olmo2", {}),
    "olmo3": ("Olmo3", _BOTH),
    "olmoe": ("Olmoe", {"num_experts": 4, "num_experts_per_tok": 2}),
    "openai_gpt": ("OpenAIGPT", _GPT),
    "opt": ("OPT", {"ffn_dim": 64, "word_embed_proj_dim": 32, "init_std": 0.3}),
    "persimmon": ("Persimmon", {}),
    "phi": ("Phi", {}),
    "phi3": ("Phi3", {"sliding_window": 256}),
    "phi3_longrope": (
        "Phi3", {"sliding_window": None, "original_max_position_embeddings": 128, "rope_scaling": _LONGROPE},
    ),
    "phimoe": ("Phimoe", {"num_local_experts": 4, "sliding_window": 256}),
    "qwen2": ("Qwen2", {"use_sliding_window": True, "sliding_window": 256, "max_window_layers": 1}),
    "qwen2_moe": ("Qwen2Moe", {**_EXPERTS, "shared_expert_intermediate_size": 32}),
    "qwen3": ("Qwen3", _HEAD),
    "qwen3_moe": ("Qwen3Moe", {**_EXPERTS, **_HEAD}),
    "qwen3_next": (
        "Qwen3Next",
        {
            **_EXPERTS, **_HEAD, **_LINEAR, "shared_expert_intermediate_size": 32, "linear_num_value_heads": 4,
            "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
        },
    ),
    "recurrent_gemma": (
        "RecurrentGemma", {**_HEAD, "lru_width": 32, "attention_window_size": 256, "num_hidden_layers": 3},
    ),
    "smollm3": ("SmolLM3", {"no_rope_layers": [1, 0]}),
    "stablelm": ("StableLm", {}),
    "starcoder2": ("Starcoder2", {"sliding_window": 256}),
    "xglm": ("XGLM", {"d_model": 32, "num_layers": 2, "attention_heads": 4, "ffn_dim": 64, "init_std": 0.3}),
}  # fmt: skip


def make_architecture(name: str, **changes: Any) -> Any:
    """A model with the attention that `anachron.lm.model.load_model` gives it."""
    kind, own = ARCHITECTURES[name]
    config = getattr(transformers, f"{kind}Config")(**{**_SHARED, **own, **changes})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return transformers.AutoModelForCausalLM.from_config(config).eval()


def lm_of(model: Any, tokenizer: str = "gpt2") -> LanguageModel:
    """With nothing known yet of how it takes prefix trees."""
    return LanguageModel(model, make_tokenizer(tokenizer), type(model).__name__)


def statements(years: int, lands: int, words: int = 0) -> list[Pair]:
    """Questions that begin alike, behind a text of so many words (two tokens each or more)."""
    known = [
        ("France", "Jacques Chirac"),
        ("Russia", "Москва"),
        ("São Paulo", "हिन्दी"),
        ("China", "北京市"),
        ("q", "Zürich"),
    ]
    prefix = " ".join(["Paris Berlin"] * (words // 2)) + ". " if words else ""
    return [
        (f"{prefix}In {1990 + year}, who was the president of {land}?", answer, None)
        for year in range(years) for land, answer in known[:lands]
    ]  # fmt: skip


def naive(lm: LanguageModel, pairs: list[Pair]) -> list[float]:
    return [naive_log_prob(lm, *pair) for pair in pairs]
