"""Texts put in front of a prompt while an edit is optimised, so that it holds in more than one place.

They are sampled from the model itself, as the published code does: each is a few tokens and a full stop.
"""

import torch

from anachron.errors import ConfigError
from anachron.lm.generation import continued
from anachron.lm.model import LanguageModel

TOP_K = 5  # the published code draws each token among the five likeliest


def sampled_contexts(lm: LanguageModel, lengths: tuple[tuple[int, int], ...], seed: int) -> tuple[str, ...]:
    """Texts sampled from the model: for each (tokens, texts) of ``lengths`` that many, each ending in ``. ``.

    They depend on the model and the seed alone; the global random state is left as it was. Raises `ConfigError` for a
    tokenizer without a token to start from.
    """
    start = next((t for t in (lm.tokenizer.bos_token_id, lm.tokenizer.eos_token_id) if t is not None), None)
    if start is None:
        raise ConfigError("the tokenizer has neither a start- nor an end-of-text token to sample from; give contexts")
    devices = [lm.device] if lm.device.type == "cuda" else []
    contexts: list[str] = []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        for tokens, texts in lengths:
            ids = torch.full((texts, 1), start, device=lm.device)  # (texts, 1)
            drawn = continued(lm.model, ids, tokens, do_sample=True, top_k=TOP_K)  # (texts, 1 + tokens)
            contexts += [lm.tokenizer.decode(row[1:], skip_special_tokens=True).strip() + ". " for row in drawn]
    return tuple(contexts)
