"""A wanted value spread over the MLP projections of several layers (MEMIT, section 4.3).

The wanted value is that of the last edited block's output. Going up the layers, each takes an equal share of what is
still missing there; states are computed anew after each layer.

In Gemma-2 and -3 and OLMo-2 the MLP's output passes a norm before it is added, which leaves it no length to give: what
the block lacks cannot be handed down to the MLP. There a vector for the MLP's output of each layer is optimised
instead, all at once, and each layer takes its own.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from anachron.core.errors import ConfigError
from anachron.edit.base import Edit, LowRank, edited, model_fingerprint
from anachron.edit.covariance.second_moment import SecondMoment
from anachron.edit.passes.batched_adapters import BatchedAdapters
from anachron.edit.passes.context_sampling import STARTS
from anachron.edit.passes.keys import inverse_times, keys_and_outputs, mean_keys
from anachron.edit.passes.value import ValueSettings, contexts_of, optimise_values
from anachron.edit.requests import EditRequest
from anachron.lm.model import LanguageModel
from anachron.lm.scoring import During
from anachron.lm.sites import Sites


@dataclass(frozen=True, kw_only=True)
class SpreadSettings(ValueSettings):
    """Of methods that write many values at once; the defaults are those of MEMIT's published code."""

    steps: int = 25
    clamp: float = 0.75
    context_lengths: tuple[tuple[int, int], ...] = ((10, 5),)
    context_starts: tuple[str, ...] = STARTS


# (requests, their residuals R (outputs, these requests)) -> a layer's change
Insert = Callable[[slice, torch.Tensor], LowRank]
Solve = Callable[[str, torch.Tensor], Insert]  # (module, keys K (inputs, all requests)) -> what makes changes of it


def by_ridge(
    covariance: Mapping[str, SecondMoment] | None, weight: float, earlier: Mapping[str, torch.Tensor] | None = None
) -> Solve:
    """Changes by `ridge`, with C of each module (None for the identity) and the weight w.

    earlier: module -> keys (n', inputs) of the edits made before, whose outputs are to change little.
    """

    def solve(module: str, keys: torch.Tensor) -> Insert:
        before = keys[:, :0] if earlier is None or module not in earlier else earlier[module].to(keys).T
        all_keys = torch.cat([keys, before], 1)  # (inputs, requests + n')
        solved = inverse_times(covariance, module, all_keys)
        places = torch.arange(all_keys.shape[1], device=keys.device)

        def insert(chosen: slice, residual: torch.Tensor) -> LowRank:
            used = torch.cat([places[: keys.shape[1]][chosen], places[keys.shape[1] :]])
            return ridge(all_keys[:, used], residual, solved[:, used], weight)

        return insert

    return solve


def ridge(keys: torch.Tensor, residual: torch.Tensor, solved: torch.Tensor, weight: float) -> LowRank:
    """R K' (w C + M M')^-1 as a low-rank change: keys M (inputs, m), residual R (outputs, n), solved = C^-1 M.

    K: the first n of the keys; others are to be spared. By Woodbury's identity the inverse is of m x m:
    M' (w C + M M')^-1 = (w I + M' C^-1 M)^-1 M' C^-1, and K' takes its first n rows.
    """
    small = keys.T @ solved  # M' C^-1 M, (m, m)
    small = (small + small.T) / 2 + weight * torch.eye(len(small), dtype=keys.dtype, device=keys.device)
    return LowRank(residual, torch.linalg.solve(small, solved.T)[: residual.shape[1]])


def spread(
    lm: LanguageModel, requests: Sequence[EditRequest], settings: ValueSettings, *, layers: Sequence[int], sites: Sites,
    solve: Solve, apart: bool, keep_keys: bool,
) -> list[Edit]:  # fmt: skip
    """Edits of several layers: one of all requests, or with ``apart`` one a request, as if it were the only one.

    At layer l of L the residual of a request is (z - h) / (L - l + 1): its value z less the last layer's output h as it
    is with the layers before l edited (MEMIT, section 4.3). Behind a norm, each layer has a delta of its own instead.

    solve: gives, of a module and all keys (inputs, requests), what makes a layer's change of some of the requests and
    their residuals, (outputs, these requests). keep_keys: put the keys into the edit, for later edits that are to spare
    this one.
    """
    check_layers(layers, sites)
    contexts = contexts_of(lm, settings)
    modules = [sites.mlp_out(layer) for layer in layers]
    block = sites.block(layers[-1])
    value_a_layer = sites.post_norm is not None
    values = optimise_values(lm, requests, modules if value_a_layer else [block], contexts, settings)
    count = len(requests)
    groups = [slice(i, i + 1) for i in range(count)] if apart else [slice(0, count)]
    owner = [number for number, group in enumerate(groups) for _ in range(group.start, group.stop)]
    totals = [Edit(model=model_fingerprint(lm)) for _ in groups]
    for place, module in enumerate(modules):
        during = _in_force(lm, totals, owner)
        # (1 + contexts, requests, inputs) and (1 + contexts, requests, outputs)
        context_keys, outputs = keys_and_outputs(lm, requests, module, contexts, output=block, during=during)
        keys = mean_keys(context_keys)  # K: (inputs, requests)
        if value_a_layer:
            residual = values.delta[place].double()  # (requests, outputs)
        else:
            residual = (values.clean[0] + values.delta[0] - outputs[0]).double() / (len(layers) - place)
        residual = residual.to(keys.device)
        insert = solve(module, keys)
        for number, group in enumerate(groups):
            kept = {module: keys[:, group].T} if keep_keys else {}
            totals[number] = totals[number] + Edit({module: insert(group, residual[group].T)}, keys=kept)
    return totals


def _in_force(lm: LanguageModel, edits: Sequence[Edit], owner: Sequence[int]) -> During:
    """Every text under the edit that its request belongs to; texts are numbered as in `keys_and_outputs`."""
    if len(edits) == 1:
        return lambda texts: edited(lm, edits[0], check=False)
    adapters = BatchedAdapters(lm, edits)
    return lambda texts: adapters.rows([owner[text % len(owner)] for text in texts])


def check_layers(layers: Sequence[int], sites: Sites) -> None:
    """Raise `ConfigError` unless the layers rise and are the model's."""
    if not layers or list(layers) != sorted(set(layers)):
        raise ConfigError(f"layers {list(layers)} must be one or more different layers in rising order")
    for layer in layers:
        sites.block(layer)
