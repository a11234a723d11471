"""Loading a causal language model, and scoring with it.

`load_model` takes a Hugging Face hub name, a local folder, or ``demo`` (the small model bundled with
this package; ``demo-untrained`` is its twin with random weights).
"""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from anachron.errors import ConfigError, ModelError, TooLongError
from anachron.lm.formats import Format, encode_pairs
from anachron.lm.hardware import hardware
from anachron.lm.identity import (
    arithmetic,
    described,
    model_fingerprint,
    tokenizer_fingerprint,
    weights_fingerprint,
)  # fmt: skip
from anachron.lm.plans import Plan, make_plan, score_plan, worth_packing
from anachron.lm.scorer import Progress, Triple, score_texts
from anachron.lm.scoring import Counters, input_device
from anachron.lm.selfcheck import PacksChecked
from anachron.lm.spans import Encoded

log = logging.getLogger("anachron")

DTYPES = ("auto", "float32", "bfloat16", "float16")
DEMO, DEMO_UNTRAINED = "demo", "demo-untrained"


@dataclass
class LanguageModel:
    """A causal model with its tokenizer.

    ``name`` is what was asked for, ``revision`` the commit of a hub model (``None`` for folders) and
    ``dtype`` the dtype of the weights. While an edit is in force (`anachron.edited`), ``prefix`` is the text that it
    puts before every prompt, ``edit_of`` the fingerprint of the model without it and ``edit_beside`` fingerprints of
    the changes that are computed beside weights that cannot be written.
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
    packs: PacksChecked = field(default_factory=PacksChecked)

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
        """Everything that decides its scores; what must match for a run with the model to go on.

        ``model`` and ``revision``, ``weights`` and ``tokenizer`` (fingerprints), ``architecture``, ``config``,
        ``adapters`` and ``code`` (see `anachron.lm.identity.described`), ``dtype``, ``device``, ``float32_precision``
        and ``autocast``; ``edit_beside`` where an edit is in force that is computed beside weights. weights: their
        `weights_fingerprint`, where it is known.
        """
        return {
            "model": self.name,
            "revision": self.revision,
            "weights": weights or self.weights_fingerprint(),
            "tokenizer": self.tokenizer_fingerprint(),
            **self.described(),
            **arithmetic(self.dtype, self.device),
            **({"edit_beside": list(self.edit_beside)} if self.edit_beside else {}),
        }

    def described(self) -> dict[str, Any]:
        """What decides its scores beside its weights; see `anachron.lm.identity.described`."""
        return described(self.model)

    def about(self) -> dict[str, Any]:
        """``family`` and number of ``parameters``, from the model's configuration and weights."""
        return {"family": self.model.config.model_type, "parameters": int(self.model.num_parameters())}

    def hardware(self) -> dict[str, Any]:
        """See `anachron.lm.hardware`."""
        return hardware(str(self.device))

    def encode(self, pairs: Sequence[Triple], style: Format | None = None) -> list[Encoded]:
        """Token ids and answer positions of (prompt, answer, separator) triples; see `anachron.lm.spans`."""
        style = style or Format()
        encoded = encode_pairs(self.tokenizer, pairs, replace(style, prefix=self.prefix + style.prefix))
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
        packing: bool = True,
        native_softmax: bool = False,
    ) -> np.ndarray:
        """log Pr(answer | prompt) in nats for (prompt, answer) pairs; float64, shape (len(pairs),).

        A third element of a pair is the separator; by default one space, or nothing after white space.
        The scores do not depend on the order or the batching of the pairs (to 1e-5 in float32). ``batch_tokens`` and
        ``packing`` are those of `plan`.
        Source: paper 002, appendix D. Raises `DataError`, `ModelError` or `BackendError`.
        """
        triples = [(p[0], p[1], p[2] if len(p) > 2 else None) for p in pairs]
        encoded = self.encode(triples, style)
        return score_texts(self, encoded, batch_tokens=batch_tokens, packing=packing, native_softmax=native_softmax)

    def score_parts(
        self,
        encoded: Sequence[Encoded],
        parts: Mapping[int, Plan],
        *,
        native_softmax: bool = False,
        progress: Progress = lambda texts: None,
    ) -> Iterator[tuple[int, np.ndarray, Counters]]:
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
        self, encoded: Sequence[Encoded], batch_tokens: int | None = None, *, packing: bool = True,
        owners: Sequence[int] | None = None,
    ) -> Plan:  # fmt: skip
        """What is computed together. ``batch_tokens``: most tokens a batch; by default what suits the device.

        Packs of shared prefixes (`anachron.lm.packing`) where they save tokens and a self-check shows that the model
        takes them; else padded batches, and a warning where it was the self-check. owners: texts of different ones
        share no prefix.
        """
        vocabulary, worth = self.vocabulary, packing and worth_packing(encoded, self.vocabulary, owners)
        packed = worth and self.packs.fit(self.model, encoded, vocabulary)
        plan = make_plan(self.model, encoded, vocabulary, batch_tokens, packed=packed, owners=owners)
        return replace(plan, refusal=self.packs.refusal if packing else None)

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


def check_encoded(encoded: Sequence[Encoded], name: str, embeddings: int, context_length: int | None) -> None:
    """Raise `ModelError` where a model of so many embeddings does not know a token, `TooLongError` for a long text."""
    largest = max((max(item.ids) for item in encoded), default=0)
    if largest >= embeddings:
        raise ModelError(
            f"the tokenizer gives token {largest}, but {name} knows only {embeddings}; use the model's own"
        )
    longest = max((len(item.ids) for item in encoded), default=0)
    if context_length is not None and longest > context_length + 1:
        where = next(i for i, item in enumerate(encoded) if len(item.ids) == longest)
        raise TooLongError(
            f"text {where + 1} has {longest} tokens, more than the {context_length} that {name} reads; shorten the "
            "prompt or the prefix"
        )


