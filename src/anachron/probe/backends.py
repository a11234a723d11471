"""The ways to reach a model, one record each: in this process, on replicas of a Ray cluster, or behind a server; to be
scored, or to be asked for answers.

A new one is a function that opens it, a record, and its place in `BACKENDS`.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from anachron.core.errors import ConfigError
from anachron.io.files import read_text
from anachron.io.servers import (
    Server,
    check_address,
    check_variable,
    key_for,
    open_to_all,
    public_url,
    variable_shown,
)
from anachron.probe.opening import (
    ASKING,
    FILES,
    REPLICAS,
    REQUESTS,
    SERVER,
    TEXTS,
    WEIGHTS,
    BackendType,
    Opening,
    Place,
)
from anachron.probe.respondent import Respondent
from anachron.probe.unopened import Unopened, model_source

if TYPE_CHECKING:
    from anachron.lm.scorer import Scorer
    from anachron.probe.ask.asking import Answerer
    from anachron.probe.run import ProbeSettings

PATIENT: dict[str, Any] = {"tries": 8, "timeout": 600.0, "pause": 0.5}  # a request may hold many texts


@contextmanager
def _transformers(how: Opening) -> "Iterator[Scorer]":
    from anachron.lm.loading import load_model  # here, so that options and files are looked at before torch is there
    from anachron.lm.numerics import deterministic

    place, template = how.place, read_template(how.chat_template)
    if place.replicated:
        from anachron.lm.replicas import Replicas

        if how.edit is not None:
            raise ConfigError(
                f"--edit {how.edit} is not for replicas; save the edited model (edit --save-model) and probe that"
            )
        with Replicas(
            how.name, {**how.loading, "chat_template": template}, ray=place.ray or "local", workers=place.workers,
            gpus=place.gpus_per_replica, repeatable=place.deterministic,
        ) as replicas:  # fmt: skip
            yield replicas
        return
    with deterministic(place.deterministic):  # from the first use of the device on
        lm = load_model(how.name, chat_template=template, **how.loading)
        if how.edit is None:
            yield lm
        else:
            from anachron.edit.base import edited
            from anachron.edit.storage import load_edit

            with edited(lm, load_edit(how.edit)):
                yield lm


@contextmanager
def _llama_cpp(how: Opening) -> "Iterator[Scorer]":
    from anachron.lm.loading import load_model

    yield load_model(how.name, backend="llama.cpp", chat_template=read_template(how.chat_template), **how.loading)


def _at(place: Place) -> dict[str, Any]:
    """What is given of a server, as `anachron.io.servers.Server` takes it."""
    return {name: value for name, value in given(place).items() if name in SERVER}


@contextmanager
def _openai(how: Opening) -> "Iterator[Scorer]":
    from anachron.lm.server.served import ServedModel
    from anachron.lm.tokenizers import load_tokenizer

    place = how.place
    assert place.base_url is not None
    check_address(place.base_url)
    key, template = key_for(place.base_url, place.api_key_env), read_template(how.chat_template)
    if (warning := open_to_all(place.base_url, key)) is not None:
        how.warn(warning)
    tokenizer = load_tokenizer(
        how.loading.get("tokenizer") or how.name,
        revision=how.loading.get("revision"),
        trust_remote_code=how.loading.get("trust_remote_code", False),
        chat_template=template,
    )
    yield ServedModel(Server(how.name, **_at(place), **PATIENT), tokenizer, how.notice)


@contextmanager
def _chat(how: Opening) -> "Iterator[Answerer]":
    from anachron.io.llm_settings import LlmSettings
    from anachron.probe.ask.chat import ChatAnswerer

    yield ChatAnswerer(LlmSettings(how.name, **_at(how.place), **how.asking), how.folder, how.label)


@contextmanager
def _generate(how: Opening) -> "Iterator[Answerer]":
    from anachron.lm.loading import load_model
    from anachron.probe.ask.generate import MOST_TOKENS, LocalAnswerer

    lm = load_model(how.name, chat_template=read_template(how.chat_template), **how.loading)
    label = how.label or Path(how.name).resolve().name
    yield LocalAnswerer(lm, how.folder, label, how.asking.get("max_tokens", MOST_TOKENS))


BACKENDS: tuple[BackendType, ...] = (
    BackendType(name="transformers", open=_transformers, takes=REPLICAS | WEIGHTS | FILES | TEXTS | {"edit"}),
    BackendType(name="openai", open=_openai, takes=SERVER | FILES | TEXTS, loads=False),
    BackendType(name="llama.cpp", open=_llama_cpp, takes=TEXTS | {"tokenizer", "chat_template"}),
    BackendType(name="chat", open=_chat, takes=SERVER | ASKING | REQUESTS, answers=True, loads=False),
    BackendType(name="generate", open=_generate, takes=WEIGHTS | FILES | ASKING, answers=True),
)


def backend_named(name: str) -> BackendType:
    """Raises `ConfigError` where there is none."""
    for one in BACKENDS:
        if one.name == name:
            return one
    raise ConfigError(f"backend {name!r}: choose one of {', '.join(one.name for one in BACKENDS)}")


def refuse_unfit(backend: str, options: Mapping[str, Any]) -> None:
    """Raise `ConfigError` for an option that a backend has no use for. options: those that are not at their default."""
    takes = backend_named(backend).takes
    for name, value in options.items():
        if name not in takes:
            fit = " or ".join(one.name for one in BACKENDS if name in one.takes) or "none"
            raise ConfigError(f"{_shown(name, value)} is not for --backend {backend}; it is for {fit}: leave it out")


def refuse_answering(backend: str) -> None:
    """Raise `ConfigError` for a backend that gives answers and no scores."""
    if backend_named(backend).answers:
        scoring = ", ".join(one.name for one in BACKENDS if not one.answers)
        raise ConfigError(f"--backend {backend} gives answers and no log-probabilities; choose one of {scoring}")


def _shown(name: str, value: Any) -> str:
    """An option as it was given, without what may be a secret."""
    option = f"--{'no-' if value is False else ''}{name.replace('_', '-')}"
    if name == "base_url":
        return f"{option} {public_url(value)}"
    if name == "same_as":
        return f"{option} {' '.join(map(public_url, value))}"
    if name == "api_key_env":
        return f"{option} {variable_shown(value)}"
    return option if isinstance(value, bool) else f"{option} {value}"


def given(*groups: Any) -> dict[str, Any]:
    """The options of some groups (dataclasses) that are not at their default, by the names of their fields."""
    named = [(one.name, getattr(group, one.name), one.default) for group in groups for one in fields(group)]
    return {name: value for name, value, default in named if name != "backend" and value != default}


@dataclass(frozen=True, kw_only=True)
class Backend(Place):
    """Where a model is.

    backend: a name of `BACKENDS`: ``transformers``, ``llama.cpp`` for a GGUF file, or ``openai`` for a server at
        base_url that speaks this protocol, to be scored; ``generate`` in this process or ``chat`` behind a server, to
        be asked for answers.
    api_key_env: the environment variable that holds the server's key.
    concurrency: number of concurrent requests to the server, 8 by default.
    same_as: other addresses that served the same model, for a run that goes on.
    workers: number of replicas of the model, on the Ray cluster at the address ``ray`` (by default ``local``, one on
        this machine).
    gpus_per_replica: with several, the layers are spread over them.
    deterministic: see `anachron.lm.numerics`.

    Raises `ConfigError` for options that do not go together.
    """

    def __post_init__(self) -> None:
        kind = backend_named(self.backend)
        if self.api_key_env is not None:
            check_variable(self.api_key_env)
        refuse_unfit(self.backend, given(self))
        if not kind.loads and self.base_url is None:
            raise ConfigError(
                f"--backend {self.backend} needs the server's address: --base-url http://localhost:8000/v1"
            )
        if self.gpus_per_replica and not self.replicated:
            raise ConfigError(
                f"--gpus-per-replica {self.gpus_per_replica} is for replicas; give --workers or --ray too"
            )


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
    can tell what it is (`anachron.probe.unopened`).

    Raises `ConfigError` for options that do not go together and for a backend that gives answers alone, and what
    loading or the server raises.
    """
    place = backend or Backend()
    kind, how = _opening(name, place, chat_template, edit, loading, warn=warn, notice=notice)
    refuse_answering(kind.name)
    source = None
    if unopened and kind.loads and not place.replicated:
        source = model_source(name, asdict(place), (chat_template, edit), loading)
    if source is None:
        with kind.open(how) as scorer:
            yield scorer
    else:
        with Unopened(name, source, lambda: kind.open(how)) as lm:
            yield cast("Scorer", lm)


