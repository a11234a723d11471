"""MEMIT: many facts as low-rank changes of several layers' MLP projections (Meng and others, ICLR 2023)."""

from collections.abc import Sequence
from dataclasses import dataclass

from anachron.edit.base import Edit, keys_in_force
from anachron.edit.method import DEPTHS, NOTHING, RATES, STEPS, Method, Preset, Resources, of_several_layers
from anachron.edit.passes.spread import SpreadSettings, by_ridge, spread
from anachron.edit.requests import EditRequest
from anachron.lm.model import LanguageModel
from anachron.lm.sites import Sites


@dataclass(frozen=True, kw_only=True)
class MemitSettings(SpreadSettings):
    """layers: edited blocks, rising. weight: of the covariance against the new keys (lambda).

    spare_earlier: in a sequence, let the keys of earlier edits count like new ones whose outputs are to stay (the cache
    of the authors of AlphaEdit). MEMIT as published knows no earlier edits.
    """

    layers: tuple[int, ...] = (3, 4, 5, 6, 7, 8)
    weight: float = 15000.0
    spare_earlier: bool = False


def memit(
    lm: LanguageModel, requests: Sequence[EditRequest], settings: MemitSettings, sites: Sites,
    resources: Resources = NOTHING, *, apart: bool = False,
) -> list[Edit]:  # fmt: skip
    """Equation 14: dW = R K' (lambda C + K K')^-1 a layer, all requests at once, or each one apart; see `spread`.

    K: keys, R: residuals, of the requests in columns. With ``spare_earlier`` K K' + Kp Kp' takes the place of K K', Kp
    the keys of the edits in force.
    """
    spare = settings.spare_earlier
    earlier = keys_in_force(lm) if spare else None
    solve = by_ridge(resources.covariance, settings.weight, earlier)
    return spread(
        lm, requests, settings, layers=settings.layers, sites=sites, solve=solve, apart=apart, keep_keys=spare
    )


_EASY = "zjunlp/EasyEdit hparams/MEMIT/"
_LATER = {"layers": (4, 5, 6, 7, 8), "clamp": 4.0, "decay": 1e-3}

MEMIT = Method(
    "MEMIT", MemitSettings, memit, of_several_layers,
    presets={
        "GPT-J": Preset({"layers": (3, 4, 5, 6, 7, 8)}, "kmeng01/memit hparams/MEMIT/EleutherAI_gpt-j-6B.json"),
        "GPT-2-XL": Preset(
            {"layers": (13, 14, 15, 16, 17), "steps": 20, "weight": 20000.0}, "kmeng01/memit hparams/MEMIT/gpt2-xl.json"
        ),
        "Llama-7B": Preset(_LATER | {"context_lengths": ((9, 5),)}, _EASY + "llama-7b.yaml"),
        "Llama-3.2-3B": Preset(_LATER | {"context_lengths": ((9, 5),)}, _EASY + "llama3.2-3b.yaml"),
        "Mistral-7B": Preset(_LATER | {"context_lengths": ((9, 5),)}, _EASY + "mistral-7b.yaml"),
        "Llama-3-8B": Preset(
            {"layers": (4, 5, 6, 7, 8), "rate": 0.1, "context_lengths": ((9, 5),)},
            "jianghoucheng/AlphaEdit hparams/MEMIT/Llama3-8B.json",
        ),
        "Qwen2.5-7B": Preset(_LATER, _EASY + "qwen2.5-7b.yaml"),
        "demo": Preset(
            {"layers": (1, 2), "steps": 60, "rate": 2.0, "clamp": 4.0, "weight": 15.0, "context_starts": ()}
        ),
    },
    tunable={"rate": RATES, "layers": DEPTHS, "steps": STEPS},
    width_scaled=("weight",),
)  # fmt: skip
