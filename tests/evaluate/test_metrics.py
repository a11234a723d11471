"""Metrics of updates against plain loops over random tables, and against numbers worked out by hand."""

import subprocess
import sys
from math import exp, inf, log, nan, sqrt

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t

from anachron.core.errors import ConfigError, DataError
from anachron.evaluate.by_popularity import bleedover_bins, bleedover_by_popularity, by_popularity
from anachron.evaluate.metrics import (
    BOUNDED,
    METRICS,
    SHARES,
    SUCCESSES,
    geometric_mean,
    harmonic_mean,
    summarise,
    update_metrics,
)
from anachron.evaluate.results import NEIGHBOURS, TARGETS, UPDATES
from support.intervals import exact, of_shares

KEYS = ("mode", "method", "case_id")


def target(kind="update", number=0, new=0.5, old=0.25, **cells):
    return {
        "method": "rome", "mode": "independent", "case_id": "1", "kind": kind, "prompt_number": number,
        "new_before": 0.125, "old_before": 0.5, "new_after": new, "old_after": old, "accuracy_before": 0.25,
        "accuracy_after": 0.5,
    } | cells  # fmt: skip


def neighbour(kind="nearest", number=0, before=0.5, after=0.5, **cells):
    return {
        "method": "rome", "mode": "independent", "case_id": "1", "kind": kind, "number": number, "before": before,
        "after": after, "new_before": 0.0625, "new_after": 0.375, "accuracy_before": 1.0, "accuracy_after": 1.0,
        "dist": 0.5, "popularity": 3.0,
    } | cells  # fmt: skip


def update(**cells):
    return {
        "method": "rome", "mode": "independent", "case_id": "1", "status": "done", "reason": None, "seconds": 2.0,
        "fluency_before": 5.0, "fluency": 4.0, "relation": "P35", "popularity": 7.0,
    } | cells  # fmt: skip


def tables(targets=(), neighbours=(), updates=()):
    return (
        pl.DataFrame(list(targets), schema=TARGETS),
        pl.DataFrame(list(neighbours), schema=NEIGHBOURS),
        pl.DataFrame(list(updates), schema=UPDATES),
    )


def measured(*parts, method="rome"):
    """The rows of a method, as dictionaries."""
    return update_metrics(*tables(*parts)).filter(pl.col("method") == method).to_dicts()


def test_an_update_by_hand():
    targets = [
        target(),
        target("generalization", 0, 0.75, 0.25),
        target("generalization", 1, 0.125, 0.25),
        target("generalization", 2, 0.25, 0.25),
        target("generalization", 3, 1.0, 0.0, accuracy_after=1.0),
    ]
    neighbours = [
        neighbour(after=0.25), neighbour(number=1, after=1.0), neighbour("random", 0, 0.5, 0.375),
    ]  # fmt: skip
    (row,) = measured(targets, neighbours, [update()])
    assert row == {
        "mode": "independent", "method": "rome", "variant": "plain", "case_id": "1", "status": "done",
        "reason": None, "relation": "P35", "popularity": 7.0, "scenario": "ReplaceObject", "subject": "1",
        "efficacy_difference": 0.25, "efficacy_success": 1.0,
        "generalization_difference": (0.5 - 0.125 + 0 + 1) / 4, "generalization_success": 0.5,
        "bleedover_nearest": 0.125, "bleedover_random": 0.125, "bleedover_nearest_absolute": 0.375,
        "bleedover_random_absolute": 0.125, "neighbourhood_difference": (-0.125 + 0.625) / 2,
        "neighbourhood_success": 0.5, "efficacy_accuracy": 0.5, "efficacy_exact": 0.0, "generalization_accuracy": 0.625,
        "generalization_exact": 0.25, "neighbourhood_accuracy": 1.0, "neighbourhood_exact": 1.0, "fluency": 4.0,
        "seconds": 2.0,
    }  # fmt: skip


