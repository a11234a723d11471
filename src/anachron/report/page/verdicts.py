"""What the page of a check says besides: a verdict for each fact, and what is said of it today."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from anachron.io.files import Json
from anachron.io.schemas import ColumnSchema, Schema
from anachron.probe.check.present import CURRENT, STALE, UNKNOWN
from anachron.probe.check.verdicts import VERDICT_SCHEMA, VERDICTS, WIN_RATES, verdict_in_words
from anachron.report.terminal.verdicts import today_in_words

SHOWN = ("fact_id", "verdict", "win_rate", "believed_start", "believed_end", "start_error_years", "end_error_years")
# of a check by answers all doubts, of one by scores the first, and W by its dates
DOUBTS = ("chance", "ranked_among", "win_rate_low", "win_rate_lost", "weaker_side", *WIN_RATES)
TEXTS = ("subject", "relation", "object", "present", "answer", "answer_until", "left_out")
JUDGED = (CURRENT, STALE, UNKNOWN)
Run = tuple[str, ...]


def read_verdicts(table: pl.DataFrame, path: Path) -> pl.DataFrame:
    """The table that a check wrote, by scores or by answers (`anachron.probe.check.check.Check`), with its types.

    path: where it was read, for the message of the `DataError` where it is none.
    """
    columns = {name: ColumnSchema(VERDICT_SCHEMA[name]) for name in SHOWN} | dict.fromkeys(TEXTS, ColumnSchema())
    columns |= {name: ColumnSchema(pl.Float64) for name in DOUBTS if name in table.columns}
    schema = Schema(str(path), columns, remedy="so it is not what check writes; repeat the check")
    return schema.read(table, others=True)


def verdict_columns(verdicts: Mapping[Run, pl.DataFrame], runs: Sequence[Run], ids: Sequence[str]) -> Json | None:
    """None without a check; else ``order`` (of verdicts, the best first), ``runs`` and ``left_out``.

    verdicts: tables of `read_verdicts` by model, format and prefix. ``runs``: one record a run, null where it is no
    check: the ``sentence`` of counts, and over the facts ``ids`` the columns ``verdict``, ``words``, ``present`` and
    ``today``, null where there is none. ``left_out``: facts that were not asked with dates, why, and what is
    said of them today.
    """
    if not any(run in verdicts for run in runs):
        return None
    tables = [verdicts.get(run) for run in runs]
    made = [None if table is None else {"sentence": _sentence(table)} | _columns(table, ids) for table in tables]
    missing = [
        {
            "fact": f"{row['subject']} | {row['relation']} | {row['object']}",
            "reason": "; ".join(filter(None, (row["left_out"], today_in_words(row)))),
        }
        for table in tables
        if table is not None
        for row in table.filter(pl.col("left_out").is_not_null()).iter_rows(named=True)
    ]
    once = list({str(item): item for item in missing}.values())  # two checks of one file leave out the same
    return {"order": list(VERDICTS), "runs": made, "left_out": once}


def _columns(table: pl.DataFrame, ids: Sequence[str]) -> Json:
    by_id = {row["fact_id"]: row for row in table.filter(pl.col("verdict").is_not_null()).iter_rows(named=True)}
    rows = [by_id.get(fact) for fact in ids]
    return {
        "verdict": [row and row["verdict"] for row in rows],
        "words": [row and verdict_in_words(row) for row in rows],
        "present": [row and row["present"] for row in rows],
        "today": [row and (today_in_words(row) or None) for row in rows],
    }


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
