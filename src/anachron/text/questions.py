"""Question templates per relation, and the checks that refuse a bad question.

A template asks in the past tense for the object, starts in lower case (it follows a date), holds the
subject at ``[SUBJ]`` and ends with ``?``. Every relation has four, linguistically different; one of them
is drawn for each fact (seeded by the fact's id) and serves all its contexts.
"""

import re
from functools import cache

from anachron.core.draws import draw
from anachron.core.errors import DataError
from anachron.core.sameness import name_key, same_name
from anachron.text.articles import in_sentence
from anachron.text.openings import openings
from anachron.text.words import words_of

SUBJECT_SLOT = "[SUBJ]"
PARAPHRASES = 4
CLOSED = (".", "!", ";", "。", "！", "．")  # of a sentence that is complete without an answer
QUESTION_MARKS = ("?", "？", "؟")  # of European, East Asian and Arabic scripts


@cache
def relation_templates() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Relation id -> (label, four question templates) of the English relations that have them.

    First the relations of the bundled data set, in its order, then the others by number.
    """
    return {r["id"]: (r["label"], tuple(r["questions"])) for r in words_of("English", "relations") if "questions" in r}


@cache
def _present_templates() -> dict[str, str]:
    return {r["id"]: r["present"] for r in words_of("English", "relations") if "present" in r}


def present_template(relation_id: str) -> str:
    """The question template of a bundled relation in the present tense: ``who is the head of state of [SUBJ]?``."""
    return _present_templates()[relation_id]


def fill_question(template: str, subject: str, kind: str | None = None) -> str:
    """The question about one subject. kind: what it is, which decides its article, see `anachron.text.kinds`.

    Raises `DataError` when the slot is missing or doubled.
    """
    if template.count(SUBJECT_SLOT) != 1:
        raise DataError(f"question template {template!r}: it must hold {SUBJECT_SLOT} exactly once")
    return template.replace(SUBJECT_SLOT, in_sentence(subject, kind))


def draw_question(questions: tuple[str, ...], fact_id: str, seed: int = 0) -> int:
    """Index of the question that a fact is asked with, the same on every machine."""
    return draw("question", seed, fact_id) % len(questions)


_MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_LEFT_DATE = re.compile(
    rf"^(?:in|on|during|as of|by|since|around)\s+(?:the\s+)?(?:year\s+)?(?:{_MONTH}\s+)?(?:AD\s+)?-?\d"  # in front
    rf"|\b(?:in|on|during|of|by|since|until|from)\s+(?:the\s+)?(?:year\s+)?(?:{_MONTH}\s+)?(?:\d\d?,?\s+)?\d{{3,4}}s?\b",
    re.IGNORECASE,
)


def question_fault(
    question: str, subject: str, object: str, answer: str | None = None, language: str = "English", *,
    statements: bool = False,
) -> tuple[str, str] | None:  # fmt: skip
    """Why a question is not fit to be asked under any date: the rule's short name, for counting, and the message.

    Rules: it ends with ``?``; it starts in lower case unless with a name; it names the subject, as a whole word; it
    does not give the object away; it holds no date of its own; and the answer, when given, is the object's label (case
    and a trailing full stop aside).
    statements: whether the beginning of a statement will do, which the answer completes (TimeStress, limitations).
    language: of the question. Those of others than English may decline the subject, so one of its longer words is
    enough; and their words for dates are not known.
    """
    if not is_question(question, language):
        if not statements:
            return "no question mark", f"question {question!r} must end with '?'"
        if (closed := closing_fault(question)) is not None:
            return "no place for the answer", closed
    asked, about = name_key(question), name_key(subject)
    if language == "English":
        first = question.split()[0]
        opens = question.startswith(subject)  # the World Health Organization may open a question as WHO
        if first != first.lower() and first.lower() in openings()["English"] and not opens:
            return "capital letter", f"question {question!r} follows a date, so {first!r} must start in lower case"
        named = re.search(rf"(?<!\w){re.escape(about)}(?!\w)", asked) is not None
    else:
        words = about.split()
        named = any(word in asked for word in [word for word in words if len(word) > 3] or words)
    if not named:
        return "subject missing", f"question {question!r} does not name its subject {subject!r}"
    if name_key(object) in asked:
        return "answer in question", f"question {question!r} gives its answer {object!r} away"
    if language == "English" and _LEFT_DATE.search(asked.replace(about, "")):
        return "date left", f"question {question!r} still holds a date; remove it"
    if answer is not None and not same_label(answer, object):
        return "wrong answer", f"question {question!r} is answered {answer!r}; the object is {object!r}"
    return None


def is_question(text: str, language: str = "English") -> bool:
    """Whether a text ends as a question does in English, or in any language."""
    return text.endswith("?" if language == "English" else QUESTION_MARKS)


def closing_fault(prompt: str) -> str | None:
    """Why an answer cannot go on behind the beginning of a statement; None where it can, as behind a question."""
    if prompt and not prompt[-1].isspace() and not prompt.endswith(CLOSED):
        return None
    return (
        f"question {prompt!r} must end with '?' or, as the beginning of a statement ('the capital of France was'), "
        "with the word that the answer follows"
    )


def same_label(one: str, other: str) -> bool:
    """Whether two labels are the same name, a trailing full stop aside."""
    return same_name(one.strip().removesuffix("."), other.strip().removesuffix("."))
