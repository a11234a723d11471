"""Keys of GGUF files against llama.cpp itself: each is in the scores of transformers as it is in its own, or refused."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anachron.errors import ModelError
from anachron.lm.llamacpp import LlamaModel
from anachron.lm.loading import load_model, load_tokenizer
from gguf_models import make_gguf_lm, write_gguf

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


@pytest.mark.full
@pytest.mark.all_families
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("changes", "outcome"), ISSUE + TABLE, ids=[told(*row) for row in ISSUE + TABLE])
def test_every_key_is_as_in_llama_cpp_or_refused(family: str, changes: dict[str, Any], outcome: str, tmp_path: Path):
    check(family, changes, outcome, tmp_path / "tiny.gguf")
