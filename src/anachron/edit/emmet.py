"""EMMET: ROME's equality for many facts at once, in one layer (Gupta, Sajnani and Anumanchipalli, 2024)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from anachron.edit.base import Edit
from anachron.edit.keys import inverse_times
from anachron.edit.memit import Insert, ridge, spread
from anachron.edit.requests import EditRequest
from anachron.edit.second_moment import SecondMoment
from anachron.edit.sites import Sites
from anachron.edit.value import ValueSettings
from anachron.lm.model import LanguageModel


@dataclass(frozen=True)
class EmmetSettings(ValueSettings):
    """layer: the edited block. ridge: added to K' C^-1 K so that keys alike can be solved for."""

    steps: int = 25
    clamp: float = 0.75
    context_lengths: tuple[tuple[int, int], ...] = ((10, 5),)
    layer: int = 5
    ridge: float = 0.1


def emmet(
    lm: LanguageModel,
    requests: Sequence[EditRequest],
    settings: EmmetSettings,
    sites: Sites,
    covariance: Mapping[str, SecondMoment] | None,
    *,
    apart: bool = False,
) -> list[Edit]:
    """dW = R (K' C^-1 K + ridge I)^-1 K' C^-1 of all requests at once, or of each one apart."""

    def solve(module: str, keys: torch.Tensor) -> Insert:
        solved = inverse_times(covariance, module, keys)
        return lambda own, residual: ridge(keys[:, own], residual, solved[:, own], settings.ridge)

    return spread(lm, requests, settings, (settings.layer,), sites, solve, apart=apart, keep_keys=False)
