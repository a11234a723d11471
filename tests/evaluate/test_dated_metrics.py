"""Dated questions measured: every number against plain double loops over rows."""

from itertools import pairwise
from math import sqrt
from statistics import mean, stdev

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t

from anachron.core.errors import DataError
from anachron.evaluate.measures.dated import DATED, DATED_NEIGHBOURS, WAYS
from anachron.evaluate.measures.dated_metrics import (
    DATED_METRICS,
    DATED_SHARES,
    EDGES,
    bleedover_by_date,
    by_way,
    dated_metrics,
)
from anachron.evaluate.metrics import summarise
from anachron.evaluate.results import UPDATES

GRANULARITIES = ("year", "month", "day")
TOGETHER = {"present_updated": mean, "past_kept": mean, "both_right": mean, "kept_given_right": mean, "win_rate": mean,
            "robustness": min}  # fmt: skip


def asked(side="past", time="2011", granularity="year", method="ROME", case_id="1", **p):
    scores = {"new_before": 0.125, "old_before": 0.5, "new_after": 0.25, "old_after": 0.25} | p
    return {
        "method": method, "mode": "independent", "case_id": case_id, "granularity": granularity, "time": time,
        "side": side, "distance": -3.0 if side == "past" else 3.0,
    } | scores  # fmt: skip


def update(method="ROME", case_id="1", **cells):
    return {
        "method": method, "mode": "independent", "case_id": case_id, "status": "done", "reason": None, "seconds": 1.0,
        "fluency_before": None, "fluency": None, "relation": None, "popularity": None,
    } | cells  # fmt: skip


def measured(rows, updates):
    return dated_metrics(pl.DataFrame(rows, schema=DATED.table), pl.DataFrame(updates, schema=UPDATES))


def naive(rows, method):
    """All metrics of one update's rows, by loops."""
    before = {"new_after": "new_before", "old_after": "old_before"} if method == "unedited" else {}
    new, old = (before.get(name, name) for name in ("new_after", "old_after"))
    found = {}
    for granularity in GRANULARITIES:
        past = [r for r in rows if (r["granularity"], r["side"]) == (granularity, "past")]
        present = [r for r in rows if (r["granularity"], r["side"]) == (granularity, "present")]
        won = matches = 0
        for c in past:
            for i in present:
                matches += 1
                won += c[old] > i[old]
        found[f"present_updated_{granularity}"] = mean([float(r[new] > r[old]) for r in present]) if present else None
        found[f"past_kept_{granularity}"] = mean([float(r[old] > r[new]) for r in past]) if past else None
        pairs = [float(a[old] > a[new] and b[new] > b[old]) for a in past for b in present]
        found[f"both_right_{granularity}"] = mean(pairs) if pairs else None
        known = [float(r[old] > r[new]) for r in past if r["old_before"] > r["new_before"]]
        found[f"kept_given_right_{granularity}"] = mean(known) if known else None
        found[f"win_rate_{granularity}"] = won / matches if matches else None
        found[f"robustness_{granularity}"] = float(won == matches) if matches else None
    for measure, together in TOGETHER.items():
        each = [found[f"{measure}_{granularity}"] for granularity in GRANULARITIES]
        found[f"{measure}_global"] = None if None in each else together(each)
    return found


def over_ways(rows, method):
    """The metrics of an update: those of each way it was asked in by `naive`, and their plain means."""
    ways = {way: naive([r for r in rows if r["way"] == way], method) for way in WAYS if way in {r["way"] for r in rows}}
    for name in ways.get("paraphrase", {}):  # the words differ between dates, so their scores are not compared
        if name.startswith(("win_rate", "robustness")):
            ways["paraphrase"][name] = None
    found = {f"{name}_{way}": value for way, values in ways.items() for name, value in values.items()}
    for name in next(iter(ways.values())):
        told = [values[name] for values in ways.values() if values[name] is not None]
        found[name] = mean(told) if told else None
    return found


LEVELS = st.sampled_from([0.0, 0.1, 0.2, 0.2 + 1e-16, 0.7, 1.0])  # few, so that ties are common
ROWS = st.lists(
    st.tuples(
        st.sampled_from(WAYS),
        st.sampled_from(["past", "present"]),
        st.sampled_from(GRANULARITIES),
        LEVELS,
        LEVELS,
        LEVELS,
        LEVELS,
    ),
    min_size=1,
    max_size=25,
)


