"""Loading a tokenizer: by name, from a folder, from a GGUF file, or the one that another model lends."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import transformers
from transformers.utils import find_adapter_config_file

from anachron.core.errors import AnachronError, ModelError, first_line
from anachron.lm.gguf import files as gguf_files
from anachron.lm.hub import no_bars_in_logs, out_of_reach, why_not_found
from anachron.lm.tokenizer_rules import TOKENIZER, TOKENIZER_SETTINGS, by_its_file, found_file

DEMO, DEMO_UNTRAINED = "demo", "demo-untrained"


def demo_folder() -> Path:
    """Where the bundled demo model lies."""
    return Path(str(files("anachron.lm").joinpath("demo_model")))


@no_bars_in_logs()
def load_tokenizer(
    name: str, *, revision: str | None = None, trust_remote_code: bool = False, chat_template: str | None = None
) -> Any:
    """Load the tokenizer of a hub name, a folder, a GGUF file or ``demo``; chat_template replaces its own template.

    Raises `ModelError` in one line.
    """
    source = str(demo_folder()) if name in (DEMO, DEMO_UNTRAINED) else name
    gguf_files.refuse_folder_of_files(name)
    alone = not gguf_files.is_gguf(name) and out_of_reach(source)
    try:
        if gguf_files.is_gguf(name):
            tokenizer = gguf_files.load_tokenizer(gguf_files.open_gguf(name, revision))
        else:
            if base := _lends_tokenizer(source, revision, alone):
                source, revision = base
                alone = out_of_reach(source)
            how = {"revision": revision, "trust_remote_code": trust_remote_code, "local_files_only": alone}
            tokenizer = by_its_file(transformers.AutoTokenizer.from_pretrained(source, **how), name, source, how)
    except AnachronError:
        raise
    except Exception as error:  # transformers raises many classes here; all mean the same to a user
        reason = why_not_found(source) if alone else first_line(error)
        raise ModelError(f"cannot load a tokenizer from {name!r}: {reason}") from error
    if chat_template is not None:
        tokenizer.chat_template = chat_template
    return tokenizer


def _lends_tokenizer(source: str, revision: str | None, alone: bool) -> tuple[str, str | None] | None:
    """The model under an adapter, and its revision, where the adapter has no tokenizer, as peft saves it."""
    how = {"revision": revision, "local_files_only": alone}
    adapter = find_adapter_config_file(source, **how)
    if adapter is None or any(found_file(source, file, how) for file in (TOKENIZER, TOKENIZER_SETTINGS)):
        return None
    settings = json.loads(Path(adapter).read_text("utf-8"))
    base = settings.get("base_model_name_or_path")
    return (base, settings.get("revision")) if base else None
