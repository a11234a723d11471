"""``runs rename``."""

from pathlib import Path
from typing import Annotated

import typer

from anachron.cli.groups import grouped
from anachron.cli.output import say


def register(app: typer.Typer) -> None:
    app.command()(grouped(rename))


def rename(
    run: Annotated[Path, typer.Argument(help="Run folder made by probe.")],
    label: Annotated[str, typer.Argument(help="New name of the model in tables.")],
) -> None:
    """Rename the model of a run in tables; nothing is scored again.

    Example: anachron runs rename runs/gpt2 "GPT-2, small"
    """
    from anachron.probe.runs import rename_run

    before = rename_run(run, label)
    say(f"{run}: {before} is now called {label}")
