"""Win rate and robustness against plain double loops over matches, and their laws."""

from itertools import accumulate, permutations
from math import comb, inf, nan
from random import Random

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anachron.analysis.metrics import SCORE_COLUMNS, fact_metrics, summarise, without_matches
from anachron.analysis.statistics import random_robustness
from anachron.core.errors import DataError
from support.intervals import of_shares

GRANULARITIES = ("year", "month", "day")
KEYS = ("model", "format", "prefix", "fact_id")
NOISE = 0.25  # scores are multiples of a quarter, so differences of exactly the noise occur

scores_of = st.lists(st.integers(-50, 50), min_size=1, max_size=8)
few = settings(max_examples=min(60, settings.default.max_examples))


def row(status, logp, time, granularity="year", fact="f", model="m", format="raw", prefix="none"):
    return dict(zip(SCORE_COLUMNS, (model, format, prefix, fact, granularity, time, status, 0.5, logp), strict=True))


def table(rows):
    return pl.DataFrame(rows, infer_schema_length=None)


def rows_of(correct, incorrect, **keys):
    """Rows of one fact; statuses that do not count get scores that would change every result."""
    scored = [("correct", x) for x in correct] + [("incorrect", x) for x in incorrect]
    scored += [("transitional", 99.0), ("transitional", -99.0), ("discarded", 99.0), ("discarded", -99.0)]
    rows = [row(status, float(logp), f"{n:04d}", **keys) for n, (status, logp) in enumerate(scored, 1)]
    return [*rows, row("none", 99.0, None, **keys) | {"alpha": None}]


def one_fact(correct, incorrect):
    """Metrics of a fact that has year contexts only."""
    return fact_metrics(table(rows_of(correct, incorrect))).row(0, named=True)


def synthetic(seed):
    """Two models, two formats, eight facts; some facts lack correct or incorrect contexts, some a granularity."""
    random = Random(seed)
    rows = []
    for model in ("alpha", "beta"):
        for format in ("raw", "chat"):
            for fact in range(8):
                for granularity in GRANULARITIES:
                    if fact == 4 and granularity == "day":
                        continue
                    correct = 0 if fact == 1 or (fact == 2 and granularity == "month") else random.randint(1, 4)
                    incorrect = 0 if fact == 3 else random.randint(1, 12)
                    bonus = random.choice([0, 8, 30])
                    rows += rows_of(
                        [(random.randint(-24, -1) + bonus) / 4 for _ in range(correct)],
                        [random.randint(-24, -1) / 4 for _ in range(incorrect)],
                        granularity=granularity, fact=f"f{fact}", model=model, format=format,
                    )  # fmt: skip
    random.shuffle(rows)
    return rows


def looped(rows, noise):
    """(fact keys, granularity) -> metrics, by comparing every correct score with every incorrect one."""
    found = {}
    for key in {tuple(r[k] for k in KEYS) for r in rows}:
        of_fact = [r for r in rows if tuple(r[k] for k in KEYS) == key]
        per_granularity = []
        for granularity in GRANULARITIES:
            won = ties = near = 0
            here = [r for r in of_fact if r["granularity"] == granularity]
            correct = [r["logp"] for r in here if r["status"] == "correct"]
            incorrect = [r["logp"] for r in here if r["status"] == "incorrect"]
            for c in correct:
                for i in incorrect:
                    won += c > i
                    ties += c == i
                    near += 0 < abs(c - i) <= noise
            matches = len(correct) * len(incorrect)
            if matches:
                chance = 1 / comb(len(correct) + len(incorrect), len(correct))
                numbers = {
                    "win_rate": won / matches, "robustness": 1.0 if won == matches else 0.0, "matches": matches,
                    "ties": ties, "near_ties": near, "win_rate_half_ties": (won + ties / 2) / matches,
                    "random_robustness": chance,
                }  # fmt: skip
                per_granularity.append(numbers)
                found[(*key, granularity)] = numbers
        if len(per_granularity) == 3:
            year, month, day = per_granularity
            together = {name: year[name] + month[name] + day[name] for name in ("matches", "ties", "near_ties")}
            for name in ("win_rate", "win_rate_half_ties"):
                together[name] = (year[name] + month[name] + day[name]) / 3
            for name in ("robustness", "random_robustness"):
                together[name] = year[name] * month[name] * day[name]
            found[(*key, "global")] = together
    return found


