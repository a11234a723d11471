"""A subject inside a sentence that is not English: its article, and what it makes of the words before it.

The templates are worded so that nothing else agrees with a subject. Which names take an article is a list of names
and rules by the noun that heads a name of several words, in the language's file; persons and places have none.
"""

import re
import unicodedata
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

from anachron.text.words import words_of

_ADJECTIVE = re.compile(  # with a strong or weak ending
    r"(?:[ts]ch|ig|igt|lich|al|alt|nt|^(?:Frei|Groß|Grün|Neu|Rot|Schwarz|Weiß))e[rs]?$", re.IGNORECASE
)
_NOT_ELIDED = re.compile(r"y[aeiou]|one\b|onz|oui\b|u2\b|united\b|university\b", re.IGNORECASE)
_WITHOUT = frozenset({"Le Corbusier", "Le Nôtre"})  # persons whose name begins as an article does


def in_phrase(before: str, subject: str, language: str) -> tuple[str, str]:
    """What stands in front of a subject, and the subject, as the language joins them.

    before: the words of the template up to its slot, with the space. language: its English name; of any but French,
    German, Portuguese and Spanish both are given back as they are.
    ``("la capitale de ", "Royaume-Uni")`` gives ``("la capitale du ", "Royaume-Uni")``.
    """
    if before.endswith("„"):
        return before, subject  # a name that is quoted stays bare
    # one for each that inflects
    inflecting = {"French": _french, "German": _german, "Portuguese": _portuguese, "Spanish": _spanish}
    rules = inflecting.get(language)
    if rules is None:
        return before, subject
    before, subject = rules(before, subject)
    return (before, subject) if before else ("", subject[0].upper() + subject[1:])


@cache
def _listed(language: str) -> Mapping[str, Any]:
    """The lists of a language's file: ``names`` and ``nouns`` that head names of several words, by article or, in
    German, gender (m, f, n, p for plural), and what else its rules need."""
    lists: Mapping[str, Any] = words_of(language, "agreement")
    return lists


def _article(name: str, names: Mapping[str, Collection[str]], heads: Mapping[str, Collection[str]]) -> str | None:
    """The article of a name that is listed, or whose first word is a noun that heads names of several words."""
    for article, listed in names.items():
        if name in listed:
            return article
    first, _, rest = name.partition(" ")
    return next((article for article, listed in heads.items() if rest and first in listed), None)


def _french(before: str, subject: str) -> tuple[str, str]:
    own = re.match(r"(?:le|les) (?=\S)", subject, re.IGNORECASE)
    if own and subject not in _WITHOUT:
        article, name = own[0].strip().lower(), subject[own.end() :]
        contracted = _french_contraction(before, article)
        return (before, subject) if contracted is None else (contracted, name)
    lists = _listed("French")
    found = _article(subject.replace("\u2019", "'"), lists["names"], lists["first_words"])
    found = found or _article(subject.casefold(), {}, lists["nouns"])  # with a capital or without
    if found is None:
        return (re.sub(r"\b([Dd])e $", r"\1'", before) if _elides(subject) else before), subject
    contracted = _french_contraction(before, found)
    if contracted is not None:
        return contracted, subject
    return before, found + ("" if found == "l'" else " ") + subject


def _french_contraction(before: str, article: str) -> str | None:
    """``de`` and ``le`` are ``du``, ``à`` and ``les`` are ``aux``; None where nothing contracts."""
    words = {"de le": "du", "de les": "des", "à le": "au", "à les": "aux"}
    found = re.search(r"(?<!\w)(de|à) $", before)
    contracted = words.get(f"{found[1]} {article}") if found else None
    return None if found is None or contracted is None else f"{before[: found.start()]}{contracted} "


def _elides(name: str) -> bool:
    """Whether ``de`` is ``d'`` before a name: before a vowel, and before the names in h that are known to be mute."""
    if _NOT_ELIDED.match(name):
        return False
    first = unicodedata.normalize("NFD", name.casefold())[:1]
    return first in {*"aeiouyœæ"} or name.casefold().startswith(tuple(_listed("French")["mute_h"]))


def _spanish(before: str, subject: str) -> tuple[str, str]:
    lists = _listed("Spanish")
    first, _, rest = subject.partition(" ")
    article = None
    if first in lists["before_nouns"]:  # the noun behind it says the gender, also where it ends the name
        article = _article(f"{rest} ...", {}, lists["nouns"])
    article = article or _article(subject, lists["names"], lists["nouns"])
    if article is None and not re.search(r"\b(cargo|puesto) de $", before):
        article = _article(subject, {}, lists["offices"])  # not behind "cargo de"
    if article is None and subject.startswith("el "):
        article, subject = "el", subject[3:]
    if article is None:
        return before, subject
    if article == "el" and (found := re.search(r"(?<!\w)(de|a) $", before)):
        return f"{before[: found.end() - 1]}l ", subject
    return before, f"{article} {subject}"


def _portuguese(before: str, subject: str) -> tuple[str, str]:
    """As ``_spanish``; but most names have an article, also those of firms and teams, and no list holds them all. So
    templates call their subject what it is ("da empresa Kodiak"), which gives way to an article that is known ("da
    Boeing")."""
    lists = _listed("Portuguese")
    if before.endswith(tuple(f"{words} " for words in lists["bare_behind"])):
        return before, subject  # "o cargo de presidente", "o programa Fantástico"
    own = re.match(r"(o|a|os|as) (?=\S)", subject)  # in small letters: O Globo is a name
    name = subject[own.end() :] if own else subject
    article = own[1] if own else _portuguese_article(name)
    if article is None:
        return before, subject
    if called := re.search(rf"(?<!\w)({'|'.join(lists['called'])}) $", before):
        before = before[: called.start()] + lists["called"][called[1]]
    preposition = re.search(r"(?<!\w)(de|em|por|a) $", before)
    if preposition is None:
        return before, f"{article} {name}"
    return f"{before[: preposition.start()]}{lists['contracted'][f'{preposition[1]} {article}']} ", name


