"""Intervals by hand, in plain loops: what the package's are held against."""

from collections.abc import Sequence

from scipy.optimize import brentq
from scipy.special import betainc


def exact(won: float, trials: float) -> tuple[float, float]:
    """Clopper and Pearson's: where the tails of the binomial, which a beta function continues, are 2.5 %."""

    def at_least(p: float) -> float:
        return float(betainc(won, trials - won + 1, p))  # P(X >= won)

    def at_most(p: float) -> float:
        return 1 - float(betainc(won + 1, trials - won, p))  # P(X <= won)

    low = 0.0 if won <= 0 else brentq(lambda p: at_least(p) - 0.025, 0, 1, xtol=1e-14)
    high = 1.0 if won >= trials else brentq(lambda p: at_most(p) - 0.025, 0, 1, xtol=1e-14)
    return low, high


def of_shares(values: Sequence[float], clusters: Sequence[object] | None = None) -> tuple[float, float]:
    """The exact interval of the effective number of values, of which those of one cluster depend on each other."""
    labels = list(range(len(values))) if clusters is None else list(clusters)
    groups = {label: [v for v, own in zip(values, labels, strict=True) if own == label] for label in labels}
    n, number, mean = len(values), len(groups), sum(values) / len(values)
    between = sum((sum(of) - mean * len(of)) ** 2 for of in groups.values()) / n**2
    variance = between * number / (number - 1) if number > 1 else 0.0
    worst = number * sum((len(of) / n) ** 2 for of in groups.values())  # of clusters that are all 0 or all 1
    largest = mean * (1 - mean)
    spread = min(worst, number * variance / (largest + variance)) if largest > 0 else worst
    trials = number / (spread + (worst - spread) * min(1.0, 2 / number))
    return exact(mean * trials, trials)


def of_differences(gaps: Sequence[float], clusters: Sequence[object] | None = None) -> tuple[float, float]:
    low, high = of_shares([(1 + gap) / 2 for gap in gaps], clusters)
    return 2 * low - 1, 2 * high - 1
