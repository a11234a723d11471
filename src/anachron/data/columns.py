"""The published columns of TimeStress, and the table that the rest of the code works on.

Published (one row a statement): ``SubjectID ... Statement, Status`` and, where present, ``Alpha, FactPop,
Granularity``; see `PUBLISHED`. We also write ``Boundaries`` and ``OtherObjects`` and, where it is known,
``SubjectPop, ObjectPop, SubjectFrom, ObjectFrom, SubjectUntil, ObjectUntil, AlsoHeld`` and ``Questions`` (JSON, see
`questions_text`). Inside, a statement table has the columns of `STATEMENT_SCHEMA`, and those of `MORE` where they are
known; reading checks every row and names the first that breaks a rule. ``EndDate`` is empty where a fact still holds;
its ``Alpha`` must then be there.
"""

import json
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import polars as pl

from anachron.core.dates import GRANULARITIES, Date, Granularity
from anachron.core.errors import ConfigError, DataError
from anachron.core.facts import fact_id
from anachron.core.periods import Boundaries, Period, Status, check_boundaries
from anachron.core.several_periods import alpha_in, parse_periods, periods_text
from anachron.io.schemas import refuse_missing, refuse_rows
from anachron.text.questions import closing_fault

PUBLISHED = (
    "SubjectID", "SubjectLabel", "RelationID", "RelationLabel", "ObjectID", "ObjectLabel", "StartDate", "EndDate",
    "Time", "Statement", "Status", "Alpha", "FactPop", "Granularity", "Boundaries", "OtherObjects",
)  # fmt: skip
# Popularity of subject and object, the first and the last date on which each exists, later periods of the fact, and, in
# its statements without a date, the questions that were written for it: columns of a data set that knows them of some
# fact, and of no other.
MORE = {
    "SubjectPop": "subject_popularity", "ObjectPop": "object_popularity", "SubjectFrom": "subject_from",
    "ObjectFrom": "object_from", "SubjectUntil": "subject_until", "ObjectUntil": "object_until",
    "AlsoHeld": "also_held", "Questions": "questions",
}  # fmt: skip
MORE_SCHEMA: dict[str, Any] = {name: pl.Float64 if name.endswith("popularity") else pl.String for name in MORE.values()}
BESIDE_SCORES = tuple(name for name in MORE_SCHEMA if name != "questions")  # columns that go with every score
REQUIRED = ("SubjectLabel", "RelationLabel", "ObjectLabel", "StartDate", "EndDate", "Time", "Statement", "Status")

STATEMENT_SCHEMA: dict[str, Any] = {
    "fact_id": pl.String, "subject_id": pl.String, "subject_label": pl.String, "relation_id": pl.String,
    "relation_label": pl.String, "object_id": pl.String, "object_label": pl.String, "start": pl.String,
    "end": pl.String, "granularity": pl.String, "time": pl.String, "status": pl.String, "alpha": pl.Float64,
    "prompt": pl.String, "answer": pl.String, "popularity": pl.Float64, "other_objects": pl.Int64,
}  # fmt: skip

_STATUS_NAMES: dict[Status, str] = {
    "correct": "Correct",
    "incorrect": "Incorrect",
    "transitional": "Transitional",
    "discarded": "Discarded",
    "none": "No context",
}
_STATUSES = {name.casefold(): status for status, name in _STATUS_NAMES.items()} | {"none": "none"}
_GRANULARITIES: dict[str, Granularity] = {
    "year": "year", "y": "year", "month": "month", "ym": "month", "m": "month", "day": "day", "ymd": "day", "d": "day",
}  # fmt: skip
_NO_TIME = {"", "none", "nan", "nat", "null"}
# What pandas and Arrow put behind a day (midnight), and behind a year that stands in a column of floats.
_MIDNIGHT = re.compile(r"[T ]00:00:00(\.0+)?(Z|[+-]00:?00)?$")
_FLOAT_YEAR = re.compile(r"([+-]?\d+)\.0")
_LAST_YEAR = 999_999


def to_published(table: pl.DataFrame, boundaries: Boundaries) -> pl.DataFrame:
    """A statement table in the published columns, and in those of `MORE` that it has."""
    names = {
        "SubjectID": "subject_id", "SubjectLabel": "subject_label", "RelationID": "relation_id",
        "RelationLabel": "relation_label", "ObjectID": "object_id", "ObjectLabel": "object_label",
        "StartDate": "start", "EndDate": "end", "Time": "time", "Alpha": "alpha", "FactPop": "popularity",
        "Granularity": "granularity", "OtherObjects": "other_objects",
    }  # fmt: skip
    made = {name: pl.col(source) for name, source in names.items()}
    made["Statement"] = pl.col("prompt") + " " + pl.col("answer")
    made["Status"] = pl.col("status").replace_strict(_STATUS_NAMES, return_dtype=pl.String)
    made["Boundaries"] = pl.lit(boundaries)
    more = {name: pl.col(source) for name, source in MORE.items() if source in table.columns}
    return table.select(**{name: made[name] for name in PUBLISHED}, **more)


