"""A finished evaluation of edits to a page, with the tables and figures behind it (``report``)."""

from pathlib import Path

import polars as pl

from anachron.core.errors import DataError
from anachron.data.updates.case_records import numbered_neighbours
from anachron.data.updates.cases import MINI_UPDATES, CaseSet, load_cases
from anachron.io.files import Json, file_fingerprint, write_bytes, write_manifest
from anachron.io.run_folder import Kind, RunFolder, kind_of
from anachron.report.edits.evaluated import EvaluatedUpdates, report_evaluation, with_printed_names
from anachron.report.page.edits import edits_data, keeps, moves, render_edits

PAST = "past_scores.parquet"


def is_evaluation(path: Path) -> bool:
    """Whether a path is the folder of a run of ``evaluate``, finished or not."""
    return kind_of(path) is Kind.EDITS


def read_evaluation(folder: Path) -> tuple[Json, dict[str, pl.DataFrame]]:
    """The record of a run of ``evaluate`` and its tables by name.

    Raises `DataError` for a run that is not finished or is damaged.
    """
    run = RunFolder.read(folder)
    if not run.is_done:
        raise DataError(f"{folder}: the run is not finished; repeat its evaluate command to go on")
    files = [name for name in run.record["files"] if name.endswith(".parquet") and "/" not in name]
    return run.record, {name.removesuffix(".parquet"): run.read_table(name) for name in files}


def write_edits_report(folder: Path, page: Path, tables: Path, style: str = "plain") -> tuple[EvaluatedUpdates, Json]:
    """Write the page of a run of ``evaluate`` and the tables behind it; returns what it says, and what was read.

    style: of the tables for print, as of `anachron.write_metrics`.

    Raises `DataError` for a run that is not finished or is damaged.
    """
    record, found = read_evaluation(folder)
    evaluated = report_evaluation(record, found, tables, style)
    shown = with_printed_names(found, record)
    names, facts, why_not = names_of_updates(record["settings"])
    made = {} if "stages" in found else moves(shown["targets"], shown["updates"], names)
    kept = {} if "stages" in found else keeps(shown["neighbours"], names, facts)
    notes = [*evaluated.notes, *([why_not] if why_not else [])]
    files = [f"{name}.parquet" for name in found]
    past = str(folder / PAST) if PAST in files else None
    model = Path(record["settings"]["model"]).name
    data = edits_data(record, evaluated.summaries, made, notes, name=model, past=past, kept=kept)
    write_bytes(page, render_edits(data).encode())
    inputs = {str(folder / name): file_fingerprint(folder / name) for name in files}
    write_manifest(page, command="report", parameters={}, inputs=inputs, counts={"methods": len(made)})
    return evaluated, inputs


Names = tuple[dict[str, str], dict[tuple[str, str, int], str], str | None]


def names_of_updates(settings: Json) -> Names:
    """``subject | relation: old → new`` of each update of a run by its id, and the facts beside them by id, kind and
    number, from the file that the run read; else none, and why. A data set of the hub is not fetched again."""
    name = settings["updates"]
    if not Path(name).is_file() and name != MINI_UPDATES:
        return {}, {}, f"updates are named by number, because {name} is missing"
    for scenario in ("ReplaceObject", None):
        cases = load_cases(name, scenario=scenario, limit=settings["number_of_updates"])
        if cases.fingerprint() == settings["updates_fingerprint"]:
            return _named(cases), _facts(cases), None
    return {}, {}, f"updates are named by number, because {name} is not what the run read"


def _named(cases: CaseSet) -> dict[str, str]:
    return {
        case.case_id: f"{case.subject} | {case.relation_label or case.relation or case.prompt}: "
        f"{case.old or '–'} → {case.new or '–'}"
        for case in cases.cases
    }


def _facts(cases: CaseSet) -> dict[tuple[str, str, int], str]:
    return {
        (case.case_id, kind, number): " ".join((fact.prompt, *fact.objects[:1]))
        for case in cases.cases
        for kind, number, fact in numbered_neighbours(case)
    }
