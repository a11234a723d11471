"""The numbers of a run in an experiment tracker, MLflow or Weights & Biases (``anachron.log_to``)."""

import re
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any

import polars as pl

from anachron.analysis.metrics import check_scores, fact_metrics, summarise
from anachron.core.errors import ConfigError
from anachron.evaluate.results import method_label
from anachron.evaluate.summaries import summaries
from anachron.io.files import Json
from anachron.probe.check.check import SUMMARY_FILE, Check
from anachron.probe.run import SCORES_FILE, ProbeResult
from anachron.probe.runs import finished
from anachron.report.edits.evaluated import EvaluatedUpdates, with_printed_names
from anachron.report.edits.page import is_evaluation, read_evaluation

FORBIDDEN = re.compile(r"[^\w./ :-]")  # in MLflow's names of metrics
LONGEST = 500  # letters of a parameter that every version of MLflow takes


def log_to(run: ProbeResult | Check | EvaluatedUpdates | Path | str, tracker: Any) -> dict[str, float]:
    """Log the numbers of a run and its settings to a tracker; returns the numbers.

    run: what `anachron.run_probe`, `anachron.check` or `anachron.evaluate_updates` returned, or the folder of such a
    run that is finished. tracker: the module
    ``mlflow`` while one of its runs is active, or the run that ``wandb.init`` returned; anything with
    ``log_metrics(dict)`` or ``log(dict)`` will do. Settings go to ``log_params(dict)`` or ``config.update(dict)``,
    where the tracker has either.

    Names are ``win_rate/year`` and ``robustness/global`` of a run of probe, ``verdicts/known`` of a check,
    ``ROME/efficacy_success`` of an evaluation, its other tables with theirs before (``dated/ROME/...``); shares from 0
    to 1. Letters that MLflow refuses in a name are written ``_`` (``FT_L``). What is not known is left out. Raises
    `ConfigError` for another run or tracker.
    """
    numbers, settings = _of_folder(Path(run)) if isinstance(run, str | Path) else _of_run(run)
    log = getattr(tracker, "log_metrics", None) or getattr(tracker, "log", None)
    if not callable(log):
        raise ConfigError(
            f"{type(tracker).__name__} has neither log_metrics nor log; give the module mlflow, or what wandb.init "
            "returned"
        )
    parameters = getattr(tracker, "log_params", None) or getattr(getattr(tracker, "config", None), "update", None)
    if callable(parameters):
        parameters(settings)
    log(numbers)
    return numbers


def _of_run(run: ProbeResult | Check | EvaluatedUpdates) -> tuple[dict[str, float], Json]:
    """The numbers of `log_to` by their names, and what tells a run from others, as short texts."""
    if isinstance(run, ProbeResult):
        rows = summarise(fact_metrics(check_scores(run.scores))).iter_rows(named=True)
        found = [(f"{name}/{row['granularity']}", row[name]) for row in rows for name in ("win_rate", "robustness")]
    elif isinstance(run, Check):
        return _of_check(run.summary, run.folder)
    elif isinstance(run, EvaluatedUpdates):
        found = _of_evaluation({name: summary for name, (summary, _) in run.summaries.items()})
    else:
        raise ConfigError(
            f"{type(run).__name__} is not a run; give what run_probe, check or evaluate_updates returned, or its folder"
        )
    return _named(found), _settings(run.record)


def _named(found: list[tuple[str, Any]]) -> dict[str, float]:
    return {FORBIDDEN.sub("_", name): float(value) for name, value in found if value is not None and isfinite(value)}


def _of_check(summary: Json, folder: Path) -> tuple[dict[str, float], Json]:
    """From what `check.json` holds."""
    found = [(name, summary[name]) for name in ("win_rate", "robustness")]
    found += [(f"verdicts/{name}", count) for name, count in summary["verdicts"].items()]
    return _named(found), {"model": summary["model"], "as_of": summary["as_of"], "folder": str(folder)}


def _of_folder(folder: Path) -> tuple[dict[str, float], Json]:
    """Numbers and settings of a finished run. Raises `DataError` for an unfinished one, and for another folder."""
    if is_evaluation(folder):
        record, tables = read_evaluation(folder)
        return _named(_of_evaluation(summaries(with_printed_names(tables, record)))), _settings(record)
    run = finished(folder)
    if run.holds(SUMMARY_FILE):
        return _of_check(run.read_json(SUMMARY_FILE), folder)
    return _of_run(ProbeResult(folder, run.record, run.read_table(SCORES_FILE)))


def _of_evaluation(tables: Mapping[str, pl.DataFrame]) -> list[tuple[str, float | None]]:
    """From the summaries of `EvaluatedUpdates`."""
    return [pair for name, summary in tables.items() for pair in _of_summary(name, summary)]


def _of_summary(table: str, summary: pl.DataFrame) -> list[tuple[str, float | None]]:
    """The means of a summary of edits; a row's name is its method's, behind what else tells rows apart."""
    means = [name.removesuffix("_n") for name in summary.columns if name.endswith("_n")]
    apart = [name for name in ("mode", "scenario", "edits") if name in summary and summary[name].n_unique() > 1]
    before = [] if table == "summary" else [table]
    return [
        ("/".join([*before, *(str(row[name]) for name in apart), row["method"], mean]), row[mean])
        for row in summary.with_columns(method_label()).iter_rows(named=True)
        for mean in means
    ]


def _settings(record: Json) -> Json:
    return {name: str(value)[:LONGEST] for name, value in record["settings"].items() if value is not None}
