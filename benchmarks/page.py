"""Time and size of the report page for synthetic runs of the published data set's size.

    python benchmarks/page.py [--facts 2000] [--models 3] [--out DIR]

Facts have periods, labels and popularities as real ones do; scores are drawn at random around a profile, which packs
worse than a model's. Prints JSON: seconds of each step (the study with its metrics, all tables, the data of the page,
the page as text), bytes of the page and of its parts, and peak memory.
"""

import argparse
import json
import resource
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl

from anachron.analysis.study import make_study
from anachron.core.contexts import sample_contexts
from anachron.core.periods import Period
from anachron.report.outputs import write_tables
from anachron.report.page.data import page_data
from anachron.report.page.render import plotly_source, render

RELATIONS = ("head of state", "member of sports team", "capital", "spouse", "employer", "head coach")


def contexts_of(count: int) -> pl.DataFrame:
    """Every context of every fact, with what is known of the facts."""
    random = Random(0)
    rows = []
    for n in range(count):
        start = random.randint(1700, 2010) if n % 20 else -random.randint(30, 400)
        end = start + random.randint(4, 13)
        end += start < 0 <= end
        fact = {
            "fact_id": f"{random.getrandbits(64):016x}",
            "start": f"{start:05d}-03-05" if start < 0 else f"{start}-03-05",
            "end": str(end),
            "relation_label": RELATIONS[n % len(RELATIONS)],
            "subject_label": f"Subject number {n // 2}",
            "object_label": f"Object number {n}",
            "popularity": round(random.lognormvariate(11, 1), 2),
        }
        for c in sample_contexts(Period(fact["start"], fact["end"]), fact_id=fact["fact_id"]):
            rows.append((*fact.values(), c.granularity, c.time, c.status, c.alpha))
    schema = [*fact, "granularity", "time", "status", "alpha"]
    return pl.DataFrame(rows, schema=schema, orient="row", infer_schema_length=None)


def scores_of(contexts: pl.DataFrame, model: str, skill: float, seed: int) -> pl.DataFrame:
    """One run: facts known to a degree, so W lies between a half and one."""
    draw = np.random.default_rng(seed)
    facts = contexts["fact_id"].rank("dense").to_numpy().astype(int) - 1
    degree = draw.gamma(1.0, skill, facts.max() + 1)[facts]
    level = -8 - draw.gamma(4.0, 2.0, facts.max() + 1)[facts]
    far = np.minimum(np.abs(contexts["alpha"].fill_null(3.0).to_numpy()), 3.0)
    logp = level + degree * (2.0 - far) + draw.normal(0, 0.7, len(facts))
    fixed = [pl.lit(value).alias(name) for name, value in (("model", model), ("format", "raw"), ("prefix", "none"))]
    return contexts.with_columns(*fixed, pl.Series("logp", logp), pl.lit(2).alias("n_tokens"))


def timed(seconds: dict[str, float], name: str, work: Callable[[], Any]) -> Any:
    started = time.perf_counter()
    result = work()
    seconds[name] = round(time.perf_counter() - started, 2)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--facts", type=int, default=2000)
    parser.add_argument("--models", type=int, default=3)
    parser.add_argument("--out", type=Path, help="where to leave the page")
    options = parser.parse_args()
    contexts = contexts_of(options.facts)
    runs = [scores_of(contexts, f"synthetic-{n + 1}", 0.3 * (n + 1), n) for n in range(options.models)]
    seconds: dict[str, float] = {}
    with TemporaryDirectory() as folder:
        study = timed(seconds, "study", lambda: make_study(runs))
        made = timed(seconds, "tables", lambda: write_tables(study, Path(folder), parameters={}, inputs={}))
    data = timed(seconds, "data", lambda: page_data(study, made, [{"name": "synthetic", "record": None}]))
    page = timed(seconds, "render", lambda: render(data)).encode()
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "index.html").write_bytes(page)
    sizes = {name: len(json.dumps(data[name])) for name in ("contexts", "analyses", "facts", "metrics")}
    print(
        json.dumps(
            {
                "facts": options.facts, "runs": len(runs), "scores": contexts.height * len(runs), "seconds": seconds,
                "page_seconds": round(seconds["data"] + seconds["render"], 2), "bytes": len(page),
                "bytes_of": sizes | {"plotly_before_compression": len(plotly_source())},
                "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            },
            indent=2,
        )
    )  # fmt: skip


if __name__ == "__main__":
    main()
