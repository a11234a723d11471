"""Bundled facts beside updates: of the relation of one, or about its subject."""

from collections.abc import Collection, Iterator, Mapping
from functools import cache

from anachron.core.facts import Fact
from anachron.core.sameness import name_key
from anachron.data.bundled.mini import mini_facts
from anachron.data.bundled.mini_updates import known_facts
from anachron.text.cloze import bundled_cloze, cloze_prompt_text
from anachron.text.kinds import subject_kind


@cache
def bundled_facts() -> Mapping[str, tuple[Fact, ...]]:
    """Relation id -> a bundled fact of each of its subjects: those that hold first, then those that held longest."""
    known = known_facts()
    relations = {fact.relation_id for fact in known}
    others = [one.fact for one in mini_facts() if one.fact.relation_id not in relations]
    found: dict[str, dict[str, Fact]] = {}
    for fact in sorted([*known, *others], key=_holding):
        found.setdefault(fact.relation_id or "", {}).setdefault(fact.subject, fact)
    return {relation: tuple(facts.values()) for relation, facts in found.items()}


def _holding(fact: Fact) -> tuple[bool, int, str, str]:
    start, end = fact.period.start, fact.period.end
    first = 0 if start is None else start.first_day
    return end is not None, first - (0 if end is None else end.last_day), fact.subject, fact.object


def facts_of_relation(relation: str | None, without: Collection[str]) -> list[Fact]:
    """Those of a relation, none about a subject of these keys (`name_key`)."""
    return [fact for fact in bundled_facts().get(relation or "", ()) if name_key(fact.subject) not in without]


def facts_of_subjects(subjects: Collection[str]) -> Iterator[Fact]:
    """Those about subjects of these keys, one of each relation."""
    return (fact for facts in bundled_facts().values() for fact in facts if name_key(fact.subject) in subjects)


def statement_of(fact: Fact) -> str:
    """The first statement of a fact's relation about its subject, to be completed; it ends in a blank."""
    template, kind = bundled_cloze()[fact.relation_id or ""].templates[0], subject_kind(fact.relation_id)
    return cloze_prompt_text(template, fact.subject, kind=kind)
