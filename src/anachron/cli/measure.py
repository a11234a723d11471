"""The commands ``metrics`` and ``report``."""

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anachron.analysis.plots.words import counted
from anachron.cli.options import JsonFlag, PrintStyle, Sources, StudyOptions
from anachron.cli.output import on_screen, print_json, say, stdout
from anachron.cli.outputs import FOLDER

if TYPE_CHECKING:
    from anachron.report.outputs import Written


def metrics(
    *,
    scores: Sources,
    out: Annotated[Path, typer.Option(help="Folder for the tables."), FOLDER],
    style: PrintStyle = "plain",
    study: StudyOptions,
    json_: JsonFlag = False,
) -> None:
    """Compute win rate and robustness for each fact, and every table based on them, from any score table.

    Tables are written as Parquet and CSV, and for print as Markdown and LaTeX. Runs of --backend chat or generate are
    accepted too; if a model was both scored and asked, the two are compared.

    Example: anachron metrics runs/gpt2 --out tables
    """
    from anachron.report.studies import write_metrics
    from anachron.report.terminal.answers import answer_table_lines
    from anachron.report.terminal.tables import decoy_and_crossed_lines, summary_table

    screen = on_screen()
    with screen.bars() as progress:
        written = write_metrics(scores, out, style=style, warn=screen.warn, progress=progress, **asdict(study))
    if json_:
        print_json({**_results(written), "notes": written.notes, "left_out": dict(written.left_out)})
        return
    if "summary" in written.tables:
        stdout().print(summary_table(written.summary))
    for line in (*decoy_and_crossed_lines(written.tables), *answer_table_lines(written.tables)):
        stdout().print(line, markup=False, soft_wrap=True)
    _say_notes(written, out)
    say(f"{counted(len(written.tables), 'table')} written to {out}")


def report(
    *,
    scores: Sources,
    out: Annotated[Path, typer.Option(help="Folder for the page, the tables and the figures."), FOLDER],
    style: PrintStyle = "plain",
    study: StudyOptions,
    json_: JsonFlag = False,
) -> None:
    """Write a page about one or more runs that works offline, with every table behind it and every figure for print.

    For runs of --backend chat or generate it shows the model's own words. A run of evaluate is reported alone, with
    the table of methods and each update before and after.

    The page is a single file: headline numbers, every fact with its timeline, all analyses as charts, and the tables
    to download. Tables are written as Parquet, CSV, Markdown and LaTeX, figures as SVG, PDF and PNG.

    Example: anachron report runs/gpt2 runs/gemma --out report
    """
    from anachron.report.studies import TABLES, write_report

    screen = on_screen()
    with screen.bars() as progress:
        made = write_report(scores, out, style=style, warn=screen.warn, progress=progress, **asdict(study))
    written, tables, figures = made.written, out / TABLES, made.figures
    if json_:
        print_json({
            "page": str(made.page), "tables": str(tables), "figures": str(figures),
            **_results(written), "notes": written.notes, "left_out": dict(written.left_out),
            "not_drawn": made.not_drawn,
        })  # fmt: skip
        return
    _say_notes(written, tables, made.not_drawn.values())
    drawn = f", figures to {figures}" if any(figures.glob("*.svg")) else ""
    say(f"{counted(len(written.tables), 'table')} written to {tables}{drawn}")
    stdout().print(f"page: {made.page}", markup=False, soft_wrap=True)


def _results(written: "Written") -> dict[str, Any]:
    """``summary``, and of the other tables that a program asks for those that there are."""
    tables = written.tables
    summary = {"summary": tables["summary"].to_dicts() if "summary" in tables else []}
    return summary | {
        name: tables[name].to_dicts()
        for name in ("crossed", "decoys", "asked", "bridge", "conversion")
        if name in tables
    }


def _say_notes(written: "Written", folder: Path, not_drawn: Iterable[str] = ()) -> None:
    for note in written.notes:
        say(note)
    if count := len(written.left_out):
        what = "1 analysis does" if count == 1 else f"{count:,} analyses do"
        say(f"{what} not apply to these runs; {folder / 'manifest.json'} says why")
    for reason in not_drawn:
        say(reason)
