"""How many nearest entities are found a second, against the full product and against scikit-learn's brute force.

Run: python benchmarks/nearest.py [--repeat 5]. Makes its own statements (synthetic, deterministic): about ten a subject
whose value is an entity, relations and objects by Zipf's law; all candidates have one relation in common, queries are
drawn from them and must not get themselves. Three shapes: ``mixed``; ``people``, where all share some more statements,
so that every candidate meets every query in many features; ``stubs``, where half of the subjects are told apart by
nothing but their id, so that lists end in ties. Prints JSON: queries/s on two threads and on one (best and median of
the repeats), the naive ways on some of the queries in the same process, whether both found the same, peak memory.
"""

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

SIZES = (12_500, 25_000, 50_000)
CASES = [("mixed", size) for size in SIZES] + [("people", SIZES[-1]), ("stubs", SIZES[-1])]
RELATIONS, STATEMENTS, COUNT = 300, 9, 10
NAIVE = 200  # queries that the naive ways get


def statements(shape: str, subjects: int, seed: int = 0) -> pl.DataFrame:
    """``subject, property, value`` of Q1, Q2, ..., each with one statement of P1 and about nine others."""
    rng = np.random.default_rng(seed)
    everyone = np.arange(1, subjects + 1)
    common = [np.ones(subjects, np.int64)]  # the relation that all candidates have
    if shape == "people":  # instance of human, sex, citizenship, occupation
        common += [np.full(subjects, p) for p in (2, 3, 4, 5)]
    others = max(1, STATEMENTS + 1 - len(common))
    own = np.repeat(everyone, np.maximum(1, rng.poisson(others, subjects)))
    shares = 1 / np.arange(1, RELATIONS + 1)
    drawn = rng.choice(RELATIONS, len(own), p=shares / shares.sum()) + 6
    subject = np.concatenate([everyone] * len(common) + [own])
    relation = np.concatenate([*common, drawn])
    objects = (10 ** rng.uniform(0.5, 4.5, RELATIONS + 6)).astype(int)  # how many different ones a relation has
    objects[1:6] = 2000, 1, 2, 150, 800
    value = np.exp(rng.random(len(subject)) * np.log(objects[relation] + 1)).astype(int)  # Zipf: P(value) ~ 1 / value
    if shape == "stubs":
        kept = (subject % 2 == 0) | (np.arange(len(subject)) < subjects)
        subject, relation, value = subject[kept], relation[kept], value[kept]
        value = np.where(subject % 2 == 1, 1 + subject % 20, value)  # twenty kinds of stubs
    return pl.DataFrame({"subject": subject, "property": relation, "value": 10**6 * relation + value}).select(
        pl.format("Q{}", "subject").alias("subject"),
        pl.format("P{}", "property").alias("property"),
        pl.format("Q{}", "value").alias("value"),
    )


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


def peak_mb() -> int:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def measure(shape: str, candidates: int, queries: int, repeat: int) -> dict[str, Any]:
    """One case, in this process."""
    from sklearn.neighbors import NearestNeighbors

    from anachron.wikidata.updates.features import features_of
    from anachron.wikidata.updates.nearest import columns_of, document_frequencies, nearest, vectors

    rows = statements(shape, candidates)
    ids = pl.Series([f"Q{n}" for n in range(1, candidates + 1)])
    chosen = np.random.default_rng(1).choice(candidates, queries, replace=False)
    documents, features = timed(lambda: features_of(rows.lazy()))
    counting, weights = timed(lambda: document_frequencies([features]))
    columns = columns_of(features, ids.gather(chosen), weights)
    left = vectors(features, ids.gather(chosen), weights, columns)
    weighing, right = timed(lambda: vectors(features, ids, weights, columns))
    excluded = [{int(n)} for n in chosen]
    before = peak_mb()
    seconds: dict[str, list[float]] = {}
    found: dict[str, pl.DataFrame] = {}

    def fully() -> np.ndarray:
        products = (left[:NAIVE] @ right.T).toarray()
        products[np.arange(NAIVE), chosen[:NAIVE]] = 0
        best = np.argpartition(-products, COUNT, axis=1)[:, :COUNT]
        return -np.sort(-np.take_along_axis(products, best, axis=1), axis=1)

    def brute() -> np.ndarray:
        search = NearestNeighbors(n_neighbors=COUNT + 1, algorithm="brute", metric="cosine", n_jobs=1).fit(right)
        return search.kneighbors(left[:NAIVE])[0]

    for _ in range(repeat):  # in turns, so that what else runs on the machine hits all of them
        for threads in (2, 1):
            name = f"nearest, {threads} threads"
            took, found[name] = timed(
                lambda threads=threads: nearest(left, right, ids, COUNT, excluded, threads=threads)  # type: ignore[misc]
            )
            seconds.setdefault(name, []).append(took / queries)
    after = peak_mb()
    for _ in range(max(2, repeat // 2)):
        took, expected = timed(fully)
        seconds.setdefault("full product and argpartition", []).append(took / NAIVE)
        if (
            shape == "mixed"
        ):  # its rows hold no length of one within the columns, which changes its cosine, not its cost
            seconds.setdefault("scikit-learn, brute cosine", []).append(timed(brute)[0] / NAIVE)
    two, one = found["nearest, 2 threads"], found["nearest, 1 threads"]
    mine = np.zeros((NAIVE, COUNT))
    some = two.filter(pl.col("query") < NAIVE).with_columns(pl.int_range(pl.len()).over("query").alias("place"))
    mine[some["query"].to_numpy(), some["place"].to_numpy()] = some["similarity"].to_numpy()
    postings = np.bincount(right.indices, minlength=right.shape[1])
    return {
        "shape": shape,
        "candidates": candidates,
        "queries": queries,
        "postings_a_query": round(float(postings[left.indices].sum()) / queries),
        "queries_per_s": {
            n: {"best": round(1 / min(s)), "median": round(1 / statistics.median(s))} for n, s in seconds.items()
        },
        "times_as_fast_on_one_thread_as": {
            n: round(statistics.median(s) / statistics.median(seconds["nearest, 1 threads"]), 1)
            for n, s in seconds.items()
            if not n.startswith("nearest")
        },
        "same_on_one_and_two_threads": two.equals(one),
        "same_similarities_as_full_product": bool(np.allclose(mine, expected, rtol=0, atol=1e-11)),
        "seconds": {"documents": round(documents, 2), "frequencies": round(counting, 2), "vectors": round(weighing, 2)},
        "peak_mb": {"before": before, "with nearest": after},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=4000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        shape, size = options.measure
        print(json.dumps(measure(shape, int(size), options.queries, options.repeat)))
        return
    cases = []
    for shape, size in CASES:  # each in a process of its own, for its memory
        command = [sys.executable, __file__, "--queries", str(options.queries), "--repeat", str(options.repeat)]
        command += ["--measure", shape, str(size)]
        cases.append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout))
    about = {"cores": os.cpu_count(), "python": platform.python_version(), "count": COUNT}
    print(json.dumps({"machine": about, "cases": cases}, indent=2))


if __name__ == "__main__":
    main()
