"""One rule of sameness: what it joins, what it must not join, and that it is a rule at all."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anachron.core.sameness import code_points, name_key, same_name


@pytest.mark.parametrize(
    "one, other",
    [
        ("capital", "Capital"),
        ("José Sarney", unicodedata.normalize("NFD", "José Sarney")),
        ("Kazakh\u200bstan", "Kazakhstan"),
        ("\u200eKazakhstan", "Kazakhstan"),
        ("Kazakh\u00adstan", "Kazakhstan"),
        ("\ufeffKazakhstan", "Kazakhstan"),
        ("New\u00a0York", "New  York "),
        ("\u1e9e", "\u00df"),  # the capital and the small sharp s
        ("Å", "\u212b"),  # the letter and the sign of a unit
    ],
)
def test_spellings_that_a_reader_takes_for_one_name(one: str, other: str) -> None:
    assert same_name(one, other) and name_key(one) == name_key(other)


@pytest.mark.parametrize(
    "one, other",
    [
        ("Weiß", "Weiss"),
        ("Maße", "Masse"),
        ("İzmir", "izmir"),  # the dot belongs to the capital; in Turkish "ızmir" would be the small one of "Izmir"
        ("ılık", "ilik"),
        ("Pele", "Pelé"),
        ("New York", "NewYork"),
        ("x²", "x2"),  # compatibility forms are other signs
        ("ﬁ", "fi"),
        ("\U0001f3f4\U000e0067\U000e0062\U000e0065", "\U0001f3f4\U000e0067\U000e0062\U000e0073"),  # flags, by tags
        ("\u0601\u0661\u0662", "\u0661\u0662"),  # a sign of a year, which is seen
    ],
)
def test_spellings_that_stay_two(one: str, other: str) -> None:
    assert not same_name(one, other)


@given(st.text(), st.text())
def test_the_key_of_a_key_is_itself_and_case_normal_form_and_marks_do_not_change_it(text: str, more: str) -> None:
    assert name_key(name_key(text)) == name_key(text)
    assert name_key(unicodedata.normalize("NFD", text)) == name_key(text)
    assert name_key(f"\u200e{text}\u200b") == name_key(text)
    assert name_key(f"{text} \u00a0{more}") == name_key(f"{text} {more}")


def test_what_the_eye_misses_is_written_out() -> None:
    assert code_points("e\u0301") == "e\u0301 (U+0065 U+0301)"
