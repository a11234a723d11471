"""Dates in words, as they open a statement: ``In 2011, ``, ``On March 24, 2011, ``."""

import re
from dataclasses import dataclass, replace

from anachron.core.dates import Date
from anachron.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Wording:
    """How one language and style says a date. Slots: ``{year}``, ``{month}``, ``{day}``.

    common_era: a year before `MARKED_BELOW`, which without a mark may be taken for a day.
    """

    language: str
    year: str
    month: str
    day: str
    months: tuple[str, ...]
    before_common_era: str
    common_era: str
    first_of_month: str = "1"


_ENGLISH_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_FRENCH_MONTHS = (
    "janvier", "février", "mars", "avril", "mai", "juin", "juillet", "août", "septembre", "octobre", "novembre",
    "décembre",
)  # fmt: skip
_GERMAN_MONTHS = (
    "Januar", "Februar", "März", "April", "Mai", "Juni", "Juli", "August", "September", "Oktober", "November",
    "Dezember",
)  # fmt: skip
_SPANISH_MONTHS = (
    "enero",
    "febrero",
    "marzo",
    "abril",
    "mayo",
    "junio",
    "julio",
    "agosto",
    "septiembre",
    "octubre",
    "noviembre",
    "diciembre",
)
WORDINGS: dict[str, Wording] = {
    "american": Wording(
        "English",
        "In {year}, ",
        "In {month} {year}, ",
        "On {month} {day}, {year}, ",
        _ENGLISH_MONTHS,
        "{year} BCE",
        "AD {year}",
    ),
    "classic": Wording(
        "English",
        "In {year}, ",
        "In {month} {year}, ",
        "On {day} {month} {year}, ",
        _ENGLISH_MONTHS,
        "{year} BCE",
        "AD {year}",
    ),
    "french": Wording(
        "French",
        "En {year}, ",
        "En {month} {year}, ",
        "Le {day} {month} {year}, ",
        _FRENCH_MONTHS,
        "{year} av. J.-C.",
        "{year} apr. J.-C.",
        "1er",
    ),
    "german": Wording(
        "German",
        "Im Jahr {year}, ",
        "Im {month} {year}, ",
        "Am {day}. {month} {year}, ",
        _GERMAN_MONTHS,
        "{year} v. Chr.",
        "{year} n. Chr.",
    ),
    "spanish": Wording(
        "Spanish",
        "En {year}, ",
        "En {month} de {year}, ",
        "El {day} de {month} de {year}, ",
        _SPANISH_MONTHS,
        "{year} a. C.",
        "{year} d. C.",
    ),
}
PUBLISHED = "-published"  # a style so ended leaves the years of the common era unmarked, as published data sets do
WORDINGS |= {name + PUBLISHED: replace(WORDINGS[name], common_era="{year}") for name in ("american", "classic")}

MARKED_BELOW = 1000  # years of the common era that carry its mark
OPENERS = frozenset({
    "a", "an", "as", "at", "by", "for", "from", "how", "in", "its", "of", "on", "the", "through", "to", "under", "what",
    "when", "where", "which", "who", "whom", "whose", "with",
})  # fmt: skip


def date_in_words(date: Date, style: str = "american") -> str:
    """The opening of a statement, with its trailing comma and space.

    Years before the common era are counted as historians do: ``In 44 BCE, ``; early ones of it are marked: ``In AD
    8, ``, ``On July 4, AD 8, ``.
    Raises `ConfigError` for an unknown style.
    """
    wording = wording_of(style)
    year = _year(date.year, style)
    month = "" if date.month is None else wording.months[date.month - 1]
    pattern = {"year": wording.year, "month": wording.month, "day": wording.day}[date.granularity]
    day = wording.first_of_month if date.day == 1 else str(date.day)
    return pattern.format(year=year, month=month, day=day)


def bare_date(date: Date, style: str = "american") -> str:
    """The date alone, as it stands at the end of a statement: ``2011``, ``March 2011``, ``March 24, 2011``.

    Raises `ConfigError` for an unknown style.
    """
    if date.granularity == "year":
        return _year(date.year, style)
    return date_in_words(date, style).partition(" ")[2].removesuffix(", ")  # all openings have one word before a month


def dated_prompt(prompt: str, date: Date, subject: str = "") -> str:
    """An English prompt behind the opening of a date: ``In 2011, the capital of France is``; see `behind_opening`."""
    return behind_opening(date_in_words(date), prompt, subject)


def behind_opening(opening: str, prompt: str, subject: str = "") -> str:
    """An English prompt behind an opening that ends in a space: ``From 2011 to 2013, the capital of France is``.

    Its first word loses its capital where it is one of `OPENERS` and does not begin the subject's name: ``In 2011, The
    Hague is located in``. A name that opens a prompt keeps its own.
    """
    first = prompt.split(" ", 1)[0].lower()
    named = subject and re.match(rf"{re.escape(subject)}(?!\w)", prompt)
    if first in OPENERS and not named:
        prompt = prompt[0].lower() + prompt[1:]
    return opening + prompt


def span_in_words(start: Date, end: Date | None) -> str:
    """A period in English words: ``2017 to January 20, 2021``, or ``2017 on`` where it has no end."""
    return f"{bare_date(start)} on" if end is None else f"{bare_date(start)} to {bare_date(end)}"


def _year(year: int, style: str) -> str:
    marked = 0 < year < MARKED_BELOW
    return wording_of(style).common_era.format(year=year) if marked else in_era(str(abs(year)), year, style)


def in_era(text: str, year: int, style: str = "american") -> str:
    """The words for a year or a span of years, marked as before the common era where the year is: ``44 BCE``."""
    return text if year > 0 else wording_of(style).before_common_era.format(year=text)


def wording_of(style: str) -> Wording:
    """The wording of a style. Raises `ConfigError` for an unknown one."""
    if style not in WORDINGS:
        raise ConfigError(f"date style {style!r}: choose one of {', '.join(sorted(WORDINGS))}")
    return WORDINGS[style]
