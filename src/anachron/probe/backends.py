"""A model opened to score, wherever it computes: in this process, on replicas of a Ray cluster, or behind a server."""

import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from anachron.core.errors import ConfigError
from anachron.io.files import Json, file_fingerprint, parse_json, read_text, versions
from anachron.io.run_folder import RUN_FILE, RunFolder
from anachron.io.servers import (
    Server,
    check_address,
    check_variable,
    key_for,
    open_to_all,
    public_url,
    variable_shown,
)

if TYPE_CHECKING:
    from anachron.lm.scorer import Scorer

ADAPTER, TEMPLATES = "adapter_config.json", "additional_chat_templates"
BACKENDS = ("transformers", "openai", "llama.cpp")
PATIENT: dict[str, Any] = {"tries": 8, "timeout": 600.0, "pause": 0.5}  # a request may hold many texts


@dataclass(frozen=True, kw_only=True)
class Backend:
    """Where a model runs.

    backend: ``transformers``, ``llama.cpp`` for a GGUF file, or ``openai`` for a server at base_url that speaks this
        protocol.
    api_key_env: the environment variable that holds the server's key.
    concurrency: number of concurrent requests to the server, 8 by default.
    same_as: other addresses that served the same model, for a run that goes on.
    workers: number of replicas of the model, on the Ray cluster at the address ``ray`` (by default ``local``, one on
        this machine).
    gpus_per_replica: with several, the layers are spread over them.
    deterministic: see `anachron.lm.numerics`.

    Raises `ConfigError` for options that do not go together.
    """

    backend: str = "transformers"
    base_url: str | None = None
    api_key_env: str | None = None
    concurrency: int | None = None
    same_as: Sequence[str] | None = None
    workers: int | None = None
    ray: str | None = None
    gpus_per_replica: int = 0
    deterministic: bool = False

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise ConfigError(f"backend {self.backend!r}: choose one of {', '.join(BACKENDS)}")
        if self.api_key_env is not None:
            check_variable(self.api_key_env)
        for_servers = {
            "--base-url": None if self.base_url is None else public_url(self.base_url),
            "--api-key-env": None if self.api_key_env is None else variable_shown(self.api_key_env),
            "--concurrency": self.concurrency,
            "--same-as": " ".join(map(public_url, self.same_as or ())) or None,
        }
        for_models = {
            "--workers": self.workers, "--ray": self.ray, "--gpus-per-replica": self.gpus_per_replica or None,
            "--deterministic": self.deterministic or None,
        }  # fmt: skip
        if self.backend != "transformers":
            _refuse(for_models, f"--backend {self.backend}")
        if self.backend != "openai":
            _refuse(for_servers, f"--backend {self.backend}")
        if self.backend == "openai" and self.base_url is None:
            raise ConfigError("--backend openai needs the server's address: --base-url http://localhost:8000/v1")
        if self.gpus_per_replica and not self.replicated:
            raise ConfigError(
                f"--gpus-per-replica {self.gpus_per_replica} is for replicas; give --workers or --ray too"
            )

    @property
    def replicated(self) -> bool:
        return self.workers is not None or self.ray is not None


