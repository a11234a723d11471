"""Plain anachronisms against a loop over all pairs of contexts, and against facts told in words."""

from random import Random

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anachron.analysis.analyses.anachronisms import (
    ANACHRONISM_SCHEMA,
    SUMMARY_SCHEMA,
    anachronism_summary,
    anachronisms,
)
from anachron.analysis.metrics import check_scores, fact_metrics
from anachron.core.dates import Date
from anachron.core.errors import DataError
from support.intervals import of_shares

RUNS = [("m", "raw", "none"), ("m", "chat", "none"), ("k", "raw", "few-shot"), ("perfect", "raw", "none")]
TEXTS = ["model", "format", "prefix", "fact_id", "granularity", "time", "status"]
LABELS = ("subject_label", "relation_label", "object_label", "question", "start", "end")


def context(time, status, alpha, logp, fact="f", run=RUNS[0]):
    granularity = "year" if time is None else Date.parse(time).granularity
    return {
        "model": run[0], "format": run[1], "prefix": run[2], "fact_id": fact, "granularity": granularity,
        "time": time, "status": status, "alpha": alpha, "logp": logp,
    }  # fmt: skip


def person(name="f", **known):
    labels = {
        "subject_label": f"S {name}",
        "relation_label": "held",
        "object_label": "O",
        "question": f"what is {name}?",
        "start": "1950",
        "end": "1959",
    }
    return {"fact_id": name, **labels, **known}


def found(rows, *about):
    scores = pl.DataFrame(rows, schema_overrides={"alpha": pl.Float64, "logp": pl.Float64}, infer_schema_length=None)
    return anachronisms(scores, pl.DataFrame(list(about), infer_schema_length=None), fact_metrics(scores))


def synthetic(seed):
    """Facts from 1950 to 1959 with integer scores, so that ties abound; some without correct or incorrect contexts."""
    random = Random(seed)
    rows, about = [], []
    for i in range(24):
        name = f"f{i:02d}"
        births = {
            "subject_from": random.choice([None, "1940", "1949-06", "1955"]),
            "object_from": random.choice([None, "-0010", "1960-02-03"]),
        }
        about.append(person(name, **births))
        years = sorted({*random.sample([y for y in range(-30, 2010) if y and not 1950 <= y <= 1960], 25), 1945, 1948})
        for run in RUNS:
            for ending in ("", "-06", "-06-15"):
                if i % 8 == 3 and ending:
                    continue
                if i % 7 != 1:
                    rows += [
                        context(f"{y}{ending}", "correct", (y - 1954.5) / 10, 0.0, name, run) for y in (1951, 1957)
                    ]
                if i % 9 != 2:
                    rows += [
                        context(
                            f"{y:05d}{ending}" if y < 0 else f"{y:04d}{ending}",
                            "incorrect",
                            (y - 1954.5) / 10,
                            0.0,
                            name,
                            run,
                        )
                        for y in years
                    ]
                rows.append(context(f"1960{ending}", "transitional", 0.5, 9.0, name, run))
                rows.append({**context(None, "none", None, 9.0, name, run), "granularity": rows[-1]["granularity"]})
    for row in rows:
        if row["model"] == "perfect":
            row["logp"] = 1.0 if row["status"] == "correct" else -1.0
        else:
            row["logp"] = float(random.randint(0, 12))
    return pl.DataFrame(rows, infer_schema_length=None), pl.DataFrame(about, infer_schema_length=None)


def looped(scores, about):
    """Run by run all rows in rank order, by the definitions."""
    known = {row["fact_id"]: row for row in about.iter_rows(named=True)}
    contexts = {}
    for row in scores.iter_rows(named=True):
        contexts.setdefault(tuple(row[k] for k in ("model", "format", "prefix")), {}).setdefault(
            (row["fact_id"], row["granularity"]), {"correct": [], "incorrect": []}
        ).get(row["status"], []).append(row)
    result = []
    for run, groups in contexts.items():
        rows = []
        for (name, granularity), sides in groups.items():
            correct = [c["logp"] for c in sides["correct"]]
            for i in sides["incorrect"]:
                beaten = [c for c in correct if i["logp"] >= c]
                day = Date.parse(i["time"]).last_day
                births = [known[name][b] for b in ("subject_from", "object_from")]
                impossible = [b is not None and day < Date.parse(b).first_day for b in births]
                reason = (
                    "before the subject" if impossible[0]
                    else "before the object" if impossible[1]
                    else "far from the period" if abs(i["alpha"]) >= 1
                    else None
                )  # fmt: skip
                if beaten and reason:
                    share = len(beaten) / len(correct)
                    pairs = [(c, j["logp"]) for c in correct for j in sides["incorrect"]]
                    rows.append({
                        **dict(zip(("model", "format", "prefix"), run, strict=True)), "fact_id": name,
                        **{k: known[name][k] for k in LABELS},
                        "granularity": granularity, "time": i["time"], "alpha": i["alpha"], "logp": i["logp"],
                        "lead": i["logp"] - max(correct), "beaten": share,
                        "win_rate": sum(c > j for c, j in pairs) / len(pairs), "reason": reason,
                        "absurdity": max(abs(i["alpha"]), 1) * share,
                    })  # fmt: skip
        order = ("year", "month", "day")
        rows.sort(key=lambda r: (-r["absurdity"], -r["lead"], r["fact_id"], order.index(r["granularity"]), r["time"]))
        result += [{"rank": rank, **row} for rank, row in enumerate(rows, 1)]
    return result