def test_success_by_popularity_of_the_subject():
    """WikiFactDiff, A.1: the index is there to study how results vary with it. Against a plain loop."""
    views = [5.0, 1.0, 9.0, 1.0, 7.0, 3.0, None]
    keys = [{"case_id": str(n)} for n in range(len(views))]
    targets = [target(new=0.9 if n % 3 else 0.1, **key) for n, key in enumerate(keys)]
    updates = [update(popularity=v, subject=f"s{n}", **key) for n, (v, key) in enumerate(zip(views, keys, strict=True))]
    found = by_popularity(update_metrics(*tables(targets, [], updates)), bins=3)
    rome = found.filter(pl.col("method") == "rome")
    expected = {1: [1, 3], 2: [5, 0], 3: [4, 2]}  # 1, 1 | 3, 5 | 7, 9
    assert rome.select("popularity_bin", "popularity_low", "popularity_high").rows() == [
        (1, 1.0, 3.0), (2, 3.0, 7.0), (3, 7.0, 9.0),
    ]  # fmt: skip
    for row in rome.to_dicts():
        members = expected[row["popularity_bin"]]
        won = [1.0 if n % 3 else 0.0 for n in members]
        assert (row["done"], row["efficacy_success_n"]) == (2, 2)
        assert row["efficacy_success"] == sum(won) / 2
    clean = found.filter(pl.col("method") == "unedited")
    assert clean["done"].to_list() == [2, 2, 2] and (clean["efficacy_success"] == 0).all()
    with pytest.raises(DataError, match="popularity of none of 1 subjects"):
        by_popularity(update_metrics(*tables([target()], [], [update(popularity=None)])))
    with pytest.raises(ConfigError, match="bins is 0"):
        by_popularity(found.drop("popularity_bin", "popularity_low", "popularity_high"), bins=0)


def test_bleedover_by_the_popularity_of_neighbours():
    """WikiFactDiff, 5.2: the mean bleedover of triples by the popularity of their subject. Against a plain loop."""
    views = {"nearest": [1.0, 2.0, 8.0, 9.0, None], "random": [5.0, 5.0, 5.0, 6.0, 7.0]}
    facts = [
        neighbour(case_id=case, kind=kind, number=n, popularity=v, before=0.5, after=0.5 - n / 10 + (case == "b") / 20,
                  dist=None)
        for case in "ab" for kind, of_kind in views.items() for n, v in enumerate(of_kind)
    ]  # fmt: skip
    _, table, updates = tables([], facts, [update(case_id=case, subject=case) for case in "ab"])
    found = bleedover_by_popularity(table, updates, bins=2)
    expected = {("nearest", 1): [0, 1], ("nearest", 2): [2, 3], ("random", 1): [0, 1, 2, 3, 4]}
    assert found.select("kind", "popularity_bin").rows() == list(expected)
    assert found.select("popularity_low", "popularity_high").rows() == [(1, 8), (8, 9), (5, 7)]
    for row in found.to_dicts():
        numbers = expected[row["kind"], row["popularity_bin"]]
        of_updates = [mean(max(0.0, n / 10 - shift) for n in numbers) for shift in (0, 1 / 20)]
        assert row["bleedover"] == pytest.approx(mean(of_updates))
        half = float(t.ppf(0.975, 1)) * abs(of_updates[0] - of_updates[1]) / 2
        assert row["bleedover_high"] - row["bleedover_low"] == pytest.approx(2 * half)
        assert (row["n"], row["updates"]) == (2 * len(numbers), 2)
    assert not bleedover_by_popularity(tables([], [neighbour(popularity=None)])[1]).height
    with pytest.raises(ConfigError, match="bins is 0"):
        bleedover_by_popularity(table, bins=0)


def test_a_low_bleedover_does_not_hide_that_neighbours_now_prefer_the_new_object():
    """True objects hardly lose, but the new one overtakes half of them: neighbourhood success falls from 1 to 1/2."""
    facts = [neighbour(number=n, before=0.3, after=0.297, new_before=0.1, new_after=0.2 + 0.1 * (n % 2)) for n in "0123"
             for n in [int(n)]]  # fmt: skip
    clean, edited = update_metrics(*tables([target(), target("generalization")], facts, [update()])).to_dicts()
    assert edited["bleedover_nearest"] == pytest.approx(0.003)
    assert (clean["neighbourhood_success"], edited["neighbourhood_success"]) == (1.0, 0.5)
    assert edited["neighbourhood_difference"] == pytest.approx((2 * 0.097 - 2 * 0.003) / 4)


def test_rounding_may_change_a_token_of_the_clean_model_and_the_first_method_counts():
    targets = [target(accuracy_before=1.0), target(method="ft", accuracy_before=0.5)]
    clean, *_ = update_metrics(*tables(targets, [], [update(), update(method="ft")])).to_dicts()
    assert clean["efficacy_accuracy"] == clean["efficacy_exact"] == 1.0


