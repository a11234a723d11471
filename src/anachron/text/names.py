"""Which article the lists of a language give a name, for `anachron.text.agreement`."""

import re
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

from anachron.text.words import words_of

_YEAR = re.compile(r" \d{4}(?:[/–-]\d{2,4})?$")  # of what is held every year: Tour de France 2009
NUMBERED = re.compile(r"\d+(?:e|er|re|ère|ème|\.[ºª])")  # 81e, 11.º: a word before the noun
WORK = re.compile(r" [–:] |: |[!?…]")  # signs of a title, which is no name of several words


@cache
def listed_words(language: str) -> Mapping[str, Any]:
    """The lists of a language's file: ``names`` and ``nouns`` that head names of several words, by article or, in
    German, gender (m, f, n, p for plural), and what else its rules need."""
    lists: Mapping[str, Any] = words_of(language, "agreement")
    return lists


def listed_article(name: str, names: Mapping[str, Collection[str]], heads: Mapping[str, Collection[str]]) -> str | None:
    """The article of a name that is listed, or whose first word is a noun that heads names of several words."""
    undated = _YEAR.sub("", name)
    for article, listed in names.items():
        if name in listed or undated in listed:
            return article
    words = name.split(" ")
    named = len(words) > 1 and not WORK.search(name)
    starts = [" ".join(words[:2]), words[0]] if named else []  # Jeux olympiques, but not Jeux de pouvoir
    return next((article for start in starts for article, listed in heads.items() if start in listed), None)


def article_by_ending(name: str, endings: Mapping[str, Collection[str]]) -> str | None:
    """The article of a name that has one of some words behind its first: Tufts University, Newcastle Football Club."""
    if name.startswith("The ") or WORK.search(name):
        return None
    # the word before it is no small one (Nachts im Museum), and the last of several decides (Army Air Corps)
    each = ((article, end) for article, ends in endings.items() for end in ends if end in name)
    found = [
        (match.end(), article)
        for article, end in each
        if (match := re.search(rf"(?:^| )[^a-z ]\S* {re.escape(end)}(?![\w-])", name))
    ]
    return max(found)[1] if found else None


@cache
def _patterns(language: str) -> Mapping[str, re.Pattern[str]]:
    listed: Mapping[str, Collection[str]] = listed_words(language)["patterns"]
    return {article: re.compile("|".join(forms)) for article, forms in listed.items()}


def article_by_pattern(name: str, language: str) -> str | None:
    return next((article for article, form in _patterns(language).items() if form.fullmatch(name)), None)


@cache
def offices(language: str) -> Mapping[str, str]:
    """Nouns of persons in office, in small letters -> their article."""
    persons = (one for one in words_of(language, "roles")["classes"] if one["asks"] == "person")
    found = ((one, re.search(r"(\w+) \[ROLE\]", one["question"])) for one in persons)
    return {noun.casefold(): article[1] for one, article in found if article for noun in one.get("nouns", ())}


def is_behind(before: str, patterns: Collection[str]) -> bool:
    return any(re.search(rf"\b{pattern} $", before) for pattern in patterns)


def office_article(before: str, name: str, language: str) -> str | None:
    """The article of an office of a Romance language. One in capitals may be a name (Rey León) unless a preposition is
    behind it (Rey de España), and one alone is rather a word."""
    lists = listed_words(language)
    small = re.sub(r"^\w+-(?=\w)", "", name.casefold())  # vice-président
    noun = max((noun for noun in offices(language) if f"{small} ".startswith(f"{noun} ")), key=len, default=None)
    if noun is None or is_behind(before, lists["bare_behind"]):
        return None
    rest = small[len(noun) :]
    linked = re.match(r"(?: (?:[fg]eneral|f[eé]d[eé]ral\w*|générale?))? (?:d[eu]l?|des|aux?|al?|en) | d['’]", rest)
    fits = bool(name[0].islower() or linked)
    if not rest:
        fits = (fits or " " in name) and is_behind(before, lists["office_behind"])
    return offices(language)[noun] if fits else None


def is_nicknamed(name: str, language: str) -> bool:
    """Whether a name is that of an American team, in the plural: Minnesota Twins."""
    last = name.rpartition(" ")[2]
    english = words_of("English", "the")
    known = (*english["nicknames"], *listed_words(language)["nicknames"])
    return last != name and last[-1:] in ("s", "x") and last in known and name not in english["without"]["person"]


def is_club(name: str) -> bool:
    """Whether a name of several words has one that only clubs have: Karlsruher SC."""
    words = name.split(" ")
    return len(words) > 1 and not set(words_of("English", "the")["clubs"]).isdisjoint(words)
