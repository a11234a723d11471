"""Values that are no entities, in words: quantities, dates, strings. What a model is asked to say about them.

A value is given as a snapshot holds it: its kind, its text, and for a time its precision, for a quantity the label of
its unit. Digits are never computed with, so none is lost or made up.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from anachron.core.dates import Date
from anachron.core.errors import DataError
from anachron.text.dates import bare_date, in_era, wording_of
from anachron.text.words import words_of

DAY, MONTH, YEAR, DECADE, CENTURY, MILLENNIUM = 11, 10, 9, 8, 7, 6  # precisions of times
LITERALS = ("text", "quantity", "time", "monolingual")
WORDLESS = ("coordinate", "other")

_AMOUNT = re.compile(r"([+-]?)([0-9]+)((?:\.[0-9]+)?)")
_ROMAN = (
    (1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X"),
    (9, "IX"), (5, "V"), (4, "IV"), (1, "I"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Units:
    """What English writes behind a number, by the label of its unit: symbols, those without a space, plurals, and other
    words than the label's (one, many)."""

    symbols: Mapping[str, str]
    attached: Mapping[str, str]
    plurals: Mapping[str, str]
    renamed: Mapping[str, Sequence[str]]


@cache
def units() -> _Units:
    raw = words_of("English", "units")
    plurals = {name: f"{name}s" for name in raw["with_s"]} | raw["plurals"]
    return _Units(raw["symbols"], raw["attached"], plurals, raw["renamed"])


def literal_in_words(
    kind: str, value: str | None, *, precision: int | None = None, unit: str | None = None, style: str = "american"
) -> str | None:
    """A value as a sentence can end with it, or None where nothing readable can be said.

    kind, value, precision: ``value_type``, ``value`` and ``value_precision`` of a snapshot's statement. unit: the label
    of a quantity's unit, None for a number without one. style: one of `anachron.text.dates`.
    None for coordinates, for other kinds, for an empty text, for a time without a date or coarser than a millennium,
    and for an amount that is no decimal number.
    Raises `DataError` for a kind that no snapshot has and for entities, and for a date that is none; `ConfigError` for
    an unknown style.
    """
    _check(kind)
    language = wording_of(style).language
    if value is None or kind in WORDLESS:
        return None
    if kind == "time":
        return _time(value, precision, style)
    if kind == "quantity":
        return _quantity(value, unit, language)
    return " ".join(value.split()) or None


def literal_type(kind: str, precision: int | None = None) -> str:
    """What the published update data set describes a literal object as: Quantity, Date, Month, Year or String.

    Years stand for what is coarser, too. Raises `DataError` for a time without precision and for kinds without words.
    """
    _check(kind)
    if kind in WORDLESS or (kind == "time" and precision is None):
        raise DataError(f"a value of kind {kind!r} and precision {precision} has no type of literal; leave it out")
    if kind == "time" and precision is not None:
        return "Date" if precision >= DAY else "Month" if precision == MONTH else "Year"
    return "Quantity" if kind == "quantity" else "String"


def _check(kind: str) -> None:
    if kind not in (*LITERALS, *WORDLESS):
        known = ", ".join((*LITERALS, *WORDLESS))
        raise DataError(f"kind {kind!r} is not a literal: it must be one of {known}; an entity is worded by its label")


def _time(value: str, precision: int | None, style: str) -> str | None:
    date = Date.parse(value)
    if precision is not None and precision < YEAR:
        return _span(date.year, precision, style)
    if precision == YEAR:
        date = Date(date.year)
    elif precision == MONTH:
        date = Date(date.year, date.month)
    return bare_date(date, style)


def _span(year: int, precision: int, style: str) -> str | None:
    """The decade, century or millennium that a year names, as Wikidata shows them: 2000 lies in the 20th century.

    The same reading as `anachron.wikidata.reading.times.first_year`.
    """
    if precision < MILLENNIUM:
        return None  # rounded to ten thousand years and more: no word says that
    language = wording_of(style).language
    name, length = {DECADE: ("decade", 10), CENTURY: ("century", 100), MILLENNIUM: ("millennium", 1000)}[precision]
    # {n} counts centuries, {nth} is their ordinal, {roman} a Roman numeral
    n = (abs(year) - 1) // length + 1
    slots = {"year": abs(year) // 10 * 10, "n": n, "nth": _ordinal(n, language), "roman": _roman(n)}
    return in_era(words_of(language, "spans")[name].format(**slots), year, style)


def _ordinal(n: int, language: str) -> str:
    """20th in English, XXe in French; the other languages need none here."""
    if language == "French":
        return f"{_roman(n)}{'er' if n == 1 else 'e'}"
    ending = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{ending}"


def _roman(n: int) -> str:
    text = ""
    for worth, letters in _ROMAN:
        text += letters * (n // worth)
        n %= worth
    return text


def _quantity(value: str, unit: str | None, language: str) -> str | None:
    amount = _AMOUNT.fullmatch(value.strip())
    if amount is None:
        return None
    sign, whole, decimals = amount.groups()
    minus = "-" if sign == "-" else ""
    if language != "English":
        return " ".join([f"{minus}{whole}{decimals}", *(unit or "").split()])
    grouped = re.sub(r"(?<=[0-9])(?=(?:[0-9]{3})+$)", ",", whole)
    return f"{minus}{grouped}{decimals}" + _behind(unit, one=whole == "1" and not decimals)


def _behind(unit: str | None, *, one: bool) -> str:
    """What follows a number in English: its unit as a symbol, in the singular or plural, or as it is labelled."""
    label = " ".join((unit or "").split())
    if not label:
        return ""
    name = label.replace("meter", "metre").replace("liter", "litre")  # labels come in either spelling
    known = units()
    if name in known.attached:
        return known.attached[name]
    if name in known.symbols:
        return f" {known.symbols[name]}"
    singular, plural = known.renamed.get(name, (name, known.plurals.get(name)))
    return f" {singular if one else plural}" if plural is not None else f" {label}"
