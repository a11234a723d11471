"""How often the intervals of a horizon contain the truth: simulated answers, without any model.

Run: python benchmarks/horizon.py [--answerers 2000] [--seed 0] [--rows FILE]. Each answerer knows changes by a curve
that is drawn: five shapes (a step, a straight ramp, saturation, a logistic, two speeds mixed; only the step is among
the curves that are fitted), 2012 to 2025 as halving date, declines of up to five years, 150 to 2,000 changes between
2010 and 2026, plateaus from 0.5 to 0.97, floors from 0.02 to 0.3; for some, subjects with several changes whose answers
go together, popularity, and changes that can be guessed. One in five has nothing to find: its answers do not depend on
the date. Then the test of a leak is tried on changes that are guessed like decoys, and on some of which one in ten is
known. Prints JSON: of those with a horizon how many get a date, how often the interval of 95 % holds the truth, its
median width and the mean error in months, by shape and by number of changes; of the others how many get a date; how
often a leak is seen where there is one, and where there is none.
"""

import argparse
import json
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.optimize import brentq
from scipy.special import expit, logit

from anachron.probe.horizon.fit import ChangePreferences, fit_horizon
from anachron.probe.horizon.leak import leak_after
from anachron.probe.horizon.likelihood import GONE

FIRST, LAST = 2010 * 12, 2026 * 12
SHAPES = ("step", "ramp", "saturation", "logistic", "two speeds")
LEVEL = "level"
SIZES = (150, 400, 1000, 2000)
EMPTY = 0.2  # the share of answerers with nothing to find


@dataclass(frozen=True)
class Truth:
    """A curve: its shape, the month at which it ends or is halved, and its width in months."""

    shape: str
    at: float
    width: float

    def learned(self, t: np.ndarray | float) -> Any:
        left = np.maximum(self.at - np.asarray(t, float), 0.0)
        if self.shape == "step":
            return (left > 0).astype(float)
        if self.shape == "ramp":
            return np.minimum(left / self.width, 1.0)
        if self.shape == "saturation":
            return 1 - np.exp(-2 * left / self.width)
        if self.shape == "logistic":
            return expit((self.at - np.asarray(t, float)) * 6 / self.width)
        return 0.5 * (1 - np.exp(-6 * left / self.width)) + 0.5 * (1 - np.exp(-1.5 * left / self.width))

    def when(self, share: float) -> float:
        """The month at which so much is left."""
        if self.shape == "step":
            return self.at
        return float(brentq(lambda t: self.learned(t) - share, self.at - 60 * 12, self.at + 60 * 12))


def answerer(random: np.random.Generator, shape: str, size: int) -> tuple[Truth | None, ChangePreferences]:
    """A made-up model's answers, and its curve; None of one whose answers do not depend on the date."""
    month = random.integers(FIRST, LAST, size)
    truth = Truth(shape, random.uniform(2012 * 12, 2025 * 12), random.uniform(1, 60))
    plateau, floor = random.uniform(0.5, 0.97), random.uniform(0.02, 0.3)
    level = float(random.choice([0.0, 1.0]))
    learned = np.full(size, level) if shape == LEVEL else truth.learned(month + 0.5)
    several = random.random() < 0.5
    subject = random.integers(0, size // 3, size) if several else np.arange(size)
    spread = random.uniform(0, 1.5) if several else 0.0
    of_subject = spread * random.standard_normal(size)[subject]
    popularity = random.choice([-2.0, -1.0, 0.0, 1.0, 2.0], size)
    slope = random.uniform(0, 0.8) if random.random() < 0.5 else 0.0
    guessable = (random.random(size) < 0.2) * 1.0
    easier = random.uniform(0, 2) if random.random() < 0.5 else 0.0
    known = expit(logit(plateau) + slope * popularity + of_subject) * learned
    guess = expit(logit(floor) + easier * guessable + of_subject)
    wins = (random.random(size) < known + (1 - known) * guess) * 1.0
    more = (popularity[:, None] if slope else None, guessable[:, None] if easier else None)
    return None if shape == LEVEL else truth, ChangePreferences(month, wins, subject, *more)


def simulate(answerers: int, seed: int, kept: Path | None = None) -> list[dict[str, Any]]:
    """One row an answerer: what was true, what was found. kept: JSON lines, to which each is added as it is made."""
    found = [] if kept is None or not kept.exists() else [json.loads(line) for line in kept.read_text().splitlines()]
    for number in range(len(found), answerers):
        random = np.random.default_rng([seed, number])
        shape = LEVEL if random.random() < EMPTY else str(random.choice(SHAPES))
        size = int(random.choice(SIZES))
        truth, answers = answerer(random, shape, size)
        fitted = fit_horizon(answers)
        row: dict[str, Any] = {"shape": shape, "changes": size, "told": bool(fitted.told)}
        middle, low, high = fitted.halving()
        row |= {"middle": middle, "low": low, "high": high, "design": fitted.design, "inside": fitted.inside}
        if truth is not None:
            half, end = truth.when(0.5), truth.when(GONE)
            _, early, late = fitted.end()
            row |= {"width": truth.width, "half": half, "end": end, "holds": low <= half <= high, "below": half < low}
            row |= {"end_before": end <= late, "end_holds": early <= end <= late}
        found.append(row)
        if kept is not None:
            with kept.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(row) + "\n")
    return found


