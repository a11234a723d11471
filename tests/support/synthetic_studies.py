"""Synthetic studies for tests: known and unknown facts under several models, with whatever real tables can lack."""

from random import Random

import numpy as np
import polars as pl

from anachron.analysis.models import MODEL_SCHEMA
from anachron.analysis.study import Study, make_study
from anachron.core.contexts import sample_contexts
from anachron.core.periods import Period

RELATIONS = ("head of state", "member of sports team", "capital", "spouse")
# (model, format, prefix, how much it knows)
RUNS = (
    ("fir-1b", "raw", "none", 0.5), ("fir-1b-it", "raw", "none", 0.8), ("fir-1b-it", "chat", "none", 0.7),
    ("fir-1b", "raw", "hierarchy", 0.6), ("fir-7b", "raw", "none", 0.9), ("fir-7b-it", "raw", "none", 1.2),
    ("fir-7b-it", "chat", "none", 1.0), ("oak-3b", "raw", "none", 0.0),
)  # fmt: skip


def about_facts(count, seed=0):
    """Facts with periods from antiquity to 2015; some lack a popularity, one relation has other objects.

    Fact n + 4 of eight has the subject and the relation of fact n.
    """
    random = Random(seed)
    facts = []
    for n in range(count):
        start = random.randint(1850, 2005) if n % 10 else -random.randint(30, 300)
        end = start + random.randint(4, 12)
        end += start < 0 <= end  # there is no year 0
        facts.append({
            "fact_id": f"fact{n:04d}", "start": f"{start}-03-05" if n % 3 else str(start), "end": str(end),
            "relation_id": f"P{n % 4}", "relation_label": RELATIONS[n % 4],
            "subject_label": f"Subject {(n // 8 * 8 + n % 4) // 2}", "object_label": f"Object {n}",
            "popularity": None if n % 6 == 5 else round(random.lognormvariate(5, 2), 2),
            "other_objects": n % 5 if n % 4 == 1 else None, "object_from": None if n % 5 == 4 else str(start - 12),
            "object_until": str(end + 40) if n % 5 == 2 and start > 0 else None,
        })  # fmt: skip
    return facts


def synthetic_scores(count=30, seed=0, runs=RUNS):
    """Score table: a fact is known to a degree; scores are multiples of 1/8, so there are ties; undated rows too."""
    random = Random(seed)
    rows = []
    for fact in about_facts(count, seed):
        contexts = sample_contexts(Period(fact["start"], fact["end"]), seed=seed, fact_id=fact["fact_id"])
        degree = random.choice([0.0, 0.5, 1.0, 3.0])
        for model, form, prefix, skill in runs:
            for context in contexts:
                far = 0.0 if context.alpha is None else abs(context.alpha)
                held = {"correct": 6.0, "transitional": 5.0}.get(context.status, -min(far, 3.0))
                logp = round(8 * (held * skill * degree + random.gauss(0, 1))) / 8 - 12
                rows.append({
                    "model": model, "format": form, "prefix": prefix, **fact, "granularity": context.granularity,
                    "time": context.time, "status": context.status, "alpha": context.alpha, "logp": logp, "n_tokens": 2,
                })  # fmt: skip
    return pl.DataFrame(rows, infer_schema_length=None)


def synthetic_decoys(scores, number=3, seed=0):
    """Decoys of a score table's facts, of which nothing is known; scores are multiples of 1/8."""
    dated = scores.filter(pl.col("status").is_in(["correct", "incorrect"]))
    names = pl.DataFrame({"decoy": [f"Decoy {n}" for n in range(number)]})
    rows = dated.select("model", "format", "prefix", "fact_id", "granularity", "time", "status").join(
        names, how="cross"
    )
    drawn = np.random.default_rng(seed).normal(-12, 1, rows.height)
    return rows.with_columns(pl.Series("logp", np.round(8 * drawn) / 8), pl.lit(2).alias("n_tokens"))


def synthetic_wordings(scores, number=4, seed=1):
    """A score table's facts in other words: each moves every score by a little, in multiples of 1/8."""
    dated = scores.filter(pl.col("status").is_in(["correct", "incorrect"]))
    names = pl.DataFrame({"wording": range(1, number + 1)}, schema={"wording": pl.Int8})
    columns = ("model", "format", "prefix", "fact_id", "granularity", "time", "status", "alpha", "logp")
    rows = dated.select(columns).join(names, how="cross")
    moved = np.round(8 * np.random.default_rng(seed).normal(0, 0.5, rows.height)) / 8
    return rows.with_columns(pl.col("logp") + pl.Series(moved), pl.lit(2).alias("n_tokens"))


def synthetic_models():
    """Families and sizes; oak-3b is of no known size."""
    sizes = {"fir-1b": 1e9, "fir-1b-it": 1e9, "fir-7b": 7e9, "fir-7b-it": 7e9, "oak-3b": None}
    rows = [
        {"model": name, "family": name[:3], "parameters": size, "instruct": None, "base": None}
        for name, size in sizes.items()
    ]
    return pl.DataFrame(rows, schema=MODEL_SCHEMA)


def synthetic_study(count=30, seed=0, runs=RUNS, **options) -> Study:
    scores = synthetic_scores(count, seed, runs)
    beside = {"decoys": [synthetic_decoys(scores)], "wordings": [synthetic_wordings(scores)]}
    given = {"resamples": 200, **beside, **options}
    return make_study([scores], models=synthetic_models(), **given)
