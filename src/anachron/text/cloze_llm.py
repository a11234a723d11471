"""Cloze templates from a language model: sentences for sampled triples, their ends blanked, the frequent ones kept.

The procedure is that of WikiFactDiff, appendices A.5 and C: for triples of a relation a model writes ten sentences
each, at temperature 0; those that contain the subject and end with the object become templates; the five most frequent
of the relation stay, for what many triples share fits all of them. Everything here is a function of its arguments:
`anachron.io.llm` does the asking.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from anachron.core.errors import DataError
from anachron.io.json_answers import by_frequency, object_in, shown
from anachron.text.cloze import OBJECT_SLOT, cloze_fault
from anachron.text.questions import SUBJECT_SLOT
from anachron.text.templates import FactToWord
from anachron.text.verbalize import prompt_about

SENTENCES = 10
MOST_TEMPLATES = 5

SENTENCES_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"sentences": {"type": "array", "items": {"type": "string"}}},
    "required": ["sentences"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Unfit:
    """A sentence that gives no template: ``reason`` is one of few, for counting; ``detail`` says what was seen."""

    reason: str
    detail: str


REPLY = f"""\
Reply with one JSON object and nothing else, in this form:
{{"sentences": ["...", "..."]}}
with exactly {SENTENCES} entries."""

INSTRUCTIONS = f"""\
You put facts of a knowledge base into plain sentences.

You are given one fact: a subject, a relation and an object. Write {SENTENCES} sentences that state it.

Rules for every sentence:
1. The object is its last word or words, exactly as it is written in the fact; only a full stop follows.
2. It contains the subject exactly as it is written in the fact, and only once.
3. It is short, and states this fact alone: nothing else that you know about subject or object.
4. It would still be good with another subject and another object of the same relation.

The {SENTENCES} sentences mean the same but are worded differently: vary the verb and the order of the sentence. \
Whether the fact is true is no matter.

{REPLY}

For the fact (Zanzibar, official language, Arabic), two good sentences would be "The official language of Zanzibar is \
Arabic." and "In Zanzibar, official business is conducted in Arabic.\""""


def sentences_prompt(
    triple: FactToWord, example: FactToWord | None = None, language: str = "English",
    instructions: str | None = None,
) -> str:  # fmt: skip
    """The whole text a model is asked with.

    example: another triple of the relation, to show what it means. instructions: in the place of ours; how to reply is
    added to them, so that the reply can be read. Raises `DataError` where a label is missing.
    """
    for name in ("subject", "relation", "object"):
        if not getattr(triple, name).strip():
            raise DataError(f"a triple of {triple.relation_id} has no label for its {name}; leave it out")
    asked = INSTRUCTIONS if instructions is None else f"{instructions.strip()}\n\n{REPLY}"
    said = f"Write the sentences in {language}, with the subject and the object as they are written above."
    return prompt_about(triple, asked, [] if language == "English" else [said], example)


def read_sentences(text: str) -> list[str]:
    """The sentences in what a model wrote (see `sentences_prompt`), at most ten of them.

    Lenient about what surrounds the JSON object and about the number of sentences, for each is judged by itself.
    Raises `DataError` with what is wrong.
    """
    sentences = object_in(text).get("sentences")
    if not isinstance(sentences, list) or not sentences:
        raise DataError(f'no list "sentences" in {shown(text)}')
    for sentence in sentences:
        if not isinstance(sentence, str) or not sentence.strip():
            raise DataError(f"a sentence that is no text: {shown(repr(sentence))}")
    return [" ".join(sentence.split()) for sentence in sentences[:SENTENCES]]


_QUOTES = {'"': '"', "'": "'", "“": "”", "‘": "’", "«": "»", "„": "“", "`": "`"}
_OPENING, _CLOSING = (f"[{re.escape(''.join(marks))}]" for marks in (_QUOTES, _QUOTES.values()))
_NUMBERED = re.compile(r"[0-9]{1,2}[.)] +")


