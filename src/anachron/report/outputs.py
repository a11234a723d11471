"""The tables of a study as files: Parquet and CSV to compute with, Markdown and LaTeX to print."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from anachron.analysis import catalogue
from anachron.analysis.analyses.analysis import Analysis
from anachron.analysis.metrics import GLOBAL, RUN_KEYS, without_matches
from anachron.analysis.plots.charts import NAMES
from anachron.analysis.study import Study
from anachron.core.notebook import html_record, html_table
from anachron.io.files import Json, versions, write_bytes, write_json
from anachron.io.tables import harmless, write_table
from anachron.report.numbers import p_value, share_cells
from anachron.report.table import Column, Table

PRINTED_ROWS = 1000


@dataclass(frozen=True)
class Written:
    """The tables that were written, by name, what a reader must know about them, and what was left out and why.

    ``parameters`` and ``inputs`` (score tables with their fingerprints) are those of the manifest.
    """

    tables: Mapping[str, pl.DataFrame]
    notes: list[str]
    left_out: Mapping[str, str]
    parameters: Json
    inputs: Json

    @property
    def facts(self) -> pl.DataFrame:
        return self.tables["facts"]

    @property
    def summary(self) -> pl.DataFrame:
        return self.tables["summary"]

    def _repr_html_(self) -> str:
        """The summary, in per cent, or else what tables there are."""
        if "summary" not in self.tables:
            return html_record("Tables", {name: f"{table.height:,} rows" for name, table in self.tables.items()})
        shares = [title for name in NAMES.values() for title in (f"{name} %", "95 %")]
        header = ("model", "format", "prefix", "dates", "facts", *shares)
        rows = [
            (
                *(row[name] for name in ("model", "format", "prefix", "granularity")),
                f"{row['facts']:,}",
                *share_cells(row, NAMES),
            )
            for row in self.summary.iter_rows(named=True)
        ]
        return html_table("Win rate W and robustness R, mean over facts", header, rows)


def write_tables(
    study: Study,
    out: Path,
    *,
    parameters: Json,
    inputs: Json,
    command: str = "metrics",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Written:
    """Write every table that a study allows into a folder, with a manifest.

    ``NAME.parquet`` and ``NAME.csv`` (see `anachron.io.tables`), and ``markdown/NAME.md`` and
    ``latex/NAME.tex`` of tables for print. Those that an earlier study left in the folder are removed. progress: told
    how many analyses are done, out of how many.
    """
    tables, left_out = catalogue.make_tables(study, progress)
    notes = study_notes(study)
    for analysis in catalogue.every_analysis():
        _remove(analysis.name, out)  # what an earlier study left here would pass for this one's
        if analysis.name in tables:
            table = tables[analysis.name]
            write_data(out, analysis.name, table)
            if not analysis.large and table.height <= PRINTED_ROWS:
                write_printed(out, analysis.name, markdown(analysis, table), latex(analysis, table))
    manifest = {
        "command": command,
        "inputs": inputs,
        "parameters": parameters,
        "counts": {
            "runs": len(study.runs),
            "scores": sum(run.height for run in study.runs),
            "facts": study.about.height,
            "runs that asked": 0 if study.answers is None else study.answers.runs.height,
            **{f"{name} rows": table.height for name, table in tables.items()},
        },
        "notes": notes,
        "left_out": left_out,
        "versions": versions(),
    }
    write_json(out / "manifest.json", manifest)
    return Written(tables, notes, left_out, parameters, inputs)


def _remove(name: str, out: Path) -> None:
    for file in (f"{name}.parquet", f"{name}.csv"):
        (out / file).unlink(missing_ok=True)
    remove_printed(out, name)


def remove_printed(out: Path, name: str) -> None:
    """Remove what `write_printed` wrote."""
    for file in (f"markdown/{name}.md", f"latex/{name}.tex"):
        (out / file).unlink(missing_ok=True)


def write_data(out: Path, name: str, table: pl.DataFrame) -> None:
    write_table(out / f"{name}.parquet", table)
    write_table(out / f"{name}.csv", harmless(table))


def write_printed(out: Path, name: str, markdown: str, latex: str) -> None:
    write_bytes(out / "markdown" / f"{name}.md", markdown.encode())
    write_bytes(out / "latex" / f"{name}.tex", latex.encode())


def markdown(analysis: Analysis, table: pl.DataFrame) -> str:
    """A table with its title and source, as GitHub's Markdown."""
    return f"## {analysis.title}\n\n{_printed(analysis, table).markdown()}\nSource: {analysis.source}.\n"


