"""The label rules against a second formulation, and against cases that say what happened in the world."""

import itertools
import random
from typing import Any, get_args

import polars as pl
import pytest

from anachron.core.dates import Date
from anachron.wikidata.updates.labels import TRIPLE_COLUMNS, Label, label_rules, label_triples, rule_words

T0, T1 = Date.parse("2021-01-04").first_day, Date.parse("2023-02-27").first_day
# before, on the old date, between, on the new date, after
MOMENTS = (None, T0 - 400, T0, T0 + 300, T1, T1 + 50)
Triple = dict[str, Any]


def expected(group: list[Triple]) -> list[tuple[str, int]]:
    """The table of WikiFactDiff read top to bottom by a person: early returns, plain Python, no shared code."""
    flags = [t["flag"] for t in group]
    found = [_one(t, group, flags) for t in group]
    if group[0]["functional"] and len(group) == 2:
        for i, triple in enumerate(group):
            partner = found[1 - i]
            if found[i][0] == "unknown" and found[i][1] > 3 and triple["flag"] == "old" and partner[0] == "new":
                found[i] = ("obsolete", 20)
    return found


def _inside(day: int | None) -> bool:
    return day is not None and day in range(T0 + 1, T1)


def _one(t: Triple, group: list[Triple], flags: list[str]) -> tuple[str, int]:
    start, end = t["start"], t["end"]
    if t["subject_is_new"]:
        return "new", 1
    if t["subject_only_in_old"]:
        return "unknown", 2
    if t["property"] in {"P570", "P4602"}:
        return ("new", 3) if flags == ["new"] and _inside(t["value_day"]) else ("unknown", 3)
    if None not in (start, end) and end < start:
        return "unknown", 4
    if t["functional"]:
        swap = sorted(flags) == ["new", "old"] and t["flag"] == "new"
        lasting = end is None or end - T1 > 0
        return ("new", 5) if swap and (_inside(t["point"]) or (_inside(start) and lasting)) else ("unknown", 6)
    if t["flag"] == "new" and _inside(t["point"]):
        return "new", 7
    if end is None:  # 9, 10, 11
        if start is not None and start < T0:
            return "static", 9
        if _inside(start):
            return "new", 10
        if start is not None and start > T1:
            return "ignore", 11
    else:
        if end < T0:
            return "ignore", 8
        if start is not None and start > T1:
            return "ignore", 11
        if _inside(end):
            if _inside(start):
                return "ignore", 12
            return "obsolete", 13 if start is not None and start < T0 else 15
        if end > T1:
            return "static", 14 if start is not None and start < T0 else 16
    if t["flag"] == "old" and t["old_end"] is not None and t["old_end"] < T0:
        return "ignore", 17
    if t["flag"] == "new" and t["object_is_new"]:
        return "new", 18
    return "unknown", 19


def labelled(groups: list[list[Triple]]) -> list[list[tuple[str, int]]]:
    rows = [t | {"group": n} for n, group in enumerate(groups) for t in group]
    found = label_triples(pl.DataFrame(rows, schema=TRIPLE_COLUMNS), T0, T1)
    answers = iter(found.select("label", "rule").rows())
    return [[next(answers) for _ in group] for group in groups]


def triple(flag: str = "new", **more: Any) -> Triple:
    return {
        "property": "P39", "functional": False, "flag": flag, "subject_is_new": False, "subject_only_in_old": False,
        "object_is_new": False, "value_day": None, "start": None, "end": None, "point": None, "old_end": None,
    } | more  # fmt: skip


def test_every_single_triple_gets_the_label_of_the_table():
    groups = []
    for start, end, point, flag, functional in itertools.product(
        MOMENTS, MOMENTS, MOMENTS, ("old", "new", "both"), (True, False)
    ):
        for old_end, object_is_new in ((None, False), (T0 - 1, False), (T0, False), (None, True)):
            groups.append(
                [triple(flag, start=start, end=end, point=point, functional=functional, old_end=old_end,
                        object_is_new=object_is_new)]
            )  # fmt: skip
    for flag, day, property in itertools.product(("old", "new", "both"), MOMENTS, ("P570", "P4602", "P569")):
        groups.append([triple(flag, property=property, value_day=day)])
    found = labelled(groups)
    wrong = [(g, f, expected(g)) for g, f in zip(groups, found, strict=True) if f != expected(g)]
    assert not wrong, wrong[:3]
    assert {rule for group in found for _, rule in group} == set(range(3, 20)) - {5}


def test_groups_of_several_triples_get_the_labels_of_the_table():
    chance = random.Random(7)
    groups = []
    for _ in range(6000):
        shared = {
            "property": chance.choice(["P39", "P39", "P39", "P570"]),
            "functional": chance.random() < 0.6,
            "subject_is_new": chance.random() < 0.05,
            "subject_only_in_old": chance.random() < 0.05,
        }
        group = []
        for _ in range(chance.choice([1, 2, 2, 2, 3])):
            flag = chance.choice(["old", "new", "both"])
            dates = {n: chance.choice(MOMENTS) for n in ("start", "end", "point")} if flag != "old" else {}
            group.append(
                triple(flag, **shared, **dates, value_day=chance.choice(MOMENTS), old_end=chance.choice(MOMENTS),
                       object_is_new=chance.random() < 0.2)
            )  # fmt: skip
        groups.append(group)
    found = labelled(groups)
    wrong = [(g, f, expected(g)) for g, f in zip(groups, found, strict=True) if f != expected(g)]
    assert not wrong, wrong[:3]
    assert {rule for group in found for _, rule in group} == set(range(1, 21))


