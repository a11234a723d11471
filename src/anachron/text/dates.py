"""Dates in words, as they open a statement: ``In 2011, ``, ``On March 24, 2011, ``."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from anachron.core.dates import Date
from anachron.core.errors import ConfigError
from anachron.text.openings import behind_opening
from anachron.text.words import language_files


@dataclass(frozen=True, slots=True)
class Wording:
    """How one language and style says a date.

    locale: whose month names and order of day, month and year are taken from CLDR, by Babel. year, month, day: what
    opens a statement, by granularity; ``{date}`` is the date alone. before_common_era, common_era: slot ``{year}``; the
    latter of a year before `MARKED_BELOW`, which without a mark may be taken for a day. first_of_month: the first day,
    where it is not the number (``1er``).
    """

    language: str
    locale: str
    year: str
    month: str
    day: str
    before_common_era: str
    common_era: str
    first_of_month: str = "1"


PUBLISHED = "-published"  # a style so ended leaves the years of the common era unmarked, as published data sets do
MARKED_BELOW = 1000  # years of the common era that carry its mark


@cache
def wordings() -> Mapping[str, Wording]:
    """Style -> how it says dates; of the English ones also those that end in `PUBLISHED`."""
    styles = {
        style: Wording(words["language"], **how)
        for words in language_files().values()
        for style, how in words["styles"].items()
    }
    english = {style: wording for style, wording in styles.items() if wording.language == "English"}
    return styles | {style + PUBLISHED: replace(how, common_era="{year}") for style, how in english.items()}


def date_in_words(date: Date, style: str | Wording = "american") -> str:
    """The opening of a statement, with its trailing comma and space.

    Years before the common era are counted as historians do: ``In 44 BCE, ``; early ones of it are marked: ``In AD
    8, ``, ``On July 4, AD 8, ``.
    Raises `ConfigError` for an unknown style.
    """
    wording = wording_of(style)
    opening = {"year": wording.year, "month": wording.month, "day": wording.day}[date.granularity]
    return opening.replace("{date}", bare_date(date, style))


def bare_date(date: Date, style: str | Wording = "american") -> str:
    """The date alone, as it stands at the end of a statement: ``2011``, ``March 2011``, ``March 24, 2011``.

    Raises `ConfigError` for an unknown style.
    """
    year = _year(date.year, style)
    if date.month is None:
        return year
    wording = wording_of(style)
    day = wording.first_of_month if date.day == 1 else str(date.day)
    name = _month_names(wording.locale)[date.month]
    slots = {"y": year, "MMMM": name, "LLLL": name, "M": str(date.month), "d": day}
    return _pattern(wording.locale, date.granularity) % slots


@cache
def _month_names(locale: str) -> Mapping[int, str]:
    """The names of the months 1 to 12 inside a date, by CLDR."""
    from babel.dates import get_month_names

    return get_month_names("wide", "format", locale)


@cache
def _pattern(locale: str, granularity: str) -> str:
    """How a locale writes a long date (``%(d)s. %(MMMM)s %(y)s``) or a month of a year, by CLDR.

    Raises `ConfigError` where that needs more than day, month and year, as other calendars do.
    """
    from babel.core import Locale
    from babel.dates import parse_pattern

    known = Locale.parse(locale)
    found = known.date_formats["long"] if granularity == "day" else known.datetime_skeletons["yMMMM"]
    pattern = str(parse_pattern(found).format)
    if unknown := set(re.findall(r"%\((\w+)\)s", pattern)) - {"y", "MMMM", "LLLL", "M", "d"}:
        raise ConfigError(
            f"locale {locale!r}: its dates need {', '.join(sorted(unknown))} of CLDR; choose another locale"
        )
    return pattern


def dated_prompt(prompt: str, date: Date, subject: str = "") -> str:
    """An English prompt behind the opening of a date: ``In 2011, the capital of France is``."""
    return behind_opening(date_in_words(date), prompt, subject)


def span_in_words(start: Date, end: Date | None) -> str:
    """A period in English words: ``2017 to January 20, 2021``, or ``2017 on`` where it has no end."""
    return f"{bare_date(start)} on" if end is None else f"{bare_date(start)} to {bare_date(end)}"


def _year(year: int, style: str | Wording) -> str:
    marked = 0 < year < MARKED_BELOW
    return wording_of(style).common_era.format(year=year) if marked else in_era(str(abs(year)), year, style)


def in_era(text: str, year: int, style: str | Wording = "american") -> str:
    """The words for a year or a span of years, marked as before the common era where the year is: ``44 BCE``."""
    return text if year > 0 else wording_of(style).before_common_era.format(year=text)


def wording_of(style: str | Wording) -> Wording:
    """The wording of a style, or the one given. Raises `ConfigError` for an unknown style."""
    if isinstance(style, Wording):
        return style
    if style not in wordings():
        raise ConfigError(f"date style {style!r}: choose one of {', '.join(sorted(wordings()))}")
    return wordings()[style]
