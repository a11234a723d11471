"""Verdicts on updates as they are kept in the parts of a run, and the tables that all parts make together."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from anachron.data.case_records import EditCase
from anachron.errors import DataError
from anachron.evaluate.results import DATED, DATED_NEIGHBOURS
from anachron.jobs import RunFolder, Warn

DATE = {name: DATED[name] for name in ("granularity", "time", "side", "distance")}
PART_SCHEMA: dict[str, Any] = {
    "case_id": pl.String(),
    "status": pl.String(),
    "reason": pl.String(),
    "seconds": pl.Float64(),
    "targets": pl.List(
        pl.Struct({"kind": pl.String(), "prompt_number": pl.Int64(), "new": pl.Float64(), "old": pl.Float64()})
    ),
    "neighbours": pl.List(pl.Struct({"kind": pl.String(), "number": pl.Int64(), "p": pl.Float64()})),
    "objects": pl.List(
        pl.Struct(
            {
                "kind": pl.String(),
                "prompt_number": pl.Int64(),
                "role": pl.String(),
                "object": pl.String(),
                "p": pl.Float64(),
            }
        )
    ),
    "said": pl.List(
        pl.Struct(
            {
                "kind": pl.String(),
                "prompt_number": pl.Int64(),
                "text": pl.String(),
                "new": pl.Float64(),
                "old": pl.Float64(),
            }
        )
    ),
    "dated": pl.List(pl.Struct({**DATE, "new": pl.Float64(), "old": pl.Float64()})),
    "dated_neighbours": pl.List(pl.Struct({"kind": pl.String(), "number": pl.Int64(), **DATE, "p": pl.Float64()})),
    "fluency": pl.Float64(),
    "texts": pl.List(pl.String()),
}


@dataclass
class Verdict:
    """What came of one update under one model: a row of `PART_SCHEMA`."""

    case_id: str
    status: str = "done"
    reason: str | None = None
    seconds: float | None = None
    targets: list[dict[str, Any]] = field(default_factory=list)
    neighbours: list[dict[str, Any]] = field(default_factory=list)
    objects: list[dict[str, Any]] = field(default_factory=list)
    said: list[dict[str, Any]] = field(default_factory=list)
    dated: list[dict[str, Any]] = field(default_factory=list)
    dated_neighbours: list[dict[str, Any]] = field(default_factory=list)
    fluency: float | None = None
    texts: list[str] = field(default_factory=list)


def failed(case: EditCase, reason: str) -> Verdict:
    return Verdict(case.case_id, "failed", " ".join(reason.split()))


@dataclass(frozen=True)
class Verdicts:
    """Verdicts on updates in a run's folder, a file a part: what is there is not made again.

    parts: the updates of each. A name is a folder below that of the run: that of the clean model, of a method.
    """

    run: RunFolder
    parts: Sequence[Sequence[EditCase]]

    @classmethod
    def of(cls, run: RunFolder, cases: Sequence[EditCase], size: int) -> "Verdicts":
        return cls(run, [cases[start : start + size] for start in range(0, len(cases), size)])

    def file(self, name: str, number: int) -> str:
        return f"{name}/part-{number:05d}.parquet"

    def is_done(self, name: str) -> bool:
        """Whether every part was finished; not whether it still is as it was, which `read` sees."""
        return all(self.file(name, number) in self.run.record["files"] for number in range(len(self.parts)))

    def make(
        self, name: str, work: Callable[[Sequence[EditCase], int], Iterable[Verdict]],
        progress: Callable[[int, int, str], None], warn: Warn,
    ) -> pl.DataFrame:  # fmt: skip
        """Every part, made by ``work`` from its updates and its number where it is not there as it was written."""
        done, total = 0, sum(map(len, self.parts))
        for number, part in enumerate(self.parts):
            if not self.run.has(self.file(name, number), warn):
                found = []
                for verdict in work(part, number):
                    found.append(verdict)
                    progress(done + len(found), total, name)
                self.run.write_table(self.file(name, number), part_table(found))
            done += len(part)
        return self.read(name)

    def read(self, name: str) -> pl.DataFrame:
        """All parts. Raises `DataError` where one is damaged or holds other updates."""
        files = [self.file(name, number) for number in range(len(self.parts))]
        tables = [self.run.read_table(file) for file in files]
        for file, table, part in zip(files, tables, self.parts, strict=True):
            if table.schema != PART_SCHEMA or table["case_id"].to_list() != [case.case_id for case in part]:
                raise DataError(f"{self.run.path / file} holds other updates; delete it and repeat the command")
        return pl.concat(tables)


def part_table(verdicts: Sequence[Verdict]) -> pl.DataFrame:
    return pl.DataFrame([vars(v) for v in verdicts], schema=PART_SCHEMA)


def tables_of(
    cases: Mapping[str, EditCase], clean: pl.DataFrame, parts: Mapping[str, pl.DataFrame], mode: str
) -> dict[str, pl.DataFrame]:
    """The tables of `anachron.evaluate.results` from the clean model's verdicts and those under each method."""
    about = pl.DataFrame(
        [(c.case_id, c.relation, c.popularity, c.scenario) for c in cases.values()],
        schema={"case_id": pl.String, "relation": pl.String, "popularity": pl.Float64, "scenario": pl.String},
        orient="row",
    )  # fmt: skip
    facts = pl.DataFrame(
        [
            (c.case_id, kind, number, fact.dist, fact.popularity)
            for c in cases.values()
            for kind, known in (("nearest", c.nearest), ("random", c.random))
            for number, fact in enumerate(known)
        ],
        schema={"case_id": pl.String, "kind": pl.String, "number": pl.Int64, "dist": pl.Float64,
                "popularity": pl.Float64}, orient="row",
    )  # fmt: skip
    after = _together(parts, mode)
    lists = [name for name, kind in PART_SCHEMA.items() if isinstance(kind, pl.List)]
    updates = (
        after.drop(lists)
        .join(clean.select("case_id", fluency_before="fluency"), on="case_id", how="left", maintain_order="left")
        .join(about, on="case_id", how="left", maintain_order="left")
    )
    neighbours = _compared(after, clean, "neighbours", ["kind", "number"], ["p"])
    return {
        "targets": _compared(after, clean, "targets", ["kind", "prompt_number"], ["new", "old"]),
        "neighbours": neighbours.join(facts, on=["case_id", "kind", "number"], how="left", maintain_order="left"),
        "updates": updates,
        "objects": _compared(after, clean, "objects", ["kind", "prompt_number", "role", "object"], ["p"]),
        "said": _compared(after, clean, "said", ["kind", "prompt_number"], ["text", "new", "old"]),
    }


