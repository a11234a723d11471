"""Updates made in a model by several methods, measured and reported (``evaluate``)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from anachron.core.notebook import html_table
from anachron.data.updates.cases import CaseSet
from anachron.edit.methods import printed_name
from anachron.edit.plan import Planned
from anachron.evaluate.lifelong import LifelongSettings, run_lifelong
from anachron.evaluate.measure import Measures
from anachron.evaluate.measures.dated_metrics import by_way
from anachron.evaluate.measures.fluency import words
from anachron.evaluate.run import EvaluateSettings, run_evaluation
from anachron.io.files import Json
from anachron.io.jobs import Callbacks
from anachron.io.tables import read_table
from anachron.lm.model import LanguageModel
from anachron.report.edits.dated import ATOKE, DATED, DATED_WAYS, write_atoke, write_portability
from anachron.report.edits.evaluation import DATED_TESTS, TESTS, write_dated, write_evaluation
from anachron.report.edits.lifelong import LIFELONG, write_lifelong
from anachron.report.edits.tables import EDITS, Layout, printed
from anachron.report.paper_tables import (
    check_style,
    paper_of_portability,
    paper_of_tests,
    write_edits_papers,
    write_paper,
)

REPORT = "report"  # folder in the run folder


@dataclass(frozen=True)
class EvaluatedUpdates:
    """What an evaluation says.

    record: of the run. summaries: a row a method, with how it is printed; ``summary``, and ``dated`` and ``atoke``
    where dates were asked about. notes: what the report lacks, and why. tests: of the methods against the unedited
    model (`anachron.evaluate.paired_tests`), by the same names; none of lifelong editing. portability: a row a method
    and kind of test (`anachron.evaluate.measures.portability.portability_summary`), where updates bring tests.
    """

    record: Json
    summaries: dict[str, tuple[pl.DataFrame, Layout]]
    notes: list[str]
    tests: dict[str, pl.DataFrame] = field(default_factory=dict)
    portability: pl.DataFrame | None = None

    def _repr_html_(self) -> str:
        tables = [(layout.title, printed(summary, layout)) for summary, layout in self.summaries.values()]
        return "".join(html_table(title, cells.columns, cells.rows()) for title, cells in tables)


def evaluate_updates(
    lm: LanguageModel,
    cases: CaseSet,
    methods: Sequence[Planned],
    out: Path | str,
    settings: EvaluateSettings | LifelongSettings | None = None,
    *,
    style: str = "plain",
    callbacks: Callbacks | None = None,
) -> EvaluatedUpdates:
    """Make updates with several methods, measure what they did, and write tables and figures into ``out/report``.

    methods: of `anachron.prepare_methods`. settings: of `anachron.run_evaluation`, or of `anachron.run_lifelong` to
    measure as edits accumulate. style: of the tables for print, as of `anachron.write_metrics`. An interrupted call
    goes on where it was. Raises as these two.
    """
    check_style(style)
    of_updates = settings.measures if settings is not None else Measures()
    if of_updates.fluency_tokens and any(case.generalization for case in cases.cases):
        words("")  # a missing extra is said before any work
    out = Path(out)
    if isinstance(settings, LifelongSettings):
        run = run_lifelong(lm, cases, methods, out, settings, callbacks=callbacks)
    else:
        run = run_evaluation(lm, cases, methods, out, settings, callbacks=callbacks)
    return report_evaluation(run.record, run.tables, out / REPORT, style)


def report_evaluation(
    record: Json, tables: Mapping[str, pl.DataFrame], out: Path, style: str = "plain"
) -> EvaluatedUpdates:
    """Write what the tables of a finished run say into ``out``; tables: as of `anachron.evaluate.stages.Evaluation`,
    of which those without rows may be missing. style: of the tables for print."""
    evaluated = _report_plainly(record, tables, out)
    if style == "paper":
        for summary, layout in evaluated.summaries.values():
            write_edits_papers(summary, layout, out)
            if layout is DATED:
                write_edits_papers(by_way(summary), DATED_WAYS, out)
        for what, tests in evaluated.tests.items():
            write_paper(paper_of_tests(tests, DATED_TESTS if what == "dated" else TESTS), out)
        if evaluated.portability is not None:
            write_paper(paper_of_portability(evaluated.portability), out)
    return evaluated


def _report_plainly(record: Json, tables: Mapping[str, pl.DataFrame], out: Path) -> EvaluatedUpdates:
    tables = with_printed_names(tables, record)
    if "stages" in tables:
        summary, notes = write_lifelong(tables, out)
        return EvaluatedUpdates(record, {"summary": (summary, LIFELONG)}, notes)
    summary, notes = write_evaluation(tables, out)
    summaries, tests = {"summary": (summary, EDITS)}, {"summary": read_table(out / f"{TESTS}.parquet")}
    if "dated" in tables:
        dated, more = write_dated(tables, out)
        summaries, notes = summaries | {"dated": (dated, DATED)}, notes + more
        summaries |= {"atoke": (write_atoke(tables, out), ATOKE)}
        tests["dated"] = read_table(out / f"{DATED_TESTS}.parquet")
    asked = tables.get("portability")
    portability = write_portability(tables, out) if asked is not None and asked.height else None
    return EvaluatedUpdates(record, summaries, notes, tests, portability)


def with_printed_names(tables: Mapping[str, pl.DataFrame], record: Json) -> dict[str, pl.DataFrame]:
    """The tables of a run with its methods as reports call them; the run's own files keep the names users write."""
    identities = [known["identity"] for known in record["methods"].values()]
    names = {one["method"]: printed_name(one["method"], one["settings"]) for one in identities}
    return {
        what: table.with_columns(pl.col("method").replace(names)) if "method" in table.columns else table
        for what, table in tables.items()
    }