@pytest.mark.parametrize("seed", range(5))
def test_every_fact_equals_the_double_loop(seed):
    rows = synthetic(seed)
    facts = fact_metrics(table(rows), noise=NOISE)
    expected = looped(rows, NOISE)
    got = {tuple(r[k] for k in (*KEYS, "granularity")): r for r in facts.iter_rows(named=True)}
    assert len(got) == facts.height
    assert got.keys() == expected.keys()
    for key, numbers in expected.items():
        assert {name: got[key][name] for name in numbers} == pytest.approx(numbers, abs=1e-12), key
    assert facts["ties"].sum() > 0
    assert facts["near_ties"].sum() > 0
    assert 0 < facts["robustness"].sum() < facts.height


def test_near_ties_are_unknown_without_a_noise():
    facts = fact_metrics(table(synthetic(0)))
    assert facts["near_ties"].null_count() == facts.height
    assert summarise(facts)["near_ties"].null_count() == summarise(facts).height


def test_integer_and_float32_scores_are_taken():
    rows = table(rows_of([3, 1], [2, 1]))
    for kind in (pl.Int64, pl.Float32):
        assert fact_metrics(rows.with_columns(pl.col("logp").cast(kind)))["win_rate"][0] == 0.5


@few
@given(scores_of, scores_of, st.randoms(use_true_random=False))
def test_row_order_does_not_matter(correct, incorrect, random):
    rows = rows_of(correct, incorrect) + rows_of(incorrect, correct, fact="g")
    before = fact_metrics(table(rows), noise=2.0).sort("fact_id")
    random.shuffle(rows)
    assert before.equals(fact_metrics(table(rows), noise=2.0).sort("fact_id"))


@few
@given(scores_of, scores_of, st.lists(st.integers(1, 9), min_size=101, max_size=101))
def test_strictly_monotone_transformations_change_nothing(correct, incorrect, steps):
    mapped = dict(zip(range(-50, 51), accumulate(steps), strict=True))
    names = ("win_rate", "robustness", "ties", "win_rate_half_ties")
    before = one_fact(correct, incorrect)
    after = one_fact([mapped[x] for x in correct], [mapped[x] for x in incorrect])
    assert [before[n] for n in names] == [after[n] for n in names]


@few
@given(scores_of, scores_of)
def test_bounds_and_robustness_means_all_won(correct, incorrect):
    found = one_fact(correct, incorrect)
    assert 0 <= found["win_rate"] <= found["win_rate_half_ties"] <= 1
    assert found["robustness"] in (0, 1)
    assert (found["robustness"] == 1) == (found["win_rate"] == 1) == (min(correct) > max(incorrect))


@few
@given(scores_of, scores_of)
def test_half_ties_of_negated_scores_are_the_complement(correct, incorrect):
    mirrored = one_fact([-x for x in correct], [-x for x in incorrect])
    assert one_fact(correct, incorrect)["win_rate_half_ties"] + mirrored["win_rate_half_ties"] == pytest.approx(1)


@few
@given(st.lists(st.integers(-50, 50), min_size=2, max_size=12, unique=True), st.data())
def test_win_rates_of_negated_scores_are_complements_without_ties(values, data):
    cut = data.draw(st.integers(1, len(values) - 1))
    mirrored = one_fact([-x for x in values[:cut]], [-x for x in values[cut:]])
    assert one_fact(values[:cut], values[cut:])["win_rate"] + mirrored["win_rate"] == pytest.approx(1)


