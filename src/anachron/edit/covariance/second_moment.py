"""C = E[k kT] as a matrix to solve with: inverse, eigenvectors and rank, each computed once and kept in files."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.linalg import lapack

from anachron.core.errors import DataError
from anachron.edit.tensors import read_tensors, write_tensors
from anachron.io.files import Json
from anachron.lm.sites import hash_into

_EXACT = torch.float64
_NO_MOMENT = "what was imported is a projection on the null space, which serves AlphaEdit alone"


@dataclass(frozen=True, eq=False)
class SecondMoment:
    """The uncentred second moment of the input of one module.

    module: its dotted name. matrix: float32 or float64, (size, size), symmetric, on the CPU. tokens: how many it is the
    mean over, 0 where that is not known. manifest: where it comes from. folder: where its factorisations are kept;
    ``None`` keeps them in memory only. Of a projection (`is_projection`) the matrix is P instead.
    Source: ROME (arXiv 2202.05262), section 3.1 and appendix E: C, estimated from a sample of text.
    """

    module: str
    matrix: torch.Tensor
    tokens: int
    manifest: Json = field(default_factory=dict)
    folder: Path | None = None

    @classmethod
    def of(cls, array: Any, module: str = "", *, tokens: int = 0) -> "SecondMoment":
        """One from a matrix of your own: anything that `numpy.asarray` or torch takes, (size, size), symmetric.

        float32 and float64 stay what they are; narrower floats become float32, whole numbers float64. Raises
        `DataError` for what is not a square, finite, symmetric matrix.
        """
        given = array.detach().cpu() if isinstance(array, torch.Tensor) else torch.from_numpy(np.array(array))
        if given.dtype != _EXACT:
            given = given.to(torch.float32 if given.is_floating_point() else _EXACT)
        if given.ndim != 2 or given.shape[0] != given.shape[1] or not len(given):
            raise DataError(f"second moment of {module!r}: shape {tuple(given.shape)}; a square matrix is needed")
        if not given.isfinite().all():
            raise DataError(f"second moment of {module!r}: it has NaN or infinite entries; compute it again")
        apart = float((given - given.T).abs().max())
        if apart > 1e-5 * float(given.abs().max()):
            raise DataError(f"second moment of {module!r}: not symmetric (entries differ by {apart:.3g}); pass E[k kT]")
        return cls(module, ((given + given.T) / 2).contiguous(), tokens)

    @property
    def size(self) -> int:
        """Number of inputs of the module."""
        return len(self.matrix)

    @property
    def regularise(self) -> float | None:
        """What `regularised` was called with, ``None`` for C as it is."""
        return self.manifest.get("regularise")

    @property
    def is_projection(self) -> bool:
        """Whether this is no C but the projection P on its null space, by others: it serves AlphaEdit alone."""
        return bool(self.manifest.get("settings", {}).get("projection"))

    def regularised(self, share: float) -> "SecondMoment":
        """C + share * mean(diagonal) * I, with the share in its manifest. Raises `DataError` unless share > 0."""
        if not share > 0:
            raise DataError(f"regularise = {share}: give a number above 0, such as 1e-3")
        if self.is_projection:
            raise DataError(f"{self.module}: {_NO_MOMENT}, and there is nothing to regularise")
        if self.regularise is not None:
            raise DataError(f"{self.module}: already regularised by {self.regularise}; start from C as it is")
        matrix = self.matrix.clone()
        matrix.diagonal().add_(share * matrix.diagonal().mean())
        return replace(self, matrix=matrix, manifest={**self.manifest, "regularise": share})

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the shape, dtype and bytes of the matrix."""
        digest = hashlib.sha256(f"{tuple(self.matrix.shape)} {self.matrix.dtype}\n".encode())
        hash_into(digest, self.matrix)
        return digest.hexdigest()

    def inverse_times(self, keys: torch.Tensor) -> torch.Tensor:
        """C^-1 K in float64, on the device of K; K of shape (size, m), any float dtype.

        By a Cholesky factorisation, computed once. Raises `DataError` where C has no inverse (the rank, and what to do,
        are said) and for keys of another shape.
        """
        if keys.ndim != 2 or len(keys) != self.size:
            raise DataError(f"{self.module}: keys of shape {tuple(keys.shape)}; give ({self.size}, number of keys)")
        # C = L L', so C^-1 K = L'^-1 (L^-1 K); all (size, m)
        lower = self._lower  # two solves by hand: cholesky_solve copies it in each call, which takes far longer
        half = torch.linalg.solve_triangular(lower, keys.detach().to("cpu", _EXACT), upper=False)
        return torch.linalg.solve_triangular(lower.mT, half, upper=True).to(keys.device)

    def factorise(self) -> None:
        """Compute now, or read, what `inverse_times` needs. Raises `DataError` where C has no inverse."""
        _ = self._lower  # kept from now on

    def eigen(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Eigenvalues (size,), ascending, and eigenvectors (size, size) in columns; float64, on the CPU."""
        return self._eigen["values"], self._eigen["vectors"]

    @property
    def rank(self) -> int:
        """Number of eigenvalues that can be told from 0: above `tolerance` times the largest."""
        largest = float(self._values[-1])
        return int((self._values > self.tolerance * largest).sum()) if largest > 0 else 0

    @property
    def tolerance(self) -> float:
        """The rounding error of C's eigenvalues relative to the largest, from its dtype and size."""
        return max(torch.finfo(self.matrix.dtype).eps, self.size * torch.finfo(_EXACT).eps)

    @cached_property
    def _lower(self) -> torch.Tensor:
        if self.is_projection:
            raise DataError(f"{self.module}: {_NO_MOMENT}; collect or import the second moment for other methods")
        if self.regularise is None and 0 < self.tokens < self.size:
            raise self._deficient(f"at most {self.tokens:,}")
        return self._kept("cholesky", self._factorise)["lower"]

    def _factorise(self) -> dict[str, torch.Tensor]:
        exact = self.matrix.to(_EXACT)
        lower, failed = torch.linalg.cholesky_ex(exact)
        # The condition in the 1-norm bounds that of the eigenvalues and costs next to nothing; only where it
        # does not settle the question are the eigenvalues computed, which takes longer than all else.
        if failed or _reciprocal_condition(lower, exact) < self.tolerance:
            rank = self.rank
            if failed or rank < self.size:
                raise self._deficient(f"{rank:,}")
        return {"lower": lower}

    @cached_property
    def _eigen(self) -> dict[str, torch.Tensor]:
        return self._kept("eigen", self._decompose)

    def _decompose(self) -> dict[str, torch.Tensor]:
        values, vectors = torch.linalg.eigh(self.matrix.to(_EXACT))
        return {"values": values, "vectors": vectors}

    @cached_property
    def _values(self) -> torch.Tensor:
        path = self._path("eigen")
        known = "_eigen" in self.__dict__ or (path is not None and path.is_file())
        return self._eigen["values"] if known else torch.linalg.eigvalsh(self.matrix.to(_EXACT))

    def _path(self, kind: str) -> Path | None:
        if self.folder is None:
            return None
        return self.folder / f"{self.module or 'matrix'}.{kind}-{self.fingerprint[:16]}.safetensors"

    def _kept(self, kind: str, compute: Callable[[], dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
        """What the folder holds of this very matrix, computed and written first where it is not there."""
        path = self._path(kind)
        if path is None:
            return compute()
        if path.is_file():
            kept, about = read_tensors(path)
            if about.get("matrix") != self.fingerprint:
                raise DataError(f"{path} belongs to another matrix; delete it and repeat")
            return kept
        made = compute()
        about = {"matrix": self.fingerprint, "module": self.module, "of": self.manifest, "regularise": self.regularise}
        write_tensors(path, made, about)
        return read_tensors(path)[0]  # as later calls do: where numbers lie in memory decides the last digit of a solve

    def _deficient(self, rank: str) -> DataError:
        read = f"{self.tokens:,} tokens were read" if self.tokens else "how many tokens were read is not known"
        return DataError(
            f"C of {self.module or 'the matrix'} has no inverse: rank {rank}, size {self.size:,}; {read}. Use more "
            f"text (more than {self.size:,} tokens, better ten times as many) or ask for regularise=, for instance "
            "1e-3, which adds that share of the mean diagonal"
        )


def _reciprocal_condition(lower: torch.Tensor, matrix: torch.Tensor) -> float:
    """1 / (|C| |C^-1|) in the 1-norm, estimated by LAPACK from the Cholesky factor."""
    norm = float(torch.linalg.matrix_norm(matrix, 1))
    return float(lapack.dpocon(lower.numpy(), norm, uplo="L")[0])
