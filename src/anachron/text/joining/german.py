"""A subject in a German sentence: *des Vereinigten Königreichs*, *in den Niederlanden*, *von „Mary Rose“*.

A name of which no rule tells the gender is quoted or called what it is behind the words of ``called_behind``, unless it
is like those that stay ``bare`` there; ``titles`` begin as titles do, and are quoted.
"""

import re
from collections.abc import Collection, Mapping
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


def join(before: str, subject: str) -> tuple[str, str]:
    """The article and what it declines are those of the case that the words before ask for; "von" behind a noun becomes
    a genitive (das Staatsoberhaupt der Schweiz). Foreign names take an article and stay as they are."""
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
    german = _gender(name) or _office(before, name)  # of words that are declined
    gender = german or _foreign_gender(name)
    if own and gender is None:  # of "die" the plural is known by its adjective: die Vereinigten Staaten
        gender = german = {"der": "m", "die": "p" if re.match(r"\w+en ", name) else "f", "das": "n"}[own[1]]
    how = next((how for how, words in lists["called_behind"].items() if is_behind(before, words)), None)
    if gender is None and (how is not None or _SURE_ADJECTIVE.match(name)):
        gender = german = _gender_by_adjective(name)
    if gender is None:
        return _called(before, subject, how)
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


def _foreign_gender(name: str) -> str | None:
    """Of a name that its form tells: a maker and its model, a team, a word at its end."""
    if _TITLE.match(name):
        return None
    nicknamed = is_nicknamed(name, "German")
    found = article_by_pattern(name, "German") or ("p" if nicknamed else "m" if is_club(name) else None)
    return found or article_by_ending(name, listed_words("German")["endings"])


def _called(before: str, subject: str, how: str | None) -> tuple[str, str]:
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


def _office(before: str, name: str) -> str | None:
    """The gender of an office: König von Spanien, Britischer Premierminister; but König Lear is a name."""
    words, lists = name.split(), listed_words("German")
    place = next((i for i, word in enumerate(words) if not is_adjective(word) or word in lists["given_names"]), 0)
    behind = words[place + 1 : place + 2]
    fits = behind and behind[0] in lists["behind_offices"]
    fits = fits or (place > 0 and not behind) or (len(words) == 1 and is_behind(before, lists["office_behind"]))
    return _office_gender(words[place]) if fits else None


def _gender(subject: str) -> str | None:
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


def is_adjective(word: str) -> bool:
    lists = listed_words("German")
    noun = any(word in listed for listed in lists["nouns"].values())  # Kathedrale
    return word in lists["adjectives"] or (bool(_ADJECTIVE.search(word)) and not noun)


def _head(words: list[str]) -> int:
    """The place of the noun behind the adjectives, or of the last word where there is none, or a firm's legal form."""
    if words[-1] in listed_words("German")["legal_forms"]:  # die Hafen und Logistik AG
        return len(words) - 1
    # Freie und Hansestadt Hamburg: what an "und" joins to an adjective is behind it
    joins = {i for i in range(1, len(words) - 1) if words[i] == "und" and is_adjective(words[i - 1])}
    place = next((i for i, word in enumerate(words) if i not in joins and not is_adjective(word)), -1)
    given = listed_words("German")["given_names"]  # which end as the adjectives of towns do: Peter Bank
    towns = 0 <= place < len(words) - 1 and words[place].endswith("er") and words[place] not in given
    # the Weimarer Republik and Frankfurter Allgemeine Zeitung, but Bürgermeister von Weimar and Theater Basel
    if towns and _noun_gender(words[place]) is None and _office_gender(words[place]) is None:
        place = next((i for i in range(place + 1, len(words)) if not is_adjective(words[i])), place + 1)
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
        if is_adjective(word):  # not Frankfurter (Allgemeine Zeitung)
            words[i] = re.sub(r"e[rs]?$", ending, word)  # which leaves what has no ending: Christlich Demokratische
    small = words[place].lower()
    if small.endswith(tuple(lists["adjectival"])):  # die Vorsitzende, der Vorsitzende, des Vorsitzenden
        words[place] = re.sub(r"e[rs]?$", ending, words[place])
    elif gender == "m" and case and small.endswith(tuple(lists["weak"])):
        words[place] += "n" if small.endswith("e") else "en"
        words[place] += "s" if case == 3 and small.endswith("friede") else ""  # des Friedens
    elif gender == "p" and case == 2:
        words[place] += "n" if re.search(r"(?<!e)e[lr]?$", words[place]) and small not in lists["without_n"] else ""
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
