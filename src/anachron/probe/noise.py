"""The noise of a run: some of its texts are scored again in other batches, and what differs must be rounding.

Rounding depends on the company that a text has in its batch. Where scores differ by more, the two were not computed by
the same model in the same way, and no table of them is trusted.
"""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle, islice, takewhile

import numpy as np

from anachron.core.errors import BackendError
from anachron.io.files import Json
from anachron.lm.batches import fed_length
from anachron.lm.numerics import COARSE_BOUND, FINE_BOUND
from anachron.lm.plans import Plan, tokens_computed
from anachron.lm.scorer import Scorer, check_log_probs
from anachron.lm.spans import Encoded

SAMPLE = 100  # texts at most, where the parts are not more
SHARE, SHARE_OF_FEW, FEW = 0.1, 0.2, 1_000  # of the run's tokens at most; of so many texts or fewer a larger share
FAULTY = 0.1  # share of texts for which the chance is told that the sample misses all of them
SIZES = (1, 3, 7, 13)  # texts a batch, in turn
FINE = ("float32", "float64")


def sampled(parts: Sequence[Plan], tokens: Sequence[int], computed: int, seed: int) -> list[int]:
    """Which texts to score again: one of every part, and others up to `SAMPLE` and to a share of the run's tokens, in
    no order.

    tokens: of each text. computed: those of the run. Nothing is shared among texts that are scored again, and they are
    padded, so each counts as the longest of them.
    """
    chooser = random.Random(seed)
    chosen = [chooser.choice(sorted(part.texts)) for part in parts]
    others = sorted(set(range(len(tokens))) - set(chosen))
    others = chooser.sample(others, min(max(SAMPLE - len(chosen), 0), len(others)))
    most = computed * (SHARE_OF_FEW if len(tokens) <= FEW else SHARE)
    longest = max(tokens[i] for i in chosen)
    for i in others:
        longest = max(longest, tokens[i])
        if (len(chosen) + 1) * longest > most:
            break
        chosen.append(i)
    chooser.shuffle(chosen)
    return chosen


def missed(texts: int, sample: int) -> float:
    """The chance that a sample of a run's texts holds none of the tenth of them (`FAULTY`) that were scored wrongly.

    Without replacement, as if drawn from all of them. Where a whole part is wrong, its text in the sample is.
    """
    right = texts - math.ceil(FAULTY * texts)
    return math.comb(right, sample) / math.comb(texts, sample)


def batches_of(texts: int) -> Plan:
    """So many texts in padded batches of several sizes."""
    rest = iter(range(texts))
    batches = list(takewhile(bool, (list(islice(rest, size)) for size in cycle(SIZES))))
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
    lm: Scorer, texts: Sequence[Encoded], before: np.ndarray, parts: Mapping[str, Plan], *, computed: int, seed: int,
    native_softmax: bool, progress: Callable[[int, int], None],
) -> Json:  # fmt: skip
    """Score a sample again in other batches; what a run records: the number of texts and their tokens with padding, the
    largest and mean difference of their scores in nats, and the chance that it `missed` a tenth of the texts.

    before: the scores so far, (texts,). parts: plans by their files. computed: the tokens of the run. progress: told
    how many are done, of how many. Raises `BackendError` as `check_noise` does.
    """
    sample = sampled(list(parts.values()), [fed_length(text) for text in texts], computed, seed)
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
    return {
        "sample": len(gap), "tokens": tokens_computed(again, plans[0]), "largest": float(gap.max()),
        "mean": float(gap.mean()), "missed": missed(len(texts), len(gap)),
    }  # fmt: skip
