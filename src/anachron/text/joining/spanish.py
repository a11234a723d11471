"""A subject in a Spanish sentence: *del Reino Unido*, *de El Salvador*, *la sede de la entidad Initech*."""

import re

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


def join(before: str, subject: str) -> tuple[str, str]:
    """Templates call their subject what it is ("del equipo Arsenal de Kiev"), which gives way to an article that is
    known ("del Real Madrid"). Where its kinds are too many for that, an unknown name is quoted ("la ubicación de
    «Guernica»"), but for such as only places have (``never_quoted``)."""
    lists = listed_words("Spanish")
    own = re.match(r"(el|la|los|las) (?=\S)", subject)  # in small letters: El País is a name
    name = subject[own.end() :] if own else subject
    if is_behind(before, lists["bare_behind"]) and not own:
        return before, name
    called = re.search(rf"(?<!\w)(?:(de|a)(?:l| la)|el|la) (?:{'|'.join(lists['called'])}) $", before)
    plain = before[: called.start()] + (f"{called[1]} " if called[1] else "") if called else before
    article = own[1] if own else _article(plain, name)
    if article is None:
        placed = is_behind(before, lists["quoted_behind"]) and not re.match("|".join(lists["never_quoted"]), name)
        return before, f"«{name}»" if placed else name
    if article == "el" and (found := re.search(r"(?<!\w)(de|a) $", plain)):
        return f"{plain[: found.end() - 1]}l ", name
    return plain, f"{article} {name}"


def _article(before: str, name: str) -> str | None:
    """el, la, los or las: by the whole name, by the noun at its head, or by words that are behind in foreign ones."""
    lists = listed_words("Spanish")
    first, _, rest = name.partition(" ")
    article = article_by_pattern(name, "Spanish")
    if article == "":  # firms, and places that are named after a bridge or a river
        return None
    # the noun behind it says the gender, also where it ends the name
    if article is None and (first in lists["before_nouns"] or NUMBERED.fullmatch(first)):
        article = listed_article(f"{rest} ...", {}, lists["nouns"])
    office = name[0].lower() + name[1:] if is_behind(before, lists["office_behind"]) else name  # a capital is no name
    article = article or listed_article(name, lists["names"], lists["nouns"])
    article = article or office_article(before, office, "Spanish")
    if article is None:
        plural = is_nicknamed(name, "Spanish") and not name.startswith("Los ")
        article = "los" if plural else "el" if is_club(name) else article_by_ending(name, lists["endings"])
    return article
