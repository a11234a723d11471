"""From encoded texts to log-probabilities, in batches.

Only the rows that predict an answer token go through the output head, by a hook on the head itself, so
whatever the model does to its logits afterwards (soft-capping, scaling) stays. Texts are padded on the
right with no mask: in a causal model nothing real ever attends to padding.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch

from anachron.core.errors import BackendError, ModelError, first_line
from anachron.lm.numerics import wide_dtype
from anachron.lm.spans import Encoded
from anachron.lm.temporary import Temporary, unchanged

log = logging.getLogger("anachron")

_SOFTMAX_BYTES, _CPU_SOFTMAX_BYTES = 1 << 26, 1 << 22  # largest float32 copy of logits; a CPU's fits its cache

During = Callable[[Sequence[int]], Temporary[Any]]  # the change of the model in force for the texts of these numbers
OfBatch = Callable[[Any, Sequence[Encoded]], np.ndarray]  # of a model and a batch: a number a text


class ScoredText(Protocol):
    """A text's tokens and the positions of those that are scored."""

    @property
    def ids(self) -> tuple[int, ...]: ...
    @property
    def targets(self) -> tuple[int, ...]: ...


@dataclass
class Counters:
    """What scoring did: batches that ran out of memory and were halved, and tokens computed.

    blockwise: how often attention over a tree batch was computed block by block (`anachron.lm.tree_attention`).
    cached: tokens that a server did not compute, for they were in its prefix cache; ``None`` where none says so.
    """

    halvings: int = 0
    tokens: int = 0
    blockwise: int = 0
    cached: int | None = None

    def add(self, other: "Counters") -> None:
        self.halvings += other.halvings
        self.tokens += other.tokens
        self.blockwise += other.blockwise
        if other.cached is not None:
            self.cached = (self.cached or 0) + other.cached


def score_batch(model: Any, batch: Sequence[Encoded], *, native_softmax: bool = False) -> np.ndarray:
    """Sum of log-probabilities of the target tokens of each text; float64, shape (len(batch),).

    The softmax is taken in float32 whatever the model's dtype, unless ``native_softmax``.
    """
    with torch.inference_mode():
        logits, wanted = _target_logits(model, batch)
        each = torch.arange(len(wanted), device=logits.device)
        return _sum_by_text(log_softmax_at(logits, each, wanted, native_softmax), batch)


def count_argmax(model: Any, batch: Sequence[Encoded]) -> np.ndarray:
    """How many target tokens of each text are the model's first choice behind those before; float64, (len(batch),).

    Of tokens that tie for the first place the one with the lowest id is the choice, as in greedy generation.
    """
    with torch.inference_mode():
        logits, wanted = _target_logits(model, batch)
        return _sum_by_text(logits.argmax(-1) == wanted, batch)


def rank_first(model: Any, batch: Sequence[Encoded]) -> np.ndarray:
    """Rank of each text's first target token among all tokens of the vocabulary; float64, shape (len(batch),).

    1 is the likeliest token. Tokens that tie have the best rank among them.
    """
    with torch.inference_mode():
        logits, wanted = _target_logits(model, batch)
        first = on_device(_starts(batch), logits.device)
        chosen = logits[first]  # (texts, vocabulary)
        ranks = 1 + (chosen > chosen.gather(1, wanted[first].unsqueeze(1))).sum(1)
        return ranks.double().cpu().numpy()


def _target_logits(model: Any, batch: Sequence[Encoded]) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits that predict the target tokens, (target tokens, vocabulary), and those tokens, (target tokens,)."""
    device = input_device(model)
    ids = on_device(fed_ids(batch), device)  # (batch, length)
    rows, columns = on_device(target_places(batch), device).T  # (target tokens,) each
    logits = answer_logits(model, ids, rows, columns)
    return logits, on_device(target_ids(batch), logits.device)


def _sum_by_text(tokens: torch.Tensor, batch: Sequence[Encoded]) -> np.ndarray:
    """Sums over each text's target tokens, (target tokens,): float64, (len(batch),)."""
    return np.add.reduceat(tokens.double().cpu().numpy(), _starts(batch))


def _starts(batch: Sequence[Encoded]) -> np.ndarray:
    """The place of each text's first target token among those of all."""
    return np.cumsum([0] + [len(item.targets) for item in batch[:-1]])


def fed_ids(texts: Sequence[ScoredText]) -> list[list[int]]:
    """What is fed of each text: all but its last token, padded on the right."""
    width = max(len(text.ids) for text in texts) - 1
    return [[*text.ids[:-1], *[text.ids[-2]] * (width + 1 - len(text.ids))] for text in texts]


def target_places(texts: Sequence[ScoredText]) -> list[tuple[int, int]]:
    """(row, column) of the position that predicts each target token, the one before it; text by text."""
    return [(row, target - 1) for row, text in enumerate(texts) for target in text.targets]


def target_ids(texts: Sequence[ScoredText]) -> list[int]:
    """The target tokens, text by text."""
    return [text.ids[target] for text in texts for target in text.targets]


def on_device(numbers: Any, device: torch.device) -> torch.Tensor:
    """Whole numbers as a tensor; the copy to a GPU does not wait for what the GPU does."""
    tensor = torch.tensor(numbers)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def input_device(model: Any) -> torch.device:
    """Where token ids go: the device of the input embedding, or of the first weight that is not offloaded."""
    weights = (model.get_input_embeddings().weight, *model.parameters())
    return next((w.device for w in weights if w.device.type != "meta"), torch.device("cpu"))


