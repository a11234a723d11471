"""The facts of a run in words: labels, question, and how its dates are worded, so that every prompt can be rebuilt.

Also the questions that a model is asked about a data set.
"""

from pathlib import Path

import polars as pl

from anachron.core.dates import Date
from anachron.core.errors import DataError
from anachron.data.dataset import Dataset
from anachron.data.own.rows import GivenFact
from anachron.data.own.statements import as_of_date
from anachron.probe.ask.questions import Questions, questions_about
from anachron.text.dates import date_in_words, wordings
from anachron.text.languages import language_of

ASKED = ("fact_id", "question", "subject", "relation", "object")
FIRST = 200  # dated statements that a wording is tried on before all are


def questions_of_run(data: Dataset) -> pl.DataFrame:
    """One row a fact, in the order of the data set: ``fact_id``, ``question`` and labels, in words.

    Of a file of facts it is what that says of them (`anachron.data.own.statements.OwnFacts`); of other data sets the
    columns `ASKED`, where the question is the statement without a date, null where the fact has none.
    """
    return _questions(data.table) if data.about is None else data.about


def date_style(table: pl.DataFrame) -> str | None:
    """The wording (`anachron.text.dates.wordings`) by which all dated prompts of statements are its opening of the date
    and the fact's question; None where there is none, or no statement has a date."""
    questions = _questions(table).select("fact_id", "question")
    dated = table.filter(pl.col("time").is_not_null()).select("fact_id", "time", "prompt")
    if not dated.height:
        return None
    joined = dated.join(questions, on="fact_id", how="left")
    return next((s for s in wordings() if _rebuilt(joined.head(FIRST), s) and _rebuilt(joined, s)), None)


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


def questions_of(
    data: Dataset,
    given: tuple[GivenFact, ...] | None = None,
    language: str | Path | None = None,
    today: Date | None = None,
) -> tuple[Questions, Date]:
    """The questions about a data set's facts, and the last day that is known of: its ``as_of``, else ``today``.

    given: by default the facts that it came from.
    """
    lang, as_of = language_of(language or "en"), Date.parse(data.as_of) if data.as_of else as_of_date(today)
    asked = questions_of_run(data).select("fact_id", "question")
    decoys: dict[str, list[str]] = {}
    for fact, decoy in () if data.decoys is None else data.decoys.rows():
        decoys.setdefault(fact, []).append(decoy)
    return questions_about(
        data.table, dict(asked.rows()), language=lang.name, style=lang.style, as_of=as_of,
        given=data.given if given is None else given, decoys=decoys,
    ), as_of  # fmt: skip


def questions_of_data(data: Dataset, language: str | Path | None = None) -> Questions:
    """The questions that a probe by answers asks about a data set."""
    return questions_of(data, None, language)[0]
