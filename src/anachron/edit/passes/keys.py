"""Keys k: the input of an MLP projection at the subject's last token (ROME, equation 3); and C^-1 times them."""

from collections.abc import Mapping, Sequence

import torch

from anachron.core.errors import ConfigError
from anachron.edit.covariance.second_moment import SecondMoment
from anachron.edit.passes.forward import values_at_subject
from anachron.edit.requests import EditRequest, mark
from anachron.lm.model import LanguageModel
from anachron.lm.scoring import During
from anachron.lm.temporary import unchanged


def keys_and_outputs(
    lm: LanguageModel, requests: Sequence[EditRequest], module: str, contexts: Sequence[str], *,
    output: str | None = None, during: During = unchanged,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Inputs of a module, and outputs of it or of another, for the bare prompt and behind each context, in float64.

    Shapes (1 + contexts, requests, inputs) and (1 + contexts, requests, outputs). during: the change of the model in
    force for some texts, given their numbers; text number ``i`` is of request ``i % len(requests)``.
    """
    output = output or module
    marked = [m for context in ("", *contexts) for m in mark(lm.tokenizer, requests, context, lm.style)]
    at_subject = values_at_subject(lm.model, marked, inputs=[module], outputs=[output], during=during)
    # ((1 + contexts) * requests, inputs) and ((1 + contexts) * requests, outputs)
    keys, outputs = at_subject["in", module].double(), at_subject["out", output].double()
    return keys.view(1 + len(contexts), len(requests), -1), outputs.view(1 + len(contexts), len(requests), -1)


def mean_keys(keys: torch.Tensor) -> torch.Tensor:
    """One key a request, K (inputs, requests): half the bare prompt's, half the mean of the contexts' (MEMIT's code).

    keys: (1 + contexts, requests, inputs).
    """
    return (keys[0] if len(keys) == 1 else (keys[0] + keys[1:].mean(0)) / 2).T


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
