"""The command ``metrics``."""

from pathlib import Path
from typing import Annotated

import typer

from anachron.cli.output import print_json, say, stdout


def register(app: typer.Typer) -> None:
    app.command()(metrics)


def metrics(
    scores: Annotated[list[Path], typer.Argument(help="Score tables, run folders, or folders of run folders.")],
    out: Annotated[Path, typer.Option(help="Folder for the tables.")],
    noise: Annotated[
        float | None, typer.Option(min=0, help="Largest meaningless difference in nats; by default each run's own.")
    ] = None,
    resamples: Annotated[int, typer.Option(min=100, help="Bootstrap resamples.")] = 1000,
    seed: Annotated[int, typer.Option(help="Of the bootstrap.")] = 0,
    json_: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Per-fact win rate and robustness, and every table they allow, from any score table.

    Example: anachron metrics runs/gpt2 --out tables
    """
    from anachron.probe.runs import read_runs
    from anachron.probe.tables import write_tables
    from anachron.report.tables import summary_table

    tables = write_tables(read_runs(scores), out, noise=noise, resamples=resamples, seed=seed, inputs=scores)
    if json_:
        print_json({"summary": tables.summary.to_dicts(), "notes": tables.notes})
    else:
        stdout().print(summary_table(tables.summary))
        for note in tables.notes:
            say(note)
        say(f"tables written to {out}")
