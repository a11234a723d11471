"""Settings of the methods for a model: the published ones for the models that papers tuned, scaled ones for others.

A preset names the file that it is equal to, or says that it is ours. Layers are scaled by relative depth. MEMIT's
weight of the covariance is scaled with the width n of the MLP, because k' C^-1 k is n on average whatever the scale of
C, and the weight stands beside it. Everything else stays.
"""

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass, fields, replace
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from anachron.core.errors import ConfigError
from anachron.edit.method import Method
from anachron.lm.model import LanguageModel
from anachron.lm.sites import Sites, features
from anachron.lm.tokenizers import DEMO, DEMO_UNTRAINED

LAYER_FIELDS = ("layer", "layers", "gate_layers", "up_layers")
NO_PRESET = "ours, the method's defaults"
POSITIVE = ("steps", "rate", "rank", "batch", "gain", "k", "part")  # settings that 0 makes no sense for


@dataclass(frozen=True, slots=True)
class Published:
    """A model that papers give settings for: its name, family, number of layers and width of its MLP."""

    name: str
    family: str  # `model_type` of transformers
    layers: int
    width: int

    def is_like(self, lm: LanguageModel, sites: Sites) -> bool:
        """Whether a model has its family and shape."""
        return (self.family, self.layers, self.width) == (_family(lm), sites.layers, _width(lm, sites))


GPT_J = Published("GPT-J", "gptj", layers=28, width=16384)
GPT_2_XL = Published("GPT-2-XL", "gpt2", layers=48, width=6400)
LLAMA = Published("Llama-7B", "llama", layers=32, width=11008)
LLAMA_3 = Published("Llama-3-8B", "llama", layers=32, width=14336)
LLAMA_3_2 = Published("Llama-3.2-3B", "llama", layers=28, width=8192)
QWEN = Published("Qwen2.5-7B", "qwen2", layers=28, width=18944)
MISTRAL = Published("Mistral-7B", "mistral", layers=32, width=14336)
GEMMA_3 = Published("Gemma-3-27B", "gemma3_text", layers=62, width=21504)
QWEN_3_5 = Published("Qwen3.5-9B", "qwen3_5_text", layers=32, width=12288)
MODELS = (GPT_J, GPT_2_XL, LLAMA, LLAMA_3, LLAMA_3_2, QWEN, QWEN_3_5, MISTRAL, GEMMA_3)
LIKE = {  # family -> whose settings are scaled, the first that a method has
    "gptj": (GPT_J,), "gpt2": (GPT_2_XL,), "qwen2": (QWEN,), "qwen3": (QWEN,), "qwen3_5_text": (QWEN_3_5, QWEN),
    "mistral": (MISTRAL,), "gemma3_text": (GEMMA_3,),
}  # fmt: skip


def preset(method: Method, lm: LanguageModel, sites: Sites) -> tuple[Any, str]:
    """Settings of a method for a model, and in words where they are from.

    Those of a published model where family and shape are its own, else scaled from the one that is most like it.
    """
    if method.parts:
        settings, sources = zip(*(preset(part, lm, sites) for part in method.parts), strict=True)
        return method.settings(*settings), "; RETRIEVAL: ".join(sources)
    if lm.name in (DEMO, DEMO_UNTRAINED):
        values = method.presets[DEMO].values if DEMO in method.presets else {}
        return method.settings(**values), "ours, chosen for the demo model"
    if (model := _most_like(method, lm, sites)) is None:
        return method.settings(), NO_PRESET
    known = method.presets[model.name]
    settings = method.settings(**known.values)
    if model.is_like(lm, sites):
        return settings, f"{'published' if known.source else 'chosen'} for {model.name}: {known}"
    width = _width(lm, sites)
    layers = {name: known.values[name] for name in LAYER_FIELDS if name in known.values}
    changes: dict[str, Any]
    changes = {name: _scaled(value, model.layers, sites.layers) for name, value in layers.items()}
    changes |= {name: getattr(settings, name) * width / model.width for name in method.width_scaled}
    return replace(settings, **{**changes, **method.elsewhere}), (
        f"scaled from {model.name} by relative depth: {model.layers} layers to {sites.layers}, MLP width {model.width} "
        f"to {width}; those of {model.name}: {known}"
    )


