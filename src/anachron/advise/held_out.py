"""Bundled updates to try settings on: like those that are to be made and judged, and none of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from anachron.core.errors import ConfigError
from anachron.core.sameness import name_key
from anachron.data.updates.case_records import SLOT, EditCase, prompts_of
from anachron.data.updates.cases import MINI_UPDATES, CaseSet, load_cases

MOST = 16
NEIGHBOURS = 5  # facts of a kind beside each update: half of them halve the time of a trial


class NoneLeftError(ConfigError):
    """No bundled update is of another subject than the judged ones."""


@dataclass(frozen=True)
class HeldOut:
    """Updates to try settings on. same: how many are of a relation of the updates that they stand for."""

    cases: CaseSet
    same: int

    def __str__(self) -> str:
        number = len(self.cases.cases)
        of_them = "all" if self.same == number else self.same or "none"
        return f"{number} held-out updates ({of_them} of the same relations)"


def held_out(judged: Sequence[EditCase], most: int = MOST, neighbours: int | None = NEIGHBOURS) -> HeldOut:
    """Bundled updates of no subject that ``judged`` updates, and with no prompt of theirs.

    Those of the same relations come first, by id or label, then any others, up to ``most``; each time one of every
    relation before the second of one. neighbours: facts of a kind that stay beside each; None for all. Raises
    `ConfigError` where no update is left.
    """
    subjects = _keys(name for case in judged for name in _subjects(case))
    prompts = _keys(text for case in judged for text in _prompts(case))
    relations = _keys(name for case in judged for name in (case.relation, case.relation_label) if name)
    bundled = load_cases(MINI_UPDATES)
    free = [
        case
        for case in bundled.cases
        if subjects.isdisjoint(_keys(_subjects(case))) and prompts.isdisjoint(_keys(_prompts(case)))
    ]
    if not free:
        raise NoneLeftError(
            f"all {len(bundled.cases)} bundled updates are of subjects to be updated, so none is left to try "
            "settings on; make fewer updates (--limit), or leave out --tune"
        )
    alike = [not relations.isdisjoint(_keys(filter(None, (case.relation, case.relation_label)))) for case in free]
    same, others = ([case for case, like in zip(free, alike, strict=True) if like is side] for side in (True, False))
    kept = [
        replace(case, nearest=case.nearest[:neighbours], random=case.random[:neighbours])
        for case in [*_in_turn(same), *_in_turn(others)][:most]
    ]
    cases = replace(bundled, name=f"{MINI_UPDATES}, held out", cases=tuple(kept), left_out={})
    return HeldOut(cases, min(most, len(same)))


def _keys(names: Iterable[str]) -> set[str]:
    return {name_key(name) for name in names}


def _subjects(case: EditCase) -> list[str]:
    return [case.subject, *(more.subject for more in case.rewrites)]


def _prompts(case: EditCase) -> list[str]:
    return [*prompts_of(case), *(more.prompt.replace(SLOT, more.subject) for more in case.rewrites)]


def _in_turn(cases: Sequence[EditCase]) -> list[EditCase]:
    of_relation: dict[str | None, list[EditCase]] = {}
    for case in cases:
        of_relation.setdefault(case.relation, []).append(case)
    return [case for turn in zip_longest(*of_relation.values()) for case in turn if case is not None]
