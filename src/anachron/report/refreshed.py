"""A refreshed model: what was stale and what it says now, in words, a table and a page."""

from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl

from anachron.advise.refresh import AFTER, BUNDLED, BUNDLED_AFTER, CHECK, UPDATE_FILE, Refreshed
from anachron.analysis.plots.words import counted
from anachron.core.sameness import name_key
from anachron.evaluate.results import UNEDITED
from anachron.io.files import Json, versions, write_bytes, write_json, write_manifest
from anachron.io.run_folder import RunFolder
from anachron.report.advice import PAGE, advice_data
from anachron.report.page.render import in_page, manifest_parts
from anachron.report.side_by_side import LOST, compare_runs, win_rates
from anachron.report.table import Column, Table

REFRESH_FILE = "refresh.json"
WORST = 10  # bundled facts that were lost, by name


def refresh_summary(done: Refreshed) -> Json:
    """What came of it: counts, the way, each fact that was stale, and what else changed."""
    stale = done.before.stale
    about: Json = {
        "model": done.before.model, "facts": done.before.verdicts.height, "stale_before": len(stale),
        "way": None if done.way == UNEDITED else done.way,
        "advice": None if done.advised is None else done.advised.advice.words,
    }  # fmt: skip
    if done.after is None:
        return about | {
            "stale_after": len(stale), "updates": _updates(done), "edit": None,
            "unchanged": len(stale) if done.cases is None else 0,
            "present": None if stale else done.before.summary["present"],
        }  # fmt: skip
    updated = {(name_key(fact["subject"]), name_key(fact["relation"])) for fact in stale}
    changed = _changes(done.folder / CHECK, done.folder / AFTER, set())
    bundled = _changes(done.folder / BUNDLED, done.folder / BUNDLED_AFTER, updated)
    return about | {
        "not_made": list(done.made.about["not_made"]) if done.made else [],
        "unchanged": done.made.about["unchanged"] if done.made else 0,
        "stale_after": len(done.after.stale), "edit": str(done.folder / UPDATE_FILE), "updates": _updates(done),
        "same_facts": changed, "bundled_facts": bundled, "verdicts_before": done.before.summary["verdicts"],
        "verdicts_after": done.after.summary["verdicts"],
    }  # fmt: skip


def _updates(done: Refreshed) -> list[Json]:
    """The facts that were stale: what the model said, and whether and what it says now; the same where nothing was
    updated."""
    keys = ("subject", "relation", "object")
    now = {tuple(row[key] for key in keys): row for row in (done.after or done.before).verdicts.iter_rows(named=True)}
    rows = []
    for fact in done.before.stale:
        row = now[fact["subject"], fact["relation"], fact["new"]]
        rows.append(fact | {"present": row["present"], "says": row["answer"], "verdict": row["verdict"]})
    return rows


def _changes(before: Path, after: Path, left_out: set[tuple[str, str]]) -> Json:
    """What two runs about the same facts differ in, but for facts of some subjects and relations."""
    found = compare_runs([before, after])
    facts = found.facts.filter(
        [(name_key(s), name_key(r)) not in left_out for s, r in found.facts.select("subject", "relation").iter_rows()]
    )
    lost = facts.filter(pl.col("change") == LOST).select("subject", "relation", "object").head(WORST)
    return {
        "facts": facts.height, **_win_rates(facts), "changes": dict(Counter(facts["change"])),
        "lost": [" – ".join(row) for row in lost.iter_rows()],
    }  # fmt: skip


def _win_rates(facts: pl.DataFrame) -> Json:
    """`win_rates` of the facts that have a W in both runs; of none, None for each."""
    both = facts.drop_nulls(["win_rate_before", "win_rate_after"])
    if not both.height:
        return dict.fromkeys(("win_rate", "against_win_rate", "difference", "difference_low", "difference_high"))
    return {**win_rates(*(both[name].to_numpy() for name in ("win_rate_before", "win_rate_after", "subject")))}


