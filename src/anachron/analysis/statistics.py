"""Intervals, tests and coefficients, and the random baseline.

Facts count, never statements, as contexts of a fact depend on each other; and so do facts of one subject, so intervals
and tests take ``clusters``: a label each of what depends on each other, such as the subject of each fact. Without them
each value is a cluster of its own.
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
ENDS = [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]  # of an interval, as quantiles
Labels = Sequence[object] | np.ndarray


def bootstrap_median(
    values: Sequence[Sequence[float]] | np.ndarray, clusters: Labels | None = None, *,
    resamples: int = RESAMPLES, seed: int = 0,
) -> tuple[float, float, float]:  # fmt: skip
    """Median of numbers that facts have several of, and its percentile bootstrap interval, which resamples clusters.

    values: (facts, numbers of one), NaN where one is unknown; each fact has one at least. Three NaN of nothing.
    """
    data = np.asarray(values, dtype=np.float64)
    if not data.size:
        return nan, nan, nan
    group = _grouped(len(data), clusters)
    order, bounds = np.argsort(group, kind="stable"), np.cumsum(np.bincount(group))[:-1]
    rows = np.split(order, bounds)  # of each cluster
    random = np.random.default_rng(seed)
    drawn = (random.integers(len(rows), size=len(rows)) for _ in range(resamples))
    medians = [_median(data[np.concatenate([rows[one] for one in which])]) for which in drawn]
    low, high = np.quantile(medians, ENDS)
    return _median(data), float(low), float(high)


def _median(values: np.ndarray) -> float:
    """Of what is known: `numpy.nanmedian` takes twenty times as long."""
    return float(np.median(values[~np.isnan(values)]))


def _grouped(values: int, clusters: Labels | None) -> np.ndarray:
    """The number of each value's cluster, from 0, in the order of their labels."""
    if clusters is None:
        return np.arange(values)
    labels = np.asarray(clusters, dtype=str)
    if len(labels) != values:
        raise ValueError(f"{values} values have {len(labels)} labels of clusters; each needs one")
    return np.unique(labels, return_inverse=True)[1]


def _summed(rows: np.ndarray, group: np.ndarray) -> np.ndarray:
    """rows: (values, columns). The sums of each cluster, (clusters, columns)."""
    sums = np.zeros((int(group.max()) + 1, rows.shape[1]))
    np.add.at(sums, group, rows)
    return sums


def interval_cells(name: str, ends: tuple[float, float]) -> dict[str, float | None]:
    """Both ends of an interval as cells ``NAME_low`` and ``NAME_high`` of a row, None where they are NaN."""
    low, high = (None if isnan(end) else end for end in ends)
    return {f"{name}_low": low, f"{name}_high": high}


def t_mean(values: Sequence[float] | np.ndarray, clusters: Labels | None = None) -> tuple[float, float]:
    """Student's interval of a mean, mean +- t s, for values without bounds; (NaN, NaN) of fewer than two clusters.

    s is the standard error of `_ratio_variance`, which of single values is the standard deviation (divisor n - 1) over
    the root of n; t is the 97.5 % quantile with one degree of freedom less than there are clusters.
    """
    data = np.asarray(values, dtype=np.float64)
    group = _grouped(data.size, clusters)
    number = int(group.max()) + 1 if data.size else 0
    if number < 2:
        return nan, nan
    from scipy.stats import t

    half = float(t.ppf(ENDS[1], number - 1)) * sqrt(_ratio_variance(data, group))
    return float(data.mean()) - half, float(data.mean()) + half


def _ratio_variance(data: np.ndarray, group: np.ndarray) -> float:
    """Variance of the mean of values that depend on each other within a cluster: that of the ratio of the clusters'
    sums to their sizes (Cochran, Sampling Techniques, 1977, section 9A.1), with the factor G / (G - 1) of G clusters;
    0 of one cluster."""
    sizes, sums = np.bincount(group), np.bincount(group, data)
    factor = len(sizes) / (len(sizes) - 1) if len(sizes) > 1 else 0.0
    return factor * float(np.square(sums - data.mean() * sizes).sum()) / data.size**2


