"""What came of each update under one model, as it is kept in the parts of a run, and the tables that parts make up."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from anachron.data.updates.case_records import EditCase
from anachron.evaluate.measures.catalogue import MEASURES
from anachron.evaluate.results import STAGE, UPDATES
from anachron.io.files import Json

# A list a column, with a struct an entry. It becomes a table of its own, a row an entry.
ENTRIES = {measure.name: dict(measure.entry) for measure in MEASURES}
ENTRY_KEYS = ("kind", "number", "prompt_number", "needed", "role", "object", "way", "time")  # within its update
ENTRY_VALUES = ("text", "stopped", "new", "old", "p", "accuracy", "right", "begins", "known")
PART_SCHEMA: dict[str, Any] = {
    "case_id": pl.String(),
    "status": pl.String(),
    "reason": pl.String(),
    "seconds": pl.Float64(),
    **{name: pl.List(pl.Struct(entry)) for name, entry in ENTRIES.items()},
    "fluency": pl.Float64(),
    "texts": pl.List(pl.String()),
}


@dataclass
class CaseResult:
    """What came of one update under one model: a row of `PART_SCHEMA`. rows: by measure."""

    case_id: str
    status: str = "done"
    reason: str | None = None
    seconds: float | None = None
    rows: dict[str, list[Json]] = field(default_factory=dict)
    fluency: float | None = None
    texts: list[str] = field(default_factory=list)


def failed(case: EditCase, reason: str) -> CaseResult:
    return CaseResult(case.case_id, "failed", " ".join(reason.split()))


def in_order_of(cases: Sequence[EditCase], results: Iterable[CaseResult]) -> list[CaseResult]:
    place = {case.case_id: number for number, case in enumerate(cases)}
    return sorted(results, key=lambda result: place[result.case_id])


def part_table(results: Sequence[CaseResult]) -> pl.DataFrame:
    rows = [{name: [] for name in ENTRIES} | result.rows | vars(result) for result in results]
    return pl.DataFrame([{name: row[name] for name in PART_SCHEMA} for row in rows], schema=PART_SCHEMA)


def tables_of(
    cases: Sequence[EditCase], clean: pl.DataFrame, stages: Sequence[tuple[Json, pl.DataFrame]], asked: Collection[str]
) -> dict[str, pl.DataFrame]:
    """The tables of `anachron.evaluate.results` and of the measures. asked: names of those that were taken.

    clean: all parts of the clean model. stages: all parts under each method, with what tables say of that one: of
    the columns of `STAGE`.
    """
    after = pl.concat(
        [
            parts.with_columns(pl.lit(value, STAGE[name]).alias(name) for name, value in columns.items())
            for columns, parts in stages
        ]
    )
    stage = [name for name in STAGE if name in after.columns]
    about_cases = pl.DataFrame(
        [(c.case_id, c.relation, c.popularity, c.scenario, c.subject or None) for c in cases],
        schema={name: UPDATES[name] for name in ("case_id", "relation", "popularity", "scenario", "subject")},
        orient="row",
    )
    tables = {
        one.name: one.finish(_compared(after, clean, one.name, stage), cases)
        for one in MEASURES
        if one.name in asked or not one.unasked
    }
    tables["updates"] = (
        after.drop(*ENTRIES, "texts")
        .join(clean.select("case_id", fluency_before="fluency"), on="case_id", how="left", maintain_order="left")
        .join(about_cases, on="case_id", how="left", maintain_order="left")
    )
    return tables


def _compared(after: pl.DataFrame, clean: pl.DataFrame, name: str, stage: Sequence[str]) -> pl.DataFrame:
    """A row an entry of a column of lists, with the clean model's values of the same key beside it.

    A failed update has the clean model's entries, with nothing after. Values are called ``NAME_after`` and
    ``NAME_before``, ``p`` just ``after`` and ``before``.
    """
    key = [column for column in ENTRY_KEYS if column in ENTRIES[name]]
    values = [column for column in ENTRY_VALUES if column in ENTRIES[name]]
    when = {side: {v: side if v == "p" else f"{v}_{side}" for v in values} for side in ("after", "before")}
    of_clean = _exploded(clean, name, []).rename(when["before"])  # with what its questions say, such as a granularity
    before = of_clean.select("case_id", *key, *when["before"].values())
    numbered = after.with_row_index("row")
    rows = _exploded(numbered, name, ["row", *stage]).rename(when["after"])
    rows = rows.join(before, on=["case_id", *key], how="left", maintain_order="left")
    failed = numbered.filter(status="failed").select("row", *stage, "case_id")
    unmade = failed.join(of_clean, on="case_id", maintain_order="left_right")
    return pl.concat([rows, unmade], how="diagonal").sort("row", maintain_order=True).drop("row")


def _exploded(parts: pl.DataFrame, name: str, stage: Sequence[str]) -> pl.DataFrame:
    return parts.select(*stage, "case_id", name).filter(pl.col(name).list.len() > 0).explode(name).unnest(name)