def test_a_neighbour_of_which_the_new_object_is_true_does_not_count():
    facts = [neighbour(), neighbour(number=1, new_before=None, new_after=None)]
    (row,) = measured([target()], facts, [update()])
    assert (row["neighbourhood_success"], row["bleedover_nearest_absolute"]) == (1.0, 0.0)
    (row,) = measured([target()], facts[1:], [update()])
    assert row["neighbourhood_success"] is None


@pytest.mark.parametrize(
    ("values", "mean"),
    [([0.5, 1.0, 0.25], 3 / 7), ([1.0, 1.0, 1.0], 1), ([1.0, 0.0, 1.0], 0), ([1.0, None, 1.0], None), ([], None)],
)
def test_harmonic_mean(values, mean):
    assert harmonic_mean(values) == (None if mean is None else pytest.approx(mean))


def test_the_score_is_that_of_the_published_row_of_rome():
    """GPT-2 XL edited by ROME (Meng and others, 2022, table 4): ES 100.0, PS 96.4, NS 75.4 give S 89.2."""
    assert harmonic_mean([100.0, 96.4, 75.4]) == pytest.approx(89.2, abs=0.05)


def test_a_tie_is_no_success():
    (row,) = measured([target(new=0.3, old=0.3), target("generalization", 0, 0.3, 0.3)], [], [update()])
    assert (row["efficacy_difference"], row["efficacy_success"], row["generalization_success"]) == (0.0, 0.0, 0.0)
    (row,) = measured([target(new=0.3, old=float(np.nextafter(0.3, 0)))], [], [update()])
    assert row["efficacy_success"] == 1.0


def test_the_clean_model_comes_first_and_once_whatever_the_number_of_methods():
    targets = [target(method=m) for m in ("rome", "ft")]
    facts = [neighbour(method=m, after=0.0) for m in ("rome", "ft")]
    found = update_metrics(*tables(targets, facts, [update(method=m) for m in ("rome", "ft")]))
    assert found["method"].to_list() == ["unedited", "rome", "ft"]
    clean = found.row(0, named=True)
    assert (clean["efficacy_difference"], clean["efficacy_success"]) == (0.125 - 0.5, 0.0)
    assert (clean["bleedover_nearest"], clean["bleedover_nearest_absolute"]) == (0.0, 0.0)
    assert clean["bleedover_random"] is None  # no random neighbour was asked
    assert (clean["fluency"], clean["seconds"], clean["status"]) == (5.0, 0.0, "done")
    assert (clean["relation"], clean["popularity"]) == ("P35", 7.0)


def test_without_an_old_object_there_is_no_difference_and_the_count_says_so():
    unknown = {"old_before": None, "old": None}
    targets = [target(**unknown), target(case_id="2"), target("generalization", 0, **unknown)]
    found = update_metrics(*tables(targets, [], [update(), update(case_id="2", seconds=None)]))
    own = found.filter(pl.col("method") == "rome")
    assert own["efficacy_difference"].to_list() == [None, 0.25]
    assert own["efficacy_success"].to_list() == [None, 1.0]
    assert own["generalization_success"].null_count() == 2
    row = summarise(found).row(1, named=True)
    assert (row["efficacy_difference"], row["efficacy_difference_n"]) == (0.25, 1)
    assert row["efficacy_difference_low"] is None  # one update says nothing about the spread
    assert (row["generalization_success"], row["generalization_success_n"]) == (None, 0)
    assert (row["seconds"], row["seconds_n"], row["done"], row["failed"]) == (2.0, 1, 2, 0)


def test_a_failed_update_is_counted_and_never_given_the_clean_models_score():
    lost = {"case_id": "2", "new": None, "old": None, "accuracy_after": None}
    facts = [neighbour(case_id="2", after=None, new_after=None, accuracy_after=None), neighbour(number=1, after=0.4)]
    rows = [update(), update(case_id="2", status="failed", reason="out of memory", fluency=None, seconds=9.0)]
    found = update_metrics(*tables([target(), target(**lost)], facts, rows))
    failed = found.filter(pl.col("status") == "failed").row(0, named=True)
    assert [failed[metric] for metric in METRICS] == [None] * len(METRICS)
    assert failed["reason"] == "out of memory"
    clean, rome = summarise(found).to_dicts()
    assert (rome["done"], rome["failed"], rome["seconds"], rome["efficacy_difference_n"]) == (1, 1, 2.0, 1)
    assert (clean["done"], clean["failed"], clean["efficacy_difference_n"]) == (2, 0, 2)


