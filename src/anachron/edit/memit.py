"""MEMIT: many facts as low-rank changes of several layers' MLP projections (Meng and others, ICLR 2023).

The wanted value is that of the last edited block's output. Going up the layers, each takes an equal share of what is
still missing there; states are computed anew after each layer.

In Gemma-2 and -3 and OLMo-2 the MLP's output passes a norm before it is added, which leaves it no length to give: what
the block lacks cannot be handed down to the MLP. There a vector for the MLP's output of each layer is optimised
instead, all at once, and each layer takes its own.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from anachron.edit.base import Edit, LowRank, edited, fingerprint
from anachron.edit.forward import values_at_subject
from anachron.edit.keys import inverse_times, mean_keys
from anachron.edit.requests import EditRequest, mark
from anachron.edit.second_moment import SecondMoment
from anachron.edit.sites import Sites
from anachron.edit.value import ValueSettings, contexts_of, optimise_values
from anachron.errors import ConfigError
from anachron.lm.model import LanguageModel


@dataclass(frozen=True)
class MemitSettings(ValueSettings):
    """layers: edited blocks, rising. weight: of the covariance against the new keys (lambda)."""

    steps: int = 25
    clamp: float = 0.75
    context_lengths: tuple[tuple[int, int], ...] = ((10, 5),)
    layers: tuple[int, ...] = (3, 4, 5, 6, 7, 8)
    weight: float = 15000.0


def memit(
    lm: LanguageModel,
    requests: Sequence[EditRequest],
    settings: MemitSettings,
    sites: Sites,
    covariance: Mapping[str, SecondMoment] | None,
) -> Edit:
    """dW = R K' (lambda C + K K')^-1 a layer, all requests at once."""

    def solve(module: str, keys: torch.Tensor, residual: torch.Tensor) -> LowRank:
        return ridge(keys, residual, inverse_times(covariance, module, keys), settings.weight)

    return spread(lm, requests, settings, settings.layers, sites, solve, keep_keys=False)


def ridge(keys: torch.Tensor, residual: torch.Tensor, solved: torch.Tensor, weight: float) -> LowRank:
    """R K' (w C + K K')^-1 as a low-rank change: keys (inputs, n), residual (outputs, n), solved = C^-1 keys.

    By Woodbury's identity the inverse is of n x n: K' (w C + K K')^-1 = (w I + K' C^-1 K)^-1 K' C^-1.
    """
    small = keys.T @ solved
    small = (small + small.T) / 2 + weight * torch.eye(len(small), dtype=keys.dtype, device=keys.device)
    return LowRank(residual, torch.linalg.solve(small, solved.T))


def spread(
    lm: LanguageModel,
    requests: Sequence[EditRequest],
    settings: ValueSettings,
    layers: Sequence[int],
    sites: Sites,
    solve: Callable[[str, torch.Tensor, torch.Tensor], LowRank],
    *,
    keep_keys: bool,
) -> Edit:
    """An edit of several layers: ``solve`` gives a layer's change from (module, keys, what its output is to gain).

    keep_keys: put the keys into the edit, for later edits that are to spare this one.
    """
    check_layers(layers, sites)
    contexts = contexts_of(lm, settings)
    modules = [sites.mlp_out(layer) for layer in layers]
    block = sites.block(layers[-1])
    own = sites.post_norm is not None
    values = optimise_values(lm, requests, modules if own else [block], contexts, settings)
    bare = mark(lm.tokenizer, requests)
    total = Edit(model=fingerprint(lm))
    for place, module in enumerate(modules):
        with edited(lm, total, check=False):
            keys = mean_keys(lm, requests, module, contexts)
            if own:
                gain = values.delta[place].double()
            else:
                now = values_at_subject(lm.model, bare, outputs=[block])["out", block]
                gain = (values.clean[0] + values.delta[0] - now).double() / (len(layers) - place)
            change = solve(module, keys, gain.T.to(keys.device))
        total = total + Edit({module: change}, keys={module: keys.T} if keep_keys else {})
    return total


def check_layers(layers: Sequence[int], sites: Sites) -> None:
    """Raise `ConfigError` unless the layers rise and are the model's."""
    if not layers or list(layers) != sorted(set(layers)):
        raise ConfigError(f"layers {list(layers)} must be one or more different layers in rising order")
    for layer in layers:
        sites.block(layer)
