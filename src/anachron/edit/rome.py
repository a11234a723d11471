"""ROME: one fact as a rank-one change of one layer's MLP projection (Meng and others, NeurIPS 2022).

As published, the key is averaged over contexts for the direction u and taken from the bare prompt for the size; where
k . u is tiny the change is huge and the model collapses. r-ROME (Gupta and others, 2024), the default, uses the
averaged key in both places.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anachron.edit.base import Edit, LowRank, edited, fingerprint
from anachron.edit.keys import inverse_times, keys_and_outputs
from anachron.edit.requests import EditRequest
from anachron.edit.second_moment import SecondMoment
from anachron.edit.sites import Sites
from anachron.edit.value import ValueSettings, contexts_of, optimise_values
from anachron.lm.model import LanguageModel


@dataclass(frozen=True)
class RomeSettings(ValueSettings):
    """layer: whose MLP projection is changed. averaged_key: r-ROME; off is ROME as published."""

    layer: int = 5
    averaged_key: bool = True


def rome(
    lm: LanguageModel,
    requests: Sequence[EditRequest],
    settings: RomeSettings,
    sites: Sites,
    covariance: Mapping[str, SecondMoment] | None,
    *,
    apart: bool = False,
) -> list[Edit]:
    """dW = (h0 + delta - W k) / (k . u) u', u = C^-1 k / |C^-1 k|.

    One edit, its requests one on top of the other; with ``apart`` one a request, as if it were the only one.
    """
    module = sites.mlp_out(settings.layer)
    contexts = contexts_of(lm, settings)
    if apart:
        changes = _changes(lm, requests, settings, module, contexts, covariance)
        return [Edit({module: change}, model=fingerprint(lm)) for change in changes]
    total = Edit(model=fingerprint(lm))
    for request in requests:
        with edited(lm, total, check=False):
            (change,) = _changes(lm, [request], settings, module, contexts, covariance)
            total = total + Edit({module: change})
    return [total]


def _changes(
    lm: LanguageModel,
    requests: Sequence[EditRequest],
    settings: RomeSettings,
    module: str,
    contexts: Sequence[str],
    covariance: Mapping[str, SecondMoment] | None,
) -> list[LowRank]:
    """Each request's change of the model as it is now."""
    values = optimise_values(lm, requests, [module], contexts, settings)
    keys, outputs = keys_and_outputs(lm, requests, module, contexts)
    mean_key, mean_output = keys.mean(0), outputs.mean(0)
    u = inverse_times(covariance, module, mean_key.T).T
    u = u / u.norm(dim=-1, keepdim=True)
    key, output = (mean_key, mean_output) if settings.averaged_key else (keys[0], outputs[0])
    wanted = (values.clean + values.delta)[0].double()
    left = (wanted - output) / (key * u).sum(-1, keepdim=True)
    return [LowRank(one[:, None], direction[None, :]) for one, direction in zip(left, u, strict=True)]
