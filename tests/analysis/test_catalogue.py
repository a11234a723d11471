"""Every analysis against plain loops over rows, and what a study must have for each."""

import re
from itertools import combinations, pairwise, product
from math import ceil, comb, log, sqrt
from statistics import mean

import numpy as np
import polars as pl
import pytest

from anachron.analysis.analyses.alpha import COARSE, alpha_profile
from anachron.analysis.analyses.analysis import WORDS
from anachron.analysis.analyses.comparison import compare
from anachron.analysis.analyses.fewer_contexts import robust_with_fewer
from anachron.analysis.analyses.granularity_variance import granularity_variance
from anachron.analysis.catalogue import ANALYSES, make_tables
from anachron.analysis.metrics import fact_metrics
from anachron.analysis.over_models import mean_over_models
from anachron.analysis.pairs import paired
from anachron.analysis.study import make_study
from support.synthetic_studies import (
    RUNS,
    about_facts,
    synthetic_decoys,
    synthetic_models,
    synthetic_scores,
    synthetic_study,
    synthetic_wordings,
)

GRANULARITIES = ("year", "month", "day")
NO_CHAT = tuple(run for run in RUNS if run[1] == "raw")


@pytest.fixture(scope="module")
def scores():
    table = synthetic_scores(24, seed=3)
    few = pl.col("fact_id").is_in(["fact0003", "fact0007"]) & (pl.col("status") == "incorrect")
    missing_chat = (pl.col("format") == "chat") & pl.col("fact_id").is_in(["fact0001", "fact0002"])
    return table.filter(~few & ~missing_chat)  # facts without incorrect contexts, and missing chat scores


@pytest.fixture(scope="module")
def study(scores):
    beside = {"decoys": [synthetic_decoys(scores)], "wordings": [synthetic_wordings(scores)]}
    return make_study([scores], models=synthetic_models(), resamples=200, top=3, **beside)


@pytest.fixture(scope="module")
def tables(study):
    made, left_out = make_tables(study)
    assert left_out == {}
    return made


@pytest.fixture(scope="module")
def looped(scores):
    """(model, format, prefix) -> fact -> granularity -> (W, R, correct, incorrect rows), by plain loops."""
    found = {}
    for row in scores.iter_rows(named=True):
        run = found.setdefault((row["model"], row["format"], row["prefix"]), {})
        side = run.setdefault(row["fact_id"], {g: {"correct": [], "incorrect": []} for g in GRANULARITIES})
        if row["status"] in ("correct", "incorrect"):
            side[row["granularity"]][row["status"]].append(row)
    metrics = {}
    for run, facts in found.items():
        for fact, sides in facts.items():
            for g, side in sides.items():
                won = [c["logp"] > i["logp"] for c in side["correct"] for i in side["incorrect"]]
                if won:
                    metrics[(*run, fact, g)] = (mean(won), float(all(won)), side["correct"], side["incorrect"])
    return metrics


def global_of(looped):
    """(run, fact) -> (W, R) over the three granularities."""
    found = {}
    for (m, f, p, fact, g), (w, r, _, _) in looped.items():
        found.setdefault((m, f, p, fact), {})[g] = (w, r)
    return {
        key: (mean(w for w, _ in three.values()), min(r for _, r in three.values()))
        for key, three in found.items()
        if len(three) == 3
    }


def rows(table, **values):
    return table.filter(pl.all_horizontal(pl.col(k) == v for k, v in values.items())).to_dicts()


def only(table, **values):
    found = rows(table, **values)
    assert len(found) == 1, found
    return found[0]


def test_names_are_unique_and_every_entry_has_its_words():
    assert len({a.name for a in ANALYSES}) == len(ANALYSES)
    assert all(a.title and a.source and a.name.isidentifier() for a in ANALYSES)


@pytest.mark.full
def test_facts_and_summary_are_those_of_the_metrics(scores, tables, looped):
    key = ["model", "format", "prefix", "fact_id", "granularity"]
    assert tables["facts"].drop(WORDS).sort(key).equals(fact_metrics(scores).drop("subject").sort(key))
    got = {tuple(r[k] for k in key): (r["win_rate"], r["robustness"]) for r in tables["facts"].iter_rows(named=True)}
    assert {k: v for k, v in got.items() if k[-1] != "global"} == {
        k: pytest.approx(v[:2], abs=1e-12) for k, v in looped.items()
    }


def test_the_most_robust_models_are_chosen_by_format_and_prefix(study, looped):
    means = {}
    for (m, f, p, _), (w, r) in global_of(looped).items():
        means.setdefault((f, p), {}).setdefault(m, []).append((r, w))
    for (f, p), models in means.items():
        ranked = sorted(models, key=lambda m: (-mean(r for r, _ in models[m]), -mean(w for _, w in models[m]), m))
        chosen = rows(study.most_robust, format=f, prefix=p)
        assert [r["model"] for r in chosen] == ranked[:3]


# Alpha


