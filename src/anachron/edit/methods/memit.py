"""MEMIT: many facts as low-rank changes of several layers' MLP projections (Meng and others, ICLR 2023)."""

from collections.abc import Sequence
from dataclasses import dataclass

from anachron.edit.base import Edit
from anachron.edit.method import NOTHING, Method, Resources, of_several_layers
from anachron.edit.passes.spread import SpreadSettings, by_ridge, spread
from anachron.edit.requests import EditRequest
from anachron.lm.model import LanguageModel
from anachron.lm.sites import Sites


@dataclass(frozen=True, kw_only=True)
class MemitSettings(SpreadSettings):
    """layers: edited blocks, rising. weight: of the covariance against the new keys (lambda)."""

    layers: tuple[int, ...] = (3, 4, 5, 6, 7, 8)
    weight: float = 15000.0


def memit(
    lm: LanguageModel, requests: Sequence[EditRequest], settings: MemitSettings, sites: Sites,
    resources: Resources = NOTHING, *, apart: bool = False,
) -> list[Edit]:  # fmt: skip
    """Equation 14: dW = R K' (lambda C + K K')^-1 a layer, all requests at once, or each one apart; see `spread`.

    K: keys, R: residuals, of the requests in columns.
    """
    solve = by_ridge(resources.covariance, settings.weight)
    return spread(
        lm, requests, settings, layers=settings.layers, sites=sites, solve=solve, apart=apart, keep_keys=False
    )


MEMIT = Method(
    "MEMIT", MemitSettings, memit, of_several_layers,
    presets={
        "GPT-J": {"layers": (3, 4, 5, 6, 7, 8)},
        "GPT-2-XL": {"layers": (13, 14, 15, 16, 17), "steps": 20, "weight": 20000.0},
        "Llama-7B": {"layers": (4, 5, 6, 7, 8)},
        "demo": {"layers": (1, 2, 3), "rate": 2.0, "clamp": 4.0, "weight": 15.0},
    },
    width_scaled=("weight",),
)  # fmt: skip
