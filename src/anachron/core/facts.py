"""Temporal facts: (subject, relation, object, start, end), with a stable identifier.

Also what can happen to the objects of a subject and relation between two dates (WikiFactDiff, section 3).
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass

from anachron.core.notebook import html_record
from anachron.core.periods import Period


def fact_id(subject: str, relation: str, object: str, start: str, end: str) -> str:
    """Sixteen hexadecimal digits that depend on these five texts alone.

    Entities and relations are named by their Wikidata ids where these are known, otherwise by their
    labels. The same fact has the same id in every data set and on every machine.
    """
    key = json.dumps([subject, relation, object, start, end], ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(key.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Fact:
    """A quintuple. ``*_id`` are Wikidata ids where known; ``popularity`` is in monthly page views."""

    subject: str
    relation: str
    object: str
    period: Period
    subject_id: str | None = None
    relation_id: str | None = None
    object_id: str | None = None
    popularity: float | None = None

    @property
    def id(self) -> str:
        return fact_id(
            self.subject_id or self.subject,
            self.relation_id or self.relation,
            self.object_id or self.object,
            str(self.period.start or ""),
            str(self.period.end or ""),
        )

    def _repr_html_(self) -> str:
        return html_record(
            f"Fact {self.id}",
            {
                "subject": _named(self.subject, self.subject_id), "relation": _named(self.relation, self.relation_id),
                "object": _named(self.object, self.object_id), "start": self.period.start, "end": self.period.end,
                "popularity": self.popularity,
            },
        )  # fmt: skip


def _named(label: str, id: str | None) -> str:
    return label if id is None else f"{label} ({id})"


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
