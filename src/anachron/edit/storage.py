"""Edits as files: one safetensors file that carries its manifest, and models with an edit saved whole."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from anachron.core.errors import ConfigError, DataError, ModelError
from anachron.edit.base import (
    Delta,
    Dense,
    Edit,
    LowRank,
    Memory,
    Moments,
    Passages,
    edited,
    is_finite,
    owner_of,
    require_finite,
)
from anachron.edit.tensors import read_tensors, write_tensors
from anachron.io.files import Json, read_json, versions, write_json, write_manifest
from anachron.lm.model import LanguageModel
from anachron.lm.saving import new_folder, write_folder
from anachron.lm.sites import is_plain

FORMAT = "anachron edit 1"
ABOUT_MODEL = "anachron_edit.json"  # in the folder of an edited model
GIVE = "give a file that anachron edit --out or save_edit wrote"
KINDS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def save_edit(edit: Edit, path: Path | str) -> None:
    """Write an edit, whole or not at all; its manifest is in the file and beside it.

    Raises `ModelError` for one that holds NaN or infinite numbers.
    """
    for name, delta in edit.deltas.items():
        require_finite(name, delta)
    for name, memory in edit.memories.items():
        if not memory.is_finite():
            raise ModelError(f"the memory of {name!r} holds NaN or infinite numbers; make the edit again")
    about: Json = {
        "format": FORMAT,
        "model": edit.model,
        "prefix": edit.prefix,
        "about": edit.about,
        "versions": versions(),
    }
    if edit.memories:
        about["labels"] = {name: list(memory.labels) for name, memory in edit.memories.items()}
    if edit.passages:
        about["passages"] = edit.passages.as_json()
    if edit.parts:
        about["parts"] = [list(part) for part in edit.parts]
    # Copies: the file's format refuses tensors that share memory, as one change of two modules may.
    write_tensors(Path(path), {name: t.cpu().clone() for name, t in edit.tensors().items()}, about)
    counts = {"modules": len({*edit.deltas, *edit.memories}), "edits": edit.count}
    write_manifest(path, command="edit", parameters=edit.about, inputs={"model": edit.model}, counts=counts)


def load_edit(path: Path | str, fix: str = GIVE) -> Edit:
    """Read what `save_edit` wrote. Raises `DataError` for any other file; fix: what the error advises."""
    tensors, about = read_tensors(Path(path), fix)
    try:
        return _edit_of(tensors, about)
    except ValueError as error:
        raise DataError(f"{path} is not an edit written by Anachron ({error}); {fix}") from None


def _edit_of(tensors: Mapping[str, torch.Tensor], manifest: Json) -> Edit:
    """The edit in a file. Raises `ValueError` where something in it is not as `save_edit` writes it."""
    if manifest.get("format") != FORMAT:
        raise ValueError(f"its format is {manifest.get('format')!r}, not {FORMAT!r}")
    for name, kinds in (("prefix", str), ("model", str | None), ("about", dict)):
        if name not in manifest or not isinstance(manifest[name], kinds):
            raise ValueError(f"its {name} is {repr(manifest.get(name, 'missing'))[:70]}")
    about = manifest["about"]
    count = about.get("edits", 0)
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise ValueError(f"it holds {repr(count)[:70]} edits")
    parts: dict[str, dict[str, torch.Tensor]] = {}
    for name, tensor in tensors.items():
        module, slash, part = name.rpartition("/")
        if not slash or tensor.dtype not in KINDS:
            raise ValueError(f"tensor {name!r} of {tensor.dtype} is not a change of a module")
        parts.setdefault(module, {})[part] = tensor
    keys = {module: held.pop("keys") for module, held in parts.items() if "keys" in held}
    for module, rows in keys.items():
        if rows.ndim != 2 or not rows.isfinite().all():
            raise ValueError(f"the keys of {module!r} are not a matrix of finite numbers")
    statistics = {
        name: Moments.of_tensor(held.pop("statistics")) for name, held in parts.items() if "statistics" in held
    }
    memories = _memories_of(parts, manifest.get("labels", {}))
    deltas = {module: _delta_of(module, held) for module, held in parts.items() if held}
    passages = Passages.of_json(manifest["passages"]) if "passages" in manifest else None
    summed = manifest.get("parts", [])
    if not isinstance(summed, list) or not all(
        isinstance(part, list) and [type(value) for value in part] == [str, float] for part in summed
    ):
        raise ValueError("its parts are not checksums with how many times as strong they are")
    added = tuple((part, times) for part, times in summed)
    return Edit(deltas, manifest["prefix"], manifest["model"], about, keys, statistics, memories, passages, added)


def _memories_of(parts: Mapping[str, dict[str, torch.Tensor]], labels: Any) -> dict[str, Memory]:
    """The memories, whose tensors are taken out of the parts."""
    memories = {}
    for module, held in parts.items():
        found = {part: held.pop(f"memory_{part}") for part in ("keys", "values", "radii") if f"memory_{part}" in held}
        if not found:
            continue
        texts = labels.get(module) if isinstance(labels, dict) else None
        if len(found) < 3 or not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"the memory of {module!r} lacks keys, values, radii or labels")
        memory = Memory(**found, labels=tuple(texts))
        counts = {len(tensor) if tensor.ndim else 0 for tensor in found.values()}
        if [tensor.ndim for tensor in found.values()] != [2, 2, 1] or counts != {len(texts)} or not texts:
            shapes = {part: tuple(tensor.shape) for part, tensor in found.items()}
            raise ValueError(f"the memory of {module!r} has the shapes {shapes}, which do not go together")
        if not memory.is_finite() or bool((memory.radii < 0).any()):
            raise ValueError(f"the memory of {module!r} holds NaN, infinite numbers or radii below 0")
        memories[module] = memory
    return memories


def _delta_of(module: str, held: Mapping[str, torch.Tensor]) -> Delta:
    shapes = {part: tuple(tensor.shape) for part, tensor in held.items()}
    delta: Delta
    if set(held) == {"left", "right"}:
        left, right = held["left"], held["right"]
        whole = left.ndim == right.ndim == 2 and left.shape[1] == right.shape[0] and left.dtype == right.dtype
        delta = LowRank(left, right)
    elif set(held) in ({"weight"}, {"weight", "bias"}):
        weight, bias = held["weight"], held.get("bias")
        whole = weight.ndim == 2 and (bias is None or tuple(bias.shape) == (weight.shape[0],))
        delta = Dense(weight, bias)
    else:
        raise ValueError(f"the change of {module!r} consists of {', '.join(sorted(held))}")
    if not whole:
        raise ValueError(f"the change of {module!r} has the shapes {shapes}, which do not go together")
    if not is_finite(delta):
        raise ValueError(f"the change of {module!r} holds NaN or infinite numbers")
    return delta


def save_edited_model(lm: LanguageModel, edit: Edit, folder: Path | str) -> None:
    """Write the model with the edit in its weights as a Hugging Face folder, whole or not at all.

    Raises `ConfigError` for an edit that is no change of weights or of a quantised model's, whose weights cannot be
    written, and for a folder with something in it.
    """
    if edit.prefix:
        raise ConfigError("an edit by PROMPT changes no weights, so there is no edited model to save; save the edit")
    if edit.memories or edit.passages:
        held = "passages" if edit.passages else f"a memory of {', '.join(edit.memories)}"
        raise ConfigError(
            f"the edit holds {held} beside the weights, so no edited model can be "
            "saved; save the edit, and give that to score and probe with --edit"
        )
    beside = [name for name in edit.deltas if not is_plain(owner_of(lm, name))]
    if beside:
        raise ConfigError(
            f"the weights of {beside[0]} are quantised or offloaded and cannot hold the edit; save the edit instead"
        )
    with new_folder(folder, "the edited model") as temporary:
        with edited(lm, edit):
            write_folder(lm, temporary)
        about = {"model": edit.model, "name": lm.name, "about": edit.about, "versions": versions()}
        write_json(temporary / ABOUT_MODEL, about)


def is_edited_model(folder: Path, edit: Edit) -> bool:
    """Whether a folder is one that `save_edited_model` wrote of this edit."""
    if not (file := folder / ABOUT_MODEL).is_file():
        return False
    known = read_json(file)
    return bool(known.get("model") == edit.model and known.get("about") == edit.about)


def describe(edit: Edit) -> dict[str, Any]:
    """What an edit changes, for people: modules with the rank or ``dense``, and the size in bytes."""
    kinds = {name: "dense" if isinstance(d, Dense) else f"rank {d.right.shape[0]}" for name, d in edit.deltas.items()}
    kinds |= {name: f"memory of {len(memory)}" for name, memory in edit.memories.items()}
    about = {"method": edit.about.get("method"), "modules": kinds, "prefix": edit.prefix, "edits": edit.count}
    return about | ({"passages": len(edit.passages.store)} if edit.passages else {})
