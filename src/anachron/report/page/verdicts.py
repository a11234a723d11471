"""What the page of a check says besides: a verdict for each fact, what is said of it today, and what is demanded."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from anachron.core.dates import Date
from anachron.core.several_periods import periods_in_words
from anachron.io.files import Json
from anachron.io.schemas import ColumnSchema, Schema
from anachron.probe.check.present import CURRENT, STALE, UNKNOWN
from anachron.probe.check.urgency import URGENCY, rank_of, since
from anachron.probe.check.verdicts import (
    VERDICT_SCHEMA,
    VERDICTS,
    WIN_RATES,
    belief_in_words,
    dates_in_words,
    doubt_in_words,
)
from anachron.report.page.strips import Named, succession_strips
from anachron.text.dates import bare_date

SHOWN = ("fact_id", "verdict", "win_rate", "believed_start", "believed_end", "start_error_years", "end_error_years")
# of a check by answers all doubts, of one by scores the first, and W by its dates
DOUBTS = ("chance", "ranked_among", "win_rate_low", "win_rate_lost", "weaker_side", *WIN_RATES)
TEXTS = ("subject", "relation", "object", "periods", "present", "answer", "answer_until", "left_out")
JUDGED = (CURRENT, STALE, UNKNOWN)
THAT = "; that "  # between a belief and what is wrong of its ends, in a sentence
FIRST = 12  # facts with which the page opens; all are below
Run = tuple[str, ...]


@dataclass(frozen=True)
class CheckOnPage:
    """A run that is a check. table: of `read_verdicts`. summary: its ``check.json``."""

    table: pl.DataFrame
    summary: Json


def read_verdicts(table: pl.DataFrame, path: Path) -> pl.DataFrame:
    """The table that a check wrote, by scores or by answers (`anachron.probe.check.check.Check`), with its types.

    path: where it was read, for the message of the `DataError` where it is none.
    """
    columns = {name: ColumnSchema(VERDICT_SCHEMA[name]) for name in SHOWN} | dict.fromkeys(TEXTS, ColumnSchema())
    columns |= {name: ColumnSchema(pl.Float64) for name in DOUBTS if name in table.columns}
    schema = Schema(str(path), columns, remedy="so it is not what check writes; repeat the check")
    return schema.read(table, others=True)


def still_holding(checks: Iterable[CheckOnPage]) -> set[str]:
    """The facts of which a file gives no end."""
    rows = (row for check in checks for row in check.table.select("fact_id", "periods").iter_rows())
    return {fact for fact, periods in rows if periods.endswith("/")}


def verdict_columns(
    checks: Mapping[Run, CheckOnPage],
    runs: Mapping[Run, str],
    ids: Sequence[str],
    scores: Mapping[Run, pl.DataFrame],
    named: Mapping[Run, Named],
) -> Json | None:
    """None without a check; else ``kinds`` (of verdicts and of what is said today, in the order in which facts are
    told), ``runs`` and ``left_out``.

    checks: by model, format and prefix. runs: of the page, with their names. scores: of those that have any, and
    named: of the others whom they named (`anachron.report.page.answers.named_by_year`).

    ``runs``: one record a run, null where it is no check: its ``place`` and ``name``, the ``sentence`` of counts, the
    ``demands``, ``first`` (what is stale, then wrong periods, in words; at most `FIRST`) and how many ``more`` of these
    there are, ``successions`` (`anachron.report.page.strips.succession_strips`), and over the facts ``ids`` the columns
    ``verdict, present, answer, told, today`` (both sentences) and ``rank`` (its place in that order), null where there
    is none. ``left_out``: facts that were not asked with dates, why, and what is said of them today.
    """
    if not any(run in checks for run in runs):
        return None
    tables = [check.table for run in runs if (check := checks.get(run)) is not None]
    missing = [
        {"fact": f"{row['subject']} | {row['relation']} | {row['object']}", "reason": _why_not(row)}
        for table in tables
        for row in table.filter(pl.col("left_out").is_not_null()).iter_rows(named=True)
    ]
    said = {row for table in tables for row in table["present"].drop_nulls().to_list()}
    return {
        "kinds": [*URGENCY, *sorted(said - {STALE})],
        "runs": [
            None
            if run not in checks
            else {"place": place, "name": name} | _run(checks[run], ids, scores.get(run), named.get(run, {}))
            for place, (run, name) in enumerate(runs.items())
        ],
        "left_out": list({str(item): item for item in missing}.values()),  # two checks of one file leave out the same
    }


def _run(check: CheckOnPage, ids: Sequence[str], scores: pl.DataFrame | None, named: Named) -> Json:
    table = check.table
    by_id = {row["fact_id"]: row for row in table.filter(pl.col("verdict").is_not_null()).iter_rows(named=True)}
    rows = [by_id.get(fact) for fact in ids]
    pressing = [row for kind in URGENCY[:2] for row in table.iter_rows(named=True) if URGENCY[rank_of(row)] == kind]
    return {
        "sentence": _sentence(table),
        "demands": [{"said": _met(demand)} | demand for demand in check.summary["demands"]],
        "first": [
            {"kind": URGENCY[rank_of(row)], "fact": row["fact_id"] if row["fact_id"] in by_id else None}
            | {name: row[name] for name in ("subject", "relation")}
            | {"words": _pressing(row)}
            for row in pressing[:FIRST]
        ],
        "more": len(pressing[FIRST:]),
        "successions": succession_strips(table, scores, named, ids, Date.parse(check.summary["as_of"])),
        **{name: [row and row[name] for row in rows] for name in ("verdict", "present", "answer")},
        "told": [row and told_in_words(row) for row in rows],
        "today": [row and (present_in_words(row) or None) for row in rows],
        "rank": [row and rank_of(row) for row in rows],
    }


def _met(demand: Mapping[str, Any]) -> str:
    return "no verdict" if demand["error"] is not None else "passed" if demand["passed"] else "failed"


def told_in_words(row: Mapping[str, Any]) -> str:
    """What stands behind a verdict: ``W 75 %. It is believed from 2010 on; that begins 4 years too early.``"""
    doubt = doubt_in_words(row)
    share = f"W {100 * row['win_rate']:.0f} %{dates_in_words(row)}{doubt and ': '}{doubt}."
    belief = belief_in_words(row, THAT)
    return f"{share} It is {belief}." if belief else share


def present_in_words(row: Mapping[str, Any]) -> str:
    """What a model answers about today, in a sentence; nothing of a fact that does not hold today."""
    if row["present"] is None:
        return ""
    if row["present"] == STALE:
        return f"Asked about today, {_pressing(row)}."
    if row["present"] == CURRENT:
        named = "" if row["answer"] is None else f", {row['answer']}"
        return f"Asked about today, the model gives the right name{named}."
    unknown = row["present"] == UNKNOWN
    return "Asked about today, the model does not know." if unknown else f"Asked about today: {row['present']}."


def _pressing(row: Mapping[str, Any]) -> str:
    """Of a stale fact or of a wrong period what the model says, and what holds."""
    if row["present"] == STALE:
        return (
            f"the model says {row['answer']}{_until(row)}; {row['object']} has held since {_day(since(row['periods']))}"
        )
    return f"{row['object']}, {periods_in_words(row['periods'], _day)}, is {belief_in_words(row, THAT)}"


def _until(row: Mapping[str, Any]) -> str:
    return f" (held until {_day(row['answer_until'])})" if row["answer_until"] else ""


def _day(text: str) -> str:
    """``1 May 2019``, as the page's timelines have it."""
    date = Date.parse(text)
    day = f"{date.day} " if date.day else ""
    return day + bare_date(Date(date.year, date.month))


def _why_not(row: Mapping[str, Any]) -> str:
    return f"{row['left_out']}. {present_in_words(row)}".strip()


def _sentence(table: pl.DataFrame) -> str:
    """``10 facts checked: 2 robust, 5 known, 3 shaky; of those that still hold, 2 current and 1 stale.``"""
    counts = [(table["verdict"] == name).sum() for name in VERDICTS]
    parts = [f"{count} {name}" for count, name in zip(counts, VERDICTS, strict=True) if count]
    if left_out := table["verdict"].null_count():
        parts.append(f"{left_out} not asked with dates")
    today = [f"{(table['present'] == name).sum()} {name}" for name in (CURRENT, STALE)]
    unknown = (table["present"] == UNKNOWN).sum()
    held = f"; of those that still hold, {' and '.join(today)}" if table["present"].is_in(JUDGED).any() else ""
    held += f", {unknown} not known to the model" if unknown else ""
    return f"{table.height} facts checked: {', '.join(parts)}{held}."
