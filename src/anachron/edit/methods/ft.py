"""Fine-tuning of one layer's MLP projection, free (FT) or inside a box around the old weights (FT+L).

FT+L is the constrained fine-tuning of Zhu and others (2020): after each step every weight is clamped to W0 +- eps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from anachron.core.errors import ConfigError
from anachron.edit.base import Dense, Edit, model_fingerprint
from anachron.edit.method import DEPTHS, NOTHING, RATES, REMOVING, STEPS, Method, Preset, Resources
from anachron.edit.passes.forward import fit_apart, fit_together
from anachron.edit.passes.frozen import frozen
from anachron.edit.requests import EditRequest, mark_targets
from anachron.lm.model import LanguageModel
from anachron.lm.numerics import at_least_float32
from anachron.lm.sites import Sites, weight_of
from anachron.lm.temporary import Temporary


@dataclass(frozen=True, kw_only=True)
class FtSettings:
    """layer: whose MLP projection (weights and bias) is trained. steps, rate: of Adam. stop_below: loss in nats.

    batch: requests of one step, where more are made in one edit; ``steps`` is then of epochs, through all of them in
    their order. eps: half the width of the box of FT+L; None for FT. last_position_loss: as the published code, read
    every target token's probability off the last position of the prompt, instead of after the tokens before it.
    """

    layer: int = 21
    steps: int = 25
    rate: float = 5e-4
    stop_below: float = 1e-2
    batch: int = 64
    eps: float | None = None
    last_position_loss: bool = False


def ft(
    lm: LanguageModel, requests: Sequence[EditRequest], settings: FtSettings, sites: Sites,
    resources: Resources = NOTHING, *, apart: bool = False,
) -> list[Edit]:  # fmt: skip
    """Train on all requests together: the mean over requests of the mean over their target tokens, ``batch`` requests
    at a step.

    With ``apart`` each request has a weight of its own, in the same passes, and so an edit of its own. The trained copy
    is float32 or finer whatever the model's dtype: in bfloat16 nearly half of the weights cannot move by 5e-5. The
    model itself is never written to.
    """
    module = sites.mlp_out(settings.layer)
    weight = weight_of(lm.model, module)
    owner = lm.model.get_submodule(module)
    # (outputs, inputs) and (outputs,)
    start = [at_least_float32(t.detach()) for t in (weight, owner.bias) if t is not None]
    copies = len(requests) if apart else 1
    trained = [t.repeat(copies, *[1] * t.ndim).requires_grad_(True) for t in start]  # (copies, outputs, ...)
    marked = mark_targets(lm.tokenizer, requests, lm.style)

    def into_the_box() -> None:
        if settings.eps is not None:
            with torch.no_grad():
                for tensor, old in zip(trained, start, strict=True):
                    tensor.copy_(torch.clamp(tensor, old - settings.eps, old + settings.eps))

    def weights(texts: Sequence[int]) -> Temporary[None]:
        """Each text's own weight, or the one that all share."""
        return _weights_of(owner, [t[list(texts)] for t in trained] if apart else trained)

    train = fit_apart if apart else partial(fit_together, minibatch=settings.batch)
    with frozen(lm.model):
        train(
            lm.model, marked, trained, settings, "FT",
            last_position=settings.last_position_loss, after_step=into_the_box, during=weights,
        )  # fmt: skip
    changes = [[(one - old).detach() for one in new] for new, old in zip(trained, start, strict=True)]
    return [Edit({module: Dense(*change)}, model=model_fingerprint(lm)) for change in zip(*changes, strict=True)]


def _weights_of(owner: torch.nn.Module, trained: Sequence[torch.Tensor]) -> Temporary[None]:
    """Let a linear module compute with other weights (copies, outputs, inputs), through which gradients flow.

    The rows of a batch share the copies out among them, in their order.
    """

    def compute(_: Any, given: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
        weight, *bias = (t.to(given[0].dtype) for t in trained)
        rows = given[0].reshape(len(weight), -1, given[0].shape[-1])  # (copies, tokens, inputs)
        new_output = rows @ weight.mT  # (copies, tokens, outputs)
        return (new_output + bias[0][:, None] if bias else new_output).reshape(output.shape)

    return Temporary(lambda: owner.register_forward_hook(compute).remove)


def ft_inside_a_box(
    lm: LanguageModel, requests: Sequence[EditRequest], settings: FtSettings, sites: Sites,
    resources: Resources = NOTHING, *, apart: bool = False,
) -> list[Edit]:  # fmt: skip
    """FT+L: as `ft`. Raises `ConfigError` where the width of the box is not given."""
    if settings.eps is None:
        raise ConfigError("FT+L needs its setting eps, half the width of the box; without one it would be FT")
    return ft(lm, requests, settings, sites, resources, apart=apart)


def _size(lm: LanguageModel, settings: FtSettings, sites: Sites) -> int:
    return weight_of(lm.model, sites.mlp_out(settings.layer)).numel()


_EASY = "zjunlp/EasyEdit hparams/FT/"
_OUR_LOSS = "but for its loss: FT.last_position_loss"
_EASY_EDIT = f"{_OUR_LOSS}, and its batches of one: FT.batch"

FT = Method(
    "FT", FtSettings, ft, needs_subject=False, scenarios=REMOVING, size=_size,
    presets={
        "GPT-J": Preset({"layer": 21}, "kmeng01/memit hparams/FT/EleutherAI_gpt-j-6B_unconstr.json", _OUR_LOSS),
        "GPT-2-XL": Preset({"layer": 1}, "kmeng01/memit hparams/FT/gpt2-xl_unconstr.json", _OUR_LOSS),
        "Llama-7B": Preset({"layer": 21}, _EASY + "llama-7b.yaml", _EASY_EDIT),
        "Llama-3-8B": Preset({"layer": 21}, "jianghoucheng/AlphaEdit hparams/FT/Llama3-8B.json", _OUR_LOSS),
        "Llama-3.2-3B": Preset({"layer": 21}, _EASY + "llama3.2-3b.yaml", _EASY_EDIT),
        "Qwen2.5-7B": Preset({"layer": 27}, _EASY + "qwen2.5-7b.yaml", _EASY_EDIT),
        "Qwen3.5-9B": Preset({"layer": 27}, _EASY + "qwen3.5-9b.yaml", _EASY_EDIT),
        "demo": Preset({"layer": 4, "rate": 5e-3}),
    },
    tunable={"rate": RATES, "layer": DEPTHS, "steps": STEPS},
)  # fmt: skip
FT_L = Method(
    "FT+L", FtSettings, ft_inside_a_box, needs_subject=False, scenarios=REMOVING, size=_size, scale_bound=("eps",),
    presets={
        "GPT-J": Preset(
            {"layer": 0, "eps": 5e-5}, "kmeng01/memit hparams/FT/EleutherAI_gpt-j-6B_constr.json", _OUR_LOSS
        ),
        "GPT-2-XL": Preset({"layer": 0, "eps": 5e-4}, "kmeng01/memit hparams/FT/gpt2-xl_constr.json", _OUR_LOSS),
        "Llama-7B": Preset({"layer": 0, "eps": 5e-5}, note="as GPT-J"),
        "Mistral-7B": Preset({"layer": 21, "eps": 5e-5}, _EASY + "mistral-7b.yaml", _EASY_EDIT),
        "demo": Preset({"layer": 0, "rate": 3e-3, "eps": 7e-3}),
    },
    tunable={"eps": (*RATES, 100.0), "rate": RATES, "layer": DEPTHS, "steps": STEPS},
)  # fmt: skip
