"""What answers are read as: names, years, periods; and what is not read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anachron.ask.matching import (
    EMPTY,
    READ,
    REFUSED,
    UNANSWERED,
    UNREADABLE,
    Reading,
    mentioned,
    plain,
    read_choice,
    read_name,
    read_period,
    split_reasoning,
)
from anachron.core.periods import Period
from anachron.text.answers import Answer
from anachron.text.llm_settings import NoAnswer

NAMES = {
    "Édouard Balladur": "Balladur", "Lionel Jospin": "Jospin", "York": "York", "New York": "New York",
    "George W. Bush": "Bush", "東京": "Tokyo", "Ὅμηρος": "Homer",
}  # fmt: skip


def answer(text: str, **other) -> Answer:
    return Answer(**({"text": text, "finish": "stop", "refusal": None, "prompt_tokens": 1, "completion_tokens": 1,
                      "served_by": None} | other))  # fmt: skip


@pytest.mark.parametrize(
    ("text", "outcome", "value"),
    [
        ("Lionel Jospin", READ, "Jospin"),
        ("It was **edouard balladur**.", READ, "Balladur"),
        ("E\u0301douard Balladur", READ, "Balladur"),
        ("GEORGE W BUSH", READ, "Bush"),
        ("New York", READ, "New York"),
        ("York, not a newer one", READ, "York"),
        ("それは東京です。", READ, "Tokyo"),
        ("ΟΜΗΡΟΣ", READ, "Homer"),
        ("Yorkshire", READ, None),
        ("Angela Merkel", READ, None),
        ("Jospin or Lionel Jospin", READ, "Jospin"),
        ("Lionel Jospin or Édouard Balladur", UNREADABLE, None),
        ("I don't know whether Lionel Jospin or Édouard Balladur", REFUSED, None),
        ("Unknown", REFUSED, None),
        ("I'm sorry, but I cannot say.", REFUSED, None),
        ("Je ne sais pas.", REFUSED, None),
        ("Ich weiß es nicht", REFUSED, None),
        ("No lo sé", REFUSED, None),
        ("<think>Lionel Jospin?</think>Édouard Balladur", READ, "Balladur"),
        ("<think>Lionel Jospin", EMPTY, None),
        ("", EMPTY, None),
        ("...", UNREADABLE, None),
    ],
)
def test_names(text: str, outcome: str, value: str | None):
    assert read_name(answer(text), NAMES) == Reading(outcome, value)


def test_what_is_no_answer_is_never_right_or_wrong():
    for read in (lambda r: read_name(r, NAMES), lambda r: read_choice(r, ("1998", "2011")), read_period):
        assert read(NoAnswer("request refused", "HTTP 400")).outcome == UNANSWERED
        assert read(answer("Lionel Jospin 1998 to 2011", refusal="I must not")).outcome == REFUSED
        assert read(answer("Lionel Jospin 1998 to 2011", finish="content_filter")).outcome == REFUSED
        assert read(answer("", finish="tool_calls")).outcome == EMPTY
    assert read_name(answer("The prime minister of that", finish="length"), NAMES).outcome == UNREADABLE
    assert read_name(answer("Lionel Jospin was the", finish="length"), NAMES) == Reading(READ, "Jospin")


@pytest.mark.parametrize(
    ("text", "years", "outcome", "value"),
    [
        ("1998", ("1998", "2011"), READ, 0),
        ("**2011**.", ("1998", "2011"), READ, 1),
        ("In the year 2011, of course", ("1998", "2011"), READ, 1),
        ("1998, not 2011", ("1998", "2011"), UNREADABLE, None),
        ("2005", ("1998", "2011"), UNREADABLE, None),
        ("19980", ("1998", "2011"), UNREADABLE, None),
        ("I do not know", ("1998", "2011"), REFUSED, None),
        ("44 BC", ("44 BCE", "30 BCE"), READ, 0),
        ("30 BCE", ("44 BCE", "30 BCE"), READ, 1),
        ("AD 44", ("44 BCE", "AD 44"), READ, 1),
        ("44", ("44 BCE", "AD 44"), UNREADABLE, None),
        ("<think>1998 or 2011</think>\n2011", ("1998", "2011"), READ, 1),
    ],
)
def test_choices(text: str, years: tuple[str, str], outcome: str, value: int | None):
    assert read_choice(answer(text), years) == Reading(outcome, value)


@pytest.mark.parametrize(
    ("text", "period"),
    [
        ("2009-01-20 to 2017-01-20", Period("2009-01-20", "2017-01-20")),
        ("From 2009 to 2017.", Period("2009", "2017")),
        ("2009–2017", Period("2009", "2017")),
        ("2009-2017", Period("2009", "2017")),
        ("(2009 - 2017)", Period("2009", "2017")),
        ("2009-01 to 2017-02", Period("2009-01", "2017-02")),
        ("January 20, 2009 until January 20, 2017", Period("2009", "2017")),
        ("2009-01-20 to today", Period("2009-01-20", None)),
        ("since 2009, ongoing", Period("2009", None)),
        ("2009 à aujourd'hui", Period("2009", None)),
        ("44 BC to 30 BC", Period("-0044", "-0030")),
        ("27 BCE to 180", Period("-0027", "0180")),
    ],
)
def test_periods(text: str, period: Period):
    assert read_period(answer(text)) == Reading(READ, period)


@pytest.mark.parametrize(
    "text", ["2017 to 2009", "2009", "2009, 2013 and 2017", "2009-02-30 to 2010", "always", "12 to 15"]
)
def test_what_is_no_period(text: str):
    assert read_period(answer(text)).outcome == UNREADABLE


@given(st.text(), st.text())
def test_reasoning_and_answer_are_all_of_the_text(thought: str, text: str):
    clean = [part.replace("<think>", "").replace("</think>", "") for part in (thought, text)]
    assert split_reasoning(f"<think>{clean[0]}</think>{clean[1]}") == (clean[1].strip(), clean[0].strip())
    assert split_reasoning(f"{clean[0]}</think>{clean[1]}") == (clean[1].strip(), clean[0].strip())
    assert split_reasoning(f"<think>{clean[0]}") == ("", clean[0].strip())


def test_several_thoughts_are_all_put_apart():
    assert split_reasoning("a <think>b</think> c <think>d</think> e") == ("a c e", "b\nd")


@given(st.text(), st.text(min_size=1))
def test_a_name_is_found_in_itself_and_between_spaces(around: str, name: str):
    if plain(name):
        assert mentioned(name, {name: 1}) == {1}
        assert mentioned(f"{name.strip()} 1", {name: 1}) == {1}
    assert plain(plain(around)) == plain(around)