@contextmanager
def open_scorer(
    name: str,
    backend: Backend | None = None,
    *,
    chat_template: Path | str | None = None,
    edit: Path | str | None = None,
    warn: Callable[[str], None] = lambda message: None,
    notice: Callable[[str], None] = lambda message: None,
    unopened: bool = False,
    **loading: Any,
) -> Iterator["Scorer"]:
    """Open a model by name, with an edit in force if one is given; its resources are released with the block.

    chat_template: a file with a Jinja template in the tokenizer's place. edit: a file written by `anachron.save_edit`,
    made for this model. loading: the other options of `anachron.load_model`. warn: told of a server that is open to
    anybody. notice: told how a server scores. unopened: open it only when something must be computed, where its files
    can tell what it is (`anachron.probe.backends`).

    Raises `ConfigError` for options that do not go together, and what loading or the server raises.
    """
    from anachron.lm.loading import load_model  # here, so that options and files are looked at before torch is there
    from anachron.lm.numerics import deterministic

    backend = backend or Backend()
    source = model_source(name, backend, chat_template, edit, loading) if unopened else None
    if source is not None:
        how = {"chat_template": chat_template, "edit": edit, "warn": warn, "notice": notice, **loading}
        with Unopened(name, source, lambda: open_scorer(name, backend, **how)) as lm:
            yield cast("Scorer", lm)
    elif backend.backend == "openai":
        _refuse({"--edit": edit}, "--backend openai")
        yield _served(name, backend, chat_template, loading, warn, notice)
    elif backend.backend == "llama.cpp":
        _refuse({"--edit": edit}, "--backend llama.cpp")
        yield load_model(name, backend="llama.cpp", chat_template=read_template(chat_template), **loading)
    elif backend.replicated:
        from anachron.lm.replicas import Replicas

        if edit is not None:
            raise ConfigError(
                f"--edit {edit} is not for replicas; save the edited model (edit --save-model) and probe that"
            )
        loading["chat_template"] = read_template(chat_template)
        cluster, workers, gpus = backend.ray or "local", backend.workers, backend.gpus_per_replica
        with Replicas(
            name, loading, ray=cluster, workers=workers, gpus=gpus, repeatable=backend.deterministic
        ) as replicas:
            yield replicas
    else:
        with deterministic(backend.deterministic):  # from the first use of the device on
            lm = load_model(name, chat_template=read_template(chat_template), **loading)
            if edit is None:
                yield lm
            else:
                from anachron.edit.base import edited
                from anachron.edit.storage import load_edit

                with edited(lm, load_edit(edit)):
                    yield lm


def _served(
    name: str, backend: Backend, template: Path | str | None, loading: Mapping[str, Any],
    warn: Callable[[str], None], notice: Callable[[str], None],
) -> "Scorer":  # fmt: skip
    from anachron.lm.server.served import ServedModel
    from anachron.lm.tokenizers import load_tokenizer

    of_models = {"--dtype": None if loading.get("dtype", "auto") == "auto" else loading["dtype"]}
    of_models |= {"--device": loading.get("device"), "--device-map": loading.get("device_map")}
    _refuse(of_models, "--backend openai")
    assert backend.base_url is not None
    check_address(backend.base_url)
    key, text = key_for(backend.base_url, backend.api_key_env), read_template(template)
    if (warning := open_to_all(backend.base_url, key)) is not None:
        warn(warning)
    tokenizer = load_tokenizer(
        loading.get("tokenizer") or name,
        revision=loading.get("revision"),
        trust_remote_code=loading.get("trust_remote_code", False),
        chat_template=text,
    )
    server = Server(
        name, backend.base_url, api_key_env=backend.api_key_env, concurrency=backend.concurrency or Server.concurrency,
        same_as=backend.same_as, **PATIENT,
    )  # fmt: skip
    return ServedModel(server, tokenizer, notice)


def model_source(
    name: str, backend: Backend, template: Path | str | None, edit: Path | str | None, loading: Mapping[str, Any]
) -> dict[str, Any] | None:
    """All that decides what `open_scorer` opens: options, versions, machine, and the SHA-256 of every file.

    None where files do not tell: a server, replicas, an adapter, code that comes with a model.
    """
    if backend.backend == "openai" or backend.replicated or loading.get("trust_remote_code"):
        return None
    revision = loading.get("revision")
    files = [model_files(one, revision) for one in (name, loading.get("tokenizer")) if one is not None]
    given = [Path(one) for one in (template, edit) if one is not None]
    if any(one is None for one in files) or not all(one.is_file() for one in given):
        return None
    try:
        prints = [{path.name: file_fingerprint(path) for path in one or ()} for one in (*files, given)]
    except OSError:
        return None  # loading says what is wrong
    return {
        "name": name, "loading": dict(loading), "backend": asdict(backend), "versions": source_versions(),
        "machine": platform.node(), "devices": os.environ.get("CUDA_VISIBLE_DEVICES"), "files": prints,
    }  # fmt: skip


def source_versions() -> dict[str, str]:
    """Versions of what reads a model."""
    more = {name: version(name) for name in ("xllamacpp", "safetensors", "accelerate") if find_spec(name) is not None}
    return versions() | more


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


def _refuse(options: Mapping[str, Any], beside: str) -> None:
    for option, value in options.items():
        if value is not None:
            raise ConfigError(f"{option} {value} does not go with {beside}; leave one of them out")


def read_template(path: Path | str | None) -> str | None:
    """A file with a chat template. Raises `ConfigError` where it cannot be read."""
    return None if path is None else read_text(path, "chat template")


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
