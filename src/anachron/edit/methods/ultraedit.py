"""UltraEdit: hidden states and gradients, normalised by those of all edits so far, and one least squares a module
(Gu and others, 2025).

No training, no subject and no covariance. At every token that predicts one of the target's, a module has its input h
and the gradient g of the loss at its output. Both are normalised, component by component, by the mean and the deviation
over the tokens of all edits so far ("lifelong normalisation"), to h^ and g^. The module's output at the token is to
change by v = -rate |h^|^2 g^, and the change of its weight is the ridge regression of all v on all h.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from anachron.core.errors import ConfigError, DataError
from anachron.edit.base import Delta, Dense, Edit, LowRank, model_fingerprint, statistics_in_force
from anachron.edit.carried.moments import Moments, joined
from anachron.edit.method import DEPTHS, NOTHING, RATES, Method, Preset, Resources
from anachron.edit.passes.gradients import Factors, encoded, gradients
from anachron.edit.requests import EditRequest
from anachron.lm.batches import Limits, fed_length, plan_batches
from anachron.lm.model import LanguageModel
from anachron.lm.numerics import wide_dtype
from anachron.lm.sites import Sites, weight_of
from anachron.lm.spans import Encoded

ANSWER, ALL = "answer", "all"
GAIN = 10.0  # chosen by what docs/edit-methods.md tells (UltraEdit's rate)
EPSILON = float(torch.finfo(torch.float32).eps)  # added to deviations, as published


@dataclass(frozen=True, kw_only=True)
class UltraEditSettings:
    """layers: blocks whose projection out of the MLP is edited; gate_layers, up_layers: those whose projection into it
    is, the gate's and the other. rate: of v; None takes the one at which v lowers the loss by ``gain`` nats, to first
    order, whatever the scale of the model's states and gradients. ridge: weight of |dW|^2. batch: requests that share
    one loss, the mean over all of their target tokens, which weighs their gradients against those of other batches.

    tokens: ``answer``, those that predict the target's, as published; ``all`` that are read, as in EasyEdit. Raises
    `ConfigError` for another word.
    """

    layers: tuple[int, ...] = (18, 19, 20, 21, 22, 23, 24, 25, 26)
    gate_layers: tuple[int, ...] = ()
    up_layers: tuple[int, ...] = ()
    rate: float | None = 1e-6
    gain: float = GAIN
    ridge: float = 1.0
    batch: int = 10
    tokens: str = ANSWER

    def __post_init__(self) -> None:
        if self.tokens not in (ANSWER, ALL):
            raise ConfigError(f"UltraEdit.tokens {self.tokens!r} must be {ANSWER} or {ALL}")


def edited_modules(settings: UltraEditSettings, sites: Sites) -> tuple[str, ...]:
    """Raises `ConfigError` for none, for a layer that the model has not, and for gates of a model without."""
    if settings.gate_layers and len(sites.mlp_inputs) < 2:
        raise ConfigError(
            f"UltraEdit.gate_layers {list(settings.gate_layers)}: the model's MLPs have no gate; give layers or "
            "up_layers"
        )
    modules = [sites.mlp_in(layer)[0] for layer in settings.gate_layers]
    modules += [sites.mlp_in(layer)[-1] for layer in settings.up_layers]
    modules += [sites.mlp_out(layer) for layer in settings.layers]
    if not modules or len(set(modules)) < len(modules):
        raise ConfigError("UltraEdit: give one or more different layers in layers, gate_layers and up_layers")
    return tuple(modules)


def ultraedit(
    lm: LanguageModel, requests: Sequence[EditRequest], settings: UltraEditSettings, sites: Sites,
    resources: Resources = NOTHING, *, apart: bool = False,
) -> list[Edit]:  # fmt: skip
    """One least squares of all requests, or with ``apart`` one each.

    Statistics go on from those of the edits in force; an edit holds those of its own tokens.
    Modules of one shape share theirs, as published. Raises `ConfigError` as `edited_modules`, `ModelError` for a weight
    that cannot be changed and `DataError` where a gradient is not a number or there is but one token to normalise by.
    """
    modules = edited_modules(settings, sites)
    for name in modules:
        weight_of(lm.model, name)
    before = statistics_in_force(lm)
    texts = encoded(lm, [(request.text, request.target) for request in requests])
    shares = torch.ones(len(texts)) if apart else loss_shares(texts, settings.batch)
    tokens = _tokens(lm, texts, modules, shares, settings.tokens)
    groups = [{name: part.of(i) for name, part in tokens.items()} for i in range(len(texts))] if apart else [tokens]
    losses = 1 if apart else math.ceil(len(texts) / settings.batch)
    return [edit_of(lm, group, before, settings, losses) for group in groups]


def loss_shares(texts: Sequence[Encoded], batch: int) -> torch.Tensor:
    """What the mean loss over all target tokens of a batch has of each text's own mean loss, (texts,).

    ``batch`` texts share a loss: the longest first, as published, those of one length in their order.
    """
    order = sorted(range(len(texts)), key=lambda i: -fed_length(texts[i]))
    counts = torch.tensor([len(texts[i].targets) for i in order], dtype=torch.float64)
    shares = torch.empty_like(counts)
    shares[order] = torch.cat([part / part.sum() for part in counts.split(batch)])
    return shares


def _tokens(
    lm: LanguageModel, texts: Sequence[Encoded], modules: Sequence[str], shares: torch.Tensor, which: str
) -> dict[str, Factors]:
    """Inputs and gradients of the tokens that count, owned by their texts; so many at a time as fit."""
    found: dict[str, list[Factors]] = {name: [] for name in modules}
    for group in plan_batches(texts, lm.vocabulary, Limits()):
        numbers = torch.tensor(group)
        some = [texts[i] for i in group]
        kept = [range(fed_length(text)) if which == ALL else [place - 1 for place in text.targets] for text in some]
        for name, part in gradients(lm, some, modules, kept=kept).items():
            owners = numbers.to(part.owners.device)[part.owners]
            share = shares.to(part.delta)[owners][:, None]  # (tokens, 1)
            found[name].append(Factors(part.x, part.delta * share, owners))
    return {
        name: Factors(*(torch.cat([getattr(part, field) for part in held]) for field in ("x", "delta", "owners")))
        for name, held in found.items()
    }


def edit_of(
    lm: LanguageModel, tokens: Mapping[str, Factors], before: Mapping[str, Moments], settings: UltraEditSettings,
    losses: int = 1,
) -> Edit:  # fmt: skip
    """One edit of some requests. tokens: each module's inputs and gradients. before: moments of earlier edits.
    losses: of how many losses, each of a batch, the gradients are. The edit is about its ``rate``.
    """
    own: dict[str, Moments] = {}
    for part in tokens.values():
        own = joined(own, {_shape(part): Moments.of(_beside(part))})
    so_far = joined(own, before)
    if min(moments.count for moments in so_far.values()) < 2:
        raise DataError(
            "UltraEdit: one token alone has no deviation to be normalised by; make several updates in one edit, or set "
            "UltraEdit.tokens=all"
        )
    steps = {}  # v at a rate of 1, (tokens, outputs)
    for name, part in tokens.items():
        z = so_far[_shape(part)].normalised(_beside(part), EPSILON)  # (tokens, inputs + outputs)
        h, g = z[:, : part.x.shape[1]], z[:, part.x.shape[1] :]
        steps[name] = -h.square().sum(1, keepdim=True) * g
    rate = settings.rate
    if rate is None:
        fall = -sum(float((part.delta.double() * steps[name]).sum()) for name, part in tokens.items()) / losses
        if not fall > 0:
            raise DataError("UltraEdit: no rate lowers the loss, whose gradient is 0; set UltraEdit.rate")
        rate = settings.gain / fall
    dtype = wide_dtype(lm.model.dtype)
    deltas = {
        name: ridge_regression(part.x.double(), rate * steps[name], settings.ridge, dtype)
        for name, part in tokens.items()
    }
    return Edit(deltas, model=model_fingerprint(lm), about={"rate": rate}, statistics=own)


def _beside(part: Factors) -> torch.Tensor:
    return torch.cat([part.x, part.delta], 1)  # (tokens, inputs + outputs)


def _shape(part: Factors) -> str:
    return f"{part.x.shape[1]}x{part.delta.shape[1]}"


def ridge_regression(x: torch.Tensor, v: torch.Tensor, ridge: float, dtype: torch.dtype) -> Delta:
    """The dW that makes |x dW' - v|^2 + ridge |dW|^2 least: x (tokens, inputs), v (tokens, outputs), in float64.

    dW = v' (x x' + ridge)^-1 x = v' x (x' x + ridge)^-1: by the first, of low rank, where that takes less room.
    """
    (tokens, inputs), outputs = x.shape, v.shape[1]
    by_tokens = tokens * (inputs + outputs) <= inputs * outputs
    gram = x @ x.T if by_tokens else x.T @ x
    gram.diagonal().add_(ridge)
    if by_tokens:
        return LowRank(v.T.to(dtype), torch.linalg.solve(gram, x).to(dtype))
    return Dense(torch.linalg.solve(gram, x.T @ v).T.to(dtype))


_AUTHORS = "XiaojieGu/UltraEdit config/model/"
_UP, _TO_26 = (18, 19, 20, 21, 22, 23, 24), (18, 19, 20, 21, 22, 23, 24, 25, 26)
_LAST = (52, 53, 54, 55, 56, 57, 58, 59, 60)

ULTRAEDIT = Method(
    "UltraEdit", UltraEditSettings, ultraedit, needs_subject=False,
    elsewhere={"rate": None}, scale_bound=("rate",), instead_of={"gain": "rate"},
    presets={
        "GPT-J": Preset({"layers": _TO_26}, _AUTHORS + "gpt-j.yaml"),
        "Llama-7B": Preset({"layers": (29, 30)}, note="as Mistral-7B"),
        "Llama-3-8B": Preset(
            {"layers": (), "gate_layers": (11, 12, 13, 14, 15), "up_layers": _UP}, _AUTHORS + "llama-3-instruct.yaml"
        ),
        "Mistral-7B": Preset({"layers": (29, 30)}, _AUTHORS + "mistral-7b.yaml"),
        "Qwen2.5-7B": Preset(
            {"layers": (), "gate_layers": _TO_26, "up_layers": _TO_26}, _AUTHORS + "qwen2.5-7b.yaml"
        ),
        "Gemma-3-27B": Preset({"layers": (), "gate_layers": _LAST, "up_layers": _LAST}, _AUTHORS + "gemma-3-27b.yaml"),
        "demo": Preset({"layers": (2, 3, 4), "rate": 5e-3, "tokens": ALL}),
    },
    # the published rate is for wide models: narrow ones need one that is larger by orders of magnitude
    tunable={
        "rate": (0.1, 0.3, 10.0, 100.0, 1000.0), "gain": RATES, "layers": DEPTHS, "gate_layers": DEPTHS,
        "up_layers": DEPTHS,
    },
)  # fmt: skip
