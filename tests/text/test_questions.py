"""Question templates, the draw of one of four, and the checks that refuse a bad question."""

import re
from collections import Counter

import pytest

from anachron.core.errors import DataError
from anachron.text.questions import draw_question, fill_question, question_fault, relation_templates

FOUR = ("a", "b", "c", "d")
PINNED = [2, 3, 2, 3, 0, 0, 0, 2, 3, 1, 1, 1]  # the first 8 bytes of SHA-256, modulo 4
EVERY = [(relation, text) for relation, (_, questions) in relation_templates().items() for text in questions]


def test_relations_have_an_id_a_label_and_four_distinct_questions() -> None:
    for relation, (label, questions) in relation_templates().items():
        assert re.fullmatch(r"P[1-9]\d*", relation)
        assert label and label == label.strip()
        assert len(questions) == 4, relation
        assert len({re.sub(r"\W", "", text.casefold()) for text in questions}) == 4, relation


def test_relation_labels_are_distinct() -> None:
    labels = [label for label, _ in relation_templates().values()]
    assert len(set(labels)) == len(labels)


@pytest.mark.parametrize(("relation", "text"), EVERY)
def test_each_template_can_follow_a_date(relation: str, text: str) -> None:
    assert text.count("[SUBJ]") == 1
    assert text[0].islower()
    assert text.endswith("?") and text.count("?") == 1 and not text.endswith(" ?")
    assert text == " ".join(text.split())
    assert not re.search(r"\b(is|are|does|do|has)\b", text), "present tense"


def test_fill_puts_the_subject_in_its_slot_with_its_article() -> None:
    assert fill_question("who led [SUBJ]?", "France") == "who led France?"
    assert fill_question("who led [SUBJ]?", "United States") == "who led the United States?"


@pytest.mark.parametrize("template", ["who led it?", "who led [SUBJ] of [SUBJ]?", "who led [subj]?"])
def test_fill_refuses_a_missing_or_doubled_slot(template: str) -> None:
    with pytest.raises(DataError, match=r"\[SUBJ\] exactly once") as caught:
        fill_question(template, "France")
    assert repr(template) in str(caught.value)


def test_the_draw_is_the_same_on_every_machine() -> None:
    assert [draw_question(FOUR, f"fact {i}") for i in range(12)] == PINNED
    assert [draw_question(FOUR, f"fact {i}", seed=0) for i in range(12)] == PINNED


def test_the_draw_depends_on_seed_and_fact() -> None:
    ids = [f"fact {i}" for i in range(100)]
    agreeing = sum(draw_question(FOUR, i, seed=0) == draw_question(FOUR, i, seed=1) for i in ids)
    assert 5 < agreeing < 50  # a quarter, were they independent


def test_the_draw_is_roughly_uniform() -> None:
    counts = Counter(draw_question(FOUR, f"fact {i}") for i in range(4000))
    assert sorted(counts) == [0, 1, 2, 3]
    assert all(abs(count - 1000) < 140 for count in counts.values()), counts  # five standard deviations


GOOD = "who was the president of the United States?"


@pytest.mark.parametrize("answer", [None, "Barack Obama", "barack obama", "Barack Obama.", " Barack Obama "])
def test_a_good_question_passes(answer: str | None) -> None:
    assert question_fault(GOOD, "United States", "Barack Obama", answer) is None


@pytest.mark.parametrize("prompt", ["the president of the United States was", "United States, president:", GOOD[:-1]])
def test_the_beginning_of_a_statement_passes(prompt: str) -> None:
    """TimeStress, limitations: other forms of statement."""
    assert question_fault(prompt, "United States", "Barack Obama", statements=True) is None
    assert question_fault(prompt, "United States", "Barack Obama")[0] == "no question mark"  # of models and templates


def test_case_does_not_matter_to_the_subject() -> None:
    assert question_fault(GOOD, "UNITED STATES", "Barack Obama") is None


@pytest.mark.parametrize("question", ["in which city was Apple based?", "on which of 2 sites was Apple based?"])
def test_a_question_that_opens_like_a_date_but_is_none_passes(question: str) -> None:
    assert question_fault(question, "Apple", "Cupertino") is None


@pytest.mark.parametrize(
    ("question", "answer", "rule"),
    [
        ("the president of the United States was.", None, "must end with"),
        ("who was the president of the United States? ", None, "must end with"),
        ("who was the president of France?", None, "does not name its subject"),
        ("was Barack Obama the president of the United States?", None, "away"),
        ("was BARACK OBAMA the president of the United States?", None, "away"),
        (f"In 2011, {GOOD}", None, "date"),
        (f"in March 2011, {GOOD}", None, "date"),
        (f"On March 24, 2011, {GOOD}", None, "date"),
        (f"On 24 March 2011, {GOOD}", None, "date"),
        (f"In 44 BCE, {GOOD}", None, "date"),
        (f"During the 1990s, {GOOD}", None, "date"),
        (GOOD, "Joe Biden", "is answered"),
        (GOOD, "", "is answered"),
        (GOOD, "Obama", "is answered"),
    ],
)
def test_a_bad_question_is_refused(question: str, answer: str | None, rule: str) -> None:
    fault = question_fault(question, "United States", "Barack Obama", answer, statements=True)
    assert fault is not None and rule in fault[1]
    assert repr(question) in fault[1] and "\n" not in fault[1]
