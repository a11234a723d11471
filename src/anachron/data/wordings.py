"""Facts asked in all the questions that were written for them, under the very same dates (TimeStress, 3.2.2: four
questions a fact, of which one is asked)."""

from dataclasses import replace
from typing import Any

import polars as pl

from anachron.core.errors import DataError
from anachron.data.columns import parse_questions
from anachron.data.dataset import Dataset
from anachron.text.languages import Language, code_of, language_of
from anachron.text.openings import behind_opening, guessed_language
from anachron.text.templates import FactToWord, Verbalised, by_templates

OWN = 0  # the number of a fact's own question, where it is none of those
SCHEMA = {"fact_id": pl.String, "wording": pl.Int8, "behind": pl.String, "worded": pl.String}


def with_wordings(data: Dataset) -> Dataset:
    """The data set with all the questions that its facts have: those stored with it (column ``Questions``), else the
    four of the templates of the relation.

    ``Dataset.wordings`` then has for each fact and wording (1 to 4, in the order of the questions; `OWN` for a question
    of its own) what stands ``behind`` the date in its statements, and what does in these words (``worded``). The
    wording that is asked is among them: its scores are the same. Facts without either have none.

    Raises `DataError` where no fact has any.
    """
    plain = data.table.filter(pl.col("status") == "none").unique("fact_id", maintain_order=True)
    language = _language(data, plain)
    name = "English" if language is None else language.name
    rows: list[tuple[str, int, str, str]] = []
    for row in plain.iter_rows(named=True):
        own, subject = row["prompt"], row["subject_label"]
        questions = parse_questions(row.get("questions")) or _of_templates(row, language)
        if not questions:
            continue
        asked = [*enumerate(questions, 1), *([] if own in questions else [(OWN, own)])]
        behind = behind_opening("", own, subject, name)
        rows += [(row["fact_id"], n, behind, behind_opening("", text, subject, name)) for n, text in asked]
    if not rows:
        raise DataError(
            f"{data.name}: no fact has several questions, nor a relation with templates, so there are no other "
            "wordings of any"
        )
    return replace(data, wordings=pl.DataFrame(rows, schema=SCHEMA, orient="row"))


def _language(data: Dataset, plain: pl.DataFrame) -> Language | None:
    """The language of the questions: a file of facts is in English unless it says otherwise, statements tell by their
    words. None where they do not, or are in a language without templates."""
    if data.language is not None or data.about is not None:
        return language_of(data.language or "en")
    code = code_of(guessed_language(plain["prompt"]) or "")
    return None if code is None else language_of(code)


def _of_templates(row: dict[str, Any], language: Language | None) -> tuple[str, ...]:
    if language is None:
        return ()
    label = row["relation_label"] or ""
    relation = language.relation_id(row["relation_id"], label) or row["relation_id"] or label
    made = by_templates(
        FactToWord(row["fact_id"], row["subject_label"], relation, row["object_label"], label), language=language
    )
    return made.questions if isinstance(made, Verbalised) else ()
