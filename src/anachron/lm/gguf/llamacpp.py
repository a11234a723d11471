"""Models in GGUF files, computed by llama.cpp in this process, with the arithmetic of their quantised weights.

Texts are tokenised by the tokenizer that transformers makes of the file, which knows characters, and each is checked to
have the tokens that llama.cpp itself gives it. Weights are as in the file; keys, values and logits are float32.
"""

import ctypes
import hashlib
import logging
import weakref
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from anachron.core.errors import ConfigError, ModelError
from anachron.lm.batches import Limits, plan_batches
from anachron.lm.formats import Format, as_triple, locate
from anachron.lm.gguf.context import LlamaContext, Size, size_of, split_to_fit
from anachron.lm.gguf.files import open_gguf
from anachron.lm.gguf.library import VERSION, Library, library
from anachron.lm.gguf.trial import try_in_child
from anachron.lm.gguf.unread_keys import keys_unread
from anachron.lm.identity import hardware, tokenizer_fingerprint
from anachron.lm.model import check_encoded
from anachron.lm.plans import Plan
from anachron.lm.prefix_tree import TreeBatch, Walk, plan_tree_batches
from anachron.lm.scorer import Progress, Triple, score_texts
from anachron.lm.scoring import Counters, log_softmax_at
from anachron.lm.soundness import check_tokenizer
from anachron.lm.spans import Encoded, Located, encode
from anachron.lm.tokenizers import load_tokenizer

log = logging.getLogger("anachron")

BACKEND = "llama.cpp"
MAGIC = b"GGUF"
TREE_TOKENS = 512  # of a tree batch
WHOLE = {"all F32": "float32", "F16": "float16", "BF16": "bfloat16"}  # files without quantised weights


