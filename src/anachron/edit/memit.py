"""MEMIT: many facts as low-rank changes of several layers' MLP projections (Meng and others, ICLR 2023).

The wanted value is that of the last edited block's output. Going up the layers, each takes an equal share of what is
still missing there; states are computed anew after each layer.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from anachron.edit.base import Edit, LowRank, edited, fingerprint
from anachron.edit.covariance import SecondMoment
from anachron.edit.forward import batch, values_at_subject
from anachron.edit.keys import inverse_times, mean_keys
from anachron.edit.requests import EditRequest, mark
from anachron.edit.sites import Sites, weight_of
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

    return spread(lm, requests, settings, settings.layers, sites, solve)


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
) -> Edit:
    """An edit of several layers: ``solve`` gives a layer's change from (module, keys, what its output is to gain)."""
    check_layers(layers, sites)
    for layer in layers:
        weight_of(lm.model, sites.mlp_out(layer))
    contexts = contexts_of(lm, settings)
    block = sites.block(layers[-1])
    wanted = optimise_values(lm, requests, block, contexts, settings).wanted.double()
    bare = batch(lm.model, mark(lm.tokenizer, requests))
    total = Edit(model=fingerprint(lm))
    for place, layer in enumerate(layers):
        module = sites.mlp_out(layer)
        with edited(lm, total, check=False):
            keys = mean_keys(lm, requests, module, contexts)
            outputs = [block, module]
            found = values_at_subject(lm.model, bare, outputs=outputs)
            missing = (wanted - found["out", block].double()) / (len(layers) - place)
            gain = before_norm(lm, sites.norm_after_mlp(layer), found["out", module].double(), missing)
            change = solve(module, keys, gain.T)
        total = total + Edit({module: change}, keys={module: keys.T})
    return total


def check_layers(layers: Sequence[int], sites: Sites) -> None:
    """Raise `ConfigError` unless the layers rise and are the model's."""
    if not layers or list(layers) != sorted(set(layers)):
        raise ConfigError(f"layers {list(layers)} must be one or more different layers in rising order")
    for layer in layers:
        sites.block(layer)


def before_norm(lm: LanguageModel, norm: str | None, output: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    """What an MLP's output has to gain so that the residual stream gains ``gain``; both (texts, width).

    Where the output passes a root-mean-square norm first (Gemma-2 and -3, OLMo-2), that has no length to give: the
    output is turned so that behind the norm it points where it should, and keeps its length before it.
    """
    if norm is None:
        return gain
    module = lm.model.get_submodule(norm)
    dtype = next(module.parameters()).dtype
    with torch.no_grad():
        scale = module(torch.ones_like(output, dtype=dtype)[:1]).to(output)
        now = module(output.to(dtype)).to(output)
    rms = output.square().mean(1, keepdim=True).sqrt()
    wanted = (now + gain) / torch.where(scale.abs() < 1e-3, 1e-3 * torch.ones_like(scale), scale)
    return wanted * rms - output
