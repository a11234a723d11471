"""What an answer says: a name, one of two years, a period; or that none can be read.

Names and words are compared as `plain` writes them: without marks on letters, case and punctuation, as whole words. A
name counts where the answer holds it anywhere; of names that lie within each other ("York", "New York") the longest
counts. An answer that holds names of several objects, or both years, says neither; nor does one that names something
only to deny it ("not 1998", "I cannot determine 2011") or to speak of another ("her predecessor"). Words that decline
count otherwise only where nothing can be read. What cannot be read for sure is unreadable rather than wrong.
"""

import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, TypeVar

from anachron.core.dates import Date
from anachron.core.errors import DataError
from anachron.core.periods import Period
from anachron.core.sameness import plain
from anachron.io.answers import Answer
from anachron.io.llm_settings import NoAnswer
from anachron.io.reasoning import has_unknown_marks, split_reasoning
from anachron.text.openings import goes_on
from anachron.text.words import phrases

READ, REFUSED, EMPTY, UNREADABLE, UNANSWERED = "read", "refused", "empty", "unreadable", "unanswered"
UNREAD = (REFUSED, EMPTY, UNREADABLE, UNANSWERED)
Key = TypeVar("Key", bound=Hashable)

# A number of three or four digits is a year unless it is part of a word or of a decimal number. Letters of scripts that
# write no spaces may stand around it (1949\u5e74).
_DATE = re.compile(
    r"(?<![\w-])(?P<iso>-?\d{4,}-\d\d(?:-\d\d)?)(?![\w-])"
    r"|(?<![\w.-])(?P<day>\d{1,2})\. ?(?P<month>\d{1,2})\. ?(?P<of>\d{4})(?![\w-]|\.\d)"
    r"|(?<![\w./])(?P<slashes>\d{1,2}/\d{1,2}/(?P<of_slashes>\d{4}))(?![\w/])"
    r"|(?<![\w.-])(?P<year_first>\d{4})\.(?P<then>\d\d)\.(?P<last>\d\d)(?![\w-]|\.\d)"
    r"|(?<![\w.,-])(?P<bce>\d{1,4})\s*(?:BCE|BC|B\.C\.|v\. ?Chr\.|av\. ?J\.|a\. ?C\.)"
    r"|(?<![A-Za-z0-9_\u00c0-\u024f-])(?<!\d[.,])(?P<year>-\d{4}|\d{3,4})(?![A-Za-z0-9_\u00c0-\u024f]|[.,]\d)"
)
_SPAN = re.compile(r"(?<![\w.-])(\d{4})\s*-\s*(\d{4})(?!\w|-\d)")  # 2009-2017, which is no month
_CLAUSE = re.compile(r"[,;:.!?()\n\u2013\u2014\u3001\u3002\uff0c\uff1b]+")
_SENTENCE = re.compile(r"[;\n]|[.!?](?=\s|\Z)")


@cache
def _denied() -> tuple[str, ...]:
    return tuple(f"{words} " for words in phrases("denying_behind"))


@cache
def _assuring() -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(phrases('assuring'))})\b")


@dataclass(frozen=True, slots=True)
class Reading:
    """outcome: `READ`, or why nothing was: `REFUSED`, `EMPTY`, `UNREADABLE`, `UNANSWERED` (the server gave no answer).
    value: what was read: the key of an object, 0 or 1 for the first or second year, a `Period`."""

    outcome: str
    value: Any = None


_plain_name = lru_cache(maxsize=1 << 14)(plain)  # names are looked for in every answer


def mentioned(text: str, names: Mapping[str, Key]) -> set[Key]:
    """The keys of the names that a text holds as whole words, without those that lie within a longer one."""
    return {key for _, _, key in _mentions(plain(text), names)}


