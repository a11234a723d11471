"""AlphaEdit: changes only in the null space of C, up to a threshold (Fang and others, ICLR 2025).

P projects on the eigenvectors of C whose eigenvalue is small. A layer's output for keys that P takes to zero (P k = 0)
stays exactly as it was; other keys are protected as far as P k is small.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from anachron.edit.base import Edit, LowRank
from anachron.edit.covariance.second_moment import SecondMoment
from anachron.edit.method import NOTHING, Method, Preset, Resources, of_several_layers
from anachron.edit.methods.memit import MemitSettings
from anachron.edit.passes.spread import Insert, spread
from anachron.edit.requests import EditRequest
from anachron.errors import ConfigError, DataError
from anachron.lm.model import LanguageModel
from anachron.lm.sites import Sites


@dataclass(frozen=True, kw_only=True)
class AlphaEditSettings(MemitSettings):
    """threshold: largest eigenvalue of C that counts as 0. ridge: weight of |dW|^2."""

    threshold: float = 2e-2
    ridge: float = 10.0


def alphaedit(
    lm: LanguageModel, requests: Sequence[EditRequest], settings: AlphaEditSettings, sites: Sites,
    resources: Resources = NOTHING, *, apart: bool = False,
) -> list[Edit]:  # fmt: skip
    """dW' = (P (K K' + Kp Kp') + ridge I)^-1 P K R' of all requests at once, or of each one apart.

    Kp: keys of the edits made before. Raises `ConfigError` without a covariance, `DataError` where no
    eigenvalue is below the threshold.
    """
    modules = [sites.mlp_out(layer) for layer in settings.layers]
    null_space = {module: _null_space(module, resources.covariance, settings.threshold) for module in modules}

    def solve(module: str, keys: torch.Tensor) -> Insert:
        before = None if resources.earlier is None else resources.earlier.keys.get(module)
        basis = null_space[module].to(keys)
        return lambda chosen, residual: null_space_change(keys[:, chosen], residual, basis, settings.ridge, before)

    return spread(lm, requests, settings, layers=settings.layers, sites=sites, solve=solve, apart=apart, keep_keys=True)


def _null_space(module: str, covariance: Mapping[str, SecondMoment] | None, threshold: float) -> torch.Tensor:
    """Eigenvectors of C whose eigenvalue is below the threshold, in columns, (inputs, m)."""
    if covariance is None or module not in covariance:
        raise ConfigError(f"AlphaEdit needs the covariance of {module}; collect it with anachron covariance")
    values, vectors = covariance[module].eigen()
    basis = vectors[:, values < threshold]
    if not basis.shape[1]:
        raise DataError(
            f"{module}: no eigenvalue of the covariance is below {threshold} (the least is {float(values[0]):.3g}); "
            "raise the threshold"
        )
    return basis


def null_space_change(
    keys: torch.Tensor, residual: torch.Tensor, basis: torch.Tensor, ridge: float, earlier: torch.Tensor | None = None
) -> LowRank:
    """The change of a weight, of rank n: keys (inputs, n), residual (outputs, n), basis E (inputs, m) orthonormal.

    earlier: keys (n', inputs) of the edits made before. With M all keys and P = E E': (P M M' + r I)^-1 P M =
    P M (M' P M + r I)^-1, a solve of the number of keys.
    """
    count = keys.shape[1]
    all_keys = keys if earlier is None else torch.cat([keys, earlier.to(keys).T], 1)  # M: (inputs, n + n')
    projected = basis.T @ all_keys  # E' M: (m, n + n')
    identity = torch.eye(all_keys.shape[1], dtype=keys.dtype, device=keys.device)  # (n + n', n + n')
    small = projected.T @ projected + ridge * identity  # M' P M + r I
    right = basis @ (projected @ torch.linalg.solve(small, identity[:, :count]))  # (inputs, n)
    return LowRank(residual, right.T)


_AUTHORS = "jianghoucheng/AlphaEdit hparams/AlphaEdit/"

ALPHAEDIT = Method(
    "AlphaEdit", AlphaEditSettings, alphaedit, of_several_layers, factorise=SecondMoment.eigen,
    presets={
        "GPT-J": Preset({"layers": (3, 4, 5, 6, 7, 8)}, _AUTHORS + "EleutherAI_gpt-j-6B.json"),
        "GPT-2-XL": Preset({"layers": (13, 14, 15, 16, 17), "steps": 20}, _AUTHORS + "gpt2-xl.json"),
        "Llama-7B": Preset(
            {"layers": (4, 5, 6, 7, 8), "context_lengths": ((9, 5),)}, note="with the layers of MEMIT and else as GPT-J"
        ),
        "Llama-3-8B": Preset(
            {"layers": (4, 5, 6, 7, 8), "rate": 0.1, "context_lengths": ((9, 5),)}, _AUTHORS + "Llama3-8B.json"
        ),
        "Qwen2.5-7B": Preset(
            {"layers": (4, 5, 6, 7, 8), "clamp": 4.0, "decay": 1e-3, "ridge": 1.0},
            "zjunlp/EasyEdit hparams/AlphaEdit/qwen2.5-7b.yaml",
        ),
        "demo": Preset(
            {"layers": (1, 2, 3), "rate": 2.0, "clamp": 4.0, "threshold": 3.0, "ridge": 1.0, "context_starts": ()}
        ),
    },
)  # fmt: skip
