"""What an update asks of a method: requests in its own words, or behind its date."""

from collections.abc import Sequence

from anachron.data.case_records import EditCase
from anachron.edit.methods import method_named, why_unsupported
from anachron.edit.requests import EditRequest
from anachron.errors import DataError
from anachron.evaluate.case_results import CaseResult, failed
from anachron.evaluate.dated import with_date
from anachron.evaluate.results import REPLACEMENT


def requests_of(case: EditCase, method: str, *, dated_requests: bool = False) -> list[EditRequest]:
    """What an update asks of a method: its new objects to be put in, or, of Archive, its obsolete ones to be taken out.

    An update of several rewrites asks for all of them.

    dated_requests: behind its date. Raises `DataError` where it cannot be asked for: there is no such object, one has
    no label, the prompt does not name the subject that the method needs, the method does not support the scenario, or
    the date is not known.
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
    asked += [EditRequest.of(more.prompt, more.subject, more.new) for more in case.rewrites]
    if method_named(method).needs_subject:
        for request in asked:
            request.check_located()
    return requests_of(with_date(case), method) if dated_requests else asked  # what no date would mend fails first


def askable(
    cases: Sequence[EditCase], method: str, *, dated_requests: bool = False
) -> tuple[list[tuple[EditCase, list[EditRequest]]], list[CaseResult]]:
    """Updates that can be asked of a method, with their requests, and the failures of the others."""
    asked, failures = [], []
    for case in cases:
        try:
            asked.append((case, requests_of(case, method, dated_requests=dated_requests)))
        except DataError as error:
            failures.append(failed(case, str(error)))
    return asked, failures
