"""Current or stale: what a model answers in the present tense, against a recount."""

from math import exp, log

import pytest

from anachron.core.dates import Date
from anachron.data.own.rows import given_facts
from anachron.probe.check.present import (
    ALONE,
    CURRENT,
    STALE,
    PresentObject,
    PresentQuestion,
    present_answers,
    present_pairs,
)
from anachron.probe.check.questions import present_questions

WHO = "who is the president of the USA?"
QUESTION = PresentQuestion(
    "USA", "president", WHO,
    (PresentObject("Obama", False, "2017-01-20"), PresentObject("Trump", True), PresentObject("Biden", False, "2025")),
)  # fmt: skip


def answered(**p: float):
    return present_answers([QUESTION], {(WHO, name): log(value) for name, value in p.items()}).to_dicts()


def test_the_likeliest_object_decides() -> None:
    (row,) = answered(Obama=0.2, Trump=0.5, Biden=0.3)
    assert (row["object"], row["status"], row["answer"], row["answer_until"]) == ("Trump", CURRENT, "Trump", None)
    (row,) = answered(Obama=0.2, Trump=0.3, Biden=0.5)
    assert (row["object"], row["status"], row["answer"], row["answer_until"]) == ("Trump", STALE, "Biden", "2025")
    assert row["p"] == pytest.approx(0.3) and row["p_answer"] == pytest.approx(0.5) and row["objects"] == 3


def test_a_tie_with_what_is_over_is_stale() -> None:
    (row,) = answered(Obama=0.2, Trump=0.4, Biden=0.4)
    assert row["status"] == STALE and row["answer"] == "Biden"


def test_several_that_hold_are_all_current_when_one_of_them_is_answered() -> None:
    both = PresentQuestion(
        "A", "spouse", "q?", (PresentObject("x", True), PresentObject("y", True), PresentObject("z", False, "1990"))
    )
    table = present_answers([both], {("q?", "x"): -1.0, ("q?", "y"): -0.5, ("q?", "z"): -2.0})
    assert table["status"].to_list() == [CURRENT, CURRENT] and table["answer"].unique().to_list() == ["y"]
    assert table["p"].to_list() == pytest.approx([exp(-1.0), exp(-0.5)])


@pytest.mark.parametrize("as_of", ["2026-11-22", "2026-11", "2026"])
def test_a_year_in_which_one_follows_the_other_makes_neither_stale(as_of: str) -> None:
    """With dates by the year, both hold in the year of the change, as they do under any other date of it."""
    rows = [
        {"subject": "A", "relation": "capital", "object": name, "start": start, "end": end}
        for name, start, end in (("x", "2010", "2020"), ("y", "2020", "2026"), ("z", "2026", None))
    ]
    (question,) = present_questions(given_facts(tuple(rows[0]), rows).facts, Date.parse(as_of)).values()
    assert [one.holds for one in question.objects] == [False, True, True]


def test_what_has_no_rival_is_not_asked() -> None:
    alone = PresentQuestion("A", "capital", "q?", (PresentObject("x", True),))
    over = PresentQuestion("B", "capital", "r?", (PresentObject("x", False, "1990"), PresentObject("y", False, "2000")))
    assert present_pairs([alone, over, QUESTION]) == [(WHO, "Obama"), (WHO, "Trump"), (WHO, "Biden")]
    table = present_answers([alone, over], {})
    assert table["status"].to_list() == [ALONE] and table["answer"].to_list() == [None]


def test_an_object_is_answered_by_the_likeliest_of_its_names() -> None:
    named = PresentQuestion(
        "USA", "president", WHO,
        (PresentObject("Barack Obama", False, "2017"), PresentObject("Donald John Trump", True, None, ("Trump",))),
    )  # fmt: skip
    assert present_pairs([named]) == [(WHO, "Barack Obama"), (WHO, "Donald John Trump"), (WHO, "Trump")]
    scores = {(WHO, "Barack Obama"): -1.0, (WHO, "Donald John Trump"): -2.0, (WHO, "Trump"): -0.5}
    (row,) = present_answers([named], scores).to_dicts()
    assert (row["status"], row["answer"], row["object"]) == (CURRENT, "Donald John Trump", "Donald John Trump")
    assert row["p"] == row["p_answer"] == pytest.approx(exp(-0.5))


def test_a_name_that_two_objects_share_is_nobodys() -> None:
    rows = [
        {"subject": "USA", "relation": "president", "object": name, "start": start, "end": end, "aliases": aliases,
         "present_question": WHO}
        for name, start, end, aliases in (
            ("George H. W. Bush", "1989-01-20", "1993-01-20", "Bush|Bush senior"), ("Bush junior", "2001", None, "Bush")
        )
    ]  # fmt: skip
    facts = given_facts(list(rows[0]), rows).facts
    (question,) = present_questions(facts, Date.parse("2003-01-01")).values()
    assert [one.names for one in question.objects] == [("George H. W. Bush", "Bush senior"), ("Bush junior",)]
