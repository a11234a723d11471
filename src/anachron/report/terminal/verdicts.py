"""A check for the terminal: a line a fact, and what they come to."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl
from rich.cells import cell_len
from rich.text import Text

from anachron.core.several_periods import periods_in_words
from anachron.io.files import Json
from anachron.probe.check.levels import WRONG_PERIOD
from anachron.probe.check.present import CURRENT, STALE, counted
from anachron.probe.check.urgency import stale_in_words, urgent_first
from anachron.probe.check.verdicts import belief_in_words, dates_in_words, doubt_in_words
from anachron.report.numbers import percent
from anachron.report.terminal.tables import crossed_words, decoy_words

STYLES = {"robust": "bold green", "known": "green", "shaky": "yellow", WRONG_PERIOD: "red", "unknown": "dim"}
LONGEST = 32  # letters of an object's name that others are lined up with
BELOW = "    "
LEGEND = (
    "bars: log-probability of the answer by year (by month or day for a shorter fact), with the fact's period in [ ]; "
    "W: share of matches won"
)


def verdict_lines(verdicts: pl.DataFrame, width: int = 120) -> Iterator[Text]:
    """A line a fact under one for its subject and relation, the urgent ones first.

    verdicts: as of `anachron.probe.check.check.Check`.

    width: cells of the screen. Where the timelines do not fit beside the rest they stand below, and so does what is
    said of a verdict. Names longer than the column are kept.
    """
    rows = list(urgent_first(verdicts).iter_rows(named=True))
    name = min(LONGEST, max((cell_len(row["object"]) for row in rows), default=0))
    dates = max((len(periods_in_words(row["periods"])) for row in rows), default=0)
    bars = max((len(row["timeline"] or "") for row in rows), default=0)
    beside = 2 + name + 2 + dates + 2 + bars + 2 + len("W 100 %  wrong period") <= width
    last = None
    for row in rows:
        group = f"{row['subject']}, {row['relation']}"
        if group != last:
            last = group
            yield Text(group, style="bold")
        timeline = row["timeline"] or ""
        cells = [(row["object"], name), (periods_in_words(row["periods"]), dates)]
        if beside and timeline:
            cells.append((timeline, bars))
        line = Text("  ")
        for cell, size in cells:
            line.append(cell + " " * (max(0, size - cell_len(cell)) + 2))
        if row["verdict"]:
            line.append(f"W {percent(row['win_rate'], 0):>3} %  ")
        line.append(row["verdict"] or "not asked with dates", style=STYLES.get(row["verdict"], "dim"))
        about = row["left_out"] if row["verdict"] is None else belief_in_words(row) or doubt_in_words(row)
        said = Text("; ").join(
            Text(words, style=style)
            for words, style in (
                (dates_in_words(row).strip(), ""),
                (about, ""),
                (today_in_words(row), "bold red" if row["present"] == STALE else ""),
            )
            if words
        )
        yield from _wrapped(line, "" if beside else timeline, said, ": " if about else "; ", width)


def stale_lines(stale: Sequence[Mapping[str, Any]], width: int = 120) -> Iterator[Text]:
    """What a check opens with: how many facts are stale, and each of them; what holds stands below where a line would
    be wider than the screen. stale: see `anachron.probe.check.check.Check`."""
    if stale:
        yield Text(f"stale: {len(stale)} fact{'s' if len(stale) > 1 else ''}", style="bold red")
    for fact in stale:
        line = Text(f"  {stale_in_words(fact)}")
        if line.cell_len <= width:
            yield line
        else:
            said, _, holds = line.plain.rpartition("; ")
            yield from (Text(f"{said};"), Text(BELOW + holds))


def _wrapped(line: Text, timeline: str, said: Text, link: str, width: int) -> Iterator[Text]:
    """A line, what is said behind it or below, and below a timeline too where one is given."""
    if timeline:
        yield line
        line, link = Text(BELOW + timeline), "  "
    if not said.plain:
        yield line
    elif line.cell_len + len(link) + said.cell_len <= width:
        yield line + Text(link) + said
    else:
        yield line
        yield Text(BELOW) + said


def today_in_words(row: Mapping[str, Any]) -> str:
    """``today stale, says NAME (held until 2017)``; nothing of a fact that does not hold today."""
    if row["present"] is None:
        return ""
    if row["present"] == CURRENT and row["verdict"] == WRONG_PERIOD:
        return "asked about today, it gives the right answer"
    if row["present"] != STALE:
        return f"today {row['present']}"
    until = f" (held until {row['answer_until']})" if row["answer_until"] else ""
    return f"today stale, says {row['answer']}{until}"


def summary_lines(summary: Json) -> Iterator[str]:
    """What the verdicts come to. summary: `anachron.probe.check.check.Check.summary`."""
    counts = ", ".join(f"{count} {name}" for name, count in summary["verdicts"].items() if count)
    means = f"mean W {percent(summary['win_rate'])} %, R {percent(summary['robustness'])} %"
    yield f"{summary['model']}, {summary['asked']} of {summary['facts']} facts asked with dates: {counts}; {means}"
    if decoys := summary.get("decoys"):
        yield decoy_words(decoys)
    if crossed := summary.get("crossed"):
        yield crossed_words(crossed)
    if summary["present"]:
        yield f"as of {summary['as_of']}, of the facts that hold: {counted(summary['present'])}"