@contextmanager
def open_answerer(
    name: str,
    backend: Backend,
    *,
    answers: Path | str,
    label: str | None = None,
    chat_template: Path | str | None = None,
    asking: Mapping[str, Any] | None = None,
    **loading: Any,
) -> Iterator["Answerer"]:
    """Open a model that is asked for answers (``generate`` or ``chat``), for `anachron.ByAnswers`.

    answers: the folder in which answers are kept. label: what it is called in tables, by default the last part of its
    name. asking: ``max_tokens`` of an answer and, of ``chat``, ``temperature, tries, timeout, pause`` as in
    `anachron.LlmSettings`. Otherwise as `open_scorer`.
    """
    asking = dict(asking or {})
    kind, how = _opening(name, backend, chat_template, None, loading, asking=asking, folder=answers, label=label)
    if not kind.answers:
        answering = ", ".join(one.name for one in BACKENDS if one.answers)
        raise ConfigError(f"--backend {kind.name} gives log-probabilities; to be asked choose one of {answering}")
    with kind.open(how) as answerer:
        yield answerer


def _opening(
    name: str, place: Backend, chat_template: Path | str | None, edit: Path | str | None, loading: dict[str, Any],
    *, asking: Mapping[str, Any] | None = None, **more: Any,
) -> tuple[BackendType, Opening]:  # fmt: skip
    """How to open a model. Raises `ConfigError` for an option that its backend has no use for."""
    options = loading | {"chat_template": chat_template, "edit": edit} | dict(asking or {})
    chosen = {option: value for option, value in options.items() if value is not None and value is not False}
    if chosen.get("dtype") == "auto":  # the default
        del chosen["dtype"]
    refuse_unfit(place.backend, chosen)
    return backend_named(place.backend), Opening(
        name=name, place=place, loading=loading, chat_template=chat_template, edit=edit, asking=asking or {}, **more
    )


def read_template(path: Path | str | None) -> str | None:
    """A file with a chat template. Raises `ConfigError` where it cannot be read."""
    return None if path is None else read_text(path, "chat template")


def respondent_of(model: "str | Scorer | Respondent", settings: "ProbeSettings | None" = None) -> Respondent:
    """Who is asked where a caller names a model, gives a loaded one (both are scored), or says who is asked.

    Raises `ConfigError` for settings of scores beside somebody who has their own.
    """
    if isinstance(model, Respondent):
        if settings is not None:
            raise ConfigError(f"settings are for a model that is scored; give them to {type(model).__name__} instead")
        return model
    from anachron.probe.by_scores import ByScores  # it loads torch, which asking a server does without
    from anachron.probe.run import ProbeSettings

    return ByScores(model, settings or ProbeSettings())
