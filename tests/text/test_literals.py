"""Quantities, dates and strings in words: readable, and with the digits that were written."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anachron.core.dates import Date
from anachron.core.errors import ConfigError, DataError
from anachron.text.dates import date_in_words, wordings
from anachron.text.literals import literal_in_words, literal_type, units
from anachron.wikidata.reading.times import GREGORIAN, first_year, read_time


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        ("+125960000", None, "125,960,000"),
        ("+1409517397", "", "1,409,517,397"),
        ("999", None, "999"),
        ("+1000", None, "1,000"),
        ("+0", None, "0"),
        ("-12.50", "degree Celsius", "-12.50 °C"),
        ("+12.5", "kilometre", "12.5 km"),
        ("+1234567.0001234", "square kilometer", "1,234,567.0001234 km²"),
        ("+45", "percent", "45%"),
        ("+90", "degree", "90°"),
        ("+1", "year", "1 year"),
        ("+3", "year", "3 years"),
        ("+1.0", "year", "1.0 years"),
        ("-1", "day", "-1 day"),
        ("+0.5", "inch", "0.5 inches"),
        ("+6", "foot", "6 feet"),
        ("+1", "person", "1 person"),
        ("+2500", "person", "2,500 people"),
        ("+2847246203", "United States dollar", "2,847,246,203 US dollars"),
        ("+1", "United States dollar", "1 US dollar"),
        ("+3", "litre", "3 l"),
        ("+1", "hogshead of wine", "1 hogshead of wine"),
        ("+2", " Martian  credit ", "2 Martian credit"),
        ("+3", "parameter", "3 parameter"),
        ("+99999999999999999999999999.9", None, "99,999,999,999,999,999,999,999,999.9"),
    ],
)
def test_a_quantity(value: str, unit: str | None, words: str) -> None:
    assert literal_in_words("quantity", value, unit=unit) == words


@pytest.mark.parametrize("style", ["french", "german", "portuguese", "spanish"])
def test_other_languages_keep_digits_and_label(style: str) -> None:
    assert literal_in_words("quantity", "+125960000.5", unit="kilomètre carré", style=style) == (
        "125960000.5 kilomètre carré"
    )
    assert literal_in_words("quantity", "-7", style=style) == "-7"


@pytest.mark.parametrize("value", ["", "many", "1e5", "+", "1,5", "12.", ".5", "--1", "NaN"])
def test_an_amount_that_is_no_decimal_number_has_no_words(value: str) -> None:
    assert literal_in_words("quantity", value) is None


@given(
    st.sampled_from(["", "+", "-"]), st.integers(0, 10**40), st.none() | st.text("0123456789", min_size=1, max_size=30),
    st.none() | st.sampled_from([*units().symbols, *units().plurals, "percent", "widget"]),
    st.sampled_from(list(wordings())),
)  # fmt: skip
def test_the_digits_of_a_quantity_survive(sign: str, whole: int, decimals: str | None, unit: str | None, style: str):
    number = f"{whole}" + ("" if decimals is None else f".{decimals}")
    words = literal_in_words("quantity", sign + number, unit=unit, style=style)
    assert words is not None
    written = re.match(r"-?[0-9][0-9,]*(\.[0-9]+)?", words)
    assert written is not None
    assert written[0].replace(",", "") == ("-" if sign == "-" else "") + number
    assert "," not in written[0] or re.fullmatch(r"-?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?", written[0])
    assert words == " ".join(words.split())


def test_at_least_sixty_units_are_known_and_none_twice() -> None:
    assert len(set(units().symbols) | set(units().plurals)) >= 60
    assert not set(units().symbols) & set(units().plurals)


@pytest.mark.parametrize(
    ("value", "precision", "style", "words"),
    [
        ("2021-01-04", 11, "american", "January 4, 2021"),
        ("2021-01-04", 11, "classic", "4 January 2021"),
        ("2021-01-04", 11, "french", "4 janvier 2021"),
        ("2021-01-01", 11, "french", "1er janvier 2021"),
        ("2021-01-04", 11, "german", "4. Januar 2021"),
        ("2021-01-04", 11, "spanish", "4 de enero de 2021"),
        ("2021-01-04", 14, "american", "January 4, 2021"),
        ("2021-01-04", 10, "american", "January 2021"),
        ("2021-01-04", 9, "american", "2021"),
        ("2021-01", 11, "american", "January 2021"),  # the day was 00
        ("2021-01", 10, "spanish", "enero de 2021"),
        ("2021-01-04", 11, "portuguese", "4 de janeiro de 2021"),
        ("1987", 8, "portuguese", "década de 1980"),
        ("1850", 7, "portuguese", "século XIX"),
        ("-3000", 6, "portuguese", "III milênio a.C."),
        ("2021", 9, "german", "2021"),
        ("2021", None, "american", "2021"),
        ("0800", 9, "american", "AD 800"),
        ("-0044-03-15", 11, "american", "March 15, 44 BCE"),
        ("-0044", 9, "american", "44 BCE"),
        ("-0044", 9, "french", "44 av. J.-C."),
        ("1980", 8, "american", "1980s"),
        ("1987", 8, "american", "1980s"),
        ("1987", 8, "german", "1980er-Jahre"),
        ("1987", 8, "french", "années 1980"),
        ("-0044", 8, "american", "40s BCE"),
        ("2000", 7, "american", "20th century"),
        ("2001", 7, "american", "21st century"),
        ("1901", 7, "classic", "20th century"),
        ("1101", 7, "american", "12th century"),
        ("0150", 7, "american", "2nd century"),
        ("0100", 7, "french", "Ier siècle"),
        ("1850", 7, "french", "XIXe siècle"),
        ("1850", 7, "german", "19. Jahrhundert"),
        ("1850", 7, "spanish", "siglo XIX"),
        ("-0044", 7, "american", "1st century BCE"),
        ("-0101", 7, "american", "2nd century BCE"),
        ("2000", 6, "american", "2nd millennium"),
        ("2001", 6, "american", "3rd millennium"),
        ("-3000", 6, "american", "3rd millennium BCE"),
        ("-3000", 6, "spanish", "III milenio a. C."),
        ("-10000", 5, "american", None),
        ("-4540000000", 1, "american", None),
        (None, 11, "american", None),
    ],
)
def test_a_time(value: str | None, precision: int | None, style: str, words: str | None) -> None:
    assert literal_in_words("time", value, precision=precision, style=style) == words


@given(st.integers(-9999, 9999).filter(bool), st.sampled_from([6, 7, 8]))
def test_a_span_is_named_alike_from_its_first_year_to_its_last(year: int, precision: int) -> None:
    first = first_year(year, precision)
    assert first is not None
    words = literal_in_words("time", str(Date(year)), precision=precision)
    assert words == literal_in_words("time", str(Date(first)), precision=precision)
    length = {8: 10, 7: 100, 6: 1000}[precision]
    before, after = first - 1 or -1, first + length
    for other in (before, after):
        if (other > 0) == (first > 0) and other and first != 1:
            assert words != literal_in_words("time", str(Date(other)), precision=precision)


@given(st.dates(), st.sampled_from(list(wordings())), st.sampled_from([9, 10, 11]))
def test_a_date_is_the_opening_without_its_preposition(day, style: str, precision: int) -> None:
    date, stated, _ = read_time(f"+{day.isoformat()}T00:00:00Z", precision, GREGORIAN)
    assert date is not None
    words = literal_in_words("time", date, precision=stated, style=style)
    assert words is not None
    opening = date_in_words(Date.parse(date), style)
    assert opening.endswith(f" {words}, ")
    assert opening.removesuffix(f" {words}, ") in {"In", "On", "En", "Le", "El", "Em", "Im", "Am", "Im Jahr"}


@pytest.mark.parametrize("kind", ["text", "monolingual"])
def test_strings_are_one_line_with_single_spaces(kind: str) -> None:
    assert literal_in_words(kind, "  La \t Marseillaise\n") == "La Marseillaise"
    assert literal_in_words(kind, " \n ") is None
    assert literal_in_words(kind, None) is None


@pytest.mark.parametrize(("kind", "value"), [("coordinate", "48.85,2.35"), ("other", '{"x":1}')])
def test_what_has_no_words(kind: str, value: str) -> None:
    assert literal_in_words(kind, value) is None
    with pytest.raises(DataError, match=kind):
        literal_type(kind)


def test_what_is_refused() -> None:
    for call in (lambda: literal_in_words("entity", "Q90"), lambda: literal_type("entity")):
        with pytest.raises(DataError, match="'entity' is not a literal"):
            call()
    with pytest.raises(DataError, match="is not a date"):
        literal_in_words("time", "soon", precision=11)
    with pytest.raises(ConfigError, match="klingon"):
        literal_in_words("quantity", "1", style="klingon")
    with pytest.raises(DataError, match="precision None"):
        literal_type("time")


@pytest.mark.parametrize(
    ("kind", "precision", "type"),
    [
        ("quantity", None, "Quantity"), ("text", None, "String"), ("monolingual", None, "String"),
        ("time", 14, "Date"), ("time", 11, "Date"), ("time", 10, "Month"), ("time", 9, "Year"), ("time", 7, "Year"),
    ],
)  # fmt: skip
def test_the_type_of_a_literal(kind: str, precision: int | None, type: str) -> None:
    assert literal_type(kind, precision) == type
