"""Questions for a fact by the templates of its relation, and the checks that a bad one does not pass."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from anachron.text.agreement import in_doubt
from anachron.text.kinds import subject_kind
from anachron.text.languages import Language, language_of
from anachron.text.questions import draw_question, question_fault, same_label
from anachron.text.roles import RoleQuestions, role_of, role_questions

TEMPLATES = "templates"
NO_TEMPLATES = "relation without templates"  # a reason to fail


@dataclass(frozen=True, slots=True)
class FactToWord:
    """What questions are made from, and sentences (`anachron.text.cloze_llm`), which need no ``fact_id``.

    year: in the middle of the fact's period; None where no end is known. subject_kind: of `anachron.text.kinds`.
    """

    fact_id: str
    subject: str
    relation_id: str
    object: str
    relation: str = ""
    year: int | None = None
    subject_description: str = ""
    relation_description: str = ""
    object_description: str = ""
    subject_kind: str | None = None


@dataclass(frozen=True, slots=True)
class Verbalised:
    """Four questions without date, each ending with ``?``, and which of them the fact is asked with (0 to 3).

    sure: whether a person need not look at them: false where a rule took a word, or a name, for what it seems to be.
    """

    fact_id: str
    questions: tuple[str, ...]
    drawn: int
    sure: bool = True


@dataclass(frozen=True, slots=True)
class Failed:
    """A fact that gets no question: ``reason`` is one of few, for counting; ``detail`` says what was seen."""

    fact_id: str
    reason: str
    detail: str


Outcome = Verbalised | Failed


def unaskable(fact: FactToWord) -> Failed | None:
    """Why a fact cannot be verbalised by any means, or None."""
    for name in ("subject", "object"):
        if not getattr(fact, name):
            return Failed(fact.fact_id, "no label", f"the {name} has no label")
    return None


def by_templates(fact: FactToWord, seed: int = 0, language: Language | None = None) -> Outcome:
    """Four questions from the templates of the fact's relation, or why not. language: by default English."""
    language = language or language_of("en")
    if (failed := unaskable(fact)) is not None:
        return failed
    if fact.relation_id not in language.relations:
        named = f" ({fact.relation})" if fact.relation else ""
        return Failed(fact.fact_id, NO_TEMPLATES, f"{fact.relation_id}{named}")
    templates = language.relations[fact.relation_id].questions
    kind = subject_kind(fact.relation_id, fact.subject_kind)
    worded = [(language.question(template, fact.subject, kind), fact.object) for template in templates]
    return checked_pairs(fact, worded, seed, language.name)


def checked_pairs(fact: FactToWord, pairs: Sequence[tuple[str, str]], seed: int, language: str) -> Outcome:
    for question, answer in pairs:
        fault = pair_fault(fact, question, answer, language)
        if fault is not None:
            return Failed(fact.fact_id, *fault)
    questions = tuple(question for question, _ in pairs)
    if len({re.sub(r"\W", "", question.casefold()) for question in questions}) < len(questions):
        return Failed(fact.fact_id, "questions not distinct", f"two of {list(questions)} are the same")
    return Verbalised(fact.fact_id, questions, draw_question(questions, fact.fact_id, seed))


def pair_fault(fact: FactToWord, question: str, answer: str, language: str) -> tuple[str, str] | None:
    fault = question_fault(question, fact.subject, fact.object, answer, language)
    if fault is not None:
        subject = fault[0] == "wrong answer" and same_label(answer, fact.subject)
        return ("answer is the subject", fault[1]) if subject else fault
    if question != " ".join(question.split()):
        return "stray white space", f"question {question!r} must be one line with single spaces"
    if fact.year is not None:
        rest = re.sub(re.escape(fact.subject), "", question, flags=re.IGNORECASE)
        if re.search(rf"(?<![\w-]){abs(fact.year)}(?!\w)", rest):
            return "date left", f"question {question!r} still mentions {abs(fact.year)}"
    return None


def by_templates_or_role(fact: FactToWord, seed: int = 0, language: Language | None = None) -> Outcome:
    """As `by_templates`; where the relation has none, the one question by its own words (`anachron.text.roles`).

    Its questions are marked where the rules are unsure of the relation, or of the subject's article.
    """
    language = language or language_of("en")
    named = None if fact.relation_id in language.relations else asked_by_name(fact.relation, fact.subject, language)
    made: Outcome
    if named is None:
        made = by_templates(fact, seed, language)
        certain = True
    else:
        fault = pair_fault(fact, named.past, fact.object, language.name)
        made = Failed(fact.fact_id, *fault) if fault else Verbalised(fact.fact_id, (named.past,), 0)
        certain = named.sure
    if isinstance(made, Failed):
        return made
    return replace(made, sure=certain and not in_doubt(fact.subject, language.name))


def asked_by_name(relation: str, subject: str, language: Language) -> RoleQuestions | None:
    """The questions about a subject by the words of a relation, in both tenses; None where those cannot be asked."""
    found = role_questions(role_of(relation, subject, language.name), language.name)
    if found is None:
        return None
    past, present = (language.question(template, subject) for template in (found.past, found.present))
    return replace(found, past=past, present=present)
