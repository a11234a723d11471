"""C = E[k kT], the uncentred second moment of the inputs of MLP output projections over a text.

The methods that keep other facts in place (ROME, MEMIT, EMMET, AlphaEdit) weigh inputs k by it. One pass over the text
serves any number of modules; the sums are saved as it goes, and finished matrices are kept under the model's
fingerprint:

    <cache>/<model, 16 digits>/<corpus, 16 digits>-<tokens>/<module>.safetensors            C, and where it comes from
                                                            <module>.cholesky-<C, 16 digits>.safetensors, .eigen-...
                                                            checkpoint.safetensors          only while it is unfinished

All real tokens count, the special ones that a tokenizer puts first (BOS) too, as in the published code. The first token
of a text has unusually large inputs in many models, so C depends on how long a window is: it is part of the record.
Sources: ROME (arXiv 2202.05262), appendix E (100,000 samples of Wikipedia), and its published `layer_stats.py`.
"""

import difflib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from anachron.core.errors import BackendError, ConfigError, DataError, ModelError, first_line
from anachron.edit.corpus import AUTO, Corpus, Place, leading_specials, open_corpus, token_batches
from anachron.edit.covariance.own_text import OwnText, enough_tokens
from anachron.edit.covariance.second_moment import SecondMoment
from anachron.edit.tensors import Checkpoint, read_manifest, read_tensors, write_tensors
from anachron.io.cache import cache_folder
from anachron.io.files import Json, remove_leftovers, rows_fingerprint, versions
from anachron.io.jobs import Callbacks, locked, refuse_others
from anachron.lm.model import LanguageModel
from anachron.lm.scoring import is_out_of_memory
from anachron.lm.soundness import check_token
from anachron.lm.temporary import Temporary, together

__all__ = ["SecondMoment", "cache_folder", "collect_covariance"]

PRECISIONS = ("float64", "float32")
TOKENS = 100_000
LONGEST_WINDOW = 1024
_CHECKPOINT = "checkpoint.safetensors"
ELSEWHERE = "choose another cache (--cache or the variable ANACHRON_CACHE)"


