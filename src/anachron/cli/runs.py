"""``runs list``, ``show``, ``compare``, ``export`` and ``rename``."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from anachron.analysis.plots.words import counted
from anachron.cli.options import JsonFlag
from anachron.cli.output import print_json, say, stdout, warn
from anachron.cli.outputs import FILE, FOLDER
from anachron.io.stores import place

RunArgument = Annotated[Path, typer.Argument(help="Run folder.")]


def list_(
    *,
    folders: Annotated[
        list[Path] | None, typer.Argument(help="Folders that hold runs, here or on a store (s3://). Default: runs.")
    ] = None,
    json_: JsonFlag = False,
) -> None:
    """List the runs and edits in folders: what each is, of which model and data, whether it is done, and its result.

    Example: anachron runs list
    """
    from anachron.report.runs import list_runs
    from anachron.report.terminal.runs import run_lines

    tops = [place(folder) for folder in folders or [Path("runs")]]
    found = list_runs(tops)
    if json_:
        print_json([asdict(one) for one in found])
        return
    for line in run_lines(map(asdict, found)):
        stdout().print(line, markup=False, soft_wrap=True)
    say(f"{counted(len(found), 'run')} in {', '.join(map(str, tops))}")


def show(
    *,
    run: Annotated[Path, typer.Argument(help="Run folder, here or on a store (s3://).")],
    json_: JsonFlag = False,
) -> None:
    """Show one run: its result, model, data, settings, counts and files.

    Example: anachron runs show runs/gpt2
    """
    from anachron.report.runs import describe_run, open_kept, settings_in_words
    from anachron.report.terminal.runs import run_lines

    where = place(run)
    kept = open_kept(where)
    found = describe_run(where, kept)
    if json_:
        print_json({**asdict(found), "settings": kept.settings, "files": kept.files})
        return
    words = [f"    {name}: {told}" for name, told in settings_in_words(kept).items()]
    for line in (*run_lines([asdict(found)]), *words):
        stdout().print(line, markup=False, soft_wrap=True)


def compare(
    *,
    runs: Annotated[list[Path], typer.Argument(help="Two or more run folders; the first is compared with.")],
    out: Annotated[
        Path | None, typer.Option(help="File with a row per fact and comparison: .csv, .parquet, .jsonl."), FILE
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(help="Folder for a page about these runs, on the facts that all share, as report makes it."),
        FOLDER,
    ] = None,
    json_: JsonFlag = False,
) -> None:
    """Compare runs fact by fact: what was gained, lost or judged otherwise, what each model says, and how W differs.

    A fact is gained where it became robust or known, or its answer about today current; lost where it no longer is.
    Horizons are compared by change, edits by update and method.

    Example: anachron runs compare runs/before runs/after --out changed.csv
    """
    from anachron.core.errors import ConfigError
    from anachron.io.tables import check_ending, write_table
    from anachron.report.side_by_side import compare_runs
    from anachron.report.studies import write_report
    from anachron.report.terminal.runs import comparison_lines, facts_table

    if out is not None:
        check_ending(out)
    found = compare_runs(runs)
    if page is not None and found.comparisons[0].what == "horizon":
        raise ConfigError(f"--page {page}: horizons have a page by anachron horizon RUN RUN --out {page}")
    if out is not None:
        write_table(out, found.facts)
    made = None if page is None else write_report(runs, page, figures=False, common_facts=True, warn=warn)
    if json_:
        print_json(found.json())
        return
    for one in map(asdict, found.comparisons):
        for line in comparison_lines(one):
            stdout().print(line, markup=False, soft_wrap=True)
        table = facts_table(found.facts, one)
        if table.rows:
            stdout().print(table)
    if out is not None:
        say(f"{counted(found.facts.height, 'fact')} written to {out}")
    if made is not None:
        say(f"page: {made.page}")


def export(
    *,
    run: RunArgument,
    out: Annotated[Path, typer.Argument(help="Table to write: .csv, .parquet or .jsonl."), FILE],
    dataset: Annotated[
        str | None,
        typer.Option(help="The data set that was scored, where it no longer lies where the run found it."),
    ] = None,
) -> None:
    """Write each prompt of a run beside its score: prompt, answer, time, status, log-probability and labels.

    Of a run by answers (--backend chat or generate) it is each question with the model's answer.

    Example: anachron runs export runs/gpt2 scores.csv
    """
    from anachron.probe.prompts import export_run
    from anachron.report.runs import open_run_folder

    rows = export_run(open_run_folder(run), out, dataset)
    say(f"{counted(rows, 'row')} written to {out}")


def rename(
    run: RunArgument,
    label: Annotated[str, typer.Argument(help="New name of the model in tables.")],
) -> None:
    """Rename the model of a run in tables; nothing is scored again.

    Example: anachron runs rename runs/gpt2 "GPT-2, small"
    """
    from anachron.probe.runs import rename_run
    from anachron.report.runs import open_run_folder

    before = rename_run(open_run_folder(run), label)
    say(f"{run}: {before} is now called {label}")