def _portuguese_article(name: str) -> str | None:
    """o, a, os or as: of the listed names, else by the noun that heads the name or, in foreign ones, stands behind."""
    lists = _listed("Portuguese")
    found = _article(name, lists["names"], {})
    first, _, rest = name.partition(" ")
    if found or not rest.strip() or name in lists["bare"]:
        return found
    if ordinal := re.fullmatch(r"\d+\.?([ºª])", first):  # 11.º Exército
        return "o" if ordinal[1] == "º" else "a"
    small = name.casefold()
    if first.casefold() in lists["before_nouns"]:  # Primeira Guerra Mundial
        found = _article(f"{rest.casefold()} ...", {}, lists["nouns"]) or _article(rest, lists["names"], {})
    found = found or _article(small, {}, lists["nouns"]) or _article(small, {}, lists["offices"])
    # towns are named after rivers and hills (Rio Branco), unless small letters or what is behind tell
    if found is None and (first.islower() or re.match(r"d(?:e|[ao]s?) |\d", rest)):  # Ponte 25 de Abril
        found = _article(small, {}, lists["nouns_of_places"])
    if found is None and first != "The":
        behind = re.sub(r"[.,]", "", rest).split()[::-1]  # Arsenal F.C., Sevilla FC Puerto Rico
        found = next((a for word in behind for a, known in lists["words_behind"].items() if word in known), None)
    return found


def _german(before: str, subject: str) -> tuple[str, str]:
    own = re.match(r"(der|die|das) (?=[A-ZÄÖÜ])", subject)
    name = subject[own.end() :] if own else subject
    lists = _listed("German")
    gender = _german_gender(name)
    if own and gender is None:  # of "die" the plural is known by its adjective: die Vereinigten Staaten
        gender = {"der": "m", "die": "p" if re.match(r"\w+en ", name) else "f", "das": "n"}[own[1]]
    if gender is None:
        return before, subject
    if attribute := re.search(r"(?<!\w)[A-ZÄÖÜ]\w+ (von )$", before):  # behind a noun: das Staatsoberhaupt der Schweiz
        return f"{before[: attribute.start(1)]}{lists['articles'][gender][3]} ", _declined(name, gender, 3)
    preposition = re.search(r"(?<!\w)(\w+) $", before)
    word = preposition[1] if preposition else ""
    # the accusative follows two prepositions, "man" and those verbs of the templates whose object is the subject
    cases = (lists["accusative_behind"], lists["dative_behind"])
    case = next((number for number, behind in enumerate(cases, 1) if word.lower() in behind), 0)
    article = lists["articles"][gender][case]
    name = _declined(name, gender, case)
    if (joined := lists["contracted"].get(f"{word.lower()} {article}")) and preposition:
        return f"{before[: preposition.start()]}{joined} ", name
    return before, f"{article} {name}"


def _german_gender(subject: str) -> str | None:
    """m, f, n or p (plural): of the listed names, and by the noun behind the adjectives, where that heads the name."""
    lists: Mapping[str, Mapping[str, Collection[str]]] = _listed("German")
    for gender, listed in lists["names"].items():
        if subject in listed:
            return gender
    words = subject.split()
    head = words[_head(words)] if words else ""
    for gender, listed in lists["nouns"].items():
        if any(head == noun or _compound(head, noun) for noun in listed):
            return gender
    return None


def _head(words: list[str]) -> int:
    """The place of the noun behind the adjectives, or of the last word where there is none."""
    place = next((i for i, word in enumerate(words) if not _ADJECTIVE.search(word) and word != "Christlich"), -1)
    given = _listed("German")["given_names"]  # which end as the adjectives of towns do: Peter Bank
    if 0 <= place < len(words) - 1 and words[place].endswith("er") and words[place] not in given:
        place += 1  # the Weimarer Republik
    return place


def _compound(word: str, noun: str) -> bool:
    """Whether a word is made of a noun and others before it; short nouns end too many names (Ararat, Österreich)."""
    return len(noun) > 5 and word.endswith(noun.lower())


def _declined(subject: str, gender: str, case: int) -> str:
    """A name behind its article: its adjectives take the weak ending, some plurals the ``n`` of the dative, and its
    noun the ``s`` of the genitive."""
    ending = "en" if gender == "p" or case > 1 or (gender == "m" and case == 1) else "e"
    words = subject.split()
    place = _head(words)
    for i, word in enumerate(words[:-1]):
        if not _ADJECTIVE.search(word):
            if word != "Christlich":
                break
            continue
        words[i] = re.sub(r"e[rs]?$", ending, word)
    if gender == "p" and case == 2:
        plurals = ("Niederlande", "Emirate", "Streitkräfte")
        words = [f"{word}n" if word in plurals else word for word in words]
    elif gender in "mn" and case == 3 and _takes_s(subject, words[place]):
        words[place] += "es" if words[place].casefold().endswith(("bund", "haus")) else "s"
    return " ".join(words)


def _takes_s(subject: str, noun: str) -> bool:
    """Whether a noun has an ``s`` in the genitive: not a country (des Iran), an abbreviation, or what ends in one."""
    if noun in ("Haus", "Vatikan"):
        return True
    if noun.endswith("s") or " of " in subject or subject in _listed("German")["names"]["m"]:
        return False
    last = noun.rsplit("-", 1)[-1]
    return last[1:] == last[1:].lower()
