"""How often check says more than *unknown* of facts, by scorers that know nothing of them, and by some that do.

    python benchmarks/verdicts.py [--facts 60] [--runs 12] [--out verdicts.md]

and of real models, of whose decoys each stands once in the fact's stead (a placebo):

    python benchmarks/verdicts.py --sample facts.csv
    anachron check HuggingFaceTB/SmolLM2-135M-Instruct --facts facts.csv --out run
    python benchmarks/verdicts.py --placebo run

Each run has facts of periods from 1 to 60 years, half of which hold to the end, five decoys each, sampled as check
does. The score of an object at a date is a curve of its own over the years, what all objects have at that year, and
noise of a year's, a month's and a day's own (standard deviation 0.5, where the curve's is 1). What a fact has of
knowledge is added at its true years. Verdicts are those of `anachron.probe.check.verdicts`, by the real tables.
"""

import argparse
import csv
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import numpy as np
import polars as pl

from anachron.analysis.metrics import check_scores, fact_metrics
from anachron.core.contexts import SAMPLINGS, sample_contexts
from anachron.core.periods import Period
from anachron.data.bundled.mini import mini_facts
from anachron.probe.check.verdicts import VERDICTS, fact_verdicts
from anachron.probe.runs import find_sources

DECOYS, FIRST, LAST = 5, 1500, 2025
YEARS = np.arange(FIRST, LAST + 1)
SPANS = (1, 2, 4, 8, 15, 30, 60)
NEAR = replace(SAMPLINGS["near"], until=LAST)
Curves = Callable[[np.random.Generator, int], np.ndarray]  # (objects, years), standard deviation 1


def independent(random: np.random.Generator, number: int) -> np.ndarray:
    return random.normal(size=(number, YEARS.size))


def autoregressive(correlation: float) -> Curves:
    """Of first order: neighbouring years have this correlation."""

    def curves(random: np.random.Generator, number: int) -> np.ndarray:
        found = random.normal(size=(number, YEARS.size))
        for i in range(1, YEARS.size):
            found[:, i] = correlation * found[:, i - 1] + (1 - correlation**2) ** 0.5 * found[:, i]
        return found

    return curves


def walk(random: np.random.Generator, number: int) -> np.ndarray:
    """A random walk that moves by one standard deviation in ten years."""
    return np.cumsum(random.normal(size=(number, YEARS.size)), axis=1) / 10**0.5


def smooth(random: np.random.Generator, number: int) -> np.ndarray:
    """White noise under a bell of ten years."""
    bell = np.exp(-0.5 * (np.arange(-40, 41) / 10) ** 2)
    noise = random.normal(size=(number, YEARS.size + 80))
    found = np.array([np.convolve(row, bell, "valid") for row in noise])
    return found / np.sqrt(np.square(bell).sum())


def eras(random: np.random.Generator, number: int) -> np.ndarray:
    """Each object has an era of its own, of 20 years, besides what neighbouring years have in common."""
    middle = random.integers(1900, LAST, number)[:, None]
    return autoregressive(0.5)(random, number) + 2 * (np.abs(YEARS - middle) <= 10)


def own_slopes(random: np.random.Generator, number: int) -> np.ndarray:
    """Each object prefers late or early years, by 0.05 nats a year more or less."""
    return autoregressive(0.5)(random, number) + 0.05 * random.normal(size=(number, 1)) * (YEARS - LAST)


@dataclass(frozen=True)
class Scorer:
    """name: for the table. curves: of the objects. late: nats a year that all objects gain. frequent: nats that round
    years gain. knows: from the years and the period (first, last) to what the fact gains, nats; None of nothing."""

    name: str
    curves: Curves
    late: float = 0.0
    frequent: float = 0.0
    knows: Callable[[np.ndarray, int, int], np.ndarray] | None = None