def latex(analysis: Analysis, table: pl.DataFrame) -> str:
    """A table float with a caption and a label, for LaTeX with the package booktabs."""
    return _printed(analysis, table).latex(analysis.name, analysis.title)


def _printed(analysis: Analysis, table: pl.DataFrame) -> Table:
    """Cells as text: probabilities and scores to three decimals, p values as papers print them, nothing as a dash."""
    cells = [[cell_text(name, value) for value in table[name]] for name in table.columns]
    columns = [Column(name, number=table[name].dtype.is_numeric()) for name in table.columns]
    return Table(analysis.title, columns, list(zip(*cells, strict=True)))


def cell_text(name: str, value: object) -> str:
    if value is None or value != value:  # null or NaN
        return "-"
    if isinstance(value, float):
        if name == "p" or name.endswith(("_p", "p_clustered")):
            return p_value(value)
        return f"{value:.3f}" if abs(value) < 1e6 else f"{value:.3g}"
    return str(value)


def study_notes(study: Study) -> list[str]:
    """What a reader of the tables must know: how near-ties were counted, and facts without W and R."""
    notes = list(study.remarks)
    for run in study.runs:
        name = f"{run['model'][0]}, {run['format'][0]}, prefix {run['prefix'][0]}"
        noise = run["noise"][0]
        if noise is None:
            notes.append(f"{name}: near-ties are not counted, because its noise is unknown (give --noise)")
        else:
            notes.append(f"{name}: near-ties are matches decided by at most {noise:.2g} nats, the noise of the run")
        lacking = without_matches(run).filter((pl.col("no_correct") > 0) | (pl.col("no_incorrect") > 0))
        for row in lacking.iter_rows(named=True):
            notes.append(
                f"{name}, {row['granularity']}: no W and R for {row['no_correct']} facts without a correct context and "
                f"{row['no_incorrect']} without an incorrect one"
            )
    for (form, prefix), group in study.most_robust.group_by("format", "prefix", maintain_order=True):
        if group.height > 1:
            names = ", ".join(group["model"])
            notes.append(
                f"{form}, prefix {prefix}: rows called pooled or top, and the table agreement, are over the most "
                f"robust models: {names}"
            )
    asked = study.facts.select(RUN_KEYS).unique().height
    if asked < len(study.runs):
        notes.append(f"{len(study.runs) - asked} of {len(study.runs)} runs have no fact with matches")
    sizes = study.models.filter(pl.col("parameters").is_null())["model"]
    if 0 < len(sizes) < study.models.height:
        notes.append(f"the table sizes leaves out {', '.join(sizes)}, whose size is unknown (give --models)")
    if study.baseline is not None:
        keys = study.facts.select(RUN_KEYS).unique(maintain_order=True)
        of_baseline = keys.filter(pl.col("model") == study.baseline).select("format", "prefix")
        for model, form, prefix in keys.join(
            of_baseline, on=["format", "prefix"], how="anti", maintain_order="left"
        ).rows():
            notes.append(f"{model}, {form}, prefix {prefix} is not compared: {study.baseline} has no such run")
    if not study.shares_contexts:
        notes.append(
            "the runs were not all asked the same contexts of the same facts, so their means are not comparable"
        )
    if study.runs and GLOBAL not in study.facts["granularity"]:
        notes.append("no fact has matches at year, month and day, so there is no global row")
    return notes
