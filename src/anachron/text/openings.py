"""How questions begin, in each language that dates are worded in: what tells the language, and loses its capital.

Also where a word ends, in scripts that write spaces between words and in those that do not.
"""

import re
import unicodedata
from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Literal

from anachron.core.sameness import name_key
from anachron.text.words import by_language


@cache
def openings() -> Mapping[str, frozenset[str]]:
    """Language -> the words that open its questions."""
    return {language: frozenset(words) for language, words in by_language("openings").items()}


def behind_opening(opening: str, text: str, subject: str = "", language: str = "English") -> str:
    """A question or prompt behind an opening that ends in a space: ``In 2011, `` and ``Who led France?``.

    Its first word loses its capital where it opens questions or statements of the language, unless it begins the
    subject's name (``In 2011, The Hague is located in``) or is written in capitals (``WHO``). Of a language that is not
    known here none does.
    """
    first = text.split(" ", 1)[0]
    lowered = first.lower()
    named = subject and re.match(rf"{re.escape(subject)}(?!\w)", text)
    opens = lowered in openings().get(language, ()) or lowered in by_language("articles").get(language, ())
    if opens and not named and first == first.capitalize():
        text = lowered + text[len(first) :]
    return opening + text


def guessed_language(questions: Iterable[str]) -> str | None:
    """The language that more than half of the questions are in by their first word; None where they do not tell.

    A word that opens questions in two languages ("in", "was") counts for neither.
    """
    votes: Counter[str | None] = Counter()
    for question in questions:
        first = question.lstrip("¿ ").split(" ", 1)[0].lower()
        of = [language for language, words in openings().items() if first in words]
        votes[of[0] if len(of) == 1 else None] += 1
    language, count = next(iter(votes.most_common(1)), (None, 0))
    return language if 2 * count > votes.total() else None


UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")


def goes_on(left: str, right: str) -> bool:
    """Whether two neighbouring characters are of one word: letters, digits, and the marks that belong to letters.

    Scripts that write words, or a name and its particle, without a space have no such border: any will do there, but
    never one inside a character. An empty text, for the end, goes on from nothing.
    """
    if _joins(right):
        return bool(left)
    if not all(c and (c.isalnum() or unicodedata.category(c).startswith("M")) for c in (left, right)):
        return False
    return not any(unicodedata.name(c, "").startswith(UNSPACED) for c in (left, right))


def _joins(sign: str) -> bool:
    """Whether a character is composed with the one before it: a mark, or what follows the first consonant of a Korean
    syllable. An empty text is not."""
    first = unicodedata.normalize("NFKD", sign)[:1]
    return bool(first) and (unicodedata.category(first).startswith("M") or "\u1160" <= first <= "\u11ff")


def last_mention(text: str, name: str) -> int | None:
    """Where a name begins that a text mentions as a whole word, the last of several; None where it does not."""
    mentions = [mention.start() for mention in re.finditer(f"(?={re.escape(name)})", text)]
    whole = [start for start in mentions if _is_whole(text, start, start + len(name))]
    return whole[-1] if whole else None


def mention(text: str, name: str) -> tuple[int, int] | None:
    """Where the last mention of a name as a whole word begins and ends: as it is written, else in another spelling of
    it (`anachron.core.sameness`), else in compatible letters (``ﬁ`` for ``fi``, full width; NFKC). A name in capitals
    (WHO) is not found in a word of small letters (who)."""
    if (start := last_mention(text, name)) is not None:
        return start, start + len(name)
    return _spelled(text, name, "NFC") or _spelled(text, name, "NFKC")


def _spelled(text: str, name: str, form: Literal["NFC", "NFKC"]) -> tuple[int, int] | None:
    """Where the last mention of a name is, in any spelling that has its key in this normal form."""
    name = unicodedata.normalize(form, name)
    key = name_key(name)
    if not key or key not in name_key(unicodedata.normalize(form, text)):
        return None
    ends = [end for end in range(1, len(text) + 1) if not _joins(text[end : end + 1])]
    for start in reversed(range(len(text))):
        if not name_key(text[start]):  # white space or an invisible character, with which no mention begins
            continue
        for end in ends[bisect(ends, start) :]:
            part = unicodedata.normalize(form, text[start:end])
            found = name_key(part)
            if found == key and _is_whole(text, start, end) and not (name.isupper() and part.islower()):
                return start, end
            if not key.startswith(found):
                break
    return None


def _is_whole(text: str, start: int, end: int) -> bool:
    """Whether the span begins and ends where words do."""
    return not goes_on(text[start - 1 : start], text[start]) and not goes_on(text[end - 1], text[end : end + 1])
