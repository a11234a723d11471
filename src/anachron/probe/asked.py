"""The facts of a run in words: labels, question, and how its dates are worded, so that every prompt can be rebuilt."""

import polars as pl

from anachron.core.dates import Date
from anachron.data.loaders import Dataset
from anachron.errors import DataError
from anachron.text.dates import WORDINGS, date_in_words

ASKED = ("fact_id", "question", "subject", "relation", "object")
FIRST = 200  # dated statements that a wording is tried on before all are


def questions_of_run(data: Dataset) -> pl.DataFrame:
    """One row a fact, in the order of the data set: ``fact_id``, ``question`` and labels, in words.

    Of a file of facts it is what that says of them (`anachron.data.own_facts.OwnFacts`); of other data sets the columns
    `ASKED`, where the question is the statement without a date, null where the fact has none.
    """
    return _questions(data.table) if data.about is None else data.about


def date_style(table: pl.DataFrame) -> str | None:
    """The wording (`anachron.text.dates.WORDINGS`) by which all dated prompts of statements are its opening of the date
    and the fact's question; None where there is none, or no statement has a date."""
    questions = _questions(table).select("fact_id", "question")
    dated = table.filter(pl.col("time").is_not_null()).select("fact_id", "time", "prompt")
    if not dated.height:
        return None
    joined = dated.join(questions, on="fact_id", how="left")
    return next((s for s in WORDINGS if _rebuilt(joined.head(FIRST), s) and _rebuilt(joined, s)), None)


def _questions(table: pl.DataFrame) -> pl.DataFrame:
    undated = pl.col("prompt").filter(pl.col("time").is_null()).first()
    labels = (pl.col(f"{name}_label").first().alias(name) for name in ("subject", "relation", "object"))
    return table.group_by("fact_id", maintain_order=True).agg(undated.alias("question"), *labels).select(ASKED)


def _rebuilt(dated: pl.DataFrame, style: str) -> bool:
    """Whether every prompt is the opening of its date and the question. dated: ``time, prompt, question``."""
    times = dated["time"].unique()
    try:
        openings = [date_in_words(Date.parse(time), style) for time in times]
    except DataError:  # a time that is no date has no wording
        return False
    made = pl.DataFrame({"time": times, "opening": openings}, schema={"time": pl.String, "opening": pl.String})
    same = pl.col("opening") + pl.col("question") == pl.col("prompt")
    return bool(dated.join(made, on="time").select(same.fill_null(False).all()).item())
