"""Intervals, tests and coefficients, and the random baseline.

Facts are resampled, never statements: contexts of a fact depend on each other.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import erfc, isnan, nan, sqrt
from statistics import NormalDist

import numpy as np

RESAMPLES = 1000
FLIPS = 9999
CONFIDENCE = 0.95
MIN_CLUSTERS = 10  # fewer say too little about how much clusters vary
ROUNDING = 1e-9  # by which a mean of shares may leave 0 to 1
CHUNK = 4_000_000  # draws counted at a time: 32 MB


def bootstrap_mean(
    values: Sequence[float] | np.ndarray, *, resamples: int = RESAMPLES, seed: int = 0, confidence: float = CONFIDENCE
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean over facts; (NaN, NaN) of nothing.

    values: one number a fact. The interval depends only on the values, their order and the seed.
    """
    data = np.asarray(values, dtype=np.float64)
    if data.size == 0:
        return nan, nan
    low, high = np.quantile(_resampled_means(data, resamples, seed), _ends(confidence))
    return float(low), float(high)


def bootstrap_median(
    values: Sequence[Sequence[float]] | np.ndarray, *, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, float, float]:
    """Median of numbers that facts have several of, and its percentile bootstrap interval over facts.

    values: (facts, numbers of one), NaN where one is unknown; each fact has one at least. Three NaN of nothing.
    """
    data = np.asarray(values, dtype=np.float64)
    if not data.size:
        return nan, nan, nan
    random = np.random.default_rng(seed)
    medians = [_median(data[random.integers(len(data), size=len(data))]) for _ in range(resamples)]
    low, high = np.quantile(medians, _ends())
    return _median(data), float(low), float(high)


def _median(values: np.ndarray) -> float:
    """Of what is known: `numpy.nanmedian` takes twenty times as long."""
    return float(np.median(values[~np.isnan(values)]))


def _ends(confidence: float = CONFIDENCE) -> list[float]:
    tail = (1 - confidence) / 2
    return [tail, 1 - tail]


