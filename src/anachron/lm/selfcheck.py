"""Whether a model gives the same scores for packs (`anachron.lm.packing`) as for padded batches.

Its configuration may say that it does not (`anachron.lm.windows`); else it is tried on the largest of what is to be
computed. Some models cannot be given a mask and positions, some ignore them, and some go by places in the sequence,
which are far from depths in a text only in large packs.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from anachron.errors import AnachronError
from anachron.lm.batches import Limits, plan_batches
from anachron.lm.packed import score_packs
from anachron.lm.packing import Extent, extents
from anachron.lm.scoring import score_all
from anachron.lm.spans import Encoded
from anachron.lm.windows import unpackable

log = logging.getLogger("anachron")

COMPARED, ALONE = 8, 3  # texts scored in a padded batch too, and one at a time
TOLERANCE = 1e-4  # nats
MOST_NOISE, MOST_HALF_NOISE = 1e-3, 0.5  # nats; more than that, in float32 or coarser, is no rounding but a fault
# what models raise where they are given arguments that they do not know
REFUSALS = (TypeError, ValueError, RuntimeError, IndexError, KeyError, AttributeError, AssertionError, AnachronError)


@dataclass
class PacksChecked:
    """What is known of one model: the most that packs were tried with, why they are not used, and what was told.

    nodes, reach, longest: as of `anachron.lm.packing.Extent`.
    """

    nodes: int = 0
    reach: int = 0
    longest: int = 0
    refusal: str | None = None
    told: set[str] = field(default_factory=set)

    def refuse(
        self, model: Any, encoded: Sequence[Encoded], packs: Sequence[Sequence[int]], owners: Sequence[int] | None = None
    ) -> str | None:
        """Why these packs are not to be computed, told once as a warning; None where they give the right scores.

        They are tried again where one is larger or reaches farther than all before, or a text is longer.
        """
        sizes = extents(encoded, packs, owners)
        nodes, reach = max(size.nodes for size in sizes), max(size.reach for size in sizes)
        longest = max(size.longest for size in sizes)
        reason = self.refusal or unpackable(model, longest, reach)
        if reason is None and (nodes > self.nodes or reach > self.reach or longest > self.longest):
            reason = self.refusal = refusal(model, encoded, packs, sizes, owners)
            self.nodes, self.reach = max(self.nodes, nodes), max(self.reach, reach)
            self.longest = max(self.longest, longest)
        if reason is not None and reason not in self.told:
            self.told.add(reason)
            log.warning("%s; texts are scored in padded batches instead", reason)
        return reason


def refusal(
    model: Any, encoded: Sequence[Encoded], packs: Sequence[Sequence[int]], sizes: Sequence[Extent],
    owners: Sequence[int] | None = None,
) -> str | None:  # fmt: skip
    """Why these packs are not to be computed; ``None`` where a trial of them gives the right scores.

    Scores the largest pack, the one that reaches farthest (mostly the same), what goes on from their kept nodes, and
    the longest text. Compared are the texts that end farthest from their first token, which a model that goes by
    places in the sequence gets wrong first, the longest, and some between. Differences of up to 1e-4 nats are allowed,
    and what the dtype and the company in a batch make anyway.
    """
    if model.get_output_embeddings() is None:
        return f"{type(model).__name__} has no output head that can be given a part of the rows"
    places = range(len(packs))
    largest, farthest = max(places, key=lambda k: sizes[k].nodes), max(places, key=lambda k: sizes[k].reach)
    longest = max(range(len(encoded)), key=lambda i: len(encoded[i].ids))
    tried = [run for k in sorted({largest, farthest}) for run in _with_neighbours(packs, k)] + [[longest]]
    try:
        packed = score_packs(model, encoded, tried, owners=owners)
    except REFUSALS as error:
        first = next(iter(str(error).splitlines()), "")
        return f"{type(model).__name__} cannot be given a mask and positions ({type(error).__name__}: {first})"
    ends = [sizes[farthest].farthest, sizes[largest].farthest, longest, packs[largest][-1]]
    step = max(1, len(packs[largest]) // COMPARED)
    compared = list(dict.fromkeys([*ends, *tried[-2][:2], *packs[largest][::-step]]))[:COMPARED]
    texts = [encoded[i] for i in compared]
    padded = score_all(model, texts, plan_batches(texts, model.config.get_text_config().vocab_size, Limits()))
    alone = score_all(model, texts[:ALONE], [[i] for i in range(len(texts[:ALONE]))])
    noise = float(np.abs(alone - padded[:ALONE]).max())
    eps = torch.finfo(model.dtype).eps
    most = MOST_NOISE if eps <= torch.finfo(torch.float32).eps else MOST_HALF_NOISE
    gap = float(np.abs(packed[compared] - padded).max())
    if gap <= TOLERANCE + min(8 * noise, most) + 8 * eps:
        return None
    return f"the scores of {type(model).__name__} in packs differ by {gap:.2g} nats from those in padded batches"


def _with_neighbours(packs: Sequence[Sequence[int]], k: int) -> list[Sequence[int]]:
    """A pack behind the text before it, whose nodes it keeps, and two texts that go on from what is kept of it."""
    before = [packs[k - 1][-1:]] if k else []
    return [*before, packs[k], *([packs[k + 1][:2]] if k + 1 < len(packs) else [])]
