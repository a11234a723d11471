"""Every table of a study as large as the papers': 18 models x 2 formats x 521,000 statements, made up.

Run: python benchmarks/analyses.py [--models 18] [--facts 2003]. Prints JSON: seconds and peak memory of reading the
score tables and of each table, and W and R against plain double loops on a part of the facts, as a ratio.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

CORRECT, INCORRECT, TRANSITIONAL = 11, 73, 2  # year contexts a fact, as in TimeStress (86 and the undated statement)
NAIVE_FACTS = 1000


def contexts(facts: int, seed: int) -> pl.DataFrame:
    """Statements of made-up facts with the shape of the published set: 3 x 87 a fact, periods of 4 to 60 years."""
    random = np.random.default_rng(seed)
    steps = np.linspace(-4.95, 4.95, CORRECT + INCORRECT + TRANSITIONAL)
    tables = []
    for fact in range(facts):
        length, popularity, others = int(random.integers(4, 60)), float(random.lognormal(8, 2)), int(random.integers(9))
        start = int(random.integers(1500, 2010))
        inside, edge = np.abs(steps) < 0.5, np.zeros(steps.size, bool)
        edge[[np.flatnonzero(inside)[0] - 1, np.flatnonzero(inside)[-1] + 1]] = True
        status = np.where(edge, "transitional", np.where(inside, "correct", "incorrect"))
        years = start - 600 + np.arange(steps.size) * 7  # distinct; how they lie does not matter here
        for granularity, ending in (("year", ""), ("month", "-05"), ("day", "-05-17")):
            tables.append(
                pl.DataFrame(
                    {
                        "fact_id": f"fact-{fact:06d}",
                        "granularity": granularity,
                        "time": [None, *(f"{y}{ending}" for y in years)],
                        "status": ["none", *status],
                        "alpha": [None, *steps],
                        "start": f"{start}-01-20",
                        "end": f"{start + length}-01-20",
                        "relation_id": f"P{fact % 86}",
                        "relation_label": f"relation {fact % 86}",
                        "subject_label": f"subject {fact // 2}",
                        "object_label": f"object {fact}",
                        "popularity": popularity,
                        "other_objects": others,
                    },
                    schema_overrides={"alpha": pl.Float64, "time": pl.String},
                )
            )
    return pl.concat(tables)


def write_scores(folder: Path, facts: int, models: int) -> int:
    """One Parquet file a run, named like models of four families and several sizes. Returns the statements of all."""
    asked = contexts(facts, 0)
    alpha = asked["alpha"].fill_null(0).abs().to_numpy()
    held = (asked["status"] == "correct").to_numpy()
    fact = asked["fact_id"].rank("dense").to_numpy().astype(int) - 1
    for number in range(models):
        name = f"family{number % 4}-{1 + number // 8}b" + ("-it" if number // 4 % 2 else "")
        for form in ("raw", "chat"):
            random = np.random.default_rng([number, form == "chat"])
            known = random.gamma(2.0, 1 + number / models, facts)[fact]
            logp = known * (2.0 * held - 0.5 * np.minimum(alpha, 3)) + random.normal(0, 1, alpha.size) - 12
            table = asked.with_columns(
                pl.lit(name).alias("model"),
                pl.lit(form).alias("format"),
                pl.lit("none").alias("prefix"),
                pl.Series("logp", logp),
                pl.lit(3, pl.Int32).alias("n_tokens"),
            )
            table.write_parquet(folder / f"{name}-{form}.parquet")
    return asked.height * models * 2


def measure(folder: Path) -> dict[str, object]:
    """In a process of its own: read, make every table, and say what each cost."""
    from anachron.analysis.catalogue import ANALYSES
    from anachron.analysis.models import MODEL_SCHEMA
    from anachron.analysis.study import make_study
    from anachron.probe.runs import find_sources, read_sources

    started = time.perf_counter()
    files = sorted(folder.glob("*.parquet"))
    names = sorted({file.stem.rpartition("-")[0] for file in files})
    sizes = [{"model": n, "family": n[:7], "parameters": float(n.split("-")[1][:-1]) * 1e9} for n in names]
    study = make_study(
        read_sources(find_sources(files)), models=pl.DataFrame(sizes, schema=MODEL_SCHEMA), sharing="refuse"
    )
    seconds = {"read, check, W and R": time.perf_counter() - started}
    left_out = {}
    for analysis in ANALYSES:
        before = time.perf_counter()
        reason = analysis.missing(study)
        if reason is None:
            analysis.compute(study)
        else:
            left_out[analysis.name] = reason
        seconds[analysis.name] = time.perf_counter() - before
    return {
        "seconds": {name: round(value, 2) for name, value in seconds.items()},
        "seconds_in_all": round(time.perf_counter() - started, 1),
        "peak_memory_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
        "left_out": left_out,
    }


def against_loops(file: Path) -> dict[str, object]:
    """W and R of some facts by plain loops over matches, and by `fact_metrics`: seconds, ratio, largest difference."""
    from anachron.analysis.metrics import fact_metrics

    table = pl.read_parquet(file)
    table = table.filter(
        pl.col("fact_id").is_in(table["fact_id"].unique(maintain_order=True).head(NAIVE_FACTS).implode())
    )
    started = time.perf_counter()
    found = fact_metrics(table)
    quick = time.perf_counter() - started
    started = time.perf_counter()
    sides: dict[tuple[str, str], tuple[list[float], list[float]]] = {}
    for fact, granularity, status, logp in table.select("fact_id", "granularity", "status", "logp").iter_rows():
        if status in ("correct", "incorrect"):
            sides.setdefault((fact, granularity), ([], []))[status == "incorrect"].append(logp)
    looped = {
        key: sum(c > i for c in correct for i in incorrect) / (len(correct) * len(incorrect))
        for key, (correct, incorrect) in sides.items()
    }
    slow = time.perf_counter() - started
    gaps = [
        abs(looped[fact, granularity] - win_rate)
        for fact, granularity, win_rate in found.select("fact_id", "granularity", "win_rate").iter_rows()
        if granularity != "global"
    ]
    return {"facts": NAIVE_FACTS, "loops_s": round(slow, 3), "ours_s": round(quick, 3), "ratio": round(slow / quick, 2),
            "largest_difference": max(gaps)}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=18)
    parser.add_argument("--facts", type=int, default=2003)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure)))
        return
    with tempfile.TemporaryDirectory() as name:
        statements = write_scores(Path(name), options.facts, options.models)
        command = [sys.executable, __file__, "--measure", name]
        found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        loops = against_loops(next(Path(name).glob("*.parquet")))
    print(json.dumps({"statements": statements, "models": options.models, **found, "against_loops": loops}, indent=2))


if __name__ == "__main__":
    main()
