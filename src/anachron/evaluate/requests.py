"""What an update asks of a method: requests in its own words, or in those of a variant.

Also which updates ask for nothing, and which cannot be made together.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from anachron.core.dates import Date
from anachron.core.errors import DataError
from anachron.core.facts import REPLACEMENT
from anachron.core.labels import PLAIN, Variant
from anachron.core.sameness import name_key, same_name
from anachron.data.updates.case_records import EditCase
from anachron.edit.methods import method_named, why_unsupported
from anachron.edit.passes.forward import checked_ids
from anachron.edit.requests import EditRequest, mark, mark_targets
from anachron.evaluate.case_results import CaseResult, failed
from anachron.evaluate.measures.dated import with_date
from anachron.evaluate.meto import meto_requests
from anachron.lm.model import LanguageModel


def requests_of(case: EditCase, method: str, variant: Variant = PLAIN) -> list[EditRequest]:
    """What an update asks of a method: its new objects to be put in, or, of Archive, its obsolete ones to be taken out.

    An update of several rewrites asks for all of them. What replaces an old object says that one's sentence too.

    variant: ``plain`` in the update's own words, ``dated`` behind the date of the change (`with_date`), ``METO`` the
    old and the new fact with their dates (`meto_requests`). Raises `DataError` where it cannot be asked for: there is
    no such object, one has no label, the prompt does not name the subject that the method needs, the method does not
    support the scenario, or a date that the variant says is not known.
    """
    if (unable := why_unsupported(method, case.scenario)) is not None:
        raise DataError(f"update {case.case_id}: {unable}")
    archived = case.scenario == "Archive"
    wanted, aim = ("obsolete", "take out") if archived else ("new", "make true")
    labels = [label for label, decision in case.objects if decision == wanted]
    if case.scenario == REPLACEMENT:
        labels = [case.new or ""]  # of every format, whether or not it lists objects
    if not labels or not all(labels):
        which = f"{wanted} object" if not any(labels) else f"label for one of its {wanted} objects"
        raise DataError(f"update {case.case_id} has no {which}, so there is nothing to {aim}")
    asked = [EditRequest.of(case.prompt, case.subject, label, remove=archived) for label in dict.fromkeys(labels)]
    if case.scenario == REPLACEMENT and case.old:
        asked = [replace(asked[0], old_sentence=replace(asked[0], target=case.old).sentence)]
    asked += [EditRequest.of(more.prompt, more.subject, more.new) for more in case.rewrites]
    _check_located(asked, method)
    if variant == "dated":  # what no date would mend has failed by now
        return _dated(case, method)
    if variant == "METO":
        asked = meto_requests(case)
        _check_located(asked, method)
    return asked


def _dated(case: EditCase, method: str) -> list[EditRequest]:
    """The requests behind the date of the change; the old sentence behind that of the old object, where it is known."""
    asked = requests_of(with_date(case), method)
    if asked[0].old_sentence:
        old = replace(case, start=case.old_start, new=case.old)
        (then, *_) = requests_of(with_date(old) if case.old_start else old, method)
        asked[0] = replace(asked[0], old_sentence=then.sentence)
    return asked


def _check_located(requests: Sequence[EditRequest], method: str) -> None:
    if method_named(method).needs_subject:
        for request in requests:
            request.check_located()


def askable(
    cases: Sequence[EditCase], method: str, variant: Variant = PLAIN
) -> tuple[list[tuple[EditCase, list[EditRequest]]], list[CaseResult]]:
    """Updates that can be asked of a method, with their requests, and the failures of the others."""
    asked, failures = [], []
    for case in cases:
        try:
            asked.append((case, requests_of(case, method, variant)))
        except DataError as error:
            failures.append(failed(case, str(error)))
    return asked, failures


Asked = tuple[EditCase, list[EditRequest]]


def unreadable(lm: LanguageModel, asked: Sequence[Asked], method: str) -> dict[str, str]:
    """Why a model cannot be given an update, by the update's id, for those that it cannot: its sentence is longer than
    the model reads, or has no token where the method needs one. In one edit of many, it would be the failure of all."""
    marked = mark if method_named(method).needs_subject else mark_targets
    reasons = {}
    for case, requests in asked:
        try:
            for request in requests:
                checked_ids(lm.model, marked(lm.tokenizer, [request], style=lm.style))
        except DataError as error:
            reasons[case.case_id] = str(error)
    return reasons


def changes_nothing(case: EditCase) -> bool:
    """Whether a replacement's new object is the old one, or a name that the update gives of it, or the other way
    round."""
    if case.scenario != REPLACEMENT or case.rewrites or not (case.old and case.new):
        return False
    objects = {name_key(case.old), name_key(case.new)}
    return len(objects) == 1 or any(set(map(name_key, names)) == objects for names in case.aliases)


def without_conflicts(asked: Sequence[Asked]) -> tuple[list[Asked], list[str]]:
    """The updates that can be made together, in their order, and the reason for each of the others.

    Of two replacements that make different objects follow one prompt the later one stays, by its date; one without
    a date gives way to one that has, and of two without the first stays. Objects that are added do not exclude each
    other.
    """
    stands: dict[str, tuple[EditCase, str]] = {}  # prompt -> the update that it belongs to, and its object
    reasons: dict[str, str] = {}
    for case, requests in sorted(asked, key=lambda one: _later_first(one[0])):
        wanted = [(name_key(one.text), one) for one in requests if not one.remove]
        for key, request in wanted:
            other, target = stands.get(key, (case, request.target))
            replaced = REPLACEMENT in (case.scenario, other.scenario)
            if other is not case and replaced and not same_name(target, request.target):
                reasons[case.case_id] = (
                    f"update {case.case_id}: {request.target!r} is to follow {request.text!r}, but update "
                    f"{other.case_id} makes {target!r} follow it; keep one of the two"
                )
                break
        else:
            for key, request in wanted:
                stands.setdefault(key, (case, request.target))
    return [one for one in asked if one[0].case_id not in reasons], list(reasons.values())


def _later_first(case: EditCase) -> float:
    return inf if case.start is None else -Date.parse(case.start).first_day
