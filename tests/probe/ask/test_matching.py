"""What answers are read as: names, years, periods; and what is not read."""

import csv
import json
import re
from collections import Counter
from itertools import product
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from anachron.core.periods import Period
from anachron.io.answers import Answer
from anachron.io.llm_settings import NoAnswer
from anachron.io.reasoning import MARKS, split_reasoning
from anachron.probe.ask.matching import (
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
)

ALL_MARKS = [mark for pair in MARKS for mark in pair]
PHRASINGS = list(csv.DictReader(Path(__file__).with_name("phrasings.csv").read_text("utf-8").splitlines()))
PUBLIC = Path(__file__).parents[3].parent / "shared" / "data" / "public-reports" / "answers.jsonl"
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
        ("Not Lionel Jospin", UNREADABLE, None),
        ("It wasn't Lionel Jospin", UNREADABLE, None),
        ("nicht Lionel Jospin", UNREADABLE, None),
        ("Ce n'est pas Lionel Jospin", UNREADABLE, None),
        ("No fue Lionel Jospin", UNREADABLE, None),
        ("Not Lionel Jospin but Édouard Balladur", UNREADABLE, None),
        ("I'm not sure, Lionel Jospin", READ, "Jospin"),
        ("I'm sorry, but I believe it was Lionel Jospin", READ, "Jospin"),
        ("Lionel Jospin, not his party", READ, "Jospin"),
        ("I cannot say whether it was Lionel Jospin", REFUSED, None),
        ("Lionel Jospin's predecessor", UNREADABLE, None),
        ("the predecessor of Lionel Jospin", UNREADABLE, None),
        ("der Nachfolger von Lionel Jospin", UNREADABLE, None),
        ("Lionel Jospins Vorgänger", UNREADABLE, None),
        ("the one before Lionel Jospin", UNREADABLE, None),
        ("Until 2002 Lionel Jospin", READ, "Jospin"),
        ("Bis 2002 Lionel Jospin", READ, "Jospin"),
        ("Avant 2002 Lionel Jospin", READ, "Jospin"),
        ("Antes de 2002 Lionel Jospin", READ, "Jospin"),
        ("If I am not mistaken it was Lionel Jospin", READ, "Jospin"),
        ("Wenn ich mich nicht irre war es Lionel Jospin", READ, "Jospin"),
        ("Si je ne me trompe pas c'est Lionel Jospin", READ, "Jospin"),
        ("Si no me equivoco era Lionel Jospin", READ, "Jospin"),
        ("Nach wie vor Lionel Jospin", READ, "Jospin"),
        ("Kein anderer als Lionel Jospin", READ, "Jospin"),
        ("No era otro que Lionel Jospin", READ, "Jospin"),
        ("D'apr\u00e8s Wikip\u00e9dia Lionel Jospin", READ, "Jospin"),
        ("Lionel Jospin's", READ, "Jospin"),
        ("If I am not mistaken, it was not Lionel Jospin", UNREADABLE, None),
        ("Not before 2002 Lionel Jospin", UNREADABLE, None),
        ("<blockquote>Lionel Jospin</blockquote><hr>", READ, "Jospin"),
        ("<final>Lionel Jospin</final>", READ, "Jospin"),
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
        ("The answer is not 1998.", ("1998", "2011"), UNREADABLE, None),
        ("not 1998 but 2011", ("1998", "2011"), UNREADABLE, None),
        ("I cannot determine 2011", ("1998", "2011"), REFUSED, None),
        ("after 1998", ("1998", "2011"), UNREADABLE, None),
        ("1998 is not correct.", ("1998", "2011"), UNREADABLE, None),
        ("1998 wasn't the year", ("1998", "2011"), UNREADABLE, None),
        ("1998 ist falsch", ("1998", "2011"), UNREADABLE, None),
        ("1998 n'est pas la bonne ann\u00e9e", ("1998", "2011"), UNREADABLE, None),
        ("1998 no es correcto", ("1998", "2011"), UNREADABLE, None),
        ("1998 is the answer", ("1998", "2011"), READ, 0),
        ("1998, as 2000 is not correct", ("1998", "2011"), READ, 0),
        ("2011\u5e74\u3002", ("2009", "2011"), READ, 1),
        ("01.01.2009", ("2009", "2011"), READ, 0),
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
        ("23.05.1949 bis 03.10.1990", Period("1949-05-23", "1990-10-03")),
        ("vom 23. 5. 1949 bis zum 3. 10. 1990", Period("1949-05-23", "1990-10-03")),
        ("1949.05.23 - 1990.10.03", Period("1949-05-23", "1990-10-03")),
        ("03.10.1990 bis heute", Period("1990-10-03", None)),
        ("1949\u5e74\u81f31990\u5e74", Period("1949", "1990")),
        ("1949\u5e745\u670823\u65e5\u81f31990\u5e7410\u67083\u65e5", Period("1949", "1990")),
        ("c.1949 to c.1990", Period("1949", "1990")),
        ("ab 03.10.1990, Stand 2024 noch heute", Period("1990-10-03", None)),
        ("As of 2024: 1990 to today", Period("1990", None)),
        ("from 2012 until now, i.e. 2024", Period("2012", None)),
        ("As of 2024: since 1990", Period("1990", None)),
        ("Status: 2009 to 2017", Period("2009", "2017")),
        ("Chef d'\u00c9tat 2007 \u00e0 2012", Period("2007", "2012")),
        ("2012 to present (2024)", Period("2012", None)),
        ("23.05.1949 bis 1990; seit 1990 ist es Berlin", Period("1949-05-23", "1990")),
    ],
)
def test_periods(text: str, period: Period):
    assert read_period(answer(text)) == Reading(READ, period)


