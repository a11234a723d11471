"""Edits as files: one safetensors file that carries its manifest, and models with an edit saved whole."""

import shutil
from pathlib import Path
from typing import Any

import torch

from anachron.edit.base import Delta, Dense, Edit, LowRank, edited, owner_of
from anachron.edit.sites import is_plain
from anachron.edit.tensors import read_tensors, write_tensors
from anachron.errors import ConfigError, DataError
from anachron.io import versions, write_json, write_manifest
from anachron.lm.model import LanguageModel

FORMAT = "anachron edit 1"


def save_edit(edit: Edit, path: Path | str) -> None:
    """Write an edit, whole or not at all; its manifest is in the file and beside it."""
    tensors: dict[str, torch.Tensor] = {}
    for name, delta in edit.deltas.items():
        parts = (
            {"left": delta.left, "right": delta.right}
            if isinstance(delta, LowRank)
            else {"weight": delta.weight, "bias": delta.bias}
        )
        tensors |= {f"{name}/{part}": t for part, t in parts.items() if t is not None}
    tensors |= {f"{name}/keys": keys for name, keys in edit.keys.items()}
    about = {"format": FORMAT, "model": edit.model, "prefix": edit.prefix, "about": edit.about, "versions": versions()}
    # Copies: the file's format refuses tensors that share memory, as one change of two modules may.
    write_tensors(Path(path), {name: t.detach().cpu().clone() for name, t in tensors.items()}, about)
    write_manifest(
        path,
        command="edit",
        parameters=edit.about,
        inputs={"model": edit.model},
        counts={"modules": len(edit.deltas), "edits": edit.count},
    )


def load_edit(path: Path | str) -> Edit:
    """Read what `save_edit` wrote. Raises `DataError` for any other file."""
    tensors, about = read_tensors(Path(path))
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        found = about.get("format") if isinstance(about, dict) else None
        raise DataError(f"{path} is no edit of Anachron (its format is {found!r}, not {FORMAT!r}); give one")
    parts: dict[str, dict[str, torch.Tensor]] = {}
    for name, tensor in tensors.items():
        module, _, part = name.rpartition("/")
        parts.setdefault(module, {})[part] = tensor
    keys = {module: held.pop("keys") for module, held in parts.items() if "keys" in held}
    try:
        deltas: dict[str, Delta] = {
            module: LowRank(held["left"], held["right"]) if "left" in held else Dense(held["weight"], held.get("bias"))
            for module, held in parts.items()
            if held
        }
        return Edit(deltas, about["prefix"], about["model"], about["about"], keys)
    except KeyError as error:
        raise DataError(f"{path} is a broken edit, without {error}; make it again") from error


def save_edited_model(lm: LanguageModel, edit: Edit, folder: Path | str) -> None:
    """Write the model with the edit in its weights as a Hugging Face folder, whole or not at all.

    Raises `ConfigError` for an edit that is no change of weights or of a quantised model's, whose weights cannot be
    written, and for a folder that is there already.
    """
    target = Path(folder)
    if edit.prefix:
        raise ConfigError("an edit by PROMPT changes no weights, so there is no edited model to save; save the edit")
    beside = [name for name in edit.deltas if not is_plain(owner_of(lm, name))]
    if beside:
        raise ConfigError(
            f"the weights of {beside[0]} are quantised or offloaded and cannot hold the edit; save the edit instead"
        )
    if target.exists():
        raise ConfigError(f"{target} is there already; choose another folder for the edited model")
    temporary = target.with_name(f".{target.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        with edited(lm, edit):
            lm.model.save_pretrained(temporary)
        lm.tokenizer.save_pretrained(temporary)
        about = {"model": edit.model, "name": lm.name, "about": edit.about, "versions": versions()}
        write_json(temporary / "anachron_edit.json", about)
        temporary.replace(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def describe(edit: Edit) -> dict[str, Any]:
    """What an edit changes, for people: modules with the rank or ``dense``, and the size in bytes."""
    kinds = {name: "dense" if isinstance(d, Dense) else f"rank {d.right.shape[0]}" for name, d in edit.deltas.items()}
    return {"method": edit.about.get("method"), "modules": kinds, "prefix": edit.prefix, "edits": edit.count}
