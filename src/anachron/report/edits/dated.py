"""How past and present fare in edited models, as tables (`anachron.evaluate.measures.dated_metrics`): `DATED`, the
mean over the ways of asking about a date, and `DATED_WAYS`, each of them.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import polars as pl

from anachron.core.dates import GRANULARITIES
from anachron.evaluate.measures.atoke_metrics import SCORES, SUCCESS
from anachron.evaluate.measures.dated import WAYS
from anachron.evaluate.measures.portability import PORTABILITY, portability_summary, portability_tests
from anachron.evaluate.results import check_updates, method_label
from anachron.evaluate.summaries import of_atoke
from anachron.io.tables import write_table
from anachron.report.edits.tables import Layout, write_edits
from anachron.report.outputs import write_data, write_printed
from anachron.report.table import UP, Column, Table, measured


def _notes_on_dated(summary: pl.DataFrame) -> list[str]:
    return [
        "mean over updates [bounds of the 95 % interval] (Korn and Graubard); × 100",
        f"{WAYS_NOTE}; other columns: each update's mean over them",
        "Updated: p(new) > p(old) on dates after the change; Kept: p(old) > p(new) on dates before it",
        "Both: share of pairs of a date after the change and one before it that are both right; without a granularity, "
        "the mean of year, month and day",
        "Kept if right: share still right of the dates before the change that the unedited model has right",
        "W, R: of the past fact, dates before the change against dates after it, over year, month and day; in prompts "
        "and questions, whose words are the same on all dates",
    ]


WAYS_NOTE = (
    "prompt: the edit's own, after the date; paraphrase: another of its prompts; question: one in the past tense"
)


def _notes_on_ways(summary: pl.DataFrame) -> list[str]:
    return [
        "mean over updates [bounds of the 95 % interval] (Korn and Graubard); × 100",
        WAYS_NOTE,
        *_notes_on_dated(summary)[2:],
    ]


KEPT_BY_WAY = tuple(measured(f"Kept {way}", f"past_kept_global_{way}", UP) for way in WAYS)
DATED = Layout(
    name="present_and_past",
    title="Present updated, past kept",
    source="anachron.evaluate.measures.dated_metrics; W and R as in TimeStress, section 3.1",
    columns=(
        *(measured(f"Updated {name}", f"present_updated_{name}", UP) for name in GRANULARITIES),
        *(measured(f"Kept {name}", f"past_kept_{name}", UP) for name in GRANULARITIES),
        measured("W past", "win_rate_global", UP),
        measured("R past", "robustness_global", UP),
    ),
    notes=_notes_on_dated,
    more=(
        *(measured(f"Both {name}", f"both_right_{name}", UP) for name in GRANULARITIES),
        measured("Both", "both_right_global", UP),
        measured("Kept if right", "kept_given_right_global", UP),
        *KEPT_BY_WAY,
    ),
)
# Of `anachron.evaluate.measures.dated_metrics.by_way`: a row a method and way.
DATED_WAYS = replace(
    DATED,
    name="present_and_past_by_way",
    title="Present updated, past kept, by way of asking",
    notes=_notes_on_ways,
    more=[column for column in DATED.more if column not in KEPT_BY_WAY],
)


HEADINGS = {name: name.upper().replace("_", "-") for name in SCORES} | {"extent": "Extent"}


def _notes(summary: pl.DataFrame) -> list[str]:
    return [
        "mean over updates [bounds of the 95 % interval] (Korn and Graubard); × 100",
        "every token of the right object is the model's first choice; C: the new one, H: the old one; ES: after its "
        "period, RS: without a date, H after Previously; -P: on the other prompts",
        "Extent: the period of each object, after the statement with the object; not one of AToKe's scores",
        "-S: the right answer is likelier than the other one",
    ]


ATOKE = Layout(
    name="atoke",
    title="AToKe's scores",
    source="anachron.evaluate.measures.atoke_metrics; Yin and others, AAAI 2024",
    columns=[measured(title, name, UP) for name, title in HEADINGS.items()],
    notes=_notes,
    more=[measured(f"{title}-S", f"{name}{SUCCESS}", UP) for name, title in HEADINGS.items()],
)


def write_atoke(tables: Mapping[str, pl.DataFrame], out: Path) -> pl.DataFrame:
    """Write ``atoke_metrics.parquet``, a row a method and update, and the table ``atoke.*``; returns the summary."""
    metrics, summary = of_atoke(tables)
    write_table(out / "atoke_metrics.parquet", metrics)
    write_edits(summary, out, ATOKE)
    return summary


NAME = "portability"
TITLE = "Portability: what follows from the updates"
NOTES = (
    "means × 100 over updates, each the mean of its tests, [bounds of the 95 % interval] (Korn and Graubard)",
    "Right: what the model generates, by the rule of the format (RippleEdits: contains every answer; MQuAKE: begins "
    "with one); Begins: begins with one; p: of the likeliest name of an answer; p > old: where the old answer is known",
    "If edited: Right, only over updates whose own object the model generates",
    "not counted: tests with a condition that the unedited model does not know",
)
WORDS = ("mode", "method", "kind")
COLUMNS = (
    measured("Right", "right", UP),
    measured("If edited", "right_if_edited", UP),
    measured("Begins", "begins", UP),
    measured("p > old", "success", UP),
    measured("p", "p", UP),
)


def write_portability(tables: Mapping[str, pl.DataFrame], out: Path) -> pl.DataFrame:
    """Write ``portability_tests.parquet``, a row a test, and the summary that is returned, as numbers and to print."""
    tests = portability_tests(PORTABILITY.check(tables["portability"], check_updates(tables["updates"])))
    summary = portability_summary(tests, tables["updates"])
    table = portability_table(summary, brief=False)
    tex = table.latex(NAME, "; ".join([TITLE, *NOTES]))
    notes = "".join(f"- {note}\n" for note in NOTES)
    write_data(out, f"{NAME}_tests", tests)
    write_data(out, NAME, summary)
    write_printed(out, NAME, f"## {TITLE}\n\n{table.markdown()}\n{notes}", tex)
    return summary


def portability_table(summary: pl.DataFrame, *, brief: bool = True) -> Table:
    """Columns that nothing is known of are left out. brief: the interval of the first mean alone."""
    rows = summary.with_columns(method_label())
    cells = {name: rows[name].to_list() for name in WORDS if name != "mode" or rows[name].n_unique() > 1}
    cells |= {name.replace("_", " "): [f"{n:,}" for n in rows[name]] for name in ("updates", "tests", "not_counted")}
    for column in COLUMNS:
        if rows[column.of].count():
            bounded = column.of == "right" or not brief
            cells[column.heading] = column.cells(rows) if bounded else [column.cell(mean) for mean in rows[column.of]]
    columns = [Column(name, number=name not in WORDS) for name in cells]
    return Table(TITLE, columns, list(zip(*cells.values(), strict=True)), NOTES)
