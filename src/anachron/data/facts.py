"""Tables of dated facts (``build facts``) and of facts with their questions (``verbalize``)."""

from collections.abc import Iterable
from typing import Any

import polars as pl

from anachron.core.dates import Date
from anachron.core.errors import DataError
from anachron.core.facts import Fact
from anachron.core.periods import Period
from anachron.core.sameness import name_key
from anachron.data.own.columns import NEEDED
from anachron.data.question_tables import QUESTION_COLUMNS
from anachron.data.statements import FactWithQuestion
from anachron.io.schemas import NOT_BLANK, CellRule, ColumnSchema, Schema
from anachron.io.stores import Place
from anachron.io.tables import read_table
from anachron.text.questions import CLOSED

FACTS_SCHEMA: dict[str, Any] = {
    "fact_id": pl.String, "subject_id": pl.String, "subject_label": pl.String, "subject_description": pl.String,
    "relation_id": pl.String, "relation_label": pl.String, "relation_description": pl.String, "object_id": pl.String,
    "object_label": pl.String, "object_description": pl.String, "start": pl.String, "end": pl.String,
    "popularity": pl.Float64, "subject_popularity": pl.Float64, "object_popularity": pl.Float64,
    "other_objects": pl.Int64, "subject_from": pl.String, "object_from": pl.String, "statement_id": pl.String,
    "subject_kind": pl.String, "subject_revision": pl.Int64, "subject_modified": pl.String, "references": pl.String,
}  # fmt: skip
CITED_BY = (  # what a fact's row of the table of sources tells
    "fact_id", "subject_id", "relation_id", "object_id", "start", "end", "statement_id", "subject_revision",
    "subject_modified", "references",
)  # fmt: skip
# What a file of one's own facts calls otherwise than this table, and the columns that it may have
OWN_NAMES = {
    "subject_label": "subject", "relation_label": "relation", "object_label": "object", "subject_from": "subject_birth",
    "object_from": "object_birth",
}  # fmt: skip
OWN = dict.fromkeys([*NEEDED, "other_objects", "popularity", *OWN_NAMES.values(), *CITED_BY[1:]])
# Further periods in which the same (s, r, o) holds, where the selection kept such facts; an open end is null.
OTHER_PERIODS = pl.List(pl.Struct({"start": pl.String, "end": pl.String}))
QUESTIONS_SCHEMA: dict[str, Any] = FACTS_SCHEMA | QUESTION_COLUMNS
# What statements cannot be made without. Facts written by hand need no more.
ASKED = ("subject_label", "relation_label", "object_label", "start", "end", "question")
_OPEN = "must end with '?' or, as the beginning of a statement, with the word that the answer follows"


def _is_open(question: pl.Expr) -> pl.Expr:
    return ~pl.any_horizontal(question.str.ends_with(mark) for mark in CLOSED)


OPEN = CellRule(_is_open, _OPEN)
ALL_OPEN = CellRule(lambda questions: questions.list.eval(_is_open(pl.element())).list.all(), f"each {_OPEN}")


def told_apart(facts: pl.DataFrame) -> pl.DataFrame:
    """Those facts that their names tell apart, as a question and a file of one's own facts do.

    Facts in which one name stands for two entities (Georgia, for one of two subjects of a relation) are left out.
    """
    subject, object_ = _named("subject"), _named("object")
    several = [
        pl.col("subject_id").n_unique().over("relation_id", subject) > 1,
        pl.col("object_id").n_unique().over("relation_id", subject, object_) > 1,
    ]
    return facts.filter(~pl.any_horizontal(several))


def as_own_facts(facts: pl.DataFrame) -> pl.DataFrame:
    """Facts as a file of one's own has them, one row a period, the columns of `OWN` that hold something.

    Those of one subject and relation stand together, the earliest first.
    """
    begins = pl.Series([Date.parse(start).first_day for start in facts["start"]], dtype=pl.Int64)
    ordered = facts.sort(_named("subject"), "relation_id", begins, _named("object"), "end", nulls_last=True)
    own = ordered.rename(OWN_NAMES)
    return own.select(n for n in OWN if n in NEEDED or (n in own.columns and own[n].null_count() < own.height))


def _named(side: str) -> pl.Expr:
    return pl.col(f"{side}_label").map_elements(name_key, pl.String)


def read_questions(path: Place | str) -> pl.DataFrame:
    """A table of facts with questions: at least the columns of `ASKED`, the others of `QUESTIONS_SCHEMA` as nulls.

    Columns that are nested in Parquet (``questions``, ``other_periods``) may be missing, or JSON lines' own lists.
    Raises `DataError` for missing columns, an empty table, a row without a value that statements need and a question
    behind which no answer can go on.
    """
    raw = read_table(path)
    types = QUESTIONS_SCHEMA | ({"other_periods": OTHER_PERIODS} if "other_periods" in raw.columns else {})
    columns = {name: ColumnSchema(kind, optional=True) for name, kind in types.items()}
    columns |= dict.fromkeys(ASKED, ColumnSchema(filled=True, rules=(NOT_BLANK,)))
    columns["question"] = ColumnSchema(filled=True, rules=(NOT_BLANK, OPEN))
    remedy = "" if "question" in raw.columns else "verbalize the facts first"
    columns["questions"] = ColumnSchema(QUESTION_COLUMNS["questions"], optional=True, rules=(ALL_OPEN,))
    table = Schema(str(path), columns, remedy=remedy).read(raw)
    if not table.height:
        raise DataError(f"{path} has no rows; a selection or a verbalisation left nothing")
    return table


def facts_with_questions(table: pl.DataFrame) -> Iterable[FactWithQuestion]:
    """The rows of `read_questions` as facts to be asked.

    Raises `DataError` naming the row of a date that is none, and of a fact that is there twice.
    """
    rows: dict[str, int] = {}
    for number, row in enumerate(table.iter_rows(named=True), 1):
        try:
            fact = Fact(
                subject=row["subject_label"], relation=row["relation_label"], object=row["object_label"],
                period=Period(row["start"], row["end"]), subject_id=row["subject_id"], relation_id=row["relation_id"],
                object_id=row["object_id"], popularity=row["popularity"],
            )  # fmt: skip
            others = tuple(Period(other["start"], other["end"]) for other in row.get("other_periods") or ())
        except DataError as error:
            raise DataError(f"row {number}: {error}") from None
        if rows.setdefault(fact.id, number) != number:
            raise DataError(f"row {number}: the same fact as row {rows[fact.id]} ({fact.subject}, {fact.object})")
        yield FactWithQuestion(
            fact, row["question"], row["other_objects"], row["subject_popularity"], row["object_popularity"],
            row["subject_from"], row["object_from"], others,
            questions=tuple(row["questions"] or ()),
        )  # fmt: skip
