"""The noise of a run: some of its texts are scored again in other batches, and what differs must be rounding.

Rounding depends on the company that a text has in its batch. Where scores differ by more, the two were not computed by
the same model in the same way, and no table of them is trusted.
"""

import random
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from anachron.core.errors import BackendError
from anachron.io.files import Json
from anachron.lm.batches import fed_length
from anachron.lm.numerics import COARSE_BOUND, FINE_BOUND
from anachron.lm.plans import Plan
from anachron.lm.scorer import Scorer, check_log_probs
from anachron.lm.spans import Encoded

SAMPLE, SAMPLE_TOKENS = 100, 20_000  # at most, where the parts are not more
SIZES = (1, 3, 7, 13)  # texts a batch, in turn
FINE = ("float32", "float64")


def sampled(parts: Sequence[Plan], tokens: Sequence[int], seed: int) -> list[int]:
    """Which texts to score again: one of every part, and others up to `SAMPLE` and `SAMPLE_TOKENS`, in no order.

    tokens: of each text. Nothing is shared among texts that are scored again, so long ones would take far longer than
    the run itself.
    """
    chooser = random.Random(seed)
    chosen = [chooser.choice(sorted(part.texts)) for part in parts]
    others = sorted(set(range(len(tokens))) - set(chosen))
    others = chooser.sample(others, min(max(SAMPLE - len(chosen), 0), len(others)))
    left = SAMPLE_TOKENS - sum(tokens[i] for i in chosen)
    chosen += others[: int((np.cumsum([tokens[i] for i in others]) <= left).sum())]
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


def measure_noise(
    lm: Scorer, texts: Sequence[Encoded], before: np.ndarray, parts: Mapping[str, Plan], *, seed: int,
    native_softmax: bool, progress: Callable[[int, int], None],
) -> Json:  # fmt: skip
    """Score a sample again in other batches; what a run records: the number of texts, and the largest and mean
    difference of their scores in nats.

    before: the scores so far, (texts,). parts: plans by their files. progress: told how many are done, of how many.
    Raises `BackendError` as `check_noise` does.
    """
    sample = sampled(list(parts.values()), [fed_length(text) for text in texts], seed)
    again, done = [texts[i] for i in sample], 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        progress(done, len(sample))

    plans = {0: batches_of(len(sample))}
    ((_, scores, _),) = lm.score_parts(again, plans, native_softmax=native_softmax, progress=advance)
    check_log_probs(scores, lm, sample)
    part_of = {text: name for name, plan in parts.items() for text in plan.texts}
    gap = np.abs(scores - before[sample])
    allowed = bounds(lm, np.array([len(text.targets) for text in again]))
    check_noise(gap, allowed, [part_of[i] for i in sample], lm.dtype)
    return {"sample": len(gap), "largest": float(gap.max()), "mean": float(gap.mean())}