@given(ROWS, ROWS)
def test_every_metric_against_loops(first, second):
    clean = {}
    rows = []
    for method, shift in (("FT", 1), ("ROME", 0)):
        for case_id, drawn in (("1", first), ("2", second)):
            for number, (way, side, granularity, *p) in enumerate(drawn):
                key = (case_id, number)
                clean.setdefault(key, p[:2])
                after = p[2:][::-1] if shift else p[2:]
                rows.append(asked(
                    side, f"{1000 + number}", granularity, method, case_id, new_before=clean[key][0],
                    old_before=clean[key][1], new_after=after[0], old_after=after[1], way=way,
                ))  # fmt: skip
    found = measured(rows, [update(m, c) for m in ("FT", "ROME") for c in ("1", "2")])
    assert list(zip(found["method"], found["case_id"], strict=True)) == [
        (m, c) for m in ("unedited", "FT", "ROME") for c in ("1", "2")
    ]
    for row in found.iter_rows(named=True):
        own = [r for r in rows if r["case_id"] == row["case_id"] and row["method"] in (r["method"], "unedited")]
        own = [r for r in own if r["method"] == own[0]["method"]]
        expected = over_ways(own, row["method"])
        for name in DATED_METRICS:
            value = expected.get(name)
            assert row[name] == (None if value is None else pytest.approx(value, abs=1e-15)), (name, row["method"])


def test_the_joint_score_by_hand():
    """Half of the past and half of the present right: the mean of the two says 1/2, both right is 1/4."""
    right_past, wrong_past = {"new_after": 0.1, "old_after": 0.2}, {"new_after": 0.2, "old_after": 0.1}
    rows = []
    for g in GRANULARITIES:
        rows += [asked("past", f"2001 {g}", g, **right_past), asked("past", f"2002 {g}", g, **wrong_past)]
        rows += [asked("present", f"2018 {g}", g, **wrong_past), asked("present", f"2019 {g}", g, **right_past)]
    rows[0] |= {"new_before": 0.5, "old_before": 0.1}  # the clean model is wrong about 2001, so only 2002 was known
    clean, edited = measured(rows, [update()]).to_dicts()
    assert [edited[f"{m}_global"] for m in ("present_updated", "past_kept", "both_right")] == [0.5, 0.5, 0.25]
    assert (edited["kept_given_right_year"], edited["kept_given_right_day"]) == (0.0, 0.5)
    assert edited["kept_given_right_global"] == pytest.approx(1 / 3)
    assert (clean["kept_given_right_global"], clean["present_updated_global"], clean["both_right_global"]) == (1, 0, 0)


def test_an_update_counts_once_in_however_many_ways_it_was_asked():
    """One update keeps the past in its own prompt alone, of three ways; the other, asked in that alone, does not."""
    kept, lost = {"new_after": 0.1, "old_after": 0.2}, {"new_after": 0.2, "old_after": 0.1}
    rows = [asked("past", f"20{n}", way=way, **(kept if way == "prompt" else lost)) for way in WAYS for n in (11, 12)]
    rows.append(asked("past", case_id="2", **lost))  # no way said is the update prompt
    found = measured(rows, [update(), update(case_id="2")])
    assert found["past_kept_year"].to_list() == pytest.approx([1, 1, 1 / 3, 0])
    summary = summarise(found, DATED_METRICS, DATED_SHARES)
    assert summary["past_kept_year"].to_list() == pytest.approx([1, 1 / 6])
    ways = by_way(summary).filter(method="ROME")
    assert ways.select("way", "past_kept_year", "past_kept_year_n").rows() == [
        ("prompt", 0.5, 2), ("paraphrase", 0, 1), ("question", 0, 1),
    ]  # fmt: skip
    assert by_way(summary)["way"].to_list() == [*WAYS, *WAYS]
    assert not [name for name in ways.columns if name.removesuffix("_n").endswith(WAYS)]


def test_what_the_clean_model_never_knew_is_not_counted_as_kept_or_lost():
    rows = [asked("past", new_before=0.3, old_before=0.3, new_after=0.1, old_after=0.2), asked("present", "2018")]
    clean, edited = measured(rows, [update()]).to_dicts()
    assert edited["past_kept_year"] == 1.0 and edited["kept_given_right_year"] is None
    assert clean["kept_given_right_year"] is None


def test_a_tie_is_neither_updated_nor_kept():
    rows = [asked(side, f"20{n}1", g) for n, g in enumerate(GRANULARITIES) for side in ("past", "present")]
    rows = [r | {"time": r["time"] + r["side"]} for r in rows]
    own = measured(rows, [update()]).row(1, named=True)
    assert [own[f"{m}_global"] for m in ("present_updated", "past_kept", "win_rate", "robustness")] == [0.0] * 4


def test_an_update_that_failed_or_was_not_asked_has_no_metric_and_is_counted():
    rows = [asked(), asked("present", "2018"), asked(method="FT"), asked("present", "2018", method="FT")]
    updates = [update(case_id="1"), update(case_id="2"), update("FT"), update("FT", "2", status="failed", reason="why")]
    found = measured(rows, updates)
    assert found.filter(pl.col("case_id") == "2").select(DATED_METRICS).null_count().row(0) == (3,) * len(DATED_METRICS)
    assert found.filter(pl.col("status") == "failed")["reason"].to_list() == ["why"]
    summary = summarise(found, DATED_METRICS, DATED_SHARES)
    assert summary.select("method", "done", "failed", "past_kept_year_n", "past_kept_global_n").rows() == [
        ("unedited", 2, 0, 1, 0), ("ROME", 2, 0, 1, 0), ("FT", 1, 1, 1, 0),
    ]  # fmt: skip
    assert summary["past_kept_year"].to_list() == [1.0, 0.0, 0.0]


