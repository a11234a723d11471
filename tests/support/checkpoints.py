"""Checkpoints on disk, and what breaks them: tensors by name, single or sharded, as safetensors or ``.bin``."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from support.tiny_models import make_lm, save

Tensors = dict[str, torch.Tensor]


def checkpoint(folder: Path, family: str = "llama", dtype: torch.dtype = torch.float32, **changes: Any) -> str:
    """A tiny model of a family with a tokenizer; its name for `load_model`."""
    lm = make_lm(family, "gpt2", **changes)
    lm.model.to(dtype)
    return save(lm, folder)


def configure(folder: Path | str, **changes: Any) -> None:
    """Change fields of config.json."""
    path = Path(folder) / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def rewrite(folder: Path | str, change: Callable[[Tensors], Mapping[str, torch.Tensor]], form: str = "single") -> None:
    """Put changed tensors in place of those of a checkpoint.

    form: ``single`` or ``shards`` of safetensors, ``bin`` or ``bin-shards`` of torch.
    """
    folder = Path(folder)
    old = folder / "model.safetensors"
    tensors = {name: tensor.clone() for name, tensor in change(load_file(old)).items()}
    old.unlink()
    kind = "bin" if form.startswith("bin") else "safetensors"
    stem = "pytorch_model" if kind == "bin" else "model"
    names = list(tensors)
    parts = [names] if form in ("single", "bin") else [names[0::3], names[1::3], names[2::3]]
    files = [f"{stem}.{kind}"] if len(parts) == 1 else [f"{stem}-{n}-of-3.{kind}" for n in (1, 2, 3)]
    for file, part in zip(files, parts, strict=True):
        held = {name: tensors[name] for name in part}
        if kind == "bin":
            torch.save(held, folder / file)
        else:
            save_file(held, folder / file, metadata={"format": "pt"})
    if len(parts) > 1:
        places = {name: file for file, part in zip(files, parts, strict=True) for name in part}
        index = {"metadata": {"total_size": 0}, "weight_map": places}
        (folder / f"{stem}.{kind}.index.json").write_text(json.dumps(index))
