"""GRACE: a codebook beside one module, keys with values that take the place of its output (Hartvigsen and others,
NeurIPS 2023).

No weight changes. A key is the module's input at the prompt's last token, its value is trained until the model gives
the target, and its radius says how near an input must come to get that value (`anachron.edit.carried.memory`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from anachron.core.errors import DataError
from anachron.edit.base import Edit, model_fingerprint, owner_of
from anachron.edit.carried.memory import Codebook, Memory, replacing, side_by_side, suspended
from anachron.edit.method import NOTHING, RATES, Method, Preset, Resources
from anachron.edit.passes.forward import fit_apart, values_at_subject
from anachron.edit.passes.frozen import frozen
from anachron.edit.requests import EditRequest, Marked, MarkedTarget, mark_targets
from anachron.lm.model import LanguageModel
from anachron.lm.numerics import wide_dtype
from anachron.lm.sites import Sites
from anachron.lm.temporary import Temporary


@dataclass(frozen=True, kw_only=True)
class GraceSettings:
    """layer: whose projection out of the MLP has the codebook; into_mlp: the one into it instead (the last of several).
    radius: of a new key, in units of the module's input. steps, rate: of Adam. stop_below: loss in nats; 0 takes all
    steps, as published.

    warm: a value starts as the module's output, and not as random numbers from 0 to 1, the same ones for every update,
    drawn with ``seed``.
    """

    layer: int = 25
    into_mlp: bool = False
    radius: float = 1.0
    steps: int = 200
    rate: float = 1.0
    stop_below: float = 0.0
    warm: bool = False
    seed: int = 0


def grace(
    lm: LanguageModel, requests: Sequence[EditRequest], settings: GraceSettings, sites: Sites,
    resources: Resources = NOTHING, *, apart: bool = False,
) -> list[Edit]:  # fmt: skip
    """Put each request into the codebook that is in force, one on top of the other, or with ``apart`` each into a copy.

    An edit holds what it puts in; what GRACE's rules make of that and of what was in before, `Memory.codebook` says.
    Raises `DataError` where a loss is not a number.
    """
    module = sites.mlp_in(settings.layer)[-1] if settings.into_mlp else sites.mlp_out(settings.layer)
    marked = mark_targets(lm.tokenizer, requests, lm.style)
    with suspended(lm, [module]):
        keys, outputs = _at_prompts(lm, module, marked)  # (requests, inputs), (requests, outputs)
    starts = outputs if settings.warm else _random(outputs, settings.seed)
    radii = torch.full((len(marked), 1), settings.radius, dtype=keys.dtype, device=keys.device)  # (requests, 1)
    new = [Memory(keys[i : i + 1], starts[i : i + 1], radii[i], (r.target.strip(),)) for i, r in enumerate(requests)]
    before: Memory | None = lm.memories.get(module)
    if apart:
        memories = _trained(lm, module, before, new, marked, settings)
        return [Edit(memories={module: memory}, model=model_fingerprint(lm)) for memory in memories]
    made: Memory | None = None
    for one, text in zip(new, marked, strict=True):
        held = before if made is None else made if before is None else before + made
        (trained,) = _trained(lm, module, held, [one], [text], settings)
        made = trained if made is None else made + trained
    assert made is not None
    return [Edit(memories={module: made}, model=model_fingerprint(lm))]


def _trained(
    lm: LanguageModel, module: str, before: Memory | None, new: Sequence[Memory], marked: Sequence[MarkedTarget],
    settings: GraceSettings,
) -> list[Memory]:  # fmt: skip
    """What is put in, with its value trained by Adam on the mean loss of the target, each on top of ``before`` alone.

    A request that meets a key with its label goes on from that key's value, as published.
    """
    both = [one if before is None else before + one for one in new]
    books = [memory.codebook for memory in both]
    values = [_start(before, memory, book) for memory, book in zip(both, books, strict=True)]
    trained = torch.stack(values).requires_grad_(True)  # (requests, outputs)
    owner = owner_of(lm, module)

    def values_of(texts: Sequence[int]) -> Temporary[None]:
        """Each text reads its own book, in which its own value is the one that is trained."""
        held = [_with_value(books[i], trained[i]) for i in texts]
        return replacing(owner, side_by_side(held), torch.arange(len(held)))

    with suspended(lm, [module]), frozen(lm.model):
        fit_apart(lm.model, marked, [trained], settings, "GRACE", during=values_of)
    return [replace(one, values=value[None]) for one, value in zip(new, trained.detach(), strict=True)]


def _start(before: Memory | None, both: Memory, book: Codebook) -> torch.Tensor:
    """(outputs,)"""
    place = book.entries[-1]
    if before is not None and place in book.entries[:-1]:
        met = max(i for i, entry in enumerate(book.entries[:-1]) if entry == place)
        if both.labels[met] == both.labels[-1]:
            return both.values[met]
    return both.values[-1]


def _with_value(book: Codebook, value: torch.Tensor) -> Codebook:
    """With that value, through which gradients flow, as the one of the last insertion."""
    place = book.entries[-1]
    return replace(book, values=torch.cat([book.values[:place], value[None], book.values[place + 1 :]]))


def _random(outputs: torch.Tensor, seed: int) -> torch.Tensor:
    one = torch.rand(outputs.shape[1], generator=torch.Generator().manual_seed(seed))
    return one.to(outputs).expand_as(outputs)


def _at_prompts(lm: LanguageModel, module: str, marked: Sequence[MarkedTarget]) -> tuple[torch.Tensor, torch.Tensor]:
    """Input and output of the module at the token that predicts the first of the target's, (requests, inputs) and
    (requests, outputs), in float32 or finer.
    """
    if early := [m for m in marked if m.targets[0] == 0]:
        raise DataError(f"GRACE: a prompt has no token before its target of {len(early[0].targets)}; lengthen it")
    prompts = [Marked(m.ids, m.targets, m.targets[0] - 1) for m in marked]
    values = values_at_subject(lm.model, prompts, inputs=[module], outputs=[module])
    wide = wide_dtype(lm.model.dtype)
    return values["in", module].to(wide), values["out", module].to(wide)


_EASY = "zjunlp/EasyEdit hparams/GRACE/"

GRACE = Method(
    "GRACE", GraceSettings, grace, needs_subject=False, readable_weights=False, changes_weights=False,
    scale_bound=("radius",),
    presets={
        "GPT-J": Preset({"layer": 25}, _EASY + "gpt-j-6b.yaml"),
        "GPT-2-XL": Preset({"layer": 35, "into_mlp": True}, _EASY + "gpt2-xl.yaml"),
        "Llama-7B": Preset({"layer": 27, "steps": 50}, _EASY + "llama-7b.yaml"),
        "Llama-3.2-3B": Preset({"layer": 27, "steps": 50}, _EASY + "llama3.2-3b.yaml"),
        "Qwen2.5-7B": Preset({"layer": 18, "steps": 50}, _EASY + "qwen2.5-7b.yaml"),
        "Qwen3.5-9B": Preset({"layer": 18, "steps": 50, "radius": 5.0}, _EASY + "qwen3.5-9b.yaml"),
        "demo": Preset({"layer": 4, "radius": 35.0, "steps": 50}),
    },
    tunable={"radius": (*RATES, 30.0, 100.0), "rate": RATES},
)  # fmt: skip
