"""Which texts are computed together, and their scores: by prefix-tree attention where a model takes it, else padded."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from anachron.lm.batches import Limits, fed_length, padded_tokens, pieces_of, plan_batches
from anachron.lm.prefix_tree import distinct_prefixes, plan_tree_batches, walk
from anachron.lm.scoring import Counters, input_device, score_all
from anachron.lm.selfcheck import Trial
from anachron.lm.spans import Encoded
from anachron.lm.tree_scoring import score_tree_batches
from anachron.lm.windows import changing_length, local_places

# Of a tree batch. On a CPU 512 to 2,048 are alike for real models, but for their trial, which computes whole batches; a
# model as narrow as 128 gains up to 2,048. GPU not measured.
CPU_TREE_TOKENS, GPU_TREE_TOKENS = (512, 2048), 4096
GPU_LOGITS = 1 << 28


@dataclass(frozen=True, slots=True)
class Plan:
    """Batches of indices of texts, each of so many tokens at most.

    prefix_tree: they are tree batches (`anachron.lm.prefix_tree`), else padded ones. refusal: why there is no prefix
    tree, where a self-check refused it. trial: what the self-check measured, where something was tried.
    """

    batches: list[list[int]]
    prefix_tree: bool
    batch_tokens: int
    refusal: str | None = None
    trial: Trial | None = None

    @property
    def texts(self) -> list[int]:
        return [i for batch in self.batches for i in batch]

    def renumbered(self, places: Mapping[int, int]) -> "Plan":
        """The same plan for texts that have other indices."""
        return replace(self, batches=[[places[i] for i in batch] for batch in self.batches])


def make_plan(
    model: Any, encoded: Sequence[Encoded], vocabulary: int, batch_tokens: int | None, *, prefix_tree: bool,
    owners: Sequence[int] | None = None,
) -> Plan:  # fmt: skip
    """A plan with batches of at most so many tokens: by default 4,096 padded ones, or what `tree_batch_tokens` says.

    owners: of each text; a prefix tree has texts of one owner alone.
    """
    on_gpu = input_device(model).type == "cuda"
    if not batch_tokens:
        batch_tokens = tree_batch_tokens(model, on_gpu=on_gpu) if prefix_tree else Limits().tokens
    limits = Limits(batch_tokens, _most_logits(model))
    return _plan(model, encoded, vocabulary, limits, prefix_tree=prefix_tree, owners=owners)


def fitting(
    model: Any, encoded: Sequence[Encoded], vocabulary: int, plan: Plan, owners: Sequence[int] | None = None
) -> Plan:
    """A plan whose largest batch fits into a GPU's memory, halved until it does; the plan itself elsewhere."""
    logits = GPU_LOGITS
    while input_device(model).type == "cuda" and not _fits(model, encoded, plan):
        logits = max(1, logits // 2)
        limits = Limits(max(1, plan.batch_tokens // 2), logits)
        plan = _plan(model, encoded, vocabulary, limits, prefix_tree=plan.prefix_tree, owners=owners)
    return plan


def _plan(
    model: Any, encoded: Sequence[Encoded], vocabulary: int, limits: Limits, *, prefix_tree: bool,
    owners: Sequence[int] | None,
) -> Plan:  # fmt: skip
    if prefix_tree:
        batches = plan_tree_batches(encoded, vocabulary, limits, owners)
        return Plan(batches, prefix_tree=True, batch_tokens=limits.tokens)
    most = changing_length(model)  # a longer text in a batch would change the others
    sides = [
        [i for i, text in enumerate(encoded) if (most is None or fed_length(text) <= most) is short]
        for short in (True, False)
    ]
    batches = [
        [side[i] for i in batch]
        for side in sides
        for batch in plan_batches([encoded[i] for i in side], vocabulary, limits)
    ]
    return Plan(batches, prefix_tree=False, batch_tokens=limits.tokens)


def tree_batch_tokens(model: Any, *, on_gpu: bool) -> int:
    """How many tokens a tree batch has by default: on a CPU more where the model is so narrow that calls take longer
    than arithmetic; half of what local layers see, so that a tree with the nodes that it keeps fits into that."""
    least, most = CPU_TREE_TOKENS
    hidden = getattr(model.config.get_text_config(), "hidden_size", None) or least
    best = GPU_TREE_TOKENS if on_gpu else max(least, min(most, least * least // hidden))
    places = local_places(model)
    return best if not places else min(best, max(1, places // 2))


def _fits(model: Any, encoded: Sequence[Encoded], plan: Plan) -> bool:
    """Whether the largest batch goes through in one piece."""
    counters = Counters()
    largest = max(plan.batches, key=lambda batch: sum(fed_length(encoded[i]) for i in batch))
    score_plan(model, encoded, replace(plan, batches=[largest]), counters=counters)
    return not counters.halvings


def prefix_tree_saves_tokens(encoded: Sequence[Encoded], vocabulary: int, owners: Sequence[int] | None = None) -> bool:
    """Whether prefix-tree attention computes fewer tokens than padded batches."""
    return distinct_prefixes(encoded, owners) < padded_tokens(encoded, plan_batches(encoded, vocabulary, Limits()))


def score_plan(
    model: Any, encoded: Sequence[Encoded], plan: Plan, *, native_softmax: bool = False,
    counters: Counters | None = None, on_batch: Callable[[int], None] = lambda texts: None,
) -> np.ndarray:  # fmt: skip
    """Scores in the order of ``encoded``; see `anachron.lm.scoring.score_all`.

    A text whose answer alone would make more logits than a batch may is scored piece by piece.
    """
    score = partial(
        score_tree_batches if plan.prefix_tree else score_all, model, native_softmax=native_softmax, counters=counters
    )
    most = max(1, _most_logits(model) // model.config.get_text_config().vocab_size)
    long = [i for i in plan.texts if len(encoded[i].targets) > most]
    if not long:
        return score(encoded, plan.batches, on_batch=on_batch)
    usual = [rest for batch in plan.batches if (rest := [i for i in batch if i not in long])]
    scores = score(encoded, usual, on_batch=on_batch)
    for i in long:
        pieces = pieces_of(encoded[i], most, whole=changing_length(model) is not None)
        scores[i] = score(pieces, [[number] for number in range(len(pieces))]).sum()
        on_batch(1)
    return scores


def _most_logits(model: Any) -> int:
    return GPU_LOGITS if input_device(model).type == "cuda" else Limits().logits


def tokens_computed(encoded: Sequence[Encoded], plan: Plan) -> int:
    """Tokens that a plan sends through the model, padding included."""
    if plan.prefix_tree:
        return sum(len(batch.ids) for batch in walk(encoded, plan.batches))
    return padded_tokens(encoded, plan.batches)
