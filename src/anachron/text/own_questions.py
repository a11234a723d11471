"""Questions for a file of one's own facts: those that its rows bring, the templates of a relation, a model's."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import polars as pl

from anachron.facts.files import as_table
from anachron.facts.rows import Fault, GivenFact, canonical
from anachron.text.question_tables import QUESTION_COLUMNS
from anachron.text.questions import question_fault, relation_templates
from anachron.text.verbalize import FactToWord, Verbalised, by_templates

SHORT_NAMES = {"ceo": "chief executive officer", "coo": "chief operating officer"}
RELATED = {  # what people write, and relations that it may mean; which one only they know
    "president": ["head of state", "chairperson"], "prime minister": ["head of government"],
    "chancellor": ["head of government"], "king": ["head of state"], "queen": ["head of state"],
    "monarch": ["head of state"], "manager": ["director / manager", "head coach"], "coach": ["head coach"],
    "team": ["member of sports team"], "club": ["member of sports team"], "husband": ["spouse"], "wife": ["spouse"],
    "headquarters": ["headquarters location"], "owner": ["owned by"], "university": ["educated at"],
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, or why there is none."""

    text: str = ""
    reason: str = ""


def question_of(item: GivenFact, seed: int = 0) -> Asked:
    """The fact's own question, or one of the bundled templates of its relation, found by its id or its label."""
    if item.question is not None:
        return Asked(item.question)
    fact = item.fact
    relation = relation_id_of(fact.relation_id, fact.relation)
    if relation is None:
        return Asked(
            reason=f"no question: no templates for the relation {fact.relation!r}{_near(fact.relation)}; give a column "
            "question"
        )
    worded = by_templates(FactToWord(fact.id, fact.subject, relation, fact.object, fact.relation), seed)
    if isinstance(worded, Verbalised):
        return Asked(worded.questions[worded.drawn])
    return Asked(reason=f"no question: {worded.reason} ({worded.detail}); give a column question")


def relation_id_of(relation_id: str | None, label: str) -> str | None:
    """The id under which a relation has templates: its own, or that of the relation with this id or label."""
    templates = relation_templates()
    if relation_id is not None or label in templates:
        known = relation_id or label
        return known if known in templates else None
    meant = SHORT_NAMES.get(label.casefold(), label.casefold())
    return next((key for key, (name, _) in templates.items() if name.casefold() == meant), None)


def _near(label: str) -> str:
    """`` (like it: head of state)`` for a label that is like some with templates; else nothing."""
    names = {name.casefold(): name for name, _ in relation_templates().values()}
    like = RELATED.get(label.casefold()) or get_close_matches(label.casefold(), names, n=1)
    return f" (like it: {', '.join(names[name] for name in like)})" if like else ""


def question_faults(item: GivenFact) -> list[Fault]:
    """What is wrong with the questions that the rows of a fact bring."""
    faults = []
    if item.question is not None and (fault := question_fault(item.question, item.fact.subject, item.fact.object)):
        faults.append(Fault(item.rows[0], "question", fault[1]))
    present = item.present_question
    if present is not None and not present.endswith("?"):
        faults.append(Fault(item.rows[0], "present_question", f"question {present!r} must end with '?'"))
    return faults


def facts_to_ask(items: Iterable[GivenFact]) -> pl.DataFrame:
    """The facts as `anachron.text.question_files.verbalise` takes them, one a row; see `NEEDED_BY_MODELS` there."""
    rows = [
        {
            "fact_id": item.fact.id, "subject_label": item.fact.subject,
            "relation_id": relation_id_of(item.fact.relation_id, item.fact.relation) or item.fact.relation_id
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
        for period in item.periods if item.fact.id in of_fact else ():
            dates = {"start": str(period.start), "end": period.end and str(period.end)}
            row = {name: dates.get(canonical(name), value) for name, value in item.values.items()}
            rows.append(row | {"other_objects": item.other_objects})
            made.append({name: of_fact[item.fact.id][name] for name in QUESTION_COLUMNS})
    made_here = {*QUESTION_COLUMNS, "other_objects"}
    columns = [*(name for name in items[0].values if canonical(name) not in made_here), "other_objects"]
    return pl.concat([as_table(rows, columns), pl.DataFrame(made, schema=QUESTION_COLUMNS)], how="horizontal")


def in_words(items: Sequence[GivenFact], failed: pl.DataFrame) -> pl.DataFrame:
    """A table of facts that got no question, with their subject, relation, object and rows in the file."""
    of_fact = {item.fact.id: item for item in items}
    named = [of_fact[fact_id] for fact_id in failed["fact_id"]]
    sides = [[getattr(item.fact, side) for item in named] for side in ("subject", "relation", "object")]
    columns = [*sides, [" ".join(map(str, item.rows)) for item in named]]
    names = ("subject", "relation", "object", "rows")
    return failed.with_columns(pl.Series(n, c, pl.String) for n, c in zip(names, columns, strict=True))
