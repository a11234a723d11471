"""``check``."""

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anachron.cli.asking import AskOptions, Models
from anachron.cli.commands import as_published, setting
from anachron.cli.drawing import drawn
from anachron.cli.options import (
    AsOf,
    FactLimit,
    FactsFile,
    JsonFlag,
    Language,
    ModelArgument,
    ModelLabel,
    ModelOptions,
    ReadingOptions,
    Reuse,
)
from anachron.cli.output import print_json, say, stdout, tell_facts
from anachron.cli.outputs import DEFAULT_RUN, FILE, GROWN, NAMED_FOLDER
from anachron.cli.scorer_options import ReplicaOptions, ScorerOptions, TextOptions

if TYPE_CHECKING:
    from anachron.probe.ask.asking import AskSettings
    from anachron.probe.by_answers import Costs
    from anachron.probe.check.check import Check
    from anachron.probe.check.gate import Gate
    from anachron.probe.check.questions import CheckedFacts

NOT_MET, NOT_JUDGED, REPORT = 1, 2, "report"
Decoys = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="Other objects that each fact is compared with. Default: 5, and more where there are fewer than 20 "
        "facts, so that there are 100. A model that only answers is asked about a sample of 100 to 300 in all. "
        "With 0 no fact counts as known.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class GateOptions:
    """What is demanded of a model; a demand that is not met ends the command with code 1, one not judged with 2."""

    min_win_rate: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Fail if the mean win rate over the facts is below this (0 to 1)."),
    ] = None
    max_stale: Annotated[int | None, typer.Option(min=0, help="Fail if more facts than this are stale.")] = None
    baseline: Annotated[
        Path | None,
        typer.Option(help="Run folder of an earlier check; fail if W has fallen since by more than chance explains."),
    ] = None
    confidence: Annotated[
        float,
        setting(
            help="Confidence needed to say that facts are stale or that W fell below the baseline, 0.5 to below 1."
        ),
    ] = 0.95
    min_judged: Annotated[
        float,
        setting(min=0, max=1, help="Share (0 to 1) of the facts that can be asked which each demand must have judged."),
    ] = 1.0
    junit: Annotated[Path | None, typer.Option(help="Write a JUnit file, for continuous integration."), FILE] = None
    history: Annotated[
        Path | None, typer.Option(help="Append a line about this run to a .jsonl file, which the page draws."), GROWN
    ] = None

    def demands(self, out: Path) -> "Gate":
        """The gate of a check into a folder. Raises `ConfigError` for impossible demands, and `DataError` for a history
        to which nothing can be appended."""
        from anachron.core.errors import ConfigError
        from anachron.probe.check.gate import Gate
        from anachron.probe.check.history import read_history

        if self.history is not None:
            read_history(self.history)
        if self.baseline is not None and self.baseline.resolve() == out.resolve():
            raise ConfigError(f"--baseline {self.baseline} is the --out of this check; give that of an earlier one")
        return Gate(
            min_win_rate=self.min_win_rate,
            max_stale=self.max_stale,
            confidence=self.confidence,
            min_judged=self.min_judged,
        )