def from_published(raw: pl.DataFrame, boundaries: Boundaries | None = None) -> tuple[pl.DataFrame, Boundaries]:
    """Statement table and boundary convention of a table in the published columns.

    Optional columns that are missing are recomputed (``Granularity`` from the date, ``Alpha`` from the
    period) or left null. Raises `DataError` naming row, value, rule and fix for missing columns, dates that
    do not exist, an end before its start, an unknown status, a statement without its answer, and
    duplicates. Rows are counted from 1, the header aside.
    """
    text = _checked_texts(raw)
    convention = _convention(raw, boundaries)

    def optional(name: str) -> list[str | None]:
        return text.get(name, [None] * raw.height)

    periods = _periods(text["StartDate"], text["EndDate"])
    status = [_STATUSES[s.casefold()] for s in text["Status"] if s is not None]
    times = [None if t is None or t.casefold() in _NO_TIME else t for t in text["Time"]]
    dates = read_dates(times, "Time")
    written, identify = cache(str), cache(fact_id)  # many rows have the same dates and are of the same fact
    starts, ends = [written(p.start) for p in periods], [None if p.end is None else written(p.end) for p in periods]
    ids = [
        identify(si or sl or "", ri or rl or "", oi or ol or "", start, end or "")
        for si, sl, ri, rl, oi, ol, start, end in zip(
            optional("SubjectID"), text["SubjectLabel"], optional("RelationID"), text["RelationLabel"],
            optional("ObjectID"), text["ObjectLabel"], starts, ends, strict=True,
        )
    ]  # fmt: skip
    for row, (s, date) in enumerate(zip(status, dates, strict=True), 1):
        if (s == "none") != (date is None):
            raise DataError(
                f"row {row}: Status {_STATUS_NAMES[s]!r} with Time {times[row - 1]!r}; 'No context' goes with an empty "
                "Time, every other status with a date"
            )
    granularity = _granularities(optional("Granularity"), dates, ids)
    prompts = [
        _split(row, s or "", o or "")
        for row, (s, o) in enumerate(zip(text["Statement"], text["ObjectLabel"], strict=True), 1)
    ]
    columns = {
        "fact_id": ids, "subject_id": optional("SubjectID"), "subject_label": text["SubjectLabel"],
        "relation_id": optional("RelationID"), "relation_label": text["RelationLabel"],
        "object_id": optional("ObjectID"), "object_label": text["ObjectLabel"], "start": starts, "end": ends,
        "granularity": granularity, "time": [None if d is None else written(d) for d in dates], "status": status,
        "alpha": _alphas(raw, dates, periods, convention), "prompt": [p for p, _ in prompts],
        "answer": [a for _, a in prompts], "popularity": _numbers(raw, "FactPop"),
        "other_objects": [None if v is None else int(v) for v in _numbers(raw, "OtherObjects", whole=True)],
    }  # fmt: skip
    table = pl.DataFrame(columns, schema=STATEMENT_SCHEMA)
    _refuse_duplicates(table)
    return table.with_columns(_more(raw)), convention


def _checked_texts(raw: pl.DataFrame) -> dict[str, list[str | None]]:
    """The published columns that are there, as texts; the required ones are there, none of them empty but Time."""
    published = f"it needs {', '.join(REQUIRED)} (the published TimeStress columns), or as a file of facts "
    refuse_missing(raw.columns, REQUIRED, "the data set", f"{published}subject, relation, object, start, end")
    if raw.height == 0:
        raise DataError("the data set has no rows")
    text = {name: _texts(raw, name) for name in PUBLISHED if name in raw.columns}
    open_ends = "Alpha" in text  # without it, positions are computed from both ends
    text["EndDate"] = [value or None for value in text["EndDate"]]
    ends = () if open_ends else ("EndDate",)
    for name in ("SubjectLabel", "RelationLabel", "ObjectLabel", "Statement", "StartDate", *ends, "Status"):
        if None in text[name] or "" in text[name]:
            refuse_rows(raw, name, pl.Series([not value for value in text[name]]), "is empty; give a value")
    unknown = {s for s in set(text["Status"]) if s is not None and s.casefold() not in _STATUSES}
    bad = pl.Series([status in unknown for status in text["Status"]])
    refuse_rows(raw, "Status", bad, f"is unknown; use one of {', '.join(_STATUS_NAMES.values())}")
    return text


