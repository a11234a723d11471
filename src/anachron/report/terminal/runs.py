"""Runs for the terminal: which there are, what one is, and two or more side by side."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import polars as pl

from anachron.analysis.findings import p_words, points
from anachron.core.several_periods import periods_in_words
from anachron.report.numbers import percent
from anachron.report.table import Column, Table

SHOWN = 20  # facts of a comparison
OF_CHANGES = ("horizon", "evaluate")  # these do not tell W
SAME = "same"  # of a fact that two runs judge alike


def run_lines(runs: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Two lines a run (`anachron.report.runs.ListedRun`): its path and what it is, and below what it says."""
    listed = list(runs)
    width = max((len(one["run"]) for one in listed), default=0)
    for one in listed:
        of = [f"{word} {one[name]}" for word, name in (("of", "model"), ("on", "data")) if one[name]]
        when = (one["when"] or "")[:16].replace("T", " ")  # of 2026-11-29T20:32:31+00:00
        yield "  ".join(filter(None, (f"{one['run']:{width}}", " ".join((one["what"], *of)), when)))
        yield f"    {one['headline']}"


def comparison_lines(one: Mapping[str, Any]) -> Iterator[str]:
    """What a comparison (`anachron.report.side_by_side.Comparison`) comes to."""
    yield f"{one['run']} against {one['against']}, on {one['facts']:,} facts of both:"
    counts = {"lost": "lost", "gained": "gained", "changed otherwise": "changed", "the same": "same"}
    yield f"  {', '.join(f'{words} {one[name]:,}' for words, name in counts.items())}"
    if one["difference"] is not None:
        measure = "new object preferred" if one["what"] in OF_CHANGES else "W"
        before, after = percent(one["against_win_rate"]), percent(one["win_rate"])
        gap, low, high = (points(one[f"difference{end}"]) for end in ("", "_low", "_high"))
        interval = f"95 %: {low} to {high}; {p_words(one['p'])}"
        yield f"  {measure} {before} % before, {after} % after: {gap} points ({interval}), over {one['paired']:,} facts"


def facts_table(facts: pl.DataFrame, one: Mapping[str, Any]) -> Table:
    """The facts of a comparison that differ most (`anachron.report.side_by_side.COLUMNS`), with what both runs found
    and said."""
    rows = facts.filter(run=one["run"], against=one["against"])
    differing = rows.filter((rows["change"] != SAME) | (rows["win_rate_difference"].abs() > 0).fill_null(False))
    shown = differing.head(SHOWN)
    cells = [
        (_change(row), _fact(row), *(_said(row, of, one["what"]) for of in ("before", "after")))
        for row in shown.iter_rows(named=True)
    ]
    more = differing.height - len(cells)
    notes = [f"{more:,} more differ; --out FILE.csv writes them all"] if more else []
    columns = [Column("change"), Column("fact"), Column(one["against"]), Column(one["run"])]
    return Table("", columns, cells, notes, sections=shown["change"].to_list())


def _change(row: Mapping[str, Any]) -> str:
    return f"W {points(row['win_rate_difference'])}" if row["change"] == SAME else row["change"]


def _fact(row: Mapping[str, Any]) -> str:
    """``Germany, head of government, Olaf Scholz (2021-12-08 on)``."""
    names = ", ".join(filter(None, (row["subject"], row["relation"], row["object"])))
    held = row["held"] or ""
    held = periods_in_words(held) if "/" in held else held  # of a change it is a date
    return f"{names} ({held})" if held else names


def _said(row: Mapping[str, Any], of: str, what: str) -> str:
    """``known, W 91 %, says NAME``."""
    win_rate, says = row[f"win_rate_{of}"], row[f"says_{of}"]
    share = None if win_rate is None or what in OF_CHANGES else f"W {percent(win_rate, 0)} %"
    return ", ".join(filter(None, (row[f"state_{of}"], share, None if says is None else f"says {says}")))
