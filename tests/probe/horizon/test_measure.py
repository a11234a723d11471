"""Preferences by hand, and the test of a leak."""

from dataclasses import asdict

import numpy as np
import polars as pl
import pytest

from anachron.core.dates import Date
from anachron.core.errors import DataError
from anachron.io.run_folder import Kind, open_run, reopen_run
from anachron.probe.ask.matching import EMPTY, REFUSED, UNANSWERED, UNREADABLE
from anachron.probe.horizon.asking import NEW, OLD, TWICE, UNASKED
from anachron.probe.horizon.changes import Change
from anachron.probe.horizon.find import ASKED, read_horizon, write_found_horizon
from anachron.probe.horizon.fit import fit_horizon
from anachron.probe.horizon.leak import leak_after
from anachron.probe.horizon.measure import (
    NOBODY,
    PREFERENCE_SCHEMA,
    change_preferences,
    dated,
    preferences,
    read_preferences,
    statements,
    usable,
)
from anachron.probe.horizon.questions import ChangeToAsk
from anachron.probe.horizon.summary import compare, curve_table, horizon_json, horizon_of, kinds_table
from anachron.report.terminal.horizon import comparison_lines, horizon_lines, leak_lines

CHANGE = Change("X", "mayor", "Old", "New", Date(2020, 5), before=("First",))


def asked(**scores: float) -> pl.DataFrame:
    one = ChangeToAsk(CHANGE, ("p", "q"), ("Other",), ("Decoy",))
    table = {(prompt, name): value + shift for name, value in scores.items() for prompt, shift in (("p", 1), ("q", -1))}
    return preferences([one], table)


def made(size: int, *, wins: float, decoys: float, month: int = 2020 * 12, subjects: int | None = None) -> pl.DataFrame:
    """Rows of which these shares prefer the new value, and the decoy."""
    rows = {
        "subject": [f"S{i % (subjects or size)}" for i in range(size)], "relation": ["mayor"] * size,
        "kind": ["mayor"] * size, "old": ["o"] * size, "new": ["n"] * size, "date": ["2020-01"] * size,
        "month": [month] * size, "popularity": [None] * size, "predictable": [""] * size, "control": [""] * size,
        "margin": [1.0] * size, "margin_decoy": [0.0] * size, "margin_known": [1.0] * size, "known": [True] * size,
        "wins": [float(i < wins * size) for i in range(size)],
        "decoy_wins": [float(i >= (1 - decoys) * size) for i in range(size)],
        "likeliest_decoy_wins": [float(i >= (1 - decoys) * size) for i in range(size)], "named": [None] * size,
        "source": [None] * size,
    }  # fmt: skip
    return pl.DataFrame(rows, schema=PREFERENCE_SCHEMA)


def test_a_change_is_judged_by_means_over_its_wordings() -> None:
    row = asked(Old=-2.0, New=-1.5, First=-4, Other=-3.0, Decoy=-5.0).row(0, named=True)
    assert row["margin"] == pytest.approx(0.5)
    assert row["margin_decoy"] == pytest.approx(-3)
    assert (row["wins"], row["decoy_wins"], row["known"]) == (1, 0, True)


def test_a_subject_that_nothing_is_known_of_says_nothing() -> None:
    table = asked(Old=-3.0, New=-1.5, First=-4, Other=-2.0, Decoy=-5.0)
    assert not table["known"][0]
    assert usable(table).height == 0


def test_ties_are_half_a_win() -> None:
    assert asked(Old=-2.0, New=-2.0, First=-4, Other=-3.0, Decoy=-2.0).row(0, named=True)["wins"] == 0.5


def test_every_name_is_scored_behind_every_prompt_once() -> None:
    data = statements([ChangeToAsk(CHANGE, ("p", "q"), ("Other",), ("Decoy",))] * 2)
    assert sorted(zip(data.table["prompt"], data.table["answer"], strict=True)) == sorted(
        (prompt, name) for prompt in "pq" for name in ("New", "Old", "First", "Other", "Decoy")
    )


def test_a_leak_has_the_p_of_all_flips_of_signs() -> None:
    table = made(12, wins=0.5, decoys=0.0)
    found = leak_after(table, 2019 * 12)
    assert found.p == pytest.approx(0.5**6)  # six differ, all in one direction: one way of 64
    assert found.leaked
    assert found.rows.height == 6


def test_no_leak_where_decoys_win_as_often() -> None:
    found = leak_after(made(100, wins=0.3, decoys=0.3), 2019 * 12)
    assert found.told
    assert not found.leaked


