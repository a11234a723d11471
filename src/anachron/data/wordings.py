"""Facts asked in all the wordings of their relation, under the very same dates (TimeStress, 3.2.2: four questions a
fact, of which one is asked)."""

from dataclasses import replace

import polars as pl

from anachron.core.errors import DataError
from anachron.data.dataset import Dataset
from anachron.text.languages import language_of
from anachron.text.openings import behind_opening
from anachron.text.templates import FactToWord, Verbalised, by_templates

OWN = 0  # the number of a fact's own question, where it is none of the templates
SCHEMA = {"fact_id": pl.String, "wording": pl.Int8, "behind": pl.String, "worded": pl.String}


def with_wordings(data: Dataset) -> Dataset:
    """The data set with the four questions that the templates of its relations have for each fact, beside its own.

    ``Dataset.wordings`` then has for each fact and wording (1 to 4, in the order of the templates; `OWN` for a question
    of its own) what stands ``behind`` the date in its statements, and what does in these words (``worded``). The
    wording that is asked is among them: its scores are the same. Facts whose relation has no templates have none.

    Raises `DataError` where no fact has any.
    """
    language = language_of(data.language or "en")
    plain = data.table.filter(pl.col("status") == "none").unique("fact_id", maintain_order=True)
    rows: list[tuple[str, int, str, str]] = []
    for row in plain.iter_rows(named=True):
        label = row["relation_label"] or ""
        relation = language.relation_id(row["relation_id"], label) or row["relation_id"] or label
        fact = FactToWord(row["fact_id"], row["subject_label"], relation, row["object_label"], label)
        made = by_templates(fact, language=language)
        if not isinstance(made, Verbalised):
            continue
        own, subject = row["prompt"], row["subject_label"]
        asked = [*enumerate(made.questions, 1), *([] if own in made.questions else [(OWN, own)])]
        behind = behind_opening("", own, subject, language.name)
        rows += [(fact.fact_id, n, behind, behind_opening("", text, subject, language.name)) for n, text in asked]
    if not rows:
        raise DataError(f"{data.name}: no fact is of a relation with templates, so there are no other wordings of any")
    return replace(data, wordings=pl.DataFrame(rows, schema=SCHEMA, orient="row"))
