"""What a run by answers found, in words."""

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from anachron.core.labels import label_of
from anachron.io.files import Json
from anachron.report.numbers import percent
from anachron.report.table import Column, Table, measured
from anachron.report.terminal.tables import decoy_words


def answer_run_lines(summary: Json) -> Iterator[str]:
    """W with its interval, R_k, the bias of position, decoys, open answers, periods, what was not read, and the cost.

    summary: `anachron.probe.ask.tables.summary_of`.
    """
    if summary["facts_with_choices"]:
        if summary.get("win_rate_told") is False:
            ends = (percent(summary[f"win_rate_{end}"]) for end in ("lost", "won"))
            yield (
                f"W by choice cannot be told: {' to '.join(ends)} %, by whether the choices that could not be read "
                "were lost or won; of those that were read:"
            )
        yield (
            f"W by choice of two years: {_share(summary, 'win_rate')} over {summary['facts_with_choices']:,} facts, "
            f"{summary['matches_a_fact']:.1f} matches each; a match won in only one order counts as half"
        )
        yield f"R_k, all sampled matches won: {_share(summary, 'won_all')} (R itself is at most this)"
        points = [100 * summary[f"position_bias{end}"] for end in ("", "_low", "_high")]
        yield f"bias towards the year named first: {points[0]:+.1f} points [{points[1]:+.1f}, {points[2]:+.1f}]"
    if summary.get("decoys"):
        read = f"{summary['decoys']:,} decoys asked about, {percent(summary['decoys_read'], 0)} % of the choices read"
        yield read if summary.get("decoy_win_rate") is None else f"{decoy_words(summary)} ({read})"
    if any(summary["open"].values()):
        yield "open questions with a year: " + ", ".join(f"{count:,} {name}" for name, count in summary["open"].items())
    if summary["periods_read"]:
        yield (
            f"periods: {summary['periods_read']:,} read, mean overlap {percent(summary['overlap'])} %; median error of "
            f"the start {summary['start_error_years']:.1f} years, of the end {summary['end_error_years']:.1f}"
        )
    unread = _unread(summary["outcomes"])
    if unread:
        yield "could not be read, so counted neither as right nor as wrong: " + ", ".join(
            f"{n:,} {name}" for name, n in unread.items()
        )
    ended = "; stopped by the budget" if summary["budget_ended"] else ""
    cost = f", cost {summary['cost']:.4f}" if "cost" in summary else ""
    yield (
        f"{summary['calls']:,} calls, {summary['tokens_read']:,} tokens read and {summary['tokens_written']:,} "
        f"written{cost}{ended}"
    )


def answer_table_lines(tables: Mapping[str, pl.DataFrame]) -> Iterator[str]:
    """Of each run that asked its W, of each model that was scored too how the two go together, and whether one can be
    told from the other. tables: of a study, by name."""
    for row in tables.get("asked", pl.DataFrame()).iter_rows(named=True):
        win_rate = (
            f"{_share(row, 'win_rate')} over {row['facts_with_choices']:,} facts" if row["facts_with_choices"] else "-"
        )
        if row.get("win_rate_told") is False:
            doubt = (percent(row[f"win_rate_{end}"]) for end in ("lost", "won"))
            win_rate = f"cannot be told: {' to '.join(doubt)} % by what could not be read; {win_rate}"
        yield f"{row['model']}, asked by {row['asked_by']}: W by choice {win_rate}"
    for row in tables.get("bridge", pl.DataFrame()).iter_rows(named=True):
        r = "-" if row["correlation"] is None else f"{row['correlation']:.2f}"
        ends = ["-" if (end := row[f"correlation_{side}"]) is None else f"{end:.2f}" for side in ("low", "high")]
        bias = [f"{100 * row[name]:+.1f}" for name in ("bias", "bias_low", "bias_high")]
        yield (
            f"{row['model']}, {row['asked']} by {row['asked_by']} against W by log-probabilities ({row['format']}, "
            f"prefix {row['prefix']}, {row['facts']:,} facts): r {r} [{ends[0]}, {ends[1]}], bias {bias[0]} points "
            f"[{bias[1]}, {bias[2]}]"
        )
    for row in tables.get("conversion", pl.DataFrame()).iter_rows(named=True):
        yield f"asked by {row['asked_by']}, scored {row['format']}, prefix {row['prefix']}: {row['words']}"


def judged_table(agreement: pl.DataFrame, judge: str) -> Table:
    """Rows of `anachron.evaluate.judge.agreement`, shares x 100. judge: the name of the model that judged."""
    of_models = "model" in agreement.columns
    rows = []
    for row in agreement.iter_rows(named=True):
        after = f" after {row['edits']}" if row.get("edits") else ""
        who = row["model"] if of_models else label_of(row["method"], row["variant"]) + after
        rows.append((who, row["kind"], f"{row['judged']:,} of {row['answers']:,}"))
    shares = (measured("rule: right", "rule"), measured("judge: right", "judge"), measured("disagree", "disagreement"))
    cells = zip(*(column.cells(agreement) for column in shares), strict=True)
    rows = [(*row, *of_row) for row, of_row in zip(rows, cells, strict=True)]
    names = ("model", "answers") if of_models else ("method", "prompts")
    columns = [*map(Column, names), Column("judged", number=True), *shares]
    return Table(f"Answers judged by {judge}", columns, rows, ["shares × 100, [95 % interval] (Wilson)"])


def _share(summary: Mapping[str, Any], name: str) -> str:
    low, high = (percent(summary[f"{name}_{end}"]) for end in ("low", "high"))
    return f"{percent(summary[name])} % [{low}, {high}]"


def _unread(outcomes: dict[str, dict[str, Any]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for of_kind in outcomes.values():
        for name in ("refused", "empty", "unreadable", "unanswered"):
            if name in of_kind:
                counts[name] = counts.get(name, 0) + of_kind[name]
    return counts