def with_three_decoys(size: int, floor: float, decoys: float, leaked: float, seed: int) -> pl.DataFrame:
    """New values win with the chance ``floor`` without being known, three decoys with another."""
    random = np.random.default_rng(seed)
    three = (random.random((size, 3)) < decoys) * 1.0
    wins = ((random.random(size) < leaked) | (random.random(size) < floor)) * 1.0
    return made(size, wins=0, decoys=0).with_columns(
        pl.Series("wins", wins), pl.Series("decoy_wins", three.mean(axis=1)),
        pl.Series("likeliest_decoy_wins", three.max(axis=1)),
    )  # fmt: skip


def test_better_guesses_than_decoys_are_no_leak_without_the_month_of_publication() -> None:
    """New values that nobody knows win 15 %, decoys 9 %, as of Gemma 3 270M."""
    found = [leak_after(with_three_decoys(300, 0.15, 0.09, 0.0, seed), 2019 * 12) for seed in range(40)]
    assert sum(one.leaked for one in found) == 0
    untold = [one for one in found if not one.told]
    assert len(untold) > 20
    assert all("lucky guesses may explain it; give the month of publication" in str(one.error) for one in untold)
    assert all(one.p < 0.05 <= (one.p_likeliest or 0) for one in untold)
    much = leak_after(with_three_decoys(300, 0.15, 0.09, 0.3, 0), 2019 * 12)
    assert much.leaked
    assert much.likeliest == pytest.approx(1 - 0.91**3, abs=0.06)


@pytest.mark.share(2)
@pytest.mark.parametrize("released", [None, pytest.param(2021 * 12, marks=pytest.mark.full)])
def test_the_smallest_leak_is_seen_in_four_of_five_tests(released: int | None) -> None:
    def tested(leaked: float, seed: int):
        table = with_three_decoys(250, 0.12, 0.12, leaked, seed)
        later = with_three_decoys(250, 0.12, 0.12, 0.0, 1000 + seed)
        later = later.with_columns(
            pl.lit(2022 * 12, pl.Int64).alias("month"), pl.format("T{}", "subject").alias("subject")
        )
        return leak_after(table if released is None else pl.concat([table, later]), 2019 * 12, released)

    smallest = float(np.mean([tested(0.2, seed).smallest for seed in range(20)]))
    assert 0.02 < smallest < 0.4
    seen = sum(tested(smallest, seed).leaked for seed in range(40))
    assert 24 <= seen <= 40  # 32, and three standard deviations


@pytest.mark.parametrize("table", [made(8, wins=1, decoys=0), made(50, wins=1, decoys=0, month=2018 * 12)])
def test_too_few_changes_after_the_claim_say_nothing(table: pl.DataFrame) -> None:
    found = leak_after(table, 2019 * 12)
    assert not found.told
    assert not found.leaked


@pytest.mark.parametrize("unread", [UNASKED, UNANSWERED, EMPTY, UNREADABLE])
@pytest.mark.parametrize("judged", [0, 9, 30, 39, 40])
def test_a_claim_is_judged_by_at_least_the_share(unread: str, judged: int) -> None:
    """Of forty changes after it; who says that he does not know has answered, and who was asked nothing by rule is left
    out."""
    table = made(42, wins=0, decoys=0)
    named = [OLD] * judged + [unread] * (40 - judged) + [REFUSED, TWICE]
    said = pl.Series([name == OLD for name in named])
    table = table.with_columns(
        named=pl.Series(named), known=said, wins=pl.when(said).then(pl.col("wins")),
        decoy_wins=pl.when(said).then(pl.col("decoy_wins")), likeliest_decoy_wins=pl.lit(None, pl.Float64),
    )  # fmt: skip
    for share in (0.0, 0.5, 0.75, 1.0):
        found = leak_after(table, 2019 * 12, min_judged=share)
        assert (found.asked, found.judged, found.changes) == (41, judged + 1, judged)
        assert found.told is (judged >= 10 and (judged + 1) / 41 >= share)
        assert bool(found.error) is not found.told


def test_what_is_guessed_after_publication_is_taken_off() -> None:
    before, after = made(60, wins=0.4, decoys=0.0), made(60, wins=0.4, decoys=0.0, month=2022 * 12)
    after = after.with_columns(pl.format("T{}", "subject").alias("subject"))
    both = pl.concat([before, after])
    assert leak_after(both, 2019 * 12).leaked
    found = leak_after(both, 2019 * 12, 2021 * 12)
    assert found.ahead == pytest.approx(0.4)
    assert not found.leaked
    known = pl.concat([before.with_columns(wins=pl.lit(1.0)), after])
    assert leak_after(known, 2019 * 12, 2021 * 12).leaked


@pytest.mark.parametrize(("grade", "left_out"), [("", False), ("low", False), ("medium", True), ("high", True)])
def test_foreseen_changes_are_no_leak(grade: str, left_out: bool) -> None:
    table = made(40, wins=1, decoys=0).with_columns(predictable=pl.lit(grade))
    assert leak_after(table, 2019 * 12).told is not left_out