def test_random_scores_reach_the_random_baselines():
    random = Random(7)
    rows = []
    for fact in range(800):
        values = [random.random() for _ in range(3)]
        rows += rows_of(values[:1], values[1:], fact=f"f{fact}")
    found = summarise(fact_metrics(table(rows))).row(0, named=True)
    assert found["win_rate"] == pytest.approx(0.5, abs=0.05)
    assert found["robustness"] == pytest.approx(1 / 3, abs=0.06)
    assert found["random_robustness"] == pytest.approx(1 / 3)
    assert found["random_win_rate"] == 0.5


@pytest.mark.parametrize(("correct", "incorrect"), [(1, 1), (1, 5), (2, 2), (2, 4), (3, 3), (4, 2), (5, 1)])
def test_random_robustness_counts_all_orders(correct, incorrect):
    orders = list(permutations(range(correct + incorrect)))
    won = sum(min(order[:correct]) > max(order[correct:]) for order in orders)
    assert random_robustness(correct, incorrect) == pytest.approx(won / len(orders), rel=1e-12)


def test_random_robustness_of_the_published_worst_case():
    assert round(random_robustness(2, 20), 5) == 0.00433
    assert random_robustness(2, 20) == pytest.approx(1 / 231, rel=1e-12)
    assert random_robustness(30, 170) == pytest.approx(1 / comb(200, 30), rel=1e-9)


@pytest.mark.parametrize("named", [False, True])
def test_summary_holds_means_over_facts_with_intervals_over_subjects(named):
    """Facts f0 and f1 are of one subject, f2 and f3 of another, where the table names them."""
    scores = table(synthetic(3))
    if named:
        scores = scores.with_columns(subject_label=pl.col("fact_id").str.slice(1).cast(pl.Int64) // 2)
    facts = fact_metrics(scores, noise=NOISE)
    summary = summarise(facts)
    groups = {tuple(r[k] for k in (*KEYS[:3], "granularity")) for r in facts.iter_rows(named=True)}
    assert len(groups) == 2 * 2 * 4
    assert summary.height == len(groups)
    for got in summary.iter_rows(named=True):
        mine = [
            r
            for r in facts.iter_rows(named=True)
            if all(r[k] == got[k] for k in ("model", "format", "prefix", "granularity"))
        ]
        matches = sum(r["matches"] for r in mine)
        assert got["facts"] == len(mine)
        for name in ("win_rate", "robustness", "win_rate_half_ties", "random_robustness"):
            assert got[name] == pytest.approx(sum(r[name] for r in mine) / len(mine), abs=1e-12)
        for name in ("ties", "near_ties"):
            assert got[name] == pytest.approx(sum(r[name] for r in mine) / matches, abs=1e-12)
        for name in ("win_rate", "robustness"):
            subjects = [int(r["fact_id"][1:]) // 2 if named else r["fact_id"] for r in mine]
            expected = of_shares([r[name] for r in mine], subjects)
            assert (got[f"{name}_low"], got[f"{name}_high"]) == pytest.approx(expected, abs=1e-9)


def test_summary_of_no_facts_is_an_error():
    with pytest.raises(DataError, match="no fact has both a correct and an incorrect context"):
        summarise(fact_metrics(table(rows_of([1.0], []))))


def test_without_matches_counts_the_facts_left_out():
    rows = rows_of([1], [0]) + rows_of([], [0], fact="g") + rows_of([1], [], fact="h") + rows_of([], [], fact="i")
    rows += rows_of([1], [], granularity="day") + rows_of([1], [0], model="n")
    found = {(r["model"], r["granularity"]): r for r in without_matches(table(rows)).iter_rows(named=True)}
    assert {key: (r["no_correct"], r["no_incorrect"]) for key, r in found.items()} == {
        ("m", "year"): (2, 1),
        ("m", "day"): (3, 1),  # three facts have no day at all, though the run has days
        ("n", "year"): (0, 0),
    }
    measured = fact_metrics(table(rows))
    assert measured.select("model", "fact_id", "granularity").rows() == [("m", "f", "year"), ("n", "f", "year")]


@pytest.mark.parametrize("name", SCORE_COLUMNS)
def test_missing_column(name):
    with pytest.raises(DataError, match=f"lacks the column {name};"):
        fact_metrics(table(rows_of([1], [0])).drop(name))


def test_empty_table():
    with pytest.raises(DataError, match="no rows"):
        fact_metrics(table(rows_of([1], [0])).clear())


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("logp", nan, "row 2: logp nan is not a finite number"),
        ("logp", inf, "row 2: logp inf is not a finite number"),
        ("logp", -inf, "row 2: logp -inf is not a finite number"),
        ("logp", None, "row 2: logp None is empty; every row needs one"),
        ("status", "Correct", "row 2: status 'Correct' is unknown; use one of correct, incorrect"),
        ("status", None, "row 2: status None is empty; every row needs one"),
        ("granularity", "decade", "row 2: granularity 'decade' is unknown; use one of year, month, day"),
        ("alpha", None, "row 2: alpha None is not a finite number; every dated row needs one"),
        ("alpha", nan, "row 2: alpha nan is not a finite number; every dated row needs one"),
        ("prefix", None, "row 2: prefix None is empty; every row needs one"),
        ("format", "html", "row 2: format 'html' is unknown; use one of raw, chat"),
        ("noise", "little", "row 2: noise 'little' is no number from 0 on"),
        ("noise", "-0.5", "row 2: noise '-0.5' is no number from 0 on"),
        ("granularity", "global", "row 2: granularity 'global' is unknown"),
    ],
)
def test_broken_value_is_named_with_its_row(column, value, message):
    rows = rows_of([1, 2], [0])
    rows[1][column] = value
    with pytest.raises(DataError, match=message):
        fact_metrics(table(rows))


