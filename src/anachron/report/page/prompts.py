"""What opens each dated prompt, in few words: patterns of months and days, and the words of each year."""

from collections.abc import Iterable

from anachron.core.dates import Date
from anachron.io.files import Json
from anachron.text.dates import date_in_words

STAND_IN, SLOT = 8888, "{}"  # a leap year, whose digits are in no month and no day


def openings(times: Iterable[str], style: str) -> Json | None:
    """``years`` (``{"-44": "44 BCE"}``) and ``patterns`` by month and day (``{"3-24": "On March 24, {}, "}``; 0 where a
    date is coarser) that make the opening of every date.

    None where a wording cannot be taken apart like this, so that no wrong prompt is shown.
    """
    front, _, back = date_in_words(Date(STAND_IN), style).partition(str(STAND_IN))
    years: dict[str, str] = {}
    patterns: dict[str, str] = {}
    for time in times:
        date = Date.parse(time)
        key, year = f"{date.month or 0}-{date.day or 0}", str(date.year)
        if key not in patterns:
            words = date_in_words(Date(STAND_IN, date.month, date.day), style)
            patterns[key] = words.replace(str(STAND_IN), SLOT)
        if year not in years:
            years[year] = date_in_words(Date(date.year), style).removeprefix(front).removesuffix(back)
        if patterns[key].replace(SLOT, years[year]) != date_in_words(date, style):
            return None
    return {"years": years, "patterns": patterns}