def plain_bin(alpha):
    """The bins of the paper, written out as conditions."""
    for name, inside in {
        "<= -5": alpha <= -5, "(-5, -3]": -5 < alpha <= -3, "(-3, -1]": -3 < alpha <= -1,
        "(-1, -0.5)": -1 < alpha < -0.5, "-0.5": alpha == -0.5, "(-0.5, -0.25]": -0.5 < alpha <= -0.25,
        "(-0.25, 0]": -0.25 < alpha <= 0, "(0, 0.25]": 0 < alpha <= 0.25, "(0.25, 0.5)": 0.25 < alpha < 0.5,
        "0.5": alpha == 0.5, "(0.5, 1]": 0.5 < alpha <= 1, "(1, 3]": 1 < alpha <= 3, "(3, 5]": 3 < alpha <= 5,
        "> 5": alpha > 5,
    }.items():  # fmt: skip
        if inside:
            return name
    raise AssertionError(alpha)


@pytest.mark.full
def test_alpha_equals_the_loop(scores, tables):
    cells, priors = {}, {}
    for r in scores.iter_rows(named=True):
        if r["status"] == "none":
            priors[(r["model"], r["format"], r["prefix"], r["fact_id"], r["granularity"])] = r["logp"]
    for r in scores.iter_rows(named=True):
        if r["granularity"] == "year" and r["status"] in ("correct", "incorrect", "transitional"):
            alpha = (0.5 if r["alpha"] >= 0 else -0.5) if r["status"] == "transitional" else r["alpha"]
            lift = r["logp"] - priors[(r["model"], r["format"], r["prefix"], r["fact_id"], "year")]
            for model in (r["model"], "pooled"):
                key = (model, r["format"], r["prefix"], r["status"], plain_bin(alpha))
                cells.setdefault(key, []).append((r["logp"], lift, r["fact_id"]))
    table = tables["alpha"]
    assert table.height == len(cells) and len({k[-1] for k in cells}) > 11
    for r in table.iter_rows(named=True):
        cell = cells[(r["model"], r["format"], r["prefix"], r["status"], r["bin"])]
        assert r["statements"] == len(cell) and r["facts"] == len({f for _, _, f in cell})
        assert r["logp"] == pytest.approx(mean(x for x, _, _ in cell), abs=1e-9)
        assert r["lift"] == pytest.approx(mean(x for _, x, _ in cell), abs=1e-9)
        assert r["low"] <= r["logp"] + 1e-9 and r["logp"] <= r["high"] + 1e-9


def test_alpha_intervals_resample_facts(scores):
    run = scores.filter((pl.col("model") == "fir-7b") & (pl.col("status") == "correct"))
    cell = alpha_profile([run], run.select("fact_id"), resamples=300, seed=4).filter(
        (pl.col("model") == "fir-7b") & (pl.col("bin") == "(0, 0.25]")
    )
    years = run.filter(pl.col("granularity") == "year").to_dicts()
    inside = {}
    for r in years:
        inside.setdefault(r["fact_id"], [])
        if plain_bin(r["alpha"]) == "(0, 0.25]":
            inside[r["fact_id"]].append(r["logp"])
    facts = list(inside.values())
    random = np.random.default_rng(11)
    means = []
    for _ in range(4000):
        drawn = [x for i in random.integers(0, len(facts), len(facts)) for x in facts[i]]
        means.append(mean(drawn))
    low, high = np.quantile(means, [0.025, 0.975])
    assert (cell["low"][0], cell["high"][0]) == pytest.approx((low, high), abs=0.12 * (high - low))


def test_fine_bins_equal_the_loop(scores, tables):
    cells = {}
    for r in scores.iter_rows(named=True):
        if r["status"] in ("correct", "incorrect", "transitional"):
            alpha = (0.5 if r["alpha"] >= 0 else -0.5) if r["status"] == "transitional" else r["alpha"]
            if -5 < alpha <= 5:
                upper = next(k for k in range(-49, 51) if alpha <= k / 10 + 1e-7)
                cells.setdefault((r["model"], r["format"], r["prefix"], r["granularity"], upper), []).append(r["logp"])
    table = tables["alpha_fine"].filter(pl.col("model") != "pooled")
    assert table.height == len(cells)
    for r in table.iter_rows(named=True):
        upper = round(r["alpha"] * 10 + 0.5)
        cell = cells[(r["model"], r["format"], r["prefix"], r["granularity"], upper)]
        assert r["bin"] == f"({(upper - 1) / 10}, {upper / 10}]"
        assert (r["statements"], r["logp"]) == (len(cell), pytest.approx(mean(cell), abs=1e-9))


@pytest.mark.parametrize("alpha", [-6, -5, -3, -1, -0.75, -0.5, -0.25, 0, 0.1, 0.25, 0.3, 0.5, 1, 1.5, 3, 5, 5.2])
def test_a_bin_is_closed_where_the_paper_closes_it(alpha):
    run = pl.DataFrame({
        "model": "m", "format": "raw", "prefix": "none", "fact_id": "f", "granularity": "year", "time": "2000",
        "status": "incorrect", "alpha": float(alpha), "logp": -1.0,
    })  # fmt: skip
    found = alpha_profile([run], run.select("fact_id"))
    assert found["bin"].to_list() == [plain_bin(alpha)] * 2 and plain_bin(alpha) in COARSE  # the run, and pooled
    assert found["lift"].to_list() == [None, None] and found["statements"].to_list() == [1, 1]


