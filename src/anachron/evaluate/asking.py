"""What an update asks of a method: requests in its own words, or behind its date."""

from collections.abc import Sequence

from anachron.core.scenarios import VARIANT, method_of
from anachron.data.case_records import EditCase
from anachron.edit.methods import why_unsupported
from anachron.edit.requests import EditRequest
from anachron.errors import DataError
from anachron.evaluate.dated import with_date
from anachron.evaluate.parts import Verdict, failed
from anachron.evaluate.results import REPLACEMENT


def requests_of(case: EditCase, method: str) -> list[EditRequest]:
    """What an update asks of a method: its new objects to be put in, or, of Archive, its obsolete ones to be taken out.

    Raises `DataError` where it cannot be asked for: there is no such object, one has no label, the prompt does not name
    the subject, or the method does not support the scenario.
    """
    if (unable := why_unsupported(method, case.scenario)) is not None:
        raise DataError(f"update {case.case_id}: {unable}")
    archived = case.scenario == "Archive"
    decision, aim = ("obsolete", "take out") if archived else ("new", "make true")
    labels = [label for label, own in case.objects if own == decision]
    if case.scenario == REPLACEMENT:
        labels = [case.new or ""]  # of every format, whether or not it lists objects
    if not labels or not all(labels):
        which = f"{decision} object" if not any(labels) else f"label for one of its {decision} objects"
        raise DataError(f"update {case.case_id} has no {which}, so there is nothing to {aim}")
    return [EditRequest.of(case.prompt, case.subject, label, remove=archived) for label in dict.fromkeys(labels)]


def requests_for(case: EditCase, label: str) -> list[EditRequest]:
    """What an update asks of a method with this label, in the update's own words or behind its date.

    Raises `DataError` where it cannot be asked for, see `requests_of`, or its date is to be said and is not known.
    """
    asked = requests_of(case, method_of(label))  # what no date would mend, such as the scenario, is said first
    return requests_of(with_date(case), method_of(label)) if label.endswith(VARIANT) else asked


def askable(part: Sequence[EditCase], label: str) -> tuple[list[tuple[EditCase, list[EditRequest]]], list[Verdict]]:
    """Updates that can be asked of a method with this label, with their requests, and the failures of the others."""
    found, failures = [], []
    for case in part:
        try:
            found.append((case, requests_for(case, label)))
        except DataError as error:
            failures.append(failed(case, str(error)))
    return found, failures
