"""The command ``demo``: the main path on bundled data and the bundled model: probe, report, check, edit."""

from pathlib import Path
from typing import Annotated

import typer

from anachron.cli.options import JsonFlag
from anachron.cli.output import on_screen, print_json, stdout
from anachron.cli.outputs import FOLDER

WORST = 5


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the runs and tables."), FOLDER] = Path("demo-run"),
    full: Annotated[bool, typer.Option("--full", help="Use all facts of mini instead of a fixed sample.")] = False,
    json_: JsonFlag = False,
) -> None:
    """Probe the bundled model and its untrained twin on real dated facts, check ten facts, and make a few updates.

    Needs no network and no GPU.

    Example: anachron demo --out demo-run
    """
    import polars as pl

    from anachron.lm.tokenizers import DEMO
    from anachron.probe.check.verdicts import timeline
    from anachron.report.demo import run_demo
    from anachron.report.edits.tables import edits_tables
    from anachron.report.terminal.tables import decoy_and_crossed_lines, summary_table
    from anachron.report.terminal.verdicts import LEGEND, summary_lines, verdict_lines

    made = run_demo(out, full=full, callbacks=on_screen())
    if json_:
        print_json({
            "summary": made.written.summary.to_dicts(), "runs": [str(folder) for folder in made.runs.values()],
            "tables": str(made.tables), "report": made.report, "check": made.check.summary,
            "edits": made.edit_summary.to_dicts(),
        })  # fmt: skip
        return
    screen = stdout()
    screen.print(summary_table(made.written.summary, "What the demo model believes about time"))
    for words in decoy_and_crossed_lines(made.written.tables):
        screen.print(words, markup=False)
    if "timelines" in made.written.tables:
        timelines = made.written.tables["timelines"]
        worst = timelines.filter(pl.col("rank") <= WORST).partition_by("rank", maintain_order=True)
        screen.print(
            f"\n[bold]The {len(worst)} worst far errors[/bold] on facts that a model seems to know (W at least 90 %):"
        )
        screen.print(
            "bars: log-probability of the answer by year; = the fact held; x a lost match; ! lost to a far year\n"
        )
        for years in worst:
            screen.print(timeline(years))
    screen.print("\n[bold]Ten facts of a file[/bold], as anachron check reports them:")
    for line in verdict_lines(made.check.verdicts):
        screen.print(line, soft_wrap=True)
    screen.print(LEGEND, style="dim", markup=False)
    for words in summary_lines(made.check.summary):
        screen.print(words, markup=False)
    screen.print()
    for table in edits_tables(made.edit_summary, screen.width):
        screen.print(table)
    for name, folder in made.runs.items():
        screen.print(f"run folder of {name}: {folder}", markup=False)
    screen.print(f"check of {DEMO}: {made.check.folder}", markup=False)
    screen.print(f"updates of {DEMO}: {made.edits}", markup=False)
    screen.print(f"tables: {made.tables}", markup=False)
    screen.print(f"report: {made.report}", markup=False)
