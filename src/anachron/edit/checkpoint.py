"""The one file of tensors that an unfinished pass or training keeps, with the identity of whom it belongs to."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from anachron.edit.tensors import DELETE, read_manifest, read_tensors, write_tensors
from anachron.errors import DataError
from anachron.io import Json
from anachron.jobs import ELSEWHERE, refuse_others


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
            raise DataError(f"{self.path} is no checkpoint of this version; {DELETE}")
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
