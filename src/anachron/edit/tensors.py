"""Files of tensors that carry their own manifest and checksum: written whole or not at all, read with an error in one
line; and the one that an unfinished pass or training keeps.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from anachron.core.errors import DataError, unwritable
from anachron.io.files import Json, atomic
from anachron.io.jobs import ELSEWHERE, refuse_others
from anachron.lm.sites import hash_into

DELETE = "delete it and repeat the command"  # how to go on where a file is one that this program keeps for itself
_KEY = "manifest"  # one entry only: safetensors keeps no order among several, and the bytes would not be the same
_SUM = "sha256"


def write_tensors(path: Path, tensors: dict[str, torch.Tensor], manifest: Json) -> None:
    """Write a safetensors file; the same tensors and manifest give the same bytes.

    Raises `BackendError` where the disk is full or the folder cannot be written.
    """
    tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
    manifest = json.loads(json.dumps(manifest))  # as it comes back: the checksum is over that
    text = _text(manifest | {_SUM: checksum(tensors, manifest)})
    with atomic(path) as temporary:
        temporary.touch()
        mode = temporary.stat().st_mode  # an ordinary file's: safetensors makes files that only their owner can read
        try:
            save_file(tensors, temporary, {_KEY: text})
        except SafetensorError as error:
            raise unwritable(path, error) from error
        temporary.chmod(mode)


def checksum(tensors: Mapping[str, torch.Tensor], manifest: Json) -> str:
    """SHA-256 over a manifest and the name, shape, dtype and bytes of every tensor."""
    digest = hashlib.sha256(_text(manifest).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"\n{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        hash_into(digest, tensor)
    return digest.hexdigest()


def read_manifest(path: Path, fix: str = DELETE) -> Json:
    """The manifest of a file that `write_tensors` wrote; errors as of `read_tensors`, but tensors are not looked at."""
    manifest = _read(path, fix, tensors=False)[1]
    return {name: value for name, value in manifest.items() if name != _SUM}


def read_tensors(path: Path, fix: str = DELETE) -> tuple[dict[str, torch.Tensor], Json]:
    """Tensors (on the CPU, mapped from the file) and manifest of a file that `write_tensors` wrote.

    Raises `DataError` for any other file, and for one that was changed since; fix: what the error advises.
    """
    tensors, manifest = _read(path, fix, tensors=True)
    if manifest.pop(_SUM, None) != checksum(tensors, manifest):
        raise DataError(f"{path} was changed since it was written (its SHA-256 is another); {fix}")
    return tensors, manifest


def _read(path: Path, fix: str, *, tensors: bool) -> tuple[dict[str, torch.Tensor], Json]:
    if not path.is_file():
        raise DataError(f"{path} is {'no file' if path.exists() else 'not there'}; {fix}")
    try:
        with safe_open(path, framework="pt") as file:
            text = (file.metadata() or {}).get(_KEY)
            manifest = None if text is None else json.loads(text)
            if not isinstance(manifest, dict):
                raise DataError(f"{path} is a safetensors file without a manifest of Anachron; {fix}")
            return {name: file.get_tensor(name) for name in file.keys()} if tensors else {}, manifest  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise DataError(f"{path} cannot be read as a file of tensors ({reason}); {fix}") from error


def _text(manifest: Json) -> str:
    return json.dumps(manifest, ensure_ascii=False, sort_keys=True)


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that may or may not be there; whoever uses it holds the job's lock.

    elsewhere: how to make the job write to another place, for messages.
    """

    path: Path
    elsewhere: str = ELSEWHERE

    def identity(self) -> Json | None:
        """Of the job that the file belongs to; None without a file. Raises `DataError` for any other file."""
        if not self.path.exists():
            return None
        identity = read_manifest(self.path).get("identity")
        if not isinstance(identity, dict):
            raise DataError(f"{self.path} is not a checkpoint of this version; {DELETE}")
        return identity

    def check(self, identity: Json) -> None:
        """Raise `ConfigError` with the differences where the file belongs to a job with another identity."""
        if (known := self.identity()) is not None:
            refuse_others(self.path, known, identity, "unfinished work", elsewhere=self.elsewhere)

    def load(self, identity: Json) -> tuple[dict[str, torch.Tensor], Json] | None:
        """The tensors (as of `read_tensors`) and the state that were saved last; None without a file.

        Raises as `check`, and `DataError` for a file that was changed since.
        """
        self.check(identity)
        if not self.path.exists():
            return None
        tensors, manifest = read_tensors(self.path)
        return tensors, manifest["state"]

    def save(self, identity: Json, tensors: Mapping[str, torch.Tensor], state: Json) -> None:
        """Write tensors of any device, and whatever else the job needs to go on, in place of what was there."""
        on_cpu = {name: tensor.detach().cpu() for name, tensor in tensors.items()}
        write_tensors(self.path, on_cpu, {"identity": identity, "state": state})

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)
