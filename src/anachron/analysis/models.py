"""What is known of the models of a study: family, size, and which is the instruct version of which.

Family and size come from the run's record, that is from the model's own configuration; instruct versions are
recognised by their names. A table given by the user overrides all of it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from anachron.core.errors import DataError
from anachron.io.files import Json
from anachron.io.tables import read_table

MODEL_SCHEMA: dict[str, Any] = {
    "model": pl.String, "family": pl.String, "parameters": pl.Float64, "instruct": pl.Boolean, "base": pl.String,
}  # fmt: skip
_INSTRUCT = {"it", "instruct", "chat"}
_NEITHER = {"base", "pt", "hf"}  # parts of names that say which checkpoint it is, not which model


def read_models(path: Path) -> pl.DataFrame:
    """A user's table of models: ``model`` and any of ``family, parameters, instruct, base``.

    Raises `DataError` for unknown columns and for values that cannot be read.
    """
    table = read_table(path)
    unknown = sorted(set(table.columns) - set(MODEL_SCHEMA))
    if unknown or "model" not in table.columns:
        raise DataError(f"{path}: columns {', '.join(table.columns)}; use model and any of {', '.join(MODEL_SCHEMA)}")
    rows = [
        {name: _value(name, row.get(name), f"{path}, row {number}") for name in MODEL_SCHEMA}
        for number, row in enumerate(table.iter_rows(named=True), 1)
    ]
    if len({row["model"] for row in rows}) < len(rows):
        raise DataError(f"{path}: a model is listed twice; keep one row of each")
    return pl.DataFrame(rows, schema=MODEL_SCHEMA)


def _value(name: str, value: Any, where: str) -> Any:
    text = "" if value is None else str(value).strip()
    if not text:
        if name == "model":
            raise DataError(f"{where}: model is empty; name one")
        return None
    if name == "instruct":
        if text.lower() not in ("true", "false", "1", "0", "yes", "no"):
            raise DataError(f"{where}: instruct {text!r}; write true or false")
        return text.lower() in ("true", "1", "yes")
    if name == "parameters":
        try:
            number = float(text.replace(",", ""))
        except ValueError:
            number = 0.0
        if not 0 < number < float("inf"):
            raise DataError(f"{where}: parameters {text!r}; write how many, as 7e9 or 7000000000")
        return number
    return text


def recorded_models(records: Iterable[tuple[str, Json]]) -> pl.DataFrame:
    """The table that runs give of themselves, from (label, record) pairs."""
    rows: dict[str, dict[str, Any]] = {}
    for label, record in records:
        about = record.get("model", {})
        rows[label] = {"model": label, "family": about.get("family"), "parameters": about.get("parameters")}
    return pl.DataFrame(list(rows.values()), schema=MODEL_SCHEMA)


def merge_models(known: pl.DataFrame, given: pl.DataFrame) -> pl.DataFrame:
    """What the user says of a model, where it says something, before what is known of it."""
    rows = {row["model"]: row for row in known.iter_rows(named=True)}
    for row in given.iter_rows(named=True):
        rows[row["model"]] = rows.get(row["model"], {}) | {k: v for k, v in row.items() if v is not None}
    return pl.DataFrame(list(rows.values()), schema=MODEL_SCHEMA)


def describe_models(labels: Sequence[str], known: pl.DataFrame | None = None) -> pl.DataFrame:
    """One row a label, in order: what is known, and the rest from the names.

    ``base`` of an instruct model is the one other model here whose name differs from its own only in the words that
    say which of the two it is, as gemma-2-9b and gemma-2-9b-it.
    """
    given: Mapping[str, dict[str, Any]] = {} if known is None else {r["model"]: r for r in known.iter_rows(named=True)}
    rows: list[dict[str, Any]] = []
    for label in labels:
        row: dict[str, Any] = dict.fromkeys(MODEL_SCHEMA) | given.get(label, {}) | {"model": label}
        if row["instruct"] is None:
            row["instruct"] = bool(_INSTRUCT & set(_words(label)))
        rows.append(row)
    for row in rows:
        if row["instruct"] and row["base"] is None:
            stem = _stem(row["model"])
            bases = [other["model"] for other in rows if not other["instruct"] and _stem(other["model"]) == stem]
            row["base"] = bases[0] if len(bases) == 1 else None
    return pl.DataFrame(rows, schema=MODEL_SCHEMA)


def _words(label: str) -> list[str]:
    return re.split(r"[^\w.]+|_", label.lower())


def _stem(label: str) -> list[str]:
    return [word for word in _words(label.rpartition("/")[2]) if word not in _INSTRUCT | _NEITHER]
