"""Texts put in front of a prompt while an edit is optimised, so that it holds in more than one place.

They are sampled from the model itself, as the published code does: each is a few tokens and a full stop.
"""

from typing import Any

import torch
import transformers

from anachron.errors import ConfigError
from anachron.lm.model import LanguageModel

TOP_K = 5  # the published code draws each token among the five likeliest


def sampled_contexts(lm: LanguageModel, lengths: tuple[tuple[int, int], ...], seed: int) -> tuple[str, ...]:
    """Texts of the model's own: for each (tokens, texts) of ``lengths`` that many, each ending in ``. ``.

    They depend on the model and the seed alone; the global random state is left as it was. Raises `ConfigError` for a
    tokenizer without a token to start from.
    """
    start = next((t for t in (lm.tokenizer.bos_token_id, lm.tokenizer.eos_token_id) if t is not None), None)
    if start is None:
        raise ConfigError("the tokenizer has neither a start- nor an end-of-text token to sample from; give contexts")
    devices = [lm.device] if lm.device.type == "cuda" else []
    found: list[str] = []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        for tokens, texts in lengths:
            ids = torch.full((texts, 1), start, device=lm.device)
            drawn = generate(lm, ids, tokens, do_sample=True, top_k=TOP_K)
            found += [lm.tokenizer.decode(row[1:], skip_special_tokens=True).strip() + ". " for row in drawn]
    return tuple(found)


def generate(lm: LanguageModel, ids: torch.Tensor, new_tokens: int, **how: Any) -> torch.Tensor:
    """Token ids (texts, length) continued by exactly ``new_tokens``: an end-of-text token is not the end.

    Settings of the checkpoint for generation (temperature, penalties) are not used.
    """
    plain = transformers.GenerationConfig(
        max_new_tokens=new_tokens, min_new_tokens=new_tokens, pad_token_id=0, eos_token_id=None, use_cache=True,
        **({"do_sample": False} | how),
    )  # fmt: skip
    with torch.inference_mode():
        return lm.model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=plain)
