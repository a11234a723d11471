"""How likely a model finds the old and the new object of updates: what an edit did, and which updates a model lacks.

A probability is the geometric mean of those of an object's tokens, the number that an evaluation compares
(`anachron.evaluate.measure.probabilities`). A rank is that of an object's first token among all tokens of the
vocabulary as the prompt's next token; 1 is the model's first choice.
"""

from collections.abc import Iterator, Sequence

import polars as pl

from anachron.core.errors import DataError
from anachron.data.updates.case_records import EditCase, numbered_prompts
from anachron.edit.base import Edit, edited
from anachron.evaluate.measure import Measures, probabilities
from anachron.evaluate.measures.scenarios import OF_GROUPS
from anachron.lm.model import LanguageModel

ROLES = ("new", "obsolete")
OBJECTS = {
    "case_id": pl.String, "subject": pl.String, "relation": pl.String, "kind": pl.String, "prompt_number": pl.Int64,
    "prompt": pl.String, "role": pl.String, "object": pl.String, "p": pl.Float64, "rank": pl.Int64,
}  # fmt: skip
BESIDE = {
    **{name: kind for name, kind in OBJECTS.items() if name not in ("p", "rank")},
    "before": pl.Float64, "after": pl.Float64, "rank_before": pl.Int64, "rank_after": pl.Int64,
}  # fmt: skip
COMPARED = {
    "case_id": pl.String, "subject": pl.String, "relation": pl.String, "prompt": pl.String, "old": pl.String,
    "new": pl.String, "p_old": pl.Float64, "p_new": pl.Float64, "rank_old": pl.Int64, "rank_new": pl.Int64,
    "prompts": pl.Int64, "old_likelier": pl.Int64, "new_likelier": pl.Int64, "state": pl.String,
}  # fmt: skip
PREFERENCES = {
    "case_id": pl.String, "subject": pl.String, "prompt": pl.String, "new": pl.String, "old": pl.String,
    "p_new": pl.Float64, "p_old": pl.Float64, "prefers": pl.Boolean,
}  # fmt: skip


def score_objects(
    lm: LanguageModel, cases: Sequence[EditCase], *, paraphrases: bool = True, batch_tokens: int | None = None
) -> pl.DataFrame:
    """One row (`OBJECTS`) an update, prompt and object that became true or ceased to be, in the order of the updates.

    paraphrases: ask with the generalization prompts too, not with the update prompt alone. Objects that the update does
    not name have no row; nor have further rewrites of one update. Raises `ModelError` for a text that is too long for
    the model, and `DataError` where its scores are no numbers.
    """
    asked = [(case, *one) for case in cases for one in _asked(case) if paraphrases or one[0] == "update"]
    pairs = list(dict.fromkeys((prompt, label) for *_, prompt, _, label in asked))
    p = probabilities(lm, pairs, Measures(batch_tokens=batch_tokens)) if pairs else {}
    encoded = lm.encode([(*pair, None) for pair in pairs], lm.style)
    ranks = dict(zip(pairs, lm.first_token_ranks(encoded, batch_tokens), strict=True))
    rows = [
        (
            case.case_id, case.subject, case.relation_label or case.relation, kind, number, prompt, role, label,
            p[prompt, label], int(ranks[prompt, label]),
        )
        for case, kind, number, prompt, role, label in asked
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=OBJECTS, orient="row")


def _asked(case: EditCase) -> Iterator[tuple[str, int, str, str, str]]:
    """Kind, number and text of a prompt, and the role and label of an object that it is asked with."""
    given = case.objects if case.scenario in OF_GROUPS else ((case.new, "new"), (case.old, "obsolete"))
    objects = dict.fromkeys((role, label) for label, role in given if label and role in ROLES)
    for kind, number, prompt in numbered_prompts(case):
        for role, label in objects:
            yield kind, number, prompt, role, str(label)