def test_seconds_of_edits_made_together_have_no_interval():
    """Sixteen share one time and a seventeenth has its own: 0 would be wrong, and so would the spread of 17 numbers."""
    apart = [update(case_id=str(n), seconds=1 + n / 8) for n in range(3)]
    shared = [update(method="ft", case_id=str(n), seconds=0.25 if n < 16 else 0.5) for n in range(17)]
    found = {row["method"]: row for row in summarise(update_metrics(*tables([], [], apart + shared))).to_dicts()}
    assert (found["rome"]["seconds_low"], found["rome"]["seconds_high"]) == (
        pytest.approx(1.125 - 4.3027 * 0.125 / sqrt(3), abs=1e-4),
        pytest.approx(1.125 + 4.3027 * 0.125 / sqrt(3), abs=1e-4),
    )  # fmt: skip
    assert found["ft"]["seconds"] == pytest.approx((16 * 0.25 + 0.5) / 17) and found["ft"]["seconds_n"] == 17
    assert all(found[name][f"seconds_{end}"] is None for name in ("ft", "unedited") for end in ("low", "high"))
    assert found["ft"]["fluency_low"] == found["ft"]["fluency_high"] == 4.0  # the same, but each of its own


def test_all_updates_may_have_failed():
    row = summarise(update_metrics(*tables([], [], [update(status="failed", fluency=None)]))).row(1, named=True)
    assert (row["done"], row["failed"]) == (0, 1)
    assert {row[metric] for metric in METRICS} == {None}


PROBABILITY = st.sampled_from([0.0, 0.125, 0.3, 0.5, 0.875, 1.0])
MAYBE = st.none() | PROBABILITY


@st.composite
def runs(draw):
    """Tables of a random run: two modes, two methods, any number missing."""
    targets, neighbours, updates = [], [], []
    for mode in ("independent", "batch"):
        for case in range(draw(st.integers(1, 4))):
            prompts = [("update", 0, draw(MAYBE), draw(MAYBE))]
            prompts += [("generalization", n, draw(MAYBE), draw(MAYBE)) for n in range(draw(st.integers(0, 4)))]
            facts = [(k, n, *(draw(MAYBE) for _ in range(3))) for k in ("nearest", "random") for n in range(2)]
            fluent = draw(MAYBE)
            for method in ("ft", "rome"):
                key = {"method": method, "mode": mode, "case_id": str(case)}
                failed = draw(st.integers(0, 4)) == 0
                after = st.none() if failed else MAYBE
                updates.append(
                    update(**key, status="failed" if failed else "done", fluency_before=fluent, fluency=draw(after),
                           seconds=draw(MAYBE))
                )  # fmt: skip
                for kind, number, new, old in prompts:
                    targets.append(
                        target(
                            kind, number, draw(after), draw(after), new_before=new, old_before=old,
                            accuracy_before=1.0 if new else 0.5, accuracy_after=draw(after), **key,
                        )
                    )  # fmt: skip
                for kind, number, before, new, dist in facts:
                    neighbours.append(
                        neighbour(
                            kind,
                            number,
                            before,
                            draw(after),
                            new_before=new,
                            new_after=draw(after),
                            accuracy_before=0.5,
                            accuracy_after=draw(after),
                            dist=dist,
                            popularity=draw(MAYBE),
                            **key,
                        )
                    )
    return targets, neighbours, updates


def mean(values):
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def minus(a, b):
    return None if a is None or b is None else a - b


