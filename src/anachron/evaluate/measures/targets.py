"""What the papers measure of an update: its own prompts, and the facts beside it that must stay.

Efficacy and generalization come from p of the new and the old object, bleedover from p of a neighbour's true object.
A neighbour with several true objects counts with the mean of their p.
"""

from collections.abc import Sequence

import polars as pl

from anachron.data.updates.case_records import EditCase, numbered_neighbours, numbered_prompts, prompts_of, wrong_object
from anachron.evaluate.measures.measure import Measure, Pair, Rows, Scores
from anachron.evaluate.results import COUNT, NUMBER, TEXT


def _target_pairs(case: EditCase, count: bool) -> list[Pair]:
    return [(prompt, o) for prompt in prompts_of(case) for o in (case.new, case.old) if o]


def _target_counted(case: EditCase, count: bool) -> list[Pair]:
    return [(prompt, case.new) for prompt in prompts_of(case) if case.new] if count else []


def _target_rows(case: EditCase, count: bool, scores: Scores) -> Rows:
    return [
        {
            "kind": kind,
            "prompt_number": number,
            "new": scores.p[prompt, case.new] if case.new else None,
            "old": scores.p[prompt, case.old] if case.old else None,
            "accuracy": scores.accuracy[prompt, case.new] if count and case.new else None,
        }
        for kind, number, prompt in numbered_prompts(case)
    ]


def _neighbour_pairs(case: EditCase, count: bool) -> list[Pair]:
    pairs = []
    for _, _, fact in numbered_neighbours(case):
        wrong = wrong_object(case, fact)
        pairs += [(fact.prompt, o) for o in (*fact.objects, *([wrong] if wrong else []))]
    return pairs


def _neighbour_counted(case: EditCase, count: bool) -> list[Pair]:
    return [(fact.prompt, o) for _, _, fact in numbered_neighbours(case) for o in fact.objects] if count else []


def _neighbour_rows(case: EditCase, count: bool, scores: Scores) -> Rows:
    rows: Rows = []
    for kind, number, fact in numbered_neighbours(case):
        wrong = wrong_object(case, fact)
        best = max((scores.accuracy[fact.prompt, o] for o in fact.objects), default=None) if count else None
        mean = sum(scores.p[fact.prompt, o] for o in fact.objects) / len(fact.objects)
        new = scores.p[fact.prompt, wrong] if wrong else None
        rows.append({"kind": kind, "number": number, "p": mean, "new": new, "accuracy": best})
    return rows


def _with_distances(table: pl.DataFrame, cases: Sequence[EditCase]) -> pl.DataFrame:
    """With what the data set says of each neighbour."""
    facts = [(c.case_id, kind, n, f.dist, f.popularity) for c in cases for kind, n, f in numbered_neighbours(c)]
    schema = {"case_id": TEXT, "kind": TEXT, "number": COUNT, "dist": NUMBER, "popularity": NUMBER}
    about = pl.DataFrame(facts, schema=schema, orient="row")
    return table.join(about, on=["case_id", "kind", "number"], how="left", maintain_order="left")


TARGETS = Measure(
    name="targets",
    entry={"kind": TEXT, "prompt_number": COUNT, "new": NUMBER, "old": NUMBER, "accuracy": NUMBER},
    how=lambda measures: measures.token_accuracy,
    pairs=_target_pairs,
    counted=_target_counted,
    rows=_target_rows,
)
NEIGHBOURS = Measure(
    name="neighbours",
    entry={"kind": TEXT, "number": COUNT, "p": NUMBER, "new": NUMBER, "accuracy": NUMBER},
    how=lambda measures: measures.token_accuracy,
    pairs=_neighbour_pairs,
    counted=_neighbour_counted,
    rows=_neighbour_rows,
    finish=_with_distances,
)
