"""Words in the dates of a file: months, "since", "until" and "today", in the bundled languages."""

import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cache

from anachron.core.sameness import plain
from anachron.text.words import language_files, phrases

NO_DATE = frozenset({"", "none", "nan", "nat", "null"})
# Beside those of the languages (`anachron.text.words.phrases`), as people fill in an empty end
_STILL = (
    "infinity", "laufend", "aktuell", "amtierend", "im amt", "en cours", "en poste", "actuel", "actuellement",
    "aujourdhui", "actual", "actualmente", "en curso", "atual", "em curso",
)  # fmt: skip
_SHORT = {"sept": 9, "set": 9, "maerz": 3, "marz": 3, "jaenner": 1, "janner": 1, "feber": 2}  # beside those of CLDR
_SINCE = re.compile(r"(?:since|from|seit|ab|depuis|dès|desde)(?: (?:the|dem|le|la|el|o))? (?=\S)", re.IGNORECASE)
_UNTIL = re.compile(
    r"(?:(?:until|till|to|bis|jusque|hasta|até)(?: (?:the|zum|le|la|el|a|o))? |jusqu['’](?:(?:en|au|aux|à) )?)(?=\S)",
    re.IGNORECASE,
)


@cache
def months() -> Mapping[str, int]:
    """`plain` name of a month, whole or abbreviated as CLDR has it -> its number; none that two languages count
    otherwise."""
    from babel.dates import get_month_names

    found: dict[str, set[int]] = defaultdict(set)
    for locale in language_files():
        for width in ("wide", "abbreviated"):
            for context in ("format", "stand-alone"):
                for number, name in get_month_names(width, context, locale).items():
                    found[plain(name)].add(number)
    return {name: numbers.pop() for name, numbers in found.items() if len(numbers) == 1} | _SHORT


@cache
def _still() -> frozenset[str]:
    return NO_DATE | frozenset((*phrases("still"), *_STILL))


def means_still(text: str) -> bool:
    """Whether an end says that there is none: an empty one, ``today``, ``bis heute``."""
    words = plain(without_until(text))
    return words in _still() if words else not text.strip()


def without_since(text: str) -> str:
    """``2021`` of ``seit 2021`` or ``depuis le 2021``."""
    return text[found.end() :] if (found := _SINCE.match(text)) else text


def without_until(text: str) -> str:
    """``2021`` of ``bis 2021``."""
    return text[found.end() :] if (found := _UNTIL.match(text)) else text


def without_words(text: str) -> str:
    """A date without either."""
    return without_until(without_since(text))
