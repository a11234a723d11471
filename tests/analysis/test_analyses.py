"""Transfer and far errors against plain loops over facts and matches."""

from math import sqrt
from random import Random

import polars as pl
import pytest

from anachron.analysis.analyses.far_errors import far_errors, lost_matches
from anachron.analysis.analyses.transfer import transfer
from anachron.analysis.metrics import fact_metrics
from support.intervals import of_shares

GRANULARITIES = ("year", "month", "day")
THRESHOLDS = (0.90, 0.95, 0.97, 0.99)
DISTANCES = (1.0, 2.0, 3.0, 4.0)
RUNS = [("a", "raw"), ("a", "chat"), ("b", "raw"), ("perfect", "raw"), ("perfect", "chat")]  # b has no chat scores
Z = 1.959963984540054


def synthetic(seed, facts=40):
    """Facts that are mostly known, with ties; every seventh lacks incorrect contexts, every ninth has no months."""
    random = Random(seed)
    rows = []
    for model, format in RUNS:
        for fact in range(facts):
            known = random.random() < 0.7
            for granularity in GRANULARITIES:
                if granularity == "month" and fact % 9 == 0:
                    continue
                incorrect = 0 if fact % 7 == 0 else random.choice([8, 25, 60])
                statuses = ["correct"] * random.randint(1, 5) + ["incorrect"] * incorrect + ["transitional", "none"]
                for n, status in enumerate(statuses):
                    strong = status == "correct" and (known or random.random() < 0.5)
                    rows.append({
                        "model": model, "format": format, "prefix": "none",
                        "fact_id": f"f{fact}", "granularity": granularity, "status": status,
                        "time": None if status == "none" else f"{1900 + n}",
                        "alpha": None if status == "none" else random.randint(-20, 20) / 4,  # whole distances occur
                        "logp": score(random, model, status, strong),
                    })  # fmt: skip
    random.shuffle(rows)
    return pl.DataFrame(rows, infer_schema_length=None)


def errors_of(scores, **options):
    facts = fact_metrics(scores)
    return far_errors(lost_matches(scores, facts), facts, **options)


def score(random, model, status, strong):
    if model == "perfect":
        return 1.0 if status == "correct" else -1.0
    return (9.5 if strong else 6.0) + random.randint(0, 2) if status == "correct" else float(random.randint(0, 10))


def looped_losses(scores):
    """(model, format, fact, time) -> (alpha, logp, lost, W of the fact) of year contexts, in row order."""
    by_fact = {}
    rows = [r for r in scores.iter_rows(named=True) if r["granularity"] == "year"]
    for r in rows:
        sides = by_fact.setdefault((r["model"], r["format"], r["fact_id"]), {"correct": [], "incorrect": []})
        if r["status"] in sides:
            sides[r["status"]].append(r["logp"])
    found = {}
    for r in rows:
        key = (r["model"], r["format"], r["fact_id"])
        correct, incorrect = by_fact[key]["correct"], by_fact[key]["incorrect"]
        lost = sum(1 for c in correct if not c > r["logp"])
        if r["status"] == "incorrect" and lost:
            won = sum(1 for c in correct for i in incorrect if c > i)
            found[(*key, r["time"])] = (r["alpha"], r["logp"], lost, won / (len(correct) * len(incorrect)))
    return found


@pytest.mark.parametrize("seed", [0, 1])
def test_lost_matches_equal_the_loop(seed):
    scores = synthetic(seed)
    lost = lost_matches(scores, fact_metrics(scores))
    expected = looped_losses(scores)
    names = ("model", "format", "fact_id", "time", "alpha", "logp", "lost", "win_rate")
    assert lost.select(names).rows() == [(*key, *value) for key, value in expected.items()]
    assert {model for model, *_ in expected} == {"a", "b"}
    assert lost["prefix"].unique().to_list() == ["none"]


def plain_wilson(x, n):
    p = x / n
    middle, reach = 2 * n * p + Z**2, Z * sqrt(Z**2 + 4 * n * p * (1 - p))
    return (middle - reach) / (2 * (n + Z**2)), (middle + reach) / (2 * (n + Z**2))


@pytest.mark.parametrize("seed", [0, 1])
def test_far_errors_equal_the_loop(seed):
    scores = synthetic(seed)
    table = errors_of(scores)
    got = {(r["model"], r["format"], r["threshold"], r["alpha"], r["average"]): r for r in table.iter_rows(named=True)}
    assert len(got) == table.height == (len(RUNS) + 2) * 4 * 4 * 2
    losses = looped_losses(scores)
    alphas = {}
    for r in scores.filter(granularity="year", status="incorrect").iter_rows(named=True):
        alphas.setdefault((r["format"], r["model"], r["fact_id"]), []).append(abs(r["alpha"]))
    qualifying = set()
    for model, format in [*RUNS, ("pooled", "raw"), ("pooled", "chat")]:
        for threshold in THRESHOLDS:
            for distance in DISTANCES:
                far, all_lost = {}, {}
                for (m, f, fact, _), (alpha, _, lost, win_rate) in losses.items():
                    if f == format and model in (m, "pooled") and threshold <= win_rate < 1:
                        all_lost[m, fact] = all_lost.get((m, fact), 0) + lost
                        far[m, fact] = far.get((m, fact), 0) + (lost if abs(alpha) >= distance else 0)
                qualifying.add(len(all_lost))
                mean, pooled = (got[model, format, threshold, distance, a] for a in ("facts", "matches"))
                assert mean["facts"] == pooled["facts"] == len(all_lost)
                if not all_lost:
                    assert [r[n] for r in (mean, pooled) for n in ("share", "low", "high")] == [None] * 6
                    continue
                shares = [far[key] / all_lost[key] for key in all_lost]
                assert mean["share"] == pytest.approx(sum(shares) / len(shares), abs=1e-12)
                expected = of_shares(shares, [fact for _, fact in all_lost])
                assert (mean["low"], mean["high"]) == pytest.approx(expected, abs=1e-9)
                x, n = sum(far.values()), sum(all_lost.values())
                assert pooled["share"] == pytest.approx(x / n, abs=1e-12)
                # what random losses would be: of each fact's incorrect years the share that lies so far away
                by_fact = {key: sum(a >= distance for a in alphas[format, *key]) / len(alphas[format, *key])
                           for key in all_lost}  # fmt: skip
                assert mean["chance"] == pytest.approx(sum(by_fact.values()) / len(by_fact), abs=1e-12)
                expected = sum(by_fact[key] * lost for key, lost in all_lost.items()) / n
                assert pooled["chance"] == pytest.approx(expected, abs=1e-12)
                assert (pooled["low"], pooled["high"]) == pytest.approx(plain_wilson(x, n), abs=1e-9)
    assert 0 in qualifying
    assert max(qualifying) > 10


