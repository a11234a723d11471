"""AlphaEdit: changes only in the null space of C, up to a threshold (Fang and others, ICLR 2025).

P projects on the null space: the eigenvectors of C whose eigenvalue counts as 0. A layer's output for keys that P takes
to zero (P k = 0) stays exactly as it was; other keys are protected as far as P k is small. How small it is on the text
that C was taken over, the null space's share of C's trace says: the mean of |P k|^2 over that of |k|^2.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from anachron.core.errors import ConfigError, DataError
from anachron.edit.base import Edit, LowRank, keys_in_force
from anachron.edit.covariance.second_moment import SecondMoment
from anachron.edit.method import (
    DEPTHS,
    NOTHING,
    RATES,
    STEPS,
    CovarianceUse,
    Method,
    Preset,
    Resources,
    of_several_layers,
)
from anachron.edit.passes.spread import Insert, SpreadSettings, spread
from anachron.edit.requests import EditRequest
from anachron.io.files import Json
from anachron.lm.model import LanguageModel
from anachron.lm.sites import Sites

LARGEST_TRACE_SHARE = 0.01  # of C's trace in a null space, beyond which "empty" is no word for it

Covariances = Mapping[str, SecondMoment] | None


@dataclass(frozen=True, kw_only=True)
class AlphaEditSettings(SpreadSettings):
    """layers: edited blocks, rising. ridge: weight of |dW|^2.

    threshold: eigenvalues of C below it count as 0. relative_threshold: as many of the least as hold together at most
    this share of C's trace, whatever the scale of C. Of both, what is below both; of None, no bound.
    """

    layers: tuple[int, ...] = (3, 4, 5, 6, 7, 8)
    threshold: float | None = 2e-2
    relative_threshold: float | None = None
    ridge: float = 10.0


@dataclass(frozen=True)
class NullSpace:
    """The directions of an input that count as empty: orthonormal basis E (inputs, m), and share of C's trace.

    Of an imported projection P = E E' the basis is P itself, which does what E does wherever E' and then E are applied;
    dimension is m all the same, and the share is not known.
    """

    basis: torch.Tensor
    trace_share: float | None
    dimension: int

    @classmethod
    def of(cls, moment: SecondMoment, settings: AlphaEditSettings) -> "NullSpace":
        """By the settings' thresholds, where the covariance is not a projection already.

        Raises `ConfigError` where there is none, `DataError` where no direction counts as empty.
        """
        if moment.is_projection:
            dimension = round(float(moment.matrix.double().trace()))
            if not dimension:
                raise DataError(f"{moment.module}: the imported projection has no direction; import another")
            return cls(moment.matrix, None, dimension)
        if settings.threshold is None and settings.relative_threshold is None:
            raise ConfigError(
                "AlphaEdit has neither threshold nor relative_threshold; give one, such as relative_threshold 0.01"
            )
        values, vectors = moment.eigen()  # ascending
        running = values.clamp(min=0).cumsum(0)  # rounding may leave tiny ones below 0
        shares = running / running[-1] if running[-1] > 0 else running  # of the trace: (inputs,)
        dimension = len(values)
        if settings.threshold is not None:
            dimension = int((values < settings.threshold).sum())
            if not dimension:
                raise DataError(
                    f"{moment.module}: no eigenvalue of the covariance is below {settings.threshold} (the least is "
                    f"{float(values[0]):.3g}); raise the threshold"
                )
        if settings.relative_threshold is not None:
            dimension = min(dimension, int((shares <= settings.relative_threshold).sum()))
            if not dimension:
                raise DataError(
                    f"{moment.module}: no eigenvalue of the covariance holds at most {settings.relative_threshold} of "
                    f"its trace (the least holds {float(shares[0]):.3g}); raise the relative_threshold"
                )
        return cls(vectors[:, :dimension], float(shares[dimension - 1]), dimension)

    def described(self) -> Json:
        """For the record of an edit."""
        return {"dimension": self.dimension, "inputs": len(self.basis), "trace_share": self.trace_share}


def alphaedit(
    lm: LanguageModel, requests: Sequence[EditRequest], settings: AlphaEditSettings, sites: Sites,
    resources: Resources = NOTHING, *, apart: bool = False,
) -> list[Edit]:  # fmt: skip
    """dW' = (P (K K' + Kp Kp') + ridge I)^-1 P K R' of all requests at once, or of each one apart.

    Kp: keys of the edits in force. An edit is about its ``null_space``, a record of each module. Raises
    `ConfigError` without a covariance, `DataError` where no direction of it counts as empty.
    """
    null_spaces = _null_spaces(of_several_layers(settings, sites), settings, resources.covariance)
    earlier = keys_in_force(lm)

    def solve(module: str, keys: torch.Tensor) -> Insert:
        basis = null_spaces[module].basis.to(keys)
        before = earlier.get(module)
        return lambda chosen, residual: null_space_change(keys[:, chosen], residual, basis, settings.ridge, before)

    edits = spread(
        lm, requests, settings, layers=settings.layers, sites=sites, solve=solve, apart=apart, keep_keys=True
    )
    about = {"null_space": {module: null_space.described() for module, null_space in null_spaces.items()}}
    return [replace(edit, about=about) for edit in edits]


def null_space_use(settings: AlphaEditSettings, modules: Sequence[str], covariance: Covariances) -> CovarianceUse:
    """Size and share of the trace of the modules' null spaces; warns of those that are not empty.

    Raises as `alphaedit`.
    """
    null_spaces = _null_spaces(modules, settings, covariance)
    known = {module: one.trace_share for module, one in null_spaces.items()}
    shares = {module: share for module, share in known.items() if share is not None}
    sizes = ", ".join(
        f"{one.dimension:,} of {len(one.basis):,} directions "
        + ("as imported, with an unknown share" if one.trace_share is None else f"with {100 * one.trace_share:.2g} %")
        for one in null_spaces.values()
    )
    warnings = []
    if full := [module for module, share in shares.items() if share > LARGEST_TRACE_SHARE]:
        warnings.append(
            f"AlphaEdit: the null space of {', '.join(full)} holds up to {100 * max(shares.values()):.2g} % of the "
            f"covariance's trace, more than {100 * LARGEST_TRACE_SHARE:g} %, so edits change what the model usually "
            f"reads; lower the threshold or set AlphaEdit.relative_threshold={LARGEST_TRACE_SHARE:g}"
        )
    return CovarianceUse(f"null space: {sizes} of the trace", tuple(warnings))


def _null_spaces(modules: Sequence[str], settings: AlphaEditSettings, covariance: Covariances) -> dict[str, NullSpace]:
    known = covariance or {}
    if missing := [module for module in modules if module not in known]:
        raise ConfigError(f"AlphaEdit needs the covariance of {missing[0]}; collect it with anachron covariance")
    return {module: NullSpace.of(known[module], settings) for module in modules}


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
_QWEN = {"layers": (4, 5, 6, 7, 8), "clamp": 4.0, "decay": 1e-3, "ridge": 1.0}

ALPHAEDIT = Method(
    "AlphaEdit", AlphaEditSettings, alphaedit, of_several_layers,
    factorise=lambda moment: None if moment.is_projection else moment.eigen(),
    covariance_use=null_space_use, scale_bound=("threshold", "relative_threshold"),
    presets={
        "GPT-J": Preset({"layers": (3, 4, 5, 6, 7, 8)}, _AUTHORS + "EleutherAI_gpt-j-6B.json"),
        "GPT-2-XL": Preset({"layers": (13, 14, 15, 16, 17), "steps": 20}, _AUTHORS + "gpt2-xl.json"),
        "Llama-7B": Preset(
            {"layers": (4, 5, 6, 7, 8), "context_lengths": ((9, 5),)}, note="with the layers of MEMIT and else as GPT-J"
        ),
        "Llama-3-8B": Preset(
            {"layers": (4, 5, 6, 7, 8), "rate": 0.1, "context_lengths": ((9, 5),)}, _AUTHORS + "Llama3-8B.json"
        ),
        "Qwen2.5-7B": Preset(_QWEN, "zjunlp/EasyEdit hparams/AlphaEdit/qwen2.5-7b.yaml"),
        "Qwen3.5-9B": Preset(_QWEN, "zjunlp/EasyEdit hparams/AlphaEdit/qwen3.5-9b.yaml"),
        "demo": Preset(
            {"layers": (0, 1, 2), "steps": 40, "rate": 2.0, "clamp": 4.0, "threshold": None,
             "relative_threshold": 0.01, "ridge": 1.0, "context_starts": ()}
        ),
    },
    tunable={"rate": RATES, "layers": DEPTHS, "steps": STEPS},
)  # fmt: skip