def step(height: float, shift: Callable[[int], int] = lambda span: 0, share: float = 1.0) -> Callable[..., np.ndarray]:
    """So many nats on the years of the period, or of a share of it, or of one that is shifted."""

    def gain(years: np.ndarray, first: int, last: int) -> np.ndarray:
        moved = shift(last - first + 1)
        end = first + max(1, round(share * (last - first + 1))) - 1
        return height * ((years >= first + moved) & (years <= end + moved))

    return gain


def blurred(height: float) -> Callable[..., np.ndarray]:
    """Ends that rise and fall over a quarter of the period."""

    def gain(years: np.ndarray, first: int, last: int) -> np.ndarray:
        width = max(1.0, (last - first + 1) / 4)
        return height * np.clip(np.minimum(years - first + width / 2, last - years + width / 2) / width, 0, 1)

    return gain


AR = autoregressive(0.5)
IGNORANT = (
    Scorer("independent years", independent), Scorer("AR 0.5", AR), Scorer("AR 0.8", autoregressive(0.8)),
    Scorer("random walk", walk), Scorer("smooth", smooth), Scorer("own eras", eras), Scorer("own slopes", own_slopes),
    *(Scorer(f"AR 0.5, {late:+g} nats a year", AR, late=late) for late in (-0.2, -0.05, -0.02, 0.02, 0.05, 0.2)),
    Scorer("AR 0.5, round years +2 nats", AR, frequent=2.0),
)  # fmt: skip
KNOWING = (
    Scorer("knows, 3 nats, independent years", independent, knows=step(3)),
    Scorer("knows, 3 nats, AR 0.5", AR, knows=step(3)),
    Scorer("knows, 3 nats, AR 0.5, +0.05 nats a year", AR, late=0.05, knows=step(3)),
    Scorer("knows, 2 nats, AR 0.5", AR, knows=step(2)), Scorer("knows, 4 nats, AR 0.5", AR, knows=step(4)),
    Scorer("knows, 3 nats, smooth", smooth, knows=step(3)),
    Scorer("half the period, 3 nats", AR, knows=step(3, share=0.5)),
    Scorer("blurred ends, 3 nats", AR, knows=blurred(3)),
    Scorer("2 years late, 3 nats", AR, knows=step(3, lambda span: 2)),
    Scorer("5 years late, 3 nats", AR, knows=step(3, lambda span: 5)),
    Scorer("its own length early, 3 nats", AR, knows=step(3, lambda span: -span)),
)  # fmt: skip


def contexts_of(number: int, random: np.random.Generator) -> Iterator[tuple[int, int, list]]:
    """First and last year of the period of each of so many facts, and its dates; half of them hold to the end."""
    for fact in range(number):
        span, held = SPANS[fact // 2 % len(SPANS)], fact % 2 == 1
        last = LAST if held else int(random.integers(1800 + span, 2015))
        period = Period(f"{last - span + 1}-01-01", f"{last + (span == 1)}-06-30")  # a year whole, and a half
        contexts = sample_contexts(period, fact_id=str(random.integers(2**60)), sampling=NEAR)
        dated = [c for c in contexts if c.status in ("correct", "incorrect")]
        if len({c.status for c in dated}) == 2:
            yield last - span + 1, last, dated


def run_of(scorer: Scorer, facts: int, random: np.random.Generator) -> pl.DataFrame:
    """The verdicts of one run."""
    own, others = [], []
    common = scorer.late * (YEARS - LAST) + scorer.frequent * (YEARS % 10 == 0)
    for number, (first, last, dated) in enumerate(contexts_of(facts, random)):
        curves = scorer.curves(random, 1 + DECOYS) + common
        if scorer.knows is not None:
            curves[0] += scorer.knows(YEARS, first, last)
        for context in dated:
            at = int(context.time[:4]) - FIRST
            scores = curves[:, at] + random.normal(size=1 + DECOYS) / 2
            about = ("m", "raw", "none", f"f{number}", context.granularity, context.time, context.status)
            own.append((*about, context.alpha, float(scores[0]), str(first), str(last)))
            others += [(*about, f"d{j}", float(scores[j]), 1) for j in range(1, 1 + DECOYS)]
    keys = ["model", "format", "prefix", "fact_id", "granularity", "time", "status"]
    table = check_scores(pl.DataFrame(own, schema=[*keys, "alpha", "logp", "start", "end"], orient="row"))
    decoys = pl.DataFrame(others, schema=[*keys, "decoy", "logp", "n_tokens"], orient="row")
    return fact_verdicts(table, fact_metrics(table), decoys)


def row_of(scorer: Scorer, facts: int, runs: int, seed: int = 0) -> list[str]:
    random, told = np.random.default_rng(seed), Counter[str]()
    for _ in range(runs):
        told.update(run_of(scorer, facts, random)["verdict"])
    return row_of_counts(scorer.name, told)


def row_of_counts(name: str, told: Counter[str]) -> list[str]:
    total = sum(told.values())
    above = 100 * (1 - told["unknown"] / total)
    return [name, f"{total:,}", f"{above:.1f}", *(f"{100 * told[verdict] / total:.1f}" for verdict in VERDICTS)]


def sample_facts(path: Path, number: int = 80, seed: int = 3) -> None:
    """Facts of mini that are asked, as a file for check."""
    kept = Random(seed).sample([one.fact for one in mini_facts() if one.probed], number)
    rows = [(f.subject, f.relation_id, f.relation, f.object, f.period.start, f.period.end) for f in kept]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("subject", "relation_id", "relation", "object", "start", "end"), *rows])


