"""Statistics that others have computed: C of ROME and MEMIT (``.npz``), null-space projections of AlphaEdit (``.pt``).

They are checked and kept beside what is collected from text (`anachron.edit.covariance.collect`), one a module:

    <cache>/<model, 16 digits>/imported/<module>.safetensors     C or P, and where it comes from

No file is unpickled. ``.npz``: a sum ``mom2.mom2`` (inputs, inputs) of k kT over ``mom2.count`` inputs, as ROME's
``util/runningstats.py`` saves it (``mom2`` and ``count`` where it is saved alone). ``.pt``: one tensor (inputs, inputs)
or (layers, inputs, inputs), as AlphaEdit's ``experiments/evaluate.py`` and EasyEdit save ``null_space_project.pt``.
"""

import pickle
import re
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from anachron.core.errors import ConfigError, DataError, first_line
from anachron.edit.covariance.collect import ELSEWHERE, check_modules, folder_of
from anachron.edit.covariance.second_moment import SecondMoment
from anachron.edit.tensors import read_manifest, read_tensors, write_tensors
from anachron.io.files import Json, versions
from anachron.io.jobs import locked
from anachron.lm.model import LanguageModel
from anachron.lm.sites import features

IMPORTED = "imported"  # instead of a text, for methods that need a covariance
OWN_NAME = re.compile(r"(.+)_float(?:16|32|64)_mom2")  # MODULE_float32_mom2_100000.npz
_FACTOR = re.compile(r"\.(?:cholesky|eigen)-[0-9a-f]+$")  # which a `SecondMoment` keeps beside itself
_SAME = 1e-3  # |P (P v) - P v| of |v|, and |P - P'| of |P|: rounding of a projection in float32 is far less


def import_covariance(
    lm: LanguageModel, path: Path | str, modules: Sequence[str] = (), *, cache: Path | str | None = None
) -> dict[str, SecondMoment]:
    """Read the statistics of modules that others have computed for this very model, and keep them.

    path: a file as described in `anachron.edit.covariance.imported`. modules: dotted names, one for each matrix of the
        file, in its order; none where the file is named after its module, as ROME's are.
    cache: the folder that they are kept in, for instance `cache_folder`; None keeps nothing.

    A `SecondMoment` whose ``is_projection`` is true is P, not C: it serves AlphaEdit alone, whose thresholds then have
    nothing to decide. Raises `DataError` for a file that holds something else, `ConfigError` for unknown modules, other
    numbers of modules or inputs than the model has, and where the cache holds other statistics of a module.
    """
    path = Path(path)
    own = OWN_NAME.match(path.name)
    names = check_modules(lm, modules or ([own[1]] if own else []))
    if own and own[1] != names[0] and own[1] in dict(lm.model.named_modules()):
        raise ConfigError(f"{path} is of {own[1]} by its name, not of {names[0]}; name that, or rename the file")
    matrices, about = _second_moment(path) if path.suffix == ".npz" else _projections(path)
    if len(matrices) != len(names):
        raise ConfigError(
            f"{path}: the number of its matrices is {len(matrices)}, that of the modules named {len(names)} "
            f"({', '.join(names)}); name as many, in the order of the file"
        )
    moments = {name: _checked(lm, path, name, one, about) for name, one in zip(names, matrices, strict=True)}
    if cache is None:
        return moments
    folder = folder_of(lm, cache) / IMPORTED
    with locked(folder / ".lock", folder, elsewhere=ELSEWHERE):
        files = {name: folder / f"{name}.safetensors" for name in names}
        for name, file in files.items():  # all are looked at before one is written
            if file.is_file() and (known := read_manifest(file))["settings"] != moments[name].manifest["settings"]:
                raise ConfigError(f"{file} holds other statistics, of {known['file']}; delete it, or {ELSEWHERE}")
        for name, moment in moments.items():
            write_tensors(files[name], {"matrix": moment.matrix}, moment.manifest)
    return imported_covariance(lm, names, cache=cache)


def imported_covariance(lm: LanguageModel, modules: Sequence[str], *, cache: Path | str) -> dict[str, SecondMoment]:
    """What `import_covariance` has kept of some modules. Raises `ConfigError` where one of them is not there."""
    folder = folder_of(lm, cache) / IMPORTED
    moments = {}
    for name in modules:
        file = folder / f"{name}.safetensors"
        if not file.is_file():
            there = ", ".join(sorted(one.stem for one in folder.glob("*.safetensors") if not _FACTOR.search(one.stem)))
            raise ConfigError(
                f"no covariance of {name} was imported into {folder} (there is one of {there or 'no module'}); do it "
                f"by anachron covariance MODEL --import FILE --modules {name}"
            )
        tensors, manifest = read_tensors(file)
        moments[name] = SecondMoment(name, tensors["matrix"], manifest["tokens"], manifest, folder)
    return moments


