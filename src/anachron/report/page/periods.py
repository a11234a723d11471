"""Believed periods beside the true ones: which facts the page draws, and by how much their ends miss."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from anachron.analysis.plots.charts import Looks, by_run
from anachron.core.dates import Date
from anachron.io.files import Json
from anachron.text.dates import date_in_words

SHOWN = 20  # facts a run

RULE = (
    f"Shown are at most {SHOWN} facts: those tied most clearly to a period (highest gain in BIC), with both ends known "
    "before those with one, in the order of their true start. An arrow: the fact still holds, or the believed end lies "
    "beyond the years asked about. No end is known more finely than these years are apart."
)


def period_views(table: pl.DataFrame, looks: Looks, leading: Sequence[str], ids: Sequence[str]) -> list[Json]:
    """Of each run the facts to be drawn: ``label, counts, rows``; runs that tie no fact to a period have none.

    table: ``believed``, see `anachron.analysis.analyses.believed`. leading: the run that comes first. ids: the page's
    facts in their order.

    A row has the index of its ``fact``, the believed ``start`` and ``end`` as years, ``believed``: where on a time axis
    that period begins and is over, and ``errors``: days by which start and end miss the true ones, negative where they
    are too early. What is open or unknown is None.
    """
    places = {fact: i for i, fact in enumerate(ids)}
    views = []
    for key, group in sorted(by_run(table), key=lambda run: run[0] != tuple(leading)):
        chosen, counts = _clearest(group)
        if chosen.height:
            rows = [_row(row, places) for row in chosen.iter_rows(named=True)]
            views.append({"label": looks.name(key), "counts": counts, "rows": rows})
    return views


def _clearest(group: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """By how clearly they are tied, those with both ends known first, and in words how many there are of each."""
    ends = pl.col("believed_start").is_not_null().cast(pl.Int64) + pl.col("believed_end").is_not_null().cast(pl.Int64)
    believed = group.filter("believed").with_columns(ends.alias("ends"))
    order = believed.sort("ends", "bic_gain", "fact_id", descending=[True, True, False], maintain_order=True)
    both, one = (believed.filter(pl.col("ends") == n).height for n in (2, 1))
    counts = (
        f"Of {group.height:,} facts {believed.height:,} are tied to a period: {both:,} with both ends known, "
        f"{one:,} with one."
    )
    return order.head(SHOWN), counts


def _row(row: Mapping[str, Any], places: Mapping[str, int]) -> Json:
    start, end = row["believed_start"], row["believed_end"]
    return {
        "fact": places[row["fact_id"]],
        "start": start,
        "end": end,
        "believed": [
            None if start is None else round(position(Date.parse(start).first_day), 4),
            None if end is None else round(position(Date.parse(end).last_day + 1), 4),
        ],
        "errors": [row["start_error_days"], row["end_error_days"]],
    }


def position(day: int) -> float:
    """Where a day (by its number) begins on a time axis in years: 2011.5 is the middle of 2011, 0.5 that of 1 BCE."""
    year = Date.from_day_number(day).year
    first, last = Date(year).first_day, Date(year).last_day
    return (year if year > 0 else year + 1) + (day - first) / (last - first + 1)


STAND_IN, SLOT = 8888, "{}"  # a leap year, whose digits are in no month and no day


def openings(times: Iterable[str], style: str) -> Json | None:
    """``years`` (``{"-44": "44 BCE"}``) and ``patterns`` by month and day (``{"3-24": "On March 24, {}, "}``; 0 where a
    date is coarser) that make the opening of every date.

    None where a wording cannot be taken apart like this, so that no wrong prompt is shown.
    """
    front, _, back = date_in_words(Date(STAND_IN), style).partition(str(STAND_IN))
    years: dict[str, str] = {}
    patterns: dict[str, str] = {}
    for time in times:
        date = Date.parse(time)
        key, year = f"{date.month or 0}-{date.day or 0}", str(date.year)
        if key not in patterns:
            words = date_in_words(Date(STAND_IN, date.month, date.day), style)
            patterns[key] = words.replace(str(STAND_IN), SLOT)
        if year not in years:
            years[year] = date_in_words(Date(date.year), style).removeprefix(front).removesuffix(back)
        if patterns[key].replace(SLOT, years[year]) != date_in_words(date, style):
            return None
    return {"years": years, "patterns": patterns}