def bootstrap_ratio(
    sums: np.ndarray, counts: np.ndarray, clusters: Labels | None = None, *, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Percentile bootstrap intervals of ratios of totals over facts, for many columns at once.

    sums, counts: shape (facts, columns). Each resample draws clusters with replacement and takes, column by column, the
    total of ``sums`` over the total of ``counts``. Returns low and high, shape (columns,), NaN in a column without
    counts. Resamples in which a column has no counts say nothing about it.
    """
    sums, counts = np.asarray(sums, float), np.asarray(counts, float)
    if not len(sums):
        return np.full(sums.shape[1], nan), np.full(sums.shape[1], nan)
    group = _grouped(len(sums), clusters)
    sums, counts = _summed(sums, group), _summed(counts, group)
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
            ends[:, columns] = quantile(ratios[:, columns], ENDS, axis=0)
    ends[ends > largest / 1e6] = np.inf
    return ends[0], ends[1]


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


def sign_flips(
    before: Sequence[float] | np.ndarray, after: Sequence[float] | np.ndarray, clusters: Labels | None = None, *,
    resamples: int = FLIPS, seed: int = 0,
) -> float:  # fmt: skip
    """Two-sided p that the sign of each cluster's sum of ``after - before`` is chance: Fisher's randomisation test.

    It is the share of all ways to flip the signs that give a sum as far from 0 as the observed one. Beyond
    ``resamples`` ways, so many are drawn and the observed one is counted with them. It holds for any number of facts,
    where a bootstrap of few that agree is too sure; of 0 and 1, each a cluster of its own, it is McNemar's exact test.
    1 where nothing differs.

    What it tests is that the two sides could be exchanged, under which a gain is as likely as a loss of the same size.
    As a test of the mean alone it assumes that differences are symmetric about it: of few facts with a mean of 0, whose
    losses are rare and large, it finds a difference more often than it says (`benchmarks/intervals.py`).
    Source: Fisher, The Design of Experiments (1935), section 21.
    """
    gaps = np.asarray(after, float) - np.asarray(before, float)
    if clusters is not None and gaps.size:
        gaps = np.bincount(_grouped(gaps.size, clusters), gaps)
    gaps = gaps[np.abs(gaps) > ROUNDING]  # the sign of others makes no difference
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
    low, high = np.quantile(np.clip(r, -1, 1), ENDS)
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


def korn_graubard(
    values: Sequence[float] | np.ndarray, clusters: Labels | None = None, *, confidence: float = CONFIDENCE
) -> tuple[float, float]:
    """Korn and Graubard's interval of a mean of values from 0 to 1: the exact one of Clopper and Pearson, of the
    effective number of values; (NaN, NaN) of none.

    values: one number a unit, each yes or no (1 or 0) or itself a share. No mean m of such values varies more than one
    of yes and no does, so n of them are worth n / phi yes-or-no answers, where phi is their variance over m (1 - m),
    each estimated without bias: phi = v / (m (1 - m) + v / n) with the sample variance v (divisor n - 1). That is
    n / phi = 1 + m (1 - m) / (v / n), and v / n is the variance of the mean (`_ratio_variance`; of single values, the
    jackknife's). Of yes and no phi is 1, which leaves the exact interval of n trials; so it is where all values are 0
    or all are 1.

    As few values may agree by chance, the variance is taken to be, for two parts in n, the largest there is: phi +
    2 (1 - phi) / n. So equal values between 0 and 1 count as n squared / 2 trials, and not as certainty; one value
    counts as one trial.

    With clusters n is their number, and the largest variance that of clusters that are all 0 or all 1: m (1 - m) times
    the sum of their squared shares of the values.

    Sources: Korn and Graubard, Confidence intervals for proportions with small expected number of positive counts
    estimated from survey data, Survey Methodology 24 (1998). The unbiased phi and its two parts in n are this package's
    own; `benchmarks/intervals.py` simulates what the interval covers. Raises `ValueError` for a value below 0 or above
    1.
    """
    data = np.asarray(values, dtype=np.float64)
    if data.size and not (data.min() >= -ROUNDING and data.max() <= 1 + ROUNDING):
        raise ValueError(
            f"values from {data.min():g} to {data.max():g}; an interval of shares needs them within 0 to 1"
        )
    if not data.size:
        return nan, nan
    group = _grouped(data.size, clusters)
    sizes = np.bincount(group)
    number, most = len(sizes), len(sizes) * float(np.square(sizes / data.size).sum())
    mean = min(1.0, max(0.0, float(data.mean())))
    largest, variance = mean * (1 - mean), _ratio_variance(data, group)
    spread = min(most, number * variance / (largest + variance)) if largest > 0 else most
    return _clopper_pearson(mean, number / (spread + (most - spread) * min(1.0, 2 / number)), confidence)


def korn_graubard_difference(
    before: Sequence[float] | np.ndarray, after: Sequence[float] | np.ndarray, clusters: Labels | None = None, *,
    confidence: float = CONFIDENCE,
) -> tuple[float, float]:  # fmt: skip
    """Interval of the mean of ``after - before``, both from 0 to 1, paired: `korn_graubard` of (1 + difference) / 2.

    The interval does not vanish where all differences are the same, so of few facts it is wide. (NaN, NaN) of none.
    """
    gaps = np.asarray(after, float) - np.asarray(before, float)
    low, high = korn_graubard((1 + gaps) / 2, clusters, confidence=confidence)
    return 2 * low - 1, 2 * high - 1


def _clopper_pearson(share: float, trials: float, confidence: float) -> tuple[float, float]:
    """The exact interval of a proportion, of a number of trials that need not be whole."""
    from scipy.special import betaincinv  # a quantile of the beta distribution; scipy.stats loads far more

    won, lost = share * trials, (1 - share) * trials
    low = float(betaincinv(won, lost + 1, (1 - confidence) / 2)) if won > 0 else 0.0
    return low, float(betaincinv(won + 1, lost, (1 + confidence) / 2)) if lost > 0 else 1.0


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
