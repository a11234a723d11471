"""Four questions for a fact, by a language model or by templates, and the checks that a bad one does not pass.

The procedure is that of TimeStress, section 3.2.2 and appendix A.2: the model is given the fact with descriptions of
its parts, an example of the relation and the year in the middle of the fact's period; it writes four questions that
open with that year; the year is taken off, and the answer must be the object. A fact with one bad question is dropped
whole, with the reason. Everything here is a function of its arguments: `anachron.io.llm` does the asking.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from anachron.core.dates import Date
from anachron.core.errors import DataError
from anachron.core.periods import Period
from anachron.io.json_answers import object_in, quoted, shown
from anachron.text.dates import Wording, date_in_words, wording_of
from anachron.text.kinds import KINDS
from anachron.text.questions import PARAPHRASES
from anachron.text.templates import FactToWord, Failed, Outcome, checked_pairs, unaskable

NEEDED = ("fact_id", "subject_label", "relation_id", "object_label")
NEEDED_BY_MODELS = ("relation_label", "start", "end")
QUESTIONS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "questions": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"question": {"type": "string"}, "answer": {"type": "string"}},
                "required": ["question", "answer"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["questions"],
    "additionalProperties": False,
}


def fact_to_word(row: Mapping[str, Any]) -> FactToWord:
    """A row of ``facts.parquet`` as it is verbalised. Raises `DataError` for a date, period or kind that is none."""
    return FactToWord(
        fact_id=str(row["fact_id"]), subject=_text(row["subject_label"]), relation_id=_text(row["relation_id"]),
        object=_text(row["object_label"]), relation=_text(row.get("relation_label")),
        year=middle_year(row.get("start"), row.get("end")), subject_description=_text(row.get("subject_description")),
        relation_description=_text(row.get("relation_description")),
        object_description=_text(row.get("object_description")), subject_kind=_kind(row),
    )  # fmt: skip


def _kind(row: Mapping[str, Any]) -> str | None:
    kind = _text(row.get("subject_kind")) or None
    if kind is not None and kind not in KINDS:
        raise DataError(f"subject_kind {kind!r}: choose one of {', '.join(KINDS)}, or leave it empty")
    return kind


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def middle_year(start: str | None, end: str | None) -> int | None:
    """The year in the middle of a period (its days completed, as released), or of its only boundary."""
    period = Period(start or None, end or None)
    known = [date for date in (period.start, period.end) if date is not None]
    if not known:
        return None
    return Date.from_day_number((known[0].first_day + known[-1].last_day) // 2).year


def relation_examples(facts: Iterable[FactToWord]) -> dict[str, list[FactToWord]]:
    """Relation id -> its first facts that share no entity, at most three.

    A fact's subject and object each occur in at most one of them, so that one of three is an example of another fact.
    """
    examples: dict[str, list[FactToWord]] = {}
    for fact in facts:
        kept = examples.setdefault(fact.relation_id, [])
        seen = {end for other in kept for end in (other.subject, other.object)}
        if len(kept) < 3 and fact.subject and fact.object and not seen & {fact.subject, fact.object}:
            kept.append(fact)
    return examples


def example_for(fact: FactToWord, examples: Mapping[str, Sequence[FactToWord]]) -> FactToWord | None:
    """The first example of the relation that shares neither subject nor object with the fact, either way round."""
    ends = {fact.subject, fact.object}
    return next((e for e in examples.get(fact.relation_id, ()) if not ends & {e.subject, e.object}), None)


REPLY = """\
Reply with one JSON object and nothing else, in this form:
{"questions": [{"question": "...", "answer": "..."}, ...]}
with exactly four entries, where every answer is the object exactly as it is written in the fact."""

INSTRUCTIONS = f"""\
You turn facts of a knowledge base into questions for a quiz about the past.

You are given one fact: a subject, a relation, an object, and a date at which the fact held. Write four questions \
about it. A reader who knows the fact must be able to answer each of them with the object alone.

Rules for every question:
1. It opens with the date phrase that you are given, unchanged, comma included, and goes on in lower case after it.
2. It is in the past tense, for the fact is over.
3. It asks for the object. The object is the answer and does not occur in the question, nor does anything that hints \
at it.
4. It contains the subject exactly as it is written in the fact.
5. It is one short sentence that ends with a question mark, and mentions no other date.

The four questions mean the same but are worded differently: vary the question word, the verb and the order of the \
sentence.

{REPLY}

