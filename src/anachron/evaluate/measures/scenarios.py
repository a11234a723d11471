"""Updates that are no replacement: which objects of a group are asked about, and when such an update has succeeded.

A group (subject and relation) has objects that are ``new``, ``static`` or ``obsolete``; ``other`` are plausible objects
that never were the subject's: those of its nearest facts, which have the same relation. All are asked with the group's
own prompts. One rule serves every scenario: what holds must win against all that does not. A replacement is the case of
one object on either side, and is evaluated as the paper does, without others.
"""

from collections.abc import Mapping

import polars as pl

from anachron.core.facts import DECISIONS
from anachron.core.sameness import name_key
from anachron.data.updates.case_records import EditCase, numbered_prompts, prompts_of
from anachron.evaluate.measures.measure import Measure
from anachron.evaluate.results import (
    COUNT,
    KEYS,
    NUMBER,
    OTHER,
    PROMPT,
    TARGET_KINDS,
    TEXT,
    P,
)
from anachron.io.files import Json

OF_GROUPS = ("Archive", "AddObject", "AddRelation", "AddEntity")
SCENARIO_METRICS = (
    "efficacy_difference", "efficacy_success", "generalization_difference", "generalization_success",
    "efficacy_change", "generalization_change", "new_win", "static_win", "static_loss", "others_rise",
)  # fmt: skip

_MEASURES = ("difference", "success", "change")


def other_objects(case: EditCase) -> tuple[str, ...]:
    """Plausible objects that are none of the group's: those of its nearest facts, each once, in their order.

    Labels are the same by `anachron.core.sameness.name_key`.
    """
    of_group = {name_key(label) for label, _ in case.objects}
    others: dict[str, str] = {}
    for fact in case.nearest:
        for label in fact.objects:
            others.setdefault(name_key(label), label)
    return tuple(label for key, label in others.items() if key not in of_group)


def group_objects(case: EditCase) -> list[tuple[str, str]]:
    """(role, label) of all objects that a group is measured by, each once; none of a replacement.

    Objects without a label cannot be asked about and are left out; those to be learned are refused by the edit.
    """
    if case.scenario not in OF_GROUPS:
        return []
    roles = [
        (decision, label) for wanted in DECISIONS for label, decision in case.objects if decision == wanted and label
    ]
    return list(dict.fromkeys([*roles, *((OTHER, label) for label in other_objects(case))]))


def object_pairs(case: EditCase) -> list[tuple[str, str]]:
    """All (prompt, object) pairs whose probabilities tell whether an update of a group succeeded."""
    labels = [label for _, label in group_objects(case)]
    return [(prompt, label) for prompt in prompts_of(case) for label in labels]


def object_rows(case: EditCase, p: Mapping[tuple[str, str], float]) -> list[Json]:
    """Every object of a group with its probability after every prompt."""
    return [
        {"kind": kind, "prompt_number": number, "role": role, "object": label, "p": p[prompt, label]}
        for kind, number, prompt in numbered_prompts(case)
        for role, label in group_objects(case)
    ]


