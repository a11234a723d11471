"""The command ``updates``: which updates a model lacks."""

from pathlib import Path
from typing import Annotated

import typer

from anachron.cli.edit_options import StyleOptions, Updates
from anachron.cli.options import JsonFlag, ModelArgument, ModelOptions, UpdatesOptions
from anachron.cli.output import print_json, say, stdout
from anachron.cli.outputs import FILE

TOO_MANY = 1


def updates(
    *,
    model: ModelArgument,
    updates: Updates,
    out: Annotated[
        Path | None,
        typer.Option(help="File with a row per update and its probabilities: .csv, .parquet, .jsonl, .json."),
        FILE,
    ] = None,
    lacking: Annotated[
        Path | None,
        typer.Option(help="File for the updates that it lacks, in their original format: .jsonl, to pass to edit."),
        FILE,
    ] = None,
    max_lacking: Annotated[int | None, typer.Option(min=0, help="Fail if more updates than this are lacking.")] = (
        None
    ),
    selected: UpdatesOptions,
    asked: StyleOptions,
    loading: ModelOptions,
    json_: JsonFlag = False,
) -> None:
    """Find the updates that a model lacks: those where it finds the old object likelier after every prompt.

    Objects are compared by their length-normalised probabilities, as in evaluate, after the update prompt and its
    paraphrases. Exit codes: 0 on success, with --max-lacking met if it is given; 1 if it is not met, or if the work
    failed; 2 for wrong usage.

    Example: anachron updates demo --updates mini-updates --limit 20 --out lacking.csv
    """
    from anachron.core.errors import ConfigError
    from anachron.io.tables import check_ending
    from anachron.report.lacking import lacking_updates, write_lacking
    from anachron.report.terminal.old_and_new import PRINTED, lacking_line, lacking_table, states

    if out is not None:
        check_ending(out)
    if lacking is not None and lacking.suffix != ".jsonl":
        raise ConfigError(f"--lacking {lacking}: the updates are always written as .jsonl; choose such a name")
    cases = selected.load(updates, tell=True)
    lm = asked.load(model, loading)
    found = lacking_updates(lm, cases, out)
    if lacking is not None:
        write_lacking(lm, cases, found, lacking, split=selected.split, revision=selected.dataset_revision)
    counts = states(found)
    passed = max_lacking is None or counts["lacks"] <= max_lacking
    if json_:
        named = {"out": None if out is None else str(out), "lacking": None if lacking is None else str(lacking)}
        counts |= {"not_compared": len(cases.cases) - found.height}
        print_json({**counts, "passed": passed, **named, "updates": found.to_dicts()})
    else:
        if shown := found.height - counts["has"]:
            stdout().print(lacking_table(found))
        if shown > PRINTED:
            say(f"{shown - PRINTED:,} more are not shown; --out writes them all")
        say(lacking_line(found, len(cases.cases)))
        if not passed:
            say(f"FAILED: the model lacks more than {max_lacking:,}")
    if not passed:
        raise typer.Exit(TOO_MANY)