def by_loop(targets, neighbours, row, side):
    """Metrics of one update, one number at a time. side: after, or before for the clean model."""
    same = [t for t in targets if all(t[key] == row[key] for key in KEYS)]
    facts = [n for n in neighbours if all(n[key] == row[key] for key in KEYS)]
    found = {}
    for name, kind in (("efficacy", "update"), ("generalization", "generalization")):
        gaps = [minus(t[f"new_{side}"], t[f"old_{side}"]) for t in same if t["kind"] == kind]
        found[f"{name}_difference"] = mean(gaps)
        found[f"{name}_success"] = mean([None if gap is None else float(gap > 0) for gap in gaps])
    for kind in ("nearest", "random"):
        changes = [minus(n[side], n["before"]) for n in facts if n["kind"] == kind]
        found[f"bleedover_{kind}"] = mean([None if c is None else -min(c, 0) for c in changes])
        found[f"bleedover_{kind}_absolute"] = mean([None if c is None else abs(c) for c in changes])
    for name, rows, kind in (
        ("efficacy", same, "update"), ("generalization", same, "generalization"), ("neighbourhood", facts, "nearest"),
    ):  # fmt: skip
        shares = [row[f"accuracy_{side}"] for row in rows if row["kind"] == kind]
        found[f"{name}_accuracy"] = mean(shares)
        found[f"{name}_exact"] = mean([None if share is None else float(share == 1) for share in shares])
    leads = [minus(n[side], n[f"new_{side}"]) for n in facts if n["kind"] == "nearest"]
    found["neighbourhood_difference"] = mean(leads)
    found["neighbourhood_success"] = mean([None if lead is None else float(lead > 0) for lead in leads])
    found["fluency"] = row["fluency" if side == "after" else "fluency_before"]
    found["seconds"] = row["seconds"] if side == "after" else 0.0
    return dict.fromkeys(METRICS) if side == "after" and row["status"] == "failed" else found


@given(runs())
def test_metrics_and_their_summary_against_loops(run):
    targets, neighbours, updates = run
    found = update_metrics(*tables(*run))
    expected = [(row["mode"], row["method"], row, "after") for row in updates]
    expected += [(row["mode"], "unedited", row, "before") for row in updates if row["method"] == "ft"]
    assert found.height == len(expected)
    rows = {tuple(row[key] for key in KEYS): row for row in found.to_dicts()}
    groups = {}
    for mode, method, row, side in expected:
        metrics = by_loop(targets, neighbours, row, side)
        groups.setdefault((mode, method), []).append(metrics)
        for name, value in metrics.items():
            assert rows[mode, method, row["case_id"]][name] == pytest.approx(value, abs=1e-12), name
    summary = {(row["mode"], row["method"]): row for row in summarise(found).to_dicts()}
    order = [(mode, method) for mode in ("independent", "batch") for method in ("unedited", "ft", "rome")]
    assert list(summary) == order
    for key, group in groups.items():
        for name in METRICS:
            check_summary(summary[key], name, [metrics[name] for metrics in group if metrics[name] is not None])
        successes = [mean([metrics[name] for metrics in group]) for name in SUCCESSES]
        expected = None if None in successes else 0.0 if 0 in successes else 3 / sum(1 / s for s in successes)
        assert summary[key]["score"] == pytest.approx(expected)
        assert summary[key]["score_n"] == sum(all(m[name] is not None for name in SUCCESSES) for m in group)


def check_summary(row, name, values):
    n = len(values)
    assert row[f"{name}_n"] == n
    assert row[name] == pytest.approx(mean(values), abs=1e-12)
    together = name == "seconds" and len(set(values)) < n
    bounded = name in BOUNDED
    if n == 0 or together or (n == 1 and not bounded):
        assert row[f"{name}_low"] is None and row[f"{name}_high"] is None
        return
    centre = sum(values) / n
    variance = sum((v - centre) ** 2 for v in values) / (n - 1) if n > 1 else 0.0
    if bounded:
        low, high = of_shares(values)
        if name in SHARES:
            assert (low, high) == pytest.approx(exact(sum(values), n), abs=1e-9)
    else:
        low, high = (centre + sign * float(t.ppf(0.975, n - 1)) * sqrt(variance / n) for sign in (-1, 1))
    assert (row[f"{name}_low"], row[f"{name}_high"]) == (pytest.approx(low, abs=1e-9), pytest.approx(high, abs=1e-9))


def test_a_refusal_of_bins_counts_a_neighbour_once_for_all_methods_and_modes():
    facts = [
        neighbour(number=number, method=method, mode=mode, dist=None)
        for number in (0, 1) for method in ("ft", "rome") for mode in ("independent", "batch")
    ]  # fmt: skip
    with pytest.raises(
        DataError, match=r"none of 2 neighbours has scores, dist and popularity \(dist of none is known"
    ):
        bleedover_bins(tables(neighbours=facts)[1])