def leaks(tests: int, seed: int) -> dict[str, Any]:
    """How often a leak is seen: where none is, and where one change in ten is known, by number of changes."""
    found: dict[str, Any] = {}
    for size in (100, 200, 400):
        for share in (0.0, 0.1):
            seen = 0
            for number in range(tests):
                random = np.random.default_rng([seed, size, number])
                floor, subject = random.uniform(0.0, 0.15), random.integers(0, size, size)
                guess = expit(logit(floor + 1e-6) + random.standard_normal(size)[subject])
                known = random.random(size) < share
                wins = (known | (random.random(size) < guess)) * 1.0
                table = pl.DataFrame(
                    {
                        "subject": subject.astype(str), "month": np.full(size, LAST), "wins": wins, "margin": wins,
                        "decoy_wins": (random.random(size) < guess) * 1.0, "control": [""] * size,
                        "known": [True] * size, "predictable": [""] * size, "named": [None] * size,
                    }
                )  # fmt: skip
                seen += leak_after(table, LAST - 1).leaked
            found[f"{size} changes, {share:.0%} known"] = seen / tests
    return found


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    told = [row for row in rows if row["told"]]
    about = {"answerers": len(rows), "told": len(told)}
    if not told or "half" not in told[0]:
        return about
    return about | {
        "interval_holds": float(np.mean([row["holds"] for row in told])),
        "truth_below": float(np.mean([row["below"] for row in told])),
        "median_width_months": float(np.median([row["high"] - row["low"] for row in told])),
        "mean_error_months": float(np.mean([abs(row["middle"] - row["half"]) for row in told])),
        "end_holds": float(np.mean([row["end_holds"] for row in told])),
        "end_below_bound": float(np.mean([row["end_before"] for row in told])),
    }


def report(rows: list[dict[str, Any]]) -> dict[str, Any]:
    real = [row for row in rows if row["shape"] != LEVEL]
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in real:
        groups[row["shape"]].append(row)
        groups[f"{row['changes']} changes"].append(row)
    return {
        "all": summary(real),
        "nothing to find": summary([row for row in rows if row["shape"] == LEVEL]),
        **{name: summary(groups[name]) for name in (*SHAPES, *(f"{n} changes" for n in SIZES)) if name in groups},
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--answerers", type=int, default=2000)
    parser.add_argument("--leaks", type=int, default=400, help="tests of a leak, of each sort")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--rows", type=Path, help="JSON lines, one an answerer, in which a run that was stopped goes on"
    )
    options = parser.parse_args()
    started = time.perf_counter()
    rows = simulate(options.answerers, options.seed, options.rows)
    report_of: dict[str, Any] = report(rows) | {
        "leak is seen": leaks(options.leaks, options.seed),
        "processor_seconds": time.process_time(),
    }
    print(json.dumps(report_of | {"seconds": time.perf_counter() - started}, indent=1))
