"""One fact in one line of the terminal: how likely its answer is, date by date, against when it held."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
from rich.text import Text

from anachron.analysis.plots.words import year_name

BARS = "▁▂▃▄▅▆▇█"
WIDTH, SHORT = 100, 30


def columns_of(years: Sequence[Mapping[str, Any]], width: int = WIDTH) -> list[dict[str, Any]]:
    """Year contexts in order of time, merged evenly into at most ``width`` columns.

    A column takes the highest score of its years, the mark of the worst error among them (``far`` before
    ``lost``) and is ``valid`` when any of them is correct.
    """
    ordered = sorted(years, key=lambda c: int(c["time"]))
    count = min(width, len(ordered))
    columns = []
    for i in range(count):
        cell = ordered[i * len(ordered) // count : (i + 1) * len(ordered) // count]
        column = {"logp": max(c["logp"] for c in cell), "valid": any(c["status"] == "correct" for c in cell)}
        column |= {name: any(c[name] for c in cell) for name in ("lost", "far")}
        columns.append(column | {"first": cell[0]["time"], "last": cell[-1]["time"]})
    return columns


def short_timeline(years: pl.DataFrame, width: int = SHORT) -> str:
    """A fact of one run in one line: a bar of log-probability a year, its own period in brackets: ``▂▁▃[▆█▇]▄▃▂``.

    years: its year contexts, with ``time, status, logp``. Brackets are put where years become correct, and where they
    are so no longer; a bar stands for the best of several years where there are more than fit.
    """
    rows = years.filter(pl.col("time").is_not_null()).with_columns(
        pl.lit(False).alias(name) for name in ("lost", "far")
    )
    columns = columns_of(list(rows.iter_rows(named=True)), width)
    low, high = (f((c["logp"] for c in columns), default=0.0) for f in (min, max))
    text, inside = "", False
    for column in columns:
        if column["valid"] != inside:
            text, inside = text + ("]" if inside else "["), not inside
        text += BARS[round((len(BARS) - 1) * (column["logp"] - low) / (high - low)) if high > low else 0]
    return text + ("]" if inside else "")


def timeline(years: pl.DataFrame, width: int = WIDTH) -> Text:
    """A few lines for one fact of one run: bars of log-probability, and marks below them.

    years: the rows of one rank in the table ``timelines``, see `anachron.analysis.analyses.timelines.timelines`.
    ``=`` the fact held, ``x`` the year beat a correct one, ``!`` it did so from at least one period away.
    """
    error = max(years.filter("far").iter_rows(named=True), key=lambda row: abs(row["alpha"]))
    columns = columns_of(list(years.iter_rows(named=True)), width)
    low, high = min(c["logp"] for c in columns), max(c["logp"] for c in columns)
    text = Text()
    text.append(f"{error['subject_label']} | {error['relation_label']} | {error['object_label']}", style="bold")
    text.append(
        f"   held {error['start']} to {error['end'] or 'now'}   {error['model']}, W {100 * error['win_rate']:.1f} %\n"
    )
    for column in columns:
        level = round((len(BARS) - 1) * (column["logp"] - low) / (high - low)) if high > low else 0
        text.append(BARS[level], style="green" if column["valid"] else "red" if column["lost"] else "dim")
    text.append("\n")
    for column in columns:
        mark, style = (
            ("=", "green") if column["valid"] else ("!", "bold red") if column["far"] else ("x", "red")
            if column["lost"] else (" ", "")
        )  # fmt: skip
        text.append(mark, style=style)
    first, last = (year_name(int(columns[i][side])) for i, side in ((0, "first"), (-1, "last")))
    text.append(f"\n{first}{last.rjust(max(1, len(columns) - len(first)))}")
    farthest = year_name(int(error["time"]))
    text.append(f"\nthe farthest: {farthest}, {abs(error['alpha']):.1f} periods from the middle of its own\n")
    return text