@pytest.mark.parametrize(
    "text", ["2017 to 2009", "2009", "2009, 2013 and 2017", "2009-02-30 to 2010", "always", "12 to 15",
             "1949 to 1990; or 1950 to 1991", "1949 to 1990, as of 2024 or 2025", "32.01.2009 to 2010", "1990s",
             "version 3.1990 to 4.1995", "As of 2024 it is the current answer", "no longer since 1990"],
)  # fmt: skip
def test_what_is_no_period(text: str):
    assert read_period(answer(text)).outcome == UNREADABLE


@given(st.text(), st.text())
def test_reasoning_and_answer_are_all_of_the_text(thought: str, text: str):
    clean = [re.sub("|".join(map(re.escape, ALL_MARKS)), "", part, flags=re.I) for part in (thought, text)]
    assume(not any(mark.casefold() in part.casefold() for mark in ALL_MARKS for part in clean))
    assert split_reasoning(f"<think>{clean[0]}</think>{clean[1]}") == (clean[1].strip(), clean[0].strip())
    assert split_reasoning(f"{clean[0]}</think>{clean[1]}") == (clean[1].strip(), clean[0].strip())
    assert split_reasoning(f"<think>{clean[0]}") == ("", clean[0].strip())


@pytest.mark.parametrize("first, second", MARKS)
def test_what_stands_between_known_marks_is_no_answer(first: str, second: str):
    """Nor is what stands before the second mark alone, or behind the first alone."""
    said = f"{first}Maybe George W. Bush?{second}\nLionel Jospin"
    assert read_name(answer(said), NAMES) == Reading(READ, "Jospin")
    assert read_name(answer(said.removeprefix(first)), NAMES) == Reading(READ, "Jospin")
    assert read_name(answer(f"{first}Maybe George W. Bush?"), NAMES) == Reading(EMPTY)


