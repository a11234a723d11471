"""The command ``evaluate``: updates made in a model by several methods, and what they did."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anachron.analysis.plots.words import counted
from anachron.cli.commands import as_published, setting
from anachron.cli.edit_options import MethodOptions, StyleOptions, Updates
from anachron.cli.options import (
    FluencyTokens,
    JsonFlag,
    ModelArgument,
    ModelOptions,
    PrintStyle,
    UpdatesOptions,
    split_commas,
    update_counts,
)
from anachron.cli.output import on_screen, print_json, say, stdout
from anachron.cli.outputs import DEFAULT_RUN, NAMED_FOLDER
from anachron.edit.methods import METHODS

if TYPE_CHECKING:
    from anachron.report.edits.evaluated import EvaluatedUpdates


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions:
    """How updates are made and what is measured."""

    mode: Annotated[str, typer.Option(help="How updates are made: independent, batch, entity or sequential.")] = (
        "independent"
    )
    size: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of updates made together. Default: all of them in batch mode, one in sequential mode."
        ),
    ] = None
    after: Annotated[
        str | None,
        typer.Option(
            help="In batch or sequential mode: measure after these numbers of updates, such as 1,10,100, and "
            "after undoing one."
        ),
    ] = None
    text: Annotated[
        str | None, typer.Option(help="With --after: text to measure perplexity on: a file, a hub name, or mini.")
    ] = None
    text_tokens: Annotated[
        int | None, setting(min=2, help="Number of tokens to read from --text. Default: 10,000.")
    ] = None
    fluency_tokens: FluencyTokens = 100
    fluency_counts_prefix: Annotated[
        bool,
        as_published(
            "--fluency-counts-prefix", help="Count PROMPT's prefix among --fluency-tokens, as the published code does."
        ),
    ] = False
    generate: Annotated[
        bool,
        typer.Option(
            "--generate", help="Also let the model continue each prompt, and test whether it gives the object."
        ),
    ] = False
    audit: Annotated[
        bool,
        typer.Option(
            "--audit",
            help="Also let the model answer each prompt in full, and test whether the whole answer is the object.",
        ),
    ] = False
    audit_tokens: Annotated[
        int | None,
        setting(min=1, help="Maximum number of tokens per audited answer. Default: 50, or what a longer object needs."),
    ] = None
    token_accuracy: Annotated[
        bool,
        as_published(
            "--token-accuracy",
            help="Also report the share of target tokens that are the model's first choice, as papers on zsRE do.",
        ),
    ] = False
    batch_tokens: Annotated[
        int | None, setting(min=1, help="Maximum number of tokens scored at once. Default: chosen for the device.")
    ] = None
    dated: Annotated[
        bool,
        typer.Option(
            "--dated", help="Also ask with dates before and after each change, to see whether the past is kept."
        ),
    ] = False
    until: Annotated[
        str | None,
        typer.Option(help="With --dated: last date to ask about. Default: the latest change in the data set."),
    ] = None
    ways: Annotated[
        str | None,
        setting(
            help="With --dated: how to ask, any of prompt, paraphrase, question, separated by commas. Default: all."
        ),
    ] = None

    def settings(self) -> Any:
        """Those of a run of each update, or, with ``after``, of lifelong editing."""
        from anachron.core.errors import ConfigError
        from anachron.edit.corpus import open_corpus
        from anachron.evaluate.lifelong import LifelongSettings
        from anachron.evaluate.measure import Measures
        from anachron.evaluate.measures.audit import AnswerAudit
        from anachron.evaluate.measures.dated import WAYS, Dating
        from anachron.evaluate.measures.perplexity import TOKENS
        from anachron.evaluate.run import EvaluateSettings

        for option, value in (("--until", self.until), ("--ways", self.ways)):
            if value is not None and not self.dated:
                raise ConfigError(f"{option} {value}: it is for dated questions; add --dated, or leave it out")
        if self.audit_tokens is not None and not self.audit:
            raise ConfigError(f"--audit-tokens {self.audit_tokens} is for --audit; add it, or leave this out")
        ways = WAYS if self.ways is None else tuple(split_commas(self.ways))
        dating = Dating(self.until, ways=ways) if self.dated else None
        audit = AnswerAudit(self.audit_tokens) if self.audit else None
        measures = Measures(
            self.fluency_tokens, self.batch_tokens, self.generate, dating, self.token_accuracy, audit=audit,
            fluency_counts_prefix=self.fluency_counts_prefix,
        )  # fmt: skip
        if self.after is None:
            if self.text is not None or self.text_tokens is not None:
                raise ConfigError("--text and --text-tokens go with --after; add it, or leave them out")
            return EvaluateSettings(self.mode, self.size, measures)
        corpus = None if self.text is None else open_corpus(self.text)
        return LifelongSettings(
            update_counts("--after", self.after),
            self.mode,
            measures,
            corpus,
            self.text_tokens or TOKENS,
            self.size or 1,
        )


def evaluate(
    *,
    model: ModelArgument,
    updates: Updates,
    methods: Annotated[
        str,
        typer.Option(
            help=f"{', '.join(METHODS)}, separated by commas; 'ROME dated' states the date in its requests, "
            "'ROME METO' edits the old fact too, both with their dates."
        ),
    ],
    out: Annotated[
        Path, typer.Option(help="Run folder; further methods can be added to a finished one."), NAMED_FOLDER
    ] = DEFAULT_RUN,
    style: PrintStyle = "plain",
    measured: EvaluationOptions,
    selected: UpdatesOptions,
    needs: MethodOptions,
    asked: StyleOptions,
    loading: ModelOptions,
    json_: JsonFlag = False,
) -> None:
    """Make updates in a model with several methods, and measure efficacy, generalization, bleedover, fluency and time.

    If interrupted or killed, repeat the same command to resume.

    Example: anachron evaluate demo --updates mini-updates --methods FT,ROME,MEMIT,PROMPT --out runs/edits
    """
    from anachron.report.edits.evaluated import evaluate_updates
    from anachron.report.paper_tables import check_style

    settings = measured.settings()
    check_style(style)
    choice = needs.choose(split_commas(methods), model)
    cases = selected.load(updates, tell=True)
    choice.check_scenarios(cases)
    lm = asked.load(model, loading)
    planned, tuned = needs.prepare(lm, choice, cases, settings.measures, quiet=json_, tell=not json_)
    with on_screen().bar(model) as bar:
        evaluated = evaluate_updates(lm, cases, planned, out, settings, style=style, callbacks=bar)
    if json_:
        print_json({
            "dated": None, "atoke": None,
            **{name: summary.to_dicts() for name, (summary, _) in evaluated.summaries.items()},
            "tests": {name: tests.to_dicts() for name, tests in evaluated.tests.items()},
            **({} if evaluated.portability is None else {"portability": evaluated.portability.to_dicts()}),
            "tests_not_asked": evaluated.record["tests_not_asked"],
            "notes": evaluated.notes, "run": str(out), "left_out": dict(cases.left_out),
            "not_asked": evaluated.record["not_asked"], "old_ends_unknown": evaluated.record["old_ends_unknown"],
            "past_wordings_unknown": evaluated.record["past_wordings_unknown"],
            "tuned": [one.record() for one in tuned],
        })  # fmt: skip
    else:
        _print_evaluation(evaluated, out)


def _print_evaluation(evaluated: "EvaluatedUpdates", out: Path) -> None:
    from anachron.report.edits.dated import portability_table
    from anachron.report.edits.evaluated import REPORT
    from anachron.report.edits.paired_tests import paired_tests_table
    from anachron.report.edits.tables import edits_tables

    console = stdout()
    for name, (summary, layout) in evaluated.summaries.items():
        for table in edits_tables(summary, console.width, layout):
            console.print(table)
        if name in evaluated.tests and evaluated.tests[name].height:
            console.print(paired_tests_table(evaluated.tests[name]))
    if evaluated.portability is not None:
        console.print(portability_table(evaluated.portability))
    for reason, count in evaluated.record["tests_not_asked"].items():
        say(f"tests not asked: {count:,} of {reason}")
    for reason, count in evaluated.record["not_asked"].items():
        say(f"{reason}: {_updates(count)}")
    if count := evaluated.record["old_ends_unknown"]:
        say(f"asked about the past up to the change, since nothing says when the old object ended: {_updates(count)}")
    if count := evaluated.record["past_wordings_unknown"]:
        say(f"paraphrases asked in the present tense about the past, as no past wording is known: {_updates(count)}")
    for note in evaluated.notes:
        say(note)
    say(f"run folder: {out}; tables{' and figures' if any((out / REPORT).glob('*.svg')) else ''}: {out / REPORT}")


def _updates(count: int) -> str:
    return counted(count, "update")
