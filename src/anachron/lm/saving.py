"""Models as plain Hugging Face folders, from whatever they were loaded from."""

import glob
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import filelock
from safetensors import SafetensorError

from anachron.core.errors import ConfigError, unwritable
from anachron.lm.hub import no_bars_in_logs
from anachron.lm.model import LanguageModel
from anachron.lm.sites import is_quantised


def save_model(lm: LanguageModel, folder: Path | str) -> None:
    """Write a model as a Hugging Face folder, whole or not at all: configuration, weights (safetensors, in the dtype
    that they are in), settings for generation, tokenizer and chat template.

    Raises `ConfigError` for a folder with something in it or that another process writes, and for a model whose
    weights are quantised or that consists of an adapter and what it changes: neither is one plain model.
    """
    if is_quantised(lm.model):
        raise ConfigError(
            f"the weights of {lm.name} are quantised and stay so in memory; save the model that they were made from"
        )
    if getattr(lm.model, "peft_config", None):
        raise ConfigError(
            f"{lm.name} is an adapter beside its model; merge it into the model first (merge_and_unload of peft)"
        )
    with new_folder(folder, "the model") as temporary:
        write_folder(lm, temporary)


@no_bars_in_logs()
def write_folder(lm: LanguageModel, folder: Path) -> None:
    """Put a model and its tokenizer into a folder."""
    lm.model.save_pretrained(folder)
    lm.tokenizer.save_pretrained(folder)


def require_new(folder: Path, what: str) -> None:
    """Raise `ConfigError` for anything but an empty folder that is there already; what: as of `new_folder`."""
    if os.path.lexists(folder) and (folder.is_symlink() or not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} already exists; choose another folder for {what}, new or empty")


@contextmanager
def new_folder(folder: Path | str, what: str) -> Iterator[Path]:
    """A hidden folder that gets its name once the block has filled it, by one process at a time.

    what: that the folder is for, in the error. Raises `ConfigError` as `require_new` or where another process makes it,
    and `BackendError` where it cannot be written; nothing of it stays then.
    """
    target = Path(folder)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    lock = filelock.FileLock(target.with_name(f".{target.name}.lock"))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except filelock.Timeout as error:
        raise ConfigError(f"{target} is being written by another process; choose another folder for {what}") from error
    except OSError as error:
        raise unwritable(target, error) from error
    try:
        require_new(target, what)
        for left in target.parent.glob(f".{glob.escape(target.name)}.*.tmp"):  # of writers that were killed
            shutil.rmtree(left, ignore_errors=True)
        temporary.mkdir()
        yield temporary
        if target.is_dir():
            target.rmdir()  # empty; what has come into it meanwhile stays, and this raises
        temporary.rename(target)
    except (OSError, SafetensorError) as error:
        raise unwritable(target, error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        Path(lock.lock_file).unlink(missing_ok=True)  # while it is held, as anachron.io.jobs.locked does
        lock.release()
