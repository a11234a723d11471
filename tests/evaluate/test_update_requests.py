"""Which updates are asked of a method together: not those that change nothing, nor two objects of one prompt."""

from dataclasses import replace

import pytest

from anachron.core.errors import DataError
from anachron.data.updates.case_records import EditCase, Rewrite
from anachron.data.updates.cases import CaseSet
from anachron.evaluate.editing import update_requests
from anachron.evaluate.requests import changes_nothing


def case(number: int, prompt: str, new: str | None, old: str | None = "Old", **more) -> EditCase:
    return EditCase(f"{number}", "France", prompt, new, old, **more)


def cases(*given: EditCase, **left_out: int) -> CaseSet:
    return CaseSet("made", "counterfact", given, dict(left_out))


CAPITAL = "The capital of {} is"


@pytest.mark.parametrize(
    ("new", "old", "more", "same"),
    [
        ("Lyon", "Paris", {}, False), ("LYON", "Lyon", {}, True), ("Pele\u0301", "Pel\u00e9", {}, True),
        ("J. Biden", "Joe Biden", {"aliases": (("J. Biden", "joe biden"),)}, True),
        ("J. Biden", "Joe Biden", {"aliases": (("Joe Biden", "J. Biden"),)}, True),
        ("George W. Bush", "George H. W. Bush",
         {"aliases": (("George W. Bush", "Bush"), ("George H. W. Bush", "Bush"))}, False),
        ("Lyon", None, {}, False), (None, "Lyon", {}, False), ("", "", {}, False),
        ("Lyon", "Lyon", {"scenario": "AddObject"}, False),
        ("Lyon", "Lyon", {"rewrites": (Rewrite("Peru", "The capital of {} is", "Cusco"),)}, False),
    ],
)  # fmt: skip
def test_what_changes_nothing(new, old, more, same):
    assert changes_nothing(case(0, CAPITAL, new, old, **more)) is same


def test_what_changes_nothing_is_counted_apart():
    table = {"nothing to change": 2}
    found = update_requests(cases(case(0, CAPITAL, "Old"), case(1, CAPITAL, "Lyon"), **table), "FT")
    assert [one.case_id for one, _ in found.asked] == ["1"] and (found.unchanged, found.left_out) == (3, [])
    with pytest.raises(DataError, match="made: the new object of each of 1 updates is the old one: nothing to change"):
        update_requests(cases(case(0, CAPITAL, "Old")), "FT")


def test_two_objects_of_one_prompt_are_refused():
    lyon, nice, again = case(0, CAPITAL, "Lyon"), case(1, "The Capital of France is", "Nice"), case(2, CAPITAL, "LYON")
    with pytest.raises(DataError) as caught:
        update_requests(cases(lyon, nice, again), "FT")
    assert str(caught.value) == (
        "1 of 3 updates cannot be made, for instance: update 1: 'Nice' is to follow 'The Capital of France is', but "
        "update 0 makes 'Lyon' follow it; keep one of the two; fix them, or leave them out with --skip"
    )
    found = update_requests(cases(lyon, nice, again), "FT", skip=True)
    assert [one.case_id for one, _ in found.asked] == ["0", "2"] and len(found.left_out) == 1
    assert len(update_requests(cases(lyon, case(1, "France is ruled from", "Nice")), "ROME").asked) == 2


def test_of_two_dated_ones_the_later_stays():
    steps = [
        replace(case(n, CAPITAL, f"C{n}"), start=start) for n, start in enumerate(("1990", "2001-05", "1995", None))
    ]
    found = update_requests(cases(*steps), "FT", skip=True)
    assert [one.case_id for one, _ in found.asked] == ["1"]
    assert [reason.split(":")[0] for reason in found.left_out] == ["update 2", "update 0", "update 3"]
    # with its date a request is another one
    dated = [replace(one, question_templates=("what was the capital of [SUBJ]?",)) for one in steps[:3]]
    assert len(update_requests(cases(*dated), "ROME dated").asked) == 3


def test_objects_that_are_added_exclude_no_other():
    group = (("Lyon", "new"), ("Nice", "new"), ("Paris", "static"))
    added = case(0, CAPITAL, "Lyon", None, scenario="AddObject", objects=group)
    more = replace(added, case_id="1", objects=(("Metz", "new"), ("Paris", "static")))
    assert [len(requests) for _, requests in update_requests(cases(added, more), "FT").asked] == [2, 1]
    gone = replace(added, case_id="2", scenario="Archive", objects=(("Paris", "obsolete"),))
    assert len(update_requests(cases(added, gone), "FT").asked) == 2
    with pytest.raises(DataError, match="update 3: 'Metz' is to follow"):
        update_requests(cases(added, case(3, CAPITAL, "Metz")), "FT")


def test_rewrites_of_one_update_count_too():
    first = case(0, CAPITAL, "Lyon", rewrites=(Rewrite("Peru", "The capital of {} is", "Cusco"),))
    other = EditCase("1", "Peru", "The capital of Peru is", "Ica", "Lima")
    found = update_requests(cases(first, other), "FT", skip=True)
    assert [one.case_id for one, _ in found.asked] == ["0"]
