"""Texts that a model writes: exactly as many tokens as asked for, greedily or sampled."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import transformers

from anachron.lm.temporary import Temporary


def continued(model: Any, ids: torch.Tensor, new_tokens: int, **how: Any) -> torch.Tensor:
    """Token ids (texts, length) continued by exactly ``new_tokens``: an end-of-text token is not the end.

    Settings of the checkpoint for generation (temperature, penalties) are not used; ``how`` goes to transformers, which
    would fill in from them what is not given: the end-of-text token, and a penalty of repetition.
    """
    plain = transformers.GenerationConfig(
        max_new_tokens=new_tokens, min_new_tokens=new_tokens, pad_token_id=0, eos_token_id=None, use_cache=True,
        **({"do_sample": False} | how),
    )  # fmt: skip
    with torch.inference_mode(), Temporary(lambda: _without_own_settings(model)):
        return model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=plain)


def _without_own_settings(model: Any) -> Callable[[], None]:
    own = model.generation_config
    model.generation_config = transformers.GenerationConfig()
    return lambda: setattr(model, "generation_config", own)


def greedy_texts(lm: Any, prompts: Sequence[str], length: int) -> list[str]:
    """What a model writes behind each prompt, greedily, until prompt and text have ``length`` tokens together.

    The prompt is not part of the text, special tokens neither; a prompt of that length already has the text "". The
    prefix of an edit in force is read, and not counted. Prompts of equal length are computed together, without padding.
    """
    counted = _tokens(lm.tokenizer, prompts)
    given = _tokens(lm.tokenizer, [lm.prefix + prompt for prompt in prompts]) if lm.prefix else counted
    texts = [""] * len(prompts)
    shapes = [(len(ids), length - len(own)) for ids, own in zip(given, counted, strict=True)]
    for size, new in sorted(set(shapes)):
        members = [i for i, shape in enumerate(shapes) if shape == (size, new)]
        if lm.context_length is not None:
            new = min(new, lm.context_length - size)
        if new < 1:
            continue
        written = continued(lm.model, torch.tensor([given[i] for i in members], device=lm.device), new)
        for i, ids in zip(members, written[:, size:].tolist(), strict=True):
            texts[i] = lm.tokenizer.decode(ids, skip_special_tokens=True)
    return texts


def _tokens(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """Tokens without an end-of-text token that the tokenizer puts behind every text: the model is to go on."""
    found = tokenizer(list(texts), truncation=False, padding=False)["input_ids"] if texts else []
    return [ids[:-1] if len(ids) > 1 and ids[-1] == tokenizer.eos_token_id else ids for ids in found]