# Agreement


def test_agreement_equals_the_loop(study, tables, looped):
    top = set(study.most_robust.rows())
    accuracies, judged = {}, {}
    for m, f, p in top:
        facts = {fact for (m2, f2, p2, fact, _), v in looped.items() if (m, f, p) == (m2, f2, p2) and v[1] == 1}
        for fact in facts:
            contexts = {}
            for g in GRANULARITIES:
                _, _, correct, incorrect = looped[(m, f, p, fact, g)]
                for i in incorrect:
                    year = i["time"][:5] if i["time"].startswith("-") else i["time"][:4]
                    held = all(c["logp"] > i["logp"] for c in correct)
                    contexts.setdefault(year, {})[g] = (held, i["alpha"])
            by_bin = {}
            for three in contexts.values():
                if len(three) == 3:
                    low = next((k / 2 for k in range(-10, 10) if three["year"][1] <= k / 2 + 0.5 + 1e-7), None)
                    if low is not None and three["year"][1] > -5:
                        by_bin.setdefault(low, []).append(tuple(three[g][0] for g in GRANULARITIES))
            for low, cells in by_bin.items():
                pairs = [mean(c[a] == c[b] for c in cells) for a, b in ((0, 1), (0, 2), (1, 2))]
                accuracies.setdefault((f, p, low), []).append(mean(pairs))
                judged.setdefault((f, p, low), []).extend(cells)
    table = tables["agreement"]
    assert table.height == len(accuracies) > 20
    for r in table.iter_rows(named=True):
        key = (r["format"], r["prefix"], r["alpha_low"])
        assert r["alpha_high"] == r["alpha_low"] + 0.5
        assert r["accuracy"] == pytest.approx(mean(accuracies[key]), abs=1e-9)
        assert (r["facts"], r["contexts"]) == (len(accuracies[key]), len(judged[key]))
        pooled = [mean(c[a] == c[b] for c in judged[key]) for a, b in ((0, 1), (0, 2), (1, 2))]
        assert r["accuracy_pooled"] == pytest.approx(mean(pooled), abs=1e-9)
        assert r["matthews"] == (None if (expected := plain_matthews(judged[key])) is None else pytest.approx(expected))


def plain_matthews(cells):
    """Pearson's r of zeros and ones, which is what Matthews' coefficient is."""
    found = []
    for a, b in ((0, 1), (0, 2), (1, 2)):
        x, y = ([float(c[i]) for c in cells] for i in (a, b))
        if len(set(x)) < 2 or len(set(y)) < 2:
            return None
        found.append(float(np.corrcoef(x, y)[0, 1]))
    return mean(found)


# Comparison


def test_formats_and_prefixes_equal_the_loop(tables, looped):
    together = global_of(looped)
    others = ("fir-1b-it", "fir-7b", "fir-7b-it", "oak-3b")
    pairs = {
        "formats": [((m, "raw", "none"), (m, "chat", "none")) for m in ("fir-1b-it", "fir-7b-it")],
        "prefixes": [(("fir-1b", "raw", "none"), ("fir-1b", "raw", "hierarchy"))],
        "comparison": [
            *((("fir-1b", "raw", "none"), (m, "raw", "none")) for m in others),
            (("fir-1b-it", "chat", "none"), ("fir-7b-it", "chat", "none")),
        ],
    }  # fmt: skip
    for name, expected in pairs.items():
        assert tables[name].filter(pl.col("model") != "pooled").height == 4 * len(expected)
        for first, second in expected:
            facts = [key[-1] for key in together if key[:3] == first and (*second, key[-1]) in together]
            r = only(
                tables[name], model=second[0], format=second[1], prefix=second[2], granularity="global",
                against_model=first[0], against_format=first[1], against_prefix=first[2],
            )  # fmt: skip
            assert r["facts"] == len(facts)
            for i, score in enumerate(("win_rate", "robustness")):
                gaps = [together[(*second, fact)][i] - together[(*first, fact)][i] for fact in facts]
                assert r[f"{score}_difference"] == pytest.approx(mean(gaps), abs=1e-12)
                assert r[score] - r[f"against_{score}"] == pytest.approx(mean(gaps), abs=1e-12)
                assert r[f"{score}_difference_low"] <= mean(gaps) + 1e-12
                assert mean(gaps) <= r[f"{score}_difference_high"] + 1e-12
            robust = [(together[(*first, f)][1], together[(*second, f)][1]) for f in facts]
            assert (r["gained"], r["lost"]) == (robust.count((0, 1)), robust.count((1, 0)))