def template_of(sentence: str, subject: str, object: str) -> str | Unfit:
    """The sentence with slots for its subject and its object, or why it gives no template.

    The subject must occur once and the object at the end, as whole words, whatever their case; punctuation and quotes
    may follow the object. Quotes round either go, as does a "the" before the subject that is no part of its label (it
    is put back by label, see `anachron.text.cloze.fill_cloze`) and a number before the sentence.
    """
    subject, object, sentence = (" ".join(text.split()) for text in (subject, object, sentence))
    if not subject or not object:
        return Unfit("no label", f"subject {subject!r}, object {object!r}")
    sentence = _unquoted(sentence)
    end = re.search(rf"{_OPENING}?{_whole(object)}[\s.,;:!?…]*{_CLOSING}?[\s.,;:!?…]*\Z", sentence, re.IGNORECASE)
    if end is None:
        return Unfit("object not at the end", f"{sentence!r} does not end with {object!r}")
    head = sentence[: end.start()]
    places = list(re.finditer(_whole(subject), head, re.IGNORECASE))
    if len(places) != 1:
        reason = "subject twice" if places else "subject missing"
        return Unfit(reason, f"{sentence!r} holds {subject!r} {len(places)} times before its object; once is right")
    before, after = _without_quotes(head[: places[0].start()], head[places[0].end() :])
    before, after = _without_quotes(re.sub(r"\bthe \Z", "", before, flags=re.IGNORECASE), after)
    before = _NUMBERED.sub("", before) if _NUMBERED.match(before) else before
    if re.search(_whole(object), f"{before}\n{after}", re.IGNORECASE):
        return Unfit("object twice", f"{sentence!r} holds {object!r} before its end, too")
    template = f"{before}{SUBJECT_SLOT}{after}{OBJECT_SLOT}"
    fault = cloze_fault(template)
    return template if fault is None else Unfit("no template", fault)


def _whole(label: str) -> str:
    """A pattern for a label that is not a part of a longer word."""
    return rf"(?<!\w){re.escape(label)}(?!\w)"


def _unquoted(sentence: str) -> str:
    """A sentence without quotes round the whole of it."""
    closing = _QUOTES.get(sentence[:1])
    bare = sentence.rstrip(".!?…")
    inner = bare[1:-1]
    if closing is not None and len(bare) > 1 and bare.endswith(closing) and not {sentence[0], closing} & set(inner):
        return inner
    return sentence


def _without_quotes(before: str, after: str) -> tuple[str, str]:
    """The text on both sides of a subject, without the quotes round it."""
    closing = _QUOTES.get(before[-1:])
    if closing is not None and after.startswith(closing):
        return before[:-1], after[1:]
    return before, after


def templates_from(triple: FactToWord, text: str) -> list[str | Unfit]:
    """What each sentence of a model's answer about a triple gives; one `Unfit` for an answer that cannot be read."""
    try:
        sentences = read_sentences(text)
    except DataError as error:
        return [Unfit("not the JSON asked for", str(error))]
    return [template_of(sentence, triple.subject, triple.object) for sentence in sentences]


def best_templates(pairs: Iterable[tuple[str, str]], most: int = MOST_TEMPLATES) -> dict[str, list[tuple[str, int]]]:
    """Relation id -> its most frequent templates with how often each was found; of equals the one found first.

    pairs: (relation id, template), one for every sentence. Relations come in the order in which they were found.
    """
    counts: dict[str, Counter[str]] = {}
    for relation, template in pairs:
        counts.setdefault(relation, Counter())[template] += 1
    return {relation: counter.most_common(most) for relation, counter in counts.items()}


def count_unfit(outcomes: Iterable[str | Unfit]) -> dict[str, int]:
    """Reason -> how many sentences (or unreadable answers) were dropped for it, the most frequent first."""
    return by_frequency(outcome.reason for outcome in outcomes if isinstance(outcome, Unfit))