def _mentions(said: str, names: Mapping[str, Key]) -> list[tuple[int, int, Key]]:
    """Where the names of `mentioned` begin and end in a `plain` text."""
    spans: list[tuple[int, int, Key]] = []
    for name, key in names.items():
        wanted = _plain_name(name)
        at = said.find(wanted) if wanted else -1
        while at >= 0:
            end = at + len(wanted)
            if not goes_on(said[at - 1 : at] if at else "", said[at]) and not goes_on(
                said[end - 1], said[end : end + 1]
            ):
                spans.append((at, end, key))
            at = said.find(wanted, at + 1)
    return [
        (start, end, key)
        for start, end, key in spans
        if not any(a <= start and end <= b and b - a > end - start for a, b, _ in spans)
    ]


def _meant(text: str, names: Mapping[str, Key]) -> tuple[set[Key], set[Key]]:
    """The keys of names that an answer mentions, and of those it mentions only to deny them or to speak of another."""
    clauses = [clause for clause in map(plain, _CLAUSE.split(text)) if clause]
    said, starts = " ".join(clauses), [0]
    for clause in clauses:
        starts.append(starts[-1] + len(clause) + 1)
    found = _mentions(said, names)
    keys, meant = {key for _, _, key in found}, set[Key]()
    for start, end, key in found:
        first, last = max(s for s in starts if s <= start), min(s for s in starts if s > end - 1)
        before, after = _assuring().sub("", said[first:start]).split(), said[end:last].split()
        assured = _assuring().search(said[first:start]) is not None
        turn = max((place for place, word in enumerate(before, 1) if word in phrases("but")), default=0)
        before = before[turn:]
        denied = any(word in phrases("denying") for word in before[-4:]) or declines(" ".join(before))
        # "mais" of "não é mais" turns nothing, though it is a "but" of French
        denied |= bool(mentioned(said[first:start], dict.fromkeys(phrases("no_longer"), True)))
        # "ob es 1998 war", behind "I cannot say"; but not "if I am not mistaken it was 1998"
        denied |= not assured and any(word in phrases("whether") for word in before[:1])
        denied |= f"{' '.join(after[:3])} ".startswith(_denied())
        # "until 2017 Barack Obama" speaks of what is until 2017
        beside = any(word in phrases("beside") for word in before[-2:]) and not before[-1].isdigit()
        related = any(word in phrases("related") for word in before[-4:])
        another = beside or (after[:1] == ["s"] and len(after) > 1) or related
        if not (denied or another):
            meant.add(key)
    return keys, keys - meant


def answer_text(reply: Answer | NoAnswer) -> tuple[Reading | None, str]:
    """Why a reply holds no answer, if it does not, and its text without reasoning."""
    if isinstance(reply, NoAnswer):
        return Reading(UNANSWERED), ""
    text = split_reasoning(reply.text)[0]
    if reply.refusal or reply.finish == "content_filter":
        return Reading(REFUSED), reply.refusal or text
    if has_unknown_marks(text):
        return Reading(UNREADABLE), text
    return (None, text) if text else (Reading(EMPTY), "")


def read_name(reply: Answer | NoAnswer, names: Mapping[str, Key]) -> Reading:
    """Whose name an answer gives. names: name -> key of the object. The value is None where it is nobody's of these.

    An answer that was cut off and names none of them is unreadable.
    """
    fault, text = answer_text(reply)
    if fault is not None:
        return fault
    found, denied = _meant(text, names)
    if len(found) == 1 and not denied:
        return Reading(READ, found.pop())
    if declines(text):
        return Reading(REFUSED)
    words = plain(text).split()
    related = any(word in phrases("related") for word in words)  # of names not asked about too
    unsure = not words or words[0] in phrases("denying") or related
    if found or unsure or (isinstance(reply, Answer) and reply.cut_off):
        return Reading(UNREADABLE)
    return Reading(READ, None)


