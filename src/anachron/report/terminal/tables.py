"""Tables for the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
from rich.markup import escape
from rich.table import Table

from anachron.data.card import PUBLISHED_STATISTICS, number
from anachron.wikidata.updates.card import PUBLISHED as PUBLISHED_UPDATES


def summary_table(summary: pl.DataFrame, title: str = "Win rate W and robustness R, mean over facts") -> Table:
    """Rows of `anachron.analysis.metrics.summarise` with 95 % intervals, in per cent.

    Format and prefix have columns only where they differ between rows; otherwise the title says them.
    """
    same = [name for name in ("format", "prefix") if summary[name].n_unique() == 1]
    same_in_all = ", ".join(f"{name} {summary[name][0]}" for name in same)
    table = Table(
        title=escape(f"{title} ({same_in_all})" if same_in_all else title),
        caption="95 %: bootstrap intervals over facts. A random scorer has W 50 % and R as in the last column.",
    )
    named = ["model", *(name for name in ("format", "prefix") if name not in same)]
    for name in (*named, "dates"):
        table.add_column(name, overflow="fold")
    for name in ("facts", "W %", "95 %", "R %", "95 %", "ties %", "near-ties %", "random R %"):
        table.add_column(name, justify="right", no_wrap=True)
    last: list[str] | None = None
    for row in summary.iter_rows(named=True):
        run = [escape(row[name]) for name in named]
        if last is not None and run != last:
            table.add_section()
        table.add_row(
            *(run if run != last else [""] * len(run)),
            row["granularity"],
            f"{row['facts']:,}",
            percent(row["win_rate"]),
            interval(row["win_rate_low"], row["win_rate_high"]),
            percent(row["robustness"]),
            interval(row["robustness_low"], row["robustness_high"]),
            percent(row["ties"], 3),
            percent(row["near_ties"], 3),
            percent(row["random_robustness"], 3),
        )
        last = run
    return table


def percent(share: float | None, digits: int = 1) -> str:
    return "-" if share is None else f"{100 * share:.{digits}f}"


def interval(low: float, high: float) -> str:
    return f"{100 * low:.1f} to {100 * high:.1f}"


AUDIT_LINES = {
    "unscorable": "cannot be scored",
    "too_long": "longer than the context length",
    "straddling": "first answer token also holds part of the prompt",
    "answer_in_prompt": "questions that hold their answer",
    "repeated": "texts that serve more than one fact or date",
    "status_differs": "status does not follow from the dates",
    "alpha_differs": "alpha does not follow from the dates",
}


def audit_table(audit: Mapping[str, Any]) -> Table:
    """What `anachron.probe.audit.audit` found."""
    bos = ", ".join(f"{count} in {texts:,} texts" for count, texts in audit["bos"].items())
    table = Table(
        title=f"{audit['statements']:,} statements of {audit['facts']:,} facts",
        caption=f"longest text {audit['longest']} tokens; {audit['answer_tokens']:.1f} answer tokens on average; "
        f"start-of-text tokens: {bos}",
    )
    table.add_column("check")
    table.add_column("count", justify="right")
    table.add_column("for instance")
    for name, what in AUDIT_LINES.items():
        examples = audit["examples"].get(name, [])
        table.add_row(what, f"{audit[name]:,}", escape(examples[0]) if examples else "")
    return table


def selection_table(steps: Sequence[Mapping[str, Any]]) -> Table:
    """What every step of ``build facts`` dropped and why."""
    table = Table(title="Selection: statements and their subjects, step by step")
    table.add_column("step")
    for name in ("in", "dropped"):
        table.add_column(name, justify="right")
    table.add_column("why", overflow="fold")
    for name in ("kept", "subjects"):
        table.add_column(name, justify="right")
    for step in steps:
        why = {reason: count for reason, count in step["dropped"].items() if count}
        table.add_row(
            step["step"],
            f"{step['statements_in']:,}",
            "\n".join(f"{count:,}" for count in why.values()) or "0",
            "\n".join(why),
            f"{step['statements_kept']:,}",
            f"{step['subjects_kept']:,}",
        )
    return table


def statistics_table(statistics: Mapping[str, float]) -> Table:
    """The numbers of `anachron.data.card.statistics` beside the published ones."""
    table = Table(title="The data set compared with the published ones")
    table.add_column("what")
    for name in ("here", *PUBLISHED_STATISTICS):
        table.add_column(name, justify="right")
    for what, value in statistics.items():
        table.add_row(what, number(value), *(number(known.get(what)) for known in PUBLISHED_STATISTICS.values()))
    return table


def updates_table(statistics: Mapping[str, float], replaced: Mapping[str, float], groups: Mapping[str, Any]) -> Table:
    """The numbers of an update data set and its replacement subset beside the published ones (WikiFactDiff, table 2).

    groups: what became of the groups, as `anachron.wikidata.updates.groups.GroupCounts` counts them; shown below the
    numbers.
    """
    table = Table(
        title="Updates compared with the published ones", caption=_groups_caption(groups), caption_justify="left"
    )
    table.add_column("what")
    for name in ("here", "WikiFactDiff", "replacements here", "WFD_repl"):
        table.add_column(name, justify="right")
    for what, value in statistics.items():
        published = (PUBLISHED_UPDATES[name][what] for name in ("WikiFactDiff", "WFD_repl"))
        whole, subset = (number(n) for n in published)
        table.add_row(what, number(value), whole, number(replaced[what]), subset)
    return table


def _groups_caption(groups: Mapping[str, Any]) -> str:
    lines = [f"groups labelled: {groups['groups']:,}"]
    lines += [f"- {count:,}: {why}" for why, (count, _) in groups["dropped"].items() if count]
    return "\n".join([*lines, f"groups kept: {groups['kept_groups']:,}"])


def changes_table(entity: Mapping[str, Any], is_new: bool, changes: Sequence[Mapping[str, Any]]) -> Table:
    """What two snapshots say of an entity, from `anachron.wikidata.updates.explain`."""
    title = f"{entity['label'] or 'without a label'} ({entity['id']})" + (", a new entity" if is_new else "")
    table = Table(title=escape(title))
    for name in ("property", "value", "in", "dates", "label", "outcome"):
        table.add_column(name, overflow="fold")
    for row in changes:
        property_, value, dates = _statement_cells(row)
        if row["merged_from"] is not None:
            value += f", {row['merged_from']} in the old one"
        label = "" if row["label"] is None else f"{row['label']} by rule {row['rule']}: {row['words']}"
        outcome = f"dropped at {row['dropped']}" if row["dropped"] else row["outcome"]
        side = row["side"] + (f", other {row['change']}" if row["change"] else "")
        table.add_row(property_, value, side, dates, label, escape(outcome))
    return table


def _statement_cells(row: Mapping[str, Any]) -> tuple[str, str, str]:
    """Property, value and dates of an explained statement."""
    dates = [f"{side} {row[side]}" for side in ("start", "end", "point") if row[side] is not None]
    value = row["value"] if row["value_id"] in (None, row["value"]) else f"{row['value']} ({row['value_id']})"
    property_ = f"{row['property_label'] or ''} ({row['property_id']})".strip()
    return escape(property_), escape(value), "\n".join(dates)


def explanation_table(entity: Mapping[str, Any], verdicts: Sequence[Mapping[str, Any]]) -> Table:
    """What became of each statement of an entity, from `anachron.wikidata.selection.explain`."""
    title = f"{entity['label'] or 'without a label'} ({entity['id']}), {entity['title'] or 'without a title'}"
    table = Table(title=escape(title))
    for name in ("property", "value", "dates", "rank", "verdict"):
        table.add_column(name, overflow="fold")
    for row in verdicts:
        property_, value, dates = _statement_cells(row)
        kept = f"kept as fact {row['fact_id']}"
        if row["popularity"] is not None:
            kept += f", popularity {row['popularity']:,.0f}"
        verdict = kept if row["step"] is None else f"dropped at {row['step']}: {row['reason']}"
        table.add_row(property_, value, dates, row["rank"], escape(verdict))
    return table
