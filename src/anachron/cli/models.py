"""Opening the model that a command names, wherever it computes."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anachron.cli.output import quiet_loading, warn

BACKENDS = ("transformers", "openai")


@dataclass(frozen=True)
class Place:
    """Where a model computes: in this process, on replicas of a Ray cluster, or behind a server.

    Raises `ConfigError` for options that do not go together.
    """

    backend: str = "transformers"
    base_url: str | None = None
    api_key_env: str | None = None
    concurrency: int | None = None
    workers: int | None = None
    ray: str | None = None
    gpus: int = 0
    deterministic: bool = False

    def __post_init__(self) -> None:
        from anachron.errors import ConfigError

        if self.backend not in BACKENDS:
            raise ConfigError(f"backend {self.backend!r}: choose {' or '.join(BACKENDS)}")
        served = {"--base-url": self.base_url, "--api-key-env": self.api_key_env, "--concurrency": self.concurrency}
        spread = {"--workers": self.workers, "--ray": self.ray, "--gpus-per-replica": self.gpus or None}
        spread["--deterministic"] = self.deterministic or None
        _refuse(spread if self.backend == "openai" else served, f"--backend {self.backend}")
        if self.backend == "openai" and self.base_url is None:
            raise ConfigError("--backend openai needs the server's address: --base-url http://localhost:8000/v1")
        if self.gpus and not self.spread:
            raise ConfigError(f"--gpus-per-replica {self.gpus} is for replicas; give --workers or --ray too")

    @property
    def spread(self) -> bool:
        return self.workers is not None or self.ray is not None


def load(name: str, template: Path | None = None, **options: Any) -> Any:
    """The model by name, quietly where stderr is no terminal; ``options`` are those of `load_model`.

    template: file with a chat template. Raises `ConfigError` where that cannot be read.
    """
    from anachron.lm.loading import load_model

    text = _read(template)
    quiet_loading()
    return load_model(name, chat_template=text, **options)


@contextmanager
def opened(name: str, place: Place, template: Path | None, edit: Path | None, **options: Any) -> Iterator[Any]:
    """The model as a scorer, with the edit of a file in force; what it needs ends with the block."""
    if place.backend == "openai":
        _refuse({"--edit": edit}, "--backend openai")
        yield _served(name, place, template, options)
    elif place.spread:
        from anachron.errors import ConfigError
        from anachron.probe.replicas import Replicas

        if edit is not None:
            raise ConfigError(
                f"--edit {edit} is not for replicas; save the edited model (edit --save-model) and probe that"
            )
        how = {**options, "chat_template": _read(template)}
        quiet_loading()
        with Replicas(
            name, how, ray=place.ray or "local", workers=place.workers, gpus=place.gpus, repeatable=place.deterministic
        ) as replicas:
            yield replicas
    else:
        from anachron.lm.numerics import deterministic

        with deterministic(place.deterministic):  # from the first use of the device on
            lm = load(name, template, **options)
            if edit is None:
                yield lm
            else:
                from anachron.edit.base import edited
                from anachron.edit.storage import load_edit

                with edited(lm, load_edit(edit)):
                    yield lm


def _served(name: str, place: Place, template: Path | None, options: Mapping[str, Any]) -> Any:
    from anachron.lm.loading import load_tokenizer
    from anachron.lm.served import ServedModel, Server
    from anachron.servers import check_address, key_for, open_to_all

    chosen = {"--dtype": None if options["dtype"] == "auto" else options["dtype"]}
    chosen |= {"--device": options["device"], "--device-map": options["device_map"]}
    _refuse(chosen, "--backend openai")
    assert place.base_url is not None
    check_address(place.base_url)
    key, text = key_for(place.base_url, place.api_key_env), _read(template)
    if (warning := open_to_all(place.base_url, key)) is not None:
        warn(warning)
    quiet_loading()
    tokenizer = load_tokenizer(
        options["tokenizer"] or name, revision=options["revision"],
        trust_remote_code=options["trust_remote_code"], chat_template=text,
    )  # fmt: skip
    return ServedModel(name, tokenizer, Server(place.base_url, key, place.concurrency or 8))


def _refuse(options: Mapping[str, Any], beside: str) -> None:
    from anachron.errors import ConfigError

    for option, value in options.items():
        if value is not None:
            raise ConfigError(f"{option} {value} does not go with {beside}; leave one of them out")


def _read(template: Path | None) -> str | None:
    from anachron.errors import ConfigError

    if template is None:
        return None
    try:
        return template.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"chat template {template} cannot be read as UTF-8 text: {error}") from error