def read_choice(reply: Answer | NoAnswer, years: tuple[str, str]) -> Reading:
    """Which of two years an answer gives, as they stand in the question: 0 or 1."""
    fault, text = answer_text(reply)
    if fault is not None:
        return fault
    digits = [re.sub(r"\D", "", year) for year in years]
    for names in (years, digits if digits[0] != digits[1] else ()):
        found, denied = _meant(text, {name: place for place, name in enumerate(names)})
        if len(found) == 1 and not denied:
            return Reading(READ, found.pop())
        if found:
            break
    return Reading(REFUSED if declines(text) else UNREADABLE)


def read_period(reply: Answer | NoAnswer) -> Reading:
    """The period that an answer gives, its end None where it still holds.

    Two dates, as YYYY-MM-DD, YYYY-MM, YYYY, YYYY.MM.DD or DD.MM.YYYY, before the common era too (``44 BC``); of dates
    in other forms the year is read. Or one date and a word for today behind it, or one since which something is said to
    hold ("since 2021"). The date on which something is said to
    be so ("as of 2024", "until now, i.e. 2024") is none of them. Of several sentences one gives the period, if the
    others hold no other year.
    """
    fault, text = answer_text(reply)
    if fault is not None:
        return fault
    try:
        text = _SPAN.sub(r"\1 to \2", text)
        dates = _dates(text)
        if len(dates) == 1 and any(_since(text[: date.start()]) for date in _DATE.finditer(text)):
            dates.append(None)
        if len(dates) < 2 and None not in (all_dates := _dates(text, from_first=True)):  # "Status: 2009 to 2017"
            dates = all_dates
        if len(dates) > 2:
            given = [two for part in _SENTENCE.split(text) if len(two := _dates(part)) == 2]
            others = {date.year for date in dates if date is not None}
            if len(given) == 1 and others == {date.year for date in given[0] if date is not None}:
                dates = given[0]
        if len(dates) == 2 and dates[0] is not None:
            return Reading(READ, Period(*dates))
    except DataError:  # no day of the calendar, or an end before the start
        return Reading(UNREADABLE)
    return Reading(REFUSED if declines(text) else UNREADABLE)


def _dates(text: str, *, from_first: bool = False) -> list[Date | None]:
    """The dates in a text in its order, None for today: once, behind the first date, and without dates of reports.

    from_first: the first date of the text is none of a report.
    """
    found = list(_DATE.finditer(text))
    dates: list[Date | None] = []
    at, today = 0, False
    for match in found:
        between = text[at : match.start()]
        at = match.end()
        words = f" {plain(between)}"
        of_report = any(words.endswith(f" {one}") for one in phrases("as_of"))
        still = bool(dates) and bool(mentioned(between, dict.fromkeys(phrases("still"), True)))
        if still and not today and len(dates) == 1:
            dates, today = [*dates, None], True
        of_report = of_report and not (from_first and match is found[0])
        if of_report or (today and still):  # "now, i.e. 2024", "today (2024)"
            continue
        dates.append(_date(match))
    if len(dates) == 1 and mentioned(text[at:], dict.fromkeys(phrases("still"), True)):
        dates.append(None)
    return dates


def _since(before: str) -> bool:
    """Whether what stands before a date says that something holds since then: "since 8 December 2021"; not where it
    denies it, "no longer since 2021"."""
    words = plain(_CLAUSE.split(before)[-1]).split()
    return any(word in phrases("since") for word in words[-4:]) and not any(
        word in phrases("denying") for word in words
    )


def _date(match: re.Match[str]) -> Date:
    if match["bce"] is not None:
        return Date(-int(match["bce"]))
    if match["of_slashes"] is not None:  # of days and months, which of the two comes first is not known
        return Date(int(match["of_slashes"]))
    if match["of"] is not None:
        return Date(int(match["of"]), int(match["month"]), int(match["day"]))
    if match["year_first"] is not None:
        return Date(int(match["year_first"]), int(match["then"]), int(match["last"]))
    return Date.parse(match["iso"]) if match["iso"] is not None else Date(int(match["year"]))


def declines(text: str) -> bool:
    """Whether words by which somebody declines to answer stand in a text."""
    return bool(mentioned(text, dict.fromkeys(phrases("declining"), True)))