For the fact (Zanzibar, official language, Arabic) and the date phrase "In 1900, ", two good questions would be \
"In 1900, what was the official language of Zanzibar?" and "In 1900, in which language did Zanzibar conduct its \
official business?", both with the answer "Arabic"."""


def fact_prompt(
    fact: FactToWord, opening: str, example: FactToWord | None = None, language: str = "English",
    instructions: str | None = None,
) -> str:  # fmt: skip
    """The whole text a model is asked with.

    instructions: in the place of ours; how to reply is added to them, so that the reply can be read.
    """
    said = [f"The date phrase: {quoted(opening)}"]
    if language != "English":
        said.append(f"Write the questions in {language}, with the subject and the answer as they are written above.")
    asked = INSTRUCTIONS if instructions is None else f"{instructions.strip()}\n\n{REPLY}"
    return prompt_about(fact, asked, said, example)


def prompt_about(fact: FactToWord, instructions: str, said: Sequence[str], example: FactToWord | None) -> str:
    """Instructions, a fact by the labels and descriptions of its parts, what else is said of it, and an example of its
    relation. Labels are quoted as JSON: none can pass for an instruction."""
    lines = [instructions, "", "The fact:"]
    for part in ("subject", "relation", "object"):
        label, description = getattr(fact, part), getattr(fact, f"{part}_description")
        lines.append(f"- {part}: {quoted(label)}" + (f", meaning {quoted(description)}" if description else ""))
    lines += said
    if example is not None:
        lines.append(
            f"To show what the relation means, another fact with it: subject {quoted(example.subject)}, "
            f"relation {quoted(fact.relation)}, object {quoted(example.object)}."
        )
    return "\n".join(lines)


def opening_of(year: int, style: str | Wording = "american") -> str:
    """The date phrase that a model's questions must open with: ``In 1929, ``."""
    return date_in_words(Date(year), style)


def prompt_of(
    fact: FactToWord, examples: Mapping[str, Sequence[FactToWord]], style: str | Wording = "american",
    instructions: str | None = None,
) -> str | Failed:  # fmt: skip
    """The text to ask a model with, or why the fact cannot be asked about.

    instructions: of `fact_prompt`. style: of `anachron.text.dates`; its language is that of the questions.
    """
    if (failed := unaskable(fact)) is not None:
        return failed
    if not fact.relation:
        return Failed(fact.fact_id, "no label", "the relation has no label")
    if fact.year is None:
        return Failed(fact.fact_id, "no date", "neither a start nor an end to take the year of the questions from")
    opening, language = opening_of(fact.year, style), wording_of(style).language
    return fact_prompt(fact, opening, example_for(fact, examples), language, instructions)


def by_answer(fact: FactToWord, text: str, seed: int = 0, style: str | Wording = "american") -> Outcome:
    """Four questions from what a model wrote about the fact (see `fact_prompt`), or why not."""
    try:
        pairs = read_answer(text)
    except DataError as error:
        return Failed(fact.fact_id, "not the JSON asked for", str(error))
    if fact.year is None:
        raise DataError(f"fact {fact.fact_id!r} has no year, so no model was asked about it")
    opening = opening_of(fact.year, style)
    bare: list[tuple[str, str]] = []
    for question, answer in pairs:
        if not question.casefold().startswith(opening.casefold()):
            detail = f"question {question!r} does not open with {opening!r}"
            return Failed(fact.fact_id, "no date phrase in front", detail)
        bare.append((question[len(opening) :], answer))
    return checked_pairs(fact, bare, seed, wording_of(style).language)


def read_answer(text: str) -> list[tuple[str, str]]:
    """The four (question, answer) pairs in what a model wrote.

    Lenient about what surrounds the JSON object (see `object_in`), strict about the object: one of them, four
    questions, each with its answer. Raises `DataError` with what is wrong.
    """
    questions = object_in(text).get("questions")
    if not isinstance(questions, list):
        raise DataError(f'no list "questions" in {shown(text)}')
    if len(questions) != PARAPHRASES:
        raise DataError(f"{len(questions)} questions, {PARAPHRASES} were asked for")
    pairs: list[tuple[str, str]] = []
    for entry in questions:
        texts = [entry.get(key) if isinstance(entry, dict) else None for key in ("question", "answer")]
        if not all(isinstance(value, str) and value.strip() for value in texts):
            raise DataError(f'an entry without "question" and "answer": {shown(json.dumps(entry))}')
        pairs.append((str(texts[0]).strip(), str(texts[1]).strip()))
    return pairs
