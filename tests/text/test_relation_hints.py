"""What is said of a relation without templates, and which short names are understood."""

import pytest

from anachron.core.dates import Date
from anachron.data.own.questions import RELATED, question_of
from anachron.data.own.rows import given_facts
from anachron.probe.check.questions import present_questions
from anachron.text.languages import SHORT_NAMES
from anachron.text.questions import relation_templates
from anachron.text.roles import role_questions


def asked(relation: str):
    row = {"subject": "Initech", "relation": relation, "object": "Ann Lee", "start": "2001", "end": "2009"}
    return question_of(given_facts(list(row), [row]).facts[0])


def test_short_names_are_asked_by_the_templates_of_the_long_ones() -> None:
    assert "Initech" in asked("CEO").text and not asked("CEO").reason


@pytest.mark.parametrize(("relation", "near"), [("club", "member of sports team"), ("head of stat", "head of state")])
def test_a_relation_without_templates_names_those_that_are_like_it(relation: str, near: str) -> None:
    assert f"{relation!r} (like it: {near}" in asked(relation).reason


def test_a_relation_like_no_other_has_no_hint() -> None:
    assert asked("favourite colour").reason.endswith("relation 'favourite colour'; give a column question")


@pytest.mark.parametrize("relation", ["president", "Prime Minister", "minister of finance", "owner", "president of"])
def test_a_role_is_asked_by_its_own_name_in_both_tenses(relation: str) -> None:
    name = relation.removesuffix(" of")
    assert asked(relation).text == f"who was the {name} of Initech?"
    row = {"subject": "United Kingdom", "relation": relation, "object": "Ann Lee", "start": "2001", "end": ""}
    (present,) = present_questions(given_facts(list(row), [row]).facts, Date(2020)).values()
    assert present.question == f"who is the {name} of the United Kingdom?"


def test_a_role_that_gives_the_answer_away_or_is_none_is_not_asked() -> None:
    row = {"subject": "Initech", "relation": "owner", "object": "Initech", "start": "2001", "end": ""}
    assert "gives its answer" in question_of(given_facts(list(row), [row]).facts[0]).reason
    assert role_questions("capital of") is None and role_questions("of") is None and role_questions("") is None


def test_every_hint_has_templates() -> None:
    names = {name.casefold() for name, _ in relation_templates().values()}
    assert {*SHORT_NAMES.values(), *(name for hints in RELATED.values() for name in hints)} <= names
