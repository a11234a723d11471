"""What else an edit changed: facts beside its updates, and other facts about the subjects of its updates."""

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from anachron.core.sameness import name_key
from anachron.data.updates.bundled_facts import facts_of_subjects, statement_of
from anachron.data.updates.case_records import EditCase, NeighbourFact, numbered_neighbours, prompts_of
from anachron.edit.base import Edit, edited
from anachron.evaluate.measure import Measures, probabilities
from anachron.io.files import Json
from anachron.lm.model import LanguageModel
from anachron.text.cloze import BLANK, bundled_cloze

BESIDE, SAME_SUBJECT = "neighbours", "same subject"
MOST = 200  # facts of a kind that are asked, so that it stays fast
AS_LIKELY = 0.9  # of its probability before: a true object that keeps as much is as likely as it was
HALF = 0.5
WORST = 3  # facts that are named


@dataclass(frozen=True, slots=True)
class Untouched:
    """A fact that no update was to change, and how likely its true object is without the edit and with it."""

    fact: NeighbourFact
    before: float
    after: float

    @property
    def loss(self) -> float:
        return self.before - self.after


def untouched_facts(cases: Sequence[EditCase]) -> dict[str, list[NeighbourFact]]:
    """The facts to ask about, each once, by kind (`BESIDE`, `SAME_SUBJECT`).

    They are the nearest and random facts of the updates; those about a subject that is updated are of the second kind,
    with what is bundled about it. Left out is what some update is about: one of its prompts, its old or new object of
    its subject, and of bundled facts its relation; of a subject whose update says no relation, nothing that is bundled
    is asked.
    """
    taught = {name_key(prompt) for case in cases for prompt in prompts_of(case)}
    taught |= {name_key(rewrite.prompt.replace("{}", rewrite.subject)) for case in cases for rewrite in case.rewrites}
    changed: defaultdict[str, set[str]] = defaultdict(set)  # subject -> objects and relations
    vague: set[str] = set()  # subjects of which something changes, and nothing says by which relation
    for case in cases:
        if not case.subject:
            continue
        if not (case.relation or case.relation_label):
            vague.add(name_key(case.subject))
        about = (case.old, case.new, case.relation, case.relation_label, *(label for label, _ in case.objects))
        changed[name_key(case.subject)] |= {name_key(name) for name in about if name}
    found: dict[str, dict[tuple[str, tuple[str, ...]], NeighbourFact]] = {BESIDE: {}, SAME_SUBJECT: {}}
    beside = (fact for case in cases for *_, fact in numbered_neighbours(case))
    known = {subject: names for subject, names in changed.items() if subject not in vague}
    for fact in (*beside, *_bundled(known)):
        subject = name_key(fact.subject or "")
        if name_key(fact.prompt) in taught or not changed.get(subject, set()).isdisjoint(map(name_key, fact.objects)):
            continue
        kind = SAME_SUBJECT if subject and subject in changed else BESIDE
        found[kind].setdefault((fact.prompt, fact.objects), fact)
    return {kind: list(facts.values()) for kind, facts in found.items()}


def _bundled(changed: dict[str, set[str]]) -> Iterator[NeighbourFact]:
    """What is bundled about subjects, but of relations that are updated."""
    for fact in facts_of_subjects(changed):
        relation = fact.relation_id or ""
        names = {name_key(relation), name_key(bundled_cloze()[relation].label)}
        if names.isdisjoint(changed[name_key(fact.subject)]):
            prompt = statement_of(fact).removesuffix(BLANK).rstrip()
            yield NeighbourFact(prompt, (fact.object,), None, None, fact.subject)


def ask_untouched(
    lm: LanguageModel, edit: Edit, facts: dict[str, list[NeighbourFact]], most: int = MOST
) -> dict[str, list[Untouched]]:
    """Probabilities of the true objects of facts without an edit and with it, of each kind at most so many (a fixed
    sample, in their order). A fact with several true objects counts with their mean, as an evaluation has it. Raises as
    `anachron.evaluate.old_and_new.score_objects`."""
    asked = {kind: _sample(of_kind, most) for kind, of_kind in facts.items()}
    pairs = list(dict.fromkeys((f.prompt, o) for of_kind in asked.values() for f in of_kind for o in f.objects))
    if not pairs:
        return {kind: [] for kind in asked}
    before = probabilities(lm, pairs, Measures())
    with edited(lm, edit, check=False):
        after = probabilities(lm, pairs, Measures())
    return {
        kind: [Untouched(f, *(fmean(p[f.prompt, o] for o in f.objects) for p in (before, after))) for f in of_kind]
        for kind, of_kind in asked.items()
    }


def _sample(facts: list[NeighbourFact], most: int) -> list[NeighbourFact]:
    places = range(len(facts)) if len(facts) <= most else sorted(random.Random(0).sample(range(len(facts)), most))
    return [facts[place] for place in places]


def untouched_counts(asked: Sequence[Untouched], facts: int) -> Json:
    """What became of facts of a kind, of which there are so many: how many kept their true object (`AS_LIKELY`), how
    many fell by more than half, mean probabilities, and those that lost most, by name."""
    number: dict[str, Any] = {"facts": facts, "asked": len(asked)}
    number["as_likely"] = sum(one.after >= AS_LIKELY * one.before for one in asked)
    number["fell_by_half"] = sum(not one.after >= HALF * one.before for one in asked)  # one that is no number too
    for name in ("before", "after", "loss"):
        number[f"mean_{name}"] = fmean(getattr(one, name) for one in asked) if asked else None
    worst = sorted((one for one in asked if one.loss > 0), key=lambda one: -one.loss)[:WORST]
    return number | {"worst": [
        {"subject": one.fact.subject, "prompt": one.fact.prompt, "objects": list(one.fact.objects),
         "before": one.before, "after": one.after} for one in worst
    ]}  # fmt: skip