def scenario_metrics(objects: pl.DataFrame) -> pl.DataFrame:
    """One row per mode, method and update with its `SCENARIO_METRICS`, from a table of objects (`OBJECTS`).

    Of a group that gains objects (AddObject, AddRelation, AddEntity), on one prompt:

    * difference: the lowest p after the edit of an object that holds (new or static), minus the highest of one that
      does not (other, or obsolete); success: whether it is above 0: every object that holds wins against every other.
    * change: mean over its new objects of p after - p before.

    Of a group that only loses objects (Archive):

    * difference: the highest p after of an other one, minus the highest of an obsolete one; success: whether it is
      above 0 and every obsolete object lost probability. So none of them is the model's answer any more.
    * change: mean over its obsolete objects of p before - p after.

    ``efficacy_*`` is on the update prompt, ``generalization_*`` the mean over the others. On the update prompt alone:

    * ``new_win`` and ``static_win``, the two parts of success of a group that has new and static objects (AddObject):
      whether every one of these wins against every one that does not hold.
    * ``static_loss``: mean over static objects of -min(after - before, 0), the bleedover on the subject's own facts.
    * ``others_rise``: largest rise of an other one, max(after - before, 0): what took the place of an archived object.

    A tie is no success. Null where nothing tells it: no other object, a failed update.
    """
    by_prompt, of_update, of_rest = _by_prompt(objects), pl.col("kind") == "update", pl.col("kind") == "generalization"
    return by_prompt.group_by(KEYS, maintain_order=True).agg(
        *(pl.col(name).filter(of_update).mean().alias(f"efficacy_{name}") for name in _MEASURES),
        *(pl.col(name).filter(of_rest).mean().alias(f"generalization_{name}") for name in _MEASURES),
        *(pl.col(name).filter(of_update).mean() for name in ("new_win", "static_win", "static_loss", "others_rise")),
    )


def _by_prompt(objects: pl.DataFrame) -> pl.DataFrame:
    """The measures of `scenario_metrics` on each prompt."""
    prompt = objects.group_by(*KEYS, "kind", "prompt_number", maintain_order=True).agg(
        adds=(pl.col("role") == "new").any(),
        scored=pl.col("after").is_not_null().all(),
        compared=(pl.col("before").is_not_null() & pl.col("after").is_not_null()).all(),
        new=_of("after", "new").min(),
        static=_of("after", "static").min(),
        wrong=_of("after", OTHER, "obsolete").max(),
        other=_of("after", OTHER).max(),
        others=(pl.col("role") == OTHER).any(),
        obsolete=_of("after", "obsolete").max(),
        gone=(_of("before", "obsolete") > _of("after", "obsolete")).all(),
        gain=(_of("after", "new") - _of("before", "new")).mean(),
        loss=(_of("before", "obsolete") - _of("after", "obsolete")).mean(),
        static_loss=(_of("before", "static") - _of("after", "static")).clip(lower_bound=0.0).mean(),
        others_rise=(_of("after", OTHER) - _of("before", OTHER)).clip(lower_bound=0.0).max(),
    )
    adds, compared = pl.col("adds"), pl.col("compared")
    holds = pl.min_horizontal("new", "static")
    gap = pl.when(adds).then(holds - pl.col("wrong")).otherwise(pl.col("other") - pl.col("obsolete"))
    both = adds & pl.col("scored") & pl.col("others") & pl.col("static").is_not_null()
    return prompt.with_columns(difference=pl.when("scored", "others").then(gap)).with_columns(
        *(
            pl.when(both).then(pl.col(n) > pl.col("wrong")).cast(pl.Float64).alias(f"{n}_win")
            for n in ("new", "static")
        ),
        success=pl.when(pl.col("difference").is_not_null() & (adds | compared))
        .then((pl.col("difference") > 0) & (adds | pl.col("gone")))
        .cast(pl.Float64),
        change=pl.when(compared).then(pl.when(adds).then("gain").otherwise("loss")),
        static_loss=pl.when(compared).then("static_loss"),
        others_rise=pl.when(compared).then("others_rise"),
    )


def _of(score: str, *roles: str) -> pl.Expr:
    return pl.col(score).filter(pl.col("role").is_in(roles))


# One row per object and prompt of an update that is no replacement: its p. role: one of `ROLES`.
OBJECTS = Measure(
    name="objects",
    entry={"kind": TEXT, "prompt_number": COUNT, "role": TEXT, "object": TEXT, "p": NUMBER},
    how=lambda measures: True,
    pairs=lambda case, how: object_pairs(case),
    rows=lambda case, how, scores: object_rows(case, scores.p),
    optional=True,
    table={**PROMPT, "role": TEXT, "object": TEXT, **P},
    keys=("kind", "object", "prompt_number", "role"),
    known={"kind": TARGET_KINDS},
    scores=("after",),
)
