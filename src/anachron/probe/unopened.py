"""A model that is opened only when something must be computed, and known till then by the files it is read from."""

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anachron.io.files import Json, file_fingerprint, parse_json, versions
from anachron.io.run_folder import RUN_FILE, RunFolder

if TYPE_CHECKING:
    from anachron.lm.scorer import Scorer

ADAPTER, TEMPLATES = "adapter_config.json", "additional_chat_templates"


class Unopened:
    """A `Scorer` that opens itself when it is first asked for anything but its name. Use it as a context manager.

    source: all that decides what is opened, as JSON.
    """

    def __init__(self, name: str, source: Json, opener: "Callable[[], AbstractContextManager[Scorer]]") -> None:
        self.name, self.source, self._opener = name, source, opener
        self._stack = ExitStack()
        self._scorer: Scorer | None = None

    def __enter__(self) -> "Unopened":
        return self

    def __exit__(self, *raised: Any) -> bool | None:
        self._scorer = None
        return self._stack.__exit__(*raised)

    def open(self) -> "Scorer":
        """The scorer itself. Its resources last as long as this one's block, so open it outside of shorter blocks."""
        if self._scorer is None:
            self._scorer = self._stack.enter_context(self._opener())
        return self._scorer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.open(), name)


def recorded_identity(lm: "Scorer | Unopened", folder: Path) -> Json | None:
    """The identity of a model by the record of a run that was finished with the same one, and ``edit_prefix``.

    None where the model is open, or the folder holds no such run.
    """
    if not isinstance(lm, Unopened) or not (folder / RUN_FILE).is_file():
        return None
    run = RunFolder.read(folder)
    opened = run.record.get("opened")
    if not run.is_done or not isinstance(opened, dict) or opened["source"] != lm.source:
        return None
    return {name: run.record["settings"][name] for name in opened["identity"]}


def keep_source(lm: "Scorer | Unopened", run: RunFolder, identity: Json) -> None:
    """Record what a model was opened from, whose identity, with ``edit_prefix``, is part of the run's."""
    if isinstance(lm, Unopened):
        run.record["opened"] = {"source": lm.source, "identity": list(identity)}
        if run.is_done:
            run.save()


def model_source(
    name: str, place: Json, files: Sequence[Path | str | None], loading: Mapping[str, Any]
) -> dict[str, Any] | None:
    """All that decides which model is opened here: options, versions, machine, and the SHA-256 of every file.

    place: where it computes. files: a chat template and an edit. None where files do not tell: an adapter, code that
    comes with a model.
    """
    if loading.get("trust_remote_code"):
        return None
    revision = loading.get("revision")
    of_model = [model_files(one, revision) for one in (name, loading.get("tokenizer")) if one is not None]
    given = [Path(one) for one in files if one is not None]
    if any(one is None for one in of_model) or not all(one.is_file() for one in given):
        return None
    try:
        prints = [{path.name: file_fingerprint(path) for path in one or ()} for one in (*of_model, given)]
    except OSError:
        return None  # loading says what is wrong
    more = {name: version(name) for name in ("xllamacpp", "safetensors", "accelerate") if find_spec(name) is not None}
    return {
        "name": name, "loading": dict(loading), "backend": place, "versions": versions() | more,
        "machine": platform.node(), "devices": os.environ.get("CUDA_VISIBLE_DEVICES"), "files": prints,
    }  # fmt: skip


def model_files(name: str, revision: str | None) -> list[Path] | None:
    """The files that a model or tokenizer may be read from, in their order; None where it cannot be told.

    transformers reads what lies in the folder itself, and templates in one below it.
    """
    from anachron.lm.tokenizers import DEMO, DEMO_UNTRAINED, demo_folder

    place: Path | None = demo_folder() if name in (DEMO, DEMO_UNTRAINED) else Path(name)
    if place is not None and not place.exists():
        place = hub_folder(name, revision)
    if place is None or place.is_file():
        return None if place is None else [place]
    files = sorted(path for where in (place, place / TEMPLATES) for path in where.glob("*") if path.is_file())
    indexes = [path.read_text("utf-8", errors="replace") for path in files if path.name.endswith(".index.json")]
    shards = [str(file) for text in indexes for file in parse_json(text.encode(), place).get("weight_map", {}).values()]
    if not files or any(path.name == ADAPTER for path in files) or any("/" in file for file in shards):
        return None
    return files


def hub_folder(name: str, revision: str | None) -> Path | None:
    """Where the newest commit of a hub model lies in the cache, by asking the hub; None where it has none."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    from anachron.lm.hub import out_of_reach

    try:
        config = hf_hub_download(name, "config.json", revision=revision, local_files_only=out_of_reach(name))
    except (HfHubHTTPError, HFValidationError, OSError):
        return None  # loading says what is wrong
    return Path(config).parent
