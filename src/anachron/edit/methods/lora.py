"""LoRA: low-rank adapters on the MLP projections of every layer, trained on the request (Hu and others, 2022).

The practitioner's baseline. Adapters start and count as those of peft do; they stand beside the weights, which are only
read, and what they learned is the edit. LoRA-Merge trains one for every few requests and averages them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from anachron.edit.base import Edit, LowRank, model_fingerprint, owner_of
from anachron.edit.method import NOTHING, RATES, REMOVING, STEPS, Method, Resources
from anachron.edit.passes.batched_adapters import ModuleAdapters, adding_output, device_of
from anachron.edit.passes.forward import fit_apart, fit_together
from anachron.edit.passes.frozen import frozen
from anachron.edit.requests import EditRequest, mark_targets
from anachron.lm.model import LanguageModel
from anachron.lm.numerics import wide_dtype
from anachron.lm.sites import Sites, features
from anachron.lm.temporary import Temporary, together


@dataclass(frozen=True, kw_only=True)
class LoraSettings:
    """rank, alpha: of the adapters, whose change counts alpha / rank. steps, rate: of Adam. stop_below: loss in nats.

    layers: edited blocks; None for all. seed: of the adapters' start.
    """

    rank: int = 8
    alpha: int = 32
    steps: int = 50
    rate: float = 1e-3
    stop_below: float = 1e-2
    layers: tuple[int, ...] | None = None
    seed: int = 0


def lora(
    lm: LanguageModel, requests: Sequence[EditRequest], settings: LoraSettings, sites: Sites,
    resources: Resources = NOTHING, *, apart: bool = False,
) -> list[Edit]:  # fmt: skip
    """Train on all requests together, as `anachron.edit.methods.ft.ft`. Works on quantised weights too.

    With ``apart`` each request has adapters of its own, in the same passes, and so an edit of its own; all start alike.
    Adapters are float32 or finer whatever the model's dtype. Raises `ModelError` for a module that is no linear layer.
    """
    modules = {name: owner_of(lm, name) for name in _adapted(settings, sites)}
    copies = len(requests) if apart else 1
    chance = torch.Generator().manual_seed(settings.seed)
    wide = wide_dtype(lm.model.dtype)
    adapters = {}
    for name, module in modules.items():
        start = (half.to(device_of(lm, module), wide) for half in _start(features(module, name), settings.rank, chance))
        # left (copies, outputs, rank) and right (copies, rank, inputs)
        adapters[name] = [half.repeat(copies, 1, 1).requires_grad_(True) for half in start]
    share = settings.alpha / settings.rank

    def adapters_of(texts: Sequence[int]) -> Temporary[None]:
        """Each text's own adapters, or those that all share."""
        owners = torch.tensor(list(texts) if apart else [0] * len(texts))
        return together(
            adding_output(modules[name], ModuleAdapters(left * share, right, {}).output, owners)
            for name, (left, right) in adapters.items()
        )

    trained = [half for halves in adapters.values() for half in halves]
    with frozen(lm.model):
        train = fit_apart if apart else fit_together
        train(lm.model, mark_targets(lm.tokenizer, requests, lm.style), trained, settings, "LoRA", during=adapters_of)
    learned = {name: (left.detach() * share, right.detach()) for name, (left, right) in adapters.items()}
    return [
        Edit(
            {name: LowRank(left[i].clone(), right[i].clone()) for name, (left, right) in learned.items()},
            model=model_fingerprint(lm),
        )
        for i in range(copies)
    ]


@dataclass(frozen=True, kw_only=True)
class LoraMergeSettings(LoraSettings):
    """part: requests of one adapter, in their order. The others as `LoraSettings`."""

    part: int = 10


def lora_merge(
    lm: LanguageModel, requests: Sequence[EditRequest], settings: LoraMergeSettings, sites: Sites,
    resources: Resources = NOTHING, *, apart: bool = False,
) -> list[Edit]:  # fmt: skip
    """The mean of the changes that an adapter for each part of the requests learns, all on the model as it is.

    WikiBigEdit (Thede and others, 2025) merges otherwise: one adapter after the other, each trained on the weights that
    the ones before have left, to which it is added by half.
    """
    if apart:
        return lora(lm, requests, settings, sites, resources, apart=True)
    parts = [requests[first : first + settings.part] for first in range(0, len(requests), settings.part)]
    edits = [edit for some in parts for edit in lora(lm, some, settings, sites, resources)]
    return [1 / len(edits) * sum(edits[1:], edits[0])]


def _size(lm: LanguageModel, settings: LoraSettings, sites: Sites) -> int:
    """How many numbers the adapters of one edit have."""
    return settings.rank * sum(sum(features(owner_of(lm, name), name)) for name in _adapted(settings, sites))


def _adapted(settings: LoraSettings, sites: Sites) -> list[str]:
    layers = range(sites.layers) if settings.layers is None else settings.layers
    return [name for layer in layers for name in (*sites.mlp_in(layer), sites.mlp_out(layer))]


def _start(shape: tuple[int, int], rank: int, chance: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """The halves of an adapter: zeros (outputs, rank), and random numbers (rank, inputs), those of peft with this seed.

    It draws each half as it makes it, and then the second one anew.
    """
    outputs, inputs = shape
    for size in ((rank, inputs), (outputs, rank), (rank, inputs)):
        right = torch.empty(size, dtype=torch.float32)
        torch.nn.init.kaiming_uniform_(right, a=math.sqrt(5), generator=chance)
    return torch.zeros(outputs, rank), right


LORA = Method(
    "LoRA", LoraSettings, lora, readable_weights=False, needs_subject=False, scenarios=REMOVING, size=_size,
    tunable={"rate": RATES, "steps": STEPS},
)  # fmt: skip
LORA_MERGE = Method(
    "LoRA-Merge", LoraMergeSettings, lora_merge, readable_weights=False, needs_subject=False, scenarios=REMOVING,
    size=_size, tunable={"rate": RATES, "steps": STEPS},
)  # fmt: skip
