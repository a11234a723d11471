"""Texts that a model writes: exactly as many tokens as asked for, greedily or sampled."""

from collections.abc import Sequence
from typing import Any

import torch
import transformers


def continued(model: Any, ids: torch.Tensor, new_tokens: int, **how: Any) -> torch.Tensor:
    """Token ids (texts, length) continued by exactly ``new_tokens``: an end-of-text token is not the end.

    Settings of the checkpoint for generation (temperature, penalties) are not used; ``how`` goes to transformers.
    """
    plain = transformers.GenerationConfig(
        max_new_tokens=new_tokens, min_new_tokens=new_tokens, pad_token_id=0, eos_token_id=None, use_cache=True,
        **({"do_sample": False} | how),
    )  # fmt: skip
    with torch.inference_mode():
        return model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=plain)


def greedy_texts(lm: Any, prompts: Sequence[str], length: int) -> list[str]:
    """What a model writes behind each prompt, greedily, until prompt and text have ``length`` tokens together.

    The prompt is not part of the text, special tokens neither; a prompt of that length already has the text "". The
    prefix of an edit in force is read, and not counted. Prompts of equal length are computed together, without padding.
    """
    given = lm.tokenizer([lm.prefix + prompt for prompt in prompts], truncation=False, padding=False)["input_ids"]
    given = [_without_end(lm.tokenizer, ids) for ids in given]
    extra = len(_without_end(lm.tokenizer, lm.tokenizer(lm.prefix)["input_ids"])) if lm.prefix else 0
    texts = [""] * len(prompts)
    for size in sorted({len(ids) for ids in given}):
        members = [i for i, ids in enumerate(given) if len(ids) == size]
        new = length + extra - size
        if lm.context_length is not None:
            new = min(new, lm.context_length - size)
        if new < 1:
            continue
        written = continued(lm.model, torch.tensor([given[i] for i in members], device=lm.device), new)
        for i, ids in zip(members, written[:, size:].tolist(), strict=True):
            texts[i] = lm.tokenizer.decode(ids, skip_special_tokens=True)
    return texts


def _without_end(tokenizer: Any, ids: list[int]) -> list[int]:
    """Without an end-of-text token that the tokenizer puts behind every text: the model is to go on."""
    ends = len(ids) > 1 and ids[-1] == tokenizer.eos_token_id
    return ids[:-1] if ends else ids
