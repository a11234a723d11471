"""How past and present fare in edited models, as tables (`anachron.evaluate.measures.dated_metrics`): `DATED`, the
mean over the ways of asking about a date, and `DATED_WAYS`, each of them.
"""

from dataclasses import replace

import polars as pl

from anachron.core.dates import GRANULARITIES
from anachron.evaluate.measures.dated import WAYS
from anachron.evaluate.measures.dated_metrics import DATED_SHARES
from anachron.report.edits.tables import Layout


def _notes_on_dated(summary: pl.DataFrame) -> list[str]:
    return [
        "mean over updates [bounds of the 95 % interval] (Wilson); × 100",
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
        "mean over updates [bounds of the 95 % interval] (Wilson); × 100",
        WAYS_NOTE,
        *_notes_on_dated(summary)[2:],
    ]


KEPT_BY_WAY = {f"Kept {way} ↑": (f"past_kept_global_{way}", 100, 1) for way in WAYS}
DATED = Layout(
    name="present_and_past",
    title="Present updated, past kept",
    source="anachron.evaluate.measures.dated_metrics; W and R as in TimeStress, section 3.1",
    columns={
        **{f"Updated {name} ↑": (f"present_updated_{name}", 100, 1) for name in GRANULARITIES},
        **{f"Kept {name} ↑": (f"past_kept_{name}", 100, 1) for name in GRANULARITIES},
        "W past ↑": ("win_rate_global", 100, 1),
        "R past ↑": ("robustness_global", 100, 1),
    },
    notes=_notes_on_dated,
    shares=DATED_SHARES,
    more={
        **{f"Both {name} ↑": (f"both_right_{name}", 100, 1) for name in GRANULARITIES},
        "Both ↑": ("both_right_global", 100, 1),
        "Kept if right ↑": ("kept_given_right_global", 100, 1),
        **KEPT_BY_WAY,
    },
)
# Of `anachron.evaluate.measures.dated_metrics.by_way`: a row a method and way.
DATED_WAYS = replace(
    DATED,
    name="present_and_past_by_way",
    title="Present updated, past kept, by way of asking",
    notes=_notes_on_ways,
    shares=DATED_SHARES,
    more={heading: column for heading, column in DATED.more.items() if heading not in KEPT_BY_WAY},
)