def _more(raw: pl.DataFrame) -> list[pl.Series]:
    """The columns of `MORE` that the data set knows of some statement."""
    columns = []
    for name, column in MORE.items():
        if name not in raw.columns:
            continue
        values: Sequence[float | str | None]
        if MORE_SCHEMA[column] == pl.Float64:
            values = _numbers(raw, name)
        elif column == "also_held":
            values = _also_held(_texts(raw, name))
        elif column == "questions":
            values = _rewritten(_texts(raw, name), "Questions:", lambda text: questions_text(parse_questions(text)))
        else:
            texts = [None if text is None or text.casefold() in _NO_TIME else text for text in _texts(raw, name)]
            values = [None if date is None else str(date) for date in read_dates(texts, name)]
        if any(value is not None for value in values):
            columns.append(pl.Series(column, values, MORE_SCHEMA[column]))
    return columns


def _rewritten(
    values: Sequence[str | None], name: str, rewrite: Callable[[str | None], str | None]
) -> list[str | None]:
    """Cells as they are written here. name: what an error calls the column. Raises `DataError` naming the row."""
    texts: list[str | None] = []
    for row, value in enumerate(values, 1):
        try:
            texts.append(rewrite(value))
        except DataError as error:
            raise DataError(f"row {row}: {name} {error}") from None
    return texts


def _also_held(values: Sequence[str | None]) -> list[str | None]:
    return _rewritten(values, "AlsoHeld", lambda text: periods_text(parse_periods(text)))


def questions_text(questions: Sequence[str]) -> str | None:
    """Questions as a cell holds them, a JSON list; None for none."""
    return json.dumps(list(questions), ensure_ascii=False) if questions else None


def parse_questions(text: str | None) -> tuple[str, ...]:
    """What `questions_text` wrote. Raises `DataError` for another text, and where an answer cannot go on behind one."""
    if not text:
        return ()
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        found = None
    if not isinstance(found, list) or not all(isinstance(question, str) for question in found):
        raise DataError(f'{text!r} is no JSON list of questions; write ["who led France?", "who was ..."]')
    for question in found:
        if (fault := closing_fault(question)) is not None:
            raise DataError(fault)
    return tuple(found)


def _convention(raw: pl.DataFrame, wanted: Boundaries | None) -> Boundaries:
    recorded = raw["Boundaries"].drop_nulls().unique().to_list() if "Boundaries" in raw.columns else []
    if len(recorded) > 1:
        raise DataError(f"the data set mixes the boundary conventions {', '.join(sorted(recorded))}; keep one")
    if wanted is not None and recorded and recorded[0] != wanted:
        raise ConfigError(f"the data set was made with boundaries {recorded[0]!r}, not {wanted!r}; rebuild it")
    convention = wanted or (recorded[0] if recorded else "released")
    check_boundaries(convention)
    return convention


def _texts(raw: pl.DataFrame, name: str) -> list[str | None]:
    column = raw[name]
    _refuse_nested(column)
    return [None if v is None else v.strip() for v in column.cast(pl.String, strict=False).to_list()]


def _refuse_nested(column: pl.Series) -> None:
    if column.dtype.is_nested() or column.dtype in (pl.Binary, pl.Object):
        first = column.head(1).to_list()[0]
        raise DataError(
            f"row 1: {column.name} {first!r} is a {column.dtype}; the column must hold one text or number a row"
        )


def _numbers(raw: pl.DataFrame, name: str, *, whole: bool = False) -> list[float | None]:
    if name not in raw.columns:
        return [None] * raw.height
    _refuse_nested(raw[name])
    return finite_numbers(raw[name], whole=whole).to_list()


def finite_numbers(column: pl.Series, *, whole: bool = False) -> pl.Series:
    """Floats of a column of numbers or texts, null where there is none (an empty text, NaN).

    Raises `DataError` naming the row (counted from 1) of what is no finite or, on request, no whole number.
    """
    texts = column.cast(pl.String, strict=False).str.strip_chars()
    empty = texts.is_null() | texts.str.to_lowercase().is_in(list(_NO_TIME))
    numbers = texts.set(empty, None).cast(pl.Float64, strict=False)
    fits = numbers.is_finite() & ((numbers.floor() == numbers) if whole else True)
    kind = "a whole number" if whole else "a finite number"
    bad = ~empty & ~fits.fill_null(False)
    refuse_rows(column.to_frame(), column.name, bad, f"is not {kind}; give one or leave it empty")
    return numbers


