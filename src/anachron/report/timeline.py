"""One fact in one line of the terminal: how likely its answer is, date by date, against when it held."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
from rich.text import Text

BARS = "▁▂▃▄▅▆▇█"
WIDTH = 100


def worst_far_errors(scores: pl.DataFrame, facts: pl.DataFrame, lost: pl.DataFrame, count: int) -> list[dict[str, Any]]:
    """The most absurd errors on facts that a model seems to know: at most one a fact and run.

    Among facts with 0.9 <= W < 1 at year granularity, the incorrect year that is farthest from the period
    (abs(alpha) >= 1) and still beats a correct one. Returns the rows of `lost_matches` with the fact's labels,
    start and end, the farthest first.
    """
    labels = scores.select("fact_id", "subject_label", "relation_label", "object_label", "start", "end").unique(
        "fact_id"
    )
    return (
        lost.cast({pl.Categorical: pl.String})
        .filter((pl.col("win_rate") >= 0.9) & (pl.col("win_rate") < 1) & (pl.col("alpha").abs() >= 1))
        .with_columns(pl.col("alpha").abs().alias("distance"))
        .sort(["distance", "fact_id", "model", "format", "prefix"], descending=[True, *[False] * 4])
        .unique(["model", "format", "prefix", "fact_id"], keep="first", maintain_order=True)
        .head(count)
        .join(labels, on="fact_id", how="left", maintain_order="left")
        .to_dicts()
    )


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
        columns.append(
            {
                "logp": max(c["logp"] for c in cell),
                "valid": any(c["status"] == "correct" for c in cell),
                "lost": any(c["lost"] for c in cell),
                "far": any(c["lost"] and abs(c["alpha"]) >= 1 for c in cell),
                "first": cell[0]["time"],
                "last": cell[-1]["time"],
            }
        )
    return columns


def timeline(scores: pl.DataFrame, error: Mapping[str, Any], width: int = WIDTH) -> Text:
    """Two lines for one fact of one run: bars of log-probability, and marks below them.

    ``=`` the fact held, ``x`` the year beat a correct one, ``!`` it did so from at least one period away.
    """
    run = ["model", "format", "prefix", "fact_id"]
    years = scores.filter(
        pl.all_horizontal(pl.col(k) == error[k] for k in run),
        pl.col("granularity") == "year",
        pl.col("status").is_in(["correct", "incorrect", "transitional"]),
    )
    weakest = years.filter(pl.col("status") == "correct")["logp"].min()
    rows = [
        {**row, "lost": row["status"] == "incorrect" and row["logp"] >= weakest}
        for row in years.select("time", "status", "alpha", "logp").iter_rows(named=True)
    ]
    columns = columns_of(rows, width)
    low, high = min(c["logp"] for c in columns), max(c["logp"] for c in columns)
    text = Text()
    text.append(f"{error['subject_label']} | {error['relation_label']} | {error['object_label']}", style="bold")
    text.append(f"   held {error['start']} to {error['end']}   {error['model']}, W {100 * error['win_rate']:.1f} %\n")
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
    text.append(f"\n{year_in_words(columns[0]['first'])}")
    ending = year_in_words(columns[-1]["last"])
    text.append(ending.rjust(max(1, len(columns) - len(year_in_words(columns[0]["first"])))))
    text.append(
        f"\nthe farthest: {year_in_words(error['time'])}, {error['distance']:.1f} periods from the middle of its own\n"
    )
    return text


def year_in_words(time: str) -> str:
    year = int(time)
    return str(year) if year > 0 else f"{-year} BCE"
