"""How questions begin, in each language that dates are worded in: what tells the language, and loses its capital."""

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
OPENINGS = {language: frozenset(words.split()) for language, words in _OPENINGS.items()}


def without_capital(question: str, subject: str, language: str = "English") -> str:
    """A question as it goes on after a date: ``Who led France?`` becomes ``who led France?``.

    Only a word that opens questions loses its capital, and none that begins the subject's name. Of a language that is
    not known here none does.
    """
    first = question.split(" ", 1)[0]
    opens = first.lower() in OPENINGS.get(language, ()) and first == first.capitalize()
    return first.lower() + question[len(first) :] if opens and not question.startswith(subject) else question


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
