"""Tables of facts and questions, and samples of them for a person to judge."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from anachron.core.errors import DataError
from anachron.io.json_answers import by_frequency
from anachron.io.schemas import EMPTY, ColumnSchema, Schema, refuse_duplicates, refuse_missing, refuse_rows
from anachron.io.tables import harmless
from anachron.text.templates import FactToWord, Failed, Outcome, Verbalised
from anachron.text.verbalize import NEEDED, NEEDED_BY_MODELS, fact_to_word

NUMBERS: dict[str, type[pl.DataType]] = {
    "popularity": pl.Float64,
    "subject_popularity": pl.Float64,
    "object_popularity": pl.Float64,
    "other_objects": pl.Int64,
}
QUESTION_COLUMNS: dict[str, pl.DataType | type[pl.DataType]] = {
    "question": pl.String,
    "drawn": pl.Int8,
    "questions": pl.List(pl.String),
    "source": pl.String,
}
_YES = {"yes": True, "y": True, "true": True, "1": True, "no": False, "n": False, "false": False, "0": False}


def facts_table(table: pl.DataFrame, name: str) -> pl.DataFrame:
    """A table of facts with numbers as numbers (text files have none) and without columns that this step writes.

    name: of the file, for errors. Raises `DataError` for a missing column, a number that is none, an empty or
    repeated fact_id.
    """
    refuse_missing(table.columns, NEEDED, name, f"a table of facts needs {', '.join(NEEDED)}")
    table = table.drop([column for column in QUESTION_COLUMNS if column in table.columns])
    ids = pl.col("fact_id")  # of any type, which it keeps
    refuse_rows(table, "fact_id", ids.is_null() | (ids.cast(pl.String) == ""), EMPTY, name)
    refuse_duplicates(table, ["fact_id"], name)
    numbers = {column: ColumnSchema(kind) for column, kind in NUMBERS.items() if column in table.columns}
    return Schema(name, numbers).read(table, others=True)


def facts_to_word(table: pl.DataFrame, name: str, *, by_model: bool) -> list[FactToWord]:
    """The facts of a table, one a row. Raises `DataError` for a column that a model must be told, and for bad dates."""
    if by_model:
        remedy = "a model is told the relation and asked at a date"
        refuse_missing(table.columns, NEEDED_BY_MODELS, name, remedy)
    facts: list[FactToWord] = []
    for number, row in enumerate(table.iter_rows(named=True), 1):
        try:
            facts.append(fact_to_word(row))
        except DataError as error:
            raise DataError(f"{name}, row {number}: {error}") from error
    return facts


def questions_table(table: pl.DataFrame, outcomes: Sequence[Outcome], source: str) -> pl.DataFrame:
    """The rows whose fact got questions, in their order, with the columns `QUESTION_COLUMNS`."""
    done = [outcome if isinstance(outcome, Verbalised) else None for outcome in outcomes]
    columns: dict[str, list[object]] = {
        "question": [v and v.questions[v.drawn] for v in done],
        "drawn": [v and v.drawn for v in done],
        "questions": [v and list(v.questions) for v in done],
        "source": [source] * len(done),
    }
    added = [pl.Series(name, columns[name], dtype=kind) for name, kind in QUESTION_COLUMNS.items()]
    return table.with_columns(added).filter(pl.Series([v is not None for v in done], dtype=pl.Boolean))


def failures_table(outcomes: Iterable[Outcome]) -> pl.DataFrame:
    """``fact_id, reason, detail`` of the facts that got none."""
    failed = [o for o in outcomes if isinstance(o, Failed)]
    rows = [(f.fact_id, f.reason, f.detail) for f in failed]
    return pl.DataFrame(rows, schema=dict.fromkeys(("fact_id", "reason", "detail"), pl.String), orient="row")


def count_reasons(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """How many facts failed for each reason, the most frequent first."""
    return by_frequency(o.reason for o in outcomes if isinstance(o, Failed))


def draw_sample(questions: pl.DataFrame, size: int, seed: int = 0) -> pl.DataFrame:
    """A seeded sample of facts' questions to be judged: ``fact_id, question, answer, good``, the last empty.

    Which facts are drawn depends on the seed and their ids alone, not on their order.
    """
    if size < 1:
        raise DataError(f"a sample of {size} questions; draw at least 1")
    ranks = [hashlib.sha256(f"sample\n{seed}\n{fact_id}".encode()).hexdigest() for fact_id in questions["fact_id"]]
    order = sorted(range(len(ranks)), key=ranks.__getitem__)[:size]
    drawn = questions[order].select("fact_id", "question", pl.col("object_label").alias("answer"))
    return drawn.with_columns(pl.lit(None, dtype=pl.String).alias("good"))


@dataclass(frozen=True, slots=True)
class Judged:
    """A judged sample: how many of its questions are good, and how many questions it was drawn from."""

    good: int
    judged: int
    population: int


def read_judged(sample: pl.DataFrame, questions: pl.DataFrame, name: str) -> Judged:
    """Count a sample whose column ``good`` a person has filled in with yes or no.

    Raises `DataError` for a row that is not judged, judged twice, or not a question of the table it is held against.
    """
    for table, wanted, which in ((sample, ("fact_id", "question", "good"), name), (questions, ("question",), "FACTS")):
        refuse_missing(table.columns, wanted, which, "judge a file that --sample-out wrote, unchanged")
    if not sample.height:
        raise DataError(f"{name}: no question was judged")
    sample, questions = harmless(sample), harmless(questions)  # the sample was written so, but may come from elsewhere
    known = dict(zip(questions["fact_id"].cast(pl.String), questions["question"], strict=True))
    seen: set[str] = set()
    good = 0
    for number, row in enumerate(sample.iter_rows(named=True), 2):  # line 1 is the header
        verdict = _YES.get(str(row["good"] if row["good"] is not None else "").strip().casefold())
        if verdict is None:
            raise DataError(f"{name}, line {number}: good is {row['good']!r}; write yes or no in every row")
        if known.get(row["fact_id"]) != row["question"]:
            raise DataError(
                f"{name}, line {number}: {row['question']!r} is not the question of fact {row['fact_id']!r} in "
                "the table it is held against; give the questions that the sample was drawn from"
            )
        if row["fact_id"] in seen:
            raise DataError(f"{name}, line {number}: fact {row['fact_id']!r} is judged twice; keep one row of it")
        seen.add(row["fact_id"])
        good += verdict
    return Judged(good, sample.height, questions.height)
