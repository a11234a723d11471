"""Believed periods as the page draws them, against plain loops over the saved table and the true dates."""

from datetime import date
from statistics import median

import polars as pl
import pytest

from anachron.analysis.analyses.believed import BELIEVED, BELIEVED_SCHEMA, median_miss
from anachron.analysis.plots.charts import Looks
from anachron.core.dates import Date
from anachron.report.page.periods import SHOWN, period_views

RUN, OTHER = ("m", "raw", "none"), ("m", "chat", "none")
TRUE = [(date(1900 + 3 * n, 1 + n % 12, 5), date(1904 + 3 * n, 12, 31)) for n in range(60)]


def saved(run=RUN, facts=60):
    """A table of believed periods: closed, open at an end, of a fact that still holds, and of nothing."""
    rows = []
    for n, (start, end) in enumerate(TRUE[:facts]):
        first, last = (None if n % 5 == 1 else start.year - n % 4), (None if n % 5 == 2 else end.year + n % 7)
        believed = n % 6 != 5
        if not believed:
            first = last = None
        still = n % 8 == 3
        rows.append(
            dict(zip(("model", "format", "prefix"), run, strict=True))
            | {"fact_id": f"f{n:02d}", "believed": believed, "bic_gain": 100.0 - 7 * (n % 11) if believed else -1.0}
            | {"believed_start": first and str(first), "believed_end": last and str(last), "contexts": 30}
            | {"start_error_days": first and (date(first, 1, 1) - start).days}
            | {"end_error_days": None if still or not last else (date(last, 12, 31) - end).days}
        )
    return pl.DataFrame(rows, schema=BELIEVED_SCHEMA)


def test_the_rows_are_those_of_a_plain_loop_over_the_saved_table(tmp_path):
    saved().write_parquet(tmp_path / "believed.parquet")
    table = pl.read_parquet(tmp_path / "believed.parquet")
    ids = [f"f{n:02d}" for n in reversed(range(60))]
    (view,) = period_views(table, Looks([RUN]), RUN, ids)
    believed = [row for row in table.to_dicts() if row["believed"]]
    closed = [row for row in believed if row["believed_start"] and row["believed_end"]]
    rest = [row for row in believed if row not in closed]
    clearest = sorted(closed, key=lambda row: (-row["bic_gain"], row["fact_id"]))
    clearest += sorted(rest, key=lambda row: (-row["bic_gain"], row["fact_id"]))
    assert len(closed) > SHOWN > 0 and rest
    assert [ids[row["fact"]] for row in view["rows"]] == [row["fact_id"] for row in clearest[:SHOWN]]
    counts = f"{len(believed)} are tied to a period: {len(closed)} with both ends known, {len(rest)} with one."
    assert view["counts"] == f"Of 60 facts {counts}"
    for shown, row in zip(view["rows"], clearest, strict=False):
        start, end = TRUE[int(row["fact_id"][1:])]
        assert (shown["start"], shown["end"]) == (row["believed_start"], row["believed_end"])
        assert shown["believed"] == [int(row["believed_start"]), int(row["believed_end"]) + 1]
        # What is drawn lies as far from the true ends as the table's errors say.
        drawn = [date(int(shown["believed"][0]), 1, 1), date(int(shown["believed"][1]) - 1, 12, 31)]
        for drawn_end, true_end, error in zip(drawn, (start, end), shown["errors"], strict=True):
            assert error is None or (drawn_end - true_end).days == error


def test_open_ends_follow_the_closed_and_the_leading_run_comes_first():
    table = pl.concat([saved(facts=12), saved(OTHER, 12)])
    first, second = period_views(table, Looks([RUN, OTHER]), OTHER, [f"f{n:02d}" for n in range(12)])
    assert (first["label"], second["label"]) == ("m, chat", "m, raw") and first["rows"] == second["rows"]
    opened = [None in row["believed"] for row in first["rows"]]
    assert opened == sorted(opened) and any(opened)
    nothing = table.with_columns(pl.lit(False).alias("believed"))
    assert period_views(nothing, Looks([RUN, OTHER]), RUN, []) == []


def test_years_before_the_common_era_are_places_without_a_gap():
    table = saved(facts=1).with_columns(believed_start=pl.lit("-0002"), believed_end=pl.lit("0001"))
    (view,) = period_views(table, Looks([RUN]), RUN, ["f00"])
    assert view["rows"][0]["believed"] == [-1, 2]  # 2 BCE begins at -1, as 1 BCE is 0
    assert Date.parse("-0002").year == -2


def test_the_median_miss_is_that_of_all_ends_and_its_interval_holds_it():
    rows = saved().to_dicts()
    errors = [abs(row[f"{side}_error_days"]) for row in rows for side in ("start", "end")
              if row["believed"] and row[f"{side}_error_days"] is not None]  # fmt: skip
    facts = {row["fact_id"] for row in rows if row["believed"]
             and (row["start_error_days"] is not None or row["end_error_days"] is not None)}  # fmt: skip
    miss = median_miss(rows)
    assert (miss["median"], miss["ends"], miss["facts"]) == (median(errors), len(errors), len(facts))
    assert min(errors) <= miss["low"] <= miss["median"] <= miss["high"] <= max(errors)
    assert median_miss([rows[5]]) is None and rows[5]["believed"] is False
    both = {"believed": True, "start_error_days": -400, "end_error_days": 400}
    same = [both | {"fact_id": f"f{n}", "subject_label": None} for n in range(12)]
    assert median_miss(same) == {"median": 400, "low": 400, "high": 400, "ends": 24, "facts": 12}


@pytest.mark.parametrize(
    ("days", "told"), [(800, "2.2 years (median; 2.2 to 2.2; 20 ends of 10 facts)"),
                       (30, "30 days (median; 30 to 30; 20 ends of 10 facts)")],
)  # fmt: skip
def test_the_heading_says_the_miss_of_ten_facts_or_more(days, told):
    row = dict(zip(("model", "format", "prefix"), RUN, strict=True)) | {"believed": True}
    row |= {"fact_id": "f", "subject_label": "s"}
    rows = [row | {"start_error_days": -days, "end_error_days": days}] * 10
    said = BELIEVED.found(pl.DataFrame(rows), RUN)
    assert said == f"The ends of believed periods miss the true ones by {told}"
    near = sum(abs(row[f"{end}_error_days"]) < 366 for row in rows[:9] for end in ("start", "end"))
    told = f"Within a year of the truth: {near} of 18 ends of believed periods"
    assert BELIEVED.found(pl.DataFrame(rows[:9]), RUN) == told
    one = [row | {"start_error_days": None, "end_error_days": 366}]
    assert BELIEVED.found(pl.DataFrame(one), RUN) == "Within a year of the truth: 0 of 1 end of believed periods"
    assert BELIEVED.found(pl.DataFrame(rows).with_columns(believed=False), RUN) is None
