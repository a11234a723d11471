"""A measure of updates: what it asks of a model about an update, what it keeps of the answers, and in which table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import polars as pl

from anachron.data.updates.case_records import EditCase
from anachron.evaluate.results import Types, check_owners, read, schema
from anachron.io.files import Json

Pair = tuple[str, str]  # a prompt, and an object that may stand behind it
Rows = list[Json]


@dataclass(frozen=True, slots=True)
class Scores:
    """Of the pairs that were asked for: p, the geometric mean of the probabilities of the object's tokens; accuracy,
    the share of these that are the model's first choice. Both 0 to 1."""

    p: Mapping[Pair, float]
    accuracy: Mapping[Pair, float]


class Writer(Protocol):
    """A model that writes (`anachron.evaluate.measure.ModelWriter`). Measures know it by this alone, as metrics of a
    finished run need no model."""

    def greedy(self, prompts: Sequence[str], tokens: int) -> list[str]:
        """The likeliest text of so many tokens behind each prompt."""

    def answers(
        self,
        prompts: Sequence[str],
        most_tokens: int,
        end: Callable[[str], int | None],
        goes_on: Callable[[str], bool],
    ) -> list[tuple[str, bool]]:
        """What the model answers each prompt until it stops, and whether it did. end: where a text may be cut.
        goes_on: whether it may not at a line break behind it."""

    def longest(self, prompt: str, names: Sequence[str]) -> int:
        """Tokens of the longest name behind a prompt."""


def _none(*_: Any) -> list[Any]:
    return []


@dataclass(frozen=True, kw_only=True)
class Measure:
    """One measure. Its functions get, behind the update, what ``how`` gives.

    name: of its table. entry: the columns that its rows have under one model; the run's table has them before and after
    the edit (`anachron.evaluate.case_results.tables_of`).
    table, keys, known, before: of the run's table, as `check` reads it; see `anachron.evaluate.results.schema`.
    scores: columns of it that a failed update leaves empty.
    how: from `anachron.evaluate.measure.Measures`, how it is to be measured; None where it is not.
    pairs: what is scored. counted: of which pairs tokens are counted. rows: what is kept of the scores.
    writes: whether the model writes text for an update. written: the rows with what it wrote, from those before it.
    about: what the run's record says of the updates; ``how`` is None there where it is not measured.
    finish: the run's table as it is written, from what was kept, and the updates.
    optional: a table without rows is not written. unasked: where it is not measured there is none, not an empty one.
    """

    name: str
    entry: Types
    how: Callable[[Any], Any]
    pairs: Callable[[EditCase, Any], list[Pair]] = _none
    counted: Callable[[EditCase, Any], list[Pair]] = _none
    rows: Callable[[EditCase, Any, Scores], Rows] = _none
    writes: Callable[[EditCase, Any], bool] = lambda case, how: False
    written: Callable[[Writer, EditCase, Any, Rows], Rows] = lambda writer, case, how, rows: rows
    about: Callable[[Sequence[EditCase], Any], Json] = lambda cases, how: {}
    finish: Callable[[pl.DataFrame, Sequence[EditCase]], pl.DataFrame] = lambda table, cases: table
    optional: bool = False
    unasked: bool = False
    table: Types = field(default_factory=dict)
    keys: Sequence[str] = ()
    known: Mapping[str, Sequence[str]] = field(default_factory=dict)
    before: Mapping[str, str] = field(default_factory=dict)
    scores: Sequence[str] = ()

    def check(self, table: pl.DataFrame, updates: pl.DataFrame | None = None) -> pl.DataFrame:
        """The run's table with just its columns, in their types, whatever file it came from.

        updates: checked already; with them, rows of no update and scores of a failed one are refused. Raises
        `DataError` as `anachron.evaluate.results.check_results` does.
        """
        checked = read(schema(self.name, self.table, self.keys, self.known, self.before), table)
        if updates is not None:
            check_owners(self.name, checked, updates, self.scores)
        return checked