def test_the_average_over_models_equals_the_loop(tables, looped):
    """TimeStress, 4.1: "on average, robustness decreases with the use of the instruction format"."""
    together = global_of(looped)
    rows = tables["formats"].filter(pl.col("model") == "pooled")
    assert rows["granularity"].to_list() == ["year", "month", "day", "global"]
    assert not tables["prefixes"].filter(pl.col("model") == "pooled").height  # one model has a prefix
    assert not tables["comparison"].filter(pl.col("model") == "pooled").height
    r = only(rows, granularity="global")
    assert (r["against_model"], r["format"], r["against_format"], r["models"]) == ("pooled", "chat", "raw", 2)
    gaps, sides = {0: [], 1: []}, {("win_rate", 0): [], ("win_rate", 1): []}
    for model in ("fir-1b-it", "fir-7b-it"):
        raw, chat = ({k[-1]: v for k, v in together.items() if k[:3] == (model, f, "none")} for f in ("raw", "chat"))
        both = [fact for fact in raw if fact in chat]
        for i in (0, 1):
            gaps[i].append(mean(chat[f][i] - raw[f][i] for f in both))
        for side, of in enumerate((raw, chat)):
            sides["win_rate", side].append(mean(of[f][0] for f in both))
    for i, score in enumerate(("win_rate", "robustness")):
        assert r[f"{score}_difference"] == pytest.approx(mean(gaps[i]), abs=1e-12)
        assert r[f"{score}_difference_low"] <= mean(gaps[i]) <= r[f"{score}_difference_high"]
        assert r[f"{score}_difference_p"] is None
    assert (r["against_win_rate"], r["win_rate"]) == pytest.approx(tuple(mean(v) for v in sides.values()), abs=1e-12)


def crossed_draws(data, resamples, seed):
    """Quantiles of a mean over models of a share, subjects and models drawn apart, by loops."""
    random, means = np.random.default_rng(seed), []
    subjects, models = sorted({s for s, _ in data}), sorted({m for _, m in data})
    for _ in range(resamples):
        of_subjects = random.integers(len(subjects), size=len(subjects))
        of_models = random.integers(len(models), size=len(models))
        shares = []
        for m in of_models:
            values = [v for s in of_subjects for v in data.get((subjects[s], models[m]), ())]
            shares.append(sum(values) / len(values))
        means.append(mean(shares))
    return np.quantile(means, [0.025, 0.975])


def test_an_interval_over_models_draws_subjects_and_models():
    random = np.random.default_rng(4)
    data = {(s, m): random.normal(m, 1, 2).tolist() for s in range(8) for m in range(3)}
    rows = [(s, m, v) for (s, m), values in data.items() for v in values]
    subjects, models, values = (np.array(column) for column in zip(*rows, strict=True))
    found = mean_over_models(values, np.ones(len(rows)), subjects, models, resamples=200, seed=3)
    assert found[0] == pytest.approx(np.mean(values))
    assert found[1:] == pytest.approx(crossed_draws(data, 200, 3))
    # models that agree vary by subjects alone; those that do not make it wider than subjects do
    alike = mean_over_models(values - models, np.ones(len(rows)), subjects, models, seed=3)
    assert found[2] - found[1] > 1.5 * (alike[2] - alike[1])


@pytest.mark.full
def test_an_interval_over_models_covers_as_it_says():
    """Draws of a population of models and subjects: at 95 % no fewer than 90 of 100 with ten models."""
    random, hits = np.random.default_rng(1), 0
    for draw in range(120):
        of_model, of_subject = random.normal(0, 1, (10, 1)), random.normal(0, 1, (1, 30))
        values = (of_model + of_subject + random.normal(0, 1, (10, 30))).ravel()
        models, subjects = np.repeat(np.arange(10), 30), np.tile(np.arange(30), 10)
        _, low, high = mean_over_models(values, np.ones(300), subjects, models, resamples=300, seed=draw)
        hits += low <= 0 <= high
    assert hits >= 108


def test_a_mean_ratio_is_of_models_that_have_one():
    over, under = np.array([1.0, 3.0, 5.0]), np.array([1.0, 1.0, 0.0])
    found = mean_over_models(over, under, ["a", "b", "a"], ["m", "m", "n"])
    assert found[0] == 2 and np.isnan(found[1:]).all()
    assert np.isnan(mean_over_models(over, 0 * under, ["a", "b", "a"], ["m", "m", "n"])).all()


def test_a_run_against_itself_differs_in_nothing(study):
    key = ("fir-7b", "raw", "none")
    table = compare(study.facts, [(key, key)])
    for r in table.iter_rows(named=True):
        assert (r["win_rate_difference"], r["win_rate_difference_p"]) == (0, 1)
        assert r["win_rate_difference_high"] == pytest.approx(-r["win_rate_difference_low"]) != 0
        assert (r["gained"], r["lost"], r["mcnemar_p"]) == (0, 0, 1)
    assert paired(study.facts, key, ("nobody", "raw", "none")).height == 0


