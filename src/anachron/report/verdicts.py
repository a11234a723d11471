"""A check for the terminal: a line a fact, and what they come to."""

from collections.abc import Iterator
from typing import Any

import polars as pl
from rich.cells import cell_len
from rich.text import Text

from anachron.checks.present import STALE
from anachron.checks.verdicts import belief_in_words
from anachron.core.dates import Date
from anachron.io import Json
from anachron.plots.words import year_name
from anachron.report.tables import percent

STYLES = {"robust": "bold green", "known": "green", "shaky": "yellow", "wrong period": "red", "unknown": "dim"}
LONGEST = 32  # letters of an object's name that others are lined up with
LEGEND = "bars: log-probability of the answer by year, [ ] the fact's own period; W: share of matches won"


def verdict_lines(verdicts: pl.DataFrame, width: int = 120) -> Iterator[Text]:
    """A line a fact under one for its subject and relation. verdicts: as of `anachron.pipelines.check.Check`.

    width: cells of the screen. Where dates do not fit beside the timeline, years take their place; what is said of a
    verdict stands behind it, or in a line of its own where it does not fit. Names longer than the column are kept.
    """
    rows = list(verdicts.iter_rows(named=True))
    asked = [row for row in rows if row["verdict"]]
    name = min(LONGEST, max((cell_len(row["object"]) for row in rows), default=0))
    bars = max((len(row["timeline"] or "") for row in asked), default=0)
    dates = max((len(_held(row)) for row in rows), default=0)
    years_only = 2 + name + 2 + dates + 2 + bars + 2 + len("W 100 %  wrong period") > width
    if years_only:
        dates = max((len(_held(row, years_only)) for row in rows), default=0)
    last = None
    for row in rows:
        group = f"{row['subject']}, {row['relation']}"
        if group != last:
            last = group
            yield Text(group, style="bold")
        cells = [(row["object"], name), (_held(row, years_only), dates)]
        if row["verdict"]:
            cells.append((row["timeline"] or "", bars))
        line = Text("  ")
        for cell, cells_wide in cells:
            line.append(cell + " " * (cells_wide - cell_len(cell) + 2))
        if row["verdict"]:
            line.append(f"W {percent(row['win_rate'], 0):>3} %  ")
        line.append(row["verdict"] or "not asked with dates", style=STYLES.get(row["verdict"], "dim"))
        details = [row["left_out"] if row["verdict"] is None else belief_in_words(row).removeprefix(": "), _today(row)]
        style = "bold red" if row["present"] == STALE else ""
        said = Text("; ").join(
            Text(words, style=style if n else "") for n, words in enumerate(details) if words
        )  # fmt: skip
        if not said.plain:
            yield line
        elif line.cell_len + 2 + said.cell_len <= width:
            yield line + Text(": " if details[0] else "; ") + said
        else:
            yield line
            yield Text("      ") + said


def _held(row: dict[str, Any], years_only: bool = False) -> str:
    """``2009-01-20 to 2017-01-20``, in years ``2009 to 2017``; ``2017-01-20 on`` where it still holds."""
    periods = [period.split("/") for period in row["periods"].split("; ")]
    if years_only:
        periods = [[year_name(Date.parse(date).year) if date else "" for date in period] for period in periods]
    return "; ".join(f"{start} to {end}" if end else f"{start} on" for start, end in periods)


def _today(row: dict[str, Any]) -> str:
    if row["present"] is None:
        return ""
    if row["present"] != STALE:
        return f"today {row['present']}"
    until = f" (held until {row['answer_until']})" if row["answer_until"] else ""
    return f"today stale, says {row['answer']}{until}"


def summary_lines(summary: Json) -> Iterator[str]:
    """What the verdicts come to. summary: `anachron.pipelines.check.Check.summary`."""
    counts = ", ".join(f"{count} {name}" for name, count in summary["verdicts"].items() if count)
    means = f"mean W {percent(summary['win_rate'])} %, R {percent(summary['robustness'])} %"
    yield f"{summary['model']}, {summary['asked']} of {summary['facts']} facts asked with dates: {counts}; {means}"
    if summary["present"]:
        today = ", ".join(f"{count} {name}" for name, count in summary["present"].items())
        yield f"as of {summary['as_of']}, of the facts that hold: {today}"