def check_dtype(dtype: str) -> None:
    """Raise `ConfigError` for a dtype that is not one of `DTYPES`."""
    if dtype not in DTYPES:
        raise ConfigError(f"dtype {dtype!r}: choose one of {', '.join(DTYPES)}")


def demo_folder() -> Path:
    """Where the bundled demo model lies."""
    return Path(str(files("anachron.lm").joinpath("demo_model")))


def taught_facts() -> frozenset[str]:
    """Ids of the facts of ``mini`` that the demo model was trained on; the others it never saw."""
    return frozenset(json.loads((demo_folder() / "taught.json").read_text("utf-8"))["taught"])


def load_tokenizer(
    name: str, *, revision: str | None = None, trust_remote_code: bool = False, chat_template: str | None = None
) -> Any:
    """The tokenizer of a hub name, a folder or ``demo``, with a chat template in place of its own where one is given.

    Raises `ModelError` in one line.
    """
    source = str(demo_folder()) if name in (DEMO, DEMO_UNTRAINED) else name
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            source, revision=revision, trust_remote_code=trust_remote_code
        )
    except Exception as error:  # transformers raises many classes here; all mean the same to a user
        raise ModelError(f"cannot load a tokenizer from {name!r}: {_first_line(error)}") from error
    if chat_template is not None:
        tokenizer.chat_template = chat_template
    return tokenizer


def load_model(
    name: str,
    *,
    dtype: str = "auto",
    device: str | None = None,
    device_map: str | None = None,
    revision: str | None = None,
    tokenizer: str | None = None,
    chat_template: str | None = None,
    trust_remote_code: bool = False,
) -> LanguageModel:
    """Load any causal language model of transformers, ready to score.

    name: hub name, local folder, ``demo`` or ``demo-untrained``.
    dtype: ``float32``, ``bfloat16``, ``float16``, or ``auto`` for the checkpoint's own.
    device: ``cpu``, ``cuda``, ``cuda:1`` ...; by default the GPU where there is one. ``device_map`` (for
        instance ``auto``) spreads a large model instead, by accelerate.
    tokenizer: hub name or folder of the tokenizer, where it is not the model's own.
    chat_template: a Jinja template (the text itself) used instead of the tokenizer's.
    trust_remote_code: run code that comes with the model; only on request.

    Raises `ModelError` when the model cannot be loaded or is not causal.
    """
    check_dtype(dtype)
    if device and device_map:
        raise ConfigError("give either a device or a device map, not both")
    loaded_tokenizer = load_tokenizer(
        tokenizer or name, revision=revision, trust_remote_code=trust_remote_code, chat_template=chat_template
    )
    model = _load_weights(name, dtype, device_map, revision, trust_remote_code)
    placed = device_map is not None or (device is None and getattr(model, "is_quantized", False))
    if not placed:
        try:
            model.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        except (RuntimeError, AssertionError, ValueError) as error:
            raise ModelError(f"cannot put {name} on device {device!r}: {_first_line(error)}") from error
    model.eval()
    check_causal(model, name)
    commit = getattr(model.config, "_commit_hash", None)
    return LanguageModel(model, loaded_tokenizer, name, commit, str(model.dtype).removeprefix("torch."))


def _load_weights(name: str, dtype: str, device_map: str | None, revision: str | None, trust: bool) -> Any:
    wanted: Any = dtype if dtype == "auto" else getattr(torch, dtype)
    source = str(demo_folder()) if name in (DEMO, DEMO_UNTRAINED) else name
    try:
        if name == DEMO_UNTRAINED:
            return untrained_twin(source, seed=0).to(torch.float32 if dtype == "auto" else wanted)
        return transformers.AutoModelForCausalLM.from_pretrained(
            source, dtype=wanted, device_map=device_map, revision=revision, trust_remote_code=trust
        )
    except Exception as error:  # transformers raises many classes here; all mean the same to a user
        raise ModelError(f"cannot load a causal language model from {name!r}: {_first_line(error)}") from error


def untrained_twin(source: str, seed: int) -> Any:
    """A model of the same shape with random weights, leaving the global random state as it was."""
    config = transformers.AutoConfig.from_pretrained(source)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return transformers.AutoModelForCausalLM.from_config(config)


def check_causal(model: Any, name: str) -> None:
    """Raise `ModelError` when an earlier token can see a later one, as in BERT and its kin.

    Two texts that share only their first tokens must have the same logits there. What a model's own arithmetic
    changes with the company a text has in its batch (as in mixtures of experts) is measured and allowed for.
    """
    vocabulary = model.config.get_text_config().vocab_size
    device = input_device(model)
    a, b = ([3 % vocabulary] * 3 + [later % vocabulary] * 6 for later in (5, 7))
    with torch.inference_mode():
        alone, together = (
            model(input_ids=torch.tensor(texts, device=device), use_cache=False).logits[:, :3].float()
            for texts in ([a, a], [a, b])
        )
    spread = (alone - alone.mean(-1, keepdim=True)).abs().max()
    noise = (alone[0] - together[0]).abs().max()
    if not (together[0] - together[1]).abs().max() <= 8 * noise + 1e-4 * spread:
        raise ModelError(
            f"{name} ({type(model).__name__}) is not a causal language model: earlier tokens see later ones; choose a "
            "decoder such as GPT, Llama, Mistral, Gemma or Qwen"
        )


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