def test_base_and_instruct_equal_the_loop(tables, looped):
    together = global_of(looped)
    table = tables["base_and_instruct"]
    assert table.height == 2 * 2 * 2  # two pairs, raw and chat, W and R
    for r in table.iter_rows(named=True):
        assert r["base"] == r["model"].removesuffix("-it")
        i = ("win_rate", "robustness").index(r["score"])
        own = {k[-1]: v[i] for k, v in together.items() if k[:3] == (r["model"], r["format"], "none")}
        base = {k[-1]: v[i] for k, v in together.items() if k[:3] == (r["base"], "raw", "none")}
        signs = [(own[f] > base[f]) - (own[f] < base[f]) for f in own if f in base]
        assert (r["facts"], r["win"], r["tie"], r["loss"]) == (
            len(signs), signs.count(1), signs.count(0), signs.count(-1)
        )  # fmt: skip


def test_granularity_variance_equals_the_loop(tables, looped):
    three = {}
    for (m, _, p, fact, g), (_, r, _, _) in looped.items():
        if m == "fir-1b":
            three.setdefault((p, fact), {})[g] = r
    variances = {k: np.var(list(v.values())) for k, v in three.items() if len(v) == 3}
    facts = [f for p, f in variances if p == "none" and ("hierarchy", f) in variances]
    without, having = (mean(variances[(p, f)] for f in facts) for p in ("none", "hierarchy"))
    r = only(tables["granularity_variance"], model="fir-1b", prefix="hierarchy")
    assert r["facts"] == len(facts) and without > 0
    assert (r["variance"], r["variance_without"]) == pytest.approx((having, without))
    assert r["ratio"] == pytest.approx(having / without)
    # TimeStress v1, 4.6: "we then divide this [normal] by the same average variance [with] the few-shot prompt"
    assert r["published_ratio"] == pytest.approx(without / having)
    assert (r["published_low"], r["published_high"]) == pytest.approx((1 / r["high"], 1 / r["low"]), rel=0.02)


def test_the_mean_variance_ratio_is_that_of_the_models(study):
    """TimeStress v1, 4.6: "the mean ratio across all LMs"."""
    prefixed = study.facts.filter(pl.col("model").is_in(["fir-1b", "fir-7b"]), pl.col("prefix") == "none")
    moved = prefixed.with_columns(  # as if with a prefix: other facts are known at other granularities
        prefix=pl.lit("p"), robustness=pl.col("robustness").reverse().over("model", "granularity")
    )
    table = granularity_variance(pl.concat([prefixed, moved]), resamples=200)
    single, pooled = (table.filter(pl.col("models") == n) for n in (1, 2))
    assert single.height == 2 and pooled["model"].to_list() == ["pooled"]
    for name in ("ratio", "published_ratio"):
        assert pooled[name].item() == pytest.approx(single[name].mean())
        low, high = (pooled[name.replace("ratio", end)].item() for end in ("low", "high"))
        assert low < pooled[name].item() < high
    assert pooled["facts"].item() == single["facts"].max()


def test_overlap_and_shared_knowledge_equal_the_loop(study, tables, looped):
    robust = {}
    for (m, f, p, fact), (_, r) in global_of(looped).items():
        robust.setdefault((m, f, p), set())
        if r == 1:
            robust[(m, f, p)].add(fact)
    for r in tables["overlap"].iter_rows(named=True):
        one, two = (robust[(r[n], r["format"], r["prefix"])] for n in ("model", "other"))
        assert (r["robust_both"], r["robust_any"]) == (len(one & two), len(one | two))
        assert r["jaccard"] == (len(one & two) / len(one | two) if one | two else None)
    groups = {"all": list(robust), "top": study.most_robust.rows()}
    for r in tables["shared_knowledge"].iter_rows(named=True):
        sets = [robust[k] for k in groups[r["group"]] if k[1:] == (r["format"], r["prefix"])]
        pairs = [(a, b) for i, a in enumerate(sets) for b in sets[i + 1 :] if a | b]
        assert r["models"] == len(sets)
        assert r["mean_jaccard"] == pytest.approx(mean(len(a & b) / len(a | b) for a, b in pairs))
        assert r["robust_in_all"] == len(set.intersection(*sets)) and r["robust_in_any"] == len(set.union(*sets))
        assert r["share"] == pytest.approx(r["robust_in_all"] / r["robust_in_any"])


# Factors


def plain_factors(fact, present=2021):
    found = {}
    if fact["popularity"] is not None:
        found |= {"popularity": fact["popularity"], "log_popularity": log(fact["popularity"])}
    year = int(re.match(r"-?\d+", fact["start"])[0])
    found["log_distance"] = log(present - year if year > 0 else present - year - 1)
    if fact["other_objects"] is not None:
        found["other_objects"] = fact["other_objects"]
    return found


