"""One model on several devices or machines: a replica on each worker of a Ray cluster, which share out a run's parts.

The plan is made once, by one of them, and a part is computed by one replica alone, so the scores are those of a single
process on the same hardware.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from anachron.io.crew import Crew
from anachron.lm.formats import Format, encode_pairs
from anachron.lm.loading import load_model
from anachron.lm.model import check_encoded
from anachron.lm.numerics import deterministic
from anachron.lm.plans import Plan, tokens_computed
from anachron.lm.scorer import Progress, Triple
from anachron.lm.scoring import Counters
from anachron.lm.spans import Encoded
from anachron.lm.tokenizers import load_tokenizer


class _Replica:
    """A loaded model on a worker."""

    def __init__(self, name: str, options: Mapping[str, Any], repeatable: bool) -> None:
        self.repeatable = repeatable
        with deterministic(repeatable):  # from the first use of the device on
            self.lm = load_model(name, **options)

    def facts(self) -> dict[str, Any]:
        return {
            "identity": self.lm.identity(), "about": self.lm.about(), "hardware": self.lm.hardware(),
            "embeddings": self.lm.embeddings, "context_length": self.lm.context_length,
        }  # fmt: skip

    def plan(self, encoded: Sequence[Encoded], batch_tokens: int | None, prefix_tree: bool) -> Plan:
        return self.lm.plan(encoded, batch_tokens, prefix_tree=prefix_tree)

    def score(self, encoded: Sequence[Encoded], plan: Plan, native_softmax: bool) -> tuple[np.ndarray, Counters]:
        with deterministic(self.repeatable):
            ((_, scores, counters),) = self.lm.score_parts(encoded, {0: plan}, native_softmax=native_softmax)
        return scores, counters


class Replicas:
    """As many replicas of one model as workers, as an `anachron.lm.scorer.Scorer`. Use it as a context manager.

    name, options: of `load_model`. ray: address of the cluster, or ``local`` for one on this machine. workers: by
    default as many as the cluster has GPUs for, or one where replicas use none. gpus: of each replica, by default one
    where the cluster has any; with more than one its layers are spread over them by accelerate.
    repeatable: compute by `anachron.lm.numerics.deterministic`.
    Raises `ConfigError` for less than one worker, a missing Ray or a wrong address.
    """

    prefix, passages = "", None

    def __init__(
        self,
        name: str,
        options: Mapping[str, Any],
        *,
        ray: str,
        workers: int | None = None,
        gpus: int = 0,
        repeatable: bool = False,
    ) -> None:
        options = dict(options)
        if gpus > 1:
            options |= {"device_map": options.get("device_map") or "auto"}
        self.name = name
        of_tokenizer = {
            key: options[key] for key in ("revision", "trust_remote_code", "chat_template") if key in options
        }
        self.tokenizer = load_tokenizer(options.get("tokenizer") or name, **of_tokenizer)
        self.crew = Crew(
            ray, _Replica, {"name": name, "options": options, "repeatable": repeatable}, size=workers, gpus=gpus
        )
        self.facts: dict[str, Any] = self.crew.call("facts")
        self.dtype: str = self.facts["identity"]["dtype"]

    def __enter__(self) -> "Replicas":
        return self

    def __exit__(self, *_: object) -> None:
        self.crew.close()

    def identity(self) -> dict[str, Any]:
        return dict(self.facts["identity"])

    def about(self) -> dict[str, Any]:
        return dict(self.facts["about"])

    def hardware(self) -> dict[str, Any]:
        return {**self.facts["hardware"], "replicas": self.crew.size}

    def encode(self, pairs: Sequence[Triple], style: Format | None = None) -> list[Encoded]:
        encoded = encode_pairs(self.tokenizer, pairs, style or Format())
        self.check(encoded)
        return encoded

    def check(self, encoded: Sequence[Encoded]) -> None:
        check_encoded(encoded, self.name, self.facts["embeddings"], self.facts["context_length"])

    def plan(self, encoded: Sequence[Encoded], batch_tokens: int | None = None, *, prefix_tree: bool = True) -> Plan:
        return self.crew.call("plan", encoded, batch_tokens, prefix_tree)

    def score_parts(
        self,
        encoded: Sequence[Encoded],
        parts: Mapping[int, Plan],
        *,
        native_softmax: bool = False,
        progress: Progress = lambda texts: None,
    ) -> Iterator[tuple[int, np.ndarray, Counters]]:
        """See `anachron.lm.scorer.Scorer`: the part with the most tokens first, so that all end at about one time."""
        largest_first = sorted(parts, key=lambda number: -tokens_computed(encoded, parts[number]))
        tasks = {}
        for number in largest_first:
            texts = parts[number].texts
            place = {text: i for i, text in enumerate(texts)}
            tasks[number] = ([encoded[i] for i in texts], parts[number].renumbered(place), native_softmax)
        for number, (scores, counters) in self.crew.share("score", tasks):
            progress(len(scores))
            yield number, scores, counters