def _checked(lm: LanguageModel, path: Path, module: str, matrix: torch.Tensor, about: Json) -> SecondMoment:
    _, inputs = features(lm.model.get_submodule(module), module)
    if matrix.shape != (inputs, inputs):
        raise ConfigError(
            f"{path}: a matrix of shape {tuple(matrix.shape)} for {module} of {lm.name}, which has {inputs:,} inputs; "
            "name the module and the model that it was computed of"
        )
    moment = SecondMoment.of(matrix, module, tokens=about["tokens"])
    if not about["projection"] and not bool((moment.matrix.diagonal() >= 0).all()):
        raise DataError(f"{path}: the diagonal has entries below 0, which no mean of squares has; take another file")
    settings = {**about, "module": module, "matrix": moment.fingerprint}
    origin = {"model": lm.name, "revision": lm.revision, "corpus": IMPORTED, "file": path.name}
    manifest = {**origin, "module": module, "tokens": about["tokens"], "settings": settings, "versions": versions()}
    return replace(moment, manifest=manifest)


def _second_moment(path: Path) -> tuple[list[torch.Tensor], Json]:
    try:
        with np.load(path, allow_pickle=False) as file:
            prefix = "mom2." if "mom2.mom2" in file else ""
            if missing := [name for name in (f"{prefix}mom2", f"{prefix}count") if name not in file]:
                raise DataError(
                    f"{path} has no {', '.join(missing)}, only {', '.join(file) or 'nothing'}; give second moments as "
                    "ROME's layer_stats.py saves them (mom2.mom2 and mom2.count)"
                )
            total, count = file[f"{prefix}mom2"], file[f"{prefix}count"]
    except (OSError, EOFError, TypeError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} cannot be read as an .npz file of plain arrays ({first_line(error)})") from error
    if count.size != 1 or not np.issubdtype(count.dtype, np.integer) or int(count) < 1:
        raise DataError(f"{path}: {prefix}count is {count}; it must be the number of inputs that were added up")
    if not np.issubdtype(total.dtype, np.floating):
        raise DataError(f"{path}: {prefix}mom2 holds {total.dtype}; it must hold floats")
    exact = torch.from_numpy(total.astype(np.float64)) / int(count)
    mean = exact if total.dtype == np.float64 else exact.float()  # its dtype says how exact the sum is
    return [mean], {"projection": False, "tokens": int(count)}


def _projections(path: Path) -> tuple[list[torch.Tensor], Json]:
    if path.suffix not in (".pt", ".pth"):
        raise ConfigError(f"--import {path}: give second moments (.npz) or null-space projections (.pt)")
    try:
        # of a file as torch writes them now, what is not looked at stays on the disk
        loaded = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except (OSError, EOFError, KeyError, RuntimeError, TypeError, ValueError, pickle.UnpicklingError) as error:
        raise DataError(f"{path} cannot be read as a file of plain tensors ({first_line(error)})") from error
    if not isinstance(loaded, torch.Tensor) or loaded.ndim not in (2, 3) or not loaded.is_floating_point():
        what = (
            f"a tensor of {loaded.dtype}, {tuple(loaded.shape)}" if isinstance(loaded, torch.Tensor) else type(loaded)
        )
        raise DataError(f"{path} holds {what}; give float projections (inputs, inputs) or (layers, inputs, inputs)")
    matrices = list(loaded if loaded.ndim == 3 else loaded[None])
    for number, matrix in enumerate(matrices):
        if matrix.shape[0] == matrix.shape[1] and not _is_projection(matrix):
            raise DataError(
                f"{path}: matrix {number} is no projection (P P is not P, or P is not symmetric); give AlphaEdit's "
                "null_space_project.pt, or second moments as .npz"
            )
    return matrices, {"projection": True, "tokens": 0}


def _is_projection(matrix: torch.Tensor) -> bool:
    """Tried on a few random directions, as the product of two such matrices takes minutes."""
    probe = torch.randn(len(matrix), 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    exact = matrix.double()
    once = exact @ probe
    apart = torch.maximum((exact @ once - once).norm(), (exact.T @ probe - once).norm())
    return bool(apart <= _SAME * probe.norm())