@given(runs(), st.integers(1, 4), st.integers(1, 4))
def test_bins_against_loops(run, similar, popular):
    facts = [n for n in run[1] if None not in (n["before"], n["after"], n["dist"], n["popularity"])]
    table = tables(neighbours=run[1])[1]
    if not facts:
        with pytest.raises(DataError, match="neighbours has scores, dist and popularity"):
            bleedover_bins(table)
        return
    found = bleedover_bins(table, similarity_bins=similar, popularity_bins=popular)
    assert found["n"].sum() == len(facts)
    assert found["similarity_bin"].max() <= similar and found["popularity_bin"].max() <= popular
    for row in found.to_dicts():
        own = [n for n in facts if (n["mode"], n["method"]) == (row["mode"], row["method"])]
        cell = [
            n for n in own
            if within(row, "similarity", 1 - n["dist"], found) and within(row, "popularity", n["popularity"], found)
        ]  # fmt: skip
        assert row["n"] == len(cell)
        overall = mean([-min(n["after"] - n["before"], 0) for n in own])
        assert row["bleedover"] == pytest.approx(mean([-min(n["after"] - n["before"], 0) for n in cell]), abs=1e-12)
        expected = row["bleedover"] / overall if overall else None
        assert row["normalised"] == pytest.approx(expected, abs=1e-9)
    for _, group in found.group_by("mode", "method"):
        if group["normalised"].null_count() == 0:
            assert (group["normalised"] * group["n"]).sum() / group["n"].sum() == pytest.approx(1)


def within(row, name, value, found):
    """A bin holds its lower edge; the last one its upper edge too."""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return low <= value < high or (value == high == found[f"{name}_high"].max() and low == found[f"{name}_low"].max())


def test_bins_are_shared_by_the_methods_and_hold_equal_numbers():
    facts = [
        neighbour(number=n, method=m, dist=n / 100, popularity=float(n % 10), after=after)
        for m, after in (("ft", 0.25), ("rome", 0.375), ("prompt", 0.5)) for n in range(100)
    ]  # fmt: skip
    found = bleedover_bins(tables(neighbours=facts)[1])
    assert found["method"].unique(maintain_order=True).to_list() == ["ft", "rome", "prompt"]
    own = found.filter(pl.col("method") == "ft")
    assert own.group_by("similarity_bin").agg(pl.col("n").sum())["n"].to_list() == [20] * 5
    assert own.group_by("popularity_bin").agg(pl.col("n").sum())["n"].to_list() == [20] * 5
    assert own.drop("method", "bleedover", "normalised").equals(
        found.filter(pl.col("method") == "rome").drop("method", "bleedover", "normalised")
    )
    assert own["bleedover"].to_list() == [0.25] * 25 and own["normalised"].to_list() == [1.0] * 25
    assert found.filter(pl.col("method") == "prompt")["normalised"].null_count() == 25  # nothing to divide by


def test_equal_values_stay_in_one_bin():
    facts = [neighbour(number=n, dist=0.0 if n else 1.0, popularity=2.0) for n in range(10)]
    found = bleedover_bins(tables(neighbours=facts)[1])
    assert found.select("similarity_bin", "similarity_low", "similarity_high", "n").rows() == [
        (1, 0.0, 1.0, 1), (2, 1.0, 1.0, 9),
    ]  # fmt: skip
    assert found["popularity_bin"].to_list() == [1, 1]


@pytest.mark.parametrize(("probabilities", "expected"), [((0.5,), 0.5), ((0.25, 1.0), 0.5), ((1.0, 1.0), 1.0)])
def test_geometric_mean(probabilities, expected):
    assert geometric_mean(sum(map(log, probabilities)), len(probabilities)) == pytest.approx(expected)


@given(st.lists(st.floats(-50, 0), min_size=1, max_size=8))
def test_geometric_mean_against_the_root_of_the_product(logps):
    product = np.prod([np.longdouble(exp(logp)) for logp in logps])
    assert geometric_mean(sum(logps), len(logps)) == pytest.approx(float(product ** (1 / len(logps))), rel=1e-9)


def test_geometric_mean_at_its_ends():
    assert geometric_mean(-inf, 3) == 0.0
    assert geometric_mean(1e-7, 1) == 1.0  # single precision
    with pytest.raises(DataError, match="a target of 0 tokens has no probability; it needs at least one token"):
        geometric_mean(-1.0, 0)
    for wrong in (0.5, nan):
        with pytest.raises(DataError, match=f"{wrong} is not a sum of log-probabilities; it must be 0 or below"):
            geometric_mean(wrong, 2)


