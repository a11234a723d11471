"""Which texts are computed together, and their scores: in packs where the model takes them, else in padded batches."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anachron.lm.batches import Limits, fed_length, padded_tokens, plan_batches
from anachron.lm.packed import score_packs
from anachron.lm.packing import distinct_prefixes, plan_packs, walk
from anachron.lm.scoring import Counters, input_device, score_all
from anachron.lm.spans import Encoded
from anachron.lm.windows import changing_length

CPU_PACK, GPU_PACK = 512, 4096  # most tokens of a pack: on a CPU more gains nothing; on a GPU not measured yet
LEAST_PACK = 128
GPU_LOGITS = 1 << 28


@dataclass(frozen=True, slots=True)
class Plan:
    """Batches of indices of texts, each of so many tokens at most.

    packed: each is one pack of `anachron.lm.packing`. refusal: why packs are not used, where a self-check said so.
    """

    batches: list[list[int]]
    packed: bool
    batch_tokens: int
    refusal: str | None = None

    @property
    def texts(self) -> list[int]:
        return [i for batch in self.batches for i in batch]

    def renumbered(self, places: Mapping[int, int]) -> "Plan":
        """The same plan for texts that have other indices."""
        return replace(self, batches=[[places[i] for i in batch] for batch in self.batches])


def make_plan(
    model: Any, encoded: Sequence[Encoded], vocabulary: int, batch_tokens: int | None, *, packed: bool,
    owners: Sequence[int] | None = None,
) -> Plan:  # fmt: skip
    """A plan with batches of at most so many tokens: by default 4,096 padded ones, or what `pack_tokens` says.

    owners: of each text, for packs.
    """
    on_gpu = input_device(model).type == "cuda"
    first = batch_tokens or (pack_tokens(model, GPU_PACK if on_gpu else CPU_PACK) if packed else Limits().tokens)
    limits = Limits(first, GPU_LOGITS if on_gpu else Limits().logits)
    return _plan(model, encoded, vocabulary, limits, packed, owners)


def fitting(
    model: Any, encoded: Sequence[Encoded], vocabulary: int, plan: Plan, owners: Sequence[int] | None = None
) -> Plan:
    """A plan whose largest batch fits into a GPU's memory, halved until it does; the plan itself elsewhere."""
    logits = GPU_LOGITS
    while input_device(model).type == "cuda" and not _fits(model, encoded, plan):
        logits = max(1, logits // 2)
        limits = Limits(max(1, plan.batch_tokens // 2), logits)
        plan = _plan(model, encoded, vocabulary, limits, plan.packed, owners)
    return plan


def _plan(
    model: Any, encoded: Sequence[Encoded], vocabulary: int, limits: Limits, packed: bool, owners: Sequence[int] | None
) -> Plan:
    if packed:
        return Plan(plan_packs(encoded, vocabulary, limits, owners), True, limits.tokens)
    most = changing_length(model)  # a longer text in a batch would change the others
    sides = [
        [i for i, text in enumerate(encoded) if (most is None or fed_length(text) <= most) is short]
        for short in (True, False)
    ]
    batches = [
        [side[i] for i in batch]
        for side in sides for batch in plan_batches([encoded[i] for i in side], vocabulary, limits)
    ]  # fmt: skip
    return Plan(batches, False, limits.tokens)


def pack_tokens(model: Any, most: int) -> int:
    """How large packs are best: as large as keeps attention below a quarter of the other arithmetic.

    A node of a pack of n costs two operations a weight, and 4 n a layer and hidden unit, for it is set against all.
    """
    config = model.config.get_text_config()
    hidden, layers = getattr(config, "hidden_size", None), getattr(config, "num_hidden_layers", None)
    if not hidden or not layers:
        return most
    outer = {id(m.weight): m.weight.numel() for m in (model.get_input_embeddings(), model.get_output_embeddings())}
    weights = sum(p.numel() for p in model.parameters()) - sum(outer.values())
    return max(LEAST_PACK, min(most, weights // (8 * hidden * layers)))


def _fits(model: Any, encoded: Sequence[Encoded], plan: Plan) -> bool:
    """Whether the largest batch goes through in one piece."""
    counters = Counters()
    largest = max(plan.batches, key=lambda batch: sum(fed_length(encoded[i]) for i in batch))
    score_plan(model, encoded, replace(plan, batches=[largest]), counters=counters)
    return not counters.halvings


def worth_packing(encoded: Sequence[Encoded], vocabulary: int, owners: Sequence[int] | None = None) -> bool:
    """Whether packs compute fewer tokens than padded batches."""
    return distinct_prefixes(encoded, owners) < padded_tokens(encoded, plan_batches(encoded, vocabulary, Limits()))


def score_plan(
    model: Any,
    encoded: Sequence[Encoded],
    plan: Plan,
    *,
    native_softmax: bool = False,
    counters: Counters | None = None,
    on_batch: Callable[[int], None] | None = None,
) -> np.ndarray:
    """Scores in the order of ``encoded``; see `anachron.lm.scoring.score_all`."""
    score = score_packs if plan.packed else score_all
    return score(model, encoded, plan.batches, native_softmax=native_softmax, counters=counters, on_batch=on_batch)


def tokens_computed(encoded: Sequence[Encoded], plan: Plan) -> int:
    """Tokens that a plan sends through the model, padding included."""
    if plan.packed:
        return sum(len(pack.ids) for pack in walk(encoded, plan.batches))
    return padded_tokens(encoded, plan.batches)
