"""A subject in a French sentence: *du Royaume-Uni*, *d'Albert Camus*, *de l'organisation Corriere della Sera*."""

import re
import unicodedata

from anachron.text.names import (
    NUMBERED,
    article_by_ending,
    article_by_pattern,
    is_behind,
    is_club,
    is_nicknamed,
    listed_article,
    listed_words,
    office_article,
)

_NOT_ELIDED = re.compile(r"y[aeiouàâéèêô]|one\b|onz|oui\b|u2\b|united\b|university\b", re.IGNORECASE)
_NO_NOUN = re.compile(r".* (?:of|the|and|for|in) |[A-ZÀ-Ý]\S* (?:et|ou|à) ")  # English, or a title in French


def join(before: str, subject: str) -> tuple[str, str]:
    """Templates call their subject what it is where a name alone may lack its article ("de l'organisation Corriere
    della Sera"). That gives way to an article that is known ("du Monde") and to names that are ``bare`` ("d'EDF").
    Behind words for things of many kinds, the ``quoted``, a name stays in quotation marks (« Belem »)."""
    if before.endswith("« "):  # a name that is quoted stays bare
        return (re.sub(r"\bde « $", "d'« ", before) if _elides(subject) else before), subject
    lists, plain = listed_words("French"), subject.replace("\u2019", "'")
    own = None if subject in lists["no_articles"] else re.match(r"(?:les?|la) (?=\S)|l'(?=\w)", plain, re.IGNORECASE)
    found = own[0].strip().lower() if own else _article(before, plain)
    if called := re.search(rf"(?<!\w)({'|'.join(lists['called'])}) $", before):
        noun = re.split(r"[ ']", called[1])[-1]
        if _needs_no_noun(noun, plain, found):
            before = before[: called.start()] + lists["called"][called[1]]
        elif noun in lists["quoted"]:
            return before, f"« {subject} »"
    if found is None:
        return (re.sub(r"\b([Dd])e $", r"\1'", before) if _elides(subject) else before), subject
    contracted = _contraction(before, found)
    if contracted is not None:
        return contracted, subject[own.end() :] if own else subject
    if own:
        return before, subject
    return before, found + ("" if found == "l'" else " ") + subject


def _needs_no_noun(noun: str, name: str, article: str | None) -> bool:
    """Whether a name stands alone where a template calls it ``noun``: its article is known, or that it has none. Among
    ``goods`` a name may be that of a place as well: la Normandie is a region, and le Normandie a ship."""
    lists = listed_words("French")
    if noun not in lists["goods"]:
        return bool(article or name in lists["bare"] or re.fullmatch(lists["bare_towns"], name))
    a_word = re.fullmatch(r"[A-ZÉ][^ A-Z]+", name) and any(name in listed for listed in lists["names"].values())
    return bool(article and not a_word) or name in lists["bare"]


def _article(before: str, name: str) -> str | None:
    """le, la, l' or les: of the listed names, offices and teams, else by the noun that heads the name or ends it.

    ``bare_offices_behind`` are words behind which an office has none, ``english_nouns`` nouns that are English too.
    """
    lists = listed_words("French")
    if is_behind(before, lists["bare_offices_behind"]):
        return None  # la fonction d'archevêque de Reims
    first, _, rest = name.casefold().partition(" ")  # a noun is also looked for behind "81e" and "grande"
    noun = f"{rest} ..." if first in lists["before_nouns"] or NUMBERED.fullmatch(first) else name.casefold()
    found = listed_article(name, lists["names"], {}) or article_by_pattern(name, "French")
    found = found or listed_article(name, {}, lists["first_words"])
    # with a capital or without, but not in English (Police Academy) or in a title (Guerre et Paix)
    foreign = _NO_NOUN.match(name) or (first in lists["english_nouns"] and re.match(r"[A-Z]\S* [A-Z\d]", name))
    found = found or (None if foreign else listed_article(noun, {}, lists["nouns"]))
    found = found or office_article(before, name, "French")
    found = found or _team(name)
    found = found or (None if " & " in name else article_by_ending(name, lists["endings"]))  # McKinsey & Company
    if found in ("le", "la", "l'") and _elides(name):
        return "l'"
    if found == "l'" and noun != name.casefold():  # the word before the noun tells the gender, unless it is an ordinal
        told = rest.split()[0] if re.search(r"ième$|\d", first) else first
        return "la" if told.endswith(("e", "té", "tion")) else "le"
    return found


def _team(name: str) -> str | None:
    """The article of a team: Nets de Brooklyn, Thunder d'Oklahoma City, Cincinnati Bengals, KSV Roulers."""
    team = re.match(r"(.+?) (?:de |d'|du |des )", name)
    if team and team[1].rpartition(" ")[2] in listed_words("French")["teams"]:
        return "le"
    if is_nicknamed(f"the {team[1]}" if team else name, "French"):
        return "les"
    return "le" if is_club(name) else None


def _contraction(before: str, article: str) -> str | None:
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
    return first in {*"aeiouyœæ"} or name.casefold().startswith(tuple(listed_words("French")["mute_h"]))
