"""A subject in a Portuguese sentence: *do Brasil*, *à França*, *de Portugal*, *da empresa Kodiak*."""

import re

from anachron.text.names import listed_article, listed_words


def join(before: str, subject: str) -> tuple[str, str]:
    """As in Spanish; but most names have an article, also those of firms and teams, and no list holds them all. So
    templates call their subject what it is ("da empresa Kodiak"), which gives way to an article that is known ("da
    Boeing")."""
    lists = listed_words("Portuguese")
    if before.endswith(tuple(f"{words} " for words in lists["bare_behind"])):
        return before, subject  # "o cargo de presidente", "o programa Fantástico"
    own = re.match(r"(o|a|os|as) (?=\S)", subject)  # in small letters: O Globo is a name
    name = subject[own.end() :] if own else subject
    article = own[1] if own else _article(name)
    if article is None:
        return before, subject
    if called := re.search(rf"(?<!\w)({'|'.join(lists['called'])}) $", before):
        before = before[: called.start()] + lists["called"][called[1]]
    preposition = re.search(r"(?<!\w)(de|em|por|a) $", before)
    if preposition is None:
        return before, f"{article} {name}"
    return f"{before[: preposition.start()]}{lists['contracted'][f'{preposition[1]} {article}']} ", name


def _article(name: str) -> str | None:
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
