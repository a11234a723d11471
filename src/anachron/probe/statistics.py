"""Intervals, and the random baseline.

Facts are resampled, never statements: contexts of a fact depend on each other.
"""

from collections.abc import Sequence
from math import lgamma, nan

import numpy as np

RESAMPLES = 1000
CONFIDENCE = 0.95


def bootstrap_mean(
    values: Sequence[float] | np.ndarray,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    confidence: float = CONFIDENCE,
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean over facts; (NaN, NaN) of nothing.

    values: one number a fact. The interval depends only on the values, their order and the seed.
    """
    data = np.asarray(values, dtype=np.float64)
    if data.size == 0:
        return nan, nan
    random = np.random.Generator(np.random.PCG64(seed))
    means = np.empty(resamples)
    chunk = max(1, 4_000_000 // data.size)
    for first in range(0, resamples, chunk):
        size = min(chunk, resamples - first)
        means[first : first + size] = data[random.integers(0, data.size, (size, data.size))].mean(axis=1)
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def wilson(successes: int, trials: int, *, correction: bool, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Wilson score interval of a proportion, with or without continuity correction; (NaN, NaN) of no trials."""
    if trials == 0:
        return nan, nan
    from scipy.stats import binomtest

    interval = binomtest(successes, trials).proportion_ci(confidence, method="wilsoncc" if correction else "wilson")
    return float(interval.low), float(interval.high)


def random_robustness(correct: int, incorrect: int) -> float:
    """Chance that a random scorer wins every match of a fact: c! i! / (c + i)!.

    The correct contexts must be the top c of c + i in random order (spec of the published set: 0.00433 at worst).
    """
    return float(np.exp(lgamma(correct + 1) + lgamma(incorrect + 1) - lgamma(correct + incorrect + 1)))