def refresh_lines(summary: Json) -> list[str]:
    """The summary in words."""
    facts, stale = summary["facts"], summary["stale_before"]
    if not stale:
        said = ", ".join(f"{count:,} {what}" for what, count in (summary["present"] or {}).items())
        found = f" (of what holds now: {said})" if said else ""
        return [f"of {counted(facts, 'fact')} none is stale in {summary['model']}{found}; there is nothing to update"]
    after = "" if summary["way"] is None else f"; after the update by {summary['way']}: {summary['stale_after']:,}"
    lines = [f"stale in {summary['model']}: {stale:,} of {counted(facts, 'fact')}{after}"]
    if summary["advice"]:
        lines.append(f"advice: {summary['advice']}")
    if summary["unchanged"]:
        lines.append(
            f"{counted(summary['unchanged'], 'stale fact')} not updated: the new object is the old one or another name "
            "of it"
        )
    if summary["way"] is None:
        return [*lines, "nothing was changed"]
    if summary["not_made"]:
        lines.append(f"{counted(len(summary['not_made']), 'update')} could not be made: {summary['not_made'][0]}")
    for name, what in (("same_facts", "your facts"), ("bundled_facts", "bundled facts beside them")):
        found = summary[name]
        counts = ", ".join(f"{count} {change}" for change, count in sorted(found["changes"].items())) or "none changed"
        line = f"{what}: {counts}"
        if found["difference"] is not None:
            line += (
                f"; W {found['win_rate']:.3f}, before {found['against_win_rate']:.3f} ({found['difference']:+.3f}, "
                f"{found['difference_low']:+.3f} to {found['difference_high']:+.3f})"
            )
        lines.append(line)
        if found["lost"]:
            lines.append(f"  no longer known: {'; '.join(found['lost'])}")
    return lines


def refresh_table(summary: Json) -> Table:
    """A row a fact that was stale: what the model said, what holds, and what it says now."""
    titles = ("fact", "said", "holds", "since", "now", "verdict")
    rows = [
        (
            f"{row['subject']}, {row['relation']}", row["old"], row["new"], row["since"],
            f"{row['present'] or '-'}: says {row['says']}" if row["says"] else row["present"] or "-",
            row["verdict"] or "-",
        )
        for row in summary["updates"]
    ]  # fmt: skip
    return Table("Facts that were stale, before and after", [*map(Column, titles)], rows)


def write_refreshed(done: Refreshed) -> tuple[Json, Path]:
    """Write ``refresh.json`` and the page into the folder; returns the summary and the page's path."""
    summary = refresh_summary(done)
    page = done.folder / PAGE
    write_bytes(page, in_page("advice.html", refresh_data(done, summary)).encode())
    write_manifest(page, command="refresh", parameters={"way": summary["way"]}, inputs={}, counts={})
    write_json(done.folder / REFRESH_FILE, summary)
    return summary, page


def refresh_data(done: Refreshed, summary: Json) -> Json:
    """All that the page shows: before and after, and the advice below it."""
    lines, table = refresh_lines(summary), refresh_table(summary)
    run = RunFolder.read(done.folder / CHECK)
    shown: dict[str, Any] = {
        "advice_lines": [], "points": [], "tables": [], "examples": [], "updates": 0, "size": (0, 0, 0),
        "run": (done.folder.name, *manifest_parts(run.record)), "version": versions()["anachron"],
    }  # fmt: skip
    if done.advised is not None and done.cases is not None:
        record = RunFolder.read(done.advised.folder).record
        shown = advice_data(done.advised, done.cases.cases, record)
        shown["advice_lines"] = shown["lines"]
    return shown | {
        "title": f"{summary['model']}, before and after", "lines": lines,
        "before_after": {"columns": table.titles, "rows": table.rows} if table.rows else None,
    }  # fmt: skip
