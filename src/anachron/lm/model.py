"""A causal language model with its tokenizer: what it is, and scoring with it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from anachron.core.errors import TooLongError
from anachron.lm.formats import TARGETS, Format, Shown, as_triple, encode_pairs, in_force
from anachron.lm.identity import (
    arithmetic,
    described,
    hardware,
    model_fingerprint,
    tokenizer_fingerprint,
    weights_fingerprint,
)
from anachron.lm.plans import Plan, fitting, make_plan, prefix_tree_saves_tokens, score_plan
from anachron.lm.scorer import Progress, Triple, score_texts
from anachron.lm.scoring import Counters, OfBatch, count_argmax, input_device, rank_first, score_all
from anachron.lm.selfcheck import TreeChecks
from anachron.lm.sites import is_quantised
from anachron.lm.soundness import check_token
from anachron.lm.spans import Encoded
from anachron.lm.tree_scoring import OfTokens, is_first_choice, score_tree_batches


@dataclass
class LanguageModel:
    """A causal model with its tokenizer.

    ``name`` is what was asked for, ``revision`` the commit of a hub model (``None`` for folders) and
    ``dtype`` the dtype of the weights. While an edit is in force (`anachron.edited`), ``prefix`` is the text that it
    puts before every prompt, ``passages`` what it chooses from for each, ``edit_of`` the fingerprint of the model
    without it, ``edit_beside`` fingerprints of the changes that are computed beside the weights and ``memories`` those
    of them that are memories (`anachron.edit.carried.memory`), by the names of modules; ``edits`` are all that are in
    force, the first one first, for methods that spare earlier ones. ``style`` is how requests are put to it when it is
    edited, and prompts when an edit is evaluated: raw, or in its chat template
    (`anachron.lm.generation.update_style`). ``file`` is the SHA-256 of the GGUF file that it was read from.
    """

    model: Any
    tokenizer: Any
    name: str
    revision: str | None = None
    dtype: str = "float32"
    counters: Counters = field(default_factory=Counters)
    prefix: str = ""
    edit_of: str | None = None
    edit_beside: tuple[str, ...] = ()
    style: Format = TARGETS
    memories: Mapping[str, Any] = field(default_factory=dict)
    edits: tuple[Any, ...] = ()
    tree_checks: TreeChecks = field(default_factory=TreeChecks)
    file: str | None = None
    passages: Shown | None = None

    @property
    def vocabulary(self) -> int:
        """Number of logits a token has."""
        head = self.model.get_output_embeddings()
        if head is None:
            return int(self.model.config.get_text_config().vocab_size)
        return int(getattr(head, "out_features", head.weight.shape[0]))

    @property
    def embeddings(self) -> int:
        """Number of tokens that have an embedding."""
        return int(self.model.get_input_embeddings().weight.shape[0])

    @property
    def device(self) -> torch.device:
        """Where its input goes."""
        return input_device(self.model)

    @property
    def context_length(self) -> int | None:
        """Most tokens that fit, where the model's configuration says it."""
        return getattr(self.model.config.get_text_config(), "max_position_embeddings", None)

    def identity(self, weights: str | None = None) -> dict[str, Any]:
        """Everything that decides its scores: what must match for a run with the model to be resumed.

        ``model`` and ``revision``, ``weights`` and ``tokenizer`` (fingerprints), ``architecture``, ``config``,
        ``adapters`` and ``code`` (see `anachron.lm.identity.described`), ``dtype``, ``device``, ``float32_precision``
        and ``autocast``; ``file`` (its SHA-256) of a GGUF file; ``edit_beside`` where an edit is in force that is
        computed beside weights. weights: their `weights_fingerprint`, where it is known.
        """
        return {
            "model": self.name,
            "revision": self.revision,
            "weights": weights or self.weights_fingerprint(),
            "tokenizer": self.tokenizer_fingerprint(),
            **self.described(),
            **arithmetic(self.dtype, self.device),
            **({"file": self.file} if self.file else {}),
            **({"edit_beside": list(self.edit_beside)} if self.edit_beside else {}),
        }

    def described(self) -> dict[str, Any]:
        """What decides its scores beside its weights; see `anachron.lm.identity.described`."""
        return described(self.model)

    def about(self) -> dict[str, Any]:
        """``family`` and number of ``parameters``; whether weights are ``quantised``, and tokens go to ``experts``."""
        return {
            "family": self.model.config.model_type,
            "parameters": int(self.model.num_parameters()),
            "quantised": is_quantised(self.model),
            "experts": has_experts(self.model.config.get_text_config()),
        }

    def hardware(self) -> dict[str, Any]:
        """See `anachron.lm.identity`."""
        return hardware(str(self.device))

    def encode(self, pairs: Sequence[Triple], style: Format | None = None) -> list[Encoded]:
        """Token ids and answer positions of (prompt, answer, separator) triples; see `anachron.lm.spans`."""
        encoded = encode_pairs(self.tokenizer, pairs, in_force(self, style or Format()))
        self.check(encoded)
        return encoded

    def check(self, encoded: Sequence[Encoded]) -> None:
        """Raise `ModelError` where the model does not know a token, or a text is too long for it."""
        check_encoded(encoded, self.name, self.embeddings, self.context_length)

    def log_probs(
        self,
        pairs: Sequence[tuple[str, str] | tuple[str, str, str | None]],
        *,
        style: Format | None = None,
        batch_tokens: int | None = None,
        prefix_tree: bool = True,
        native_softmax: bool = False,
    ) -> np.ndarray:
        """log Pr(answer | prompt) in nats for (prompt, answer) pairs; float64, shape (len(pairs),).

        A third element of a pair is the separator; by default one space, or nothing after white space. White space
        that an answer begins with is scored with it, as lm-evaluation-harness does, and takes no separator.
        The scores do not depend on the order or the batching of the pairs (to 1e-5 in float32). ``batch_tokens`` and
        ``prefix_tree`` are those of `plan`.
        Source: TimeStress, appendix D. Raises `DataError`, `ModelError` or `BackendError`.
        """
        encoded = self.encode([as_triple(pair) for pair in pairs], style)
        return score_texts(
            self, encoded, batch_tokens=batch_tokens, prefix_tree=prefix_tree, native_softmax=native_softmax
        )

    def argmax_counts(self, encoded: Sequence[Encoded], batch_tokens: int | None = None) -> np.ndarray:
        """How many target tokens of each text are the model's first choice: see `anachron.lm.scoring.count_argmax`.

        In the order of the texts; what occurs twice is computed once, by prefix trees where scores are.
        """
        return self._numbers(encoded, batch_tokens, count_argmax, is_first_choice)

    def first_token_ranks(self, encoded: Sequence[Encoded], batch_tokens: int | None = None) -> np.ndarray:
        """Rank of each text's first target token, 1 for the model's first choice: see `anachron.lm.scoring.rank_first`.

        In the order of the texts; what occurs twice is computed once, by padded batches.
        """
        return self._numbers(encoded, batch_tokens, rank_first)

    def _numbers(
        self, encoded: Sequence[Encoded], batch_tokens: int | None, of_batch: OfBatch, of_tokens: OfTokens | None = None
    ) -> np.ndarray:
        """A number of each text; by prefix trees, if it is a sum over tokens and these save any, else by padded
        batches."""
        distinct = list(dict.fromkeys(encoded))
        if not distinct:
            return np.zeros(0)
        plan = self.plan(distinct, batch_tokens, prefix_tree=of_tokens is not None)
        how: dict[str, Any] = {"of_tokens": of_tokens} if plan.prefix_tree else {"of_batch": of_batch}
        score = score_tree_batches if plan.prefix_tree else score_all
        numbers = score(self.model, distinct, plan.batches, counters=self.counters, **how)
        place = {text: i for i, text in enumerate(distinct)}
        return numbers[[place[text] for text in encoded]]

    def score_parts(
        self, encoded: Sequence[Encoded], parts: Mapping[int, Plan], *, native_softmax: bool = False,
        progress: Progress = lambda texts: None,
    ) -> Iterator[tuple[int, np.ndarray, Counters]]:  # fmt: skip
        """See `anachron.lm.scorer.Scorer`; parts come in their order, each computed when it is asked for."""
        for number, plan in parts.items():
            counters = Counters()
            try:
                scores = score_plan(
                    self.model, encoded, plan, native_softmax=native_softmax, counters=counters, on_batch=progress
                )
            finally:
                self.counters.add(counters)
            yield number, scores[plan.texts], counters

    def plan(
        self, encoded: Sequence[Encoded], batch_tokens: int | None = None, *, prefix_tree: bool = True,
        owners: Sequence[int] | None = None,
    ) -> Plan:  # fmt: skip
        """What is computed together. ``batch_tokens``: most tokens a batch; by default what suits the device.

        Prefix-tree attention (`anachron.lm.prefix_tree`) where that saves tokens, and the model's configuration and a
        self-check say that the model takes it; else padded batches, and a warning where it does not. owners: texts of
        different ones share no prefix.
        """
        model, vocabulary = self.model, self.vocabulary
        by_tree = prefix_tree and prefix_tree_saves_tokens(encoded, vocabulary, owners)
        plan = make_plan(model, encoded, vocabulary, batch_tokens, prefix_tree=by_tree, owners=owners)
        refusal = self.tree_checks.refuse(model, encoded, plan.batches, owners) if by_tree else None
        if refusal is not None:
            plan = make_plan(model, encoded, vocabulary, batch_tokens, prefix_tree=False)
        if batch_tokens is None:
            plan = fitting(model, encoded, vocabulary, plan, owners)
        return replace(plan, refusal=refusal, trial=self.tree_checks.trial if by_tree else None)

    def fingerprint(self, weights: str | None = None) -> str:
        """SHA-256 over all that makes it the model that it is: weights, configuration, adapters and code.

        weights: their own fingerprint, where it is known; else they are read.
        """
        return model_fingerprint(weights or self.weights_fingerprint(), self.described())

    def weights_fingerprint(self) -> str:
        """SHA-256 over name, shape, dtype and all bytes of every weight, wherever it lies (offloaded ones too)."""
        return weights_fingerprint(self.model)

    def tokenizer_fingerprint(self) -> str:
        """SHA-256 of the tokenizer's full definition, chat template and special tokens."""
        return tokenizer_fingerprint(self.tokenizer)


def has_experts(config: Any) -> bool:
    """Whether a configuration is that of a mixture of experts: it, or a part of it, says how many there are."""
    known = config if isinstance(config, dict) else config.to_dict()
    return any(
        has_experts(value) if isinstance(value, dict) else isinstance(value, int) and value > 1 and "experts" in name
        for name, value in known.items()
    )


def check_encoded(encoded: Sequence[Encoded], name: str, embeddings: int, context_length: int | None) -> None:
    """Raise `ModelError` where a model of so many embeddings does not know a token, `TooLongError` for a long text."""
    check_token(max((max(item.ids) for item in encoded), default=0), embeddings, name)
    longest = max((len(item.ids) for item in encoded), default=0)
    if context_length is not None and longest > context_length + 1:
        where = next(i for i, item in enumerate(encoded) if len(item.ids) == longest)
        raise TooLongError(
            f"text {where + 1} has {longest} tokens, more than the {context_length} that {name} reads; shorten the "
            "prompt or the prefix"
        )
