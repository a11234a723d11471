"""Dates in words, as they open a statement: ``In 2011, ``, ``On March 24, 2011, ``."""

from dataclasses import dataclass

from anachron.core.dates import Date
from anachron.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Wording:
    """How one language and style says a date. Slots: ``{year}``, ``{month}``, ``{day}``."""

    year: str
    month: str
    day: str
    months: tuple[str, ...]
    before_common_era: str


_ENGLISH_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
WORDINGS: dict[str, Wording] = {
    "american": Wording(
        "In {year}, ", "In {month} {year}, ", "On {month} {day}, {year}, ", _ENGLISH_MONTHS, "{year} BCE"
    ),
    "classic": Wording(
        "In {year}, ", "In {month} {year}, ", "On {day} {month} {year}, ", _ENGLISH_MONTHS, "{year} BCE"
    ),
}


def date_in_words(date: Date, style: str = "american") -> str:
    """The opening of a statement, with its trailing comma and space.

    Years before the common era are counted as historians do: ``In 44 BCE, ``.
    Raises `ConfigError` for an unknown style.
    """
    wording = WORDINGS.get(style)
    if wording is None:
        raise ConfigError(f"date style {style!r}: choose one of {', '.join(sorted(WORDINGS))}")
    year = str(date.year) if date.year > 0 else wording.before_common_era.format(year=-date.year)
    month = "" if date.month is None else wording.months[date.month - 1]
    pattern = {"year": wording.year, "month": wording.month, "day": wording.day}[date.granularity]
    return pattern.format(year=year, month=month, day=date.day)
