"""ROME: one fact as a rank-one change of one layer's MLP projection (Meng and others, NeurIPS 2022).

As published, the key is averaged over contexts for the direction u and taken from the bare prompt for the size; where
k . u is tiny the change is huge and the model collapses. r-ROME (Gupta and others, 2024), the default, uses the
averaged key in both places.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from anachron.edit.base import Edit, LowRank, edited, model_fingerprint
from anachron.edit.covariance.second_moment import SecondMoment
from anachron.edit.method import DEPTHS, NOTHING, RATES, STEPS, Method, Preset, Resources, of_one_layer
from anachron.edit.passes.context_sampling import STARTS
from anachron.edit.passes.keys import inverse_times, keys_and_outputs
from anachron.edit.passes.value import ValueSettings, contexts_of, optimise_values
from anachron.edit.requests import EditRequest
from anachron.lm.model import LanguageModel
from anachron.lm.sites import Sites


@dataclass(frozen=True, kw_only=True)
class RomeSettings(ValueSettings):
    """layer: whose MLP projection is changed. averaged_key: r-ROME; off is ROME as published."""

    layer: int = 5
    averaged_key: bool = True


def rome(
    lm: LanguageModel, requests: Sequence[EditRequest], settings: RomeSettings, sites: Sites,
    resources: Resources = NOTHING, *, apart: bool = False,
) -> list[Edit]:  # fmt: skip
    """Equation 2 of ROME: dW = (v* - W k) / (k . u) u', u = C^-1 k / |C^-1 k|, v* = h0 + delta.

    One edit, its requests one on top of the other; with ``apart`` one a request, as if it were the only one.
    """
    module = sites.mlp_out(settings.layer)
    contexts = contexts_of(lm, settings)
    changes_of = partial(
        _changes, lm, settings=settings, module=module, contexts=contexts, covariance=resources.covariance
    )
    if apart:
        changes = changes_of(requests)
        return [Edit({module: change}, model=model_fingerprint(lm)) for change in changes]
    total = Edit(model=model_fingerprint(lm))
    for request in requests:
        with edited(lm, total, check=False):
            (change,) = changes_of([request])
            total = total + Edit({module: change})
    return [total]


def _changes(
    lm: LanguageModel, requests: Sequence[EditRequest], *, settings: RomeSettings, module: str, contexts: Sequence[str],
    covariance: Mapping[str, SecondMoment] | None,
) -> list[LowRank]:  # fmt: skip
    """Each request's change of the model as it is now."""
    values = optimise_values(lm, requests, [module], contexts, settings)
    # (1 + contexts, requests, inputs) and (1 + contexts, requests, outputs)
    keys, outputs = keys_and_outputs(lm, requests, module, contexts)
    mean_key, mean_output = keys.mean(0), outputs.mean(0)  # k* of equation 3: (requests, inputs), and W k*
    u = inverse_times(covariance, module, mean_key.T).T  # (requests, inputs)
    u = u / u.norm(dim=-1, keepdim=True)
    key, output = (mean_key, mean_output) if settings.averaged_key else (keys[0], outputs[0])
    target_value = (values.clean + values.delta)[0].double()  # v*: (requests, outputs)
    left = (target_value - output) / (key * u).sum(-1, keepdim=True)  # Lambda of equation 2: (requests, outputs)
    return [LowRank(one[:, None], direction[None, :]) for one, direction in zip(left, u, strict=True)]


_EASY = "zjunlp/EasyEdit hparams/"
_BARE = {"context_lengths": ((5, 10), (10, 10))}  # no start-of-text token is counted
# what EasyEdit and the authors of AlphaEdit set alike for Llama and Qwen2.5
_LATER = {"layer": 5, "steps": 25, "decay": 1e-3, "clamp": 4.0, "context_starts": STARTS}
_WITH_C = "but with C (mom2_adjustment is false there: --no-covariance)"

ROME = Method(
    "ROME", RomeSettings, rome, of_one_layer,
    printed_name=lambda settings: "r-ROME" if settings["averaged_key"] else "ROME",
    presets={
        "GPT-J": Preset({"layer": 5}, "kmeng01/rome hparams/ROME/EleutherAI_gpt-j-6B.json"),
        "GPT-2-XL": Preset({"layer": 17}, "kmeng01/rome hparams/ROME/gpt2-xl.json"),
        "Llama-7B": Preset(_LATER, _EASY + "R-ROME/llama-7b.yaml", _WITH_C),
        "Llama-3-8B": Preset(_LATER, "jianghoucheng/AlphaEdit hparams/ROME/Llama3-8B.json", _WITH_C),
        "Llama-3.2-3B": Preset(_LATER, _EASY + "R-ROME/llama3.2-3b.yaml", _WITH_C),
        "Mistral-7B": Preset(_LATER, _EASY + "ROME/mistral-7b.yaml", _WITH_C),
        "Qwen2.5-7B": Preset(_LATER | _BARE, _EASY + "R-ROME/qwen2.5-7b.yaml", _WITH_C),
        "Qwen3.5-9B": Preset(_LATER | _BARE, _EASY + "R-ROME/qwen3.5-9b.yaml", _WITH_C),
        "demo": Preset({"layer": 1, "steps": 40, "rate": 2.0, "clamp": 10.0} | _BARE),
    },
    tunable={"rate": RATES, "layer": DEPTHS, "steps": STEPS},
)  # fmt: skip