def read_dates(values: Sequence[str | None], column: str) -> list[Date | None]:
    """The dates of a column. Raises `DataError` with the first row whose value is none."""
    parsed: dict[str | None, Date | None] = {None: None}
    dates: list[Date | None] = []
    for row, value in enumerate(values, 1):
        if value not in parsed and value is not None:
            try:
                parsed[value] = date = Date.parse(_FLOAT_YEAR.sub(r"\1", _MIDNIGHT.sub("", value)))
            except DataError as error:
                raise DataError(f"row {row}: {column} {error}") from None
            if abs(date.year) > _LAST_YEAR:
                raise DataError(
                    f"row {row}: {column} {value!r} would be the year {date.year}; is it a time stamp? Write YYYY, "
                    "YYYY-MM or YYYY-MM-DD"
                )
        dates.append(parsed[value])
    return dates


def _periods(starts: Sequence[str | None], ends: Sequence[str | None]) -> list[Period]:
    made: dict[tuple[Date | None, Date | None], Period] = {}
    periods: list[Period] = []
    for row, pair in enumerate(zip(read_dates(starts, "StartDate"), read_dates(ends, "EndDate"), strict=True), 1):
        if pair not in made:
            try:
                made[pair] = Period(*pair)
            except DataError as error:
                raise DataError(f"row {row}: {error}") from None
        periods.append(made[pair])
    return periods


def _granularities(given: Sequence[str | None], dates: Sequence[Date | None], ids: Sequence[str]) -> list[str]:
    """From the column, else from the date; undated rows of a fact stand for year, month and day in turn."""
    undated: dict[str, int] = {}
    granularities: list[str] = []
    for row, (name, date, fact) in enumerate(zip(given, dates, ids, strict=True), 1):
        if name is not None and name.casefold() in _NO_TIME:
            name = None
        wanted = None if name is None else _GRANULARITIES.get(name.casefold().rpartition(".")[2])
        if name is not None and wanted is None:
            raise DataError(f"row {row}: Granularity {name!r} is unknown; use year, month or day")
        if date is not None:
            if wanted is not None and wanted != date.granularity:
                raise DataError(f"row {row}: Time {date} is not a {wanted}; correct Time or Granularity")
            wanted = date.granularity
        elif wanted is None:
            turn = undated.get(fact, 0)
            undated[fact] = turn + 1
            if turn >= len(GRANULARITIES):
                raise DataError(f"row {row}: a fourth statement without a date for one fact; keep one a granularity")
            wanted = GRANULARITIES[turn]
        granularities.append(wanted)
    return granularities


def _alphas(
    raw: pl.DataFrame, dates: Sequence[Date | None], periods: Sequence[Period], convention: Boundaries
) -> list[float | None]:
    given = _numbers(raw, "Alpha")
    also = _also_held(_texts(raw, "AlsoHeld")) if "AlsoHeld" in raw.columns else [None] * raw.height
    alphas: list[float | None] = []
    for row, (value, date, period, more) in enumerate(zip(given, dates, periods, also, strict=True), 1):
        if date is None:
            alphas.append(None)
        elif value is not None:
            alphas.append(value)
        else:
            try:
                alphas.append(alpha_in((period, *parse_periods(more)), date, convention))
            except DataError as error:
                raise DataError(f"row {row}: {error}") from None
    return alphas


def _split(row: int, statement: str, label: str) -> tuple[str, str]:
    """Prompt and answer, which is the object's label. The prompt ends with its question mark, or is the beginning of a
    statement that the answer completes."""
    cut = max(len(statement) - len(label), 0)
    prompt, answer = statement[:cut].rstrip(), statement[cut:]
    ends_with_it = bool(prompt) and answer.lower() == label.lower()
    if ends_with_it and prompt.endswith("?") and prompt != "?":
        return prompt, answer
    question, mark, rest = statement.rpartition("? ")
    if mark and question.strip() and rest.strip().removesuffix(".").lower() == label.removesuffix(".").lower():
        return question + "?", rest.strip()
    if ends_with_it and "?" not in statement and statement[cut - 1].isspace() and closing_fault(prompt) is None:
        return prompt, answer
    raise DataError(
        f"row {row}: Statement {statement!r} must be a question ending in '?', or the beginning of a statement, "
        f"followed by its ObjectLabel {label!r}"
    )


def _refuse_duplicates(table: pl.DataFrame) -> None:
    keys = ["fact_id", "granularity", "time"]
    twice = table.with_row_index("row", offset=1).filter(pl.struct(keys).is_duplicated())
    if twice.height:
        first = twice.row(0, named=True)
        same = twice.filter(pl.all_horizontal(pl.col(k).eq_missing(first[k]) for k in keys))["row"].to_list()
        raise DataError(
            f"row {same[1]}: the same fact, granularity and Time {first['time']!r} as row {same[0]} "
            f"({first['subject_label']}, {first['relation_label']}, {first['object_label']}); keep one"
        )
