"""METO's requests: multi-editing with a time objective (Yin and others, AAAI 2024).

METO edits the outgoing and the new fact together, each by its period and by a request whose target is the period. As
questions of `anachron.evaluate.measures.atoke` the requests are ``extent_old``, ``hes``, ``extent_new`` and ``ces``,
in this order: what a method that makes one on top of the other does last is the new fact. The authors published no
code; that order, and the words of our prompts, are ours.
"""

from anachron.core.errors import DataError
from anachron.core.facts import REPLACEMENT
from anachron.data.updates.case_records import EditCase
from anachron.edit.requests import EditRequest
from anachron.evaluate.measures.atoke import timed_questions


def meto_requests(case: EditCase) -> list[EditRequest]:
    """What METO asks for in one edit: the period of the old fact and the fact in it, then the same of the new one.

    METO asks the model which fact it holds and edits that and what came after it; here the data says the old object.
    Raises `DataError` where one of the four cannot be asked for.
    """
    if case.scenario != REPLACEMENT:
        raise DataError(
            f"update {case.case_id} is not a replacement (its scenario is {case.scenario}); METO edits an "
            "old fact and the one that took its place"
        )
    missing = [what for what, value in (("its old object", case.old), ("the start of its old object", case.old_start),
                                        ("when its new object became true", case.start)) if not value]  # fmt: skip
    if missing:
        raise DataError(
            f"update {case.case_id} does not say {' and '.join(missing)}; METO edits both facts with their dates, so "
            "give old object, its start, and the start of the new one"
        )
    asked = {q.kind: q for q in reversed(timed_questions(case))}  # the first of each kind
    wanted = ("extent_old", "hes", "extent_new", "ces")
    if lacking := [kind for kind in wanted if kind not in asked]:
        raise DataError(
            f"update {case.case_id}: METO cannot ask for {' and '.join(lacking)}, as the periods of its two objects "
            "read alike or its file words no such question; give other dates, or all wordings (docs/definitions.md)"
        )
    return [EditRequest(asked[kind].prompt, case.subject, asked[kind].right_answer) for kind in wanted]
