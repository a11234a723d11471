"""Checks of a loaded model: its weights are finite, it is causal, and its tokenizer belongs to it."""

from typing import Any

import torch

from anachron.core.errors import ModelError, first_line
from anachron.lm.numerics import dtype_name
from anachron.lm.scoring import input_device
from anachron.lm.sites import parts_of


def check_finite(model: Any, name: str) -> None:
    """Raise `ModelError` where weights are NaN or infinite.

    One pass over the memory, a tenth of what the fingerprint takes. Offloaded weights, which it would have to bring in,
    are left to `check_causal` and to the scores.
    """
    broken = {key: ends for key, weight in model.named_parameters() if (ends := _not_finite(weight))}
    if not broken:
        return
    first = next(iter(broken))
    raise ModelError(
        f"{name}: {len(broken)} of its weights hold numbers that are {' or '.join(sorted(set(broken.values())))} in "
        f"{dtype_name(model.dtype)} ({first}{', ...' if len(broken) > 1 else ''}); {_way_out(model)}"
    )


def _not_finite(weight: torch.Tensor) -> str | None:
    """``NaN`` or ``infinite`` where some number of a weight is."""
    for part in parts_of(weight):
        if part.is_meta or not part.is_floating_point() or not part.numel():
            continue
        wide = part.half() if part.dtype.itemsize < 2 else part  # of 8 bits there is no arithmetic
        low, high = torch.aminmax(wide)
        if low.isnan() or high.isnan():
            return "NaN"
        if low.isinf() or high.isinf():
            return "infinite"
    return None


def _way_out(model: Any) -> str:
    if model.dtype == torch.float16:
        return "float16 holds nothing above 65504: load it in bfloat16 or float32, or use another checkpoint"
    return "the checkpoint is damaged or its training broke: use another"


def check_causal(model: Any, name: str) -> None:
    """Raise `ModelError` when an earlier token can see a later one, as in BERT and its kin, or logits are no numbers.

    Two texts that share only their first tokens must have the same logits there. What a model's own arithmetic
    changes with the company a text has in its batch (as in mixtures of experts) is measured and allowed for. Tokens
    that a model rules out have a logit of -infinity.
    """
    vocabulary = model.config.get_text_config().vocab_size
    device = input_device(model)
    a, b = ([3 % vocabulary] * 3 + [later % vocabulary] * 6 for later in (5, 7))
    try:
        with torch.inference_mode():
            alone, in_batch = (
                model(input_ids=torch.tensor(texts, device=device), use_cache=False).logits[:, :3].float()
                for texts in ([a, a], [a, b])
            )
    except Exception as error:  # of any class, by the model's own code
        raise ModelError(f"{name} ({type(model).__name__}) cannot compute a text: {first_line(error)}") from error
    both = torch.stack([alone, in_batch])
    possible = both.isfinite().all(dim=0).all(dim=0).all(dim=0)
    if both.isnan().any() or both.isposinf().any() or not possible.any():
        way = (
            "load it in bfloat16 or float32"
            if model.dtype == torch.float16
            else "its config.json is of another model, or the checkpoint is damaged: use another"
        )
        raise ModelError(
            f"{name} ({type(model).__name__}): its logits are not finite in {dtype_name(model.dtype)}; {way}"
        )
    alone, in_batch = both[..., possible]
    spread = (alone - alone.mean(-1, keepdim=True)).abs().max()
    noise = (alone[0] - in_batch[0]).abs().max()
    if not (in_batch[0] - in_batch[1]).abs().max() <= 8 * noise + 1e-4 * spread:
        raise ModelError(
            f"{name} ({type(model).__name__}) is not a causal language model: earlier tokens see later ones; choose a "
            "decoder such as GPT, Llama, Mistral, Gemma or Qwen"
        )


def check_token(largest: int, embeddings: int, name: str) -> None:
    """Raise `ModelError` where a model of so many embeddings does not know the largest of some token ids."""
    if largest >= embeddings:
        raise ModelError(
            f"the tokenizer gives token {largest}, but {name} knows only {embeddings}; use the model's own"
        )


def check_tokenizer(tokenizer: Any, embeddings: int, name: str) -> None:
    """Raise `ModelError` where ordinary tokens of a tokenizer are beyond a model's embeddings.

    Special tokens that were added may be: some published models come with a <pad> or an image's mark that they have
    no row for, and a text that holds one is refused when it is encoded. Fewer tokens than rows are usual.
    """
    added = getattr(tokenizer, "added_tokens_decoder", {})
    beyond = {
        number: token
        for token, number in tokenizer.get_vocab().items()
        if number >= embeddings and not (number in added and added[number].special)
    }
    if beyond:
        last = max(beyond)
        raise ModelError(
            f"the tokenizer has {len(beyond)} tokens from {embeddings} on, up to {last} ({beyond[last]!r}), but {name} "
            f"knows only {embeddings}; use the model's own tokenizer"
        )
