"""Tables for the terminal."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from anachron.analysis.analyses.crossed import CROSSED, main_row
from anachron.analysis.analyses.decoys import DECOY_MEANS
from anachron.analysis.findings import points, widest
from anachron.analysis.metrics import RUN_KEYS
from anachron.analysis.plots.charts import NAMES
from anachron.analysis.plots.style import run_labels
from anachron.analysis.plots.words import counted
from anachron.data.card import PUBLISHED_STATISTICS, number
from anachron.report.numbers import percent, share_cells
from anachron.report.table import Column, Table
from anachron.wikidata.updates.card import PUBLISHED as PUBLISHED_UPDATES


def summary_table(summary: pl.DataFrame, title: str = "Win rate W and robustness R, mean over facts") -> Table:
    """Rows of `anachron.analysis.metrics.summarise` with 95 % intervals, in per cent.

    Format and prefix have columns only where they differ between rows; otherwise the title says them.
    """
    same = [name for name in ("format", "prefix") if summary[name].n_unique() == 1]
    same_in_all = ", ".join(f"{name} {summary[name][0]}" for name in same)
    named = ["model", *(name for name in ("format", "prefix") if name not in same)]
    numbers = ["facts", *(title for name in NAMES.values() for title in (f"{name} %", "95 %"))]
    numbers += ["ties %", "near-ties %", "random R %"]
    columns = [
        *(Column(name, once=True) for name in named),
        Column("dates"),
        *(Column(name, number=True, joined=name == "95 %") for name in numbers),
    ]
    rows = [
        (
            *(row[name] for name in named),
            row["granularity"],
            f"{row['facts']:,}",
            *share_cells(row, NAMES),
            percent(row["ties"], 3),
            percent(row["near_ties"], 3),
            percent(row["random_robustness"], 3),
        )
        for row in summary.iter_rows(named=True)
    ]
    return Table(
        f"{title} ({same_in_all})" if same_in_all else title,
        columns,
        rows,
        ["95 %: intervals over subjects. A random scorer has W 50 % and R as in the last column."],
        sections=[row[: len(named)] for row in rows],
    )


def crossed_words(row: Mapping[str, Any]) -> str:
    """What a row of the table ``crossed`` says, in a line."""
    share, ends = share_cells(row, ["crossed"])
    pairs = f"{counted(row['pairs'], 'pair')} of objects"
    said = f"crossed matches by {row['granularity']}: {share} % won ({ends}) of {pairs}; any preference wins half"
    if not row.get("dates"):  # none, or a summary from before they were counted
        return said
    right, less, chance = (percent(row[name]) for name in ("likeliest", "likeliest_less_prior", "chance"))
    return (
        f"{said}. At {right} % of {row['dates']:,} dates the likeliest object is the right one, at {less} % after what "
        f"each is likelier by anyway; chance {chance} %"
    )


def decoy_words(row: Mapping[str, Any]) -> str:
    """What a row of the table ``decoys`` says, in a line."""
    gap, low, high = (points(row[name]) for name in ("difference", "difference_low", "difference_high"))
    own = percent(row["decoy_win_rate"] + row["difference"])  # of all facts W may be another one
    return (
        f"W of decoys under the same dates: {percent(row['decoy_win_rate'])} %, of the facts that have decoys {own} %: "
        f"{gap} points ({low} to {high}). Of two years decoys prefer the later in {percent(row['later'], 0)} %"
    )


def decoy_and_crossed_lines(tables: Mapping[str, pl.DataFrame]) -> Iterator[str]:
    """A line for each run of the tables ``decoys`` and ``crossed``, where there are these; with its name where there
    are several."""
    for table, chosen, words in ((DECOY_MEANS, widest, decoy_words), (CROSSED, main_row, crossed_words)):
        if table.name in tables:
            runs = tables[table.name].partition_by(RUN_KEYS, maintain_order=True)
            rows = [chosen(run.rows(named=True)) for run in runs]
            names = run_labels(pl.DataFrame(rows, infer_schema_length=None), "format", "prefix")
            for name, row in zip(names, rows, strict=True):
                yield f"{name}: {words(row)}" if len(rows) > 1 else words(row)


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
    rows = [
        (what, f"{audit[name]:,}", next(iter(audit["examples"].get(name, [])), ""))
        for name, what in AUDIT_LINES.items()
    ]
    return Table(
        f"{audit['statements']:,} statements of {audit['facts']:,} facts",
        [Column("check"), Column("count", number=True), Column("for instance")],
        rows,
        [
            f"longest text {audit['longest']} tokens; {audit['answer_tokens']:.1f} answer tokens on average; "
            f"start-of-text tokens: {bos}"
        ],
    )


def trial_table(found: Mapping[str, Any]) -> Table:
    """What `anachron.probe.audit.try_prefix_tree` found."""
    trial = found["trial"]
    rows: list[tuple[str, str, str]] = []
    if trial is not None:
        rows.append(("largest difference of the two in float32", f"{trial['difference']:.1e}", ""))
        if errors := trial["errors"]:
            rows += [
                (f"mean error in {found['dtype']}", f"{errors['tree']:.3g}", f"{errors['padded']:.3g}"),
                ("largest error", f"{errors['tree_largest']:.3g}", f"{errors['padded_largest']:.3g}"),
                ("most that the mean error may be", f"{errors['allowed']:.3g}", ""),
            ]
    used = "shared prefixes are computed only once" if found["used"] else "texts are computed in padded batches"
    why = found["refusal"] or ("" if found["used"] or trial else "they have little in common")
    return Table(
        f"Prefix tree and padded batches, in nats a text: {used}",
        [Column("what"), Column("prefix tree", number=True), Column("padded", number=True)],
        rows,
        [why] if why else [],
    )


def selection_table(steps: Sequence[Mapping[str, Any]]) -> Table:
    """What every step of ``build facts`` dropped and why."""
    names = ("step", "in", "dropped", "why", "kept", "subjects")
    rows = []
    for step in steps:
        why = {reason: count for reason, count in step["dropped"].items() if count}
        within, kept, subjects = (f"{step[name]:,}" for name in ("statements_in", "statements_kept", "subjects_kept"))
        dropped = [(f"{count:,}", reason) for reason, count in why.items()] or [("0", "")]
        rows.append((step["step"], within, *dropped[0], kept, subjects))
        rows += [("", "", count, reason, "", "") for count, reason in dropped[1:]]  # a line each, however it is folded
    columns = [Column(name, number=name not in ("step", "why"), joined=name == "why") for name in names]
    return Table("Selection: statements and their subjects, step by step", columns, rows)


def statistics_table(statistics: Mapping[str, float]) -> Table:
    """The numbers of `anachron.data.card.statistics` beside the published ones."""
    published = PUBLISHED_STATISTICS.values()
    rows = [
        (what, number(value), *(number(known.get(what)) for known in published)) for what, value in statistics.items()
    ]
    title = "The data set compared with the published ones"
    return Table(title, _counted("what", "here", *PUBLISHED_STATISTICS), rows)


def updates_table(statistics: Mapping[str, float], replaced: Mapping[str, float], groups: Mapping[str, Any]) -> Table:
    """The numbers of an update data set and its replacement subset beside the published ones (WikiFactDiff, table 2).

    groups: what became of the groups, as `anachron.wikidata.updates.groups.GroupCounts` counts them; shown below the
    numbers.
    """
    whole, subset = (PUBLISHED_UPDATES[name] for name in ("WikiFactDiff", "WFD_repl"))
    rows = [
        (what, *map(number, (value, whole[what], replaced[what], subset[what]))) for what, value in statistics.items()
    ]
    columns = _counted("what", "here", "WikiFactDiff", "replacements here", "WFD_repl")
    dropped = [f"- {count:,}: {why}" for why, (count, _) in groups["dropped"].items() if count]
    notes = [f"groups labelled: {groups['groups']:,}", *dropped, f"groups kept: {groups['kept_groups']:,}"]
    return Table("Updates compared with the published ones", columns, rows, notes)


def _counted(name: str, *numbers: str) -> list[Column]:
    return [Column(name), *(Column(title, number=True) for title in numbers)]


def changes_table(entity: Mapping[str, Any], is_new: bool, changes: Sequence[Mapping[str, Any]]) -> Table:
    """What two snapshots say of an entity, from `anachron.wikidata.updates.explain`."""
    title = f"{entity['label'] or 'without a label'} ({entity['id']})" + (", a new entity" if is_new else "")
    rows = []
    for row in changes:
        property_, value, dates = _statement_cells(row)
        if row["merged_from"] is not None:
            value += f", {row['merged_from']} in the old one"
        label = "" if row["label"] is None else f"{row['label']} by rule {row['rule']}: {row['words']}"
        outcome = f"dropped at {row['dropped']}" if row["dropped"] else row["outcome"]
        side = row["side"] + (f", other {row['change']}" if row["change"] else "")
        rows.append((property_, value, side, dates, label, outcome))
    return Table(title, list(map(Column, ("property", "value", "in", "dates", "label", "outcome"))), rows)


def _statement_cells(row: Mapping[str, Any]) -> tuple[str, str, str]:
    """Property, value and dates of an explained statement."""
    dates = [f"{side} {row[side]}" for side in ("start", "end", "point") if row[side] is not None]
    value = row["value"] if row["value_id"] in (None, row["value"]) else f"{row['value']} ({row['value_id']})"
    property_ = f"{row['property_label'] or ''} ({row['property_id']})".strip()
    return property_, value, "\n".join(dates)


def explanation_table(entity: Mapping[str, Any], verdicts: Sequence[Mapping[str, Any]]) -> Table:
    """What became of each statement of an entity, from `anachron.wikidata.selection.explain`."""
    title = f"{entity['label'] or 'without a label'} ({entity['id']}), {entity['title'] or 'without a title'}"
    rows = []
    for row in verdicts:
        property_, value, dates = _statement_cells(row)
        kept = f"kept as fact {row['fact_id']}"
        if row["popularity"] is not None:
            kept += f", popularity {row['popularity']:,.0f}"
        verdict = kept if row["step"] is None else f"dropped at {row['step']}: {row['reason']}"
        rows.append((property_, value, dates, row["rank"], verdict))
    return Table(title, list(map(Column, ("property", "value", "dates", "rank", "verdict"))), rows)
