"""The noise of a run: some of its texts are scored again in other batches, and what differs must be rounding.

Rounding depends on the company that a text has in its batch. Where scores differ by more, the two were not computed by
the same model in the same way, and no table of them is trusted.
"""

import random
from collections.abc import Sequence

import numpy as np

from anachron.errors import BackendError
from anachron.io import Json
from anachron.lm.numerics import COARSE_BOUND, FINE_BOUND
from anachron.lm.plans import Plan
from anachron.lm.scorer import Scorer

SAMPLE = 100
SIZES = (1, 3, 7, 13)  # texts a batch, in turn
FINE = ("float32", "float64")


def sampled(parts: Sequence[Plan], texts: int, seed: int) -> list[int]:
    """Which texts to score again: one of every part, and others up to `SAMPLE`, in no order."""
    chooser = random.Random(seed)
    chosen = [chooser.choice(sorted(part.texts)) for part in parts]
    others = sorted(set(range(texts)) - set(chosen))
    chosen += chooser.sample(others, min(max(SAMPLE - len(chosen), 0), len(others)))
    chooser.shuffle(chosen)
    return chosen


def batches_of(texts: int) -> Plan:
    """So many texts in padded batches of several sizes."""
    batches: list[list[int]] = []
    start = 0
    while start < texts:
        size = SIZES[len(batches) % len(SIZES)]
        batches.append(list(range(start, min(start + size, texts))))
        start += size
    return Plan(batches, prefix_tree=False, batch_tokens=0)


def bounds(lm: Scorer, tokens: np.ndarray) -> np.ndarray:
    """The most that two scores of one text may differ by, in nats. tokens: of each text's answer.

    Of a server the dtype is not known; half precision is the commonest and the coarsest. A mixture of experts may, by
    rounding, send a token to another expert that is as near, which changes far more than the last digit.
    """
    about = lm.about()
    if lm.dtype in FINE and not about.get("quantised") and not about.get("experts"):
        return np.full(len(tokens), FINE_BOUND)
    return COARSE_BOUND * tokens


def noise_of(before: np.ndarray, again: np.ndarray) -> Json:
    """What a run records: the number of texts, and the largest and mean difference of their scores in nats."""
    gap = np.abs(again - before)
    return {"sample": len(gap), "largest": float(gap.max()), "mean": float(gap.mean())}


def check_noise(gap: np.ndarray, allowed: np.ndarray, where: Sequence[str], dtype: str) -> None:
    """Raise `BackendError` where two scores of one text are further apart than rounding puts them.

    where: the file that each text's first score lies in.
    """
    bad = ~(gap <= allowed)  # what is no number is no rounding either
    if bad.any():
        worst = int(np.argmax(np.where(bad, np.nan_to_num(gap, nan=np.inf) / allowed, 0)))
        parts = sorted({part for part, is_bad in zip(where, bad, strict=True) if is_bad})
        more = f" and {len(parts) - 3} more" if len(parts) > 3 else ""
        raise BackendError(
            f"{int(bad.sum())} of {len(gap)} texts that were scored again have other scores, by up to "
            f"{gap[worst]:.2g} nats where {dtype} allows {allowed[worst]:.2g} ({', '.join(parts[:3])}{more}); that is "
            "more than rounding: parts were computed under other settings, a server changed its model, or a device is "
            "at fault. The run is not done: repeat it with a new --out, and if it fails again, on another device"
        )