@pytest.mark.parametrize("seed", [0, 1])
def test_anachronisms_equal_the_loop(seed):
    scores, about = synthetic(seed)
    expected = looped(scores, about)
    table = anachronisms(scores, about, fact_metrics(scores))
    assert dict(table.schema) == ANACHRONISM_SCHEMA
    assert table.to_dicts() == [pytest.approx(row) for row in expected]
    assert {row["reason"] for row in expected} == {"before the subject", "before the object", "far from the period"}
    assert {row["granularity"] for row in expected} == {"year", "month", "day"}
    assert {row["model"] for row in expected} == {"m", "k"}
    assert any(abs(row["alpha"]) < 1 for row in expected)
    keys = ("model", "format", "absurdity", "lead")
    assert len({tuple(row[k] for k in keys) for row in expected}) < len(expected)  # ties, so the rest of the order acts


@pytest.mark.parametrize("kind", ["shuffled", "categorical", "enum"])
def test_order_of_rows_and_kind_of_text_change_nothing(kind):
    scores, about = synthetic(2)
    facts = fact_metrics(scores)
    expected = anachronisms(scores, about, facts)
    if kind == "shuffled":
        got = anachronisms(scores.sample(fraction=1, shuffle=True, seed=1), about.reverse(), facts.reverse())
        expected, got = (t.sort("model", "format", "rank") for t in (expected, got))
    elif kind == "categorical":
        categories = [pl.col(pl.String).cast(pl.Categorical)]
        got = anachronisms(check_scores(scores.with_columns(categories)), about, facts)
    else:
        kinds = [pl.col(t).cast(pl.Enum(sorted(scores[t].drop_nulls().unique()))) for t in TEXTS]
        got = anachronisms(check_scores(scores.with_columns(kinds)), about, facts)
    assert got.equals(expected)


@given(st.integers(-4000, 4000).map(lambda q: q / 4), st.integers(0, 50))
def test_adding_a_constant_moves_only_the_scores(constant, seed):
    random = Random(seed)
    years = range(1930, 1980)
    rows = [
        context(
            str(y), "correct" if 1950 <= y < 1960 else "incorrect", (y - 1954.5) / 10, float(random.randint(0, 5))
        )
        for y in years
    ]  # fmt: skip
    moved = [{**row, "logp": row["logp"] + constant} for row in rows]
    table, other = (found(r, person()) for r in (rows, moved))
    assert other.with_columns(pl.col("logp") - constant).equals(table)


def test_a_senator_before_his_birth():
    """Born in 1945, senator from 1950 to 1959 by the data. 1940 beats one of his two years; 1945 is possible."""
    rows = [
        context("1951", "correct", -0.3, -2.0), context("1958", "correct", 0.3, -5.0),
        context("1940", "incorrect", -1.5, -3.0), context("1945", "incorrect", -0.95, -1.0),
        context("1944-12-31", "incorrect", -1.05, -9.0), context("1944", "incorrect", -1.1, -6.0),
    ]  # fmt: skip
    table = found(rows, person(subject_from="1945-03-01"))
    assert table.select("rank", "time", "lead", "beaten", "reason", "absurdity").rows() == [
        (1, "1940", -1.0, 0.5, "before the subject", 0.75)
    ]
    assert table.select("subject_label", "relation_label", "object_label", "start", "end").rows() == [
        ("S f", "held", "O", "1950", "1959")
    ]
    # 1940 wins 1 match of 2 and 1944, of its granularity, none; 1945 wins both: W is 3 of 6.
    assert table["win_rate"].to_list() == [0.5]


@pytest.mark.parametrize(
    ("time", "born", "reason"),
    [
        ("1944", "1945", "before the subject"),
        ("1945", "1945", None),  # a year that holds any day of the life is possible
        ("1945-02", "1945-03", "before the subject"),
        ("1945-03", "1945-03-31", None),
        ("1945-03-30", "1945-03-31", "before the subject"),
        ("1945-03-31", "1945-03-31", None),
        ("-0045", "-0044", "before the subject"),
        ("-0044", "-0045", None),
        ("-0001", "0001", "before the subject"),
    ],
)
def test_only_dates_wholly_before_the_birth_are_before_it(time, born, reason):
    held = {"year": "1951", "month": "1951-01", "day": "1951-01-01"}[Date.parse(time).granularity]
    rows = [context(held, "correct", 0.0, -2.0), context(time, "incorrect", -0.8, -1.0)]
    assert found(rows, person(subject_from=born))["reason"].to_list() == ([reason] if reason else [])
    about = person(object_from=born)
    assert found(rows, about)["reason"].to_list() == (["before the object"] if reason else [])