def test_correlations_equal_scipy_and_statsmodels(study, tables, looped):
    statsmodels = pytest.importorskip("statsmodels.api")
    from scipy.stats import pearsonr

    facts = {f["fact_id"]: plain_factors(f) for f in about_facts(24, 3)}
    subject_of = dict(study.about.select("fact_id", pl.coalesce("subject_label", "fact_id")).rows())
    top = set(study.most_robust.rows())
    checked = 0
    for (group, form), i in [(g, i) for g in (("all", "all"), ("top", "raw"), ("top", "chat")) for i in (0, 1)]:
        for factor in ("popularity", "log_popularity", "log_distance", "other_objects"):
            pairs = [
                (facts[k[-1]][factor], v[i], k[-1])
                for k, v in global_of(looped).items()
                if factor in facts[k[-1]]
                and (group == "all" or k[:3] in top)
                and form in ("all", k[1])
                and k[2] == "none"
            ]
            x, y, clusters = zip(*pairs, strict=True)
            r = only(
                tables["correlations"], models=group, format=form, factor=factor, score=("win_rate", "robustness")[i]
            )
            assert (r["n"], r["facts"]) == (len(pairs), len(set(clusters)))
            expected = pearsonr(x, y)
            assert (r["r"], r["p"]) == pytest.approx((expected.statistic, expected.pvalue), abs=1e-9)
            subjects = [subject_of[fact] for fact in clusters]
            groups = np.unique(subjects, return_inverse=True)[1]
            fit = statsmodels.OLS(np.array(y), statsmodels.add_constant(np.array(x))).fit(
                cov_type="cluster", cov_kwds={"groups": groups}, use_t=False
            )
            enough = len(set(subjects)) >= 10
            assert r["p_clustered"] == pytest.approx(fit.pvalues[1] if enough else np.nan, abs=1e-9, nan_ok=True)
            checked += 1
    assert checked == 24
    assert rows(tables["correlations"], factor="log_duration", score="robustness") == []  # confounded, so left out
    assert rows(tables["correlations"], factor="log_duration", score="win_rate")


def test_durations_are_years_of_the_whole_period():
    from anachron.analysis.analyses.factors import factors

    about = synthetic_study(1).about.with_columns(pl.lit("2001").alias("start"), pl.lit("2004-12-31").alias("end"))
    found = {r["factor"]: r["value"] for r in factors(about, 2021).iter_rows(named=True)}
    assert found["log_duration"] == pytest.approx(log(4), abs=1e-3)
    assert found["log_distance"] == pytest.approx(log(20))


def test_factor_bins_part_the_facts(study, tables, looped):
    top = set(study.most_robust.rows())
    plain = {k: v for k, v in global_of(looped).items() if k[2] == "none"}
    facts = {f["fact_id"]: plain_factors(f) for f in about_facts(24, 3)}
    for group, form in product(("all", "top"), ("raw", "chat")):
        together = {k: v for k, v in plain.items() if group == "all" or k[:3] in top}
        for factor in ("log_popularity", "other_objects"):
            bins = sorted(
                rows(tables["factor_bins"], models=group, format=form, factor=factor, score="robustness"),
                key=lambda r: r["bin"],
            )
            known = {k[-1] for k in together if k[1] == form and factor in facts[k[-1]]}
            assert sum(r["facts"] for r in bins) == len(known)
            assert all(a["value_high"] < b["value_low"] for a, b in pairwise(bins))
            for r in bins:
                inside = [
                    v[1] for k, v in together.items()
                    if k[1] == form and factor in facts[k[-1]]
                    and r["value_low"] <= facts[k[-1]][factor] <= r["value_high"]
                ]  # fmt: skip
                assert r["mean"] == pytest.approx(mean(inside)) and r["low"] <= r["mean"] + 1e-9


def test_relations_equal_the_loop_and_are_ranked(tables, looped):
    labels = {f["fact_id"]: f["relation_label"] for f in about_facts(24, 3)}
    for form in ("raw", "chat"):
        own = rows(tables["relations"], format=form)
        assert [r["rank"] for r in own] == list(range(1, 5))
        assert [r["robustness"] for r in own] == sorted((r["robustness"] for r in own), reverse=True)
        for r in own:
            inside = [
                (k[-1], v)
                for k, v in global_of(looped).items()
                if k[1:3] == (form, "none") and labels[k[-1]] == r["relation"]
            ]
            assert r["facts"] == len({fact for fact, _ in inside})
            assert r["robustness"] == pytest.approx(mean(v[1] for _, v in inside))
            assert r["win_rate"] == pytest.approx(mean(v[0] for _, v in inside))


def test_sizes_and_their_extrapolation(tables):
    assert set(tables["sizes"]["model"]) == {"fir-1b", "fir-1b-it", "fir-7b", "fir-7b-it"}
    line = only(tables["size_to_perfection"], family="fir", instruct=False, format="raw", prefix="none")
    small, large = (only(tables["sizes"], model=m, prefix="none")["robustness"] for m in ("fir-1b", "fir-7b"))
    slope = (large - small) / log(7, 10)
    assert line["models"] == 2 and line["slope"] == pytest.approx(slope)
    assert line["parameters_at_1"] == pytest.approx(10 ** (9 + (1 - small) / slope), rel=1e-6)


# Contexts


def test_margins_at_zero_are_robustness_and_fall_with_the_level(tables):
    summary = {
        tuple(r[k] for k in ("model", "format", "prefix", "granularity")): r for r in tables["summary"].to_dicts()
    }
    for r in rows(tables["margins"], margin=0.0):
        found = summary[tuple(r[k] for k in ("model", "format", "prefix", "granularity"))]
        assert (r["facts"], r["robustness"]) == (found["facts"], pytest.approx(found["robustness"]))
    for _, group in tables["margins"].group_by("model", "format", "prefix", "granularity"):
        assert group.sort("margin")["robustness"].is_sorted(descending=True)


