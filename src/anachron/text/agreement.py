"""A subject inside a sentence that is not English: its article, and what it makes of the words before it.

The templates are worded so that nothing else agrees with a subject. Which names take an article is data in the
language's file, under ``agreement``: ``names`` as they are; ``nouns`` that head names of several words, in French also
``first_words``, one word or two (Jeux olympiques); ``endings``, words behind the first (Tufts University); ``teams``
and ``nicknames`` of American teams; ``patterns`` of whole names (a maker and its model: Boeing 747); and what looks
like these and takes none, ``without``. Offices (roi d'Espagne) are known by the persons of ``roles``; one that stands
alone has its article behind the words of ``office_behind`` (la résidence officielle du pape). Persons and places have
none; what becomes of a name that no rule knows is said in the file of its language, in `anachron.text.joining`.
"""

from collections.abc import Callable, Mapping

from anachron.text.joining import french, german, portuguese, spanish
from anachron.text.names import listed_words


def in_phrase(before: str, subject: str, language: str) -> tuple[str, str]:
    """What stands in front of a subject, and the subject, as the language joins them.

    before: the words of the template up to its slot, with the space. language: its English name; of any but French,
    German, Portuguese and Spanish both are given back as they are.
    ``("la capitale de ", "Royaume-Uni")`` gives ``("la capitale du ", "Royaume-Uni")``.
    """
    # a name that is quoted stays bare; of French marks, with a space behind, french.join tells
    quoted = before.endswith(("„", "«"))
    if quoted or language not in _RULES or subject in listed_words(language).get("without", ()):
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
        a_noun = first != subject and german.is_adjective(first) and first not in listed_words(language)["given_names"]
    else:
        a_noun = first[0].islower() and first[-1:].isalpha()
    return a_noun and in_phrase("x ", subject, language)[1] == subject


_RULES: Mapping[str, Callable[[str, str], tuple[str, str]]] = {  # one for each language that inflects
    "French": french.join,
    "German": german.join,
    "Portuguese": portuguese.join,
    "Spanish": spanish.join,
}
