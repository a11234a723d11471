"""Current or stale: what a model answers in the present tense, against a recount."""

from dataclasses import replace
from math import exp, log
from random import Random

import pytest
from scipy.stats import ttest_ind

from anachron.core.dates import Date
from anachron.data.own.rows import given_facts
from anachron.probe.check.present import (
    AHEAD,
    ALONE,
    CURRENT,
    NO_DECOYS,
    STALE,
    UNKNOWN,
    PresentObject,
    PresentQuestion,
    ahead_of_decoys,
    present_answers,
    present_pairs,
)
from anachron.probe.check.questions import present_questions

WHO = "who is the president of the USA?"
QUESTION = PresentQuestion(
    "USA", "president", WHO,
    (PresentObject("Obama", False, "2017-01-20"), PresentObject("Trump", True), PresentObject("Biden", False, "2025")),
)  # fmt: skip
DECOYS = ("Ada", "Bo", "Cy")
UNLIKELY = {"Ada": 1e-9, "Bo": 2e-9, "Cy": 3e-9}


def with_decoys(question: PresentQuestion, scores: dict) -> tuple[PresentQuestion, dict]:
    """The question and its scores, with decoys that are far behind."""
    known = {(question.question, name): log(p) for name, p in UNLIKELY.items()}
    return replace(question, decoys=DECOYS), scores | known


def answered(**p: float):
    question, scores = with_decoys(QUESTION, {(WHO, name): log(value) for name, value in p.items()})
    return present_answers([question], scores).to_dicts()


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
    both, scores = with_decoys(both, {("q?", "x"): -1.0, ("q?", "y"): -0.5, ("q?", "z"): -2.0})
    table = present_answers([both], scores)
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


NAMED = PresentQuestion(
    "USA", "president", WHO,
    (
        PresentObject("Barack Obama", False, "2017", ("Obama",)),
        PresentObject("Donald John Trump", True, None, ("Trump", "The Donald")),
    ),
)  # fmt: skip


def test_an_object_is_answered_by_the_likeliest_of_as_many_names_as_its_rivals_have() -> None:
    pairs = [(WHO, name) for name in ("Barack Obama", "Obama", "Donald John Trump", "Trump")]
    assert present_pairs([NAMED]) == pairs  # The Donald is a third name, and Obama has two
    named, scores = with_decoys(NAMED, dict(zip(pairs, (-1.0, -3.0, -2.0, -0.5), strict=True)))
    (row,) = present_answers([named], scores).to_dicts()
    assert (row["status"], row["answer"], row["object"]) == (CURRENT, "Donald John Trump", "Donald John Trump")
    assert row["p"] == row["p_answer"] == pytest.approx(exp(-0.5))


def test_a_model_that_knows_neither_is_not_stale() -> None:
    """Objects that are no likelier than decoys; and decoys that are not there."""
    scores = {(WHO, name): log(p) for name, p in (("Obama", 0.02), ("Trump", 0.01), ("Biden", 0.03))}
    decoys = {(WHO, name): log(p) for name, p in (("Ada", 0.04), ("Bo", 0.01), ("Cy", 0.02))}
    (row,) = present_answers([replace(QUESTION, decoys=DECOYS)], scores | decoys).to_dicts()
    assert (row["status"], row["answer"], row["answer_until"]) == (UNKNOWN, None, None)
    assert row["p"] == pytest.approx(0.01) and row["p_answer"] == pytest.approx(0.03)
    for few in ((), ("Ada",)):
        (row,) = present_answers([replace(QUESTION, decoys=few)], scores | decoys).to_dicts()
        assert row["status"] == NO_DECOYS


def test_being_ahead_is_a_t_test_of_one_against_the_decoys() -> None:
    """By SciPy's test of two samples, one of which is the one object; twice where there are two objects."""
    random = Random(1)
    decoys = [random.gauss(-3, 1) for _ in range(20)]
    wanted = ttest_ind([-1.0], decoys, alternative="greater").pvalue
    assert ahead_of_decoys([-1.0], decoys) == pytest.approx(wanted)
    assert ahead_of_decoys([-1.0, -4.0], decoys) == pytest.approx(2 * wanted)
    assert ahead_of_decoys([-1.0], [-2.0, -2.0]) == 0.0 and ahead_of_decoys([-2.0], [-2.0, -2.0]) == 1.0


@pytest.mark.few(2)
@pytest.mark.parametrize(("objects", "aliases"), [(2, 0), (3, 0), (6, 0), (2, 5)])
def test_a_model_that_knows_nothing_is_told_current_or_stale_one_time_in_twenty(objects: int, aliases: int) -> None:
    """However many objects there are, and names of the old one."""
    random, told, times = Random(objects + aliases), 0, 2000
    old = PresentObject("o0", False, "2020", tuple(f"a{i}" for i in range(aliases)))
    others = tuple(PresentObject(f"o{i}", i == objects - 1) for i in range(1, objects))
    question = PresentQuestion("s", "r", "q?", (old, *others), decoys=tuple(f"d{i}" for i in range(20)))
    names = [*(name for one in question.objects for name in one.names), *question.decoys]
    for _ in range(times):
        (row,) = present_answers([question], {("q?", name): random.gauss(-3, 1) for name in names}).to_dicts()
        told += row["status"] != UNKNOWN
    assert told / times <= AHEAD + 3 * (AHEAD * (1 - AHEAD) / times) ** 0.5


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