def collect_covariance(
    lm: LanguageModel,
    modules: Sequence[str],
    corpus: str | Path | Corpus,
    *,
    tokens: int | None = None,
    window: int | None = None,
    batch_tokens: int = 4096,
    precision: str = "float64",
    cache: Path | str | None = None,
    regularise: float | None = None,
    checkpoint_seconds: float = 60.0,
    callbacks: Callbacks | None = None,
) -> dict[str, SecondMoment]:
    """Compute the covariance C of each module's inputs over the first tokens of a corpus.

    modules: dotted names, such as ``model.layers.2.mlp.down_proj``; any module whose first input is a float tensor.
    corpus: a text file or data set (see `anachron.edit.corpus.open_corpus`), read in its own order: shuffle it first
        where that matters; or ``auto``, what the model writes itself (`anachron.edit.covariance.own_text`).
    tokens: how many to average over, fewer if the corpus is shorter; special tokens count. By default `TOKENS`; of
        ``auto`` ten for each input of the widest module where that is less, for sampling is far slower than reading.
    window: tokens per window, special ones included; by default the model's context length, at most 1024.
    batch_tokens: maximum number of tokens per forward pass.
    precision: of the sums and the matrix. C^-1 amplifies the very directions that float32 loses; ``float32`` is for
        devices that are slow at float64, and halves memory and files.
    cache: the folder that matrices, factorisations and the state of an interrupted pass are kept in, for instance
        `cache_folder`; ``None`` keeps nothing. While another process collects the same there, this one waits, and
        then reads what that has kept or goes on where it was killed.
    regularise: adds this share of the mean diagonal to the diagonal. Only on request, and recorded; files keep C as
        it is.
    checkpoint_seconds: how often an unfinished pass is saved. A pass that is resumed gives the same bytes.
    callbacks: told the tokens done and in all, and what is worth knowing.

    Raises `ConfigError` for unknown modules, settings that make no sense, and a cache that holds the same corpus with
    other settings; `DataError` for a corpus without text; `ModelError` or `BackendError` where the model fails.
    """
    callbacks = callbacks or Callbacks()
    names, width = check_modules(lm, modules), _check_window(lm, window)
    if corpus == AUTO:
        corpus = OwnText(lm)
    if tokens is None:
        tokens = enough_tokens(lm, names, TOKENS) if isinstance(corpus, OwnText) else TOKENS
    _check(lm, tokens=tokens, batch_tokens=batch_tokens, precision=precision)
    check_settings(precision=precision, regularise=regularise)
    text = open_corpus(corpus) if isinstance(corpus, str | Path) else corpus
    identity = lm.identity()
    settings: Json = {
        name: value for name, value in identity.items() if name not in ("model", "revision", "file", "device")
    }
    settings |= {"corpus": text.identity, "tokens": tokens, "window": width, "precision": precision}
    work = _Pass(
        lm, text, names, settings=settings,
        batch_tokens=batch_tokens, checkpoint_seconds=checkpoint_seconds, callbacks=callbacks,
    )  # fmt: skip
    if cache is None:
        moments = work.finish(None)
    else:
        corpus_key = rows_fingerprint([text.identity])[:16]
        folder = folder_of(lm, cache, identity["weights"]) / f"{corpus_key}-{tokens}"
        with locked(folder / ".lock", folder, elsewhere=ELSEWHERE, waiting=callbacks.notice):
            remove_leftovers(folder)
            moments = work.finish(folder)
    if regularise is not None:
        return {name: moment.regularised(regularise) for name, moment in moments.items()}
    for name, moment in moments.items():
        if moment.tokens < moment.size:
            size = f"fewer than its size {moment.size:,}: it has no inverse"
            callbacks.warn(f"C of {name} is over {moment.tokens:,} tokens, {size}")
    return moments


def folder_of(lm: LanguageModel, cache: Path | str, weights: str | None = None) -> Path:
    """The folder of a model in a cache. weights: their fingerprint, where it is known."""
    return Path(cache).expanduser() / lm.fingerprint(weights)[:16]


def check_settings(*, precision: str, regularise: float | None) -> None:
    """Raise `ConfigError` for values that `collect_covariance` refuses whatever the model."""
    if precision not in PRECISIONS:
        raise ConfigError(f"precision {precision!r}: choose one of {', '.join(PRECISIONS)}")
    if regularise is not None and not regularise > 0:
        raise ConfigError(f"regularise = {regularise}: give a number above 0, or leave it out to keep C as it is")


def _check(lm: LanguageModel, *, tokens: int, batch_tokens: int, precision: str) -> None:
    if tokens < 1 or batch_tokens < 1:
        raise ConfigError(f"tokens = {tokens}, batch_tokens = {batch_tokens}: both are at least 1")
    if lm.model.training:
        raise ConfigError(f"{lm.name} is in training mode, where dropout changes its inputs; call model.eval() first")
    if precision == "float64" and lm.device.type == "mps":
        raise ConfigError("the device mps has no float64; choose precision float32, or the device cpu")


def check_modules(lm: LanguageModel, modules: Sequence[str]) -> list[str]:
    """The modules, each once. Raises `ConfigError` for none, and for one that the model does not have."""
    known = [name for name, _ in lm.model.named_modules() if name]
    for name in modules:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=4, cutoff=0.5)
            near = near or [n for n in known if n.rpartition(".")[2] == name.rpartition(".")[2]][:4] or known[:4]
            raise ConfigError(f"{lm.name} has no module {name!r}; near names: {', '.join(near)}")
    if not modules:
        raise ConfigError("no module given; name at least one, such as model.layers.2.mlp.down_proj")
    return list(dict.fromkeys(modules))


