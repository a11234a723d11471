"""How often the intervals of a horizon contain the truth: simulated answers, without any model.

Run: python benchmarks/horizon.py [--answerers 500] [--hard 40] [--leaks 400] [--seed 0] [--rows FILE]. Each answerer
knows changes by a curve that is drawn: five shapes (a step, a straight ramp, saturation, a logistic, two speeds mixed;
only the step is among the curves that are fitted), 2012 to 2025 as halving date, declines of up to five years, 150 to
2,000 changes between 2010 and 2026, plateaus from 0.5 to 0.97, floors from 0.02 to 0.3; for some, subjects with several
changes whose answers go together, popularity, and changes that can be guessed. One in five has nothing to find: its
answers do not depend on the date. Then hard cases (`HARD`), with 300 and 1,500 changes: training in two stages, a gap
before later training, knowledge of some changes after the end, answers that become rarer steadily without an end,
sources that differ or end, an answerer who declines when it does not know. At last the test of a leak, on changes that
are guessed like decoys, on changes that are guessed better (as by Gemma 3 270M), and on some of which one in ten is
known. Prints JSON: of those with a horizon how many get a date, how often the months of the 95 % interval hold the
truth, its median width and the mean error in months; of the others how many get a date; how often a leak is seen.
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

from anachron.probe.ask.matching import REFUSED
from anachron.probe.horizon.asking import NEW, OLD
from anachron.probe.horizon.curves import GONE
from anachron.probe.horizon.fit import ChangePreferences, fit_horizon
from anachron.probe.horizon.leak import Leak, leak_after
from anachron.probe.horizon.measure import change_preferences, dated

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
            row |= {"width": truth.width, "half": half, "end": end, "holds": holds(low, half, high)}
            row |= {"below": half < low}
            row |= {"end_before": end <= late, "end_holds": early <= end <= late}
        found.append(row)
        if kept is not None:
            with kept.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(row) + "\n")
    return found


def holds(low: float, truth: float, high: float) -> bool:
    """Whether the months that are printed hold the truth."""
    return int(low) <= truth < int(high) + 1


HARD = (
    "step", "two stages", "gap", "5 % known after", "10 % known after", "sources differ", "declines when unsure",
    "steady decline", "source that ends",
)  # fmt: skip
EMPTIES = ("steady decline", "source that ends")


def hard_case(case: str, size: int, seed: int) -> dict[str, Any]:
    """What is found of an answerer of a hard case, and whether the interval holds the last time that half is known."""
    random = np.random.default_rng([seed, size, HARD.index(case)])
    month = random.integers(FIRST, LAST, size)
    time_of, end = month + 0.5, random.uniform(2017 * 12, 2025 * 12)
    plateau, floor = random.uniform(0.3, 0.9), random.uniform(0.03, 0.2)
    learned, truth, effect, source = (time_of < end) * 1.0, end, np.zeros(size), np.full(size, "one")
    if case == "two stages":
        left, first = random.uniform(0.2, 0.8), end - random.uniform(6, 48)
        learned = np.where(time_of < first, 1.0, np.where(time_of < end, left, 0.0))
        truth = end if left >= 0.5 else first
    elif case == "gap":
        until = end - random.uniform(6, 36)
        learned[(time_of >= until - random.uniform(6, 36)) & (time_of < until)] = 0.0
    elif case.endswith("known after"):
        learned = np.where(time_of < end, 1.0, float(case.split()[0]) / 100)
    elif case == "steady decline":
        learned = 1 - random.uniform(0.5, 1.0) * (time_of - FIRST) / (LAST - FIRST)
    elif case == "sources differ":
        early = np.where(random.random(size) < 0.63, "one", "two")
        source = np.where(month < 2021 * 12, early, np.where(random.random(size) < 0.5, "two", "three"))
        effects = dict(zip(("one", "two", "three"), random.normal(0, 0.5, 3), strict=True))
        effect = np.array([effects[name] for name in source])
    elif case == "source that ends":  # and nothing else: won at 40 and 20 %
        source = np.where((time_of < end) & (random.random(size) < 0.63), "one", "two")
        plateau, floor, learned = 1e-6, 0.2, np.zeros(size)
        effect = np.where(source == "one", logit(0.4) - logit(0.2), 0.0)
    known = random.random(size) < expit(logit(plateau) + effect) * learned
    guessed = random.random(size) < expit(logit(floor) + effect)
    wins = (known | guessed) * 1.0
    table = pl.DataFrame(
        {
            "subject": np.arange(size).astype(str), "month": month, "wins": wins, "source": source, "kind": "mayor",
            "named": None, "known": True, "control": "", "predictable": "", "popularity": None,
        },
        schema_overrides={"named": pl.String, "popularity": pl.Float64},
    )  # fmt: skip
    if case == "declines when unsure":  # of what it does not know it names an old value in one of three cases
        said = known | (random.random(size) < 1 / 3)
        named = np.where(known | (guessed & said), NEW, np.where(said, OLD, REFUSED))
        table = table.with_columns(pl.Series("named", named), pl.Series("known", said))
    found = fit_horizon(change_preferences(dated(table)))
    middle, low, high = found.halving()
    row = {"case": case, "changes": size, "told": bool(found.told), "middle": middle, "low": low, "high": high}
    return row | ({} if case in EMPTIES else {"half": truth, "holds": holds(low, truth, high)})


def hard(tests: int, seed: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for case in HARD:
        for size in (300, 1500):
            rows = [hard_case(case, size, 1000 * seed + number) for number in range(tests)]
            told = [row for row in rows if row["told"]]
            of: dict[str, Any] = {"answerers": tests, "told": len(told)}
            if case not in EMPTIES and told:
                of["interval_holds"] = sum(row["holds"] for row in told)
                of["median_width_months"] = float(np.median([row["high"] - row["low"] for row in told]))
            found[f"{case}, {size} changes"] = of
    return found


def leaks(tests: int, seed: int) -> dict[str, Any]:
    """How often a leak is seen: where none is, and where one change in ten is known, by number of changes."""
    found: dict[str, Any] = {}
    for size in (100, 200, 400):
        for name, share, better in (("none known", 0, 0), ("10 % known", 0.1, 0), ("none known, better guesses", 0, 1)):
            results = [
                _leak(np.random.default_rng([seed, size, number]), size, share, better) for number in range(tests)
            ]
            found[f"{size} changes, {name}"] = {
                "leak": sum(one.leaked for one in results) / tests,
                "lucky guesses": sum(not one.told for one in results) / tests,
                "smallest that is seen": float(np.median([one.smallest for one in results])),
            }
        for name, share, better in (("none known, better guesses", 0, 1), ("10 % known", 0.1, 0)):
            results = [
                _leak(np.random.default_rng([seed, size, number]), size, share, better, released=True)
                for number in range(tests // 4)
            ]
            found[f"{size} changes and as many after publication, {name}"] = {
                "leak": sum(one.leaked for one in results) / len(results),
                "smallest that is seen": float(np.median([one.smallest for one in results])),
            }
    return found


def _leak(random: np.random.Generator, size: int, share: float, better: bool, released: bool = False) -> Leak:
    """better: new values are guessed in 15 %, decoys in 9 %; else both alike, and otherwise by each answerer. released:
    the month of publication is given, and after it are as many changes more, of which nothing is known."""
    tested = size
    size *= 1 + released
    floor, subject = random.uniform(0.01, 0.15), random.integers(0, size, size)
    of_subject = random.standard_normal(size)[subject]
    new, decoy = (expit(logit(chance) + of_subject) for chance in ((0.12, 0.065) if better else (floor, floor)))
    known = (random.random(size) < share) & (np.arange(size) < tested)
    wins = (known | (random.random(size) < new)) * 1.0
    decoys = (random.random((size, 3)) < decoy[:, None]) * 1.0
    table = pl.DataFrame(
        {
            "subject": subject.astype(str), "month": LAST + 1 * (np.arange(size) >= tested), "wins": wins,
            "margin": wins, "decoy_wins": decoys.mean(axis=1), "likeliest_decoy_wins": decoys.max(axis=1),
            "control": [""] * size, "known": [True] * size, "predictable": [""] * size, "named": [None] * size,
        }
    )  # fmt: skip
    return leak_after(table, LAST - 1, LAST if released else None)


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
    parser.add_argument("--answerers", type=int, default=500)
    parser.add_argument("--hard", type=int, default=40, help="answerers of each hard case")
    parser.add_argument("--leaks", type=int, default=400, help="tests of a leak, of each sort")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--rows", type=Path, help="JSON lines, one an answerer, in which a run that was stopped goes on"
    )
    options = parser.parse_args()
    started = time.perf_counter()
    rows = simulate(options.answerers, options.seed, options.rows)
    report_of: dict[str, Any] = report(rows) | {
        "hard cases": hard(options.hard, options.seed),
        "leak is seen": leaks(options.leaks, options.seed),
        "processor_seconds": time.process_time(),
    }
    print(json.dumps(report_of | {"seconds": time.perf_counter() - started}, indent=1))
