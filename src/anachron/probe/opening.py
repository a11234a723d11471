"""What a backend is made of: where a model is, what it is opened with, and which options it has a use for."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Options by what has a use for them. A command refuses those that its backend has none for.
SERVER = frozenset({"base_url", "api_key_env", "concurrency", "same_as"})
REPLICAS = frozenset({"workers", "ray", "gpus_per_replica", "deterministic"})
WEIGHTS = frozenset({"dtype", "device", "device_map"})
FILES = frozenset({"revision", "tokenizer", "trust_remote_code", "chat_template"})
TEXTS = frozenset(
    {"format", "prefix", "batch_tokens", "prefix_tree", "all_occurrences", "answer_in_user_turn", "native_softmax"}
)
ASKING = frozenset({"ways", "width", "rounds", "budget", "price_in", "price_out", "dry_run", "max_tokens", "answers"})
REQUESTS = frozenset({"temperature", "tries", "timeout", "pause"})


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a model is; what the fields mean is said in `anachron.Backend`, which checks them."""

    backend: str = "transformers"
    base_url: str | None = None
    api_key_env: str | None = None
    concurrency: int | None = None
    same_as: Sequence[str] | None = None
    workers: int | None = None
    ray: str | None = None
    gpus_per_replica: int = 0
    deterministic: bool = False

    @property
    def replicated(self) -> bool:
        return self.workers is not None or self.ray is not None


@dataclass(frozen=True, kw_only=True)
class Opening:
    """What a model is opened with.

    place: where it is. loading: options of `anachron.load_model`. edit: a file of `anachron.save_edit`. Of who answers,
    folder: where answers are kept; label: in tables; asking: those of ``max_tokens`` and `REQUESTS` that are given.
    warn, notice: told of what a user should know.
    """

    name: str
    place: Place
    loading: Mapping[str, Any] = field(default_factory=dict)
    chat_template: Path | str | None = None
    edit: Path | str | None = None
    folder: Path | str = ""
    label: str | None = None
    asking: Mapping[str, Any] = field(default_factory=dict)
    warn: Callable[[str], None] = lambda message: None
    notice: Callable[[str], None] = lambda message: None


@dataclass(frozen=True, kw_only=True)
class BackendType:
    """A way to reach a model.

    name: in ``--backend``. open: a block in which the model is a `anachron.lm.scorer.Scorer`, or with ``answers`` an
    `anachron.probe.ask.asking.Answerer`. takes: the options that it has a use for. loads: whether the model is loaded
    here; else it is behind a server, whose address is needed.
    """

    name: str
    open: Callable[[Opening], AbstractContextManager[Any]]
    takes: frozenset[str]
    answers: bool = False
    loads: bool = True
