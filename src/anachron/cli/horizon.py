"""``horizon``."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anachron.cli.asking import AnswerOptions, Models
from anachron.cli.commands import setting
from anachron.cli.drawing import drawn
from anachron.cli.options import JsonFlag, ModelLabel, ModelOptions, ReadingOptions
from anachron.cli.output import print_json, run_folders, say, stdout, warn
from anachron.cli.outputs import DEFAULT_RUN, NAMED_RUN
from anachron.cli.scorer_options import ReplicaOptions, ScorerOptions, TextOptions
from anachron.core.errors import ConfigError, DataError

if TYPE_CHECKING:
    from anachron.io.jobs import Callbacks
    from anachron.probe.horizon.changes import Change
    from anachron.probe.horizon.find import FoundHorizon

LEAKED, NOT_JUDGED = 1, 2


@dataclass(frozen=True, kw_only=True)
class ChangeOptions(ReadingOptions):
    """Which changes are asked about, and what is claimed of the model."""

    changes: Annotated[
        str | None,
        typer.Option(
            help="mini-changes (the default), mini (the default for demo, which was trained on its facts), or a "
            "file: changes with subject, relation, old, new, date; facts that succeed each other; or "
            "updates written by build updates."
        ),
    ] = None
    limit: Annotated[int | None, typer.Option(min=1, help="Use only this many changes (a fixed sample).")] = None
    claim: Annotated[
        str | None,
        typer.Option(help="Claimed cut-off, such as 2023-12; exit with code 1 if the model knows later changes."),
    ] = None
    released: Annotated[
        str | None,
        typer.Option(help="When the model was published: changes after that month show how often it guesses right."),
    ] = None

    min_judged: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Share (0 to 1) of the changes after the claim of which an answer must have been read. Default: 1.",
        ),
    ] = None

    def name(self, models: list[str]) -> str:
        """The changes to ask these models about."""
        if self.changes:
            return self.changes
        from anachron.lm.tokenizers import DEMO

        return "mini" if set(models) == {DEMO} else "mini-changes"

    def read(self, models: list[str], callbacks: "Callbacks") -> "list[Change]":
        from anachron.probe.horizon.find import read_horizon_changes

        return read_horizon_changes(self.name(models), limit=self.limit, callbacks=callbacks, reading=self.reading())

    def limits(self) -> dict[str, Any]:
        """``claim`` and ``released`` as months, and ``min_judged``. Raises `ConfigError` where they do not fit."""
        from anachron.probe.horizon.leak import check_claim

        found = {"claim": _month("--claim", self.claim), "released": _month("--released", self.released)}
        check_claim(**found)
        if self.min_judged is not None and self.claim is None:
            raise ConfigError("--min-judged serves the test of a claim; give --claim too")
        return {**found, "min_judged": 1.0 if self.min_judged is None else self.min_judged}


@dataclass(frozen=True, kw_only=True)
class ShownOptions:
    """What is drawn and written for a reader."""

    figure: Annotated[bool, setting(help="Draw the figure, if the extra report is installed.", callback=drawn)] = True
    page: Annotated[
        bool, setting(help="Write the page index.html into the run folder or, with several models, into --out.")
    ] = True

    def write(self, found: "list[FoundHorizon]", folder: Path) -> None:
        """The figures into the run folders, the page into this one."""
        from anachron.probe.horizon.find import PAGE
        from anachron.report.horizons import draw_horizon, write_horizon_page

        for one in found if self.figure else ():
            draw_horizon(one)
        if self.page:
            say(f"page: {write_horizon_page(found, folder / PAGE, figures=self.figure)}")


def horizon(
    *,
    model: Annotated[
        list[str],
        typer.Argument(help="Hub names, folders, GGUF files, or demo; or run folders of earlier horizons."),
    ],
    out: Annotated[
        Path, typer.Option(help="Run folder; with several models, a folder with a run folder for each."), NAMED_RUN
    ] = DEFAULT_RUN,
    asked: ChangeOptions,
    texts: TextOptions,
    scorer: ScorerOptions,
    replicas: ReplicaOptions,
    label: ModelLabel = None,
    loading: ModelOptions,
    asking: AnswerOptions,
    shown: ShownOptions,
    json_: JsonFlag = False,
) -> None:
    """Find out until when a model learned, from dated changes in the world: a curve with intervals, and a leak test.

    With --backend chat or generate the model is asked questions, and log-probabilities are not needed. An existing run
    folder is resumed, or read again if it is finished; another --claim asks nothing again. Exit codes: 0 for no leak
    (or no --claim); 1 if the model knows changes after the claimed cut-off beyond chance, or if the work failed; 2 for
    wrong usage, bad input, or no verdict: too few changes or answers after the claim, or, without --released, a lead
    that lucky guesses may explain.

    Example: anachron horizon demo --out runs/horizon
    """
    from anachron.io.jobs import Callbacks
    from anachron.probe.by_answers import cost_of_changes
    from anachron.probe.horizon.find import ASKED, find_horizon, is_horizon, read_horizon
    from anachron.probe.horizon.questions import changes_to_ask

    if label is not None and len(model) > 1:
        raise ConfigError("--label names one model; leave it out with several")
    models = Models(asking, texts, scorer, replicas, loading)
    limits = asked.limits()
    changes = None if all(map(is_horizon, model)) else asked.read(model, Callbacks(warn=warn))
    if changes is not None and models.only_cost(lambda settings: cost_of_changes(changes_to_ask(changes)), "change"):
        return

    def find_one(name: str, folder: Path) -> "FoundHorizon":  # on return the model goes
        if changes is None or is_horizon(name):
            return read_horizon(name, **limits)
        with models.opened(name, folder / ASKED, label) as (who, bar):
            return find_horizon(who, changes, folder, callbacks=bar, **limits)

    found = [find_one(name, folder) for name, folder in zip(model, run_folders(out, model), strict=True)]
    _print(found, json_)
    shown.write(found, found[0].folder if len(found) == 1 else out)
    _end(found)


def _end(found: "list[FoundHorizon]") -> None:
    """A leak ends the command with its own code, and so does a claim that could not be tested."""
    if any(one.leak is not None and one.leak.error is not None for one in found):
        raise typer.Exit(NOT_JUDGED)
    if any(one.leak is not None and one.leak.leaked for one in found):
        raise typer.Exit(LEAKED)


def _month(option: str, text: str | None) -> int | None:
    """Months since the year 0. Raises `ConfigError` for what is no month."""
    from anachron.core.dates import Date
    from anachron.probe.horizon.changes import month_of

    try:
        return None if text is None else month_of(Date.parse(text))
    except DataError as error:
        raise ConfigError(f"{option}: {error}") from None


def _print(found: "list[FoundHorizon]", as_json: bool) -> None:
    from anachron.probe.horizon.find import compare_horizons, comparisons_json
    from anachron.report.terminal.horizon import comparison_lines, horizon_lines

    apart = comparisons_json(compare_horizons(found))
    if as_json:
        print_json({"models": [one.summary | {"run": str(one.folder)} for one in found], "comparisons": apart})
        return
    lines = [line for one in found for line in horizon_lines(one.summary, one.kinds)] + list(comparison_lines(apart))
    for line in lines:
        stdout().print(line, markup=False, highlight=False, soft_wrap=True)
    say(f"run folder: {', '.join(str(one.folder) for one in found)}")
