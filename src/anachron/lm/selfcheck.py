"""Whether a model gives the same scores by prefix-tree attention (`anachron.lm.prefix_tree`) as in padded batches.

Its configuration may say that it does not (`anachron.lm.windows`); else it is tried on the largest of what is to be
computed. Some models cannot be given a mask and positions, some ignore them, and some use a token's index in the
sequence, which is far from its depth in a text only in large tree batches.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from anachron.core.errors import AnachronError, first_line
from anachron.lm.batches import Limits, fed_length, pieces_of, plan_batches
from anachron.lm.numerics import COARSE_BOUND, FINE_BOUND
from anachron.lm.prefix_tree import Extent, extents
from anachron.lm.scoring import score_all
from anachron.lm.spans import Encoded
from anachron.lm.tree_scoring import score_tree_batches
from anachron.lm.windows import why_no_prefix_tree

log = logging.getLogger("anachron")

COMPARED, ALONE = 10, 3  # texts scored in a padded batch too, and one at a time
TOLERANCE = 1e-4  # nats
MEASURES = ("nodes", "reach", "shift", "kept", "longest")  # of `anachron.lm.prefix_tree.Extent`
# what models raise where they are given arguments that they do not know
REFUSALS = (TypeError, ValueError, RuntimeError, IndexError, KeyError, AttributeError, AssertionError, AnachronError)


@dataclass
class TreeChecks:
    """What is known of one model: the largest tree batches that were tried, why they are not used, and what was told.

    most: by the names in ``MEASURES``.
    """

    most: dict[str, int] = field(default_factory=dict)
    refusal: str | None = None
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
            reason = self.refusal = refusal(model, encoded, batches, sizes, owners)
            self.most = {measure: max(value, self.most.get(measure, 0)) for measure, value in most.items()}
        if reason is not None and reason not in self.warned:
            self.warned.add(reason)
            log.warning("%s; texts are scored in padded batches instead", reason)
        return reason


def refusal(
    model: Any, encoded: Sequence[Encoded], batches: Sequence[Sequence[int]], sizes: Sequence[Extent],
    owners: Sequence[int] | None = None,
) -> str | None:  # fmt: skip
    """Why these batches are not to be computed; ``None`` where a trial of them gives the right scores.

    Scores the batches that are largest in one of the measures (mostly one is in all), and compares some of their texts
    with padded batches: those that a model that uses indices in the sequence gets wrong first, and some between.
    Differences of up to 1e-4 nats are allowed, and what the dtype and the company in a batch make anyway.
    """
    if model.get_output_embeddings() is None:
        return f"{type(model).__name__} has no output head that can be given a part of the rows"
    most = {measure: max(range(len(batches)), key=lambda k: getattr(sizes[k], measure)) for measure in MEASURES}
    longest = max(range(len(encoded)), key=lambda i: fed_length(encoded[i]))
    whole = sorted({most[measure] for measure in ("nodes", "reach", "shift")})
    kept = batches[most["kept"]][:2]
    tried: list[Sequence[int]] = [batches[max(0, most["kept"] - 1)][-1:], kept, [longest]]
    for k in whole:  # behind the text before it, whose nodes it keeps
        tried += [batches[k - 1][-1:], batches[k]] if k and k - 1 not in whole else [batches[k]]
    try:
        by_tree = score_tree_batches(model, encoded, tried, owners=owners)
    except REFUSALS as error:
        reason = f"{type(error).__name__}: {first_line(error)}"
        return f"{type(model).__name__} cannot be given a mask and positions ({reason})"
    largest = batches[most["nodes"]]
    ends = [sizes[most["reach"]].farthest, sizes[most["shift"]].most_shifted, longest, largest[-1], *kept]
    between = largest[:: max(1, len(largest) // COMPARED)]
    compared = list(dict.fromkeys([*ends, *between]))[:COMPARED]
    texts = [encoded[i] for i in compared]
    padded = score_all(model, texts, plan_batches(texts, model.config.get_text_config().vocab_size, Limits()))
    alone = score_all(model, texts[:ALONE], [[i] for i in range(len(texts[:ALONE]))])
    noise = float(np.abs(alone - padded[:ALONE]).max())
    eps = torch.finfo(model.dtype).eps
    most_noise = FINE_BOUND if eps <= torch.finfo(torch.float32).eps else COARSE_BOUND
    gap = float(np.abs(by_tree[compared] - padded).max())
    if gap <= TOLERANCE + min(8 * noise, most_noise) + 8 * eps:
        return None
    return f"scores of {type(model).__name__} by prefix-tree attention differ by {gap:.2g} nats from padded batches"