def test_near_and_impossible_counts_as_one_period_away():
    rows = [context("1951", "correct", 0.0, -2.0), context("1946", "incorrect", -0.6, -1.0)]
    table = found(rows, person(subject_from="1947"))
    assert table.select("alpha", "absurdity", "lead").rows() == [(-0.6, 1.0, 1.0)]
    assert found(rows, person()).height == 0


def test_a_date_far_off_is_one_even_in_the_life_of_all():
    rows = [context("1951", "correct", 0.0, -2.0)]
    rows += [context(str(y), "incorrect", alpha, -1.0) for y, alpha in ((1960, 0.999), (1961, 1.0), (1940, -1.0))]
    table = found(rows, person(subject_from="1900", object_from="1800"))
    assert table.select("time", "reason").rows() == [("1940", "far from the period"), ("1961", "far from the period")]


def test_equal_scores_are_lost_and_granularities_do_not_meet():
    rows = [
        context("1951", "correct", 0.0, -2.0), context("1951-01", "correct", 0.0, -8.0),
        context("1930", "incorrect", -2.0, -2.0), context("1931", "incorrect", -2.0, -2.1),
    ]  # fmt: skip
    assert found(rows, person()).select("time", "lead", "beaten").rows() == [("1930", 0.0, 1.0)]


def test_how_much_of_the_truth_is_beaten_weighs_as_much_as_the_distance():
    """Five periods off but better than one of ten, against two periods off and better than all ten."""
    rows = [context(str(1950 + i), "correct", 0.0, -float(i)) for i in range(10)]
    rows += [context("1905", "incorrect", -5.0, -8.5), context("1975", "incorrect", 2.0, 1.0)]
    table = found(rows, person())
    assert table.select("time", "beaten", "lead", "absurdity").rows() == [
        ("1975", 1.0, 1.0, 2.0), ("1905", 0.1, -8.5, 0.5)
    ]  # fmt: skip


def test_other_statuses_and_facts_without_correct_contexts_are_none():
    rows = [context("1951", "correct", 0.0, -2.0)]
    rows += [context(y, status, -5.0, -1.0) for y, status in (("1900", "transitional"), ("1901", "discarded"))]
    rows += [context("1930", "incorrect", -2.0, -1.0, "g"), context(None, "none", None, 0.0)]
    scores = pl.DataFrame(rows, infer_schema_length=None)
    facts = fact_metrics(scores)
    assert facts.height == 0
    table = anachronisms(scores, pl.DataFrame([person(), person("g")]), facts)
    assert table.height == 0
    assert dict(table.schema) == ANACHRONISM_SCHEMA
    summary = anachronism_summary(table, facts)
    assert summary.height == 0
    assert dict(summary.schema) == SUMMARY_SCHEMA


def test_a_fact_without_labels_or_dates_of_its_entities():
    rows = [context("1951", "correct", 0.0, -2.0), context("1930", "incorrect", -2.0, -1.0)]
    scores = pl.DataFrame(rows)
    for about in (pl.DataFrame({"fact_id": ["f"]}), pl.DataFrame({"fact_id": ["other"], "subject_from": ["1990"]})):
        table = anachronisms(scores, about, fact_metrics(scores))
        assert table.select("subject_label", "start", "time", "reason").rows() == [
            (None, None, "1930", "far from the period")
        ]


def test_a_birth_that_is_no_date_is_refused():
    rows = [context("1951", "correct", 0.0, -2.0), context("1930", "incorrect", -2.0, -1.0)]
    with pytest.raises(DataError, match="'long ago' is not a date"):
        found(rows, person(subject_from="long ago"))


@pytest.mark.parametrize("seed", [0, 1])
def test_summary_equals_the_loop(seed):
    scores, about = synthetic(seed)
    facts = fact_metrics(scores)
    summary = anachronism_summary(anachronisms(scores, about, facts), facts)
    assert dict(summary.schema) == SUMMARY_SCHEMA
    expected = looped(scores, about)
    assert summary.select("model", "format", "prefix").rows() == RUNS
    for run, row in zip(RUNS, summary.iter_rows(named=True), strict=True):
        own = [r for r in expected if (r["model"], r["format"], r["prefix"]) == run]
        rated = [r for r in facts.iter_rows(named=True) if (r["model"], r["format"], r["prefix"]) == run]
        names = list(dict.fromkeys(r["fact_id"] for r in rated))
        struck = [float(any(r["fact_id"] == name for r in own)) for name in names]
        assert 0 < len(names) < 24
        assert (row["facts"], row["facts_with"]) == (len(names), sum(struck))
        assert row["share"] == pytest.approx(sum(struck) / len(names))
        assert (row["low"], row["high"]) == pytest.approx(of_shares(struck), abs=1e-9)
        assert row["anachronisms"] == len(own)
        assert row["impossible"] == sum(r["reason"].startswith("before") for r in own)
        if own:
            assert row["most_absurd_alpha"] == own[0]["alpha"]
            assert abs(row["farthest_alpha"]) == max(abs(r["alpha"]) for r in own)
        else:
            assert run[0] == "perfect"
            assert row["most_absurd_alpha"] is row["farthest_alpha"] is None
