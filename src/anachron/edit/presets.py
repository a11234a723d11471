"""Settings of the methods for a model: the published ones for the models that papers tuned, scaled ones for others.

Layers are scaled by relative depth. MEMIT's weight of the covariance is scaled with the width n of the MLP, because
k' C^-1 k is n on average whatever the scale of C, and the weight stands beside it. Everything else stays.
"""

import json
from dataclasses import dataclass, fields, replace
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from anachron.edit.sites import Sites, features
from anachron.errors import ConfigError
from anachron.lm.loading import DEMO, DEMO_UNTRAINED
from anachron.lm.model import LanguageModel

LAYER_FIELDS = ("layer", "layers")
POSITIVE = ("steps", "rate", "rank")  # settings that 0 makes no sense for


@dataclass(frozen=True, slots=True)
class Published:
    """A model that papers give settings for: number of layers, width of its MLP, and method -> settings."""

    name: str
    layers: int
    width: int
    settings: dict[str, dict[str, Any]]


GPT_J = Published("GPT-J", 28, 16384, {
    "FT": {"layer": 21},
    "FT+L": {"layer": 0, "eps": 5e-5},
    "ROME": {"layer": 5},
    "MEMIT": {"layers": (3, 4, 5, 6, 7, 8)},
    "AlphaEdit": {"layers": (3, 4, 5, 6, 7, 8)},
    "EMMET": {"layer": 5},
    "MEND": {"layers": (25, 26, 27)},
})  # fmt: skip
GPT_2_XL = Published("GPT-2-XL", 48, 6400, {
    "FT": {"layer": 1},
    "FT+L": {"layer": 0, "eps": 5e-4},
    "ROME": {"layer": 17},
    "MEMIT": {"layers": (13, 14, 15, 16, 17), "steps": 20, "weight": 20000.0},
    "AlphaEdit": {"layers": (13, 14, 15, 16, 17), "steps": 20},
    "EMMET": {"layer": 17, "steps": 20},
    "MEND": {"layers": (45, 46, 47)},
})  # fmt: skip
LLAMA = Published("Llama-7B", 32, 11008, {
    "FT": {"layer": 21},
    "FT+L": {"layer": 0, "eps": 5e-5},
    "ROME": {"layer": 5},
    "MEMIT": {"layers": (4, 5, 6, 7, 8)},
    "AlphaEdit": {"layers": (4, 5, 6, 7, 8)},
    "EMMET": {"layer": 5},
    "MEND": {"layers": (29, 30, 31)},
})  # fmt: skip
DEMO_SETTINGS: dict[str, dict[str, Any]] = {
    "FT": {"layer": 4, "rate": 5e-3},
    "FT+L": {"layer": 0, "rate": 3e-3, "eps": 7e-3},
    "ROME": {"layer": 1, "rate": 2.0, "clamp": 10.0},
    "MEMIT": {"layers": (1, 2, 3), "rate": 2.0, "clamp": 4.0, "weight": 15.0},
    "AlphaEdit": {"layers": (1, 2, 3), "rate": 2.0, "clamp": 4.0, "threshold": 3.0, "ridge": 1.0},
    "EMMET": {"layer": 1, "rate": 2.0, "clamp": 10.0},
    "MEND": {"layers": (3, 4, 5), "rate": 1e-4, "lr_rate": 1e-3, "steps": 1000},
}


def preset(method: str, kind: type, lm: LanguageModel, sites: Sites) -> tuple[Any, str]:
    """Settings of a method (``kind`` is its dataclass) for a model, and in words where they are from."""
    if lm.name in (DEMO, DEMO_UNTRAINED):
        return kind(**DEMO_SETTINGS[method]) if method in DEMO_SETTINGS else kind(), "chosen for the demo model"
    family = lm.model.config.get_text_config().model_type
    model = {"gpt2": GPT_2_XL, "gptj": GPT_J}.get(family, LLAMA if "mlp.down_proj" in sites.mlp_output else GPT_J)
    known = model.settings.get(method, {})
    if not known:
        return kind(), "the method's defaults"
    width = features(lm.model.get_submodule(sites.mlp_out(0)), sites.mlp_out(0))[1]
    if (sites.layers, width) == (model.layers, model.width):
        return kind(**known), f"published for {model.name}"
    settings = kind(**known)
    changes = {name: _scaled(known[name], model.layers, sites.layers) for name in LAYER_FIELDS if name in known}
    if any(field.name == "weight" for field in fields(kind)) and method == "MEMIT":
        changes["weight"] = settings.weight * width / model.width
    return replace(settings, **changes), (
        f"scaled from {model.name} by relative depth: {model.layers} layers to {sites.layers}, MLP width {model.width} "
        f"to {width}"
    )


def _scaled(layers: int | tuple[int, ...], before: int, now: int) -> int | tuple[int, ...]:
    if isinstance(layers, int):
        return _depth(layers, before, now)
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
