"""What decides a model's scores, as plain values and hashes: weights, configuration, adapters, code, tokenizer,
arithmetic.

Everything that a configuration says is part of it; the few fields that are not are listed in `LEFT_OUT`, with the
reason. What Python code changes elsewhere (an attribute of a module, a buffer that is not saved) cannot be seen here.

Also what a model computes on, for the record of a run.
"""

import hashlib
import json
import math
import os
import platform
import sys
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import align_module_device
from transformers import PreTrainedConfig
from transformers.dynamic_module_utils import get_relative_import_files

from anachron.lm.numerics import dtype_name
from anachron.lm.sites import hash_into
from anachron.lm.spans import require_offsets

Json = dict[str, Any]
# Fields of a configuration that are no part of a model's identity, and why.
LEFT_OUT = {
    "transformers_version": "who wrote the file; a run records the version that it uses",
    "_name_or_path": "where the model lay",
    "architectures": "classes that the checkpoint names; the class that was loaded is recorded itself",
    "dtype": "what weights are loaded in; their fingerprint says what they are",
}
RECORDED = ("torch", "transformers")  # packages whose versions a run records, so that their code need not be hashed
REMOTE = "transformers_modules"  # the package that transformers puts the code of a checkpoint into
DESCRIBED = ("architecture", "config", "adapters", "code")


def described(model: Any) -> Json:
    """What decides a model's scores beside its weights: ``architecture`` (its class) and ``config``; ``adapters`` and
    ``code`` only where there are any. Plain values, as they come back out of a JSON file.
    """
    about: Json = {"architecture": type(model).__name__, "config": config_of(model.config)}
    adapters, code = adapters_of(model), code_of([*{type(m) for m in model.modules()}, type(model.config)])
    return about | ({"adapters": adapters} if adapters else {}) | ({"code": code} if code else {})


def config_of(config: Any) -> Json:
    """Every field of a configuration and of those inside it, as they are in memory, but for `LEFT_OUT`.

    The implementations of attention and of experts too, which transformers does not save: no two agree to the last
    digit.
    """
    known = {**PreTrainedConfig.to_dict(config), **config.to_dict()}  # code of a checkpoint may leave fields out
    known |= {
        f"{part}_implementation": getattr(config, f"_{part}_implementation", None) for part in ("attn", "experts")
    }
    inside = {name: getattr(config, name, None) for name in config.sub_configs}
    known |= {name: config_of(value) for name, value in inside.items() if isinstance(value, PreTrainedConfig)}
    return {name: value for name, value in _plain(known).items() if name not in LEFT_OUT}


def adapters_of(model: Any) -> Json | None:
    """The configurations of PEFT adapters, and a SHA-256 over the state of every layer that they are in.

    Which are active, disabled or merged, and how they are scaled: none of it is in the weights.
    """
    configs = getattr(model, "peft_config", None) or {}
    layers = [
        [name, module.active_adapters, module.disable_adapters, module.merged_adapters, getattr(module, "scaling", {})]
        for name, module in model.named_modules()
        if getattr(module, "adapter_layer_names", None)
    ]
    if not configs and not layers:
        return None
    kept = {name: {**config.to_dict(), "base_model_name_or_path": None} for name, config in configs.items()}
    return {"configs": _plain(kept), "layers": _digest(_plain(layers))}


def code_of(classes: Iterable[type]) -> Json | None:
    """Name -> SHA-256 of the files that define classes (and what these inherit) outside of `RECORDED` packages.

    Of code that comes with a checkpoint also the files that it imports from beside it.
    """
    packages = {*RECORDED, *sys.stdlib_module_names}
    names = {base.__module__ for kind in classes for base in kind.__mro__}
    sources: dict[str, set[Path | None]] = {}
    for name in names:
        package = name.partition(".")[0]
        if package in packages:
            continue
        file = getattr(sys.modules.get(name), "__file__", None)  # a notebook has none
        beside = get_relative_import_files(file) if file and package == REMOTE else []
        sources.setdefault(name.rpartition(".")[2], set()).update([file and Path(file), *map(Path, beside)])
    return {
        name: _digest(sorted("no file" if file is None else _sha256(file.read_bytes()) for file in files))
        for name, files in sorted(sources.items())
    } or None


def arithmetic(dtype: str, device: torch.device) -> Json:
    """How numbers are computed: ``dtype`` of the weights, ``device`` type, ``float32_precision`` of matrix products
    (``ieee``, or what torch was told to shorten them to) and ``autocast`` (its dtype where it is on)."""
    products = (torch.backends.cuda if device.type == "cuda" else torch.backends.mkldnn).matmul.fp32_precision
    autocast = torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else None
    return {
        "dtype": dtype,
        "device": device.type,
        "float32_precision": "ieee" if products == "none" else products,
        "autocast": None if autocast is None else dtype_name(autocast),
    }


def model_fingerprint(weights: str, description: Json) -> str:
    """SHA-256 over a model's weights (their fingerprint) and what `described` says of it."""
    return _digest({**description, "weights": weights})


def weights_fingerprint(model: Any) -> str:
    """SHA-256 over name, shape, dtype and all bytes of every weight, wherever it lies (offloaded ones too)."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        if tensor.device.type != "meta":
            hash_into(digest, tensor)
            continue
        module, _, leaf = name.rpartition(".")
        owner = model.get_submodule(module)
        with align_module_device(owner):  # brings in what is offloaded, for as long as it is read
            hash_into(digest, getattr(owner, leaf))
    return digest.hexdigest()


def tokenizer_fingerprint(tokenizer: Any) -> str:
    """SHA-256 of all of a fast tokenizer that texts meet, without its passing state (padding, truncation).

    Its definition, its chat template and the special tokens that templates and the end of a text are told by, how it
    treats special tokens in a text and spaces in what it writes, and its class with the code that came with it.
    """
    require_offsets(tokenizer)
    kind = type(tokenizer)
    about = [
        json.loads(tokenizer.backend_tokenizer.to_str()) | {"padding": None, "truncation": None},
        tokenizer.chat_template,
        tokenizer.special_tokens_map,
        tokenizer.split_special_tokens,
        tokenizer.clean_up_tokenization_spaces,
        kind.__name__,
        code_of([kind]),
    ]
    return _digest(about)


def _plain(value: Any) -> Any:
    """A value as JSON holds it: dicts in the order of their names, sets as lists, infinities and classes as texts."""
    if isinstance(value, dict):
        return {str(name): _plain(value[name]) for name in sorted(value, key=str)}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((_plain(item) for item in value), key=repr)
    if isinstance(value, Enum):
        return _plain(value.value)
    if value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)


def _digest(value: Any) -> str:
    return _sha256(json.dumps(value, ensure_ascii=False, sort_keys=True).encode())


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def hardware(device: str) -> dict[str, Any]:
    """The machine of this process, and the GPU where ``device`` is one."""
    about: dict[str, Any] = {
        "device": device,
        "machine": platform.machine(),
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
    }
    if device.startswith("cuda"):
        about["gpu"] = torch.cuda.get_device_name(device)
    return about