def test_margins_equal_the_loop(tables, looped):
    for level in (0.1, 0.5, 1.0, 2.0):
        own = [
            min(c["logp"] for c in v[2]) - max(i["logp"] for i in v[3]) > level
            for k, v in looped.items()
            if k[:3] == ("fir-7b-it", "raw", "none") and k[-1] == "day"
        ]
        found = only(tables["margins"], model="fir-7b-it", format="raw", granularity="day", margin=level)
        assert found["robustness"] == pytest.approx(mean(own))


def test_r_on_fewer_contexts_is_the_mean_over_all_choices(looped):
    """Against every choice of the contexts of a fact, one by one; with all of them it is R."""
    checked = 0
    for share in (0.2, 0.5, 1.0):
        for key, (_, robust, correct, incorrect) in list(looped.items())[:60]:
            c, i = correct[:5], incorrect[:6]
            run = pl.DataFrame(
                [{"fact_id": "f", "granularity": "year", "status": s, "logp": x["logp"]}
                 for s, side in (("correct", c), ("incorrect", i)) for x in side]
            )  # fmt: skip
            kept, against = ceil(share * len(c)), ceil(share * len(i))
            wins = [
                min(x["logp"] for x in cs) > max(x["logp"] for x in ws)
                for cs in combinations(c, kept) for ws in combinations(i, against)
            ]  # fmt: skip
            (found,) = robust_with_fewer(run, share).to_dicts()
            assert found["expected"] == pytest.approx(mean(wins), abs=1e-12), key
            assert (found["contexts"], found["chance"]) == (
                kept + against,
                pytest.approx(1 / comb(kept + against, kept)),
            )
            if share == 1 and (len(c), len(i)) == (len(correct), len(incorrect)):
                assert found["expected"] == pytest.approx(robust)
            checked += 0 < mean(wins) < 1
    assert checked > 10


def test_with_fewer_contexts_a_tie_is_lost_and_a_fact_without_a_side_has_none():
    base = {"fact_id": "f", "granularity": "day"}
    rows = [base | {"status": s, "logp": x} for s, x in (("correct", 1.0), ("incorrect", 1.0), ("incorrect", 0.0))]
    assert robust_with_fewer(pl.DataFrame(rows), 0.5)["expected"].to_list() == [pytest.approx(0.5)]
    assert robust_with_fewer(pl.DataFrame(rows[:1]), 0.5).height == 0
    assert robust_with_fewer(pl.DataFrame(rows[1:]), 0.5).height == 0


def test_fewer_contexts_end_at_r_and_fall(tables):
    table, summary = tables["fewer_contexts"], tables["summary"]
    key = ("model", "format", "prefix", "granularity")
    known = {tuple(r[k] for k in key): r for r in summary.to_dicts()}
    for r in rows(table, share=1.0):
        found = known[tuple(r[k] for k in key)]
        assert (r["facts"], r["robustness"]) == (found["facts"], pytest.approx(found["robustness"]))
        assert (r["low"], r["high"]) == pytest.approx((found["robustness_low"], found["robustness_high"]))
    for _, group in table.group_by(key):
        assert group.sort("share")["robustness"].is_sorted(descending=True)
        assert group.sort("share")["contexts"].is_sorted()


def test_timelines_are_of_the_farthest_errors(tables, looped):
    absurd = {}
    for (m, f, p, fact, g), (w, _, correct, incorrect) in looped.items():
        if g == "year" and 0.9 <= w < 1:
            weakest = min(c["logp"] for c in correct)
            far = [abs(i["alpha"]) for i in incorrect if i["logp"] >= weakest and abs(i["alpha"]) >= 1]
            if far:
                absurd[(m, f, p, fact)] = max(far)
    table = tables["timelines"]
    worst = sorted(absurd.values(), reverse=True)[:12]
    for rank in range(1, len(worst) + 1):
        own = table.filter(pl.col("rank") == rank)
        key = tuple(own[k][0] for k in ("model", "format", "prefix", "fact_id"))
        assert absurd[key] == pytest.approx(worst[rank - 1])
        _, _, correct, incorrect = looped[(*key, "year")]
        weakest = min(c["logp"] for c in correct)
        assert set(own.filter("lost")["time"]) == {i["time"] for i in incorrect if i["logp"] >= weakest}
        assert set(own.filter("far")["time"]) == {
            i["time"] for i in incorrect if i["logp"] >= weakest and abs(i["alpha"]) >= 1
        }
        assert [int(t) for t in own["time"]] == sorted(int(t) for t in own["time"])
        assert own["prior"].null_count() == 0
    assert table["rank"].max() == len(worst) > 2


