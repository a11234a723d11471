"""Keys: what goes into an MLP projection at the subject's last token, and C^-1 times them."""

from collections.abc import Mapping, Sequence

import torch

from anachron.edit.forward import values_at_subject
from anachron.edit.requests import EditRequest, mark
from anachron.edit.second_moment import SecondMoment
from anachron.errors import ConfigError
from anachron.lm.model import LanguageModel


def keys_and_outputs(
    lm: LanguageModel, requests: Sequence[EditRequest], module: str, contexts: Sequence[str]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and outputs of a module for the bare prompt and behind each context, in float64.

    Shapes (texts, inputs) and (texts, outputs): all requests bare, then all behind the first context, and so on.
    """
    marked = [m for context in ("", *contexts) for m in mark(lm.tokenizer, requests, context)]
    found = values_at_subject(lm.model, marked, inputs=[module], outputs=[module])
    return found["in", module].double(), found["out", module].double()


def mean_keys(lm: LanguageModel, requests: Sequence[EditRequest], module: str, contexts: Sequence[str]) -> torch.Tensor:
    """One key a request, (inputs, requests): half the bare prompt's, half the mean of the contexts' (MEMIT)."""
    keys, _ = keys_and_outputs(lm, requests, module, contexts)
    by_text = keys.view(1 + len(contexts), len(requests), -1)
    return (by_text[0] if len(by_text) == 1 else (by_text[0] + by_text[1:].mean(0)) / 2).T


def inverse_times(covariance: Mapping[str, SecondMoment] | None, module: str, keys: torch.Tensor) -> torch.Tensor:
    """C^-1 keys for keys (inputs, n), in float64 on their device; without a covariance C is the identity.

    Raises `ConfigError` where the covariance of this module is missing.
    """
    if covariance is None:
        return keys.double()
    if module not in covariance:
        raise ConfigError(no_covariance(module, covariance))
    return covariance[module].inverse_times(keys)


def no_covariance(module: str, covariance: Mapping[str, SecondMoment]) -> str:
    return (
        f"no covariance of {module}: collect it with anachron covariance (there is one of "
        f"{', '.join(covariance) or 'no module'}), or ask for none"
    )
