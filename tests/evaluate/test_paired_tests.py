"""Paired tests of edited models against the unedited one: against scipy, and by hand."""

from itertools import product
from statistics import mean

import polars as pl
import pytest
from scipy.stats import binomtest

from anachron.evaluate.paired_tests import TESTS, paired_tests
from support.intervals import of_differences

KEY = {"mode": "independent", "scenario": "ReplaceObject", "variant": "plain"}


def metrics(before, after, method="ROME"):
    """A row an update and model, updates numbered in their order. before, after: (efficacy_success, share) each."""
    rows = [
        KEY | {"method": name, "case_id": str(number), "efficacy_success": success, "share": share}
        for name, values in (("unedited", before), (method, after))
        for number, (success, share) in enumerate(values)
    ]
    return pl.DataFrame(rows, schema_overrides={"efficacy_success": pl.Float64, "share": pl.Float64})


def test_a_metric_of_yes_and_no_is_tested_by_the_updates_that_change():
    """Nine gained, one lost, two the same: p of at most 1 of 10, two-sided, is 22 / 1024."""
    before = [(0.0, 0.5)] * 9 + [(1.0, 0.5)] + [(1.0, 0.5), (0.0, 0.5)]
    after = [(1.0, 0.5)] * 9 + [(0.0, 0.5)] + [(1.0, 0.5), (0.0, 0.5)]
    (row,) = paired_tests(metrics(before, after), ["efficacy_success"]).to_dicts()
    assert (row["test"], row["updates"], row["metric"]) == ("exact McNemar", 12, "efficacy_success")
    assert row["p"] == pytest.approx(22 / 1024) == pytest.approx(binomtest(9, 10).pvalue)
    assert (row["unedited"], row["edited"]) == (pytest.approx(2 / 12 + 0 / 12), pytest.approx(10 / 12))
    assert row["difference"] == pytest.approx(8 / 12) and row["low"] < 8 / 12 < row["high"]


def test_a_share_is_tested_by_flipping_the_signs_of_the_differences():
    before, after = [0.1, 0.4, 0.5, 0.2, 0.9], [0.6, 0.5, 0.4, 0.8, 1.0]
    table = metrics([(None, b) for b in before], [(None, a) for a in after])
    (row,) = paired_tests(table, ["share", "efficacy_success"]).to_dicts()  # nobody has the second
    low, high = of_differences([a - b for b, a in zip(before, after, strict=True)])
    ways = [abs(sum(s * (a - b) for s, b, a in zip(signs, before, after, strict=True)))
            for signs in product((1, -1), repeat=5)]  # fmt: skip
    p = mean([way >= ways[0] - 1e-12 for way in ways])
    assert row["test"] == "sign flips"
    assert [row[name] for name in ("updates", "difference", "low", "high", "p")] == [
        5, pytest.approx(0.24), pytest.approx(low), pytest.approx(high), pytest.approx(p),
    ]  # fmt: skip


def test_only_updates_that_both_models_have_count():
    table = metrics([(1.0, 0.0), (0.0, None), (0.0, 0.25)], [(1.0, 0.5), (1.0, 1.0), (None, None)])
    success, share = paired_tests(table, ["efficacy_success", "share"]).to_dicts()
    assert (success["updates"], success["unedited"], success["edited"], success["p"]) == (2, 0.5, 1.0, 1.0)
    assert (share["updates"], share["unedited"], share["edited"]) == (1, 0.0, 0.5)


def test_each_method_and_its_variant_with_a_date_has_its_own_row():
    plain = metrics([(0.0, 0.0)] * 3, [(1.0, 1.0)] * 3)
    dated = plain.filter(pl.col("method") == "ROME").with_columns(variant=pl.lit("dated"), share=pl.lit(0.0))
    found = paired_tests(pl.concat([plain, dated]), ["share"])
    assert found.select("method", "variant", "difference").rows() == [("ROME", "plain", 1.0), ("ROME", "dated", 0.0)]
    ends = [
        (pytest.approx(low), pytest.approx(high))
        for low, high in (of_differences([1.0] * 3), of_differences([0.0] * 3))
    ]
    assert found.select("low", "high").rows() == ends  # three that differ alike leave doubt
    assert found["p"].to_list() == [2 / 2**3, 1.0] and found.schema == pl.Schema(TESTS)


def test_updates_of_one_subject_count_as_one():
    """Ten gained, all of one subject: its sign is a coin, and McNemar's test would be far too sure."""
    table = metrics([(0.0, 0.0)] * 10, [(1.0, 1.0)] * 10)
    (alone,) = paired_tests(table, ["efficacy_success"]).to_dicts()
    (together,) = paired_tests(table.with_columns(subject=pl.lit("s")), ["efficacy_success"]).to_dicts()
    assert (alone["test"], alone["p"]) == ("exact McNemar", pytest.approx(2 / 2**10))
    assert (together["test"], together["p"], together["updates"]) == ("sign flips", 1.0, 10)
    assert (together["low"], together["high"]) == pytest.approx(of_differences([1.0] * 10, ["s"] * 10), abs=1e-9)


def test_without_any_method_there_is_an_empty_table():
    assert paired_tests(metrics([(1.0, 1.0)], []), ["share"]).schema == pl.Schema(TESTS)