def before_and_after(lm: LanguageModel, edit: Edit, cases: Sequence[EditCase]) -> pl.DataFrame:
    """`score_objects` on the update prompts without an edit and with it, side by side (`BESIDE`)."""
    before = score_objects(lm, cases, paraphrases=False)
    with edited(lm, edit, check=False):
        after = score_objects(lm, cases, paraphrases=False)
    return before.select(
        pl.exclude("p", "rank"), before="p", after=after["p"], rank_before="rank", rank_after=after["rank"]
    )


def preferences(lm: LanguageModel, edit: Edit, cases: Sequence[EditCase]) -> pl.DataFrame:
    """One row (`PREFERENCES`) an update: whether the model with an edit prefers the new object after its prompt.

    prefers: with old objects, whether every new one is likelier than each of them, by the probabilities that an
    evaluation compares; without any, whether the first token of a new one is the model's first choice; null where the
    update names no new object. p_new, p_old: the lowest of the new objects' and the highest of the old ones'. Raises as
    `score_objects`.
    """
    with edited(lm, edit, check=False):
        scored = score_objects(lm, cases, paraphrases=False).iter_rows(named=True)
    rows = []
    for case in cases:
        of_update = [next(scored) for kind, *_ in _asked(case) if kind == "update"]
        new, old = ([row for row in of_update if row["role"] == role] for role in ROLES)
        p_new, p_old = min((row["p"] for row in new), default=None), max((row["p"] for row in old), default=None)
        first_choice = any(row["rank"] == 1 for row in new)
        prefers = None if p_new is None else first_choice if p_old is None else p_new > p_old
        objects = [", ".join(row["object"] for row in of_role) for of_role in (new, old)]
        rows.append((case.case_id, case.subject, case.prompt, *objects, p_new, p_old, prefers))
    return pl.DataFrame(rows, schema=PREFERENCES, orient="row")


def compare_objects(lm: LanguageModel, cases: Sequence[EditCase]) -> pl.DataFrame:
    """One row (`COMPARED`) an update that names an old and a new object, in their order: which is the likelier one.

    state: ``lacks`` where the model finds the old object likelier than the new one after every prompt of the update,
    ``has`` where it finds the new one likelier after every prompt, else ``partly``. old_likelier, new_likelier: after
    so many of the ``prompts``; a tie counts for neither. Probabilities (0 to 1) and ranks are those after the update
    prompt.

    Raises `DataError` where no update names both, and as `score_objects`.
    """
    both = [case for case in cases if case.scenario not in OF_GROUPS and case.new and case.old]
    if not both:
        raise DataError(
            f"none of {len(cases)} updates names an old and a new object, so there is nothing to compare; give "
            "replacements"
        )
    scored = score_objects(lm, both)
    of_role = [
        scored.filter(pl.col("role") == role).select(
            *([] if name == "new" else ["case_id", "subject", "relation", "kind", "prompt"]),
            pl.col("object").alias(name),
            pl.col("p").alias(f"p_{name}"),
            pl.col("rank").alias(f"rank_{name}"),
        )
        for role, name in (("obsolete", "old"), ("new", "new"))
    ]
    beside = pl.concat(of_role, how="horizontal")  # both have every prompt of every update, in one order
    old, new = pl.col("p_old") > pl.col("p_new"), pl.col("p_new") > pl.col("p_old")
    counts = beside.group_by("case_id").agg(
        prompts=pl.len().cast(pl.Int64),
        old_likelier=old.sum().cast(pl.Int64),
        new_likelier=new.sum().cast(pl.Int64),
    )
    state = (
        pl.when(pl.col("old_likelier") == pl.col("prompts"))
        .then(pl.lit("lacks"))
        .when(pl.col("new_likelier") == pl.col("prompts"))
        .then(pl.lit("has"))
        .otherwise(pl.lit("partly"))
    )
    of_update = beside.filter(pl.col("kind") == "update")
    return (
        of_update.join(counts, on="case_id", how="left", maintain_order="left")
        .with_columns(state=state)
        .select(list(COMPARED))
    )
