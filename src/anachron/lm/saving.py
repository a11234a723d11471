"""Models as plain Hugging Face folders, from whatever they were loaded from."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from anachron.errors import ConfigError
from anachron.lm.model import LanguageModel
from anachron.lm.weights import is_quantised


def save_model(lm: LanguageModel, folder: Path | str) -> None:
    """Write a model as a Hugging Face folder, whole or not at all: configuration, weights (safetensors, in the dtype
    that they are in), settings for generation, tokenizer and chat template.

    Raises `ConfigError` for a folder that is there already, and for a model whose weights are quantised or that
    consists of an adapter and what it changes: neither is one plain model.
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


def write_folder(lm: LanguageModel, folder: Path) -> None:
    """Put a model and its tokenizer into a folder."""
    lm.model.save_pretrained(folder)
    lm.tokenizer.save_pretrained(folder)


@contextmanager
def new_folder(folder: Path | str, what: str) -> Iterator[Path]:
    """A hidden folder that gets its name once the block has filled it. Raises `ConfigError` where one is there.

    what: that the folder is for, in the error.
    """
    target = Path(folder)
    if target.exists():
        raise ConfigError(f"{target} already exists; choose another folder for {what}")
    temporary = target.with_name(f".{target.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        yield temporary
        temporary.replace(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