def test_each_grade_of_some_rows_is_a_column() -> None:
    rows = made(6, wins=1, decoys=0)
    graded = rows.with_columns(predictable=pl.Series(["high", "medium", "", "low", "high", ""]))
    assert change_preferences(rows).guessable is None
    found = change_preferences(graded).guessable
    assert found is not None
    assert found.tolist() == [[0, 1], [1, 0], [0, 0], [0, 0], [0, 1], [0, 0]]
    only = change_preferences(graded.filter(pl.col("predictable") != "medium")).guessable
    assert only is not None
    assert only.shape == (5, 1)


def test_a_table_of_an_older_run_has_grades_too() -> None:
    rows = made(2, wins=1, decoys=0).with_columns(predictable=pl.Series(["true", "false"]))
    text = pl.read_csv(rows.write_csv().encode(), infer_schema=False)
    assert read_preferences(text)["predictable"].to_list() == ["high", ""]


@pytest.mark.full
@pytest.mark.parametrize("subjects", [200, 60])
def test_a_leak_is_seen_where_there_is_none_as_rarely_as_it_says(subjects: int) -> None:
    random, seen = np.random.default_rng(0), 0
    for _ in range(300):
        chance = random.beta(1, 9, subjects)[np.arange(200) % subjects]  # subjects differ
        wins, decoys = ((random.random(200) < chance) * 1.0 for _ in range(2))
        table = made(200, wins=0, decoys=0, subjects=subjects)
        seen += leak_after(
            table.with_columns(
                pl.Series("wins", wins), pl.Series("decoy_wins", decoys), pl.Series("likeliest_decoy_wins", decoys)
            ),
            2019 * 12,
        ).leaked
    assert seen <= 27  # of 300, 5 % and three standard deviations


def timed(months: np.ndarray, wins: np.ndarray) -> pl.DataFrame:
    table = made(len(months), wins=0, decoys=0).with_columns(pl.Series("month", months), pl.Series("wins", wins))
    return table.with_columns(pl.Series("popularity", np.arange(len(months)) * 1.0))


def test_summary_tables_and_lines() -> None:
    random = np.random.default_rng(0)
    months = random.integers(2010 * 12, 2026 * 12, 500)
    table = timed(months, ((months < 2018 * 12) & (random.random(500) < 0.9)) * 1.0)
    found = horizon_of(table)
    assert found is not None
    summary = {"model": "m"} | horizon_json(found, table)
    assert summary["halving"]["low"] <= "2018-01" <= summary["halving"]["high"]
    assert change_preferences(table).known_better is not None
    assert summary["plateau"] == pytest.approx(0.9, abs=0.05)
    assert summary["floor"] < 0.03
    curve = curve_table(found)
    assert curve["changes"].sum() == 500
    early, late = curve.filter(pl.col("month") == "2012-06"), curve.filter(pl.col("month") == "2024-06")
    assert early["low"][0] > 0.7
    assert late["high"][0] < 0.2
    assert (curve["low"] <= curve["chance"]).all()
    assert any("halving date: 20" in line for line in horizon_lines(summary, kinds_table(table, found)))


@pytest.mark.full
def test_too_few_and_level_answers_are_said_to_tell_nothing() -> None:
    few = made(10, wins=0.5, decoys=0)
    assert "20 are needed" in horizon_json(horizon_of(few), few)["reason"]
    months = np.random.default_rng(1).integers(2010 * 12, 2026 * 12, 300)
    level = timed(months, np.zeros(300))
    said = horizon_json(horizon_of(level), level)
    assert not said["told"]
    assert any("cannot tell" in line for line in horizon_lines({"model": "m"} | said))


@pytest.mark.full
def test_who_rather_declines_than_names_somebody_out_of_date_is_dated_rightly() -> None:
    """What it knows becomes less over four years; of what it does not know it declines nine in ten."""
    errors: dict[str, list[float]] = {"with refusals": [], "without": []}
    for seed in range(3):
        random = np.random.default_rng(seed)
        months = random.integers(2010 * 12, 2026 * 12, 1500)
        known = random.random(1500) < 0.8 * np.clip((2020 * 12 - months) / 48, 0, 1)
        old = random.random(1500) < 0.1
        said = np.where(known, NEW, np.where(old, OLD, np.where(random.random(1500) < 0.5, REFUSED, NOBODY)))
        table = timed(months, known * 1.0).with_columns(
            pl.Series("named", said), pl.Series("known", known | old), popularity=pl.lit(None, pl.Float64)
        )
        for name, rows in (("with refusals", dated(table)), ("without", usable(table))):
            middle, low, high = fit_horizon(change_preferences(rows)).halving()
            errors[name].append(abs(middle - 2018 * 12))
            assert name == "without" or int(low) <= 2018 * 12 <= high
    assert np.mean(errors["with refusals"]) < 4 < 6 < np.mean(errors["without"])


