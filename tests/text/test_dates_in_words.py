"""Dates as they open a statement."""

import pytest

from anachron.core.dates import Date
from anachron.core.errors import ConfigError
from anachron.text.dates import date_in_words, wordings

MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]


@pytest.mark.parametrize(
    ("date", "american", "classic"),
    [
        ("2011", "In 2011, ", "In 2011, "),
        ("2011-03", "In March 2011, ", "In March 2011, "),
        ("2011-03-24", "On March 24, 2011, ", "On 24 March 2011, "),
        ("2011-12-01", "On December 1, 2011, ", "On 1 December 2011, "),
        ("0652", "In AD 652, ", "In AD 652, "),
        ("0999-12", "In December AD 999, ", "In December AD 999, "),
        ("1000", "In 1000, ", "In 1000, "),
        ("0008", "In AD 8, ", "In AD 8, "),
        ("0008-07-04", "On July 4, AD 8, ", "On 4 July AD 8, "),
        ("12011-01", "In January 12011, ", "In January 12011, "),
        ("-0044", "In 44 BCE, ", "In 44 BCE, "),
        ("-0001", "In 1 BCE, ", "In 1 BCE, "),
        ("-0044-03", "In March 44 BCE, ", "In March 44 BCE, "),
        ("-0044-03-15", "On March 15, 44 BCE, ", "On 15 March 44 BCE, "),
    ],
)
def test_both_styles(date: str, american: str, classic: str) -> None:
    assert date_in_words(Date.parse(date), "american") == american
    assert date_in_words(Date.parse(date), "classic") == classic


@pytest.mark.parametrize(("number", "name"), list(enumerate(MONTHS, 1)))
def test_every_month_has_its_name(number: int, name: str) -> None:
    assert date_in_words(Date(1999, number)) == f"In {name} 1999, "
    assert date_in_words(Date(1999, number, 2), "classic") == f"On 2 {name} 1999, "


OTHER_LANGUAGES = {
    "french": ["En 2011, ", "En août 2011, ", "Le 1er mars 2011, ", "Le 24 mars 2011, ", "En 44 av. J.-C., ",
        "En juillet 8 apr. J.-C., "],
    "german": ["Im Jahr 2011, ", "Im August 2011, ", "Am 1. März 2011, ", "Am 24. März 2011, ", "Im Jahr 44 v. Chr., ",
        "Im Juli 8 n. Chr., "],
    "portuguese": [
        "Em 2011, ", "Em agosto de 2011, ", "Em 1 de março de 2011, ", "Em 24 de março de 2011, ", "Em 44 a.C., ",
        "Em julho de 8 d.C., ",
    ],
    "spanish": [
        "En 2011, ", "En agosto de 2011, ", "El 1 de marzo de 2011, ", "El 24 de marzo de 2011, ", "En 44 a. C., ",
        "En julio de 8 d. C., ",
    ],
}  # fmt: skip


@pytest.mark.parametrize("style", OTHER_LANGUAGES)
def test_other_languages(style: str) -> None:
    dates = ("2011", "2011-08", "2011-03-01", "2011-03-24", "-0044", "0008-07")
    assert [date_in_words(Date.parse(d), style) for d in dates] == OTHER_LANGUAGES[style]


@pytest.mark.parametrize("style", sorted(wordings()))
def test_no_two_dates_share_their_words(style: str) -> None:
    dates = [Date(y) for y in (-44, 44, 2011)] + [Date(2011, m) for m in range(1, 13)]
    dates += [Date(2011, 3, d) for d in range(1, 32)]
    assert len({date_in_words(date, style) for date in dates}) == len(dates)


@pytest.mark.parametrize(
    ("date", "words"), [("0008-07", "In July 8, "), ("0652", "In 652, "), ("-0044", "In 44 BCE, ")]
)
def test_the_published_form_marks_no_year_of_the_common_era(date: str, words: str) -> None:
    assert {date_in_words(Date.parse(date), style) for style in ("american-published", "classic-published")} == {words}


def test_american_is_the_default() -> None:
    assert date_in_words(Date(2011, 3, 24)) == date_in_words(Date(2011, 3, 24), "american")


def test_both_named_styles_exist() -> None:
    assert {"american", "classic"} <= set(wordings())


@pytest.mark.parametrize("style", ["klingon", "American", ""])
def test_an_unknown_style_is_refused_with_the_choices(style: str) -> None:
    with pytest.raises(ConfigError) as caught:
        date_in_words(Date(2011), style)
    message = str(caught.value)
    assert repr(style) in message and "american" in message and "classic" in message and "\n" not in message
