"""Whether a model gives the same scores by prefix-tree attention (`anachron.lm.prefix_tree`) as in padded batches.

Its configuration may say that it does not (`anachron.lm.windows`); else it is tried on the largest of what is to be
computed. Some models cannot be given a mask and positions, some ignore them, and some use a token's index in the
sequence, which is far from its depth in a text only in large tree batches.

In half precision two right ways differ by tenths of a nat, so that neither is the measure of the other. Both are held
against the same weights computed in float32 (`anachron.lm.float32`): there they must agree as any model in float32
does, and in half precision the tree's error must not be larger than that of padded batches by more than chance.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from anachron.core.errors import AnachronError, first_line
from anachron.lm.batches import Limits, fed_length, pieces_of, plan_batches
from anachron.lm.float32 import HALF, at_least_in_float32, in_float32
from anachron.lm.numerics import FINE_BOUND
from anachron.lm.prefix_tree import Extent, extents
from anachron.lm.scoring import Counters, score_all
from anachron.lm.spans import Encoded
from anachron.lm.tree_scoring import score_tree_batches
from anachron.lm.windows import why_no_prefix_tree

log = logging.getLogger("anachron")

COMPARED, COMPARED_HALF, ALONE = 10, 40, 3  # texts scored in padded batches too; the first of them one at a time
SURE = 3.5  # standard errors of a mean of differences; of 40 normal ones, by chance once in 1,700 trials
TOLERANCE = 1e-4  # nats
MEASURES = ("nodes", "reach", "shift", "kept", "longest")  # of `anachron.lm.prefix_tree.Extent`
# what models raise where they are given arguments that they do not know
REFUSALS = (TypeError, ValueError, RuntimeError, IndexError, KeyError, AttributeError, AssertionError, AnachronError)


@dataclass(frozen=True)
class Errors:
    """How far scores in half precision are from those in float32, in nats a text: means and largest of both ways.

    allowed: the largest mean that the tree's error may have beside that of the padded batches.
    """

    tree: float
    padded: float
    tree_largest: float
    padded_largest: float
    allowed: float


@dataclass(frozen=True)
class Trial:
    """What a trial of prefix-tree attention measured.

    texts: that were compared with padded batches. difference: the largest of both ways' scores in float32 (in float64
    for a model in it), in nats; allowed: how much it may be. attention: ``blockwise``, or ``dense`` for a model whose
    attention is not torch's (`anachron.lm.tree_attention`). errors: of a model in half precision.
    """

    texts: int
    difference: float
    allowed: float
    attention: str
    errors: Errors | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def fault(self, name: str) -> str | None:
        """Why a model of that class is not to be computed by prefix trees; None where it may be."""
        if not self.difference <= self.allowed:  # what is no number is not the same
            return (
                f"scores of {name} by prefix-tree attention differ by {self.difference:.2g} nats from padded batches "
                f"in float32, where {self.allowed:.1g} is allowed"
            )
        if self.errors is not None and not self.errors.tree <= self.errors.allowed:
            return (
                f"scores of {name} by prefix-tree attention are {self.errors.tree:.2g} nats from those in float32, "
                f"those of padded batches {self.errors.padded:.2g}, where {self.errors.allowed:.2g} is allowed"
            )
        return None


@dataclass
class TreeChecks:
    """What is known of one model: the largest tree batches that were tried, the last trial, and what was told.

    most: by the names in ``MEASURES``. refusal: why tree batches are not used.
    """

    most: dict[str, int] = field(default_factory=dict)
    refusal: str | None = None
    trial: Trial | None = None
    warned: set[str] = field(default_factory=set)

    def refuse(
        self, model: Any, encoded: Sequence[Encoded], batches: Sequence[Sequence[int]],
        owners: Sequence[int] | None = None,
    ) -> str | None:  # fmt: skip
        """Why these batches are not to be computed, told once as a warning; None where they give the right scores.

        They are tried again where one is larger in any measure than all that were tried.
        """
        rows = max(1, Limits().logits // model.config.get_text_config().vocab_size)
        encoded = [pieces_of(text, rows, whole=True)[-1] for text in encoded]  # of long answers the end is enough
        sizes = extents(encoded, batches, owners)
        most = {measure: max(getattr(size, measure) for size in sizes) for measure in MEASURES}
        reason = self.refusal or why_no_prefix_tree(model, most["longest"], most["reach"])
        if reason is None and any(value > self.most.get(measure, -1) for measure, value in most.items()):
            reason, trial = tried(model, encoded, batches, sizes, owners)
            self.refusal, self.trial = reason, trial or self.trial
            self.most = {measure: max(value, self.most.get(measure, 0)) for measure, value in most.items()}
        if reason is not None and reason not in self.warned:
            self.warned.add(reason)
            log.warning("%s; texts are scored in padded batches instead", reason)
        return reason


def tried(
    model: Any, encoded: Sequence[Encoded], batches: Sequence[Sequence[int]], sizes: Sequence[Extent],
    owners: Sequence[int] | None = None,
) -> tuple[str | None, Trial | None]:  # fmt: skip
    """Why these batches are not to be computed, ``None`` where a trial of them gives the right scores; and the trial.

    Scores the batches that are largest in one of the measures (mostly one is in all), and compares some of their texts
    with padded batches: those that a model that uses indices in the sequence gets wrong first, and some between.
    """
    name = type(model).__name__
    if model.get_output_embeddings() is None:
        return f"{name} has no output head that can be given a part of the rows", None
    half = model.dtype in HALF
    order, compared = _tried_texts(encoded, batches, sizes, COMPARED_HALF if half else COMPARED)
    texts = [encoded[i] for i in compared]
    counters = Counters()
    padding = plan_batches(texts, model.config.get_text_config().vocab_size, Limits())

    def tree() -> np.ndarray:
        return score_tree_batches(model, encoded, order, owners=owners, counters=counters)[compared]

    def padded() -> np.ndarray:
        return score_all(model, texts, padding)

    def alone() -> np.ndarray:
        return score_all(model, texts[:ALONE], [[i] for i in range(len(texts[:ALONE]))])

    by_tree, why_not = _attempt(tree)
    if why_not is not None:
        return f"{name} cannot be given a mask and positions ({why_not})", None
    exact_tree, why_not = _attempt(lambda: in_float32(tree)) if half else (by_tree, None)
    if why_not is not None:
        return f"{name} cannot be computed in float32 to judge its scores in half precision by ({why_not})", None
    exact = at_least_in_float32(model, padded)  # (compared,)
    # a mixture of experts depends on a text's company
    noise = float(np.abs(at_least_in_float32(model, alone) - exact[:ALONE]).max())
    difference = float(np.abs(exact_tree - exact).max())
    errors = errors_of(by_tree, padded(), exact) if half else None
    attention = "blockwise" if counters.blockwise else "dense"
    trial = Trial(len(texts), difference, TOLERANCE + min(8 * noise, FINE_BOUND), attention, errors)
    return trial.fault(name), trial


def _attempt(compute: Callable[[], np.ndarray]) -> tuple[np.ndarray, str | None]:
    """What a function gives, or nothing and why it cannot."""
    try:
        return compute(), None
    except REFUSALS as error:
        return np.zeros(0), f"{type(error).__name__}: {first_line(error)}"


def _tried_texts(
    encoded: Sequence[Encoded], batches: Sequence[Sequence[int]], sizes: Sequence[Extent], most_compared: int
) -> tuple[list[Sequence[int]], list[int]]:
    """The batches that a trial computes, in an order in which they keep nodes as in a run, and the texts compared."""
    most = {measure: max(range(len(batches)), key=lambda k: getattr(sizes[k], measure)) for measure in MEASURES}
    longest = max(range(len(encoded)), key=lambda i: fed_length(encoded[i]))
    whole = sorted({most[measure] for measure in ("nodes", "reach", "shift")})
    kept = batches[most["kept"]][:2]
    order: list[Sequence[int]] = [batches[max(0, most["kept"] - 1)][-1:], kept, [longest]]
    for k in whole:  # behind the text before it, whose nodes it keeps
        order += [batches[k - 1][-1:], batches[k]] if k and k - 1 not in whole else [batches[k]]
    largest = batches[most["nodes"]]
    ends = [sizes[most["reach"]].farthest, sizes[most["shift"]].most_shifted, longest, largest[-1], *kept]
    between = largest[:: max(1, len(largest) // most_compared)]
    compared = list(dict.fromkeys([*ends, *between]))[:most_compared]
    more: list[Sequence[int]] = []
    for k, batch in enumerate(batches):  # small batches: some others of them
        if len(compared) == most_compared:
            break
        more += [batch] if k not in whole else []
        compared = list(dict.fromkeys([*compared, *batch]))[:most_compared]
    # in this order, so that of a text that is in several batches the score in the most telling one is compared
    return [*more, *order], compared


def errors_of(tree: np.ndarray, padded: np.ndarray, exact: np.ndarray) -> Errors:
    """Errors of scores in half precision by two ways, held against those in float32; (texts,) each, in nats."""
    of_tree, of_padded = np.abs(tree - exact), np.abs(padded - exact)
    allowed = allowed_error(of_tree, of_padded) + TOLERANCE
    return Errors(float(of_tree.mean()), float(of_padded.mean()), float(of_tree.max()), float(of_padded.max()), allowed)


def allowed_error(one: np.ndarray, other: np.ndarray) -> float:
    """The largest mean error of one way to compute texts beside that of another, if both are as good as each other.

    one, other: errors of each text by both, (texts,), at least 0. It is above the other's mean by `SURE` standard
    errors of the differences, text by text: by what two roundings do by chance.
    """
    apart = one - other
    chance = float(apart.std(ddof=1)) / len(apart) ** 0.5 if len(apart) > 1 else float(np.abs(apart).max())
    return float(other.mean()) + SURE * chance
