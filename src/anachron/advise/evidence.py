"""Bundled updates that are tried beside a user's own, where these are too few to tell ways apart."""

from dataclasses import dataclass, replace

from anachron.advise.held_out import NoneLeftError, held_out
from anachron.data.updates.case_records import EditCase
from anachron.data.updates.cases import MINI_UPDATES, CaseSet
from anachron.evaluate.old_and_new import compare_objects
from anachron.lm.model import LanguageModel

EVIDENCE = 50  # updates that are tried at least, where so many can be found
AT_A_TIME = 40  # bundled updates that are looked at together


@dataclass(frozen=True)
class Evidence:
    """The updates to be tried: ``own`` ones first, then bundled ones that the model lacks too, of which ``same`` are of
    relations of the own ones."""

    cases: CaseSet
    own: int
    same: int

    def __str__(self) -> str:
        added = len(self.cases.cases) - self.own
        return (
            f"{self.own} updates say little about how ways differ, so {added} bundled ones that the model lacks too "
            f"are tried beside them ({self.same} of the same relations); --set evidence=0 tries yours alone"
        )


def with_evidence(lm: LanguageModel, cases: CaseSet, number: int = EVIDENCE) -> Evidence:
    """The updates, and behind them bundled ones until there are so many: of other subjects, of the same relations
    first, and such that the model finds the old object likelier after every prompt, as it does where it is stale.

    Fewer where no more are found, and the own ones alone where they are as many. As many as the own ones are made
    together, so the whole is a multiple of their number.
    """
    own = len(cases.cases)
    if own >= number or not own:
        return Evidence(cases, own, 0)
    number = -(-number // own) * own
    try:
        found = held_out(cases.cases, most=10**6, neighbours=None)
    except NoneLeftError:
        return Evidence(cases, own, 0)
    added: list[EditCase] = []
    same = 0
    for first in range(0, len(found.cases.cases), AT_A_TIME):
        some = found.cases.cases[first : first + AT_A_TIME]
        both = [case for case in some if case.new and case.old]
        states = dict(compare_objects(lm, both).select("case_id", "state").iter_rows()) if both else {}
        for place, case in enumerate(some, first):
            if states.get(case.case_id) == "lacks" and own + len(added) < number:
                added.append(replace(case, case_id=f"{MINI_UPDATES} {case.case_id}"))
                same += place < found.same
        if own + len(added) == number:
            break
    added = added[: len(added) // own * own]  # a part that is not full would be in no number that decides
    return Evidence(replace(cases, cases=(*cases.cases, *added)), own, min(same, len(added)))
