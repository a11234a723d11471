"""How questions to a chat model are worded, in each language that has templates."""

from dataclasses import dataclass

from anachron.text.words import by_language


@dataclass(frozen=True, slots=True)
class Wordings:
    """What is put to a model, with the slots ``{question}``, ``{answer}``, ``{first}``, ``{second}``.

    open: a question that is to be answered with a name. choice: which of two years an answer was right in. period: from
    when to when it was.
    """

    open: str
    choice: str
    period: str


def wordings_of(language: str) -> Wordings:
    """The wordings of a language by its English name; the English ones where there are none."""
    known = by_language("asking")
    return Wordings(**known.get(language, known["English"]))
