"""What is said of a relation without templates, and which short names are understood."""

import pytest

from anachron.facts.rows import given_facts
from anachron.text.languages import SHORT_NAMES
from anachron.text.own_questions import RELATED, question_of
from anachron.text.questions import relation_templates


def asked(relation: str):
    row = {"subject": "Initech", "relation": relation, "object": "Ann Lee", "start": "2001", "end": "2009"}
    return question_of(given_facts(list(row), [row]).facts[0])


def test_short_names_are_asked_by_the_templates_of_the_long_ones() -> None:
    assert "Initech" in asked("CEO").text and not asked("CEO").reason


@pytest.mark.parametrize(("relation", "near"), [("President", "head of state"), ("head of stat", "head of state")])
def test_a_relation_without_templates_names_those_that_are_like_it(relation: str, near: str) -> None:
    assert f"{relation!r} (like it: {near}" in asked(relation).reason


def test_a_relation_like_no_other_has_no_hint() -> None:
    assert asked("favourite colour").reason.endswith("relation 'favourite colour'; give a column question")


def test_every_hint_has_templates() -> None:
    names = {name.casefold() for name, _ in relation_templates().values()}
    assert {*SHORT_NAMES.values(), *(name for hints in RELATED.values() for name in hints)} <= names
