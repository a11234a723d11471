"""The names of a decoder's modules: its blocks, and the projections into and out of each MLP.

Found by the names of the model's own modules, not by a list of architectures: GPT-2, GPT-J, GPT-Neo, GPT-NeoX, OPT,
Bloom, Phi, and all whose blocks are laid out as Llama's (Mistral, Qwen2, Qwen3, Gemma-2, Gemma-3, Phi-3, OLMo ...).

Also weights as ordinary tensors and as bytes, also those of libraries that quantise.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from transformers.pytorch_utils import Conv1D

from anachron.core.errors import ConfigError, ModelError

BLOCKS = (
    "transformer.h",
    "gpt_neox.layers",
    "model.decoder.layers",
    "model.layers",
    "model.language_model.layers",
    "language_model.model.layers",
)
# (projections into the MLP, projection out of it), relative to a block
MLPS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("mlp.c_fc",), "mlp.c_proj"),
    (("mlp.fc_in",), "mlp.fc_out"),
    (("mlp.dense_h_to_4h",), "mlp.dense_4h_to_h"),
    (("fc1",), "fc2"),
    (("mlp.gate_proj", "mlp.up_proj"), "mlp.down_proj"),
    (("mlp.gate_up_proj",), "mlp.down_proj"),
    (("mlp.fc1",), "mlp.fc2"),
)
POST_NORM = "post_feedforward_layernorm"  # Gemma-2 and -3, OLMo-2: the MLP's output passes it before it is added


@dataclass(frozen=True, slots=True)
class Sites:
    """Dotted names of modules, with ``{}`` for the number of a block, and how many blocks there are.

    post_norm: the norm that the MLP's output passes before it is added to the residual stream, where there is one.
    """

    layers: int
    blocks: str
    mlp_inputs: tuple[str, ...]
    mlp_output: str
    post_norm: str | None = None

    def block(self, layer: int) -> str:
        return self._at(self.blocks, layer)

    def mlp_in(self, layer: int) -> tuple[str, ...]:
        return tuple(self._at(name, layer) for name in self.mlp_inputs)

    def mlp_out(self, layer: int) -> str:
        return self._at(self.mlp_output, layer)

    def _at(self, pattern: str, layer: int) -> str:
        if not 0 <= layer < self.layers:
            raise ConfigError(f"layer {layer}: the model has {self.layers} layers, numbered from 0")
        return pattern.format(layer)


NO_SITES = Sites(layers=0, blocks="", mlp_inputs=(), mlp_output="")  # for methods that change no module


def find_sites(
    model: Any, *, blocks: str | None = None, mlp_in: str | None = None, mlp_out: str | None = None
) -> Sites:
    """Where the blocks and MLP projections of a causal model of transformers are.

    blocks: dotted name of the list of blocks, for instance ``transformer.h``. mlp_in (several with commas between) and
    mlp_out: names relative to a block, for instance ``mlp.c_fc`` and ``mlp.c_proj``. Whatever is not given is looked
    for. Raises `ModelError` that lists what was looked for, and how to name modules by hand.
    """
    if (mlp_in is None) != (mlp_out is None):
        raise ConfigError("give both mlp_in, the projections into the MLP, and mlp_out, the one out of it, or neither")
    holder = next((name for name in ([blocks] if blocks else BLOCKS) if _module(model, name) is not None), None)
    if holder is None:
        raise _not_found(model, "blocks", [blocks] if blocks else BLOCKS)
    held = model.get_submodule(holder)
    if not isinstance(held, torch.nn.ModuleList) or not len(held):
        raise ModelError(f"{holder} of {type(model).__name__} is not a list of blocks but a {type(held).__name__}")
    pairs = MLPS if mlp_in is None or mlp_out is None else ((tuple(mlp_in.replace(" ", "").split(",")), mlp_out),)
    for inputs, output in pairs:
        if all(_module(block, name) is not None for block in held for name in (*inputs, output)):
            norm = f"{holder}.{{}}.{POST_NORM}" if _module(held[0], POST_NORM) is not None else None
            block = f"{holder}.{{}}"
            return Sites(len(held), block, tuple(f"{block}.{name}" for name in inputs), f"{block}.{output}", norm)
    raise _not_found(model, f"projections of the MLP in {holder}", [" and ".join((*i, o)) for i, o in pairs])


def _module(parent: torch.nn.Module, name: str) -> torch.nn.Module | None:
    try:
        return parent.get_submodule(name)
    except AttributeError:
        return None


def _not_found(model: Any, what: str, names: Any) -> ModelError:
    there = ", ".join(list(dict.fromkeys(_shapes(model)))[:12])
    return ModelError(
        f"{type(model).__name__}: no {what} under the names {'; '.join(names)}; the model has {there}; name them by "
        "hand with blocks, mlp_in and mlp_out (--site blocks=NAME --site mlp_in=NAME --site mlp_out=NAME)"
    )


def _shapes(model: torch.nn.Module) -> Iterator[str]:
    """Names of the linear layers, with ``*`` for the numbers in them."""
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear | Conv1D):
            yield ".".join("*" if part.isdigit() else part for part in name.split("."))


def is_plain(owner: torch.nn.Module) -> bool:
    """Whether a module is a linear layer with a float weight that can be written."""
    weight = getattr(owner, "weight", None)
    linear = type(owner) in (torch.nn.Linear, Conv1D) and type(weight) is torch.nn.Parameter
    return bool(linear and weight.is_floating_point() and weight.device.type != "meta")  # type: ignore[union-attr]


def weight_of(model: Any, module: str) -> torch.Tensor:
    """The weight of a linear module as (outputs, inputs), a view into the model's own parameter.

    Raises `ModelError` for a layer whose weight is not a plain float matrix (quantised, fused experts, offloaded).
    """
    owner = model.get_submodule(module)
    if not is_plain(owner):
        weight = getattr(owner, "weight", None)
        offloaded = " that is offloaded" if getattr(weight, "is_meta", False) else ""
        raise ModelError(
            f"{module} is a {type(owner).__name__} with a {type(weight).__name__} of {getattr(weight, 'dtype', None)}"
            f"{offloaded}: its weights cannot be changed by adding to them; load the model in float32, bfloat16 or "
            "float16 without quantisation or offloading, or use the method LoRA or PROMPT, or GRACE"
        )
    return owner.weight.T if isinstance(owner, Conv1D) else owner.weight


def features(owner: Any, name: str) -> tuple[int, int]:
    """Outputs and inputs of a linear module, also of one whose weight cannot be read (quantised, offloaded)."""
    outputs = getattr(owner, "out_features", getattr(owner, "nf", None))
    inputs = getattr(owner, "in_features", getattr(owner, "nx", None))
    if outputs is None or inputs is None:
        raise ModelError(f"{name} is a {type(owner).__name__}, no linear layer; an edit changes the weights of those")
    return int(outputs), int(inputs)


def as_stored(owner: torch.nn.Module, matrix: torch.Tensor) -> torch.Tensor:
    """A matrix (outputs, inputs) in the orientation that a linear module keeps its weight in."""
    return matrix.T.contiguous() if isinstance(owner, Conv1D) else matrix.contiguous()


def parts_of(weight: torch.Tensor) -> Iterator[torch.Tensor]:
    """A weight as ordinary tensors: those that torchao makes are several that behave as one."""
    if is_composed(weight):
        for part in weight.__tensor_flatten__()[0]:  # type: ignore[attr-defined]
            yield from parts_of(getattr(weight, part))
    else:
        yield weight.detach()


def is_composed(weight: torch.Tensor) -> bool:
    return hasattr(weight, "__tensor_flatten__")


def is_quantised(model: Any) -> bool:
    """Whether weights have fewer bits than the dtype that they are computed in."""
    return bool(getattr(model, "is_quantized", False)) or any(map(is_composed, model.parameters()))


def hash_into(digest: Any, weight: torch.Tensor) -> None:
    """Add all bytes of a weight to a hash of `hashlib`."""
    for part in parts_of(weight):
        if part.numel():  # an empty tensor cannot be viewed as bytes
            digest.update(part.reshape(-1).contiguous().cpu().view(torch.uint8).numpy().data)
