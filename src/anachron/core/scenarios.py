"""What can happen to the objects of a subject and relation between two dates (WikiFactDiff, section 3)."""

from collections.abc import Iterable

DECISIONS = ("new", "obsolete", "static")  # of one object: it became true, it ceased to be, it stayed
REPLACEMENT = "ReplaceObject"
SCENARIOS = (REPLACEMENT, "Archive", "AddObject", "AddRelation", "AddEntity", "Other")


def scenario_of(decisions: Iterable[str], subject_is_new: bool) -> str:
    """The scenario of a group from the decisions on its objects.

    AddEntity: the subject is new. ReplaceObject: one new and one obsolete. Archive: all obsolete. AddRelation: all new.
    AddObject: new and static ones, none obsolete. Other: the rest.
    """
    given = list(decisions)
    new, obsolete, static = (given.count(name) for name in DECISIONS)
    if subject_is_new:
        return "AddEntity"
    if (new, obsolete, static) == (1, 1, 0):
        return REPLACEMENT
    if obsolete and not new and not static:
        return "Archive"
    if new and not obsolete:
        return "AddObject" if static else "AddRelation"
    return "Other"