def dated_tables_of(clean: pl.DataFrame, parts: Mapping[str, pl.DataFrame], mode: str) -> dict[str, pl.DataFrame]:
    """The tables ``dated`` and ``dated_neighbours`` of the same verdicts."""
    after = _together(parts, mode)
    dated = _compared(after, clean, "dated", ["time"], ["new", "old"])
    neighbours = _compared(after, clean, "dated_neighbours", ["kind", "number", "time"], ["p"])
    return {"dated": dated.select(*DATED), "dated_neighbours": neighbours.select(*DATED_NEIGHBOURS)}


def _together(parts: Mapping[str, pl.DataFrame], mode: str) -> pl.DataFrame:
    return pl.concat(
        [table.with_columns(pl.lit(name).alias("method"), pl.lit(mode).alias("mode")) for name, table in parts.items()]
    )


def _compared(
    after: pl.DataFrame, clean: pl.DataFrame, column: str, key: Sequence[str], values: Sequence[str]
) -> pl.DataFrame:
    """What a column of lists holds, a row an entry, with the clean model's values of the same key beside it.

    Values are called ``NAME_after`` and ``NAME_before``, ``p`` just ``after`` and ``before``.
    """
    when = {side: {v: side if v == "p" else f"{v}_{side}" for v in values} for side in ("after", "before")}
    before = _exploded(clean, column).select("case_id", *key, *values).rename(when["before"])
    found = _exploded(after, column).rename(when["after"])
    return found.join(before, on=["case_id", *key], how="left", maintain_order="left")


def _exploded(parts: pl.DataFrame, column: str) -> pl.DataFrame:
    keys = [name for name in ("mode", "method", "case_id") if name in parts.columns]
    return parts.select(*keys, column).filter(pl.col(column).list.len() > 0).explode(column).unnest(column)