def test_no_dated_rows_at_all_give_nulls():
    found = measured([], [update()])
    assert found["method"].to_list() == ["unedited", "ROME"] and found["win_rate_global"].null_count() == 2


def test_tables_that_break_their_rules_are_refused():
    with pytest.raises(DataError, match=r"dated, row 2: the same as row 1 \(.* time '2011'"):
        measured([asked(), asked()], [update()])
    with pytest.raises(DataError, match="side 'now' is unknown; use one of past, present"):
        measured([asked("now")], [update()])
    with pytest.raises(DataError, match="way 'song' is unknown; use one of prompt, paraphrase, question"):
        measured([asked(way="song")], [update()])
    assert measured([asked(), asked(way="question")], [update()]).height == 2
    with pytest.raises(DataError, match=r"row \d: the same as row 1 \(.* time '2011'"):
        measured([asked(), asked(way="prompt")], [update()])
    with pytest.raises(DataError, match="granularity 'week' is unknown"):
        measured([asked(granularity="week")], [update()])
    with pytest.raises(DataError, match=r"new_after -3\.0 is not a probability"):
        measured([asked(new_after=-3.0)], [update()])
    with pytest.raises(DataError, match=r"differs by 0\.4 between methods"):
        measured([asked(), asked(method="FT", new_before=0.525)], [update(), update("FT")])


def neighbour(number, distance, before=0.5, after=0.5, case_id="1", method="ROME", mode="independent", kind="nearest"):
    return {
        "method": method, "mode": mode, "case_id": case_id, "kind": kind, "number": number, "granularity": "year",
        "time": f"{2017 + int(distance)}", "side": "past" if distance < 0 else "present", "distance": distance,
        "before": before, "after": after,
    }  # fmt: skip


KINDS = ("nearest", "random")


@given(
    st.lists(
        st.tuples(
            st.sampled_from([-9.5, -5.0, -0.1, 0.0, 1.0, 2.0, 9.0]), LEVELS, LEVELS, st.sampled_from("123"),
            st.sampled_from(KINDS),
        ),
        min_size=1, max_size=40,
    )
)  # fmt: skip
def test_bleedover_by_date_against_loops(drawn):
    rows = [neighbour(n, d, b, a, case_id, kind=kind) for n, (d, b, a, case_id, kind) in enumerate(drawn)]
    found = bleedover_by_date(pl.DataFrame(rows, schema=DATED_NEIGHBOURS.table))
    ends = [float("-inf"), *EDGES, float("inf")]
    expected = []
    for kind in KINDS:
        for place, (low, high) in enumerate(pairwise(ends), 1):
            inside = [(d, max(0.0, b - a), c) for d, b, a, c, k in drawn if k == kind and low <= d < high]
            lost = [[loss for _, loss, c in inside if c == case_id] for case_id in "123"]
            means = [mean(own) for own in lost if own]
            if means:
                years = mean(d for d, *_ in inside)
                half = t.ppf(0.975, len(means) - 1) * stdev(means) / sqrt(len(means)) if len(means) > 1 else None
                expected.append((kind, place, len(inside), len(means), years, mean(means), half))
    assert found.select("kind", "bin", "n", "updates").rows() == [e[:4] for e in expected]
    for row, (*_, years, value, half) in zip(found.iter_rows(named=True), expected, strict=True):
        assert row["years"] == pytest.approx(years, abs=1e-12)
        assert row["bleedover"] == pytest.approx(value, abs=1e-15)
        if half is None:
            assert row["bleedover_low"] is None and row["bleedover_high"] is None
        else:
            assert row["bleedover_high"] - row["bleedover"] == pytest.approx(half, abs=1e-12)
            assert row["bleedover"] - row["bleedover_low"] == pytest.approx(half, abs=1e-12)


def test_bins_of_bleedover_come_method_by_method_from_the_earliest_date():
    rows = [
        neighbour(0, 6.0, 0.5, 0.25), neighbour(0, -6.0, 0.5, 0.0), neighbour(1, 0.5, 0.5, 0.75),
        neighbour(0, -6.0, 0.5, 0.25, kind="random"), neighbour(0, 1.0, 0.5, 0.5, method="FT"),
        neighbour(2, 1.0, 0.5, None, method="FT"),
    ]  # fmt: skip
    found = bleedover_by_date(pl.DataFrame(rows, schema=DATED_NEIGHBOURS.table))
    assert found.select("method", "kind", "years_low", "years_high", "n", "bleedover").rows() == [
        ("ROME", "nearest", None, -5.0, 1, 0.5), ("ROME", "nearest", 0.0, 2.0, 1, 0.0),
        ("ROME", "nearest", 5.0, None, 1, 0.25), ("ROME", "random", None, -5.0, 1, 0.25),
        ("FT", "nearest", 0.0, 2.0, 1, 0.0),
    ]  # fmt: skip
