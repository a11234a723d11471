"""Questions for a file of one's own facts: those that its rows bring, the templates of a relation, a model's."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import polars as pl

from anachron.core.facts import Fact
from anachron.core.sameness import name_key
from anachron.data.own.columns import canonical
from anachron.data.own.faults import Fault
from anachron.data.own.files import as_table
from anachron.data.own.rows import GivenFact
from anachron.data.question_tables import QUESTION_COLUMNS
from anachron.text.languages import Language, language_of
from anachron.text.questions import closing_fault, question_fault
from anachron.text.templates import NO_TEMPLATES, FactToWord, Verbalised, asked_by_name, by_templates_or_role

RELATED = {  # what people write, and relations that it may mean; which one only they know
    "team": ["member of sports team"],
    "club": ["member of sports team"],
    "university": ["educated at"],
}
LOOKED_AT = 3  # that are shown


@dataclass(frozen=True, slots=True)
class QuestionOrReason:
    """A question, or why there is none. sure: whether a person need not look at it."""

    text: str = ""
    reason: str = ""
    sure: bool = True


def with_relation_words(items: Iterable[GivenFact], language: Language) -> list[GivenFact]:
    """The facts, where a row names its relation by ``relation_id`` alone with the words of it, if they are known."""

    def worded(fact: Fact) -> Fact:
        if fact.relation_id is None or fact.relation != fact.relation_id:
            return fact
        known = language.relations.get(fact.relation_id) or language_of("en").relations.get(fact.relation_id)
        return replace(fact, relation=known.label) if known else fact

    return [replace(item, fact=worded(item.fact)) for item in items]


def question_of(item: GivenFact, language: Language | None = None) -> QuestionOrReason:
    """The fact's own question, or one of the bundled templates of its relation, found by its id or its label; or one
    by the relation's own words (`anachron.text.roles`).

    language: of the templates and labels, by default English.
    """
    language = language or language_of("en")
    if item.question is not None:
        return QuestionOrReason(item.question)
    fact = item.fact
    relation = language.relation_id(fact.relation_id, fact.relation)
    known = relation or fact.relation_id or fact.relation
    to_word = FactToWord(fact.id, fact.subject, known, fact.object, fact.relation)
    worded = by_templates_or_role(to_word, language=language)
    if isinstance(worded, Verbalised):
        return QuestionOrReason(worded.questions[worded.drawn], sure=worded.sure)
    if worded.reason == NO_TEMPLATES:
        spoken = "" if language.code == "en" else f" in {language.name}"
        none = f"no templates for the relation {fact.relation!r}{spoken}{_near(fact.relation, language)}"
        return QuestionOrReason(reason=f"no question: {none}; give a column question")
    return QuestionOrReason(reason=f"no question: {worded.reason} ({worded.detail}); give a column question")


def worth_a_look(questions: Sequence[str], where: str) -> str:
    """The notice about questions of which the rules were not sure. where: the file that holds them, to be edited."""
    shown = "; ".join(dict.fromkeys(questions[:LOOKED_AT]))
    return (
        f"{len(questions)} question{'s were' if len(questions) > 1 else ' was'} made by a rule that is not sure, and "
        f"worth a look: {shown}{'; ...' if len(questions) > LOOKED_AT else ''}; where one is wrong, mend the column "
        f"question (and present_question) of {where}, and give that file as your facts"
    )


def _near(label: str, language: Language) -> str:
    """`` (like it: head of state)`` for a label that is like some with templates; else nothing."""
    names = {name_key(worded.label): worded.label for worded in language.relations.values()}
    related = RELATED.get(name_key(label), []) if language.code == "en" else []
    like = related or get_close_matches(name_key(label), names, n=1)
    return f" (like it: {', '.join(names[name] for name in like)})" if like else ""


def question_faults(item: GivenFact, language: str = "English") -> list[Fault]:
    """What is wrong with the questions that the rows of a fact bring. language: the name of theirs."""
    faults = []
    fact = item.fact
    if item.question:
        fault = question_fault(item.question, fact.subject, fact.object, language=language, statements=True)
        if fault is not None:
            faults.append(Fault(item.rows[0], "question", fault[1]))
    more = [("present_question", item.present_question), *(("questions", text) for text in written_questions(item))]
    for column, text in more:
        if text is not None and (closed := closing_fault(text)):
            faults.append(Fault(item.rows[0], column, closed))
    return faults


def written_questions(item: GivenFact) -> tuple[str, ...]:
    """The questions from which ``verbalize`` drew that of the fact; none where it has been replaced since, or the
    file's column of that name holds something else."""
    written = item.values.get("questions")
    return tuple(written) if isinstance(written, list) and item.question in written else ()