def test_data_set_and_years_are_counted_once_a_fact(scores, tables):
    base = scores.filter((pl.col("model") == "fir-7b") & (pl.col("format") == "raw"))
    stats = dict(tables["dataset"].rows())
    assert (stats["facts"], stats["statements"]) == (24, base.height)
    assert (stats["relations"], stats["subjects"], stats["objects"]) == (4, 6, 24)
    years = base.filter(pl.col("granularity") == "year")
    assert stats["correct year contexts a fact"] == pytest.approx(years.filter(status="correct").height / 24)
    spans = tables["years"]
    assert spans.select(pl.sum_horizontal("correct", "incorrect", "transitional").sum()).item() == years.filter(
        pl.col("status").is_in(["correct", "incorrect", "transitional"])
    ).height  # fmt: skip
    assert (spans["first_year"] % 10 == 0).all() and (spans["first_year"] < 0).any()
    for first in (spans["first_year"][0], spans["first_year"][-1]):
        inside = [t for t in years.filter(status="incorrect")["time"].to_list() if first <= int(t) < first + 10]
        assert only(spans, first_year=first)["incorrect"] == len(inside)


# What a study must have


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda t: t.filter(pl.col("format") == "raw"), {"formats": "no model has both raw and chat scores"}),
        (
            lambda t: t.filter(pl.col("prefix") == "none"),
            dict.fromkeys(("prefixes", "granularity_variance"), "no model has scores both with and without a prefix"),
        ),
        (
            lambda t: t.filter(pl.col("model") == "oak-3b"),
            dict.fromkeys(("overlap", "shared_knowledge"), "no two models have runs of one format and prefix")
            | {"comparison": "there is only one model in each format and prefix"}
            | dict.fromkeys(
                ("sizes", "size_to_perfection"), "no model's number of parameters is known (give --models)"
            ),
        ),
        (
            lambda t: t.drop("relation_label"),
            {"relations": "no fact of a run without a prefix has a relation_label and matches at all granularities"},
        ),
        (
            lambda t: t.drop("start", "end", "popularity", "other_objects"),
            dict.fromkeys(
                ("correlations", "factor_bins"), "the score tables have no popularity, start, end or other_objects"
            ),
        ),
        (
            lambda t: t.filter(pl.col("granularity") == "day"),
            dict.fromkeys(("alpha", "far_errors", "timelines"), "no fact has matches at year granularity")
            | {"years": "no date is a year", "transfer": "no fact has matches at two granularities"}
            | dict.fromkeys(
                ("agreement", "sizes", "relations", "overlap"), "no fact has matches at year, month and day"
            ),
        ),
    ],
    ids=["raw only", "no prefix", "one model", "no labels", "nothing known", "days only"],
)
def test_what_is_missing_is_left_out_and_said(scores, change, expected):
    small = make_study([change(scores)], models=synthetic_models(), resamples=100)
    made, left_out = make_tables(small)
    assert expected.items() <= left_out.items()
    assert set(made) | set(left_out) == {a.name for a in ANALYSES} and not set(made) & set(left_out)
    assert all(table.height for table in made.values())


@pytest.mark.full
def test_popularity_alone_may_be_missing(scores):
    made, left_out = make_tables(make_study([scores.drop("popularity")], models=synthetic_models(), resamples=100))
    assert set(left_out) == {"decoys", "decoy_facts", "wordings"}  # of which there are none here
    assert set(made["correlations"]["factor"]) == {"log_distance", "log_duration", "other_objects"}


@pytest.mark.full
def test_order_of_rows_changes_no_number(scores, tables):
    shuffled = scores.sample(fraction=1, shuffle=True, seed=1)
    order = {r: i for i, r in enumerate(scores.select("model", "format", "prefix").unique(maintain_order=True).rows())}
    shuffled = shuffled.sort(
        pl.struct("model", "format", "prefix").map_elements(lambda s: order[tuple(s.values())], pl.Int64)
    )
    again, _ = make_tables(make_study([shuffled], models=synthetic_models(), resamples=200, top=3))
    for name in ("transfer", "margins", "overlap", "shared_knowledge", "years", "dataset", "base_and_instruct"):
        columns = [c for c, kind in again[name].schema.items() if kind == pl.String or c in ("margin", "first_year")]
        one, two = (t[name].sort(columns) for t in (tables, again))
        for column in one.columns:
            if one[column].dtype.is_float():
                np.testing.assert_allclose(one[column].to_numpy(), two[column].to_numpy(), atol=1e-12, equal_nan=True)
            else:
                assert one[column].to_list() == two[column].to_list()


def test_matthews_is_a_correlation():
    from anachron.analysis.statistics import matthews

    metrics = pytest.importorskip("sklearn.metrics")
    random = np.random.default_rng(0)
    x, y = random.integers(0, 2, 60), random.integers(0, 2, 60)
    counts = [int(((x == a) & (y == b)).sum()) for a, b in ((1, 1), (1, 0), (0, 1), (0, 0))]
    assert matthews(*counts) == pytest.approx(metrics.matthews_corrcoef(x, y))
    assert np.isnan(matthews(3, 0, 2, 0)) and matthews(5, 0, 0, 5) == 1 and matthews(0, 5, 5, 0) == -1
    assert matthews(1, 2, 3, 4) == pytest.approx((4 - 6) / sqrt(3 * 4 * 6 * 7))
