"""Dates of facts and contexts as day numbers, which tables can compare."""

import polars as pl

from anachron.core.dates import Date


def days_of(times: pl.Series) -> pl.DataFrame:
    """Every ``time`` once, with the day numbers of its ``first`` and ``last`` day. Raises `DataError` for no date."""
    texts = times.drop_nulls().unique()
    dates = [Date.parse(text) for text in texts]
    return pl.DataFrame(
        {"time": texts, "first": [date.first_day for date in dates], "last": [date.last_day for date in dates]},
        schema_overrides={"first": pl.Int64, "last": pl.Int64},
    )


def day_numbers(about: pl.DataFrame, name: str, *, last: bool = False) -> pl.Series:
    """The first day, or the last one, of each date in a column; null where it is not known or no such column is there.

    Raises `DataError` for what is no date.
    """
    texts = about[name].cast(pl.String) if name in about.columns else [None] * about.height
    dates = [None if text is None else Date.parse(text) for text in texts]
    days = [None if date is None else date.last_day if last else date.first_day for date in dates]
    return pl.Series(name, days, dtype=pl.Int64)
