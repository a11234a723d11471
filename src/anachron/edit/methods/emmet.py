"""EMMET: ROME's equality for many facts at once, in one layer (Gupta, Sajnani and Anumanchipalli, 2024)."""

from collections.abc import Sequence
from dataclasses import dataclass

from anachron.edit.base import Edit
from anachron.edit.method import NOTHING, Method, Resources, of_one_layer
from anachron.edit.passes.spread import SpreadSettings, by_ridge, spread
from anachron.edit.requests import EditRequest
from anachron.lm.model import LanguageModel
from anachron.lm.sites import Sites


@dataclass(frozen=True, kw_only=True)
class EmmetSettings(SpreadSettings):
    """layer: the edited block. ridge: added to K' C^-1 K so that keys alike can be solved for."""

    layer: int = 5
    ridge: float = 0.1


def emmet(
    lm: LanguageModel, requests: Sequence[EditRequest], settings: EmmetSettings, sites: Sites,
    resources: Resources = NOTHING, *, apart: bool = False,
) -> list[Edit]:  # fmt: skip
    """dW = R (K' C^-1 K + ridge I)^-1 K' C^-1 of all requests at once, or of each one apart."""
    solve = by_ridge(resources.covariance, settings.ridge)
    return spread(
        lm, requests, settings, layers=(settings.layer,), sites=sites, solve=solve, apart=apart, keep_keys=False
    )


EMMET = Method(
    "EMMET", EmmetSettings, emmet, of_one_layer,
    presets={
        "GPT-J": {"layer": 5},
        "GPT-2-XL": {"layer": 17, "steps": 20},
        "Llama-7B": {"layer": 5},
        "demo": {"layer": 1, "rate": 2.0, "clamp": 10.0},
    },
)  # fmt: skip