def _check_window(lm: LanguageModel, window: int | None) -> int:
    special, most = len(leading_specials(lm.tokenizer)), lm.context_length
    width = min(most or LONGEST_WINDOW, LONGEST_WINDOW) if window is None else window
    if width <= special or (most is not None and width > most):
        upto = "" if most is None else f" and at most the {most} that {lm.name} reads"
        raise ConfigError(f"window = {width} tokens: give more than the {special} special ones of each window{upto}")
    return width


class _Seen(Exception):
    """Every module has had its input: the rest of the forward pass is of no use."""


class _Pass:
    """One pass over a corpus for several modules: the sums while it goes on."""

    def __init__(
        self, lm: LanguageModel, corpus: Corpus, modules: list[str], *, settings: Json, batch_tokens: int,
        checkpoint_seconds: float, callbacks: Callbacks,
    ) -> None:  # fmt: skip
        self.lm, self.corpus, self.modules, self.settings = lm, corpus, modules, settings
        self.batch_tokens, self.every, self.callbacks = batch_tokens, checkpoint_seconds, callbacks
        self.dtype: torch.dtype = getattr(torch, settings["precision"])
        self.sums: dict[str, torch.Tensor] = {}
        self.rows: dict[str, int] = {}  # inputs a module has had: in a mixture of experts not all tokens
        self.waiting: set[str] = set()  # modules that have had no input yet in this forward pass
        self.done = 0
        self.place: Place = (0, 0)

    def finish(self, folder: Path | None) -> dict[str, SecondMoment]:
        """C of every module, from the folder where it is there, else from the text."""
        moments: dict[str, SecondMoment] = {}
        if folder is not None:
            moments = {name: m for name in self.modules if (m := self._finished(folder, name)) is not None}
        missing = [name for name in self.modules if name not in moments]
        if missing:
            self._run(missing, folder)
            moments |= {name: self._mean(name, folder) for name in missing}
        if folder is not None and (missing or _is_over(folder)):
            _checkpoint(folder).discard()
        return {name: moments[name] for name in self.modules}

    def _finished(self, folder: Path, module: str) -> SecondMoment | None:
        path = folder / f"{module}.safetensors"
        if not path.is_file():
            return None
        about = read_manifest(path)
        known, wanted = about.get("settings", {}) | {"module": about.get("module")}, self.settings | {"module": module}
        refuse_others(path, known, wanted, "a covariance", elsewhere=ELSEWHERE)
        tensors, manifest = read_tensors(path)
        return SecondMoment(module, tensors["matrix"], manifest["tokens"], manifest, folder)

    def _run(self, missing: list[str], folder: Path | None) -> None:
        of_pass = {"modules": sorted(missing), "batch_tokens": self.batch_tokens, "device": self.lm.device.type}
        identity = self.settings | of_pass
        checkpoint = None if folder is None else _checkpoint(folder)
        if checkpoint is not None:
            self._resume(checkpoint, identity)
        batches = token_batches(
            self.lm.tokenizer, self.corpus, window=self.settings["window"], batch_tokens=self.batch_tokens,
            left=self.settings["tokens"] - self.done, place=self.place,
        )  # fmt: skip
        saved = time.monotonic()
        with torch.inference_mode():
            for batch in batches:
                self._forward(batch.windows, missing)
                self.done, self.place = self.done + batch.tokens, batch.place
                if checkpoint is not None and time.monotonic() - saved >= self.every:
                    state: Json = {"done": self.done, "place": list(self.place), "rows": self.rows}
                    checkpoint.save(identity, self.sums, state)
                    saved = time.monotonic()
                self.callbacks.progress(self.done, self.settings["tokens"])
        if not self.done:
            raise DataError(f"{self.corpus.name}: it contains no text; give a corpus with text")
        if self.done < self.settings["tokens"]:
            self.callbacks.warn(
                f"{self.corpus.name} has only {self.done:,} of the {self.settings['tokens']:,} tokens asked for; C is "
                "over these"
            )

    def _forward(self, windows: list[list[int]], missing: list[str]) -> None:
        check_token(max(map(max, windows)), self.lm.embeddings, self.lm.name)
        self.waiting = set(missing)
        try:
            with together(map(self._summed, missing)):  # not while the model writes its own text
                self.lm.model(input_ids=torch.tensor(windows, device=self.lm.device), use_cache=False)
        except _Seen:
            return
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            raise BackendError(
                f"{len(windows)} windows of {len(windows[0])} tokens and the sums of {len(missing)} modules do not fit "
                f"into memory ({first_line(error)}); use a smaller batch or window, fewer modules at a time, or float32"
                " sums"
            ) from error

    def _summed(self, name: str) -> Temporary[None]:
        """Add a module's inputs to its sum, as long as the block lasts."""
        # Where accelerate offloads weights, leaving a forward pass half-way would leave them on the device.
        offloaded = {"cpu", "disk"} & set(map(str, getattr(self.lm.model, "hf_device_map", {}).values()))
        module = self.lm.model.get_submodule(name)

        def add(_: torch.nn.Module, positional: tuple[Any, ...], named: dict[str, Any]) -> None:
            self._add(name, next(iter((*positional, *named.values())), None))
            self.waiting.discard(name)
            if not self.waiting and not offloaded:
                raise _Seen

        return Temporary(lambda: module.register_forward_pre_hook(add, with_kwargs=True).remove)

    def _add(self, name: str, given: Any) -> None:
        if not isinstance(given, torch.Tensor) or not given.is_floating_point():
            raise ModelError(f"{name}: its first input is not a float tensor; name the output projection of an MLP")
        keys = given.reshape(-1, given.shape[-1]).to(self.dtype)
        sums = self.sums.get(name)
        if sums is None:
            sums = torch.zeros(keys.shape[1], keys.shape[1], dtype=self.dtype, device=keys.device)
        self.sums[name] = sums.to(keys.device).addmm_(keys.T, keys)
        self.rows[name] = self.rows.get(name, 0) + len(keys)

    def _mean(self, name: str, folder: Path | None) -> SecondMoment:
        rows = self.rows.get(name, 0)
        if not rows:
            raise DataError(f"{name} had no input in {self.done:,} tokens; use more text or another module")
        sums = self.sums.pop(name).cpu()
        if not sums.isfinite().all():
            raise ModelError(
                f"{name}: its inputs are not finite in {self.lm.dtype}; load the model in bfloat16 or float32"
            )
        matrix = (sums + sums.T) / (2 * rows)
        origin = {"model": self.lm.name, "revision": self.lm.revision, "corpus": self.corpus.name}
        manifest = {**origin, "module": name, "tokens": rows, "settings": self.settings, "versions": versions()}
        if folder is not None:
            write_tensors(folder / f"{name}.safetensors", {"matrix": matrix}, manifest)
        return SecondMoment(name, matrix, rows, manifest, folder)

    def _resume(self, checkpoint: Checkpoint, identity: Json) -> None:
        wanted, modules = set(identity["modules"]), (checkpoint.identity() or {}).get("modules", [])
        # A pass that was killed while it wrote its results has some of them done: the sums of the others still serve.
        saved = checkpoint.load(identity | ({"modules": modules} if wanted <= set(modules) else {}))
        if saved is None:
            return
        sums, state = saved
        # Copies: what is read lies anywhere in memory, and on some alignments the product is rounded otherwise.
        self.sums = {name: sums[name].clone() for name in wanted & set(sums)}
        self.rows = {name: state["rows"][name] for name in self.sums}
        self.done, self.place = state["done"], (state["place"][0], state["place"][1])


def _is_over(folder: Path) -> bool:
    """Whether a checkpoint is that of a pass that was killed when all its matrices were written."""
    try:
        identity = _checkpoint(folder).identity()
    except DataError:  # the pass that needs it says so
        return False
    return identity is not None and all((folder / f"{name}.safetensors").is_file() for name in identity["modules"])


def _checkpoint(folder: Path) -> Checkpoint:
    return Checkpoint(folder / _CHECKPOINT, ELSEWHERE)
