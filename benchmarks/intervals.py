"""How often intervals of W and R contain the truth, and how often tests find a difference where there is none.

    python benchmarks/intervals.py [--draws 2000]

Facts are drawn from populations with a known mean: W that is spread evenly, near one half, either known or not, near 1,
and exactly 1 for most facts; R of 1, 5, 30 and 95 %. A third of the rows has subjects of three facts each, whose values
depend on each other (normal scores with a correlation of one half), as facts of one person do. The tables stand in
docs/definitions.md.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from scipy.stats import beta, norm

from anachron.analysis.statistics import RESAMPLES, bootstrap_ratio, korn_graubard, sign_flips

Interval = Callable[[np.ndarray, np.ndarray], tuple[float, float]]
FACTS = (10, 30, 100)
ALONE, BY_THREE = 1, 3
CORRELATION = 0.5


def share(a: float, b: float, exactly_1: float = 0.0) -> tuple[Callable[[np.ndarray], np.ndarray], float]:
    """Values from uniform ones, and their mean: of a beta distribution, but for so many that are 1."""

    def values(uniform: np.ndarray) -> np.ndarray:
        rest = np.minimum(uniform / (1 - exactly_1), 1)
        return np.where(uniform < 1 - exactly_1, beta.ppf(rest, a, b), 1.0)

    return values, exactly_1 + (1 - exactly_1) * a / (a + b)


def yes(chance: float) -> tuple[Callable[[np.ndarray], np.ndarray], float]:
    return (lambda uniform: (uniform < chance).astype(float)), chance


POPULATIONS = {
    "W, even": share(1, 1),
    "W, near one half": share(10, 8),
    "W, known or not": share(0.2, 0.2),
    "W, near 1": share(9, 1),
    "W, 80 % exactly 1": share(1, 1, 0.8),
    "W, 90 % exactly 1": share(1, 1, 0.9),
    **{f"R {chance:.0%}": yes(chance) for chance in (0.01, 0.05, 0.3, 0.95)},
}


def drawn(facts: int, size: int, draws: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Uniform values of facts, alike within a subject of so many of them, and the subjects."""
    random, subjects = np.random.default_rng([facts, size, seed]), np.arange(facts) // size
    for _ in range(draws):
        own, common = random.normal(size=facts), random.normal(size=facts)[subjects]
        likeness = CORRELATION if size > 1 else 0.0
        yield norm.cdf(likeness**0.5 * common + (1 - likeness) ** 0.5 * own), subjects


def bootstrap(values: np.ndarray, subjects: np.ndarray) -> tuple[float, float]:
    """What the papers take: facts are resampled, whatever their subjects."""
    low, high = bootstrap_ratio(values[:, None], np.ones((len(values), 1)), resamples=RESAMPLES)
    return float(low[0]), float(high[0])


def coverage(interval: Interval, population: str, facts: int, size: int, draws: int) -> float:
    """The share of draws whose interval contains the mean of the population."""
    values, mean = POPULATIONS[population]
    ends = [interval(values(uniform), subjects) for uniform, subjects in drawn(facts, size, draws, len(population))]
    return float(np.mean([low - 1e-12 <= mean <= high + 1e-12 for low, high in ends]))


def false_alarms(facts: int, size: int, draws: int, few: float, *, by_subject: bool) -> tuple[float, float]:
    """How often sign flips find a loss at 5 %, one-sided as the gate does, where the mean difference is 0: with this
    share of facts that lose much while the others gain a little, and the other way round."""
    found = []
    for uniform, subjects in drawn(facts, size, draws, int(1000 * few)):
        gaps = np.where(uniform < few, -(1 - few), few) * 0.5
        p = sign_flips(np.zeros(facts), gaps, subjects if by_subject else None, resamples=999)
        found.append((p / 2 < 0.05 and gaps.mean() < 0, p / 2 < 0.05 and gaps.mean() > 0))
    few_lose, few_gain = np.mean(found, axis=0)
    return float(few_lose), float(few_gain)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print(f"| {' | '.join(head)} |\n|{' --- |' * len(head)}")
    print("\n".join(f"| {' | '.join(row)} |" for row in rows), flush=True)
    print()


def main(draws: int) -> None:
    for name, interval, fewer in (("this package", korn_graubard, 1), ("bootstrap over facts", bootstrap, 5)):
        print(f"Coverage of 95 % intervals, {name}:\n")
        rows = [
            [population, *(f"{100 * coverage(interval, population, n, size, draws // fewer):.0f} %"
                           for size in (ALONE, BY_THREE) for n in FACTS)]
            for population in POPULATIONS
        ]  # fmt: skip
        table(["population", *(f"{n} facts{of}" for of in ("", ", by three") for n in FACTS)], rows)
    print("Losses told of models that lose nothing, where at most 5 % are meant to be: few facts lose much while the")
    print("others gain a little, and few gain much while the others lose a little\n")
    rows = []
    for few in (0.5, 0.2, 0.05):
        for size, by_subject in ((ALONE, True), (BY_THREE, True), (BY_THREE, False)):
            cells = [false_alarms(n, size, draws // 2, few, by_subject=by_subject) for n in FACTS]
            unit = "alone" if size == ALONE else "by three" + ("" if by_subject else ", as if alone")
            rows.append([f"{few:.0%}", unit, *(f"{100 * one:.0f} %, {100 * two:.0f} %" for one, two in cells)])
    table(["few", "facts of a subject", *(f"{n} facts" for n in FACTS)], rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=2000)
    main(parser.parse_args().draws)