class LlamaModel:
    """A GGUF file computed by llama.cpp, as an `anachron.lm.scorer.Scorer`.

    tokenizer: fast, of transformers. own_tokens: it was made of the file, so that a text of which llama.cpp makes other
    tokens is an error; with another tokenizer that is only warned of. dtype: the kind of the file's weights, as Q4_1.

    Raises `ModelError` where the file holds no causal model that llama.cpp can compute, `BackendError` where the
    package ``xllamacpp`` is missing.
    """

    prefix, passages = "", None

    def __init__(self, path: Path | str, tokenizer: Any, *, own_tokens: bool = True) -> None:
        self.name, self.path, self.tokenizer, self.own_tokens = str(path), Path(path), tokenizer, own_tokens
        self._llama = library()
        self._model = _open(self._llama, self.path)
        self._contexts: list[LlamaContext] = []  # at most one
        weakref.finalize(self, _close, self._llama, self._model, self._contexts)
        self._check_kind()
        self._words = self._llama.model_get_vocab(self._model)
        self.vocabulary = int(self._llama.vocab_n_tokens(self._words))
        check_tokenizer(tokenizer, self.vocabulary, self.name)
        kind = self._llama.ftype_name(self._llama.model_ftype(self._model)).decode().removeprefix("(guessed) ")
        self.dtype = WHOLE.get(kind, kind)
        self.counters = Counters()

    @property
    def context_length(self) -> int:
        """Most tokens that fit: where positions are stretched beyond what a model was first trained on, these.

        llama.cpp chooses between two kinds of positions (longrope) by the size of the context, not of a text.
        """
        first = self._said(f"{self._said('general.architecture')}.rope.scaling.original_context_length")
        return int(first) if first else int(self._llama.model_n_ctx_train(self._model))

    def identity(self) -> dict[str, Any]:
        """What must match for a run to be resumed: the file's SHA-256, the tokenizer, and what computes."""
        return {
            "model": self.name, "revision": None, "weights": self._sha256,
            "tokenizer": tokenizer_fingerprint(self.tokenizer), "backend": BACKEND,
            "backend_version": f"xllamacpp {VERSION}", "dtype": self.dtype, "device": "cpu",
        }  # fmt: skip

    def about(self) -> dict[str, Any]:
        """``family`` (the file's architecture) and number of ``parameters``; ``quantised``, and ``experts``."""
        family = self._said("general.architecture")
        return {
            "family": family,
            "parameters": int(self._llama.model_n_params(self._model)),
            "quantised": self.dtype not in WHOLE.values(),
            "experts": int(self._said(f"{family}.expert_count") or 0) > 1,
        }

    def hardware(self) -> dict[str, Any]:
        return hardware("cpu")

    @cached_property
    def _sha256(self) -> str:
        """Of the file."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def encode(self, pairs: Sequence[Triple], style: Format | None = None) -> list[Encoded]:
        """Token ids and answer positions of (prompt, answer, separator) triples; see `anachron.lm.spans`.

        Raises `ModelError` where llama.cpp makes other tokens of a text than the tokenizer made of the same file.
        """
        located, special = locate(self.tokenizer, pairs, style)
        encoded = encode(self.tokenizer, located, add_special_tokens=special)
        self.check(encoded)
        self._check_tokens(located, encoded, special)
        return encoded

    def check(self, encoded: Sequence[Encoded]) -> None:
        """Raise `ModelError` where the model does not know a token, `TooLongError` where a text is too long for it."""
        check_encoded(encoded, self.name, self.vocabulary, self.context_length)

    def llama_tokens(self, text: str, *, special: bool) -> list[int]:
        """The tokens that llama.cpp makes of a text. special: with what the file puts before and behind texts."""
        data = text.encode()
        ids = (ctypes.c_int32 * (len(data) + 8))()  # a byte is one token at most
        number = self._llama.tokenize(self._words, data, len(data), ids, len(ids), special, True)
        if number < 0:
            raise ModelError(f"llama.cpp produces more than {len(ids)} tokens of {text!r}")
        return ids[:number]

    def plan(self, encoded: Sequence[Encoded], batch_tokens: int | None = None, *, prefix_tree: bool = True) -> Plan:
        """Tree batches (`anachron.lm.prefix_tree`) of 512 tokens by default; without, every text is computed whole."""
        tokens = batch_tokens or TREE_TOKENS
        batches = (plan_tree_batches if prefix_tree else plan_batches)(encoded, self.vocabulary, Limits(tokens))
        return Plan(batches, prefix_tree=prefix_tree, batch_tokens=tokens)

    def log_probs(
        self, pairs: Sequence[tuple[str, str] | tuple[str, str, str | None]], *, style: Format | None = None,
        batch_tokens: int | None = None, prefix_tree: bool = True,
    ) -> np.ndarray:  # fmt: skip
        """log Pr(answer | prompt) in nats, (pairs,); as `anachron.lm.model.LanguageModel.log_probs`."""
        encoded = self.encode([as_triple(pair) for pair in pairs], style)
        return score_texts(self, encoded, batch_tokens=batch_tokens, prefix_tree=prefix_tree)

    def score_parts(
        self, encoded: Sequence[Encoded], parts: Mapping[int, Plan], *, native_softmax: bool = False,
        progress: Progress = lambda texts: None,
    ) -> Iterator[tuple[int, np.ndarray, Counters]]:  # fmt: skip
        """See `anachron.lm.scorer.Scorer`; parts come in their order, each computed when it is asked for."""
        if native_softmax:
            raise ConfigError("llama.cpp gives logits in float32 only; leave --native-softmax out")
        for number, plan in parts.items():
            counters = Counters()
            scores = self._score(encoded, plan, counters, progress)
            self.counters.add(counters)
            yield number, scores, counters

    def _score(self, encoded: Sequence[Encoded], plan: Plan, counters: Counters, progress: Progress) -> np.ndarray:
        """Scores in the order of ``Plan.texts``, (texts,)."""
        owners = None if plan.prefix_tree else list(range(len(encoded)))  # texts of different owners share nothing
        batches = split_to_fit(encoded, plan.batches, owners, self.context_length)
        context = self._context_of(size_of(encoded, batches, owners))
        longest = max(len(encoded[i].ids) for i in plan.texts)
        windowed = 0 < self._llama.model_n_swa(self._model) < longest  # the cache may lose what leaves the window
        walk, scores = Walk(), []
        for texts in batches:
            if windowed:
                walk.forget()
            batch = walk.next([encoded[i] for i in texts], None if owners is None else [owners[i] for i in texts])
            scores.append(_scores(batch, context))
            counters.tokens += len(batch.ids)
            progress(len(texts))
        return np.concatenate(scores)

    def _context_of(self, size: Size) -> LlamaContext:
        """A context of that size or larger; a smaller one is given up."""
        if not self._contexts or not self._contexts[0].size.holds(size):
            while self._contexts:
                self._contexts.pop().close()
            self._contexts.append(LlamaContext(self._llama, self._model, size, self.vocabulary))
        return self._contexts[0]

    def _said(self, key: str) -> str:
        """What the file says under a key, or nothing."""
        value = ctypes.create_string_buffer(256)
        length = self._llama.model_meta_val_str(self._model, key.encode(), value, len(value))
        return value.value.decode() if length >= 0 else ""

    def _check_kind(self) -> None:
        """Refuse what has no cache of keys and values that texts can share, and files that are not whole."""
        llama, model, name = self._llama, self._model, self.name
        if llama.model_has_encoder(model) or llama.model_is_diffusion(model):
            raise ModelError(f"{name} is not a causal language model; choose a decoder such as Llama, Gemma or Qwen")
        if llama.model_is_recurrent(model) or llama.model_is_hybrid(model):
            raise ModelError(
                f"{name} ({self._said('general.architecture')}) keeps a state in place of keys and values, which texts "
                "cannot share; score it with --backend transformers"
            )
        if int(self._said("split.count") or 1) > 1:
            raise ModelError(f"{name} is one of several parts; put them together with llama-gguf-split --merge")

    def _check_tokens(self, located: Sequence[Located], encoded: Sequence[Encoded], special: bool) -> None:
        other = [
            (item.text, text.ids, ids)
            for item, text in zip(located, encoded, strict=True)
            if text.ids != (ids := tuple(self.llama_tokens(item.text, special=special)[: len(text.ids)]))
        ]
        if not other:
            return
        text, ours, theirs = other[0]
        place = next(i for i, (a, b) in enumerate(zip(ours, (*theirs, None), strict=False)) if a != b)
        words = (
            f"{self.name}: the tokenizer and llama.cpp make different tokens of {len(other)} of {len(encoded)} texts, "
            f"first in {text!r} from token {place + 1} on ({ours[place : place + 4]}, {theirs[place : place + 4]})"
        )
        if self.own_tokens:
            raise ModelError(f"{words}; pass the model's own tokenizer with --tokenizer")
        log.warning("%s; the tokenizer's tokens are scored", words)


def load_gguf(
    name: str, *, tokenizer: str | None = None, chat_template: str | None = None, dtype: str = "auto", **others: Any
) -> LlamaModel:
    """A GGUF file for llama.cpp, with the tokenizer and the chat template that it holds.

    tokenizer: hub name or folder of another. others: options of `anachron.load_model`, none of which goes with it.
    Raises `ConfigError` for one that is given, `ModelError` and `BackendError` as `LlamaModel`.
    """
    if dtype != "auto":
        raise ConfigError(
            f"--dtype {dtype} does not go with --backend llama.cpp, which computes with the weights as the file has "
            "them; leave it out, or give a file of another kind"
        )
    for option, value in others.items():
        if value not in (None, False):
            flag = f"--{option.replace('_', '-')}"
            raise ConfigError(f"{flag} {value} does not go with --backend llama.cpp; leave it out")
    path = Path(name)
    check_gguf(path)
    header = open_gguf(name).header
    if header.of_model().get("attention.causal", True) is not True:
        raise ModelError(
            f"{name} says {header.architecture}.attention.causal false: every token sees those behind it, so no text "
            "has a probability; choose a causal model"
        )
    if unread := keys_unread(header):
        log.warning("%s: llama.cpp does not read %s, which the file says besides", name, ", ".join(unread))
    library()  # what is missing is said before a tokenizer is made, which takes seconds
    words = load_tokenizer(tokenizer or name, chat_template=chat_template)
    return LlamaModel(path, words, own_tokens=tokenizer is None)


def check_gguf(path: Path) -> None:
    """Raise `ModelError` for a path that is no GGUF file."""
    if not path.is_file():
        raise ModelError(f"{path}: there is no such file; --backend llama.cpp takes the path of a .gguf file")
    with path.open("rb") as file:
        begun = file.read(len(MAGIC))
    if begun != MAGIC:
        raise ModelError(
            f"{path} is not a GGUF file (it begins with {begun!r}, not {MAGIC!r}); --backend llama.cpp "
            "accepts nothing else"
        )


def _open(llama: Library, path: Path) -> int:
    try_in_child(path)
    params = llama.model_default_params()
    params.n_gpu_layers = 0
    model = llama.model_load_from_file(str(path).encode(), params)
    if not model:
        raise ModelError(f"llama.cpp cannot load {path}: {llama.complaint()}")
    return int(model)


def _close(llama: Library, model: int, contexts: list[LlamaContext]) -> None:
    while contexts:
        contexts.pop().close()
    llama.model_free(model)


def _scores(batch: TreeBatch, context: LlamaContext) -> np.ndarray:
    """Sums of the log-probabilities of each text's answer tokens, (texts,)."""
    logits = context.logits(batch)
    place = np.argsort(np.argsort(batch.rows))  # of each of the batch's rows among those of the logits
    rows, ids = torch.tensor([(place[row], token) for answer in batch.answers for row, token in answer]).T
    tokens = log_softmax_at(logits, rows, ids, native=False).double().numpy()
    return np.add.reduceat(tokens, np.cumsum([0, *map(len, batch.answers[:-1])]))