@pytest.mark.parametrize(
    "text",
    [
        "<|channel|>analysis<|message|>Maybe George W. Bush?<|end|><|start|>assistant<|channel|>final<|message|>"
        "Lionel Jospin<|return|>",
        "analysisMaybe George W. Bush?assistantfinalLionel Jospin",
        "<THINK>Maybe George W. Bush?</THINK><answer>Lionel Jospin</answer>",
        "<b>Lionel Jospin</b>",
        "Lionel Jospin<|eot_id|>",
        "Lionel Jospin</s>",
    ],
)
def test_channels_tags_of_answers_and_ends_of_turns(text: str):
    assert read_name(answer(text), NAMES) == Reading(READ, "Jospin")


@pytest.mark.parametrize(
    "text",
    [
        "<ponder>Maybe George W. Bush?</ponder>",
        "<|thoughts|>Maybe George W. Bush?",
        "[MUSING]Maybe George W. Bush?[/MUSING]",
        "\u25c1muse\u25b7George W. Bush",
        "analysisGeorge W. Bush is the one",
        "<|channel|>George W. Bush",
    ],
)
def test_marks_that_nobody_knows_make_an_answer_unreadable(text: str):
    """They may be around what a model only thought of. Those of one channel that did not end say nothing either."""
    assert read_name(answer(text), NAMES) == Reading(UNREADABLE)


def test_an_answer_in_channels_that_never_became_final_is_empty():
    said = "<|channel|>analysis<|message|>Maybe George W. Bush?"
    assert read_name(answer(said), NAMES) == Reading(EMPTY)


def test_the_answers_of_the_public_reports():
    """How a person reads them; null is unreadable."""
    if not PUBLIC.exists():
        pytest.skip("no folder shared/data/public-reports beside the checkout")
    names = {name: name for name in ("Dick Cheney", "Angela Merkel", "George Bush", "Bush")}
    for line in PUBLIC.read_text().splitlines():
        asked = json.loads(line)
        reply = answer(asked["answer"])
        if asked["ask"] == "period":
            period = read_period(reply).value
            found = (str(period.start.year), "still" if period.end is None else str(period.end.year))
            assert found == (asked["first_year"], asked["last_year"]), asked
        elif asked["ask"] == "choice":
            place = read_choice(reply, tuple(asked["of"])).value
            assert (None if place is None else asked["of"][place]) == asked["reading"], asked
        else:
            assert read_name(reply, names).value == asked["reading"], asked


@pytest.mark.parametrize("row", PHRASINGS, ids=lambda row: row["text"])
def test_phrasings_in_five_languages(row: dict[str, str]):
    """How a person reads them; - is not read, rather than read wrong."""
    reply = answer(row["text"])
    if row["ask"] == "name":
        read = read_name(reply, {name: name for name in ("Angela Merkel", "Gerhard Schröder")})
        found = read.value or "nobody of these"
    elif row["ask"] == "choice":
        read = read_choice(reply, ("1998", "2011"))
        found = None if read.value is None else ("1998", "2011")[read.value]
    else:
        read = read_period(reply)
        found = read.value and f"{read.value.start.year}/{'' if read.value.end is None else read.value.end.year}"
    assert (found if read.outcome == READ else "-") == row["reading"]


def test_there_are_enough_phrasings_of_each_language():
    counts = Counter((row["language"], row["ask"]) for row in PHRASINGS)
    languages, kinds = ("en", "de", "fr", "es", "pt"), ("name", "choice", "period")
    assert len(PHRASINGS) >= 150 and set(counts) == set(product(languages, kinds))
    assert min(counts.values()) >= 10 and len({tuple(row.values()) for row in PHRASINGS}) == len(PHRASINGS)


def test_several_thoughts_are_all_put_apart():
    assert split_reasoning("a <think>b</think> c <think>d</think> e") == ("a c e", "b\nd")


@given(st.text(), st.text(min_size=1))
def test_a_name_is_found_in_itself_and_between_spaces(around: str, name: str):
    if plain(name):
        assert mentioned(name, {name: 1}) == {1}
        assert mentioned(f"{name.strip()} 1", {name: 1}) == {1}
    assert plain(plain(around)) == plain(around)