def placebo_rows(folder: Path) -> Iterator[list[str]]:
    """The verdicts of a check, and those that its decoys would have in the stead of their facts, one after the other;
    each is judged by the decoys that are left."""
    (source,) = find_sources([folder])
    scores, decoys = source.read(), source.read_decoys()
    assert decoys is not None, f"{folder} has no decoys"
    own = check_scores(scores)
    yield row_of_counts(f"{source.label}, facts", Counter(fact_verdicts(own, fact_metrics(own), decoys)["verdict"]))
    told = Counter[str]()
    keys = ["fact_id", "granularity", "time"]
    for place in range(decoys.group_by("fact_id").agg(pl.col("decoy").n_unique())["decoy"].max()):
        names = decoys.group_by("fact_id").agg(pl.col("decoy").unique().sort().get(place, null_on_oob=True))
        chosen = decoys.join(names.drop_nulls(), on=["fact_id", "decoy"], how="semi")
        instead = scores.drop("logp").join(chosen.select(*keys, "logp"), on=keys)
        table = check_scores(instead)
        rest = decoys.join(chosen, on=["fact_id", "decoy"], how="anti")
        told.update(fact_verdicts(table, fact_metrics(table), rest)["verdict"])
    yield row_of_counts(f"{source.label}, decoys in their stead", told)


def table_of(heading: str, rows: Iterable[list[str]]) -> Iterator[str]:
    """Lines of Markdown, each as soon as it is known."""
    head = [heading, "facts", "above unknown (%)", *VERDICTS]
    yield from ("| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1))
    yield from ("| " + " | ".join(row) + " |" for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--facts", type=int, default=60, help="facts of a run")
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--sample", type=Path, help="write 80 facts for check into this file, and nothing else")
    parser.add_argument("--placebo", type=Path, nargs="+", help="folders of check; their verdicts, and nothing else")
    parser.add_argument("--out", type=Path, help="Markdown file; printed in any case")
    given = parser.parse_args()
    if given.sample is not None:
        sample_facts(given.sample)
        return
    if given.placebo is not None:
        print("\n".join(table_of("model", (row for folder in given.placebo for row in placebo_rows(folder)))))
        return
    lines = []
    for heading, scorers in (("knows nothing", IGNORANT), ("knows something", KNOWING)):
        for line in table_of(heading, (row_of(scorer, given.facts, given.runs) for scorer in scorers)):
            print(line, flush=True)
            lines.append(line)
        lines.append("")
    if given.out is not None:
        given.out.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
