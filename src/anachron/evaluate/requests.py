"""What an update asks of a method: requests in its own words, or in those of a variant."""

from collections.abc import Sequence
from dataclasses import replace

from anachron.core.errors import DataError
from anachron.core.facts import REPLACEMENT
from anachron.core.labels import PLAIN, Variant
from anachron.data.updates.case_records import EditCase
from anachron.edit.methods import method_named, why_unsupported
from anachron.edit.requests import EditRequest
from anachron.evaluate.case_results import CaseResult, failed
from anachron.evaluate.measures.dated import with_date
from anachron.evaluate.meto import meto_requests


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
