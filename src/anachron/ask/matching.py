"""What an answer says: a name, one of two years, a period; or that none can be read.

Names and words are compared as `plain` writes them: without marks on letters, case and punctuation, as whole words. A
name counts where the answer holds it anywhere; of names that lie within each other ("York", "New York") the longest
counts. An answer that holds names of several objects, or both years, says neither. Words that decline count only where
nothing can be read.
"""

import re
import unicodedata
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from anachron.ask.wordings import DECLINING, STILL
from anachron.core.dates import Date
from anachron.core.periods import Period
from anachron.errors import DataError
from anachron.text.answers import Answer
from anachron.text.llm_settings import NoAnswer
from anachron.text.whole_words import goes_on

READ, REFUSED, EMPTY, UNREADABLE, UNANSWERED = "read", "refused", "empty", "unreadable", "unanswered"
UNREAD = (REFUSED, EMPTY, UNREADABLE, UNANSWERED)
Key = TypeVar("Key", bound=Hashable)

_DATE = re.compile(
    r"(?<![\w-])(?P<iso>-?\d{4,}-\d\d(?:-\d\d)?)(?![\w-])"
    r"|(?<![\w.,-])(?P<bce>\d{1,4})\s*(?:BCE|BC|B\.C\.|v\. ?Chr\.|av\. ?J\.|a\. ?C\.)"
    r"|(?<![\w.,-])(?P<year>-\d{4}|\d{3,4})(?!\w|[.,]\d)"
)
_SPAN = re.compile(r"(?<![\w-])(\d{4})\s*-\s*(\d{4})(?!\w|-\d)")  # 2009-2017, which is no month


@dataclass(frozen=True, slots=True)
class Reading:
    """outcome: `READ`, or why nothing was: `REFUSED`, `EMPTY`, `UNREADABLE`, `UNANSWERED` (the server gave no answer).
    value: what was read: the key of an object, 0 or 1 for the first or second year, a `Period`."""

    outcome: str
    value: Any = None


def split_reasoning(text: str) -> tuple[str, str]:
    """An answer, and the reasoning that a model wrote before it between ``<think>`` and ``</think>``.

    Without the first of the marks all up to the second is reasoning, without the second all after the first.
    """
    before, opened, rest = text.partition("<think>")
    if not opened:
        before, rest = "", text
    thought, closed, after = rest.partition("</think>")
    if opened or closed:
        answer, more = split_reasoning(after) if closed else ("", "")
        return f"{before}{answer}".strip(), "\n".join(filter(None, (thought.strip(), more)))
    return text.strip(), ""


def plain(text: str) -> str:
    """Small letters and digits without marks, single spaces between words: ``Édouard  Balladur.`` becomes ``edouard
    balladur``."""
    visible = (c for c in unicodedata.normalize("NFKD", text) if unicodedata.category(c) != "Cf")
    letters = (c for c in visible if not unicodedata.combining(c))
    kept = "".join(c if c.isalnum() or unicodedata.category(c).startswith("M") else " " for c in letters)
    return " ".join(kept.casefold().split())


def mentioned(text: str, names: Mapping[str, Key]) -> set[Key]:
    """The keys of the names that a text holds as whole words, without those that lie within a longer one."""
    said = plain(text)
    spans: list[tuple[int, int, Key]] = []
    for name, key in names.items():
        wanted = plain(name)
        at = said.find(wanted) if wanted else -1
        while at >= 0:
            end = at + len(wanted)
            if not goes_on(said[at - 1 : at] if at else "", said[at]) and not goes_on(
                said[end - 1], said[end : end + 1]
            ):
                spans.append((at, end, key))
            at = said.find(wanted, at + 1)
    return {
        key
        for start, end, key in spans
        if not any(a <= start and end <= b and b - a > end - start for a, b, _ in spans)
    }


def answer_text(reply: Answer | NoAnswer) -> tuple[Reading | None, str]:
    """Why a reply holds no answer, if it does not, and its text without reasoning."""
    if isinstance(reply, NoAnswer):
        return Reading(UNANSWERED), ""
    text = split_reasoning(reply.text)[0]
    if reply.refusal or reply.finish == "content_filter":
        return Reading(REFUSED), reply.refusal or text
    return (None, text) if text else (Reading(EMPTY), "")


def read_name(reply: Answer | NoAnswer, names: Mapping[str, Key]) -> Reading:
    """Whose name an answer gives. names: name -> key of the object. The value is None where it is nobody's of these.

    An answer that was cut off and names none of them is unreadable.
    """
    fault, text = answer_text(reply)
    if fault is not None:
        return fault
    found = mentioned(text, names)
    if len(found) == 1:
        return Reading(READ, found.pop())
    if declines(text):
        return Reading(REFUSED)
    if found or not plain(text) or (isinstance(reply, Answer) and reply.cut_off):
        return Reading(UNREADABLE)
    return Reading(READ, None)


def read_choice(reply: Answer | NoAnswer, years: tuple[str, str]) -> Reading:
    """Which of two years an answer gives, as they stand in the question: 0 or 1."""
    fault, text = answer_text(reply)
    if fault is not None:
        return fault
    digits = [re.sub(r"\D", "", year) for year in years]
    for names in (years, digits if digits[0] != digits[1] else ()):
        found = mentioned(text, {name: place for place, name in enumerate(names)})
        if len(found) == 1:
            return Reading(READ, found.pop())
    return Reading(REFUSED if declines(text) else UNREADABLE)


def read_period(reply: Answer | NoAnswer) -> Reading:
    """The period that an answer gives, its end None where it still holds.

    Two dates, as YYYY-MM-DD, YYYY-MM or YYYY, before the common era too (``44 BC``); of dates in other forms the year
    is read. Or one date and a word for today behind it.
    """
    fault, text = answer_text(reply)
    if fault is not None:
        return fault
    try:
        text = _SPAN.sub(r"\1 to \2", text)
        found = [(_date(match), match.end()) for match in _DATE.finditer(text)]
        dates = [date for date, _ in found]
        if len(dates) == 1 and mentioned(text[found[0][1] :], dict.fromkeys(STILL, True)):
            return Reading(READ, Period(dates[0], None))
        if len(dates) == 2:
            return Reading(READ, Period(*dates))
    except DataError:  # no day of the calendar, or an end before the start
        return Reading(UNREADABLE)
    return Reading(REFUSED if declines(text) else UNREADABLE)


def _date(match: re.Match[str]) -> Date:
    if match["bce"] is not None:
        return Date(-int(match["bce"]))
    return Date.parse(match["iso"]) if match["iso"] is not None else Date(int(match["year"]))


def declines(text: str) -> bool:
    """Whether words of `DECLINING` stand in a text."""
    return bool(mentioned(text, dict.fromkeys(DECLINING, True)))
