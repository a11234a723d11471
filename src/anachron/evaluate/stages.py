"""The one runner of evaluations: it goes over states of the model, and makes tables of what came of all of them.

A stage is one state of the model, clean or under edits, and the updates that it is asked about. Its results lie in
parts, ``FOLDER/part-00000.parquet``; what is there is not made again.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from anachron.core.errors import DataError
from anachron.core.labels import label_of
from anachron.data.updates.case_records import EditCase
from anachron.data.updates.cases import CaseSet
from anachron.edit.base import edited
from anachron.evaluate.case_results import (
    PART_SCHEMA,
    CaseResult,
    failed,
    in_order_of,
    part_table,
    tables_of,
)
from anachron.evaluate.joint_edits import JointEdit, Make, make_batch
from anachron.evaluate.measure import Measures, asked_by, measure
from anachron.evaluate.measures.catalogue import MEASURES
from anachron.evaluate.results import METHOD
from anachron.io.files import Json
from anachron.io.jobs import Callbacks
from anachron.io.run_folder import RunFolder
from anachron.lm.model import LanguageModel

CLEAN = "clean"
PART = 16  # updates a part, unless they share a batch: what is measured together, and what a killed run can lose


@dataclass(frozen=True)
class Stage:
    """folder: of its results, below the run's. parts: the updates, those of a part computed and kept together.
    columns: what tables say of it, see `anachron.evaluate.results.STAGE`; none of the clean model."""

    folder: str
    parts: Sequence[Sequence[EditCase]]
    columns: Json = field(default_factory=dict)

    @property
    def whole(self) -> str:
        """File of what is known of the model as a whole, apart from any update; lifelong editing has it."""
        return f"{self.folder}.json"

    @property
    def files(self) -> list[str]:
        return [f"{self.folder}/part-{number:05d}.parquet" for number in range(len(self.parts))]


def in_parts(cases: Sequence[EditCase], size: int | None = None) -> list[Sequence[EditCase]]:
    """size: of a part, by default `PART`."""
    size = size or PART
    return [cases[start : start + size] for start in range(0, len(cases), size)]


@dataclass(frozen=True)
class Evaluation:
    """A finished run: its folder, its record (``run.json``) and its tables (`anachron.evaluate.results`) by name.

    These are ``targets``, ``neighbours`` and ``updates``; ``objects``, empty where all updates are replacements;
    ``generations``, empty where none are asked for; ``portability``, empty where updates bring no tests; and where
    dated questions are asked, ``dated``, ``dated_neighbours`` and ``atoke``.

    Those of lifelong editing have the column ``edits``, and beside them are ``locality``, facts that no update
    changes, and ``stages``, the model as a whole (`anachron.evaluate.lifelong_metrics`).
    """

    folder: Path
    record: Json
    tables: dict[str, pl.DataFrame]


@dataclass(frozen=True)
class Runner:
    lm: LanguageModel
    cases: CaseSet
    mode: str
    measures: Measures
    run: RunFolder
    callbacks: Callbacks
    make: Make = make_batch

    def compute(self, stage: Stage, results_of: Callable[[Sequence[EditCase], int], Iterable[CaseResult]]) -> None:
        """Every part, by ``results_of`` from its updates and its number where it is not there as it was written."""
        done, total = 0, sum(map(len, stage.parts))
        for number, (file, part) in enumerate(zip(stage.files, stage.parts, strict=True)):
            if not self.run.has(file, self.callbacks.warn):
                results = []
                for result in results_of(part, number):
                    results.append(result)
                    self.callbacks.progress(done + len(results), total, stage.folder)
                self.run.write_table(file, part_table(results))
            done += len(part)

    def compute_clean(self, stage: Stage) -> None:
        measures = replace(self.measures, conditions=True)
        self.compute(stage, lambda part, number: in_pieces(self.lm, part, measures))

    def under(
        self, joint: JointEdit, cases: Sequence[EditCase], measures: Measures | None = None
    ) -> Iterator[CaseResult]:
        """Results of updates under an edit of many; those that are not in it failed."""
        with edited(self.lm, joint.edit, check=False):
            yield from in_pieces(self.lm, cases, measures or self.measures, joint)

    def columns(self, label: str) -> Json:
        """What tables say of a method that the record knows."""
        identity = self.run.record["methods"][label]["identity"]
        return {"mode": self.mode, **{name: identity[name] for name in METHOD}}

    def is_done(self, stage: Stage) -> bool:
        """Whether every part was finished; not whether it still is as it was, which `read` sees."""
        return all(file in self.run.record["files"] for file in stage.files)

    def read(self, stage: Stage) -> pl.DataFrame:
        """All parts. Raises `DataError` where one is damaged or holds other updates."""
        tables = [self.run.read_table(file) for file in stage.files]
        for file, table, part in zip(stage.files, tables, stage.parts, strict=True):
            if table.schema != PART_SCHEMA or table["case_id"].to_list() != [case.case_id for case in part]:
                raise DataError(f"{self.run.path / file} holds other updates; delete it and repeat the command")
        return pl.concat(tables)

    def tables(self, clean: Stage, stages: Sequence[Stage]) -> dict[str, pl.DataFrame]:
        return tables_of(
            self.cases.cases,
            self.read(clean),
            [(stage.columns, self.read(stage)) for stage in stages],
            [one.name for one, _ in asked_by(self.measures)],
        )

    def finish(self, tables: dict[str, pl.DataFrame]) -> Evaluation:
        """Write the tables, tell of failures, and record that the run is done."""
        optional = {measure.name for measure in MEASURES if measure.optional}
        for name, table in tables.items():
            if table.height or name not in optional:
                self.run.write_table(f"{name}.parquet", table)
        for message in failures(tables["updates"]):
            self.callbacks.warn(message)
        self.run.finish()
        return Evaluation(self.run.path, self.run.record, tables)


def in_pieces(
    lm: LanguageModel, cases: Sequence[EditCase], measures: Measures, joint: JointEdit | None = None
) -> Iterator[CaseResult]:
    """Results of updates under the model as it is now, `PART` at a time; those that are not in its edit failed."""
    seconds, reasons = (joint.seconds, joint.failed) if joint else ({}, {})
    for piece in in_parts(cases):
        bad = [failed(case, reasons[case.case_id]) for case in piece if case.case_id in reasons]
        good = [case for case in piece if case.case_id not in reasons]
        yield from in_order_of(piece, [*bad, *measure(lm, good, measures, seconds)])


def failures(updates: pl.DataFrame) -> Iterator[str]:
    """What to say of each method's failed updates, with the commonest reason.

    Of a table with ``edits`` after each number of them, of the updates that were made by then.
    """
    by_stage = list(METHOD)
    if "edits" in updates.columns:
        by_stage, updates = [*by_stage, "edits"], updates.filter(pl.col("place") <= pl.col("edits"))
    for (method, variant, *edits), group in updates.group_by(by_stage, maintain_order=True):
        bad = group.filter(pl.col("status") == "failed")
        if bad.height:
            reason, count = Counter(bad["reason"].to_list()).most_common(1)[0]
            label = label_of(method, variant) + "".join(f" after {number}" for number in edits)
            yield f"{label}: {bad.height} of {group.height} updates failed, {count} of them: {reason}"
