"""Exported folders: one is new, empty, or an earlier export of the same kind; its manifest is written last."""

from pathlib import Path

from anachron.core.errors import ConfigError, DataError
from anachron.data.dataset import Dataset
from anachron.io.files import Json, file_fingerprint, read_json, versions, write_json

MANIFEST = "manifest.json"


def open_folder(out: Path, command: str) -> None:
    """Make sure that an export may be written here; an earlier one of the same kind loses its manifest first.

    Raises `ConfigError` for a file, and for a folder that holds anything else.
    """
    if out.is_file():
        raise ConfigError(f"{out} is a file; choose a folder for --out")
    if not out.is_dir() or all(path.name.startswith(".") for path in out.iterdir()):  # .git of an empty clone is fine
        return
    try:
        known = read_json(out / MANIFEST)
    except DataError:
        known = None
    if not isinstance(known, dict) or known.get("command") != command:
        raise ConfigError(f"{out} is not empty and holds no earlier output of {command}; choose a new or empty folder")
    (out / MANIFEST).unlink()


def close_folder(
    out: Path, command: str, dataset: Dataset, *, files: list[str], parameters: Json, counts: Json
) -> Json:
    """Write the manifest of an export: only a complete one has it. Returns its content."""
    content: Json = {
        "command": command, "parameters": {"boundaries": dataset.boundaries, **dataset.choices(), **parameters},
        "inputs": {short_name(dataset): dataset.fingerprint()}, "counts": counts,
        "files": {name: file_fingerprint(out / name) for name in files}, "versions": versions(),
    }  # fmt: skip
    write_json(out / MANIFEST, content)
    return content


def short_name(dataset: Dataset) -> str:
    """A data set's name as others should see it: of a local file or folder only its own name, not where it lies."""
    return Path(dataset.name).name if Path(dataset.whole).exists() else dataset.name