@pytest.mark.full
def test_decoys_that_fall_too_make_the_date_untold() -> None:
    random = np.random.default_rng(0)
    months = random.integers(2010 * 12, 2026 * 12, 600)
    fallen = ((months < 2018 * 12) & (random.random(600) < 0.8)) * 1.0
    table = timed(months, fallen)
    assert horizon_json(horizon_of(table), table)["told"]
    also = table.with_columns(pl.Series("decoy_wins", ((months < 2018 * 12) & (random.random(600) < 0.5)) * 1.0))
    said = horizon_json(horizon_of(also), also)
    assert not said["told"]
    assert "decoys, of which it can know nothing" in said["reason"]


@pytest.mark.full
def test_no_end_is_told_where_later_changes_are_known() -> None:
    random = np.random.default_rng(0)
    months = random.integers(2010 * 12, 2026 * 12, 900)
    known = np.where(months < 2018 * 12, 0.8, 0.3)
    table = timed(months, (random.random(900) < known) * 1.0)
    said = {"model": "m"} | horizon_json(horizon_of(table), table)
    assert said["told"]
    assert "end" not in said
    assert any("something is known of later changes too" in line for line in horizon_lines(said))


def test_two_models_are_compared_on_what_both_were_asked() -> None:
    months = np.random.default_rng(1).integers(2010 * 12, 2026 * 12, 400)
    tables = [timed(months, (months < 12 * year) * 1.0) for year in (2015, 2019)]
    tables = [t.with_columns(pl.Series("new", [f"n{i}" for i in range(400)])) for t in tables]
    found = compare("early", tables[0], "late", tables[1].head(390))
    assert found.changes == 390
    assert found.only_first == 0
    assert found.only_second == int(((months[:390] >= 2015 * 12) & (months[:390] < 2019 * 12)).sum())
    assert found.p < 0.001
    assert found.low is not None
    assert found.high is not None
    assert found.low <= 48 <= found.high
    assert "late against early" in next(comparison_lines([asdict(found)]))


def test_lines_of_a_leak_name_what_gave_it_away() -> None:
    row = {"date": "2020-01", "subject": "S", "relation": "mayor", "old": "o", "new": "n", "margin": 1.0}
    leak = {
        "claim": "2019-01", "told": True, "leaked": True, "changes": 12, "new_preferred": 0.5, "decoys_preferred": 0.0,
        "ahead_without_knowing": 0.0, "p": 0.0156, "confidence": 0.95, "gave_away": [row], "asked": 20, "judged": 19,
        "error": None, "likeliest_decoys_preferred": 0.25, "p_likeliest": 0.03125, "smallest_seen": 0.4,
    }  # fmt: skip
    lines = list(leak_lines(leak))
    assert "LEAK" in lines[0]
    assert "12 changes after it that could be tested (of 20; 19 judged)" in lines[0]
    assert "the likeliest decoy of each in 25 %" in lines[0]
    assert "a leak of less than about 40 % of them" in lines[0]
    assert "S, mayor: o -> n" in lines[1]


@pytest.mark.full
def test_a_horizon_that_is_there_is_judged_again_without_its_model(tmp_path) -> None:
    random = np.random.default_rng(0)
    months = random.integers(2010 * 12, 2026 * 12, 300)
    table = timed(months, (months < 2018 * 12) * 1.0).with_columns(
        decoy_wins=pl.lit(0.0), likeliest_decoy_wins=pl.lit(0.0)
    )
    with open_run(tmp_path / ASKED, {"label": "m"}, Kind.CHANGES) as run:
        run.finish()
    first = write_found_horizon(tmp_path, "m", table, None, None, 1.0)
    again = read_horizon(tmp_path, claim=2016 * 12)
    assert again.preferences.equals(table)
    assert again.leak is not None
    assert again.leak.leaked
    assert {k: v for k, v in again.summary.items() if k != "leak"} == first.summary
    honest = read_horizon(tmp_path, claim=2018 * 12)
    assert honest.leak is not None
    assert not honest.leak.leaked
    late = read_horizon(tmp_path, claim=2990 * 12)
    assert late.leak is not None
    assert "only 0 of 0 changes after it" in str(late.summary["leak"]["error"])
    with pytest.raises(DataError, match="no horizon here"):
        read_horizon(tmp_path / "nowhere")
    with reopen_run(tmp_path / ASKED) as run:
        run.write("../changes.csv", b"subject\nX\n")
    with pytest.raises(DataError, match="it is not a table that anachron horizon wrote"):
        read_horizon(tmp_path)
