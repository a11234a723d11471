"""LoRA by peft: low-rank adapters on the MLP projections of every layer, trained on the request (Hu and others, 2022).

The practitioner's baseline. The adapters are taken off again after training; what they learned is the edit.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers.pytorch_utils import Conv1D

from anachron.edit.base import Edit, LowRank, fingerprint
from anachron.edit.forward import at_least_float32, batch
from anachron.edit.requests import EditRequest, mark
from anachron.edit.sites import Sites
from anachron.errors import ConfigError, DataError
from anachron.lm.model import LanguageModel
from anachron.lm.scoring import answer_logits

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

    Raises `ConfigError` where peft is not installed.
    """
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        raise ConfigError("LoRA needs peft; install it with pip install 'anachron[edit]'") from error
    layers = range(sites.layers) if settings.layers is None else settings.layers
    modules = [name for layer in layers for name in (*sites.mlp_in(layer), sites.mlp_out(layer))]
    conv1d = isinstance(lm.model.get_submodule(modules[0]), Conv1D)
    config = LoraConfig(
        r=settings.rank, lora_alpha=settings.alpha, target_modules=modules, lora_dropout=0.0, bias="none",
        fan_in_fan_out=conv1d,
    )  # fmt: skip
    needed = [(p, p.requires_grad) for p in lm.model.parameters()]
    devices = [lm.device] if lm.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft asks for what transformers has renamed
        torch.manual_seed(settings.seed)
        adapted = get_peft_model(lm.model, config, adapter_name=ADAPTER, autocast_adapter_dtype=True)
    try:
        adapted.eval()
        _train(lm, requests, settings, [p for p in adapted.parameters() if p.requires_grad])
        deltas = {name: _change(lm.model.get_submodule(name)) for name in modules}
    finally:
        adapted.unload()
        if hasattr(lm.model, "peft_config"):
            del lm.model.peft_config
        for parameter, before in needed:
            parameter.requires_grad_(before)
    return Edit(deltas, model=fingerprint(lm))


def _train(
    lm: LanguageModel, requests: Sequence[EditRequest], settings: LoraSettings, trained: list[torch.Tensor]
) -> None:
    marked = mark(lm.tokenizer, requests)
    texts = batch(lm.model, marked)
    rows = torch.tensor([r for r, m in enumerate(marked) for _ in m.targets])
    columns = torch.tensor([t - 1 for m in marked for t in m.targets])
    wanted = torch.tensor([m.ids[t] for m in marked for t in m.targets])
    share = torch.tensor([1 / (len(m.targets) * len(marked)) for m in marked for _ in m.targets])
    optimiser = torch.optim.Adam(trained, lr=settings.rate, weight_decay=0)
    with torch.enable_grad():
        for _ in range(settings.steps):
            logits = answer_logits(lm.model, texts.ids, rows, columns)
            logp = torch.log_softmax(at_least_float32(logits), -1)
            loss = -(logp.gather(1, wanted.to(logp.device)[:, None])[:, 0] * share.to(logp)).sum()
            if not torch.isfinite(loss):
                raise DataError(f"the loss of LoRA is {loss.item()}; use a lower rate or dtype float32")
            if loss.item() < settings.stop_below:
                return
            optimiser.zero_grad()
            for tensor, grad in zip(trained, torch.autograd.grad(loss, trained), strict=True):
                tensor.grad = grad
            optimiser.step()


def _change(module: Any) -> LowRank:
    """What a module's adapter adds to its weight."""
    left = module.lora_B[ADAPTER].weight.detach().clone() * module.scaling[ADAPTER]
    return LowRank(left, module.lora_A[ADAPTER].weight.detach().clone())