def test_the_triples_of_a_group_may_come_in_any_order_and_apart():
    a = [triple("old", functional=True), triple("new", functional=True, start=T0 + 10)]
    b = [triple("both", start=T0 - 5)]
    rows = [a[1] | {"group": 5}, b[0] | {"group": 2}, a[0] | {"group": 5}]
    found = label_triples(pl.DataFrame(rows, schema=TRIPLE_COLUMNS), T0, T1)
    assert found.select("label", "rule").rows() == [("new", 5), ("static", 9), ("obsolete", 20)]


def day(text: str) -> int:
    return Date.parse(text).first_day


# What happened in the world, the group, and its labels with the numbers of the rules.
CASES: list[tuple[str, list[Triple], list[tuple[str, int]]]] = [
    (
        "ChatGPT was released after the old date: whatever is said of it is new",
        [triple(subject_is_new=True), triple(subject_is_new=True, end=T0 - 9)],
        [("new", 1), ("new", 1)],
    ),
    (
        "an item of the old snapshot was deleted: nobody knows whether its facts ended",
        [triple("old", subject_only_in_old=True, old_end=day("1999"))],
        [("unknown", 2)],
    ),
    (
        "a queen died in September 2022",
        [triple(property="P570", value_day=day("2022-09-08"))],
        [("new", 3)],
    ),
    (
        "somebody found out that a poet had died in 1830: true long before, only new to Wikidata",
        [triple(property="P570", value_day=day("1830"))],
        [("unknown", 3)],
    ),
    (
        "the day of a death was corrected: two values, one old and one new",
        [
            triple("old", property="P570", value_day=day("2022-01-01")),
            triple(property="P570", value_day=day("2022-01-02")),
        ],
        [("unknown", 3), ("unknown", 3)],
    ),
    (
        "a term ends before it starts: a slip of the keyboard",
        [triple(start=day("2022-06"), end=day("2021-06"))],
        [("unknown", 4)],
    ),
    (
        "a president was inaugurated in January 2021 and followed another one",
        [triple("old", functional=True), triple(functional=True, start=day("2021-01-20"))],
        [("obsolete", 20), ("new", 5)],
    ),
    (
        "a new census counted a town in 2022",
        [triple("old", functional=True), triple(functional=True, point=day("2022"))],
        [("obsolete", 20), ("new", 5)],
    ),
    (
        "a head coach came in 2021 and was gone again in 2022: he holds the post at neither date",
        [triple("old", functional=True), triple(functional=True, start=day("2021-06"), end=day("2022-06"))],
        [("unknown", 6), ("unknown", 6)],
    ),
    (
        "the height of a mountain was measured better, without a date",
        [triple("old", functional=True), triple(functional=True)],
        [("unknown", 6), ("unknown", 6)],
    ),
    (
        "a film won an award at a ceremony in 2022",
        [triple(point=day("2022-03-27"))],
        [("new", 7)],
    ),
    (
        "somebody added that a player was at a club from 2001 to 2005",
        [triple(start=day("2001"), end=day("2005"))],
        [("ignore", 8)],
    ),
    (
        "a player has been with the national team since 2003, and still is",
        [triple("both", start=day("2003"))],
        [("static", 9)],
    ),
    (
        "a player moved to another club in January 2023",
        [triple(start=day("2023-01"))],
        [("new", 10)],
    ),
    (
        "a transfer is announced for the summer after the new date",
        [triple(start=day("2023-07"))],
        [("ignore", 11)],
    ),
    (
        "a loan lasted from July 2021 to June 2022, between the dates",
        [triple(start=day("2021-07"), end=day("2022-06"))],
        [("ignore", 12)],
    ),
    (
        "a player left the club where he had been since 2018 in August 2021",
        [triple("both", start=day("2018-07"), end=day("2021-08"))],
        [("obsolete", 13)],
    ),
    (
        "a mandate runs from 2019 to 2024",
        [triple("both", start=day("2019"), end=day("2024"))],
        [("static", 14)],
    ),
    (
        "a ban ended in 2022; nobody wrote when it had begun",
        [triple("both", end=day("2022"))],
        [("obsolete", 15)],
    ),
    (
        "a lease ends in 2030; nobody wrote when it had begun",
        [triple("both", end=day("2030"))],
        [("static", 16)],
    ),
    (
        "an old post that ended in 1990 was removed from the item",
        [triple("old", old_end=day("1990"))],
        [("ignore", 17)],
    ),
    (
        "a museum received a building that was founded after the old date",
        [triple(object_is_new=True)],
        [("new", 18)],
    ),
    (
        "a fact was added without any date: it may always have been true",
        [triple()],
        [("unknown", 19)],
    ),
    (
        "a term starts on the very day of the old snapshot: neither before nor after it",
        [triple(start=T0)],
        [("unknown", 19)],
    ),
    (
        "an end that is known to exist but not when counts as no end: the post goes on",
        [triple("both", start=day("2010"), end=None)],
        [("static", 9)],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("story", "group", "labels"), CASES, ids=[case[0][:60] for case in CASES])
def test_what_happened_in_the_world(story, group, labels):
    assert labelled([group]) == [labels]


def test_every_rule_has_a_case_and_words():
    reached = {found for _, _, labels in CASES for found in labels}
    assert {number for _, number in reached} == set(range(1, 21))
    words = rule_words(T0, T1)
    assert set(words) == {(rule.number, rule.label) for rule in label_rules(T0, T1)} | {
        (20, "obsolete"),
        (21, "unknown"),
    }
    assert reached <= {(label, number) for number, label in words}
    assert {label for label, _ in reached} == set(get_args(Label))