@pytest.mark.parametrize("alpha", [nan, "", "nan", "None"])
def test_without_a_date_nothing_is_asked_of_the_position(alpha):
    rows = rows_of([1, 2], [0])
    as_written = table(rows).with_columns(pl.col("alpha").cast(pl.String) if isinstance(alpha, str) else pl.all())
    by_pandas = as_written.with_columns(pl.col("alpha").fill_null(alpha))
    assert fact_metrics(by_pandas).equals(fact_metrics(table(rows)))


def test_duplicate_row_is_named():
    rows = rows_of([1, 2], [0])
    with pytest.raises(
        DataError, match=r"row 9: the same as row 2 \(model 'm', .* fact_id 'f', granularity 'year', time '0002'\)"
    ):
        fact_metrics(table([*rows, rows[1] | {"logp": -3.0, "status": "incorrect"}]))
    undated = rows_of([1], [0])[-1]
    with pytest.raises(DataError, match="the same as row"):
        fact_metrics(table([*rows, undated]))


@pytest.mark.parametrize("key", ["model", "format", "prefix", "fact_id"])
def test_rows_of_another_run_or_fact_are_no_duplicates(key):
    rows = rows_of([2], [1])
    facts = fact_metrics(table(rows + [r | {key: "chat"} for r in rows]))
    assert facts[key].n_unique() == facts.height == 2


def test_each_run_has_its_own_noise():
    rows = rows_of([1.0, 0.5], [0.9, 0.0], model="m") + rows_of([1.0, 0.5], [0.9, 0.0], model="n")
    scores = table(rows).with_columns(
        pl.when(pl.col("model") == "m").then(0.15).otherwise(0.55).alias("noise").cast(pl.Float64)
    )
    found = {r["model"]: r["near_ties"] for r in fact_metrics(scores).iter_rows(named=True)}
    assert found == {"m": 1, "n": 3}  # |1 - 0.9| alone; then |0.5 - 0.9| and |0.5 - 0| too
    assert set(fact_metrics(scores, noise=0.0)["near_ties"]) == {0}