def answer_logits(
    model: Any, ids: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor, **more: Any
) -> torch.Tensor:
    """Logits of the chosen (row, column) positions, shape (positions, vocabulary); only these go through the head.

    ids: (batch, length). rows, columns: (positions,). more: what else the model is given, such as a mask and cached
    keys and values.
    """
    head = model.get_output_embeddings()
    given = {"input_ids": ids, "use_cache": False} | more
    if head is None:
        logits = model(**given).logits  # (batch, length, vocabulary)
        return logits[rows.to(logits.device), columns.to(logits.device)]
    with head_on(head, lambda hidden: hidden[rows.to(hidden.device), columns.to(hidden.device)]):
        logits = model(**given).logits  # (1, positions, vocabulary)
    if tuple(logits.shape[:2]) != (1, len(rows)):
        raise ModelError(
            f"{type(model).__name__} reshapes its output after the head (got {tuple(logits.shape)}, expected "
            f"(1, {len(rows)}, vocabulary)); this model cannot be scored"
        )
    return logits.squeeze(0)  # not logits[0], whose gradient would be copied into zeros


def head_on(head: torch.nn.Module, choose: Callable[[torch.Tensor], torch.Tensor]) -> Temporary[None]:
    """Give the head only what is chosen of (batch, length, hidden): (positions, hidden), as (1, positions, hidden)."""

    def pick(_: torch.nn.Module, arguments: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        if not arguments:
            raise ModelError("the output head takes its input by keyword, so answer rows cannot be picked for it")
        return (choose(arguments[0]).unsqueeze(0), *arguments[1:])

    return Temporary(lambda: head.register_forward_pre_hook(pick).remove)


def log_softmax_at(logits: torch.Tensor, rows: torch.Tensor, wanted: torch.Tensor, native: bool) -> torch.Tensor:
    """Log-probabilities of the wanted tokens, each in the distribution of its row of logits; no large float32 copy.

    logits: (positions, vocabulary). rows, wanted and the result: (tokens,).
    """
    if native:
        return torch.log_softmax(logits, -1)[rows, wanted].float()
    return logits[rows, wanted].float() - log_norms(logits)[rows].float()


def log_norms(logits: torch.Tensor) -> torch.Tensor:
    """Log of the sum of the exponentials of each row, (rows,), in float32 or finer; no large copy of logits is made."""
    wide = wide_dtype(logits.dtype)
    return torch.cat([torch.logsumexp(piece.to(wide), -1) for piece in logits.split(softmax_rows(logits))])


def softmax_rows(logits: torch.Tensor) -> int:
    """How many rows of logits are turned into probabilities at a time."""
    most = _CPU_SOFTMAX_BYTES if logits.device.type == "cpu" else _SOFTMAX_BYTES
    return max(1, most // (4 * logits.shape[1]))


def score_all(
    model: Any, encoded: Sequence[Encoded], batches: Sequence[Sequence[int]], *, native_softmax: bool = False,
    counters: Counters | None = None, on_batch: Callable[[int], None] = lambda texts: None, during: During = unchanged,
    of_batch: OfBatch | None = None,
) -> np.ndarray:  # fmt: skip
    """Scores in the order of ``encoded`` (NaN for texts in no batch). A batch that does not fit is halved.

    of_batch: what is computed of a batch, by default its scores. ``on_batch`` is told how many texts each finished
    batch held; ``during`` gives the change of the model in force for some texts. Raises `BackendError` when a single
    text does not fit into memory.
    """
    counters = counters or Counters()
    of_batch = of_batch or partial(score_batch, native_softmax=native_softmax)
    scores = np.full(len(encoded), np.nan)
    for batch in batches:
        scores[list(batch)] = _score_fitting(model, encoded, batch, of_batch, counters=counters, during=during)
        on_batch(len(batch))
    return scores


def _score_fitting(
    model: Any, encoded: Sequence[Encoded], chosen: Sequence[int], of_batch: OfBatch, *, counters: Counters,
    during: During,
) -> np.ndarray:  # fmt: skip
    batch = [encoded[i] for i in chosen]
    try:
        with during(chosen):
            scores = of_batch(model, batch)
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        reason = first_line(error)
    else:
        counters.tokens += len(batch) * (max(len(item.ids) for item in batch) - 1)
        return scores
    half = prepare_halving(batch, reason, counters)  # the exception, and the tensors its traceback holds, are gone
    how: dict[str, Any] = {"counters": counters, "during": during}
    return np.concatenate([_score_fitting(model, encoded, p, of_batch, **how) for p in (chosen[:half], chosen[half:])])


def prepare_halving(batch: Sequence[Encoded], reason: str, counters: Counters) -> int:
    """How many texts of a batch that ran out of memory come first; gives back what a GPU's allocator holds in reserve.

    Raises `BackendError` for a single text.
    """
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    if len(batch) == 1:
        raise BackendError(
            f"one text of {len(batch[0].ids)} tokens does not fit into memory ({reason}); use a smaller dtype, another "
            "device or a smaller model"
        )
    counters.halvings += 1
    log.warning("out of memory with %d texts in a batch; going on with half of them", len(batch))
    return len(batch) // 2


def is_out_of_memory(error: BaseException) -> bool:
    """Whether torch ran out of memory: CUDA has a class of its own, the CPU allocator only a message."""
    text = str(error).lower()
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in text or "out of memory" in text
