"""LoRA by peft: low-rank adapters on the MLP projections of every layer, trained on the request (Hu and others, 2022).

The practitioner's baseline. The adapters are taken off again after training; what they learned is the edit.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers.pytorch_utils import Conv1D

from anachron.edit.base import Edit, LowRank, fingerprint
from anachron.edit.forward import fit
from anachron.edit.requests import EditRequest, mark
from anachron.edit.sites import Sites
from anachron.errors import ConfigError, ModelError
from anachron.lm.model import LanguageModel
from anachron.lm.temporary import Temporary

ADAPTER = "anachron"


@dataclass(frozen=True)
class LoraSettings:
    """rank, alpha: of the adapters, whose change counts alpha / rank. steps, rate: of Adam. stop_below: loss in nats.

    layers: edited blocks; None for all. seed: of the adapters' start.
    """

    rank: int = 8
    alpha: int = 32
    steps: int = 50
    rate: float = 1e-3
    stop_below: float = 1e-2
    layers: tuple[int, ...] | None = None
    seed: int = 0


def lora(lm: LanguageModel, requests: Sequence[EditRequest], settings: LoraSettings, sites: Sites) -> Edit:
    """Train on all requests together, as `anachron.edit.ft.ft`. Works on quantised weights too.

    Raises `ConfigError` where peft is not installed, `ModelError` for layers that it cannot adapt.
    """
    try:
        from peft import LoraConfig
    except ImportError as error:
        raise ConfigError("LoRA needs peft; install it with pip install 'anachron[edit]'") from error
    layers = range(sites.layers) if settings.layers is None else settings.layers
    modules = [name for layer in layers for name in (*sites.mlp_in(layer), sites.mlp_out(layer))]
    conv1d = isinstance(lm.model.get_submodule(modules[0]), Conv1D)
    config = LoraConfig(
        r=settings.rank, lora_alpha=settings.alpha, target_modules=modules, lora_dropout=0.0, bias="none",
        fan_in_fan_out=conv1d,
    )  # fmt: skip
    with _adapted(lm, config, settings.seed):
        lm.model.eval()
        trained = [p for p in lm.model.parameters() if p.requires_grad]
        fit(lm.model, mark(lm.tokenizer, requests), trained, settings, "LoRA")
        deltas = {name: _change(lm.model.get_submodule(name)) for name in modules}
    return Edit(deltas, model=fingerprint(lm))


def _adapted(lm: LanguageModel, config: Any, seed: int) -> Temporary[None]:
    """The model with new adapters, and nothing but them to be trained.

    Afterwards every module has its own parts again: peft's own way back needs that it came to the end of its work.
    """
    from peft import get_peft_model

    def change() -> Callable[[], None]:
        model = lm.model
        parts = [(module, dict(module._modules), module.training) for module in model.modules()]
        needed = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
        attributes, settings = set(vars(model)), dict(vars(model.config))

        def undo() -> None:
            for module, children, training in parts:
                module._modules.clear()
                module._modules.update(children)
                module.training = training
            for parameter, before in needed:
                parameter.requires_grad_(before)
            for name in set(vars(model)) - attributes:
                delattr(model, name)
            vars(model.config).update(settings)

        try:
            devices = [lm.device] if lm.device.type == "cuda" else []
            with torch.random.fork_rng(devices=devices), warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # peft asks for what transformers has renamed
                torch.manual_seed(seed)
                get_peft_model(model, config, adapter_name=ADAPTER, autocast_adapter_dtype=True)
        except BaseException as error:
            undo()
            if isinstance(error, ValueError):  # how peft says that it has no adapter for a kind of layer
                raise ModelError(f"LoRA: {str(error).splitlines()[0]}") from error
            raise
        return undo

    return Temporary(change)


def _change(module: Any) -> LowRank:
    """What a module's adapter adds to its weight."""
    left = module.lora_B[ADAPTER].weight.detach().clone() * module.scaling[ADAPTER]
    return LowRank(left, module.lora_A[ADAPTER].weight.detach().clone())
