"""What came of each update under one model, as it is kept in the parts of a run, and the tables that parts make up."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from anachron.data.updates.case_records import EditCase, numbered_neighbours
from anachron.evaluate.results import DATE, STAGE
from anachron.io.files import Json

PROMPT = {"kind": pl.String(), "prompt_number": pl.Int64()}
PROBABILITIES = {"new": pl.Float64(), "old": pl.Float64()}
ACCURACY = {"accuracy": pl.Float64()}
NAMES = {"prompt": pl.String(), "new_names": pl.List(pl.String()), "old_names": pl.List(pl.String())}
# A list a column, with a struct an entry. It becomes a table of its own, a row an entry.
ENTRIES: dict[str, dict[str, Any]] = {
    "targets": PROMPT | PROBABILITIES | ACCURACY,
    "neighbours": {"kind": pl.String(), "number": pl.Int64(), "p": pl.Float64(), "new": pl.Float64()} | ACCURACY,
    "objects": PROMPT | {"role": pl.String(), "object": pl.String(), "p": pl.Float64()},
    "generations": PROMPT | {"text": pl.String()} | PROBABILITIES,
    "portability": {"kind": pl.String(), "number": pl.Int64(), "prompt_number": pl.Int64(), "needed": pl.String()}
    | {"p": pl.Float64(), "old": pl.Float64(), "text": pl.String()}
    | {"right": pl.Float64(), "begins": pl.Float64(), "known": pl.Float64()},
    "audit": PROMPT | NAMES | {"text": pl.String(), "stopped": pl.Float64()} | PROBABILITIES,
    "dated": {"way": pl.String(), **DATE} | PROBABILITIES,
    "dated_neighbours": {"kind": pl.String(), "number": pl.Int64(), **DATE, "p": pl.Float64()},
    "atoke": PROMPT | PROBABILITIES | ACCURACY,
}
ENTRY_KEYS = ("kind", "number", "prompt_number", "needed", "role", "object", "way", "time")  # within its update
ENTRY_VALUES = ("text", "stopped", "new", "old", "p", "accuracy", "right", "begins", "known")
OF_DATES = ("dated", "dated_neighbours", "atoke")
OPTIONAL = ("objects", "generations", "portability", "audit")  # tables that are not written where they have no rows
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
    """What came of one update under one model: a row of `PART_SCHEMA`."""

    case_id: str
    status: str = "done"
    reason: str | None = None
    seconds: float | None = None
    targets: list[Json] = field(default_factory=list)
    neighbours: list[Json] = field(default_factory=list)
    objects: list[Json] = field(default_factory=list)
    generations: list[Json] = field(default_factory=list)
    portability: list[Json] = field(default_factory=list)
    audit: list[Json] = field(default_factory=list)
    dated: list[Json] = field(default_factory=list)
    dated_neighbours: list[Json] = field(default_factory=list)
    atoke: list[Json] = field(default_factory=list)
    fluency: float | None = None
    texts: list[str] = field(default_factory=list)


def failed(case: EditCase, reason: str) -> CaseResult:
    return CaseResult(case.case_id, "failed", " ".join(reason.split()))


def in_order_of(cases: Sequence[EditCase], results: Iterable[CaseResult]) -> list[CaseResult]:
    place = {case.case_id: number for number, case in enumerate(cases)}
    return sorted(results, key=lambda result: place[result.case_id])


def part_table(results: Sequence[CaseResult]) -> pl.DataFrame:
    return pl.DataFrame([vars(result) for result in results], schema=PART_SCHEMA)


def tables_of(
    cases: Sequence[EditCase], clean: pl.DataFrame, stages: Sequence[tuple[Json, pl.DataFrame]], *, dated: bool
) -> dict[str, pl.DataFrame]:
    """The tables of `anachron.evaluate.results`, those of dates where ``dated``.

    clean: all parts of the clean model. stages: all parts under each method, with what tables say of that one: of
    the columns of `STAGE`.
    """
    after = pl.concat([
        parts.with_columns(pl.lit(value, STAGE[name]).alias(name) for name, value in columns.items())
        for columns, parts in stages
    ])  # fmt: skip
    stage = [name for name in STAGE if name in after.columns]
    about_cases = pl.DataFrame(
        [(c.case_id, c.relation, c.popularity, c.scenario) for c in cases],
        schema={"case_id": pl.String, "relation": pl.String, "popularity": pl.Float64, "scenario": pl.String},
        orient="row",
    )  # fmt: skip
    about_facts = pl.DataFrame(
        [
            (case.case_id, kind, number, fact.dist, fact.popularity)
            for case in cases
            for kind, number, fact in numbered_neighbours(case)
        ],
        schema={"case_id": pl.String, "kind": pl.String, "number": pl.Int64, "dist": pl.Float64,
                "popularity": pl.Float64}, orient="row",
    )  # fmt: skip
    tables = {name: _compared(after, clean, name, stage) for name in ENTRIES if dated or name not in OF_DATES}
    tables["neighbours"] = tables["neighbours"].join(
        about_facts, on=["case_id", "kind", "number"], how="left", maintain_order="left"
    )
    tables["portability"] = tables["portability"].drop("known_after")  # conditions are asked before alone
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
    before = _exploded(clean, name, []).select("case_id", *key, *values).rename(when["before"])
    numbered = after.with_row_index("row")
    rows = _exploded(numbered, name, ["row", *stage]).rename(when["after"])
    rows = rows.join(before, on=["case_id", *key], how="left", maintain_order="left")
    failed = numbered.filter(status="failed").select("row", *stage, "case_id")
    unmade = failed.join(before, on="case_id", maintain_order="left_right")
    return pl.concat([rows, unmade], how="diagonal").sort("row", maintain_order=True).drop("row")


def _exploded(parts: pl.DataFrame, name: str, stage: Sequence[str]) -> pl.DataFrame:
    return parts.select(*stage, "case_id", name).filter(pl.col(name).list.len() > 0).explode(name).unnest(name)