FAILED = {"status": "failed", "fluency": None}


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (([], [], []), "the table of updates has 0 rows; metrics need one update at least"),
        (([], [], [update(status="ok")]), "updates, row 1: status 'ok' is unknown; use one of done, failed"),
        (([], [], [update(method="unedited")]), "method 'unedited' is the clean model's name; choose another"),
        (([], [], [update(), update()]), r"updates, row 2: the same as row 1 \(.* case_id '1'\); keep one"),
        (([], [], [update(seconds=-1.0)]), "seconds -1.0 is below 0; it must be 0 or more"),
        (([], [], [update(fluency=nan)]), "fluency nan is not a finite number"),
        (([], [], [update(case_id=None)]), "updates, row 1: case_id None is empty; every row needs one"),
        (([], [], [update(status="failed")]), "fluency 4.0 is the score of a failed update; leave it null"),
        (([target()], [], [update(**FAILED)]), "targets, row 1: new_after 0.5 is the score of a failed update"),
        (([], [neighbour()], [update(**FAILED)]), "neighbours, row 1: after 0.5 is the score of a failed update"),
        (([target(case_id="7")], [], [update()]), "targets, row 1: case_id '7' is not in the table of updates; add"),
        (
            ([target(new=-1.5)], [], [update()]),
            "new_after -1.5 is not a probability; it must be 0 to 1, not a logarithm",
        ),
        (
            ([target(), target(kind="x")], [], [update()]),
            "targets, row 2: kind 'x' is unknown; use one of update, general",
        ),
        (([target(), target()], [], [update()]), r"the same as row 1 \(.* prompt_number 0\); keep one"),
        (([target(), target(number=1)], [], [update()]), "is one of several update prompts; an update has one"),
        (([], [neighbour(kind="far")], [update()]), "kind 'far' is unknown; use one of nearest, random"),
        (([], [neighbour(before=1.1)], [update()]), "neighbours, row 1: before 1.1 is not a probability"),
        (([], [neighbour(), neighbour()], [update()]), r"the same as row 1 \(.* number 0\)"),
    ],
)
def test_what_breaks_a_rule_is_refused_with_its_row_and_the_way_out(parts, message):
    with pytest.raises(DataError, match=message):
        update_metrics(*tables(*parts))


def test_methods_of_different_models_are_not_compared():
    targets = [target(), target(method="ft", new_before=0.5)]
    with pytest.raises(DataError, match=r"case_id 1, .*probability differs by 0.375 between methods; they must share"):
        update_metrics(*tables(targets, [], [update(), update(method="ft")]))


def test_a_missing_column_and_a_cell_of_another_type_are_named():
    parts = tables([target()], [], [update()])
    with pytest.raises(DataError, match="targets lacks the column new_after; it needs mode, method, case_id"):
        update_metrics(parts[0].drop("new_after"), *parts[1:])
    with pytest.raises(DataError, match="targets, row 1: new_after 'many' is no number"):
        update_metrics(parts[0].with_columns(pl.lit("many").alias("new_after")), *parts[1:])
    with pytest.raises(DataError, match="targets, row 1: prompt_number 'first' is no Int64"):
        update_metrics(parts[0].with_columns(pl.lit("first").alias("prompt_number")), *parts[1:])


def test_tables_from_text_files_give_the_same(tmp_path):
    parts = tables([target()], [neighbour()], [update()])
    read = []
    for number, table in enumerate(parts):
        table.write_csv(tmp_path / f"{number}.csv")
        read.append(pl.read_csv(tmp_path / f"{number}.csv"))
    assert update_metrics(*read).equals(update_metrics(*parts))


def test_empty_summaries_and_bins_are_refused():
    found = update_metrics(*tables([target()], [], [update()]))
    with pytest.raises(DataError, match="the table of metrics has 0 rows; a summary needs the metrics of at least one"):
        summarise(found.clear())
    with pytest.raises(DataError, match="the table of metrics lacks the column seconds; make it with update_metrics"):
        summarise(found.drop("seconds"))
    with pytest.raises(DataError, match="has no neighbours; bins of bleedover need some, with dist and popularity"):
        bleedover_bins(tables()[1])
    with pytest.raises(ConfigError, match="popularity_bins is 0; it must be 1 or more"):
        bleedover_bins(tables(neighbours=[neighbour()])[1], popularity_bins=0)


def test_metrics_load_no_torch():
    code = "import sys, anachron.evaluate.metrics, anachron.evaluate.measures.fluency; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