def test_far_errors_of_models_that_never_lose_are_null():
    scores = synthetic(0).filter(pl.col("model") == "perfect")
    table = errors_of(scores)
    assert set(table["model"]) == {"perfect", "pooled"}
    assert table["facts"].unique().to_list() == [0]
    assert table["share"].null_count() == table["low"].null_count() == table["high"].null_count() == table.height


def test_far_errors_count_the_threshold_and_the_distance_themselves():
    rows = [("correct", 0.0, 5.0), ("incorrect", -2.0, 7.0)] + [("incorrect", 1.0, 1.0)] * 9
    scores = pl.DataFrame([
        {
            "model": "m", "format": "raw", "prefix": "none", "fact_id": "f", "granularity": "year",
            "time": f"{2000 + n}", "status": status, "alpha": alpha, "logp": logp,
        }
        for n, (status, alpha, logp) in enumerate(rows)
    ])  # fmt: skip
    table = errors_of(scores).filter(pl.col("model") == "m", pl.col("average") == "facts")
    assert {(r["threshold"], r["alpha"]): r["share"] for r in table.iter_rows(named=True) if r["facts"]} == {
        (0.90, 1.0): 1.0, (0.90, 2.0): 1.0, (0.90, 3.0): 0.0, (0.90, 4.0): 0.0,
    }  # fmt: skip


def corrected_wilson(x, n):
    p = x / n
    low = (2 * n * p + Z**2 - 1 - Z * sqrt(Z**2 - 2 - 1 / n + 4 * p * (n * (1 - p) + 1))) / (2 * (n + Z**2))
    high = (2 * n * p + Z**2 + 1 + Z * sqrt(Z**2 + 2 - 1 / n + 4 * p * (n * (1 - p) - 1))) / (2 * (n + Z**2))
    return (0 if x == 0 else max(0, low)), (1 if x == n else min(1, high))


@pytest.mark.parametrize("seed", [0, 1])
def test_transfer_equals_the_loop(seed):
    facts = fact_metrics(synthetic(seed))
    known = {
        (r["model"], r["format"], r["fact_id"], r["granularity"]): r["robustness"] == 1
        for r in facts.iter_rows(named=True)
    }
    table = transfer(facts)
    got = {(r["model"], r["format"], r["a"], r["b"]): r for r in table.iter_rows(named=True)}
    assert len(got) == table.height == (len(RUNS) + 2) * 9
    for (model, format, a, b), row in got.items():
        known_b = known_both = 0
        for m, f, fact, granularity in known:
            at_a = (m, f, fact, a)
            if granularity == b and f == format and model in (m, "pooled") and known[m, f, fact, b] and at_a in known:
                known_b += 1
                known_both += known[at_a]
        assert (row["known_both"], row["known_b"]) == (known_both, known_b)
        assert row["rate"] == pytest.approx(known_both / known_b)
        assert (row["low"], row["high"]) == pytest.approx(corrected_wilson(known_both, known_b), abs=1e-9)
        if a == b:
            assert row["rate"] == 1
    assert any(0 < r["rate"] < 1 for r in got.values())


def test_transfer_from_nothing_known_or_missing_is_null():
    facts = fact_metrics(synthetic(0)).filter(pl.col("model") == "a", pl.col("granularity") != "day")
    facts = facts.with_columns(
        pl.when(pl.col("granularity") == "year").then(0.0).otherwise(pl.col("robustness")).alias("robustness")
    )
    for row in transfer(facts).iter_rows(named=True):
        if row["b"] in ("year", "day") or row["a"] == "day":
            assert (row["known_both"], row["known_b"]) == (0, 0)
            assert [row["rate"], row["low"], row["high"]] == [None] * 3
        else:
            assert row["known_b"] > 0
            assert row["rate"] == (1 if row["a"] == "month" else 0)


def test_transfer_keeps_prefixes_apart():
    facts = fact_metrics(synthetic(0)).filter(pl.col("model") == "perfect", pl.col("format") == "raw")
    other = facts.with_columns(pl.lit("hierarchy").alias("prefix"), pl.lit(0.0).alias("robustness"))
    table = transfer(pl.concat([facts, other]))
    assert set(table.filter(pl.col("prefix") == "none")["rate"]) == {1.0}
    assert table.filter(pl.col("prefix") == "hierarchy")["rate"].null_count() == 18