def _resampled_means(data: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    return np.concatenate([drawn @ data for drawn in _times_drawn(data.size, resamples, seed)]) / data.size


def interval_cells(name: str, ends: tuple[float, float]) -> dict[str, float | None]:
    """Both ends of an interval as cells ``NAME_low`` and ``NAME_high`` of a row, None where they are NaN."""
    low, high = (None if isnan(end) else end for end in ends)
    return {f"{name}_low": low, f"{name}_high": high}


def normal_mean(values: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """Normal interval of a mean, mean +- z s / sqrt(n) with z = 1.96 for 95 %; (NaN, NaN) of fewer than two values.

    s is the standard deviation with divisor n - 1. The interval is symmetric and may reach beyond what a mean can be.
    """
    data = np.asarray(values, dtype=np.float64)
    if data.size < 2:
        return nan, nan
    half = NormalDist().inv_cdf((1 + CONFIDENCE) / 2) * float(data.std(ddof=1)) / sqrt(data.size)
    return float(data.mean()) - half, float(data.mean()) + half


def bootstrap_ratio(
    sums: np.ndarray, counts: np.ndarray, *, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Percentile bootstrap intervals of ratios of totals over facts, for many columns at once.

    sums, counts: shape (facts, columns). Each resample draws facts with replacement and takes, column by column, the
    total of ``sums`` over the total of ``counts``. With counts of 1 it is `bootstrap_mean`. Returns low and high, shape
    (columns,), NaN in a column without counts. Resamples in which a column has no counts say nothing about it.
    """
    sums, counts = np.asarray(sums, float), np.asarray(counts, float)
    if not len(sums):
        return np.full(sums.shape[1], nan), np.full(sums.shape[1], nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = np.concatenate(
            [(drawn @ sums) / (drawn @ counts) for drawn in _times_drawn(len(sums), resamples, seed)]
        )
    some = counts.sum(axis=0) > 0
    ends = np.full((2, sums.shape[1]), nan)
    largest = np.finfo(float).max  # stands for infinity, between which quantiles cannot interpolate
    ratios = np.minimum(ratios, largest)
    whole = ~np.isnan(ratios).any(axis=0)
    for columns, quantile in ((whole, np.quantile), (some & ~whole, np.nanquantile)):  # the second is slow
        if columns.any():
            ends[:, columns] = quantile(ratios[:, columns], _ends(), axis=0)
    ends[ends > largest / 1e6] = np.inf
    return ends[0], ends[1]


def bootstrap_one_ratio(
    sums: np.ndarray, counts: np.ndarray, *,
    resamples: int = RESAMPLES, seed: int = 0,
) -> tuple[float, float]:  # fmt: skip
    """`bootstrap_ratio` of one column: ``sums`` and ``counts`` have one number a fact."""
    low, high = bootstrap_ratio(
        np.asarray(sums, float)[:, None], np.asarray(counts, float)[:, None], resamples=resamples, seed=seed
    )
    return float(low[0]), float(high[0])


def _times_drawn(facts: int, resamples: int, seed: int) -> Iterator[np.ndarray]:
    """How often each resample drew each fact, some resamples at a time: shape (resamples, facts)."""
    size = max(1, CHUNK // facts)
    if resamples <= size:
        yield _drawn_at_once(facts, resamples, seed)
        return
    random = np.random.Generator(np.random.PCG64(seed))
    for first in range(0, resamples, size):
        yield _count_draws(random, facts, min(size, resamples - first))


@lru_cache(maxsize=8)
def _drawn_at_once(facts: int, resamples: int, seed: int) -> np.ndarray:
    """Kept, as a study resamples the same number of facts hundreds of times."""
    drawn = _count_draws(np.random.Generator(np.random.PCG64(seed)), facts, resamples)
    drawn.flags.writeable = False
    return drawn


def _count_draws(random: np.random.Generator, facts: int, resamples: int) -> np.ndarray:
    drawn = random.integers(0, facts, (resamples, facts)) + facts * np.arange(resamples)[:, None]
    return np.bincount(drawn.ravel(), minlength=resamples * facts).reshape(resamples, facts).astype(float)


@dataclass(frozen=True, slots=True)
class Paired:
    """Mean difference of two runs over the same facts, with its bootstrap interval and two-sided p."""

    facts: int
    difference: float
    low: float
    high: float
    p: float


def paired_bootstrap(
    before: Sequence[float] | np.ndarray, after: Sequence[float] | np.ndarray, *,
    resamples: int = RESAMPLES, seed: int = 0,
) -> Paired:  # fmt: skip
    """Mean of ``after - before`` over facts, its percentile interval, and the p of no difference.

    p is twice the share of resampled means on the other side of zero (at least 1 of ``resamples + 1``, at most 1).
    Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapters 13 and 16.
    """
    gaps = np.asarray(after, float) - np.asarray(before, float)
    if not gaps.size:
        return Paired(0, nan, nan, nan, nan)
    means = _resampled_means(gaps, resamples, seed)
    low, high = np.quantile(means, _ends())
    beyond = min(int((means <= 0).sum()), int((means >= 0).sum()))
    return Paired(gaps.size, float(gaps.mean()), float(low), float(high), min(1.0, 2 * (beyond + 1) / (resamples + 1)))


def sign_flips(
    before: Sequence[float] | np.ndarray, after: Sequence[float] | np.ndarray, *,
    resamples: int = FLIPS, seed: int = 0,
) -> float:  # fmt: skip
    """Two-sided p that the sign of each fact's ``after - before`` is chance: Fisher's randomisation test of pairs.

    It is the share of all ways to flip the signs that give a sum as far from 0 as the observed one. Beyond
    ``resamples`` ways, so many are drawn and the observed one is counted with them. It holds for any number of facts,
    where a bootstrap of few that agree is too sure; of 0 and 1 it is McNemar's exact test. 1 where nothing differs.
    Source: Fisher, The Design of Experiments (1935), section 21.
    """
    gaps = np.asarray(after, float) - np.asarray(before, float)
    gaps = gaps[gaps != 0]  # whose sign makes no difference
    if not gaps.size:
        return 1.0
    far = abs(gaps.sum()) - 1e-9 * np.abs(gaps).sum()  # ways that differ by rounding alone are the same
    if 2**gaps.size <= resamples:
        ways = (np.arange(2**gaps.size)[:, None] >> np.arange(gaps.size)) & 1  # (ways, facts)
        return float((np.abs((1 - 2 * ways) @ gaps) >= far).mean())
    random, size, as_far = np.random.Generator(np.random.PCG64(seed)), max(1, CHUNK // gaps.size), 0
    for first in range(0, resamples, size):
        flipped = random.integers(0, 2, (min(size, resamples - first), gaps.size), dtype=np.int8)
        as_far += int((np.abs(gaps.sum() - 2 * (flipped @ gaps)) >= far).sum())
    return (as_far + 1) / (resamples + 1)


def mcnemar(gained: int, lost: int) -> float:
    """Exact two-sided p that facts gained and lost are equally likely (McNemar's test by the binomial); 1 of none."""
    if gained + lost == 0:
        return 1.0
    from scipy.stats import binomtest

    return float(binomtest(gained, gained + lost, 0.5).pvalue)


@dataclass(frozen=True, slots=True)
class Correlation:
    """Pearson's r over n pairs; p as if the pairs were independent, and p that allows for clusters (facts)."""

    n: int
    r: float
    p: float
    p_clustered: float


def pearson(x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray, clusters: np.ndarray) -> Correlation:
    """Pearson's r with its p, and with the p of the slope by cluster-robust standard errors.

    clusters: one label a pair; pairs of one cluster (the same fact under several models) may depend on each other.
    The clustered p is that of ordinary least squares with the sandwich estimator, small-sample factor
    G/(G-1) (n-1)/(n-2), against the normal distribution (as statsmodels' ``cov_type="cluster"``). NaN where x or y
    does not vary, with fewer than three pairs, and (the clustered p) with fewer than `MIN_CLUSTERS` clusters.
    """
    a, b = np.asarray(x, float), np.asarray(y, float)
    if a.size < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return Correlation(a.size, nan, nan, nan)
    from scipy.stats import pearsonr

    result = pearsonr(a, b)
    return Correlation(a.size, float(result.statistic), float(result.pvalue), _clustered_p(a, b, np.asarray(clusters)))


def _clustered_p(x: np.ndarray, y: np.ndarray, clusters: np.ndarray) -> float:
    _, group = np.unique(clusters, return_inverse=True)
    groups, n = int(group.max()) + 1, x.size
    if groups < MIN_CLUSTERS:
        return nan
    centred = x - x.mean()
    slope = float(centred @ (y - y.mean()) / (centred @ centred))
    residual = (y - y.mean()) - slope * centred
    scores = np.bincount(group, weights=centred * residual)
    variance = groups / (groups - 1) * (n - 1) / (n - 2) * float(scores @ scores) / float(centred @ centred) ** 2
    # Scores that cancel in every cluster leave nothing to judge the slope by; a perfect line leaves nothing to doubt.
    scale = float(centred @ centred) * float((y - y.mean()) @ (y - y.mean()))
    if float(scores @ scores) <= 1e-20 * scale:
        return 0.0 if float(residual @ residual) <= 1e-20 * float((y - y.mean()) @ (y - y.mean())) else nan
    return erfc(abs(slope) / sqrt(2 * variance))


def bootstrap_pearson(
    x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray, clusters: Sequence[object] | np.ndarray, *,
    resamples: int = RESAMPLES, seed: int = 0,
) -> tuple[float, float]:  # fmt: skip
    """Percentile bootstrap interval of Pearson's r that resamples clusters: all pairs of a drawn one are drawn with it.

    Resamples in which x or y does not vary have no r and are left out; (NaN, NaN) where that leaves nothing.
    """
    a, b = np.asarray(x, float), np.asarray(y, float)
    names, places = np.unique(np.asarray(clusters), return_inverse=True)
    if not a.size:
        return nan, nan
    a, b = a - a.mean(), b - b.mean()  # r is the same, and squares lose less
    terms = np.stack([np.ones_like(a), a, b, a * a, b * b, a * b])
    sums = np.stack([np.bincount(places, row, len(names)) for row in terms], axis=1)
    drawn = np.concatenate([times @ sums for times in _times_drawn(len(names), resamples, seed)])
    n, sx, sy, sxx, syy, sxy = drawn.T
    spread = np.stack([n * sxx - sx**2, n * syy - sy**2])
    varied = (spread > ROUNDING * n * np.stack([sxx, syy])).all(axis=0)
    if not varied.any():
        return nan, nan
    r = (n * sxy - sx * sy)[varied] / np.sqrt(spread[:, varied].prod(axis=0))
    low, high = np.quantile(np.clip(r, -1, 1), _ends())
    return float(low), float(high)


def matthews(both: int, first_only: int, second_only: int, neither: int) -> float:
    """Matthews correlation of two yes/no judgements from their four counts; NaN where one of them never varies."""
    margins = (both + first_only) * (both + second_only) * (neither + first_only) * (neither + second_only)
    return (both * neither - first_only * second_only) / sqrt(margins) if margins else nan


def wilson(successes: int, trials: int, *, correction: bool, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Wilson score interval of a proportion, with or without continuity correction; (NaN, NaN) of no trials."""
    if trials == 0:
        return nan, nan
    from scipy.stats import binomtest

    interval = binomtest(successes, trials).proportion_ci(confidence, method="wilsoncc" if correction else "wilson")
    return float(interval.low), float(interval.high)


def wilson_mean(values: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """Wilson score interval of a mean of values from 0 to 1, by their effective number; (NaN, NaN) of none.

    values: one number an independent unit, each yes or no (1 or 0) or itself a share. No mean m of such values varies
    more than one of yes and no does, so n of them are worth n / phi yes-or-no answers, where phi is their variance
    over m (1 - m), each estimated without bias: phi = v / (m (1 - m) + v / n) with the sample variance v (divisor
    n - 1). That is n / phi = 1 + m (1 - m) / (v / n), and v / n is the jackknife variance of the mean. Of yes and no
    phi is 1, which leaves Wilson's own interval of n trials; so it is where all values are 0 or all are 1.

    As few values may agree by chance, the variance is taken to be, for one part in n, the largest there is: phi +
    (1 - phi) / n. So equal values between 0 and 1 count as n squared trials, and not as certainty; one value counts as
    one trial. The interval keeps to 0 and 1, and covers about as often as Wilson's own of yes and no.

    Sources: Wilson 1927; with an effective sample size: Korn and Graubard, Confidence intervals for proportions with
    small expected number of positive counts estimated from survey data, Survey Methodology 24 (1998). The unbiased phi
    and its part in n are this package's own; tests simulate what it covers. Raises `ValueError` for a value below 0 or
    above 1.
    """
    data = _shares(values)
    if not data.size:
        return nan, nan
    return _wilson_varied(float(data.mean()), float(data.var(ddof=1)) if data.size > 1 else 0.0, data.size)


def wilson_clustered(
    values: Sequence[float] | np.ndarray, clusters: Sequence[object] | np.ndarray
) -> tuple[float, float]:
    """`wilson_mean` of values that depend on each other within a cluster; the same where each has a cluster of its own.

    values: shares from 0 to 1; their mean counts each once. clusters: a label each. The variance of the mean is that of
    the ratio of the clusters' sums to their sizes (Cochran, Sampling Techniques, 1977, section 9A.1), with the factor
    G / (G - 1) of G clusters. The largest there is, of clusters that are all 0 or all 1, is m (1 - m) times the sum of
    their squared shares of the values. (NaN, NaN) of nothing; raises `ValueError` for a value below 0 or above 1.
    """
    data = _shares(values)
    if not data.size:
        return nan, nan
    _, group = np.unique(np.asarray(clusters, dtype=str), return_inverse=True)
    sizes, sums, mean = np.bincount(group), np.bincount(group, data), float(data.mean())
    number = len(sizes)
    factor = number / (number - 1) if number > 1 else 0.0
    variance = number * factor * float(np.square(sums - mean * sizes).sum()) / data.size**2  # of one of G like these
    return _wilson_varied(mean, variance, number, number * float(np.square(sizes / data.size).sum()))


def _shares(values: Sequence[float] | np.ndarray) -> np.ndarray:
    data = np.asarray(values, dtype=np.float64)
    if data.size and not (data.min() >= -ROUNDING and data.max() <= 1 + ROUNDING):
        raise ValueError(
            f"values from {data.min():g} to {data.max():g}; an interval of shares needs them within 0 to 1"
        )
    return data


def _wilson_varied(mean: float, variance: float, number: int, most: float = 1.0) -> tuple[float, float]:
    """Wilson's interval of the mean of so many units with this variance. most: how often the variance of yes and no
    they can have at most, 1 of units of one size."""
    mean = min(1.0, max(0.0, mean))
    largest = mean * (1 - mean)
    spread = min(most, variance / (largest + variance / number)) if largest > 0 else most
    return wilson_effective(mean, number / (spread + (most - spread) / number))


def wilson_effective(share: float, trials: float) -> tuple[float, float]:
    """Wilson's 95 % interval without continuity correction, of a number of trials that need not be whole."""
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    weight = z * z / trials
    centre = (share + weight / 2) / (1 + weight)
    half = sqrt(share * (1 - share) * weight + weight * weight / 4) / (1 + weight)
    return max(0.0, centre - half), min(1.0, centre + half)


def wilson_finite(successes: int, sampled: int, population: int) -> tuple[float, float]:
    """Wilson score interval of a proportion in a finite population, from a sample without replacement.

    The finite population correction shrinks the sampling variance by (N - n) / (N - 1), which is the interval of
    n (N - 1) / (N - n) draws with replacement. A whole population leaves no doubt; (NaN, NaN) of an empty sample.
    Source: TimeStress, appendix A.3 and its footnote; Cochran, Sampling Techniques (1977), section 2.6.
    """
    if not 0 <= successes <= sampled <= population:
        raise ValueError(f"{successes} of {sampled} sampled of {population}: must not decrease")
    if sampled == 0:
        return nan, nan
    share = successes / sampled
    if sampled == population:
        return share, share
    return wilson_effective(share, sampled * (population - 1) / (population - sampled))


def random_robustness(correct: np.ndarray, incorrect: np.ndarray) -> np.ndarray:
    """Chance that a random scorer wins every match of a fact: c! i! / (c + i)!, for numbers of contexts c and i.

    The correct contexts must be the top c of c + i in random order (spec of the published set: 0.00433 at worst).
    """
    from scipy.special import gammaln

    return np.exp(gammaln(correct + 1.0) + gammaln(incorrect + 1.0) - gammaln(correct + incorrect + 1.0))
