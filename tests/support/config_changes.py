"""Small checkpoints of many families, and every change of a field of a JSON file that might change scores."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import transformers
from huggingface_hub.errors import StrictDataclassError

from anachron.lm.loading import load_model
from anachron.lm.model import LanguageModel
from anachron.lm.selfcheck import REFUSALS
from support.edit_models import make_edit_lm
from support.tiny_models import VOCABULARY, make_tokenizer

MIXTURES = ("mixtral", "gpt_oss", "qwen3_moe")
FAMILIES = ("gpt2", "neox", "llama", "mistral", "gemma2", "gemma3", "qwen2", "qwen3", "phi3", "olmo2", "opt", "gptneo",
            "bloom", "falcon", "granite", "cohere", *MIXTURES)  # fmt: skip
NOISE = 1e-4  # nats; what reloading changes is far less in float32
# How configurations that make no sense fail, in transformers and in `load_model`; which of them is not asked here
SENSELESS = (*REFUSALS, StrictDataclassError, ArithmeticError, ImportError, OSError)
MOST = 20_000_000  # numbers in a model; those here have some 100,000
TOKENS = 48  # of a text: longer than every window, shorter than every context

ROPES: list[dict[str, Any]] = [
    {"rope_type": "linear", "factor": 4.0},
    {"rope_type": "dynamic", "factor": 4.0, "original_max_position_embeddings": 16},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
     "original_max_position_embeddings": 16},
]  # fmt: skip
ACTIVATIONS = ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "tanh")
WORDS: list[tuple[str, ...]] = [
    ACTIVATIONS,
    ("full_attention", "sliding_attention"), ("global", "local"),
    ("llama", "mistral", "qwen2", "olmo2", "gpt2", "gpt_neo"),
    ("default", "linear", "dynamic", "yarn"),
    ("float32", "bfloat16"),
]  # fmt: skip
ADDED: dict[str, list[Any]] = {
    "rope_theta": [500.0], "rope_scaling": [*ROPES], "sliding_window": [8], "attn_logit_softcapping": [1.0],
    "final_logit_softcapping": [1.0], "logits_scaling": [3.0], "attn_implementation": ["eager"],
    "_attn_implementation": ["eager"], "made_up": [None, 1],
}  # fmt: skip


def make_checkpoint(family: str, folder: Path) -> None:
    """A model and its tokenizer; ``config.json`` holds every field, not only those that differ from a default."""
    lm = make_edit_lm(family, "mistral") if family not in ("falcon", "granite", "cohere", *MIXTURES) else _more(family)
    with torch.no_grad():  # new biases are 0 and new norms 1, and might hide what a field does
        for number, parameter in enumerate(lm.model.parameters()):
            parameter += 0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(number))
    lm.model.save_pretrained(folder)
    lm.tokenizer.chat_template = "{{ bos_token }}{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"
    lm.tokenizer.save_pretrained(folder)
    write(folder / "config.json", lm.model.config.to_dict())


def _more(family: str) -> LanguageModel:
    t = transformers
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
             "vocab_size": VOCABULARY, "initializer_range": 0.3, "pad_token_id": 0, "num_key_value_heads": 2,
             "max_position_embeddings": 512, "bos_token_id": 1, "eos_token_id": 2}  # fmt: skip
    mixture = {"num_local_experts": 4, "num_experts_per_tok": 2}
    falcon = {k: v for k, v in shape.items() if k not in ("intermediate_size", "num_key_value_heads")}
    kinds: dict[str, Any] = {
        "falcon": lambda: t.FalconConfig(**falcon, ffn_hidden_size=64),
        "granite": lambda: t.GraniteConfig(**shape),
        "cohere": lambda: t.CohereConfig(**shape),
        "mixtral": lambda: t.MixtralConfig(**shape, **mixture),
        "gpt_oss": lambda: t.GptOssConfig(**shape, **mixture, head_dim=8, sliding_window=8),
        "qwen3_moe": lambda: t.Qwen3MoeConfig(
            **shape, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, head_dim=8
        ),
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = t.AutoModelForCausalLM.from_config(kinds[family]())
    return LanguageModel(model.eval(), make_tokenizer("mistral"), f"tiny-{family}")


def write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content), "utf-8")


def changes(content: dict[str, Any], added: dict[str, list[Any]] | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """(what was changed, the content with it) for every field at any depth, some of each in several ways.

    added: fields to put in where they are missing.
    """
    for path, value in _leaves(content, ()):
        for other in _others(value, str(path[-1])):
            yield f"{'.'.join(map(str, path))} = {json.dumps(other)[:60]}", _with(content, path, other)
    for name, value in content.items():
        if isinstance(value, bool) or not isinstance(value, int):  # a missing size would be that of a whole model
            yield f"without {name}", {key: value for key, value in content.items() if key != name}
    for name, values in (added or {}).items():
        for value in values if name not in content else ():
            yield f"with {name} = {json.dumps(value)[:60]}", {**content, name: value}


def _leaves(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if path and (not isinstance(value, dict | list) or not value or path[-1] in ("rope_parameters", "rope_scaling")):
        yield path, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        yield from _leaves(inner, (*path, name))


def _others(value: Any, name: str) -> list[Any]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value * 2, max(value // 2, 1), 8][: 4 if "window" in name or "max" in name else 2]
    if isinstance(value, float):
        return [value * 3 + 0.01, value / 2]
    if isinstance(value, str):
        group = next((words for words in WORDS if value in words), (value + "x",))
        return [word for word in group if word != value][:4]
    if isinstance(value, dict):
        theta = {key: value[key] for key in ("rope_theta", "partial_rotary_factor") if key in value}
        return [theta | rope for rope in ROPES]
    if value is None:
        return [8, 0.5, True, *(["gelu"] if "act" in name else []), *(ROPES if "rope" in name else [])]
    return []


def _with(content: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    copy = dict(content) if isinstance(content, dict) else list(content)
    copy[path[0]] = _with(content[path[0]], path[1:], value)
    return copy


def scores(lm: LanguageModel) -> torch.Tensor:
    """Log-probabilities of two long texts of random tokens, token by token: (2, TOKENS - 1), in nats."""
    ids = torch.randint(3, 500, (2, TOKENS), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        table = torch.log_softmax(lm.model(input_ids=ids, use_cache=False).logits.float(), -1)
    return table[:, :-1].gather(2, ids[:, 1:, None])[..., 0]


def loaded(folder: Path) -> LanguageModel | None:
    """The model, or None where it is refused, or too large for a test (by the sizes of another family, say)."""
    try:
        return None if (folder / "config.json").is_file() and size(folder) > MOST else load_model(str(folder))
    except SENSELESS:
        return None


def size(folder: Path) -> int:
    """How many numbers a model of this configuration has, without making it."""
    config = transformers.AutoConfig.from_pretrained(folder)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    return sum(tensor.numel() for tensor in (*model.parameters(), *model.buffers()))
