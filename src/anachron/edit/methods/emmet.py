"""EMMET: ROME's equality for many facts at once, in one layer (Gupta, Sajnani and Anumanchipalli, 2024)."""

from collections.abc import Sequence
from dataclasses import dataclass

from anachron.edit.base import Edit
from anachron.edit.method import DEPTHS, NOTHING, RATES, STEPS, Method, Preset, Resources, of_one_layer
from anachron.edit.passes.spread import SpreadSettings, by_ridge, spread
from anachron.edit.requests import EditRequest
from anachron.lm.model import LanguageModel
from anachron.lm.sites import Sites


@dataclass(frozen=True, kw_only=True)
class EmmetSettings(SpreadSettings):
    """layer: the edited block. ridge: added to K' C^-1 K so that keys alike can be solved for.

    The published code weighs C by w (mom2_update_weight) and adds l (emmet_lambda): the same as a ridge of w l.
    """

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


_AUTHORS = "scalable-model-editing/unified-model-editing hparams/EMMET/"
_EASY = "zjunlp/EasyEdit hparams/EMMET/"
_LLAMA = {"layer": 5, "clamp": 4.0, "decay": 1e-3, "context_lengths": ((9, 5),)}

EMMET = Method(
    "EMMET", EmmetSettings, emmet, of_one_layer,
    presets={
        "GPT-J": Preset({"layer": 5}, _AUTHORS + "EleutherAI_gpt-j-6B.json"),
        "GPT-2-XL": Preset({"layer": 17, "steps": 20, "ridge": 100.0}, _AUTHORS + "gpt2-xl.json"),
        "Llama-7B": Preset(_LLAMA, _AUTHORS + "llama2-7b.json"),
        "Llama-3.2-3B": Preset(_LLAMA | {"ridge": 10000.0}, _EASY + "llama3.2-3b.yaml"),
        "demo": Preset({"layer": 1, "rate": 2.0, "clamp": 10.0, "context_starts": ()}),
    },
    tunable={"rate": RATES, "layer": DEPTHS, "steps": STEPS},
)  # fmt: skip
