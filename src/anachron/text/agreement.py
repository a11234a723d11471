"""A subject inside a sentence that is not English: its article, and what it makes of the words before it.

The templates are worded so that nothing else agrees with a subject. Which names take an article is data in the
language's file, under ``agreement``: ``names`` as they are; ``nouns`` that head names of several words, in French also
``first_words``, one word or two (Jeux olympiques); ``endings``, words behind the first (Tufts University); ``teams``
and ``nicknames`` of American teams; ``patterns`` of whole names (a maker and its model: Boeing 747); and what looks
like these and takes none, ``without``. Offices (roi d'Espagne) are known by the persons of ``roles``; one that stands
alone has its article behind the words of ``office_behind`` (la résidence officielle du pape). Persons and places have
none. In German a name of which none of this tells is quoted or called what it is behind the words of ``called_behind``,
unless it is like those that stay ``bare`` there; ``titles`` begin as titles do, and are quoted.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Mapping
from functools import cache

from anachron.text.names import (
    WORK,
    article_by_ending,
    article_by_pattern,
    is_behind,
    is_club,
    is_nicknamed,
    listed_article,
    listed_words,
    office_article,
    offices,
)

_ADJECTIVE = re.compile(  # with a strong or weak ending; Leipziger and Wuppertaler have none
    r"(?:[ts]ch(?<!^Porsch)(?<!^Fisch)|ig|igt|lich|alt|iert|\w{3}(?:al|är|bar|iv|nt|sam)|^(?:Frei|Groß|Grün|Neu|Rot|Schwarz|Weiß))"
    r"(?:es?|(?<!zig)(?<!eig)(?<!tal)(?<!hal)er)$|^\d+\.$",
    re.IGNORECASE,
)
_SURE_ADJECTIVE = re.compile(r"\w{3,}(?:isch|lich|iert)e[rs]?|(?:\w+d|D)eutsche[rs]?")  # and no name, as Massive is
# des Landkreises, des Kreuzes
_GENITIVE_ES = re.compile(r"(?:bund|dienst|haus|kreis|preis|wald|papst|nis|ss|ß|z)$", re.IGNORECASE)
_TITLE = re.compile(  # in German; its article stays
    rf"(?:Der|Die|Das|Ein|Eine) |L['’]|\w+ (?:und|oder) \w+$|(?:\S+ ){{9}}|.*(?:{WORK.pattern})"
)
_FOREIGN = re.compile(r".* of |\S+ (?:for|de|du|di|del|della|national\w*|d['’]\w+)\b")  # its noun is no German one
_NUMBERED = re.compile(r"\d+(?:e|er|re|ère|ème|\.[ºª])")
_NOT_ELIDED = re.compile(r"y[aeiouàâéèêô]|one\b|onz|oui\b|u2\b|united\b|university\b", re.IGNORECASE)
_NO_NOUN = re.compile(r".* (?:of|the|and|for|in) |[A-ZÀ-Ý]\S* (?:et|ou|à) ")  # English, or a title in French
# persons whose name begins as an article does
_WITHOUT = frozenset({"Le Brun", "Le Clézio", "Le Corbusier", "Le Nain", "Le Nôtre"})


def in_phrase(before: str, subject: str, language: str) -> tuple[str, str]:
    """What stands in front of a subject, and the subject, as the language joins them.

    before: the words of the template up to its slot, with the space. language: its English name; of any but French,
    German, Portuguese and Spanish both are given back as they are.
    ``("la capitale de ", "Royaume-Uni")`` gives ``("la capitale du ", "Royaume-Uni")``.
    """
    if before.endswith("„"):
        return before, subject  # a name that is quoted stays bare
    if language not in _RULES or subject in listed_words(language).get("without", ()):
        return before, subject
    before, subject = _RULES[language](before, subject)
    return (before, subject) if before else ("", subject[0].upper() + subject[1:])


def in_doubt(subject: str, language: str) -> bool:
    """Whether a subject looks as if it took an article, and no rule knows which: ``primatiale Saint-Jean``.

    It is a noun where its first word is small, or in German an adjective. Of languages without rules nothing is known.
    """
    if language not in _RULES or not subject.strip():
        return False
    first = subject.split()[0]
    if language == "German":
        a_noun = first != subject and _is_adjective(first) and first not in listed_words(language)["given_names"]
    else:
        a_noun = first[0].islower() and first[-1:].isalpha()
    return a_noun and in_phrase("x ", subject, language)[1] == subject


def _french(before: str, subject: str) -> tuple[str, str]:
    """Templates call their subject what it is where a name alone may lack its article ("de l'organisation Corriere
    della Sera"). That gives way to an article that is known ("du Monde") and to names that are ``bare`` ("d'EDF").
    Behind words for things of many kinds, the ``quoted``, a name stays in quotation marks (« Belem »)."""
    if before.endswith("« "):  # a name that is quoted stays bare
        return (re.sub(r"\bde « $", "d'« ", before) if _elides(subject) else before), subject
    lists, plain = listed_words("French"), subject.replace("\u2019", "'")
    own = None if subject in _WITHOUT else re.match(r"(?:les?|la) (?=\S)|l'(?=\w)", plain, re.IGNORECASE)
    found = own[0].strip().lower() if own else _french_article(before, plain)
    if called := re.search(rf"(?<!\w)({'|'.join(lists['called'])}) $", before):
        noun = re.split(r"[ ']", called[1])[-1]
        if _needs_no_noun(noun, plain, found):
            before = before[: called.start()] + lists["called"][called[1]]
        elif noun in lists["quoted"]:
            return before, f"« {subject} »"
    if found is None:
        return (re.sub(r"\b([Dd])e $", r"\1'", before) if _elides(subject) else before), subject
    contracted = _french_contraction(before, found)
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


def _french_article(before: str, name: str) -> str | None:
    """le, la, l' or les: of the listed names, offices and teams, else by the noun that heads the name or ends it.

    ``bare_offices_behind`` are words behind which an office has none, ``english_nouns`` nouns that are English too.
    """
    lists = listed_words("French")
    if is_behind(before, lists["bare_offices_behind"]):
        return None  # la fonction d'archevêque de Reims
    first, _, rest = name.casefold().partition(" ")  # a noun is also looked for behind "81e" and "grande"
    noun = f"{rest} ..." if first in lists["before_nouns"] or _NUMBERED.fullmatch(first) else name.casefold()
    found = listed_article(name, lists["names"], {}) or article_by_pattern(name, "French")
    found = found or listed_article(name, {}, lists["first_words"])
    # with a capital or without, but not in English (Police Academy) or in a title (Guerre et Paix)
    foreign = _NO_NOUN.match(name) or (first in lists["english_nouns"] and re.match(r"[A-Z]\S* [A-Z\d]", name))
    found = found or (None if foreign else listed_article(noun, {}, lists["nouns"]))
    found = found or office_article(before, name, "French")
    found = found or _french_team(name)
    found = found or (None if " & " in name else article_by_ending(name, lists["endings"]))  # McKinsey & Company
    if found in ("le", "la", "l'") and _elides(name):
        return "l'"
    if found == "l'" and noun != name.casefold():  # the word before the noun tells the gender, unless it is an ordinal
        told = rest.split()[0] if re.search(r"ième$|\d", first) else first
        return "la" if told.endswith(("e", "té", "tion")) else "le"
    return found


def _french_team(name: str) -> str | None:
    """The article of a team: Nets de Brooklyn, Thunder d'Oklahoma City, Cincinnati Bengals, KSV Roulers."""
    team = re.match(r"(.+?) (?:de |d'|du |des )", name)
    if team and team[1].rpartition(" ")[2] in listed_words("French")["teams"]:
        return "le"
    if is_nicknamed(f"the {team[1]}" if team else name, "French"):
        return "les"
    return "le" if is_club(name) else None


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
    return first in {*"aeiouyœæ"} or name.casefold().startswith(tuple(listed_words("French")["mute_h"]))


def _spanish(before: str, subject: str) -> tuple[str, str]:
    """Templates call their subject what it is ("del equipo Arsenal de Kiev"), which gives way to an article that is
    known ("del Real Madrid"). Where its kinds are too many for that, an unknown name is
    quoted ("la ubicación de «Guernica»"), but for such as only places have (``never_quoted``)."""
    if before.endswith("«"):
        return before, subject  # a name that is quoted stays bare
    lists = listed_words("Spanish")
    own = re.match(r"(el|la|los|las) (?=\S)", subject)  # in small letters: El País is a name
    name = subject[own.end() :] if own else subject
    if is_behind(before, lists["bare_behind"]) and not own:
        return before, name
    called = re.search(rf"(?<!\w)(?:(de|a)(?:l| la)|el|la) (?:{'|'.join(lists['called'])}) $", before)
    plain = before[: called.start()] + (f"{called[1]} " if called[1] else "") if called else before
    article = own[1] if own else _spanish_article(plain, name)
    if article is None:
        placed = is_behind(before, lists["quoted_behind"]) and not re.match("|".join(lists["never_quoted"]), name)
        return before, f"«{name}»" if placed else name
    if article == "el" and (found := re.search(r"(?<!\w)(de|a) $", plain)):
        return f"{plain[: found.end() - 1]}l ", name
    return plain, f"{article} {name}"


def _spanish_article(before: str, name: str) -> str | None:
    """el, la, los or las: by the whole name, by the noun at its head, or by words that are behind in foreign ones."""
    lists = listed_words("Spanish")
    first, _, rest = name.partition(" ")
    article = article_by_pattern(name, "Spanish")
    if article == "":  # firms, and places that are named after a bridge or a river
        return None
    # the noun behind it says the gender, also where it ends the name
    if article is None and (first in lists["before_nouns"] or _NUMBERED.fullmatch(first)):
        article = listed_article(f"{rest} ...", {}, lists["nouns"])
    office = name[0].lower() + name[1:] if is_behind(before, lists["office_behind"]) else name  # a capital is no name
    article = article or listed_article(name, lists["names"], lists["nouns"])
    article = article or office_article(before, office, "Spanish")
    if article is None:
        plural = is_nicknamed(name, "Spanish") and not name.startswith("Los ")
        article = "los" if plural else "el" if is_club(name) else article_by_ending(name, lists["endings"])
    return article


def _portuguese(before: str, subject: str) -> tuple[str, str]:
    """As ``_spanish``; but most names have an article, also those of firms and teams, and no list holds them all. So
    templates call their subject what it is ("da empresa Kodiak"), which gives way to an article that is known ("da
    Boeing")."""
    lists = listed_words("Portuguese")
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
    lists = listed_words("Portuguese")
    found = listed_article(name, lists["names"], {})
    first, _, rest = name.partition(" ")
    if found or not rest.strip() or name in lists["bare"]:
        return found
    if ordinal := re.fullmatch(r"\d+\.?([ºª])", first):  # 11.º Exército
        return "o" if ordinal[1] == "º" else "a"
    small = name.casefold()
    if first.casefold() in lists["before_nouns"]:  # Primeira Guerra Mundial
        found = listed_article(f"{rest.casefold()} ...", {}, lists["nouns"]) or listed_article(rest, lists["names"], {})
    found = found or listed_article(small, {}, lists["nouns"]) or listed_article(small, {}, lists["offices"])
    # towns are named after rivers and hills (Rio Branco), unless small letters or what is behind tell
    if found is None and (first.islower() or re.match(r"d(?:e|[ao]s?) |\d", rest)):  # Ponte 25 de Abril
        found = listed_article(small, {}, lists["nouns_of_places"])
    if found is None and first != "The":
        behind = re.sub(r"[.,]", "", rest).split()[::-1]  # Arsenal F.C., Sevilla FC Puerto Rico
        found = next((a for word in behind for a, known in lists["words_behind"].items() if word in known), None)
    return found


def _german(before: str, subject: str) -> tuple[str, str]:
    lists = listed_words("German")
    byname = re.fullmatch(r"(.+? )(und die|der|die) (.+)", subject)  # Karl der Große, St. Vincent und die Grenadinen
    if byname and byname[3] in lists["bynames"]:
        return before, _with_byname(before, *byname.groups())
    if subject in lists["own_articles"]:  # Die Grünen, but Der Spiegel is all a name
        subject = subject[0].lower() + subject[1:]
    own = re.match(r"(der|die|das) (?=[a-z]?[A-ZÄÖÜ\d])", subject)  # das iPhone, but die tageszeitung
    subject = subject[own.end() :] if own else subject
    name = re.split(" ?/", subject)[0]  # Oscar/Beste Regie
    rest = subject[len(name) :]
    known = _german_gender(name) or _german_office(before, name)
    gender = known
    if gender is None and not _TITLE.match(name):
        nicknamed = is_nicknamed(name, "German")
        gender = article_by_pattern(name, "German") or ("p" if nicknamed else "m" if is_club(name) else None)
        gender = gender or article_by_ending(name, lists["endings"])
    german = known  # words that are declined; foreign ones, known by a pattern or an ending, stay as they are
    if own and gender is None:  # of "die" the plural is known by its adjective: die Vereinigten Staaten
        gender = german = {"der": "m", "die": "p" if re.match(r"\w+en ", name) else "f", "das": "n"}[own[1]]
    how = next((how for how, words in lists["called_behind"].items() if is_behind(before, words)), None)
    if gender is None and (how is not None or _SURE_ADJECTIVE.match(name)):
        gender = german = _gender_by_adjective(name)
    if gender is None:
        return _german_called(before, subject, how)
    if attribute := re.search(r"(?<!\w)[A-ZÄÖÜ]\w+ (von )$", before):  # behind a noun: das Staatsoberhaupt der Schweiz
        declined = _declined(name, gender, 3) if german else name
        return f"{before[: attribute.start(1)]}{lists['articles'][gender][3]} ", declined + rest
    preposition = re.search(r"(?<!\w)(\w+) $", before)
    word = preposition[1] if preposition else ""
    case = _case(before)
    article = lists["articles"][gender][case]
    name = _declined(name, gender, case) if german else name
    if (joined := lists["contracted"].get(f"{word.lower()} {article}")) and preposition:
        return f"{before[: preposition.start()]}{joined} ", name + rest
    return before, f"{article} {name}{rest}"


def _german_called(before: str, subject: str, how: str | None) -> tuple[str, str]:
    """A name whose gender nothing tells, in a form that is right for any: quoted (von „Mary Rose“) or called what it is
    (der Partei Fidesz), where the words before it ask for that. Towns and persons stay bare."""
    lists = listed_words("German")
    bare = any(re.fullmatch(names, subject) and is_behind(before, words) for names, words in lists["bare"].items())
    if how is None or bare or re.search('[„“”"]', subject):
        return before, subject
    if how == "„" or re.match(lists["titles"], subject):
        return before, f"„{subject}“"
    return f"{before.removesuffix('von ')}{how and f'{how} '}", subject


def _gender_by_adjective(name: str) -> str | None:
    """By the ending before a noun that nothing lists: Goldener Löwe, Weißes Rauschen, Grüne Jugend, Wahre Finnen."""
    behind = r"(?: (?:[A-ZÄÖÜ\d]|d[aei][smrn] |vo[nm] |für |i[nm] ).*)?"  # no sentence: Alte Liebe rostet nicht
    found = re.fullmatch(rf"(\w+?e([rs]?)) [A-ZÄÖÜ][\w-]+?(e[nr])?{behind}", name)
    if found is None or not (found[1] in listed_words("German")["adjectives"] or _SURE_ADJECTIVE.fullmatch(found[1])):
        return None
    return {"r": "m", "s": "n", "": "p" if found[3] else "f"}[found[2]]


def _case(before: str) -> int:
    """0 for the nominative, 1 for the accusative, 2 for the dative."""
    lists = listed_words("German")
    word = re.search(r"(?<!\w)(\w+) $", before)
    # the accusative follows two prepositions, "man" and those verbs of the templates whose object is the subject
    cases = (lists["accusative_behind"], lists["dative_behind"])
    return next((number for number, behind in enumerate(cases, 1) if word and word[1].lower() in behind), 0)


def _with_byname(before: str, name: str, link: str, byname: str) -> str:
    """A name whose second part is declined: (von) Karl dem Großen, St. Vincent und den Grenadinen."""
    gender, case = {"der": "m", "die": "f", "und die": "p"}[link], _case(before)
    weak = byname.endswith("e") and (case == 2 or (case == 1 and gender == "m"))
    article = listed_words("German")["articles"][gender][case]
    return f"{name}{'und ' if gender == 'p' else ''}{article} {byname}{'n' if weak else ''}"


def _office_gender(word: str) -> str | None:
    """m or f of a word that is a person in office, or ends in one: Bundespräsident."""
    small = word.casefold()
    found = [n for n in offices("German") if small == n or (len(n) > 4 and small.endswith(n))]  # but not Hermann
    return {"der": "m", "die": "f"}[offices("German")[max(found, key=len)]] if found else None


def _german_office(before: str, name: str) -> str | None:
    """The gender of an office: König von Spanien, Britischer Premierminister; but König Lear is a name."""
    words, lists = name.split(), listed_words("German")
    place = next((i for i, word in enumerate(words) if not _is_adjective(word) or word in lists["given_names"]), 0)
    behind = words[place + 1 : place + 2]
    fits = behind and behind[0] in lists["behind_offices"]
    fits = fits or (place > 0 and not behind) or (len(words) == 1 and is_behind(before, lists["office_behind"]))
    return _office_gender(words[place]) if fits else None


def _german_gender(subject: str) -> str | None:
    """m, f, n or p (plural): of the listed names, and by the noun behind the adjectives, where that heads the name."""
    lists: Mapping[str, Mapping[str, Collection[str]]] = listed_words("German")
    by_name = listed_article(subject, lists["names"], {})
    if by_name or _TITLE.match(subject):
        return by_name
    words = subject.split()
    return _noun_gender(words[_head(words)]) if words else None


@cache
def _noun_gender(word: str) -> str | None:
    """m, f, n or p of a listed noun, of what is made of one, or of one behind a hyphen."""
    lists = listed_words("German")
    behind = word.rpartition("-")[2]  # Wolf-Preis
    bare = not {word, behind}.isdisjoint(lists["no_compounds"])
    return next(
        (
            gender
            for gender, listed in lists["nouns"].items()
            if any(noun == word or (not bare and (noun == behind or _compound(word, noun))) for noun in listed)
        ),
        None,
    )


def _is_adjective(word: str) -> bool:
    lists = listed_words("German")
    noun = any(word in listed for listed in lists["nouns"].values())  # Kathedrale
    return word in lists["adjectives"] or (bool(_ADJECTIVE.search(word)) and not noun)


def _head(words: list[str]) -> int:
    """The place of the noun behind the adjectives, or of the last word where there is none."""
    place = next((i for i, word in enumerate(words) if not _is_adjective(word)), -1)
    given = listed_words("German")["given_names"]  # which end as the adjectives of towns do: Peter Bank
    towns = 0 <= place < len(words) - 1 and words[place].endswith("er") and words[place] not in given
    # the Weimarer Republik and Frankfurter Allgemeine Zeitung, but Bürgermeister von Weimar and Theater Basel
    if towns and _noun_gender(words[place]) is None and _office_gender(words[place]) is None:
        place = next((i for i in range(place + 1, len(words)) if not _is_adjective(words[i])), place + 1)
    # Thalia Theater, Reeperbahn Festival
    last = len(words) > 1 and re.fullmatch(listed_words("German")["last"], words[-1])
    return len(words) - 1 if last and (len(words) == 2 or _noun_gender(words[place]) is None) else place


def _compound(word: str, noun: str) -> bool:
    """Whether a word is made of a noun and others before it. Short nouns end too many names (Ararat, Österreich), so
    those that are safe are listed as endings, with a hyphen."""
    ending = noun.lower().removeprefix("-")
    return (len(noun) > 5 or noun[0] == "-") and word.lower().endswith(ending) and len(word) > len(ending)


def _declined(subject: str, gender: str, case: int) -> str:
    """A name behind its article: its adjectives take the weak ending, some plurals the ``n`` of the dative, and its
    noun the ``s`` of the genitive."""
    ending = "en" if gender == "p" or case > 1 or (gender == "m" and case == 1) else "e"
    words, lists = subject.split(), listed_words("German")
    last = subject in lists["with_s"] or re.fullmatch(r"(?:\w+ )?\S+- und \S+", subject)  # Süd- und Antarktisgebiete
    place = len(words) - 1 if last else _head(words)
    for i, word in enumerate(words[:place]):
        if _is_adjective(word):  # not Frankfurter (Allgemeine Zeitung)
            words[i] = re.sub(r"e[rs]?$", ending, word)  # which leaves what has no ending: Christlich Demokratische
    small = words[place].lower()
    if small.endswith(tuple(lists["adjectival"])):  # die Vorsitzende, der Vorsitzende, des Vorsitzenden
        words[place] = re.sub(r"e[rs]?$", ending, words[place])
    elif gender == "m" and case and small.endswith(tuple(lists["weak"])):
        words[place] += "n" if small.endswith("e") else "en"
        words[place] += "s" if case == 3 and small.endswith("friede") else ""  # des Friedens
    elif gender == "p" and case == 2:
        words[place] += "n" if re.search(r"(?<!e)e[lr]?$", words[place]) and words[place] != "Vier" else ""
    elif gender in "mn" and case == 3 and _takes_s(subject, words[place]):
        long = _GENITIVE_ES.search(words[place])
        words[place] += "ses" if words[place].endswith("nis") else "es" if long else "s"
    return " ".join(words)


def _takes_s(subject: str, noun: str) -> bool:
    """Whether a noun has an ``s`` in the genitive: not a country (des Iran), an abbreviation, or what ends in one."""
    lists = listed_words("German")
    if noun in ("Haus", "Vatikan") or subject in lists["with_s"] or _GENITIVE_ES.search(noun):
        return subject not in lists["names"]["n"] or subject in lists["with_s"]
    if (
        noun.endswith(("s", "x"))
        or noun in lists["without_s"]
        or _FOREIGN.match(subject)
        or any(subject in lists["names"][gender] for gender in "mn")
    ):
        return False
    last = noun.rsplit("-", 1)[-1]
    return last[1:] == last[1:].lower()


_RULES: Mapping[str, Callable[[str, str], tuple[str, str]]] = {  # one for each language that inflects
    "French": _french,
    "German": _german,
    "Portuguese": _portuguese,
    "Spanish": _spanish,
}
