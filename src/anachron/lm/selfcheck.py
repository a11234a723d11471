"""Whether a model gives the same scores for packs (`anachron.lm.packing`) as for padded batches: tried, not looked up.

Some cannot be given a mask and positions (ALiBi, state spaces), some ignore them, and in some a token of a long
text does not see all of it (sliding windows).
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from anachron.errors import AnachronError
from anachron.lm.batches import Limits, plan_batches
from anachron.lm.packed import score_packs
from anachron.lm.packing import plan_packs
from anachron.lm.scoring import score_all
from anachron.lm.spans import Encoded

log = logging.getLogger("anachron")

SAMPLE_TOKENS = 512  # of the first pack
COMPARED, ALONE = 8, 3  # texts scored in a padded batch too, and one at a time
TOLERANCE = 1e-4  # nats
# what models raise where they are given arguments that they do not know
REFUSALS = (TypeError, ValueError, RuntimeError, IndexError, KeyError, AttributeError, AssertionError, AnachronError)


@dataclass
class PacksChecked:
    """What is known of one model: the longest text that packs were tried with, and why they are not used."""

    longest: int = 0
    refusal: str | None = None

    def fit(self, model: Any, encoded: Sequence[Encoded], vocabulary: int) -> bool:
        """Whether packs give the right scores; tried again where a text is longer than all before."""
        longest = max(len(text.ids) for text in encoded)
        if self.refusal is None and longest > self.longest:
            self.refusal, self.longest = refusal(model, encoded, vocabulary), longest
            if self.refusal is not None:
                log.warning("%s; texts are scored in padded batches instead", self.refusal)
        return self.refusal is None


def refusal(model: Any, encoded: Sequence[Encoded], vocabulary: int) -> str | None:
    """Why these texts are not to be scored in packs; ``None`` where they can be.

    Scores the first 512 tokens of their tree, then a few more and the longest text, which go on from what was kept.
    Differences of up to 1e-4 nats are allowed, and what the dtype and the company in a batch make anyway.
    """
    if model.get_output_embeddings() is None:
        return f"{type(model).__name__} has no output head that can be given a part of the rows"
    limits = Limits(tokens=SAMPLE_TOKENS)
    packs = plan_packs(encoded, vocabulary, limits)
    longest = max(range(len(encoded)), key=lambda i: len(encoded[i].ids))
    tried = [packs[0], [*(packs[1][:2] if len(packs) > 1 else []), longest]]
    try:
        packed = score_packs(model, encoded, tried)
    except REFUSALS as error:
        first = next(iter(str(error).splitlines()), "")
        return f"{type(model).__name__} cannot be given a mask and positions ({type(error).__name__}: {first})"
    step = max(1, len(packs[0]) // (COMPARED - len(tried[1])))
    compared = list(dict.fromkeys([*tried[1], *packs[0][::step]]))
    texts = [encoded[i] for i in compared]
    padded = score_all(model, texts, plan_batches(texts, vocabulary, limits))
    alone = score_all(model, texts[:ALONE], [[i] for i in range(len(texts[:ALONE]))])
    noise = float(np.abs(alone - padded[:ALONE]).max())
    gap = float(np.abs(packed[compared] - padded).max())
    if gap <= TOLERANCE + 8 * noise + 8 * torch.finfo(model.dtype).eps:
        return None
    return f"the scores of {type(model).__name__} in packs differ by {gap:.2g} nats from those in padded batches"