def facts_to_ask(items: Iterable[GivenFact], language: Language | None = None) -> pl.DataFrame:
    """The facts as `anachron.data.question_files.verbalise` takes them, one a row; see `NEEDED_BY_MODELS` there."""
    language = language or language_of("en")
    items = with_relation_words(items, language)
    rows = [
        {
            "fact_id": item.fact.id, "subject_label": item.fact.subject,
            "relation_id": language.relation_id(item.fact.relation_id, item.fact.relation) or item.fact.relation_id
            or item.fact.relation, "relation_label": item.fact.relation, "object_label": item.fact.object,
            "start": str(item.fact.period.start), "end": item.fact.period.end and str(item.fact.period.end),
        }
        for item in items
    ]  # fmt: skip
    columns = ("fact_id", "subject_label", "relation_id", "relation_label", "object_label", "start", "end")
    return as_table(rows, columns)


def with_questions(items: Sequence[GivenFact], asked: pl.DataFrame) -> pl.DataFrame:
    """A file of facts again, one row a period, with `QUESTION_COLUMNS`, of the facts that have questions.

    ``other_objects`` counts those without questions too.

    asked: the rows of `facts_to_ask` that got questions, with these columns.
    """
    of_fact = {row["fact_id"]: row for row in asked.iter_rows(named=True)}
    rows, made = [], []
    for item in items:
        for row in _dated(item) if item.fact.id in of_fact else ():
            rows.append(row | {"other_objects": item.other_objects})
            made.append({name: of_fact[item.fact.id][name] for name in QUESTION_COLUMNS})
    made_here = {*QUESTION_COLUMNS, "other_objects"}
    columns = [*(name for name in items[0].values if canonical(name) not in made_here), "other_objects"]
    return pl.concat([as_table(rows, columns), pl.DataFrame(made, schema=QUESTION_COLUMNS)], how="horizontal")


def questions_to_edit(
    items: Sequence[GivenFact], made: Mapping[str, QuestionOrReason], language: Language
) -> pl.DataFrame:
    """A file of facts again, one row a period, with ``question``, ``present_question`` and ``sure`` (yes or no), to be
    mended and given back; also the facts that have no question. made: the questions, by the ids of the facts."""
    rows = []
    for item in items:
        fact, question = item.fact, made[item.fact.id]
        by_name = item.question is None and language.relation_id(fact.relation_id, fact.relation) is None
        named = asked_by_name(fact.relation, fact.subject, language) if by_name else None
        present = item.present_question or (named.present if named else None)
        sure = ("yes" if question.sure else "no") if question.text else None
        asked = {"question": question.text or None, "present_question": present, "sure": sure}
        rows += [row | asked for row in _dated(item)]
    made_here = ("question", "present_question", "sure")
    return as_table(rows, [*(name for name in items[0].values if canonical(name) not in made_here), *made_here])


def _dated(item: GivenFact) -> list[dict[str, Any]]:
    """The columns of a fact's file, once for each of its periods."""
    periods = [{"start": str(one.start), "end": one.end and str(one.end)} for one in item.periods]
    return [{name: dates.get(canonical(name), value) for name, value in item.values.items()} for dates in periods]


def in_words(items: Sequence[GivenFact], failed: pl.DataFrame) -> pl.DataFrame:
    """A table of facts that got no question, with their subject, relation, object and rows in the file."""
    of_fact = {item.fact.id: item for item in items}
    named = [of_fact[fact_id] for fact_id in failed["fact_id"]]
    sides = [[getattr(item.fact, side) for item in named] for side in ("subject", "relation", "object")]
    columns = [*sides, [" ".join(map(str, item.rows)) for item in named]]
    names = ("subject", "relation", "object", "rows")
    return failed.with_columns(pl.Series(n, c, pl.String) for n, c in zip(names, columns, strict=True))
