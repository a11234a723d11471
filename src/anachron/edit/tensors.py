"""Files of tensors that carry their own manifest: written whole or not at all, read with an error in one line."""

import json
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from anachron.errors import BackendError, DataError
from anachron.io import Json, atomic

_KEY = "manifest"  # one entry only: safetensors keeps no order among several, and the bytes would not be the same


def write_tensors(path: Path, tensors: dict[str, torch.Tensor], manifest: Json) -> None:
    """Write a safetensors file; the same tensors and manifest give the same bytes.

    Raises `BackendError` where the disk is full or the folder cannot be written.
    """
    text = json.dumps(manifest, ensure_ascii=False, sort_keys=True)
    with atomic(path) as temporary:
        temporary.touch()
        mode = temporary.stat().st_mode  # an ordinary file's: safetensors makes files that only their owner can read
        try:
            save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, temporary, {_KEY: text})
        except SafetensorError as error:
            raise BackendError(f"cannot write {path}: {error}; free the disk or choose another folder") from error
        temporary.chmod(mode)


def read_manifest(path: Path) -> Json:
    """The manifest of a file that `write_tensors` wrote. Raises `DataError` for any other file."""
    return _read(path, tensors=False)[1]


def read_tensors(path: Path) -> tuple[dict[str, torch.Tensor], Json]:
    """Tensors (on the CPU) and manifest of a file that `write_tensors` wrote. Raises `DataError` for any other."""
    return _read(path, tensors=True)


def _read(path: Path, *, tensors: bool) -> tuple[dict[str, torch.Tensor], Json]:
    try:
        with safe_open(path, framework="pt") as file:
            found = json.loads((file.metadata() or {})[_KEY])
            return {name: file.get_tensor(name) for name in file.keys()} if tensors else {}, found  # noqa: SIM118
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise DataError(f"{path} is not a file that this version wrote ({error}); delete it and repeat") from error