def scaling(method: Method, lm: LanguageModel, sites: Sites, given: Collection[str] = ()) -> tuple[str, ...]:
    """What to know where a method's settings for a model are scaled from another's: one line, or none.

    given: settings that are set by hand.
    """
    model = None if lm.name in (DEMO, DEMO_UNTRAINED) else _most_like(method, lm, sites)
    if model is None or model.is_like(lm, sites) or not set(given).isdisjoint(method.scale_bound):
        return ()
    before, now = asdict(method.settings(**method.presets[model.name].values)), asdict(preset(method, lm, sites)[0])
    said = {name: "one found for each edit" if value is None else json.dumps(value) for name, value in now.items()}
    changes = [name for name in now if now[name] != before[name]]
    if changes and set(changes) <= set(given) and not method.scale_bound:
        return ()
    parts = [f"{name} {json.dumps(before[name])} became {said[name]}" for name in changes if name not in given]
    kept = [f"{name} {now[name]}" for name in method.scale_bound if now[name] is not None]
    parts += [f"{' and '.join(kept)} stayed, though what fits depends on the scale of a model"] if kept else []
    first = next(name for name in (*method.scale_bound, *LAYER_FIELDS, *now) if name in now)
    return (
        f"{method.name}: nobody tuned its settings for this model; of those of {model.name} "
        f"{'; '.join(parts) or 'nothing was changed'}; if updates are not made or other facts change, let --tune "
        f"search others, or set them, first --set {method.name}.{first}=VALUE",
    )


def _most_like(method: Method, lm: LanguageModel, sites: Sites) -> Published | None:
    """The model whose settings a method takes for another; None where it has none."""
    if not method.presets:
        return None
    plain = LLAMA if "mlp.down_proj" in sites.mlp_output else GPT_J
    own = [model for model in MODELS if model.is_like(lm, sites)]
    alike = (*own, *LIKE.get(_family(lm), ()), plain)
    return next((model for model in alike if model.name in method.presets), None)


def _family(lm: LanguageModel) -> str:
    return str(lm.model.config.get_text_config().model_type)


def _width(lm: LanguageModel, sites: Sites) -> int:
    """Inputs of the projection out of the MLP."""
    return features(lm.model.get_submodule(sites.mlp_out(0)), sites.mlp_out(0))[1]


def _scaled(layers: int | tuple[int, ...], before: int, now: int) -> int | tuple[int, ...]:
    if isinstance(layers, int):
        return _depth(layers, before, now)
    if not layers:
        return ()
    first, last = _depth(layers[0], before, now), _depth(layers[-1], before, now)
    return tuple(range(first, last + 1))


def _depth(layer: int, before: int, now: int) -> int:
    """The layer at the same part of the way from the first to the last one."""
    return 0 if before == 1 else round(layer * (now - 1) / (before - 1))


def changed(settings: Any, method: str, changes: dict[str, Any]) -> Any:
    """Settings with some of them changed, each checked.

    Raises `ConfigError` for an unknown name, a wrong type, and a number that makes no sense.
    """
    known = {field.name: field for field in fields(settings)}
    kinds = get_type_hints(type(settings))
    checked = {}
    for name, given in changes.items():
        if name not in known:
            raise ConfigError(f"{method} has no setting {name!r}; it has {', '.join(known)}")
        checked[name] = value = _tuples(given)
        if not _fits(value, kinds[name]):
            default = known[name].default
            example = "" if default is None else f", such as {json.dumps(default)}"
            raise ConfigError(f"{method}.{name} {json.dumps(given)} must be {_kind(kinds[name])}{example}")
        if isinstance(value, int | float) and not (value > 0 if name in POSITIVE else value >= 0):
            raise ConfigError(f"{method}.{name} {value!r} must be {'above 0' if name in POSITIVE else '0 or more'}")
    return replace(settings, **checked)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value is of a type as the settings write them; a whole number will do for a float."""
    parts = get_args(kind)
    if get_origin(kind) in (Union, UnionType):
        return any(_fits(value, part) for part in parts)
    if get_origin(kind) is tuple:
        if not isinstance(value, tuple):
            return False
        wanted = parts[:1] * len(value) if parts[-1] is Ellipsis else parts
        return len(wanted) == len(value) and all(map(_fits, value, wanted))
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, int | float if kind is float else kind)


def _kind(kind: Any) -> str:
    """The type of a setting in words."""
    names = {bool: "true or false", int: "a whole number", float: "a number", NoneType: "null", tuple: "a list"}
    allowed = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    return " or ".join(names.get(get_origin(one) or one, "a text") for one in allowed)
