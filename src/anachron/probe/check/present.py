"""Is a fact that holds today still what the model answers, or does it answer one that is over?

All objects of a subject and relation, and decoys (`anachron.data.decoys`), are put behind one question in the present
tense, without a date ("who is the president of the USA?"). What the model answers is the object with the highest
probability a token (the geometric mean over its tokens, as edits are judged), since names differ in length. It is
current or stale only of a model that knows at all: of objects that have no more to do with the subject than the decoys,
at most one in twenty questions would have one so far ahead of them. Of an object with aliases the likeliest name
counts, but no object is heard by more names than each of its rivals has.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf
from statistics import fmean, stdev
from typing import Any

import polars as pl

CURRENT, STALE, ALONE = "current", "stale", "nothing to compare with"
UNKNOWN, NO_DECOYS = "does not know", "no decoys"
PRESENT_DECOYS = 20  # each is one short text
AHEAD = 0.05  # share of questions in which an object of a model that knows nothing may be so far ahead
LEAST_DECOYS = 2  # fewer have no variance
PRESENT_SCHEMA: dict[str, type[pl.DataType]] = {
    "subject": pl.String, "relation": pl.String, "question": pl.String, "object": pl.String, "status": pl.String,
    "answer": pl.String, "answer_until": pl.String, "p": pl.Float64, "p_answer": pl.Float64, "objects": pl.Int64,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PresentObject:
    """One object of a subject and relation. holds: on the day that is asked about. until: when it ended, if it has.
    aliases: other names that count as this object."""

    label: str
    holds: bool
    until: str | None = None
    aliases: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return self.label, *self.aliases


@dataclass(frozen=True, slots=True)
class PresentQuestion:
    """A question in the present tense about a subject and relation, with every object that they ever had, each once.
    relation_id: where it is known. decoys: objects of others, which a model that is scored is asked about too."""

    subject: str
    relation: str
    question: str
    objects: tuple[PresentObject, ...]
    relation_id: str | None = None
    decoys: tuple[str, ...] = ()

    @property
    def heard(self) -> int:
        """By how many of its names each object is heard, the label first: as many as all of them have."""
        return min(len(one.names) for one in self.objects)

    @property
    def asked(self) -> bool:
        """Whether there is something to tell apart: an object that holds, and one that does not."""
        return len({one.holds for one in self.objects}) == 2


def counted(statuses: Mapping[str, int]) -> str:
    """``1 current, 2 not known``: how many facts have each status."""
    return ", ".join(f"{n} {'not known' if name == UNKNOWN else name}" for name, n in statuses.items())


def present_pairs(questions: Sequence[PresentQuestion]) -> list[tuple[str, str]]:
    """The (question, name of an object) pairs that are scored, each once."""
    asked = [q for q in questions if q.asked]
    names = ((q.question, name) for q in asked for one in q.objects for name in one.names[: q.heard])
    return list(dict.fromkeys([*names, *((q.question, decoy) for q in asked for decoy in q.decoys)]))


def ahead_of_decoys(labels: Sequence[float], decoys: Sequence[float]) -> float:
    """How rarely the best of so many objects would be as far ahead of the decoys, were all of them alike (t test, times
    the number of objects, at most 1). labels, decoys: log-probability a token of each, nats; two decoys or more."""
    from scipy.stats import t

    spread = stdev(decoys) * (1 + 1 / len(decoys)) ** 0.5
    gap = max(labels) - fmean(decoys)
    value = gap / spread if spread > 0 else inf if gap > 0 else -inf
    return min(1.0, len(labels) * float(t.sf(value, len(decoys) - 1)))


def holding(questions: Sequence[PresentQuestion]) -> int:
    """How many facts that hold can be told to be current or stale: those with a rival that does not."""
    return sum(one.holds for q in questions if q.asked for one in q.objects)


def present_answers(questions: Sequence[PresentQuestion], scores: Mapping[tuple[str, str], float]) -> pl.DataFrame:
    """One row (`PRESENT_SCHEMA`) for each object that holds.

    scores: log-probability a token, in nats, of each of `present_pairs`. ``status`` is `CURRENT` where the object that
    the model answers holds, `STALE` where it does not; `UNKNOWN` where the objects are not ahead of the decoys, by
    their labels (`ahead_of_decoys`, `AHEAD`), `NO_DECOYS` where there are fewer than two, and `ALONE` where no object
    is over, so that nothing can be told apart; then there is no answer. ``answer``: what the model answers, with
    ``answer_until``, when that ended; ``p`` and ``p_answer``: probability a token of the object and of the answer, by
    their likeliest names, 0 to 1. Of equally likely answers one that holds is not preferred: the first that is over is
    taken, as ties are lost in W.
    """
    rows: list[dict[str, Any]] = []

    def score(q: PresentQuestion, one: PresentObject) -> float:
        return max(scores[q.question, name] for name in one.names[: q.heard])

    def status(q: PresentQuestion, best: PresentObject) -> str:
        if len(q.decoys) < LEAST_DECOYS:
            return NO_DECOYS
        labels = [scores[q.question, one.label] for one in q.objects]
        if ahead_of_decoys(labels, [scores[q.question, decoy] for decoy in q.decoys]) > AHEAD:
            return UNKNOWN
        return CURRENT if best.holds else STALE

    for q in questions:
        about = {"subject": q.subject, "relation": q.relation, "question": q.question, "objects": len(q.objects)}
        best = max(q.objects, key=lambda one: (score(q, one), not one.holds)) if q.asked else None
        for one in q.objects:
            if not one.holds:
                continue
            row = about | {"object": one.label, "status": ALONE}
            if best is not None:
                row |= {"status": status(q, best), "p": exp(score(q, one)), "p_answer": exp(score(q, best))}
                if row["status"] in (CURRENT, STALE):
                    row |= {"answer": best.label, "answer_until": best.until}
            rows.append(row)
    return pl.DataFrame(rows, schema=PRESENT_SCHEMA)
