"""How questions begin, in each language that dates are worded in: what tells the language, and loses its capital."""

import re
from collections import Counter
from collections.abc import Iterable

_OPENINGS = {
    "English": "after against among as at before between by did during for from had how in into of on through to under"
    " was were what when where which who whom whose with within",
    "French": "à au auprès auquel avec chez combien comment contre dans de depuis dont en lequel laquelle où par pour"
    " pourquoi quand que quel quelle quelles quels qui quoi sous sur",
    "German": "an auf aus bei durch für gegen in mit nach seit über unter von vor wann warum was welche welchem welchen"
    " welcher welches wem wen wer weshalb wessen wie wo woher wohin womit wozu zu",
    "Spanish": "a adónde al bajo con contra cuál cuáles cuándo cuántos cuántas cómo de desde dónde durante en entre"
    " hacia para por qué quién quiénes según sobre",
}
# words that begin statements, and tell no language: "a" is Spanish too
_ARTICLES = {"English": frozenset({"a", "an", "its", "the"})}
OPENINGS = {language: frozenset(words.split()) for language, words in _OPENINGS.items()}


def behind_opening(opening: str, text: str, subject: str = "", language: str = "English") -> str:
    """A question or prompt behind an opening that ends in a space: ``In 2011, `` and ``Who led France?``.

    Its first word loses its capital where it is one of `OPENINGS` or `_ARTICLES` of the language, unless it begins the
    subject's name (``In 2011, The Hague is located in``) or is written in capitals (``WHO``). Of a language that is not
    known here none does.
    """
    first = text.split(" ", 1)[0]
    lowered = first.lower()
    named = subject and re.match(rf"{re.escape(subject)}(?!\w)", text)
    opens = lowered in OPENINGS.get(language, ()) or lowered in _ARTICLES.get(language, ())
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
        of = [language for language, words in OPENINGS.items() if first in words]
        votes[of[0] if len(of) == 1 else None] += 1
    language, count = next(iter(votes.most_common(1)), (None, 0))
    return language if 2 * count > votes.total() else None