def check(
    *,
    model: ModelArgument,
    facts: FactsFile,
    out: Annotated[
        Path,
        typer.Option(help="Run folder for verdicts.csv, stale.csv, check.json and, in report/, the page."),
        NAMED_FOLDER,
    ] = DEFAULT_RUN,
    reading: ReadingOptions,
    as_of: AsOf = None,
    limit: FactLimit = None,
    language: Language = None,
    sampling: Annotated[
        str, as_published(help="How dates are chosen: near, or as in the papers (timestress, robustness-2025).")
    ] = "near",
    decoys: Decoys = None,
    gate: GateOptions,
    texts: TextOptions,
    scorer: ScorerOptions,
    replicas: ReplicaOptions,
    label: ModelLabel = None,
    loading: ModelOptions,
    asking: AskOptions,
    reuse: Reuse = None,
    page: Annotated[bool, setting(help="Write the page, if the extra report is installed.", callback=drawn)] = True,
    json_: JsonFlag = False,
) -> None:
    """Check whether a model knows your facts, and since when it is out of date: a verdict for each, a gate for your CI.

    Exit codes: 0 if every demand is met (or none was made); 1 if one is not; 2 if there is no verdict, because of bad
    input, a model that cannot be run, or answers about too few facts.

    Example: anachron check gpt2 --facts facts.csv --out runs/check --max-stale 2
    """
    from anachron.probe.check.check import check
    from anachron.probe.check.questions import read_facts
    from anachron.probe.runs import recorded_as_of

    demands = gate.demands(out)
    models = Models(asking, texts, scorer, replicas, loading, language=language)
    how, day = reading.reading(), as_of or recorded_as_of(out)
    asked = read_facts(facts, as_of=day, limit=limit, language=language, sampling=sampling, reading=how)
    tell_facts(asked.data)
    asked = _with_decoys(asked, decoys)

    def cost(settings: "AskSettings") -> "Costs":
        from anachron.probe.by_answers import cost_of_facts  # scores do without

        return cost_of_facts(asked, settings, demands, gate.baseline, language)

    if models.only_cost(cost):
        return
    with models.opened(model, out, label, reuse) as (who, bar):
        found = check(who, asked, out, gate=demands, baseline=gate.baseline, callbacks=bar)
    edited_here = scorer.backend == "transformers" and scorer.edit is None
    asked_as = [model, *(["--format", "chat"] if texts.format == "chat" else [])]
    asked_as += ["--chat-template", str(scorer.chat_template)] if scorer.chat_template else []
    _tell(found, gate, page=page, as_json=json_, asked_as=asked_as if edited_here else None)


def _with_decoys(facts: "CheckedFacts", number: int | None) -> "CheckedFacts":
    """The facts with so many decoys each; None leaves their number to the check."""
    from anachron.data.decoys import with_decoys, without_decoys

    if number is None:
        return facts
    return replace(facts, data=with_decoys(facts.data, number) if number else without_decoys(facts.data))


def _tell(found: "Check", gate: GateOptions, *, page: bool, as_json: bool, asked_as: list[str] | None) -> None:
    """Write what is asked for, and print what was found; a demand that is not met or not judged ends the command.

    asked_as: the model and its format, as ``advise`` takes them; None where that is none that can be edited.
    """
    from anachron.probe.check.check import STALE_RECORDS, write_junit
    from anachron.probe.check.history import append_history
    from anachron.report.studies import write_report

    if gate.junit is not None:
        write_junit(found, gate.junit)
    history = [] if gate.history is None else append_history(gate.history, found, say)
    folder = found.folder
    report = write_report([folder], folder / REPORT, figures=False, history=history).page if page else None
    if as_json:
        print_json(found.summary | {"run": str(found.folder), "report": None if report is None else str(report)})
    else:
        _print(found)
        if report is not None:
            say(f"page: {report}")
        if found.stale and asked_as is not None:
            words = ["anachron", "advise", *asked_as, "--updates", str(folder / STALE_RECORDS)]
            say(f"what to do about it: {shlex.join(words)}")
    if not found.judged:
        raise typer.Exit(NOT_JUDGED)
    if not found.passed:
        raise typer.Exit(NOT_MET)


def _print(found: "Check") -> None:
    from anachron.report.terminal.answers import answer_run_lines
    from anachron.report.terminal.verdicts import LEGEND, stale_lines, summary_lines, verdict_lines

    screen = stdout()
    for line in stale_lines(found.stale, screen.width):
        screen.print(line, soft_wrap=True)
    for fact in verdict_lines(found.verdicts, screen.width):
        screen.print(fact, soft_wrap=True)
    asked = found.summary.get("answers")
    if asked is None:
        screen.print(LEGEND, style="dim", markup=False)
    for line in (*summary_lines(found.summary), *(answer_run_lines(asked) if asked is not None else ())):
        screen.print(line, markup=False)
    for one in found.outcomes:
        verdict = "NO VERDICT" if one.error is not None else "passed" if one.passed else "FAILED"
        screen.print(f"{verdict}: {one.demand}; {one.error or one.words}", markup=False)
